//! Checkpoints: the positions of containers, kept over restarts, as lines of text. The last line of a container counts.
//!
//! ```text
//! 8 hex digits  space  JSON  newline        CRC32C of the JSON
//! {"header":{"version":1,"store":"…"}}      once, first
//! {"saved":{"container":"NS_POD_UID/NAME","files":[…],"position":[[…],[…]],"guard":{…},"seen_at_ms":0}}
//! {"removed":"NS_POD_UID/NAME"}
//! ```
//! Lines are only added. An end without a newline was torn off by a crash: it is dropped and reported. Any other
//! damaged line is reported with its place: an older checkpoint of its container counts then, and some output is read
//! again.
//!
//! This module knows bytes only; `checkpoint_file` keeps them in a directory.

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::chain::{Chain, Link};
use super::identity::Print;
use super::join::{Position, Spot};
use super::path::ContainerName;

/// Of the format. Another one is not read.
pub(crate) const VERSION: u32 = 1;

/// No line is longer. A container with five files has one of about a kilobyte, and one with 70,000 files fits as well.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// The checkpoint of a container that is not read any more is kept for so long.
pub(crate) const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Before the JSON: the checksum and a space.
const PREFIX: usize = 9;
/// So many bytes out of date are not worth writing everything anew.
const SPARE: u64 = 64 * 1024;

/// The checkpoint of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) container: ContainerName,
    pub(crate) files: Vec<Link>,
    #[serde(with = "position")]
    pub(crate) position: Position,
    /// Of the bytes before the position.
    pub(crate) guard: Print,
    /// When the container was last there and wanted.
    pub(crate) seen_at_ms: u64,
}

impl Saved {
    pub(crate) fn of(container: ContainerName, chain: &Chain, seen_at_ms: u64) -> Self {
        let (position, guard) = (chain.position(), chain.guard());
        Self { container, files: chain.links().to_vec(), position, guard, seen_at_ms }
    }

    pub(crate) fn into_chain(self) -> Chain {
        Chain::restore(self.files, self.position, self.guard)
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let ContainerName { namespace, pod, uid, container } = &self.container;
        let names = namespace.len() + pod.len() + uid.len() + container.len();
        SAVED_BYTES + 2 * (size_of::<Self>() + names) + self.files.capacity() * size_of::<Link>()
    }

    /// Whether the container was away, or not wanted, for too long. A clock that went back is no reason.
    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.seen_at_ms) >= KEPT_MS
    }
}

/// Beside the files of a container.
const SAVED_BYTES: usize = 512;

/// Checkpoints take no more memory than this, so that a file can be read before anything pays for it: those of twenty
/// thousand containers with two files each. Further ones are left out.
const MOST_BYTES: usize = 32 << 20;

/// The content of a line. `S` is a checkpoint, or a reference to one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SavedLine<S> {
    Header(Header),
    Saved(S),
    Removed(ContainerName),
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    #[serde(rename = "store")]
    id: String,
}

/// The line with a checkpoint.
pub(crate) fn encode(saved: &Saved) -> Vec<u8> {
    line(&SavedLine::Saved(saved))
}

/// The line that removes the checkpoint of a container.
pub(crate) fn encode_removal(container: &ContainerName) -> Vec<u8> {
    line::<&Saved>(&SavedLine::Removed(container.clone()))
}

/// The first line. `id` tells this file from others, and from one that took its place.
pub(crate) fn encode_header(id: &str) -> Vec<u8> {
    line::<&Saved>(&SavedLine::Header(Header { version: VERSION, id: id.to_owned() }))
}

fn line<S: Serialize>(content: &SavedLine<S>) -> Vec<u8> {
    let mut bytes = vec![b' '; PREFIX];
    serde_json::to_writer(&mut bytes, content).expect("it has no maps and is written to memory");
    let checksum = format!("{:08x}", crc32c::crc32c(&bytes[PREFIX..]));
    bytes[..PREFIX - 1].copy_from_slice(checksum.as_bytes());
    bytes.push(b'\n');
    bytes
}

/// A damaged line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Counted from 1.
    pub(crate) line: u64,
    /// Where it begins, in bytes.
    pub(crate) offset: u64,
    pub(crate) reason: Reason,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    TooLong,
    Checksum,
    /// Its checksum is right, but it is no line of this version.
    Content(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(out, "it is longer than {MAX_LINE} bytes"),
            Self::Checksum => out.write_str("its checksum is wrong"),
            Self::Content(reason) => write!(out, "it cannot be understood: {reason}"),
        }
    }
}

/// No more damaged lines are reported one by one.
const MOST_REPORTED: usize = 1000;

/// The content of a checkpoint file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Replayed {
    /// The id of the file; `None` when it has none yet, or its first line is damaged.
    pub(crate) id: Option<String>,
    /// The version of the format, where it is not ours: nothing else was read.
    pub(crate) foreign: Option<u32>,
    pub(crate) containers: BTreeMap<ContainerName, Saved>,
    /// The first of them; `damaged` counts all.
    pub(crate) damage: Vec<Damage>,
    pub(crate) damaged: u64,
    /// The bytes of the end that was torn off.
    pub(crate) torn_tail: Option<u64>,
    /// The bytes up to there.
    pub(crate) whole: u64,
    /// Lines that were left out, because others take all the memory that there is for them.
    pub(crate) left_out: u64,
}

/// Reads lines, in pieces of any size. It holds one line, and the checkpoints that count.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    replayed: Replayed,
    /// The begin of a line; nothing more is kept of one that is too long.
    partial: Vec<u8>,
    partial_length: u64,
    lines: u64,
    /// What all containers take in memory.
    bytes: usize,
}

impl Replay {
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    pub(crate) fn finish(mut self) -> Replayed {
        self.replayed.torn_tail = Some(self.partial_length).filter(|length| *length > 0);
        self.replayed
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.partial_length += bytes.len() as u64;
        if self.partial_length <= MAX_LINE as u64 {
            self.partial.extend_from_slice(bytes);
        } else {
            self.partial.clear();
        }
    }

    fn end_line(&mut self) {
        let offset = self.replayed.whole;
        self.lines += 1;
        self.replayed.whole += self.partial_length + 1;
        let read = if self.partial_length > MAX_LINE as u64 { Err(Reason::TooLong) } else { read(&self.partial) };
        self.partial.clear();
        self.partial_length = 0;
        match read {
            Ok(line) => self.apply(line),
            Err(reason) => {
                self.replayed.damaged += 1;
                if self.replayed.damage.len() < MOST_REPORTED {
                    self.replayed.damage.push(Damage { line: self.lines, offset, reason });
                }
            }
        }
    }

    fn apply(&mut self, line: SavedLine<Box<Saved>>) {
        match line {
            SavedLine::Header(header) if header.version != VERSION => self.replayed.foreign = Some(header.version),
            _ if self.replayed.foreign.is_some() => {}
            SavedLine::Header(header) => self.replayed.id = Some(header.id),
            SavedLine::Saved(saved) => self.put(*saved),
            SavedLine::Removed(container) => self.remove(&container),
        }
    }

    fn put(&mut self, saved: Saved) {
        self.remove(&saved.container);
        if self.bytes + saved.bytes() > MOST_BYTES {
            self.replayed.left_out += 1;
            return;
        }
        self.bytes += saved.bytes();
        self.replayed.containers.insert(saved.container.clone(), saved);
    }

    fn remove(&mut self, container: &ContainerName) {
        let removed = self.replayed.containers.remove(container);
        self.bytes -= removed.map_or(0, |saved| saved.bytes());
    }
}

/// All lines in `bytes`.
#[cfg(test)]
pub(crate) fn replay(bytes: &[u8]) -> Replayed {
    let mut replay = Replay::default();
    replay.feed(bytes);
    replay.finish()
}

fn read(line: &[u8]) -> Result<SavedLine<Box<Saved>>, Reason> {
    let (checksum, json) = line.split_at_checked(PREFIX).ok_or(Reason::Checksum)?;
    let expected = format!("{:08x} ", crc32c::crc32c(json));
    if checksum != expected.as_bytes() {
        return Err(Reason::Checksum);
    }
    serde_json::from_slice(json).map_err(|error| Reason::Content(error.to_string()))
}

/// Whether so much of a file is out of date that it should be written anew. `live` are the bytes of the lines that
/// count.
pub(crate) fn is_worn(size: u64, live: u64) -> bool {
    size > live.saturating_mul(2).saturating_add(SPARE)
}

/// A position as `[[file, offset], [null, [file, offset], null]]`.
mod position {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::{Position, Spot};

    type Pair = (u64, u64);

    pub(super) fn serialize<S: Serializer>(position: &Position, out: S) -> Result<S::Ok, S::Error> {
        let pair = |spot: Spot| (spot.file, spot.offset);
        (pair(position.done), position.open.map(|spot| spot.map(pair))).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Position, D::Error> {
        let spot = |(file, offset): Pair| Spot { file, offset };
        let (done, open) = <(Pair, [Option<Pair>; 3])>::deserialize(from)?;
        Ok(Position { done: spot(done), open: open.map(|pair| pair.map(spot)) })
    }
}
