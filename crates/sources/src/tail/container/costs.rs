//! What has to be known of a container and its files takes memory, which is paid for.

use std::io;

use weir_engine::Permit;

use super::Output;

/// What has to be known of a container takes so much memory, with [`FILES_PAID`] files.
pub(in crate::tail) const CONTAINER_BYTES: usize = 8 << 10;
const FILES_PAID: usize = 8;

/// What has to be known of each further file.
const FILE_BYTES: usize = 512;

impl Output {
    /// Pays for what has to be known of so many files, and for no more.
    pub(super) fn pay_for(&mut self, files: usize) -> io::Result<()> {
        let Some(paid) = &mut self.paid else { return Ok(()) };
        let wanted = CONTAINER_BYTES + files.saturating_sub(FILES_PAID) * FILE_BYTES;
        let more = (wanted + Permit::OVERHEAD_BYTES).saturating_sub(paid.bytes());
        if more > 0 && !paid.grow(more) {
            return Err(io::Error::other(format!("there is no memory for what has to be known of {files} files")));
        }
        paid.shrink_to(wanted);
        Ok(())
    }
}
