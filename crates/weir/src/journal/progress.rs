//! How far reading has come, on a terminal: a file system that counts what is read of it.

use std::io::{self, IoSlice, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_journal::{File, Fs, OsFs, Space};

use crate::tables::bytes;

/// Work that takes no longer than this says nothing; longer work says how far it is this often.
const EVERY: Duration = Duration::from_millis(250);

/// A directory whose reading is watched.
#[derive(Debug)]
pub(super) struct Watched {
    fs: OsFs,
    meter: Arc<Meter>,
}

impl Watched {
    pub(super) fn new(fs: OsFs, shown: bool) -> Self {
        let state = Mutex::new(State { shown, printed: false, read: 0, last: Instant::now() });
        Self { fs, meter: Arc::new(Meter(state)) }
    }

    /// Takes the line away, to make room for what is printed next.
    pub(super) fn clear(&self) {
        self.meter.clear();
    }
}

#[derive(Debug)]
struct Meter(Mutex<State>);

#[derive(Debug)]
struct State {
    shown: bool,
    printed: bool,
    read: u64,
    last: Instant,
}

impl Meter {
    fn add(&self, count: usize) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.read += count as u64;
        if state.shown && state.last.elapsed() >= EVERY {
            state.last = Instant::now();
            state.printed = true;
            // Nothing depends on it.
            let _ = write!(io::stderr(), "\r{} read\x1b[K", bytes(state.read));
        }
    }

    fn clear(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.printed) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Fs for Watched {
    fn list(&self) -> io::Result<Vec<String>> {
        self.fs.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.fs.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(WatchedFile { file: self.fs.open(name)?, meter: Arc::clone(&self.meter) }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.fs.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.fs.sync_dir()
    }

    fn space(&self) -> io::Result<Space> {
        self.fs.space()
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    meter: Arc<Meter>,
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.file.read_at(buffer, offset)?;
        self.meter.add(count);
        Ok(count)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
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
