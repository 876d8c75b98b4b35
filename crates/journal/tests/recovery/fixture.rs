//! Journals to be damaged, and what is left of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use weir_journal::{Durability, Entry, Journal, Loss, NewEntry, Options, Order, Owed, QueueId, Recovery, Writer, open};
use weir_testkit::{Operation, SimFs, Watched};

pub(crate) const SEGMENT: &str = "0000000000000001.seg";
pub(crate) const ACKS: &str = "0000000000000001.ack";
pub(crate) const FILE_HEAD: usize = 80;
pub(crate) const FRAME_HEAD: usize = 56;

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What was appended.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) entry: Entry,
    pub(crate) payload: Vec<u8>,
    pub(crate) group: usize,
    /// Where its frame lies, padding included.
    pub(crate) frame: Range<usize>,
}

impl Written {
    pub(crate) fn payload_at(&self) -> usize {
        // Two queues take four bytes, and four of padding.
        self.frame.start + FRAME_HEAD + 8
    }

    /// Whether a byte means something in this frame.
    pub(crate) fn covers(&self, offset: usize) -> bool {
        let head = self.frame.start..self.frame.start + FRAME_HEAD + 4;
        let payload = self.payload_at()..self.payload_at() + self.payload.len();
        head.contains(&offset) || payload.contains(&offset)
    }
}

/// What a queue finds.
pub(crate) struct Found {
    pub(crate) recovery: Recovery,
    /// By queue, oldest first.
    pub(crate) payloads: BTreeMap<String, Vec<Vec<u8>>>,
    pub(crate) damaged: Loss,
}

pub(crate) fn options(segment_bytes: u64) -> Options {
    Options { segment_bytes, seed: 42 }
}

pub(crate) fn start(fs: &SimFs, segment_bytes: u64) -> (Writer, Arc<Journal>, Recovery) {
    open(Arc::new(fs.clone()), options(segment_bytes)).unwrap()
}

pub(crate) fn append(writer: &mut Writer, payloads: &[Vec<u8>], queues: &[QueueId]) -> Vec<Entry> {
    let owed: Vec<Owed> = queues.iter().map(|queue| Owed { queue: *queue, taken: false }).collect();
    let parts: Vec<[Bytes; 1]> = payloads.iter().map(|payload| [Bytes::from(payload.clone())]).collect();
    let group: Vec<NewEntry<'_>> = parts.iter().map(|payload| NewEntry { payload, items: 7, owed: &owed }).collect();
    writer.append(&group, 1_700_000_000_000, Durability::Synced).unwrap()
}

/// One segment: three groups of two entries, each owed to `a` and `b`; then the process is killed.
pub(crate) fn small() -> (SimFs, Vec<Written>) {
    let fs = SimFs::new(1);
    let (_, _, all) = filled(&fs);
    (fs, all)
}

/// The same segment, ended in good order.
pub(crate) fn finished() -> (SimFs, Vec<Written>) {
    let fs = SimFs::new(1);
    let (mut writer, _, all) = filled(&fs);
    writer.finish().unwrap();
    (fs, all)
}

/// The same segment, which may go on.
pub(crate) fn filled(fs: &SimFs) -> (Writer, Arc<Journal>, Vec<Written>) {
    let (mut writer, journal, _) = start(fs, 4096);
    let queues = [journal.queue("a"), journal.queue("b")];
    let mut all = Vec::new();
    for group in 0..3 {
        let payloads = [vec![group; 20 + usize::from(group)], vec![group + 100; 37]];
        let entries = append(&mut writer, &payloads, &queues);
        all.extend(entries.into_iter().zip(payloads).map(|(entry, payload)| (usize::from(group), entry, payload)));
    }
    (writer, journal, all.into_iter().map(written).collect())
}

fn written((group, entry, payload): (usize, Entry, Vec<u8>)) -> Written {
    let start = offset(&entry);
    let end = start + FRAME_HEAD + 8 + payload.len();
    Written { entry, payload, group, frame: start..end.next_multiple_of(8) }
}

/// Where an entry's frame begins.
pub(crate) fn offset(entry: &Entry) -> usize {
    let text = format!("{:?}", entry.position);
    let digits = text.rsplit("offset: ").next().unwrap();
    digits.trim_end_matches([' ', '}']).parse().unwrap()
}

/// The small segment, sealed: another one follows.
pub(crate) fn sealed() -> (SimFs, Vec<Written>) {
    let (fs, all) = small();
    let (mut writer, journal, _) = start(&fs, 4096);
    append(&mut writer, &[b"later".to_vec()], &[journal.queue("a")]);
    (SimFs::with_files(2, &fs.files()), all)
}

/// Opens what is there and takes everything.
pub(crate) fn recover(fs: &SimFs) -> Found {
    let (_writer, journal, recovery) = start(fs, 4096);
    let mut found = Found { recovery, payloads: BTreeMap::new(), damaged: Loss::default() };
    for (queue, name) in journal.queues() {
        let (payloads, damaged) = take_all(&journal, queue);
        found.payloads.insert(name, payloads);
        found.damaged.entries += damaged.entries;
        found.damaged.items += damaged.items;
        found.damaged.bytes += damaged.bytes;
    }
    found
}

/// Takes everything that a queue is owed, in small parts: the payloads, and what was damaged on the way.
pub(crate) fn take_all(journal: &Journal, queue: QueueId) -> (Vec<Vec<u8>>, Loss) {
    let (mut payloads, mut damaged) = (Vec::new(), Loss::default());
    loop {
        let taken = journal.take(queue, Order::Oldest, 100, &mut |_| true).unwrap();
        damaged.entries += taken.damaged.entries;
        damaged.items += taken.damaged.items;
        damaged.bytes += taken.damaged.bytes;
        if taken.entries.is_empty() {
            return (payloads, damaged);
        }
        payloads.extend(taken.entries.iter().map(|(_, range)| taken.buffer[range.clone()].to_vec()));
    }
}

/// The payloads of these.
pub(crate) fn payloads<'a>(written: impl IntoIterator<Item = &'a Written>) -> Vec<Vec<u8>> {
    written.into_iter().map(|written| written.payload.clone()).collect()
}

/// Opens a copy of these files.
pub(crate) fn recover_files(files: &Files) -> Found {
    recover(&SimFs::with_files(3, files))
}

/// A view of the disk on which one file cannot be read from some byte on.
pub(crate) fn bad_disk(fs: &SimFs, file: &'static str, from: u64) -> Watched {
    let disk = fs.clone();
    Watched::new(fs.clone(), move |call| {
        if call.operation == Operation::Read && call.file == file && call.end > from {
            disk.fail_next(Operation::Read);
        }
    })
}
