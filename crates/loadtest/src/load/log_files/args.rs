//! The options of `weir load log-files`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use weir_units::{parse_duration, parse_positive_duration, parse_size};

use crate::flags::Percent;

const EXAMPLES: &str = "\
Examples:
  weir load log-files /tmp/pods --containers 8 --lines 100000 --manifest lines.json
  weir load log-files /tmp/pods --byte-rate 100MB --rotate-every 50ms --duration 1m --manifest lines.json
  weir load log-files /tmp/pods --shape json --partial 10 --rate 1000 --restart-every 10s
  weir load log-files /tmp/pods --containers 50 --pods-live 200ms --removed-after 1s --duration 10s
  weir load log-files /tmp/pods --format plain --rate 1000 --rotate-every 1s --copy-truncate --holes 5
  weir load log-files /tmp/pods --containers 10 --shape flog

Then, with what `weir sink --log-lines --report sink.json` received of it:
  weir load log-files --verify sink.json lines.json

Exit code 1: the sink lacks lines that were not deleted from the disk, or has damaged ones.";

/// Write log files of containers as the kubelet and the runtime do; count what an agent made of them.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub struct LogFilesArgs {
    /// Where: files are DIR/NAMESPACE_POD_UID/CONTAINER/N.log
    #[arg(value_name = "DIR", required = true)]
    pub directory: Option<PathBuf>,
    /// Write nothing, so that no DIR is needed; compare the report of a sink with a manifest
    #[arg(long, num_args = 2, value_names = ["SINK_REPORT", "MANIFEST"], conflicts_with_all = ["directory", "manifest"])]
    pub verify: Option<Vec<PathBuf>>,
    /// Write to this file, as JSON, how many lines were written, and which of them are in no file any more
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Containers that write at the same time, each in a pod of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub containers: u32,
    /// Lines per second of each container; 0, the default, is as fast as possible
    #[arg(long, value_name = "LINES_PER_SECOND", default_value_t = 0, conflicts_with = "byte_rate")]
    pub rate: u64,
    /// Bytes per second of each container
    #[arg(long, value_name = "BYTES_PER_SECOND", value_parser = parse_size)]
    pub byte_rate: Option<u64>,
    /// Lines of each container, both streams together; without --lines and --duration, until stopped
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=999_999_999_999))]
    pub lines: Option<u64>,
    /// How long to write
    #[arg(short, long, value_name = "DURATION", value_parser = parse_positive_duration)]
    pub duration: Option<Duration>,
    /// Threads that write
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// Namespace of the pods
    #[arg(long, value_name = "NAMESPACE", default_value = "load-test", value_parser = parse_namespace)]
    pub namespace: String,
    /// Decides about streams, parts, and names; the same seed repeats them
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// What lines look like
    #[command(flatten)]
    pub look: LookArgs,
    /// What happens to files and pods
    #[command(flatten)]
    pub fate: FateArgs,
}

/// What lines look like.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Lines")]
pub struct LookArgs {
    /// What the runtime makes of a line
    #[arg(long, value_enum, default_value = "cri")]
    pub format: Format,
    /// What the application writes
    #[arg(long, value_enum, default_value = "plain")]
    pub shape: LineShape,
    /// Length of what the application writes; the default is 200 bytes, with --shape json 400, flog 300
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub line_size: Option<u64>,
    /// Share of lines on the standard error
    #[arg(long, value_name = "PCT", default_value = "20")]
    pub stderr: Percent,
    /// Share of lines that the runtime splits into parts; those of both streams are interleaved
    #[arg(long, value_name = "PCT", default_value = "0")]
    pub partial: Percent,
    /// Most parts of such a line
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    pub parts: u16,
    /// Write the last line of each block in two halves, with a pause of this length between them
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "20ms", value_parser = parse_positive_duration)]
    pub tear: Option<Duration>,
    /// Share of blocks of lines that are followed by a hole: 64 KiB of NUL bytes that nobody wrote
    #[arg(long, value_name = "PCT", default_value = "0")]
    pub holes: Percent,
}

/// What happens to files and pods.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Rotation and pods")]
pub struct FateArgs {
    /// Rotate a file that has this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub rotate_size: Option<u64>,
    /// Rotate a file of this age
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration)]
    pub rotate_every: Option<Duration>,
    /// Files of a container that are kept, with the one that is written
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..))]
    pub keep: u16,
    /// Leave rotated files as they are; otherwise all but the newest are compressed
    #[arg(long)]
    pub no_gzip: bool,
    /// Rotate by copying the file to N.log.1 and cutting it off: what was not read by then is in no file that is read
    #[arg(long, conflicts_with_all = ["reopen_after", "reuse_inodes"])]
    pub copy_truncate: bool,
    /// Leave out the newline at the end of every file that is left behind, by a rotation, a restart, or a pod's end
    #[arg(long)]
    pub unterminated: bool,
    /// How long the runtime goes on writing to a file that was renamed
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    pub reopen_after: Duration,
    /// Try to give a new file the inode of one that was deleted
    #[arg(long)]
    pub reuse_inodes: bool,
    /// Restart each container after this time: N+1.log
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration)]
    pub restart_every: Option<Duration>,
    /// A pod lives so long; with --duration the next takes its place
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration)]
    pub pods_live: Option<Duration>,
    /// Remove the directory of a pod this long after its end
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration, requires = "pods_live")]
    pub removed_after: Duration,
    /// Delete what is left this long after everything was written
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub delete_after: Option<Duration>,
}

/// What the runtime makes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Of containerd and CRI-O: time, stream, tag, text
    Cri,
    /// Of Docker: an object with log, stream and time
    DockerJson,
    /// No runtime: the text alone, without a time and a stream
    Plain,
}

/// What the application writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineShape {
    /// Text
    Plain,
    /// An object of ten fields, an access log
    Json,
    /// The objects of nine fields that the load-test kit's generator (flog) loops over, 10 MiB of them
    Flog,
}

impl LookArgs {
    /// Bytes of each line.
    pub(super) fn length(&self) -> u64 {
        self.line_size.unwrap_or(match self.shape {
            LineShape::Plain => 200,
            LineShape::Json => 400,
            LineShape::Flog => 300,
        })
    }
}

/// A namespace is a part of a directory's name that `_` separates from the next.
fn parse_namespace(text: &str) -> Result<String, String> {
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !text.is_empty() && text.len() <= 63 && text.bytes().all(valid) {
        return Ok(text.to_owned());
    }
    Err(format!("cannot use namespace \"{text}\": up to 63 lower-case letters, digits and -"))
}
