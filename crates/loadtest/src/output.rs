//! Standard output of commands that end by themselves.

use std::io;

use anyhow::Context;

/// A reader that has seen enough closes the pipe: that is no failure.
///
/// # Errors
/// When it cannot be written to for another reason.
pub fn printed(result: io::Result<()>) -> anyhow::Result<()> {
    is_read(result).map(drop)
}

/// Whether the reader may want to see more.
///
/// # Errors
/// As [`printed`].
pub fn is_read(result: io::Result<()>) -> anyhow::Result<bool> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut write = || io::Write::write_all(&mut writer, b"row");
        assert!(is_read(write()).unwrap());
        drop(reader);
        assert!(!is_read(write()).unwrap());
        printed(write()).unwrap();
        assert!(printed(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
