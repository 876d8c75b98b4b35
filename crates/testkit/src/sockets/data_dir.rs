//! A data directory, seen from outside: which files there are, and what is in them.

use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weir_journal::OsFs;

use super::eventually;

/// What the lock is called; it stays when all data is gone.
const LOCK: &str = "LOCK";

/// A file system in memory, if there is one. A disk that other programs keep busy may take seconds for a write, and then
/// Weir rightly tells clients to send again. That is tested with a disk which hangs when the test wants it.
const MEMORY: &str = "/dev/shm";

/// No test writes as much.
const ROOMY: u64 = 2 << 30;

/// Removed with the value.
#[derive(Debug)]
pub struct DataDir {
    root: TempDir,
}

impl DataDir {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "it is made on the disk")]
    pub fn new() -> Self {
        let root = if is_roomy(MEMORY) { TempDir::new_in(MEMORY) } else { TempDir::new() };
        Self { root: root.unwrap() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// As it is typed.
    pub fn arg(&self) -> &str {
        self.path().to_str().unwrap()
    }

    /// Where the journal is in it.
    pub fn journal(&self) -> PathBuf {
        self.path().join("journal")
    }

    /// Locks the directory, as soon as the last connection of the previous engine has let go of it.
    pub async fn lock(&self) -> OsFs {
        let mut fs = None;
        eventually("the directory is free", async || {
            fs = OsFs::open(&self.journal()).ok();
            fs.is_some()
        })
        .await;
        fs.unwrap()
    }

    /// Waits until another process can have it.
    pub async fn becomes_free(&self) {
        drop(self.lock().await);
    }

    /// Every file that may hold data, by name.
    pub fn files(&self) -> Vec<PathBuf> {
        files(&self.journal())
    }

    /// Waits until no file is left.
    pub async fn becomes_empty(&self) {
        eventually("the data directory is empty", async || self.files().is_empty()).await;
    }

    /// Bytes that the files are long.
    pub fn length(&self) -> u64 {
        // A file may go away while it is looked at.
        self.files().iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// Bytes of the disk that the files take.
    pub fn space(&self) -> u64 {
        self.files().iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
    }

    /// The largest file.
    pub fn largest(&self) -> PathBuf {
        self.files().into_iter().max_by_key(|file| file.metadata().unwrap().blocks()).unwrap()
    }

    /// Whether some file has `bytes` in it.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        self.files().iter().any(|file| find(&std::fs::read(file).unwrap(), bytes).is_some())
    }

    /// Another directory with the same files, as `cp -r` makes it; files may come and go meanwhile.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        copy.fill_from(&self.journal());
        copy
    }

    fn fill_from(&self, journal: &Path) {
        std::fs::create_dir(self.journal()).unwrap();
        for file in files(journal) {
            match std::fs::copy(&file, self.journal().join(file.file_name().unwrap())) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
            }
        }
    }
}

fn is_roomy(dir: &str) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|found| found.f_bavail * found.f_frsize >= ROOMY)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.file_name().is_some_and(|name| name != LOCK));
    files.sort();
    files
}

/// Where `needle` begins.
pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Turns every bit of a byte of a file.
pub fn flip(file: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}
