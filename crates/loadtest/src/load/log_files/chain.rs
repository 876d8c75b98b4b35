//! The files of one container: the one that is written, those that were rotated, and those of the run before.
//!
//! The order of a rotation is the kubelet's: files beyond what is kept are deleted, the others compressed, and when that
//! is done the file that is written is renamed; then the runtime opens a new one. What is written in between goes to
//! the renamed file. The newest rotated file is never compressed.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::args::FateArgs;
use super::kubelet::{Counter, Desk, Job};
use crate::ids::IdSet;

/// First and last sequence of each stream in a file.
pub(super) type Held = [Option<(u64, u64)>; 2];

/// The files of one container.
#[derive(Debug)]
pub(super) struct Chain {
    directory: PathBuf,
    fate: Arc<FateArgs>,
    counter: Counter,
    desk: Arc<Desk>,
    live: Live,
    rotation: Rotation,
    rotated: Vec<Rotated>,
    /// Of the run before this one, all of them.
    former: Vec<Rotated>,
    last_stamp: i64,
    started: Instant,
    /// The newline of the last line is not written yet.
    owes_newline: bool,
    pub(super) books: Books,
}

/// What happened to the files.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) restarts: u32,
    pub(super) rotations: u64,
    pub(super) bytes: u64,
    pub(super) files: u64,
    pub(super) files_deleted: u64,
    pub(super) inodes_reused: u64,
    /// Of each stream the lines that stood in a file that was deleted, or cut off.
    pub(super) deleted: [IdSet; 2],
}

/// The file that is written.
#[derive(Debug)]
struct Live {
    file: File,
    path: PathBuf,
    size: u64,
    since: Instant,
    held: Held,
}

#[derive(Debug)]
struct Rotated {
    path: PathBuf,
    held: Held,
    compressed: bool,
}

/// How far a rotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rotation {
    Idle,
    /// Older files are being deleted and compressed.
    Tidying,
    /// Renamed, and still written to until then.
    Renamed(Instant),
}

/// How long until the next look at what somebody else is doing.
const LOOK: Duration = Duration::from_millis(1);
/// Bytes of a hole.
const HOLE: u64 = 64 << 10;

impl Chain {
    /// Makes the directory and opens `0.log`.
    ///
    /// # Errors
    /// The directory exists, or cannot be made.
    pub(super) fn create(directory: PathBuf, fate: Arc<FateArgs>, counter: Counter) -> anyhow::Result<Self> {
        let pod = directory.parent().context("a container's directory is in that of its pod")?;
        fs::create_dir_all(pod).with_context(|| format!("cannot make {}", pod.display()))?;
        fs::create_dir(&directory).with_context(|| {
            format!("cannot make {}: use another --seed or an empty directory", directory.display())
        })?;
        let desk = Arc::new(Desk::default());
        let mut books = Books::default();
        let live = Live::open(directory.join("0.log"), None, &mut books)?;
        let started = live.since;
        Ok(Self {
            directory,
            fate,
            counter,
            desk,
            live,
            rotation: Rotation::Idle,
            rotated: Vec::new(),
            former: Vec::new(),
            last_stamp: 0,
            started,
            owes_newline: false,
            books,
        })
    }

    /// Directory of the pod.
    pub(super) fn pod(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }

    /// Writes to the file that is open. With `--unterminated` a newline is written when something follows it.
    pub(super) fn append(&mut self, bytes: &[u8], held: &Held) -> anyhow::Result<()> {
        self.write_newline()?;
        let now = bytes.strip_suffix(b"\n").filter(|_| self.fate.unterminated);
        self.owes_newline = now.is_some();
        self.write(now.unwrap_or(bytes))?;
        for (all, new) in self.live.held.iter_mut().zip(held) {
            let first = all.or(*new).map(|(first, _)| first);
            let last = new.or(*all).map(|(_, last)| last);
            *all = first.zip(last);
        }
        Ok(())
    }

    fn write_newline(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.owes_newline) { self.write(b"\n") } else { Ok(()) }
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Live { file, path, size, .. } = &mut self.live;
        file.write_all(bytes).with_context(|| format!("cannot write to {}", path.display()))?;
        *size += bytes.len() as u64;
        self.books.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes the file longer without writing to it; a line that has no newline yet gets it before.
    pub(super) fn leave_hole(&mut self) -> anyhow::Result<()> {
        self.write_newline()?;
        let Live { file, path, size, .. } = &mut self.live;
        *size += HOLE;
        file.set_len(*size).with_context(|| format!("cannot make {} longer", path.display()))
    }

    /// Goes on with a rotation that is under way, or begins one that is due. `torn`: half a line was written, whose rest
    /// has to go to the same file.
    pub(super) fn tend(&mut self, now: Instant, torn: bool) -> anyhow::Result<()> {
        if self.fate.copy_truncate {
            return if torn || !self.rotation_is_due(now) { Ok(()) } else { self.copy_and_truncate() };
        }
        if self.rotation == Rotation::Idle && self.rotation_is_due(now) {
            self.tidy()?;
            self.rotation = Rotation::Tidying;
        }
        self.progress(now, torn)
    }

    fn progress(&mut self, now: Instant, torn: bool) -> anyhow::Result<()> {
        if self.rotation == Rotation::Tidying && self.counter.is_done(&self.desk)? {
            self.rename()?;
            self.rotation = Rotation::Renamed(now + self.fate.reopen_after);
        }
        if matches!(self.rotation, Rotation::Renamed(until) if until <= now) && !torn {
            self.reopen(self.books.restarts)?;
            self.rotation = Rotation::Idle;
        }
        Ok(())
    }

    /// Brings a rotation that is under way to its end.
    pub(super) fn settle(&mut self) -> anyhow::Result<()> {
        while self.rotation != Rotation::Idle {
            std::thread::park_timeout(LOOK);
            self.progress(Instant::now(), false)?;
        }
        let stays = self.fate.pods_live.is_none() && self.fate.delete_after.is_none();
        if stays { self.write_newline() } else { Ok(()) }
    }

    /// When [`Self::tend`] has something to do if nothing is written; none when nothing will be.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        match self.rotation {
            Rotation::Idle if self.live.size == 0 => None,
            Rotation::Idle => self.fate.rotate_every.map(|age| self.live.since + age),
            Rotation::Tidying => Some(now + LOOK),
            Rotation::Renamed(until) => Some(until),
        }
    }

    /// Whether the container is to be restarted now.
    pub(super) fn restart_is_due(&self, now: Instant) -> bool {
        let due = self.fate.restart_every.is_some_and(|age| now.duration_since(self.started) >= age);
        due && self.rotation == Rotation::Idle
    }

    /// When the container is to be restarted.
    pub(super) fn next_restart(&self) -> Option<Instant> {
        self.fate.restart_every.map(|age| self.started + age)
    }

    /// The container ends and starts again; of the runs before, only the last keeps its files.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        for old in std::mem::take(&mut self.former) {
            self.delete(old)?;
        }
        let ended = Rotated { path: self.live.path.clone(), held: self.live.held, compressed: false };
        self.former = std::mem::take(&mut self.rotated);
        self.former.push(ended);
        self.books.restarts += 1;
        self.reopen(self.books.restarts)?;
        self.started = self.live.since;
        Ok(())
    }

    /// Removes the directory of the pod, with all lines in it.
    pub(super) fn remove(&mut self) -> anyhow::Result<()> {
        let files = self.former.drain(..).chain(self.rotated.drain(..));
        for held in files.map(|file| file.held).chain([self.live.held]) {
            self.books.files_deleted += 1;
            forget(&mut self.books.deleted, held);
        }
        self.live.held = Held::default();
        self.counter.submit(&self.desk, Job::Remove(self.pod().to_owned()))
    }

    fn rotation_is_due(&self, now: Instant) -> bool {
        let Live { size, since, .. } = &self.live;
        let large = self.fate.rotate_size.is_some_and(|limit| *size >= limit);
        let old = self.fate.rotate_every.is_some_and(|age| now.saturating_duration_since(*since) >= age);
        *size > 0 && (large || old)
    }

    fn tidy(&mut self) -> anyhow::Result<()> {
        // With the file that is about to be rotated and the one after it, as many as are kept.
        let older = usize::from(self.fate.keep).saturating_sub(2);
        let excess = self.rotated.len().saturating_sub(older);
        for old in self.rotated.drain(..excess).collect::<Vec<_>>() {
            self.delete(old)?;
        }
        if self.fate.no_gzip {
            return Ok(());
        }
        for file in self.rotated.iter_mut().filter(|file| !file.compressed) {
            file.compressed = true;
            self.counter.submit(&self.desk, Job::Compress(file.path.clone()))?;
        }
        Ok(())
    }

    /// Rotates as logrotate does for who keeps a file open: whoever reads `N.log` finds it shorter than it was. The copy
    /// has a name that no kubelet gives, so its lines count as deleted.
    fn copy_and_truncate(&mut self) -> anyhow::Result<()> {
        let Live { file, path, size, since, held } = &mut self.live;
        let copy = path.with_extension("log.1");
        fs::copy(&path, &copy).with_context(|| format!("cannot copy {}", path.display()))?;
        file.set_len(0).with_context(|| format!("cannot cut off {}", path.display()))?;
        forget(&mut self.books.deleted, std::mem::take(held));
        (*size, *since) = (0, Instant::now());
        self.owes_newline = false;
        self.books.rotations += 1;
        Ok(())
    }

    fn delete(&mut self, file: Rotated) -> anyhow::Result<()> {
        self.books.files_deleted += 1;
        forget(&mut self.books.deleted, file.held);
        self.counter.submit(&self.desk, Job::Delete(file.path))
    }

    /// Renames the file that is written. The stamp is ahead of the clock if files are rotated more than once a second.
    fn rename(&mut self) -> anyhow::Result<()> {
        self.last_stamp = (self.last_stamp + 1).max(Timestamp::now().as_second());
        let time = Timestamp::from_second(self.last_stamp).context("the time has no date")?;
        let stamp = time.to_zoned(TimeZone::UTC).strftime("%Y%m%d-%H%M%S").to_string();
        let path = self.directory.join(format!("{}.log.{stamp}", self.books.restarts));
        fs::rename(&self.live.path, &path).with_context(|| format!("cannot rename {}", self.live.path.display()))?;
        self.live.path = path;
        self.books.rotations += 1;
        Ok(())
    }

    /// Leaves the file that is written, and opens a new one.
    fn reopen(&mut self, restart: u32) -> anyhow::Result<()> {
        let desk = Some(&*self.desk).filter(|desk| self.fate.reuse_inodes && desk.has_freed());
        let live = Live::open(self.directory.join(format!("{restart}.log")), desk, &mut self.books)?;
        let left = std::mem::replace(&mut self.live, live);
        self.owes_newline = false;
        if matches!(self.rotation, Rotation::Renamed(_)) {
            self.rotated.push(Rotated { path: left.path, held: left.held, compressed: false });
        }
        Ok(())
    }
}

fn forget(deleted: &mut [IdSet; 2], held: Held) {
    for (deleted, (first, last)) in deleted.iter_mut().zip(held).filter_map(|(set, held)| Some((set, held?))) {
        deleted.insert(first..=last);
    }
}

/// How many files are made in the hope for one with an inode that was used before.
const ATTEMPTS: usize = 32;

impl Live {
    fn open(path: PathBuf, reuse: Option<&Desk>, books: &mut Books) -> anyhow::Result<Self> {
        let reused = reuse.and_then(|desk| reused(&path, desk));
        let file = match reused {
            Some(file) => Ok(file),
            None => OpenOptions::new().append(true).create_new(true).open(&path),
        };
        let file = file.with_context(|| format!("cannot make {}", path.display()))?;
        books.files += 1;
        let inode = file.metadata().with_context(|| format!("cannot look at {}", path.display()))?.ino();
        books.inodes_reused += u64::from(reuse.is_some_and(|desk| desk.takes_back(inode)));
        Ok(Self { file, path, size: 0, since: Instant::now(), held: Held::default() })
    }
}

/// A file at `path` with an inode that was freed, if one can be had: tries under hidden names, and moves what fits.
fn reused(path: &Path, desk: &Desk) -> Option<File> {
    let mut tried = Vec::new();
    let mut found = None;
    for attempt in 0..ATTEMPTS {
        let name = path.with_file_name(format!(".try-{attempt}"));
        let Ok(file) = OpenOptions::new().append(true).create_new(true).open(&name) else { break };
        let fits = file.metadata().is_ok_and(|metadata| desk.knows(metadata.ino()));
        if fits && fs::rename(&name, path).is_ok() {
            found = Some(file);
            break;
        }
        tried.push((name, file));
    }
    for (name, _file) in tried {
        // What is left over is hidden, and goes with the directory.
        let _ = fs::remove_file(name);
    }
    found
}
