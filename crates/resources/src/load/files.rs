//! Reads configuration files and directories.
//!
//! It knows nothing of YAML: a [`Source`] is a name and a text.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::diagnostic::{Diagnostic, Findings, Place};

/// All files of a configuration together, in bytes: enough for the pods of a large cluster. They are in memory at once.
pub const MAX_BYTES: u64 = 32 << 20;

/// One configuration text.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// The path shown in messages.
    pub name: String,
    /// YAML, any number of documents. May contain secrets.
    pub text: String,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("text_bytes", &self.text.len()).finish()
    }
}

/// The path that stands for the standard input.
const STDIN: &str = "-";

/// How files of a directory end that are configuration.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The files of a configuration, as far as they can be read.
#[derive(Debug, Default)]
pub struct Files {
    /// What could be read.
    pub sources: Vec<Source>,
    /// What could not.
    pub(super) unreadable: Vec<Diagnostic>,
}

impl Files {
    /// Reads files, `-` (the standard input, once for the process), and the `*.yaml`, `*.yml` and `*.json` files of
    /// directories in the order of their names (not those of their subdirectories, and no hidden files).
    ///
    /// There is one diagnostic for each path that is missing, cannot be read, is not UTF-8, is larger than what those
    /// before it leave of [`MAX_BYTES`], or is a directory without such a file, and for a `-` too many. They are told
    /// with everything else that is wrong.
    pub fn read(paths: &[PathBuf]) -> Self {
        let findings = Findings::default();
        let (mut sources, mut left) = (Vec::new(), MAX_BYTES);
        for (number, path) in paths.iter().enumerate() {
            if path == Path::new(STDIN) && paths[..number].contains(path) {
                let message = "cannot read the standard input twice";
                findings.push(Diagnostic::error(&Place::whole(STDIN), message).expected("- once"));
                continue;
            }
            for file in files_of(path, &findings) {
                let source = read_file(&file, left, &findings);
                left -= source.as_ref().map_or(0, |source| source.text.len() as u64);
                sources.extend(source);
            }
        }
        Self { sources, unreadable: findings.into_sorted() }
    }
}

/// What says whether [`Files::read`] would read the same again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<(PathBuf, Option<FileStamp>)>);

/// Device, inode, size, and the times of the last change of content and of anything else.
type FileStamp = (u64, u64, u64, [i64; 4]);

/// Looks at the same files as [`Files::read`], without reading them. Links are followed: a mounted `ConfigMap` changes by
/// another target of a link.
pub fn stamp(paths: &[PathBuf]) -> Stamp {
    let files = paths.iter().flat_map(|path| {
        let inside = if path.is_dir() { files_in(path).unwrap_or_default() } else { Vec::new() };
        std::iter::once(path.clone()).chain(inside)
    });
    let of = |metadata: fs::Metadata| {
        let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
        (metadata.dev(), metadata.ino(), metadata.size(), times)
    };
    Stamp(files.map(|file| (fs::metadata(&file).ok().map(of), file)).map(|(stamp, file)| (file, stamp)).collect())
}

fn files_of(path: &Path, findings: &Findings) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let at = Place::whole(&path.to_string_lossy());
    match files_in(path) {
        Err(error) => findings.push(Diagnostic::error(&at, format!("cannot read directory: {error}"))),
        Ok(files) if files.is_empty() => {
            let message = "cannot find configuration: the directory has no YAML or JSON file";
            findings.push(Diagnostic::error(&at, message).expected("at least one *.yaml, *.yml or *.json file"));
        }
        Ok(files) => return files,
    }
    Vec::new()
}

fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let wanted = path.extension().is_some_and(|found| EXTENSIONS.iter().any(|extension| found == *extension));
        if wanted && !hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// No more than a little over the limit.
fn content(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What it says can be read once, and holds as long as the process.
fn standard_input() -> io::Result<Vec<u8>> {
    static SAID: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(said) = SAID.get() {
        return Ok(said.clone());
    }
    let mut bytes = Vec::new();
    io::stdin().take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(SAID.get_or_init(|| bytes).clone())
}

fn read_file(path: &Path, left: u64, findings: &Findings) -> Option<Source> {
    let name = path.to_string_lossy().into_owned();
    let at = Place::whole(&name);
    let bytes = match if name == STDIN { standard_input() } else { content(path, left) } {
        Ok(bytes) => bytes,
        Err(error) => {
            findings.push(Diagnostic::error(&at, format!("cannot read file: {error}")));
            return None;
        }
    };
    if bytes.len() as u64 > left {
        let message = format!("cannot read file: with it the configuration is larger than {} MiB", MAX_BYTES >> 20);
        findings.push(Diagnostic::error(&at, message));
        return None;
    }
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Some(Source { name, text }),
        Err(error) => error,
    };
    let mut at = Place::start_of(&name);
    let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let line_start = valid.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    at.line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
    at.column = String::from_utf8_lossy(&valid[line_start..]).chars().count() + 1;
    findings.push(Diagnostic::error(&at, "cannot read file: it is not UTF-8").expected("YAML text in UTF-8"));
    None
}
