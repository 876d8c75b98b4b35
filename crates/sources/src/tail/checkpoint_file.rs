//! The checkpoint file, in a directory of its own that one process at a time uses.
//!
//! A full disk, or a crash at any moment, costs no older line: lines are added at the end, and when the file is written
//! anew, it replaces the old one when it is complete.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::checkpoint::{self, Replay, Replayed, encode_header};

const NAME: &str = "positions";
const NEW_NAME: &str = "positions.new";

/// Why checkpoints cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot use {dir}: another process keeps its log positions there; stop it, or name another directory")]
    Held { dir: PathBuf },
    #[error(
        "cannot read {path}: its version is {version}, not {}; run the version of weir that wrote it, or remove the \
             file to read all logs as on a first start",
        checkpoint::VERSION
    )]
    Version { path: PathBuf, version: u32 },
    #[error("cannot use {path}: it is not a file of its own; remove it")]
    NotAFile { path: PathBuf },
    #[error("cannot keep log positions in {path}: somebody removed it; restart weir, or it forgets what it reads now")]
    Removed { path: PathBuf },
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// Reads the checkpoint file of a directory. It takes no lock and changes nothing; a process may be writing to the
/// file. Where there is no file, nothing is known.
pub(crate) fn read(dir: &Path) -> Result<Replayed, Error> {
    let path = dir.join(NAME);
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Replayed::default()),
        file => file.map_err(io_error("open", &path))?,
    };
    let replayed = replay(&file).map_err(io_error("read", &path))?;
    match replayed.foreign {
        Some(version) => Err(Error::Version { path, version }),
        None => Ok(replayed),
    }
}

/// Whether another process keeps its positions in this directory. What cannot be found out shows when it is opened.
pub(crate) fn is_held(dir: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::open(dir, flags, Mode::empty()) else { return false };
    // The lock goes with the descriptor.
    rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

/// The open checkpoint file.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    /// Locked as long as it is open.
    dir: OwnedFd,
    path: PathBuf,
    file: File,
    size: u64,
    /// There may be a part of a line after `size`.
    is_torn: bool,
    id: String,
}

impl CheckpointFile {
    /// Opens the checkpoint file of a directory, and makes both if they are missing. A new file gets the id `fresh_id`.
    /// [`Replayed::id`] is `None` then, and when the line with the id is damaged.
    pub(crate) fn open(dir: &Path, fresh_id: &str) -> Result<(Self, Replayed), Error> {
        let fail = |action| move |source: io::Error| Error::Io { action, path: dir.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(fail("create the directory"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(dir, flags, Mode::empty()).map_err(|errno| fail("open")(errno.into()))?;
        match rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Error::Held { dir: dir.to_owned() }),
            Err(errno) => return Err(fail("lock")(errno.into())),
        }
        let path = dir.join(NAME);
        let file = open_file(&descriptor, dir, NAME, OFlags::empty())?;
        let replayed = replay(&file).map_err(io_error("read", &path))?;
        if let Some(version) = replayed.foreign {
            return Err(Error::Version { path, version });
        }
        let is_torn = replayed.torn_tail.is_some();
        let id = replayed.id.clone().unwrap_or_else(|| fresh_id.to_owned());
        let mut opened = Self { dir: descriptor, path: dir.to_owned(), file, size: replayed.whole, is_torn, id };
        if replayed.id.is_none() {
            opened.append(&encode_header(fresh_id))?;
            opened.sync()?;
            opened.sync_dir()?;
        }
        Ok((opened, replayed))
    }

    /// Tells this file from others, and from one that took its place.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The bytes of all lines.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds whole lines. When this fails, none of them counts.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        let path = self.path.join(NAME);
        if self.is_torn {
            self.file.set_len(self.size).map_err(io_error("cut off a torn line of", &path))?;
            self.is_torn = false;
        }
        if let Err(source) = self.file.write_all_at(lines, self.size) {
            self.is_torn = self.file.set_len(self.size).is_err();
            return Err(io_error("write to", &path)(source));
        }
        self.size += lines.len() as u64;
        Ok(())
    }

    /// Makes everything that was added durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let path = self.path.join(NAME);
        self.file.sync_data().map_err(io_error("sync", &path))?;
        match self.file.metadata().map_err(io_error("look at", &path))?.nlink() {
            0 => Err(Error::Removed { path }),
            _ => Ok(()),
        }
    }

    /// Writes the file anew with `lines` alone: each one `encode`d, all that count. When this fails, the old file
    /// stays.
    pub(crate) fn compact(&mut self, lines: impl Iterator<Item = Vec<u8>>) -> Result<(), Error> {
        let path = self.path.join(NEW_NAME);
        let file = open_file(&self.dir, &self.path, NEW_NAME, OFlags::TRUNC)?;
        let written = write_lines(&file, std::iter::once(encode_header(&self.id)).chain(lines));
        let renamed = written.map_err(io_error("write", &path)).and_then(|size| {
            let renamed = rustix::fs::renameat(&self.dir, NEW_NAME, &self.dir, NAME);
            renamed.map(|()| size).map_err(|errno| io_error("rename", &path)(errno.into()))
        });
        match renamed {
            Ok(size) => {
                (self.file, self.size, self.is_torn) = (file, size, false);
                self.sync_dir()
            }
            Err(error) => {
                // It is in nobody's way but the disk's; the next attempt begins with an empty one.
                let _ = rustix::fs::unlinkat(&self.dir, NEW_NAME, rustix::fs::AtFlags::empty());
                Err(error)
            }
        }
    }

    fn sync_dir(&self) -> Result<(), Error> {
        rustix::fs::fsync(&self.dir).map_err(|errno| io_error("sync", &self.path)(errno.into()))
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { action, path, source }
}

/// Opens a file for this user alone, made where there is none: a file of ours, not one that a link leads to.
fn open_file(dir: &OwnedFd, path: &Path, name: &str, flags: OFlags) -> Result<File, Error> {
    let path = path.join(name);
    let flags = flags | OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP | Errno::ISDIR) => return Err(Error::NotAFile { path }),
        Err(errno) => return Err(io_error("open", &path)(errno.into())),
    };
    let found = file.metadata().map_err(io_error("look at", &path))?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(Error::NotAFile { path });
    }
    Ok(file)
}

fn replay(mut file: &File) -> io::Result<Replayed> {
    let mut replay = Replay::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(replay.finish()),
            Ok(length) => replay.feed(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns how many bytes were written, durably.
fn write_lines(file: &File, lines: impl Iterator<Item = Vec<u8>>) -> io::Result<u64> {
    let mut out = io::BufWriter::with_capacity(64 * 1024, file);
    let mut size = 0;
    for line in lines {
        out.write_all(&line)?;
        size += line.len() as u64;
    }
    out.flush()?;
    drop(out);
    file.sync_all()?;
    Ok(size)
}

#[cfg(test)]
mod tests;
