//! What was written, as JSON: what the judge compares with what arrived.

use serde::{Deserialize, Serialize};

use super::args::{Format, LineShape};
use crate::lines::Stream;

/// What a run wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Seconds from the first line to the last.
    pub seconds: f64,
    /// What the runtime made of lines.
    pub format: Format,
    /// What the application wrote.
    pub shape: LineShape,
    /// Bytes of each line, as the application wrote it.
    pub line_bytes: u64,
    /// Decides about everything that is random.
    pub seed: u64,
    /// Lines of all containers.
    pub lines: u64,
    /// Bytes in files.
    pub bytes: u64,
    /// CPU seconds of this process.
    pub cpu_seconds: f64,
    /// Why the writer itself was the limit, when it was.
    pub bottleneck: Option<String>,
    /// Each container.
    pub containers: Vec<ContainerEntry>,
}

/// What one container wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerEntry {
    /// Where it ran.
    #[serde(flatten)]
    pub pod: Pod,
    /// Bytes in its files.
    pub bytes: u64,
    /// Times it was restarted.
    pub restarts: u32,
    /// Times a file was rotated.
    pub rotations: u64,
    /// Files it wrote to.
    pub files: u64,
    /// Of these, how many were deleted.
    pub files_deleted: u64,
    /// Files that got the inode of a deleted one.
    pub inodes_reused: u64,
    /// Its two streams.
    pub streams: Vec<StreamEntry>,
}

/// What one container wrote to one stream: lines 1 to `lines`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamEntry {
    /// The stream.
    pub stream: Stream,
    /// Lines.
    pub lines: u64,
    /// Of these, how many were written in parts.
    pub split_lines: u64,
    /// Lines of which at least a part was in a file that was deleted: a reader may have come too late.
    pub deleted_lines: u64,
    /// The same as inclusive ranges.
    pub deleted: Vec<(u64, u64)>,
}

/// A pod with one container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// The number that stands in each line of its container.
    pub number: u32,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// Name of its container.
    pub container: String,
}

impl Pod {
    /// A pod with names from `rng`.
    pub(super) fn new(namespace: &str, number: u32, rng: &mut fastrand::Rng) -> Self {
        let uid = format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            rng.u32(..),
            rng.u16(..),
            rng.u16(..0x1000),
            rng.u16(0x8000..0xc000),
            rng.u64(..1 << 48)
        );
        let suffix: String = (0..5).map(|_| char::from(b"bcdfghjklmnpqrstvwxz2456789"[rng.usize(..27)])).collect();
        let pod = format!("writer-{number:06}-{suffix}");
        Self { number, namespace: namespace.to_owned(), pod, uid, container: "writer".to_owned() }
    }

    /// Directory of the container's files, below that of all pods.
    pub fn path(&self) -> String {
        format!("{}_{}_{}/{}", self.namespace, self.pod, self.uid, self.container)
    }
}

impl Manifest {
    /// The sum of something over all containers.
    pub fn sum(&self, count: impl Fn(&ContainerEntry) -> u64) -> u64 {
        self.containers.iter().map(count).sum()
    }
}

impl ContainerEntry {
    /// Lines of both streams.
    pub fn lines(&self) -> u64 {
        self.streams.iter().map(|stream| stream.lines).sum()
    }

    /// Lines of both streams that stood in files that were deleted.
    pub fn deleted_lines(&self) -> u64 {
        self.streams.iter().map(|stream| stream.deleted_lines).sum()
    }
}
