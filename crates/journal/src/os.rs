//! The real file system: one directory, locked by one process at a time.
//!
//! All names are resolved relative to the directory's descriptor, so a directory that is renamed stays the same one. It
//! does not know what is in the files.

use std::fs;
use std::io::{self, ErrorKind, IoSlice, Read as _};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags, fadvise};
use rustix::io::Errno;

use crate::fs::{File, Fs, Space};

/// The file that is locked.
const LOCK: &str = "LOCK";

/// Parts of one `pwritev`; the system takes no more.
const MAX_PARTS: usize = 1024;

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "cannot use the journal in {dir}: {} has it locked; stop that one, or give each instance a directory of its own",
        holder.as_ref().map_or_else(|| "another process".to_owned(), |pid| format!("the process with pid {pid}"))
    )]
    Held {
        /// The directory.
        dir: PathBuf,
        /// Who has it, where the lock file says so.
        holder: Option<u32>,
    },
    /// The system does not let us.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A directory of the real file system.
#[derive(Debug)]
pub struct OsFs {
    dir: OwnedFd,
    path: PathBuf,
    /// Held while this lives; none when read-only.
    lock: Option<fs::File>,
}

impl OsFs {
    /// Creates the directory (for this user alone) where there is none, and locks it.
    pub fn open(dir: &Path) -> Result<Self, LockError> {
        let fail = |action, path: &Path| {
            let path = path.to_owned();
            move |source| LockError::Io { action, path, source }
        };
        create_dir(dir).map_err(fail("create the directory", dir))?;
        let descriptor = open_dir(dir).map_err(fail("open the directory", dir))?;
        let lock_path = dir.join(LOCK);
        let mut lock = open_lock(&descriptor).map_err(fail("open the lock file", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(LockError::Held { dir: dir.to_owned(), holder: holder(&mut lock) });
            }
            Err(fs::TryLockError::Error(source)) => return Err(fail("lock", &lock_path)(source)),
        }
        // It only says who holds the lock: a disk that is full or read-only keeps nobody from reading what is there.
        let _ = sign(&mut lock);
        Ok(Self { dir: descriptor, path: dir.to_owned(), lock: Some(lock) })
    }

    /// For reading only: takes no lock, and everything that would change the directory fails.
    pub fn read_only(dir: &Path) -> io::Result<Self> {
        Ok(Self { dir: open_dir(dir)?, path: dir.to_owned(), lock: None })
    }

    /// The directory, as it was named when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn writable(&self) -> io::Result<()> {
        let refused = || io::Error::new(ErrorKind::ReadOnlyFilesystem, "the journal is open for reading only");
        self.lock.as_ref().map(|_| ()).ok_or_else(refused)
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<Arc<dyn File>> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Arc::new(OsFile(file.into())))
    }
}

/// Creates the directory and those above it, durably. A journal in a directory that a power loss removes would be worth
/// nothing.
fn create_dir(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    for created in missing {
        let parent = created.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match open_dir(parent) {
            Ok(parent) => rustix::fs::fsync(parent)?,
            // One that may be passed through and not read cannot be synced; nor is it ours.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens the lock file, which is written to: a file of ours, not one that a link leads to.
fn open_lock(dir: &OwnedFd) -> io::Result<fs::File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(dir, LOCK, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::LOOP) => return Err(io::Error::other("it is a symbolic link; remove it")),
        opened => fs::File::from(opened?),
    };
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::other("it is not a file of its own; remove it"));
    }
    Ok(file)
}

/// The pid in the lock file, written by the process that holds the lock.
fn holder(lock: &mut fs::File) -> Option<u32> {
    let mut text = String::new();
    lock.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Writes our pid. The old text is only cut off behind it, so that the block stays ours even when the disk is full.
fn sign(lock: &mut fs::File) -> io::Result<()> {
    let pid = format!("{}\n", std::process::id());
    lock.write_all_at(pid.as_bytes(), 0)?;
    lock.set_len(pid.len() as u64)
}

impl Fs for OsFs {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            // What is not UTF-8 is none of our files.
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != ".." && name != LOCK);
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.writable()?;
        self.open_with(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        if self.lock.is_none() {
            return self.open_with(name, OFlags::RDONLY);
        }
        match self.open_with(name, OFlags::RDWR) {
            // A disk that has become read-only still gives back what is on it.
            Err(error) if matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
                self.open_with(name, OFlags::RDONLY)
            }
            opened => opened,
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.writable()?;
        Ok(rustix::fs::unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.dir)?)
    }

    fn space(&self) -> io::Result<Space> {
        let found = rustix::fs::fstatvfs(&self.dir)?;
        Ok(Space { free: found.f_bavail * found.f_frsize, total: found.f_blocks * found.f_frsize })
    }
}

#[derive(Debug)]
struct OsFile(fs::File);

impl File for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.0, &parts[..parts.len().min(MAX_PARTS)], offset)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, bytes)?)
    }

    fn forget(&self, until: u64) {
        if let Some(length) = NonZeroU64::new(until) {
            // Memory that is not given back is no loss.
            let _ = fadvise(&self.0, 0, Some(length), Advice::DontNeed);
        }
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn is_linked(&self) -> io::Result<bool> {
        Ok(self.0.metadata()?.nlink() > 0)
    }
}
