//! Readers on several threads beside the writer: each entry is completed once, whoever hands what back in between.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use fastrand::Rng;
use weir_journal::{Backlog, Durability, Journal, NewEntry, Options, Owed, QueueId, open};
use weir_testkit::SimFs;

const ENTRIES: u64 = 20_000;
const READERS: u64 = 3;

#[test]
fn nothing_is_lost_or_completed_twice() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) =
        open(Arc::new(fs), Options { segment_bytes: 64 << 10, seed: 1 }).expect("a disk without faults");
    let queue = journal.queue("a");
    let (seen, evicted, written) = (Mutex::new(BTreeMap::new()), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for reader in 0..READERS {
            let reader =
                Reader { journal: &journal, queue, seen: &seen, evicted: &evicted, dice: Rng::with_seed(reader) };
            scope.spawn(|| reader.run(&written));
        }
        let mut dice = Rng::with_seed(99);
        for number in 0..ENTRIES {
            let payload = [Bytes::copy_from_slice(&number.to_le_bytes()), Bytes::from(vec![1; dice.usize(..300)])];
            let owed = [Owed { queue, taken: dice.bool() }];
            let group = [NewEntry { payload: &payload, items: 1, owed: &owed }];
            let entry = writer.append(&group, number, Durability::Written).expect("a disk without faults")[0];
            if owed[0].taken {
                journal.release(queue, &entry);
            }
            if dice.u32(..100) == 0 {
                writer.tidy().expect("a disk without faults");
            }
        }
        written.store(true, Ordering::Release);
    });
    let seen = seen.into_inner().expect("no reader panicked");
    assert!(seen.values().all(|count| *count == 1), "completed once");
    assert_eq!(seen.len() as u64 + evicted.into_inner(), ENTRIES);
    assert_eq!(journal.backlog(queue), Backlog::default());
    writer.tidy().expect("a disk without faults");
    assert_eq!(journal.stats().segments, 0);
}

struct Reader<'a> {
    journal: &'a Journal,
    queue: QueueId,
    seen: &'a Mutex<BTreeMap<u64, u32>>,
    evicted: &'a AtomicU64,
    dice: Rng,
}

impl Reader<'_> {
    /// Until everything is written and done with.
    fn run(mut self, written: &AtomicBool) {
        while !(written.load(Ordering::Acquire) && self.journal.backlog(self.queue).entries == 0) {
            self.take_some();
            if self.dice.u32(..200) == 0 {
                let keep = self.journal.backlog(self.queue).bytes / 10 * 9;
                self.evicted.fetch_add(self.journal.evict(self.queue, keep, 0).entries, Ordering::Relaxed);
            }
        }
    }

    /// Takes some entries, completes some of them and hands the others back.
    fn take_some(&mut self) {
        let chunk = self.journal.take(self.queue, self.dice.usize(..4000)).expect("a disk without faults");
        assert_eq!(chunk.damaged.entries, 0);
        for (entry, range) in &chunk.entries {
            let number = chunk.buffer[range.clone()].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            if self.dice.u32(..3) == 0 {
                self.journal.release(self.queue, entry);
            } else if self.journal.complete(self.queue, entry) {
                let number = number.expect("each payload begins with its number");
                *self.seen.lock().expect("no reader panicked").entry(number).or_default() += 1;
            }
        }
    }
}
