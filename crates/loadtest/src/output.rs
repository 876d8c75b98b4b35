//! Standard output of commands that end by themselves.

use std::io;

use anyhow::Context;

/// A reader that has seen enough closes the pipe: that is no failure.
///
/// # Errors
/// When it cannot be written to for another reason.
pub fn printed(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
