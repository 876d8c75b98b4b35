//! A data directory, seen from outside: which files there are, and what is in them.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use weir_engine::Settings;
use weir_engine::settings::{Fsync, Journal};
use weir_journal::{Fs, OsFs};

use crate::support::{eventually, gateway};

/// What the lock is called; it stays when all data is gone.
const LOCK: &str = "LOCK";

/// Removed with the value.
#[derive(Debug)]
pub(crate) struct DataDir {
    root: TempDir,
}

impl DataDir {
    pub(crate) fn new() -> Self {
        Self { root: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// As it is typed.
    pub(crate) fn arg(&self) -> &str {
        self.path().to_str().unwrap()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path().join("journal")
    }

    /// Takes the directory, as soon as the last connection of the engine before has let go of it.
    async fn lock(&self) -> OsFs {
        let mut fs = None;
        eventually("the directory is free", async || {
            fs = OsFs::open(&self.journal()).ok();
            fs.is_some()
        })
        .await;
        fs.unwrap()
    }

    /// Waits until another process can have it.
    pub(crate) async fn becomes_free(&self) {
        drop(self.lock().await);
    }

    /// Settings of an engine in this process that has the directory.
    pub(crate) async fn settings(&self) -> Settings {
        self.settings_by_way_of(|fs| fs).await
    }

    /// The same with something between it and the disk.
    pub(crate) async fn settings_by_way_of(&self, between: impl FnOnce(Arc<dyn Fs>) -> Arc<dyn Fs>) -> Settings {
        let journal = Journal { fs: between(Arc::new(self.lock().await)), fsync: Fsync::Always };
        Settings { journal: Some(journal), ..gateway::settings() }
    }

    /// Every file that may hold data, by name.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        files(&self.journal())
    }

    /// Waits until no file is left.
    pub(crate) async fn becomes_empty(&self) {
        eventually("the data directory is empty", async || self.files().is_empty()).await;
    }

    /// Bytes that the files are long.
    pub(crate) fn length(&self) -> u64 {
        // A file may go away while it is looked at.
        self.files().iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// Bytes of the disk that the files take.
    pub(crate) fn space(&self) -> u64 {
        self.files().iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
    }

    /// The largest file.
    pub(crate) fn largest(&self) -> PathBuf {
        self.files().into_iter().max_by_key(|file| file.metadata().unwrap().blocks()).unwrap()
    }

    /// Whether some file has `bytes` in it.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        self.files().iter().any(|file| find(&std::fs::read(file).unwrap(), bytes).is_some())
    }

    /// Another directory with the same files, as `cp -r` makes it; files may come and go meanwhile.
    pub(crate) fn copy(&self) -> Self {
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

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.file_name().is_some_and(|name| name != LOCK));
    files.sort();
    files
}

/// Where `needle` begins.
pub(crate) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
