//! Readers on several threads beside the writer: each entry is completed once, whoever hands what back in between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use fastrand::Rng;
use weir_journal::{
    Backlog, Depth, Durability, Fs, Journal, NewEntry, Options, Order, Owed, QueueId, Writer, export, inspect, open,
};
use weir_testkit::{SimFs, Watched};

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

/// Entries that are written, and looks that are taken, at least while that goes on.
const WATCHED: u64 = 3000;
const LOOKS: u64 = 500;
/// Entries that wait at any time.
const WAITING: usize = 5;

/// Segments come and go all the time while somebody looks; nothing seems to be wrong, missing, or back.
#[test]
fn looking_on() {
    let (fs, turns) = (SimFs::new(1), Arc::new(Turns::default()));
    let side = |number| Side { turns: Arc::clone(&turns), number };
    let disk = |number| {
        let side = side(number);
        Watched::new(fs.clone(), move |_| side.turn())
    };
    let (writer, journal, _) = open(Arc::new(disk(0)), Options { segment_bytes: 4096, seed: 1 }).expect("a sound disk");
    let progress = Progress::default();
    turns.taken.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _end = EndOfTurns(&turns);
            progress.write(writer, &journal, &turns);
        });
        let _end = EndOfTurns(&turns);
        while turns.taken.load(Ordering::SeqCst) {
            // A look at an empty directory opens nothing; it is a turn all the same.
            side(1).turn();
            progress.look(&disk(1));
            progress.looks.fetch_add(1, Ordering::SeqCst);
        }
    });
}

/// Of entries that are numbered from 1: how many are appended, completed at most, and completed and written down.
#[derive(Default)]
struct Progress {
    appended: AtomicU64,
    completed: AtomicU64,
    noted: AtomicU64,
    looks: AtomicU64,
}

impl Progress {
    /// Until there was enough to see and somebody has looked often enough, or cannot look any more.
    fn write(&self, mut writer: Writer, journal: &Journal, turns: &Turns) {
        let (queue, mut dice) = (journal.queue("a"), Rng::with_seed(1));
        let mut waiting = VecDeque::new();
        let mut number = 0;
        let is_enough = |number| number >= WATCHED && self.looks.load(Ordering::SeqCst) >= LOOKS;
        while turns.taken.load(Ordering::SeqCst) && !is_enough(number) {
            number += 1;
            let payload = [Bytes::copy_from_slice(&number.to_le_bytes()), Bytes::from(vec![1; dice.usize(500..2000)])];
            let group = [NewEntry { payload: &payload, items: 1, owed: &[Owed { queue, taken: false }] }];
            let entries = writer.append(&group, number, Durability::Written).expect("a disk without faults");
            self.appended.store(number, Ordering::SeqCst);
            waiting.extend(entries);
            let stay = if dice.u32(..20) == 0 { 0 } else { WAITING };
            for entry in waiting.drain(..waiting.len().saturating_sub(stay)) {
                self.completed.fetch_add(1, Ordering::SeqCst);
                assert!(journal.complete(queue, &entry));
            }
            writer.tidy().expect("a disk without faults");
            self.noted.store(self.completed.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    fn look(&self, fs: &dyn Fs) {
        let noted = self.noted.load(Ordering::SeqCst);
        let appended = self.appended.load(Ordering::SeqCst);
        let mut seen = Vec::new();
        let exported = export(fs, "a", &mut |_, payload| {
            seen.extend(payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)));
            Ok(())
        });
        let completed = self.completed.load(Ordering::SeqCst);
        let exported = exported.expect("a disk without faults");
        assert_eq!((exported.damage, exported.elsewhere), (vec![], vec![]));
        assert!(seen.is_sorted() && seen.iter().all(|number| *number > noted), "{seen:?} after {noted} were done");
        let missing = (completed + 1..=appended.min(completed + WAITING as u64)).find(|number| !seen.contains(number));
        assert!(missing.is_none(), "{missing:?} of {seen:?}");
        let looked = inspect(fs, Depth::Payloads).expect("a disk without faults");
        assert_eq!(looked.damage, vec![]);
    }
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
        let taken = self
            .journal
            .take(self.queue, Order::Oldest, self.dice.usize(..4000), &mut |_| true)
            .expect("a disk without faults");
        assert_eq!(taken.damaged.entries, 0);
        for (entry, range) in &taken.entries {
            let number = taken.buffer[range.clone()].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            if self.dice.u32(..3) == 0 {
                self.journal.release(self.queue, entry);
            } else if self.journal.complete(self.queue, entry) {
                let number = number.expect("each payload begins with its number");
                *self.seen.lock().expect("no reader panicked").entry(number).or_default() += 1;
            }
        }
    }
}

/// Two threads that use a disk by turns, so that each meets whatever the other leaves half done.
#[derive(Debug, Default)]
struct Turns {
    taken: AtomicBool,
    count: [AtomicU64; 2],
}

#[derive(Debug, Clone)]
struct Side {
    turns: Arc<Turns>,
    number: usize,
}

/// The other one goes on alone, after a panic too.
struct EndOfTurns<'a>(&'a Turns);

impl Drop for EndOfTurns<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::SeqCst);
    }
}

impl Side {
    /// Every other time, by chance, waits until the other one has come to its next operation.
    fn turn(&self) {
        let Turns { taken, count } = &*self.turns;
        let (own, other) = (&count[self.number], &count[1 - self.number]);
        let before = other.load(Ordering::SeqCst);
        own.fetch_add(1, Ordering::SeqCst);
        let waits = fastrand::bool();
        while waits && taken.load(Ordering::SeqCst) && other.load(Ordering::SeqCst) == before {
            thread::yield_now();
        }
    }
}
