//! A view of a [`SimFs`] that tells of each call before it is made, so that a test can step in: make that call fail, or
//! let another thread go first.

use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;

use weir_journal::{File, Fs, Space};

use crate::{Operation, SimFs};

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// What.
    pub operation: Operation,
    /// On which file.
    pub file: &'a str,
    /// The end of the bytes that are to be read or written; 0 for other operations.
    pub end: u64,
}

type Tell = Arc<dyn Fn(Call<'_>) + Send + Sync>;

/// The view. It does not notice other views of the same file system, or the file system itself.
pub struct Watched {
    fs: SimFs,
    tell: Tell,
}

struct WatchedFile {
    file: Arc<dyn File>,
    name: String,
    tell: Tell,
}

impl Watched {
    /// Tells of creating, opening and removing files, and of reading and writing them.
    pub fn new(fs: SimFs, tell: impl Fn(Call<'_>) + Send + Sync + 'static) -> Self {
        Self { fs, tell: Arc::new(tell) }
    }

    fn tell(&self, operation: Operation, file: &str) {
        (self.tell)(Call { operation, file, end: 0 });
    }

    fn watch(&self, name: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(WatchedFile { file, name: name.to_owned(), tell: Arc::clone(&self.tell) })
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("fs", &self.fs).finish_non_exhaustive()
    }
}

impl fmt::Debug for WatchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Fs for Watched {
    fn list(&self) -> io::Result<Vec<String>> {
        self.fs.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.tell(Operation::Create, name);
        self.fs.create(name).map(|file| self.watch(name, file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.tell(Operation::Open, name);
        self.fs.open(name).map(|file| self.watch(name, file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.tell(Operation::Remove, name);
        self.fs.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.fs.sync_dir()
    }

    fn space(&self) -> io::Result<Space> {
        self.fs.space()
    }
}

impl WatchedFile {
    fn tell(&self, operation: Operation, end: u64) {
        (self.tell)(Call { operation, file: &self.name, end });
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.tell(Operation::Read, offset + buffer.len() as u64);
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.tell(Operation::Write, offset + bytes as u64);
        self.file.write_at(parts, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn forget(&self, until: u64) {
        self.file.forget(until);
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn is_linked(&self) -> io::Result<bool> {
        self.file.is_linked()
    }
}
