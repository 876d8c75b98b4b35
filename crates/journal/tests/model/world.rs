//! A journal, its disk and its model, and random things to do with them.

mod reopen;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use weir_journal::{
    Backlog, Durability, Entry, Fs as _, Journal, Loss, NewEntry, Options, Order, Owed, QueueId, Recovery, Writer, open,
};
use weir_testkit::{Faults, Operation, SimFs};

use crate::book::{Book, Cut, Debt, Item, Safety};

const QUEUES: usize = 3;
const ACTIONS: u32 = 40;
/// In one of so many.
const FAULTS: Faults = Faults { short: 6, read: 0, write: 30, sync: 30, other: 30 };
const READ_FAULTS: u32 = 15;

/// What makes life hard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Some groups are not synced at once.
    pub(crate) written: bool,
    pub(crate) faults: bool,
    pub(crate) full: bool,
}

pub(crate) struct World {
    style: Style,
    rng: Rng,
    fs: SimFs,
    writer: Writer,
    journal: Arc<Journal>,
    queues: Vec<QueueId>,
    book: Book,
    now_ms: u64,
    options: Options,
    /// Crashes that met recovery.
    pub(crate) recovery_crashes: u64,
    /// Processes so far.
    process: u32,
    lost_power: bool,
    /// Entries may be damaged, or come and go, that were written and could not be synced.
    doubts: bool,
    /// In this life some reads fail.
    reads_fail: bool,
}

impl World {
    pub(crate) fn new(style: Style, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let fs = SimFs::new(seed);
        let options = Options { segment_bytes: rng.u64(4..12) << 10, seed };
        let (writer, journal, recovery) = open(Arc::new(fs.clone()), options).unwrap();
        assert_eq!(recovery, Recovery::default());
        let queues = register(&journal, &mut rng);
        Self {
            style,
            rng,
            fs,
            writer,
            journal,
            queues,
            book: Book::default(),
            now_ms: 1_000_000,
            options,
            recovery_crashes: 0,
            process: 0,
            lost_power: false,
            doubts: style.faults && style.written,
            reads_fail: false,
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.fs.operations()
    }

    /// Does things until the crash, or for some time.
    pub(crate) fn live(&mut self, crash: Option<u64>) {
        if let Some(crash) = crash {
            self.fs.crash_at(self.fs.operations() + crash);
        }
        self.reads_fail = self.style.faults && self.rng.bool();
        self.set_faults(self.reads_fail);
        if self.style.full {
            self.fs.set_capacity(Some(40 << 10));
        }
        for _ in 0..ACTIONS {
            self.act();
            if self.fs.has_crashed() {
                return;
            }
            self.check_counters();
        }
    }

    fn set_faults(&self, reads_fail: bool) {
        if self.style.faults {
            self.fs.set_faults(Faults { read: if reads_fail { READ_FAULTS } else { 0 }, ..FAULTS });
        }
    }

    fn act(&mut self) {
        self.now_ms += self.rng.u64(..300);
        let queue = self.rng.usize(..QUEUES);
        match self.rng.u32(..20) {
            0..=7 => self.append(),
            8..=10 => self.take(queue),
            11..=14 => self.complete(queue),
            15 => self.release(queue),
            16 => self.complete_items(queue),
            17 => self.evict(queue),
            18 => self.sync(),
            _ => self.tidy(),
        }
    }

    fn append(&mut self) {
        let count = self.rng.usize(1..5);
        let first = self.book.all.len();
        let mut requests = Vec::new();
        for number in first..first + count {
            let payload = self.payload(number as u64);
            let owed = self.owed();
            let debt = |owed: &Owed| {
                let queue = self.queues.iter().position(|id| *id == owed.queue).unwrap();
                (queue, Debt::Open { taken: owed.taken, completed: 0 })
            };
            let debts = owed.iter().map(debt).collect();
            let items = self.rng.u32(..50);
            // Refused until it is answered otherwise: it may be found after a crash, and need not be.
            self.book.all.push(Item {
                payload: payload.clone(),
                items,
                written_ms: self.now_ms,
                process: self.process,
                safety: Safety::Refused,
                debts,
                completed: BTreeSet::new(),
                entry: None,
            });
            let cut = self.rng.usize(..=payload.len());
            let payload = Bytes::from(payload);
            requests.push(([payload.slice(..cut), payload.slice(cut..)], items, owed));
        }
        let group: Vec<NewEntry<'_>> =
            requests.iter().map(|(payload, items, owed)| NewEntry { payload, items: *items, owed }).collect();
        self.append_group(first, &group);
    }

    /// Appends what is in the book from `first` on.
    fn append_group(&mut self, first: usize, group: &[NewEntry<'_>]) {
        let written = self.style.written && self.rng.bool();
        let (durability, safety) =
            if written { (Durability::Written, Safety::Written) } else { (Durability::Synced, Safety::Synced) };
        let failures = || [Operation::Truncate, Operation::Sync].map(|operation| self.fs.failures(operation));
        let [truncations, syncs] = failures();
        let result = self.writer.append(group, self.now_ms, durability);
        let [truncations_since, syncs_since] = failures();
        let items = self.book.all[first..].iter_mut();
        match result {
            Ok(entries) => {
                assert_eq!(entries.len(), group.len());
                items.zip(entries).for_each(|(item, entry)| (item.safety, item.entry) = (safety, Some(entry)));
            }
            Err(_) => {
                let is_cut = truncations_since == truncations && !self.fs.has_crashed();
                let cut = match (is_cut, syncs_since == syncs) {
                    (true, true) => Cut::Durably,
                    (true, false) => Cut::Written,
                    (false, _) => Cut::Failed,
                };
                items.for_each(|item| item.refuse(cut));
            }
        }
    }

    fn payload(&mut self, number: u64) -> Vec<u8> {
        let length = if self.rng.u32(..8) == 0 { self.rng.usize(..5000) } else { self.rng.usize(..400) };
        let mut payload = number.to_le_bytes().to_vec();
        payload.resize_with(8 + length, || self.rng.u8(..));
        payload
    }

    fn owed(&mut self) -> Vec<Owed> {
        let mut owed = Vec::new();
        while owed.is_empty() {
            for queue in &self.queues {
                if self.rng.bool() {
                    owed.push(Owed { queue: *queue, taken: self.rng.u32(..3) == 0 });
                }
            }
        }
        owed
    }

    fn take(&mut self, queue: usize) {
        let max_bytes = self.rng.usize(..3000);
        let untaken = self.book.untaken(queue);
        let pays = self.rng.u32(..4) > 0;
        let mut paid = max_bytes;
        let mut pay = |bytes: usize| {
            assert!(bytes > paid, "it is asked for more");
            paid = if pays { bytes } else { paid };
            pays
        };
        let Ok(taken) = self.journal.take(self.queues[queue], Order::Oldest, max_bytes, &mut pay) else {
            assert!(self.fs.has_crashed() || self.reads_fail);
            return;
        };
        let bytes: usize = taken.entries.iter().map(|(_, range)| range.len()).sum();
        assert!(bytes <= paid && taken.buffer.len() <= paid + Journal::TAKE_OVERHEAD);
        assert!(taken.too_large.is_none_or(|bytes| !pays && bytes > max_bytes));
        assert_eq!(taken.entries.is_empty(), untaken.is_empty() || taken.too_large.is_some());
        assert_eq!(taken.damaged, Loss::default());
        let mut untaken = untaken.into_iter();
        for (entry, range) in &taken.entries {
            let number = self.book.find(&taken.buffer[range.clone()]);
            // What cannot be read is put off.
            let expected = if self.reads_fail { untaken.find(|next| *next == number) } else { untaken.next() };
            assert_eq!(expected, Some(number), "oldest first");
            self.check_entry(number, entry);
            self.book.all[number].set_taken(queue, true);
        }
    }

    fn check_entry(&self, number: usize, entry: &Entry) {
        let item = &self.book.all[number];
        assert_eq!((entry.items, entry.written_ms), (item.items, item.written_ms));
        assert_eq!(entry.payload_bytes as usize, item.payload.len());
        assert!(item.entry.is_none_or(|known| known == *entry));
    }

    /// An entry that the queue is owed, if there is one.
    fn any_open(&mut self, queue: usize) -> Option<(usize, Entry)> {
        let open: Vec<usize> = self.book.open(queue).map(|(number, _)| number).collect();
        let number = *self.rng.choice(&open)?;
        Some((number, self.book.all[number].entry?))
    }

    fn complete(&mut self, queue: usize) {
        let Some((number, entry)) = self.any_open(queue) else { return };
        let id = self.queues[queue];
        assert!(self.journal.is_owed(id, &entry));
        if self.rng.u32(..4) == 0 {
            match self.journal.read(&entry) {
                Ok(payload) => assert_eq!(payload, self.book.all[number].payload),
                Err(error) => assert!(self.fs.has_crashed() || self.reads_fail, "{error}"),
            }
        }
        assert!(self.journal.complete(id, &entry));
        assert!(!self.journal.complete(id, &entry) && !self.journal.is_owed(id, &entry));
        assert!(!self.journal.release(id, &entry) && !self.journal.complete_items(id, &entry, 1));
        self.book.all[number].complete(queue);
    }

    fn release(&mut self, queue: usize) {
        let Some((number, entry)) = self.any_open(queue) else { return };
        assert!(self.journal.release(self.queues[queue], &entry));
        self.book.all[number].set_taken(queue, false);
    }

    fn complete_items(&mut self, queue: usize) {
        let Some((number, entry)) = self.any_open(queue) else { return };
        let items = self.rng.u64(..=self.book.all[number].loss(queue).items);
        assert!(self.journal.complete_items(self.queues[queue], &entry, items));
        if let Some(Debt::Open { completed, .. }) = self.book.all[number].debts.get_mut(&queue) {
            *completed += items;
        }
    }

    fn evict(&mut self, queue: usize) {
        let bytes = self.book.backlog(queue).bytes;
        let max_bytes = if self.rng.bool() { self.rng.u64(..=bytes) } else { u64::MAX };
        let not_before_ms = if self.rng.bool() { self.now_ms - self.rng.u64(..5000) } else { 0 };
        // How much goes of what cannot be read is not exact.
        self.set_faults(false);
        self.check_oldest(queue);
        let loss = self.journal.evict(self.queues[queue], max_bytes, not_before_ms);
        self.set_faults(self.reads_fail);
        if !self.fs.has_crashed() {
            assert_eq!(loss, self.book.evict(queue, max_bytes, not_before_ms));
        }
    }

    /// What goes first.
    fn check_oldest(&self, queue: usize) {
        let found = self.journal.oldest(self.queues[queue]);
        if self.fs.has_crashed() {
            return;
        }
        let expected = self.book.open(queue).map(|(number, _)| number).next();
        assert_eq!(found.is_some(), expected.is_some());
        expected.into_iter().zip(&found).for_each(|(number, entry)| self.check_entry(number, entry));
    }

    fn sync(&mut self) {
        let synced = self.writer.sync();
        self.book.sync(if synced.is_ok() { Safety::Synced } else { Safety::Doubtful });
    }

    fn tidy(&mut self) {
        if self.writer.tidy().is_ok() {
            self.book.note();
        }
    }

    fn check_counters(&self) {
        for (queue, id) in self.queues.iter().enumerate() {
            let (found, expected) = (self.journal.backlog(*id), self.book.backlog(queue));
            assert!(found.oldest_ms <= expected.oldest_ms);
            assert!(found.oldest_ms.unwrap_or(0) + 1000 >= expected.oldest_ms.unwrap_or(0));
            assert_eq!(Backlog { oldest_ms: None, ..found }, Backlog { oldest_ms: None, ..expected });
        }
    }

    /// Completes everything: nothing stays behind.
    pub(crate) fn finish(&mut self) {
        for queue in 0..QUEUES {
            while let Some((_, entry)) = self.any_open(queue) {
                assert!(self.journal.complete(self.queues[queue], &entry));
                let number = self.book.all.iter().position(|item| item.entry == Some(entry)).unwrap();
                self.book.all[number].complete(queue);
            }
        }
        self.finish_nameless();
        self.writer.tidy().unwrap();
        assert_eq!(self.journal.stats().segments, 0);
        assert_eq!(self.fs.list().unwrap(), Vec::<String>::new());
    }
}

impl World {
    /// Of what was in doubt, the names of its queues may be lost and the entries not.
    fn finish_nameless(&mut self) {
        for (queue, name) in self.journal.queues() {
            assert!(name.starts_with("traces/") || self.doubts && name.starts_with("?/"));
            loop {
                let taken = self.journal.take(queue, Order::Oldest, usize::MAX, &mut |_| true).unwrap();
                for (entry, range) in &taken.entries {
                    self.book.find(&taken.buffer[range.clone()]);
                    assert!(self.journal.complete(queue, entry));
                }
                if taken.entries.is_empty() {
                    break;
                }
            }
        }
    }
}

/// In any order: ids are not what a queue is.
fn register(journal: &Journal, rng: &mut Rng) -> Vec<QueueId> {
    let mut names: Vec<String> = (0..QUEUES).map(|queue| format!("traces/{queue}")).collect();
    rng.shuffle(&mut names);
    names.iter().for_each(|name| assert!(journal.queue(name) == journal.queue(name)));
    (0..QUEUES).map(|queue| journal.queue(&format!("traces/{queue}"))).collect()
}
