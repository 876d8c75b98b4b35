//! The bytes on disk: file heads and frames, written and checked. `docs/journal-format.md` has the tables.
//!
//! All numbers are little endian; everything is aligned to 8 bytes. It knows no files: only slices.

/// The version of everything below. A file of another version is left alone.
pub(crate) const VERSION: u32 = 1;
/// Length of the head of every file.
pub(crate) const FILE_HEAD: usize = 80;
/// Length of a frame's head without the list of queues.
pub(crate) const FRAME_HEAD: usize = 56;
/// No longer payload is written or believed.
pub(crate) const MAX_PAYLOAD: u32 = 64 << 20;
/// No longer name of a queue is written or believed.
pub(crate) const MAX_NAME: usize = 1024;
/// Offsets are 32 bits, so no segment is longer.
pub(crate) const MAX_SEGMENT: u64 = u32::MAX as u64 & !7;

/// No journal lives long enough for a greater id. A file with one is not ours, and none is created.
pub(crate) const MAX_ID: u64 = 1 << 62;

const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"WJF\xA5");
const QUEUE: u8 = 1;
const ENTRY: u8 = 2;

/// The seed of one segment's checksums, so that no frame of another segment passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seal(u32);

impl Seal {
    pub(crate) fn new(nonce: u64) -> Self {
        Self(crc32c::crc32c(&nonce.to_le_bytes()))
    }

    pub(crate) fn sum(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }

    /// The sum of several parts, one behind the other.
    pub(crate) fn sum_of<'a>(self, parts: impl Iterator<Item = &'a [u8]>) -> u32 {
        parts.fold(self.0, crc32c::crc32c_append)
    }
}

/// Rounds up to the alignment.
pub(crate) fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Segment,
    Acks,
}

impl FileKind {
    fn magic(self) -> [u8; 8] {
        match self {
            Self::Segment => *b"WEIRSEG\n",
            Self::Acks => *b"WEIRACK\n",
        }
    }

    pub(crate) fn name(self, id: u64) -> String {
        match self {
            Self::Segment => format!("{id:016x}.seg"),
            Self::Acks => format!("{id:016x}.ack"),
        }
    }

    /// What a file with this name holds; `None` when it is not one of ours.
    pub(crate) fn of(name: &str) -> Option<(Self, u64)> {
        let (stem, kind) = match name.strip_suffix(".seg") {
            Some(stem) => (stem, Self::Segment),
            None => (name.strip_suffix(".ack")?, Self::Acks),
        };
        let id = u64::from_str_radix(stem, 16).ok()?;
        (kind.name(id) == name && id <= MAX_ID).then_some((kind, id))
    }
}

/// The head of both files of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(crate) id: u64,
    pub(crate) nonce: u64,
    pub(crate) created_ms: u64,
    pub(crate) previous: Previous,
}

/// What a complete segment holds. What lies behind its end was never acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) end: u64,
    pub(crate) items: u64,
    pub(crate) entries: u32,
}

/// The segment before another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Previous {
    /// 0: there is none.
    pub(crate) id: u64,
    pub(crate) extent: Extent,
    /// The nonce's checksum, because ids are used again once the directory was empty. 0 where an earlier version of
    /// Weir did not write it.
    pub(crate) seal: Seal,
}

impl Previous {
    /// The extent of the segment with this head, if it is the segment that is meant.
    pub(crate) fn extent_of(&self, head: &FileHead) -> Option<Extent> {
        let is_sealed = self.seal == Seal::default() || self.seal == head.seal();
        (self.id == head.id && is_sealed).then_some(self.extent)
    }
}

impl Extent {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.end.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.items.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.entries.to_le_bytes());
        bytes
    }

    /// `bytes` are as many as [`Extent::encode`] gives.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        Self { end: u64_at(bytes, 0), items: u64_at(bytes, 8), entries: u32_at(bytes, 16) }
    }
}

/// Why a file's head cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadFault {
    Damaged,
    Version(u32),
}

impl FileHead {
    pub(crate) fn seal(&self) -> Seal {
        Seal::new(self.nonce)
    }

    pub(crate) fn encode(&self, kind: FileKind) -> [u8; FILE_HEAD] {
        let mut bytes = [0; FILE_HEAD];
        bytes[..8].copy_from_slice(&kind.magic());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.created_ms.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.previous.id.to_le_bytes());
        bytes[48..72].copy_from_slice(&self.previous.extent.encode());
        bytes[72..76].copy_from_slice(&self.previous.seal.0.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..76]);
        bytes[76..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The head of segment `id`, if these bytes begin with it.
    pub(crate) fn decode(bytes: &[u8], kind: FileKind, id: u64) -> Result<Self, HeadFault> {
        if bytes.get(..8) != Some(&kind.magic()) || bytes.len() < FILE_HEAD {
            return Err(HeadFault::Damaged);
        }
        // Both have their places in every version, so that rot is never taken for the future.
        if crc32c::crc32c(&bytes[..76]) != u32_at(bytes, 76) || u64_at(bytes, 16) != id {
            return Err(HeadFault::Damaged);
        }
        match u32_at(bytes, 8) {
            VERSION => Ok(Self {
                id,
                nonce: u64_at(bytes, 24),
                created_ms: u64_at(bytes, 32),
                previous: Previous {
                    id: u64_at(bytes, 40),
                    extent: Extent::decode(&bytes[48..72]),
                    seal: Seal(u32_at(bytes, 72)),
                },
            }),
            other => Err(HeadFault::Version(other)),
        }
    }
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The payload is the name of the queue with this number.
    Queue(u16),
    /// An entry, owed to so many queues.
    Entry(u16),
}

/// The fixed part of a frame's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) kind: Kind,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_sum: u32,
    pub(crate) owed_sum: u32,
    /// The entry's number in its segment; of a queue, that of the next entry.
    pub(crate) index: u32,
    pub(crate) items: u32,
    /// Items of all entries before this one in its segment.
    pub(crate) items_before: u64,
    pub(crate) written_ms: u64,
    /// How far the segment was known to be durable when this was written.
    pub(crate) durable_end: u32,
}

impl FrameHead {
    /// Length of the list of queues, with its padding.
    fn list_bytes(&self) -> u64 {
        match self.kind {
            Kind::Queue(_) => 0,
            Kind::Entry(owed) => aligned(2 * u64::from(owed)),
        }
    }

    /// Where the payload begins in the frame.
    pub(crate) fn payload_at(&self) -> u64 {
        FRAME_HEAD as u64 + self.list_bytes()
    }

    /// Length of the frame, with its padding.
    pub(crate) fn frame_bytes(&self) -> u64 {
        aligned(self.payload_at() + u64::from(self.payload_bytes))
    }

    pub(crate) fn encode(&self, seal: Seal) -> [u8; FRAME_HEAD] {
        let (kind, number) = match self.kind {
            Kind::Queue(number) => (QUEUE, number),
            Kind::Entry(owed) => (ENTRY, owed),
        };
        let mut bytes = [0; FRAME_HEAD];
        bytes[..4].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
        bytes[8] = kind;
        bytes[10..12].copy_from_slice(&number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.payload_sum.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.owed_sum.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.index.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.items.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.items_before.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.written_ms.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.durable_end.to_le_bytes());
        let sum = seal.sum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The frame's head at the beginning of these bytes, if there is one of this segment.
    pub(crate) fn decode(bytes: &[u8], seal: Seal) -> Option<Self> {
        let bytes = bytes.get(..FRAME_HEAD)?;
        if !starts_frame(bytes) || seal.sum(&bytes[8..]) != u32_at(bytes, 4) {
            return None;
        }
        let payload_bytes = u32_at(bytes, 12);
        let (kind, most) = match bytes[8] {
            QUEUE => (Kind::Queue(u16_at(bytes, 10)), MAX_NAME as u64),
            ENTRY => (Kind::Entry(u16_at(bytes, 10)), u64::from(MAX_PAYLOAD)),
            _ => return None,
        };
        (u64::from(payload_bytes) <= most).then(|| Self {
            kind,
            payload_bytes,
            payload_sum: u32_at(bytes, 16),
            owed_sum: u32_at(bytes, 20),
            index: u32_at(bytes, 24),
            items: u32_at(bytes, 28),
            items_before: u64_at(bytes, 32),
            written_ms: u64_at(bytes, 40),
            durable_end: u32_at(bytes, 48),
        })
    }
}

/// Whether a frame may begin here.
pub(crate) fn starts_frame(bytes: &[u8]) -> bool {
    bytes.len() >= 4 && u32_at(bytes, 0) == FRAME_MAGIC
}

/// The numbers of a frame's list of queues.
pub(crate) fn owed_numbers(list: &[u8]) -> impl Iterator<Item = u16> + '_ {
    list.chunks_exact(2).map(|number| u16_at(number, 0))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}
