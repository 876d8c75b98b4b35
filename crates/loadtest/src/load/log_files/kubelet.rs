//! The kubelet's one worker for log files: compresses and deletes in the background, one file after the other.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Something to do with a container's files.
#[derive(Debug)]
pub(super) enum Job {
    /// Compress this file: `.tmp`, rename, unlink.
    Compress(PathBuf),
    /// Delete this file, compressed or not.
    Delete(PathBuf),
    /// Remove this directory and everything in it.
    Remove(PathBuf),
}

/// The worker; it ends when all its desks are gone.
#[derive(Debug)]
pub(super) struct Kubelet {
    jobs: Sender<(Job, Arc<Desk>)>,
    failed: Arc<AtomicBool>,
    worker: JoinHandle<anyhow::Result<()>>,
}

/// What a container and the worker know of each other.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pending: AtomicU64,
    /// Inodes of deleted files, when anybody wants to know.
    freed: Mutex<HashSet<u64>>,
}

/// Most inodes remembered.
const FREED: usize = 256;

impl Desk {
    /// Whether this inode was freed; forgets it.
    pub(super) fn takes_back(&self, inode: u64) -> bool {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner).remove(&inode)
    }

    /// Whether this inode was freed.
    pub(super) fn knows(&self, inode: u64) -> bool {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner).contains(&inode)
    }

    /// Whether any inode was freed and not taken back.
    pub(super) fn has_freed(&self) -> bool {
        !self.freed.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn freed(&self, inode: u64) {
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        // The file system gives out what was freed last, or something else.
        if freed.len() >= FREED {
            freed.clear();
        }
        freed.insert(inode);
    }
}

/// Where jobs are given to the worker.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    jobs: Sender<(Job, Arc<Desk>)>,
    failed: Arc<AtomicBool>,
}

impl Counter {
    /// Whether everything on `desk` is done.
    ///
    /// # Errors
    /// The worker has failed: it never will be.
    pub(super) fn is_done(&self, desk: &Desk) -> anyhow::Result<bool> {
        ensure!(!self.failed.load(Ordering::Acquire), "compressing and deleting has failed");
        Ok(desk.pending.load(Ordering::Acquire) == 0)
    }

    /// Gives a job to the worker.
    ///
    /// # Errors
    /// The worker has failed.
    pub(super) fn submit(&self, desk: &Arc<Desk>, job: Job) -> anyhow::Result<()> {
        desk.pending.fetch_add(1, Ordering::AcqRel);
        self.jobs.send((job, Arc::clone(desk))).map_err(|_| anyhow!("compressing and deleting has failed"))
    }
}

impl Kubelet {
    /// Starts the worker.
    ///
    /// # Errors
    /// There can be no more threads.
    pub(super) fn start() -> anyhow::Result<Self> {
        let (jobs, inbox) = mpsc::channel();
        let failed = Arc::new(AtomicBool::new(false));
        let failure = Arc::clone(&failed);
        let worker = std::thread::Builder::new().name("kubelet".into()).spawn(move || {
            let result = work(&inbox);
            failure.store(result.is_err(), Ordering::Release);
            result
        });
        Ok(Self { jobs, failed, worker: worker.context("cannot start a thread")? })
    }

    pub(super) fn counter(&self) -> Counter {
        Counter { jobs: self.jobs.clone(), failed: Arc::clone(&self.failed) }
    }

    /// Waits until everything that was submitted is done; all counters must be gone.
    ///
    /// # Errors
    /// A job failed.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        drop(self.jobs);
        self.worker.join().map_err(|_| anyhow!("the kubelet's thread panicked"))?
    }
}

fn work(inbox: &Receiver<(Job, Arc<Desk>)>) -> anyhow::Result<()> {
    while let Ok((job, desk)) = inbox.recv() {
        match job {
            Job::Compress(path) => {
                compress(&path, &desk).with_context(|| format!("cannot compress {}", path.display()))?;
            }
            Job::Delete(path) => delete(&path, &desk).with_context(|| format!("cannot delete {}", path.display()))?,
            Job::Remove(path) => {
                fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        desk.pending.fetch_sub(1, Ordering::AcqRel);
    }
    Ok(())
}

fn compress(path: &Path, desk: &Desk) -> io::Result<()> {
    let temporary = suffixed(path, ".tmp");
    let mut encoder = GzEncoder::new(File::create(&temporary)?, Compression::fast());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?;
    fs::rename(&temporary, compressed(path))?;
    unlink(path, desk)
}

fn delete(path: &Path, desk: &Desk) -> io::Result<()> {
    match unlink(path, desk) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => unlink(&compressed(path), desk),
        result => result,
    }
}

fn unlink(path: &Path, desk: &Desk) -> io::Result<()> {
    let inode = fs::symlink_metadata(path)?.ino();
    fs::remove_file(path)?;
    desk.freed(inode);
    Ok(())
}

/// Name of `path` after it was compressed.
pub(super) fn compressed(path: &Path) -> PathBuf {
    suffixed(path, ".gz")
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
