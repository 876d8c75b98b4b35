//! A journal, its disk and its model, and random things to do with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use weir_journal::{
    Backlog, Depth, Durability, Entry, Fs as _, Journal, Loss, NewEntry, Options, Owed, QueueId, Recovery, Writer,
    inspect, open,
};
use weir_testkit::{Faults, SimFs};

use crate::book::{Book, Death, Debt, Item, Safety};

const QUEUES: usize = 3;
const ACTIONS: u32 = 40;

/// What makes life hard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Some groups are not synced at once.
    pub(crate) written: bool,
    pub(crate) faults: bool,
    pub(crate) full: bool,
}

impl Style {
    /// Entries may be damaged, or come and go, that were written and whose sync failed.
    fn doubts(self) -> bool {
        self.faults && self.written
    }
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
    lost_power: bool,
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
            lost_power: false,
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
        if self.style.faults {
            self.fs.set_faults(Faults { short: 6, read: 0, write: 30, sync: 30, other: 30 });
        }
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

    fn act(&mut self) {
        self.now_ms += self.rng.u64(..300);
        let queue = self.rng.usize(..QUEUES);
        match self.rng.u32(..20) {
            0..=7 => self.append(),
            8..=10 => self.take(queue),
            11..=14 => self.complete(queue),
            15 => self.release(queue),
            16 => self.pin(queue),
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
                (queue, Debt::Open { taken: owed.taken, pinned: false })
            };
            let debts = owed.iter().map(debt).collect();
            let items = self.rng.u32(..50);
            // Refused until it is answered otherwise: it may be found after a crash, and need not be.
            let (payload_bytes, safety) = (payload.clone(), Safety::Refused);
            let written_ms = self.now_ms;
            let completed = BTreeSet::new();
            self.book.all.push(Item {
                payload: payload_bytes,
                items,
                written_ms,
                safety,
                debts,
                completed,
                entry: None,
            });
            let cut = self.rng.usize(..=payload.len());
            let payload = Bytes::from(payload);
            requests.push(([payload.slice(..cut), payload.slice(cut..)], items, owed));
        }
        let group: Vec<NewEntry<'_>> =
            requests.iter().map(|(payload, items, owed)| NewEntry { payload, items: *items, owed }).collect();
        let written = self.style.written && self.rng.bool();
        let (durability, safety) =
            if written { (Durability::Written, Safety::Written) } else { (Durability::Synced, Safety::Synced) };
        let result = self.writer.append(&group, self.now_ms, durability);
        match result {
            Ok(entries) => {
                assert_eq!(entries.len(), count);
                for (item, entry) in self.book.all[first..].iter_mut().zip(entries) {
                    (item.safety, item.entry) = (safety, Some(entry));
                }
            }
            // Nobody is owed it, but for a crash.
            Err(_) => self.book.all[first..].iter_mut().for_each(|item| item.debts.values_mut().for_each(refuse)),
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
        // Reading fails only when the disk is gone.
        let Ok(chunk) = self.journal.take(self.queues[queue], max_bytes) else {
            assert!(self.fs.has_crashed());
            return;
        };
        let bytes: usize = chunk.entries.iter().map(|(_, range)| range.len()).sum();
        assert!(bytes <= max_bytes || chunk.entries.len() == 1);
        assert_eq!(chunk.entries.is_empty(), untaken.is_empty());
        assert_eq!(chunk.damaged, Loss::default());
        for ((entry, range), number) in chunk.entries.iter().zip(untaken) {
            assert_eq!(self.book.find(&chunk.buffer[range.clone()]), number, "oldest first");
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
                Err(error) => assert!(self.fs.has_crashed(), "{error}"),
            }
        }
        assert!(self.journal.complete(id, &entry));
        assert!(!self.journal.complete(id, &entry) && !self.journal.is_owed(id, &entry));
        assert!(!self.journal.release(id, &entry) && !self.journal.pin(id, &entry));
        self.book.all[number].complete(queue);
    }

    fn release(&mut self, queue: usize) {
        let Some((number, entry)) = self.any_open(queue) else { return };
        assert!(self.journal.release(self.queues[queue], &entry));
        self.book.all[number].set_taken(queue, false);
    }

    fn pin(&mut self, queue: usize) {
        let Some((number, entry)) = self.any_open(queue) else { return };
        assert!(self.journal.pin(self.queues[queue], &entry));
        if let Some(Debt::Open { pinned, .. }) = self.book.all[number].debts.get_mut(&queue) {
            *pinned = true;
        }
    }

    fn evict(&mut self, queue: usize) {
        let bytes = self.book.backlog(queue).bytes;
        let max_bytes = if self.rng.bool() { self.rng.u64(..=bytes) } else { u64::MAX };
        let not_before_ms = if self.rng.bool() { self.now_ms - self.rng.u64(..5000) } else { 0 };
        let loss = self.journal.evict(self.queues[queue], max_bytes, not_before_ms);
        if !self.fs.has_crashed() {
            assert_eq!(loss, self.book.evict(queue, max_bytes, not_before_ms));
        }
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

    /// Dies and comes back: by a crash if there was one, or as a process that just ends.
    pub(crate) fn reopen(&mut self) {
        let death = if self.rng.bool() { Death::Kill } else { Death::PowerLoss };
        self.fs.crash();
        self.fs = match death {
            Death::Kill => self.fs.after_kill(),
            Death::PowerLoss => self.fs.after_power_loss(),
        };
        self.fs.set_capacity(None);
        self.lost_power |= death == Death::PowerLoss;
        self.options.seed = self.rng.u64(..);
        let looked = inspect(&self.fs, Depth::Payloads).unwrap();
        let (writer, journal, recovery) = open(Arc::new(self.fs.clone()), self.options).unwrap();
        (self.writer, self.journal) = (writer, journal);
        self.check_report(&recovery, death);
        let mut backlogs: Vec<(String, Backlog)> =
            recovery.queues.iter().map(|(_, name, backlog)| (name.clone(), *backlog)).collect();
        backlogs.sort_by(|(one, _), (other, _)| one.cmp(other));
        if !self.style.doubts() {
            let seen: Vec<_> = looked.queues.into_iter().map(|queue| (queue.name, queue.backlog)).collect();
            assert_eq!(seen, backlogs, "inspection sees what recovery sees");
        }
        self.check_idempotence(&recovery);
        self.queues = register(&self.journal, &mut self.rng);
        let unsynced = self.unsynced();
        let found = (0..QUEUES).flat_map(|queue| self.check_queue(queue, death)).collect();
        self.check_prefix(&unsynced, &found);
        self.settle_safety(&found);
        self.check_counters();
    }

    fn check_report(&self, recovery: &Recovery, death: Death) {
        if self.style.doubts() {
            return;
        }
        assert_eq!(recovery.lost, []);
        for report in &recovery.damage {
            let unsynced = report.file.ends_with(".ack") && (death == Death::PowerLoss || self.lost_power);
            assert!(unsynced, "nothing is damaged: {report:?} {death:?} {:?}", self.fs.files().keys());
        }
    }

    /// JOURNAL-4
    fn check_idempotence(&self, recovery: &Recovery) {
        let (_, _, again) = open(Arc::new(self.fs.after_kill()), self.options).unwrap();
        assert_eq!(again.queues, recovery.queues);
        assert_eq!(again.truncated_bytes, 0, "what is torn was cut off: {recovery:?} {again:?}");
        let is_known = |report| recovery.damage.contains(report);
        assert!(self.style.doubts() || again.damage.iter().all(is_known), "damage is told or mended, it never grows");
    }

    /// JOURNAL-1, JOURNAL-2, JOURNAL-3
    fn check_queue(&mut self, queue: usize, death: Death) -> Vec<usize> {
        let before = self.journal.backlog(self.queues[queue]);
        let (found, damaged) = self.drain(queue);
        assert!(found.keys().is_sorted());
        assert_eq!(before.entries, found.len() as u64 + damaged.entries);
        assert!(self.style.doubts() || damaged == Loss::default());
        for (number, item) in self.book.all.iter_mut().enumerate() {
            let Some(entry) = found.get(&number) else {
                assert!(!item.must_survive(queue, death), "item {number} of queue {queue} is lost: {item:?}");
                item.forget(queue, self.style.doubts());
                continue;
            };
            assert!(item.may_be_found(queue, death), "item {number} is back for queue {queue}: {item:?}");
            item.entry = Some(*entry);
            item.debts.insert(queue, Debt::Open { taken: true, pinned: false });
        }
        for (number, entry) in &found {
            self.check_entry(*number, entry);
            if self.rng.u32(..3) > 0 {
                assert!(self.journal.release(self.queues[queue], entry));
                self.book.all[*number].debts.insert(queue, Debt::Open { taken: false, pinned: false });
            }
        }
        found.into_keys().collect()
    }

    /// What was found was synced when the journal was opened; on a failing disk only as far as that is known.
    fn settle_safety(&mut self, found: &BTreeSet<usize>) {
        let safety = if self.style.doubts() { Safety::Doubtful } else { Safety::Synced };
        for number in found {
            let item = &mut self.book.all[*number];
            if item.safety != Safety::Synced {
                item.safety = safety;
            }
        }
    }

    /// Takes everything there is.
    fn drain(&mut self, queue: usize) -> (BTreeMap<usize, Entry>, Loss) {
        let (mut found, mut damaged, mut last) = (BTreeMap::new(), Loss::default(), None);
        loop {
            let chunk = self.journal.take(self.queues[queue], self.rng.usize(..3000)).unwrap();
            damaged.entries += chunk.damaged.entries;
            for (entry, range) in &chunk.entries {
                let number = self.book.find(&chunk.buffer[range.clone()]);
                assert!(last.is_none_or(|last| last < number), "oldest first, and each once");
                last = Some(number);
                self.book.all[number].entry = None;
                found.insert(number, *entry);
            }
            if chunk.entries.is_empty() {
                return (found, damaged);
            }
        }
    }

    /// Entries that power loss may take, oldest first.
    fn unsynced(&self) -> Vec<usize> {
        let is_open = |item: &Item| (0..QUEUES).any(|queue| item.is_open(queue));
        let numbered = self.book.all.iter().enumerate();
        let unsynced = numbered.filter(|(_, item)| item.safety == Safety::Written && is_open(item));
        unsynced.map(|(number, _)| number).collect()
    }

    /// Of what was not synced, the first up to some point are there.
    fn check_prefix(&self, unsynced: &[usize], found: &BTreeSet<usize>) {
        let is_prefix = unsynced.iter().is_sorted_by_key(|number| !found.contains(number));
        assert!(self.style.doubts() || is_prefix, "{unsynced:?} {found:?}");
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
            assert!(name.starts_with("traces/") || self.style.doubts() && name.starts_with("?/"));
            loop {
                let chunk = self.journal.take(queue, usize::MAX).unwrap();
                for (entry, range) in &chunk.entries {
                    self.book.find(&chunk.buffer[range.clone()]);
                    assert!(self.journal.complete(queue, entry));
                }
                if chunk.entries.is_empty() {
                    break;
                }
            }
        }
    }
}

fn refuse(debt: &mut Debt) {
    *debt = Debt::Done { noted: false };
}

/// In any order: ids are not what a queue is.
fn register(journal: &Journal, rng: &mut Rng) -> Vec<QueueId> {
    let mut names: Vec<String> = (0..QUEUES).map(|queue| format!("traces/{queue}")).collect();
    rng.shuffle(&mut names);
    names.iter().for_each(|name| assert!(journal.queue(name) == journal.queue(name)));
    (0..QUEUES).map(|queue| journal.queue(&format!("traces/{queue}"))).collect()
}
