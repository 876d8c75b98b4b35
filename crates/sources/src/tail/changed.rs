//! Whether a directory is to be listed again.
//!
//! When a name is added to a directory or removed, the kernel sets the directory's time of change, and nobody else can.
//! So if that time is the same as before the last listing, a new listing would be the same.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// When something in a directory changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    seconds: i64,
    nanos: i64,
}

/// The clocks of file systems have steps, of two seconds at most: what changes in the same step has the same time.
const STEPS_SECONDS: i64 = 3;

impl Changed {
    /// `None` when there is no such directory.
    pub(super) fn of(directory: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(directory) {
            Ok(metadata) => Ok(Some(Self { seconds: metadata.ctime(), nanos: metadata.ctime_nsec() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether what changes from now on has another time.
    pub(super) fn is_over(self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_secs()).is_ok_and(|now| now.saturating_sub(self.seconds) >= STEPS_SECONDS)
    }
}
