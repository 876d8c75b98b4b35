//! What the journal asks of a file system: one flat directory of files with positioned reads and writes.
//!
//! [`OsFs`](crate::OsFs) is the real one; the simulated one of the tests tears, loses and reorders. Neither knows what
//! is in the files.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::sync::Arc;

/// One flat directory.
pub trait Fs: Send + Sync + Debug {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A new, empty file for reading and writing; fails when it exists. Durable after [`Fs::sync_dir`].
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// An existing file, for reading and writing where the directory may be written to.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Removes a file; whoever has it open can still read it. Durable after [`Fs::sync_dir`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// The room there is.
    fn space(&self) -> io::Result<Space>;
}

/// One open file.
#[expect(clippy::len_without_is_empty, reason = "a system call that may fail; nobody asks whether it is 0")]
pub trait File: Send + Sync + Debug {
    /// Reads at `offset`; may be short, and is 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes `parts` one behind the other at `offset`; may be short.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Makes everything written so far, and the length, durable. After an error it is unknown what is durable.
    fn sync(&self) -> io::Result<()>;
    /// Reserves room up to `bytes` and extends the file with zeros to that length.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// A hint that what lies before `until` will not be used soon, so the system need not keep it in memory. It is only
    /// for what a sync has made durable: after a failed sync, the system's memory may be the only place where the
    /// bytes are.
    fn forget(&self, until: u64);
    /// Cuts the file, or extends it with zeros, to `bytes`.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// The file's length.
    fn len(&self) -> io::Result<u64>;
    /// Whether a directory still names the file; false when it was removed from under us.
    fn is_linked(&self) -> io::Result<bool>;
}

/// Room of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this user can still write.
    pub free: u64,
    /// Bytes that the file system holds altogether.
    pub total: u64,
}

/// Fills `buffer` from `offset` on, as far as the file goes. Returns how much that was.
pub(crate) fn read_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes all of `parts` at `offset`, in as many calls as it takes.
pub(crate) fn write_full(file: &dyn File, mut parts: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match file.write_at(parts, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                offset += count as u64;
                IoSlice::advance_slices(&mut parts, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
