//! The one writer.

use std::io;
use std::sync::Arc;

use crate::fs::{Fs, Space};
use crate::{AppendError, Durability, Entry, Journal, NewEntry, Options};

/// The only one who writes to the directory.
#[derive(Debug)]
pub struct Writer {
    fs: Arc<dyn Fs>,
    _options: Options,
    _journal: Arc<Journal>,
}

impl Writer {
    pub(crate) fn new(fs: Arc<dyn Fs>, options: Options, journal: Arc<Journal>) -> Self {
        Self { fs, _options: options, _journal: journal }
    }

    /// Appends a group: one write and, when `Synced`, one fsync. On error none of it is owed to anybody.
    pub fn append(&mut self, _: &[NewEntry<'_>], _now_ms: u64, _: Durability) -> Result<Vec<Entry>, AppendError> {
        Err(AppendError::UnknownQueue)
    }

    /// Makes everything appended durable.
    pub fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Writes down completions and deletes segments that nobody is owed.
    pub fn tidy(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The room there is.
    pub fn space(&self) -> io::Result<Space> {
        self.fs.space()
    }
}
