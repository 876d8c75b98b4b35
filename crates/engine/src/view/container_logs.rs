//! The figures that the source of container logs reports.

use std::time::Duration;

/// How container logs are read. Counts are since the start; the rest is as of the source's last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerLogFigures {
    /// Containers whose output is read.
    pub containers: u64,
    /// Of these, those of which nothing was read for a while although there is something.
    pub stuck: u64,
    /// Containers that are not read because there is no memory for what has to be known of them.
    pub without_memory: u64,
    /// Files that are open.
    pub open_files: u64,
    /// Bytes of files that were removed and are open: they stay on the disk until they are read.
    pub removed_open_bytes: u64,
    /// Bytes that are there and are not safe yet.
    pub bytes_behind: u64,
    /// The same, of the container that has most of them.
    pub most_bytes_behind: u64,
    /// The age of the oldest of these bytes.
    pub most_behind: Duration,
    /// Log records that are safe.
    pub records: u64,
    /// Bytes of files that are safe.
    pub bytes: u64,
    /// Files that got another name, or were compressed, while they were known.
    pub rotations: u64,
    /// NUL bytes that were left out.
    pub nul_bytes: u64,
    /// Records that are not quite what was written, by what is odd about them.
    pub odd: Vec<(&'static str, u64)>,
    /// Bytes that were written and could not be read, by the reason.
    pub lost_bytes: Vec<(&'static str, u64)>,
}
