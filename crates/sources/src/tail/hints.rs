//! Hints of the kernel that something has changed in a directory (inotify). They make reading quick. Nothing depends on
//! them: queues overflow, watches are limited, and some file systems give no hints at all.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Room for hints that are read at once: some thousand.
const BUFFER_BYTES: usize = 64 << 10;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Watch(i32);

/// What a hint says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    /// A file or directory came, left or has another name.
    Names(Watch),
    /// Something was written to a file.
    Written(Watch),
    /// Something was written to a file that is rotated already.
    WrittenLate(Watch),
    /// The directory is gone, and so is the watch.
    Gone(Watch),
    /// Hints were lost.
    Lost,
}

/// A source of hints.
#[derive(Debug)]
pub(super) struct Hints {
    inotify: OwnedFd,
    buffer: Box<[MaybeUninit<u8>]>,
}

impl Hints {
    /// # Errors
    /// When the kernel has none left for this user.
    pub(super) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self { inotify, buffer: Box::new_uninit_slice(BUFFER_BYTES) })
    }

    /// Watches for directories that come and leave.
    pub(super) fn watch_directories(&self, path: &Path) -> io::Result<Watch> {
        self.add(path, NAMES)
    }

    /// Watches for files that come, leave and grow.
    pub(super) fn watch_files(&self, path: &Path) -> io::Result<Watch> {
        self.add(path, NAMES | WatchFlags::MODIFY)
    }

    fn add(&self, path: &Path, what: WatchFlags) -> io::Result<Watch> {
        let flags = what | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW | WatchFlags::EXCL_UNLINK;
        Ok(Watch(inotify::add_watch(&self.inotify, path, flags)?))
    }

    /// No more hints of this.
    pub(super) fn forget(&self, watch: Watch) {
        // The kernel forgets a directory that is gone by itself.
        let _ = inotify::remove_watch(&self.inotify, watch.0);
    }

    /// Waits until there are hints, or for this long.
    pub(super) fn wait(&self, patience: Duration) -> io::Result<()> {
        let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], Some(&patience)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// All pending hints.
    pub(super) fn take(&mut self, mut each: impl FnMut(Hint)) -> io::Result<()> {
        let mut reader = inotify::Reader::new(&self.inotify, &mut self.buffer);
        loop {
            match reader.next() {
                Ok(event) => each(meaning(Watch(event.wd()), event.events(), event.file_name())),
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

const NAMES: WatchFlags =
    WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::MOVED_FROM).union(WatchFlags::DELETE);

fn meaning(watch: Watch, events: ReadFlags, file: Option<&CStr>) -> Hint {
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        Hint::Lost
    } else if events.contains(ReadFlags::IGNORED) {
        Hint::Gone(watch)
    } else if events.contains(ReadFlags::MODIFY) && file.is_some_and(is_rotated) {
        Hint::WrittenLate(watch)
    } else if events.contains(ReadFlags::MODIFY) {
        Hint::Written(watch)
    } else {
        Hint::Names(watch)
    }
}

/// Whether a file has a name that no runtime begins a file with. Nobody writes late to what the kubelet compresses.
fn is_rotated(file: &CStr) -> bool {
    let endings: [&[u8]; 3] = [b".log", b".tmp", b".gz"];
    !endings.iter().any(|ending| file.to_bytes().ends_with(ending))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn taken(hints: &mut Hints) -> Vec<Hint> {
        let mut taken = Vec::new();
        hints.wait(Duration::from_secs(10)).unwrap();
        hints.take(|hint| taken.push(hint)).unwrap();
        taken.dedup();
        taken
    }

    #[test]
    fn what_happens_in_a_directory_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let mut hints = Hints::new().unwrap();
        let watch = hints.watch_files(directory.path()).unwrap();
        let file = directory.path().join("0.log");
        fs::write(&file, "").unwrap();
        assert_eq!(taken(&mut hints), [Hint::Names(watch)]);
        fs::write(&file, "a line\n").unwrap();
        assert_eq!(taken(&mut hints), [Hint::Written(watch)]);
        fs::rename(&file, directory.path().join("0.log.1")).unwrap();
        assert_eq!(taken(&mut hints), [Hint::Names(watch)]);
        fs::write(directory.path().join("0.log.1"), "a late line\n").unwrap();
        assert_eq!(taken(&mut hints), [Hint::WrittenLate(watch)]);
        drop(directory);
        assert_eq!(taken(&mut hints), [Hint::Names(watch), Hint::Gone(watch)]);
    }

    /// LOG-9: more has happened than the kernel keeps for us.
    #[test]
    fn hints_that_are_lost_are_said_to_be() {
        let kept = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let kept: u32 = kept.trim().parse().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut hints = Hints::new().unwrap();
        hints.watch_files(directory.path()).unwrap();
        let names = [directory.path().join("0.log"), directory.path().join("1.log")];
        fs::write(&names[0], "").unwrap();
        // Two hints each.
        for turn in 0..=kept as usize / 2 {
            fs::rename(&names[turn % 2], &names[(turn + 1) % 2]).unwrap();
        }
        let mut is_lost = false;
        hints.wait(Duration::from_secs(10)).unwrap();
        hints.take(|hint| is_lost |= hint == Hint::Lost).unwrap();
        assert!(is_lost);
    }

    #[test]
    fn a_directory_that_is_forgotten_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut hints = Hints::new().unwrap();
        let watch = hints.watch_directories(directory.path()).unwrap();
        hints.forget(watch);
        assert_eq!(taken(&mut hints), [Hint::Gone(watch)]);
        fs::write(directory.path().join("0.log"), "").unwrap();
        hints.wait(Duration::from_millis(20)).unwrap();
        hints.take(|hint| panic!("{hint:?}")).unwrap();
    }

    #[test]
    fn what_is_no_directory_cannot_be_watched() {
        let directory = tempfile::tempdir().unwrap();
        let hints = Hints::new().unwrap();
        assert!(hints.watch_files(&directory.path().join("gone")).is_err());
        fs::write(directory.path().join("file"), "").unwrap();
        assert!(hints.watch_files(&directory.path().join("file")).is_err());
    }
}
