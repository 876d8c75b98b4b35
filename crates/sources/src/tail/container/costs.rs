//! Pays for the state of a container and its files.

use std::io;

use weir_engine::Permit;

use super::Output;

/// The state of a container with [`FILES_PAID`] files takes so much memory; see the test of this name.
pub(in crate::tail) const CONTAINER_BYTES: usize = 8 << 10;
const FILES_PAID: usize = 8;

/// The state of each further file.
const FILE_BYTES: usize = 512;

impl Output {
    /// Pays for the state of so many files, and for no more.
    pub(super) fn pay_for(&mut self, files: usize) -> io::Result<()> {
        let Some(paid) = &mut self.paid else { return Ok(()) };
        let wanted = CONTAINER_BYTES + files.saturating_sub(FILES_PAID) * FILE_BYTES;
        let more = (wanted + Permit::OVERHEAD_BYTES).saturating_sub(paid.bytes());
        if more > 0 && !paid.grow(more) {
            return Err(io::Error::other(format!("there is no memory for the state of {files} files")));
        }
        paid.shrink_to(wanted);
        Ok(())
    }
}
