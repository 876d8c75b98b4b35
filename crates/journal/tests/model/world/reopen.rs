//! Dying and coming back: what recovery must find, and recovery that is itself met by crashes and failing disks.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use weir_journal::{Backlog, Depth, Entry, Journal, Loss, Order, QueueId, Recovery, inspect, open};
use weir_testkit::SimFs;

use super::{QUEUES, World, register};
use crate::book::{Death, Debt, Item, Safety};

/// One recovery in so many is met by a crash everywhere.
const CRASHED_RECOVERIES: u32 = 16;

/// What each queue finds.
type Found = Vec<BTreeMap<usize, Entry>>;

impl World {
    /// Dies and comes back, now and then only after some processes that did not get far.
    pub(crate) fn reopen(&mut self) {
        let mut death = self.die();
        if self.rng.u32(..CRASHED_RECOVERIES) == 0 {
            self.crash_recovery(death);
        }
        while self.rng.u32(..3) == 0 {
            self.stumble();
            death = death.max(self.die());
        }
        self.come_back(death);
    }

    /// By a crash if there was one, or as a process that just ends.
    fn die(&mut self) -> Death {
        let death = if self.rng.bool() { Death::Kill } else { Death::PowerLoss };
        self.fs.crash();
        self.fs = restarted(&self.fs, death);
        self.fs.set_capacity(None);
        self.lost_power |= death == Death::PowerLoss;
        death
    }

    /// Recovery is met by a crash at each of its operations, on copies of the disk; the next one finds what it must.
    fn crash_recovery(&mut self, death: Death) {
        for crash in 1.. {
            let copy = self.fs.after_kill();
            copy.crash_at(crash);
            // It fails only when it cannot even begin.
            drop(open(Arc::new(copy.clone()), self.options));
            if !copy.has_crashed() {
                return;
            }
            self.recovery_crashes += 1;
            let again = if self.rng.bool() { Death::Kill } else { Death::PowerLoss };
            let worst = death.max(again);
            let (_writer, journal, recovery) = open(Arc::new(restarted(&copy, again)), self.options).unwrap();
            self.check_report(&recovery, worst);
            self.check_found(&journal, worst);
        }
    }

    /// Another process recovers the disk.
    fn start(&mut self) -> Option<Recovery> {
        self.options.seed = self.rng.u64(..);
        let (writer, journal, recovery) = open(Arc::new(self.fs.clone()), self.options).ok()?;
        self.process += 1;
        self.queues = register(&journal, &mut self.rng);
        (self.writer, self.journal) = (writer, journal);
        Some(recovery)
    }

    /// A process that does not get far: it is met by a crash, a full disk or a failing one when it recovers. What it does
    /// all the same must not cost anything.
    fn stumble(&mut self) {
        match self.rng.u32(..3) {
            0 => self.fs.crash_at(self.rng.u64(1..20)),
            1 => self.fs.set_capacity(Some(self.fs.used() + self.rng.u64(..200))),
            _ => {
                let reads_fail = self.rng.bool();
                self.set_faults(reads_fail);
            }
        }
        let Some(recovery) = self.start() else {
            assert!(self.fs.has_crashed());
            return;
        };
        assert!(self.doubts || recovery.lost.is_empty(), "what cannot be read now is not lost");
        // What it could not read or make durable it says.
        self.doubts |= self.style.faults && !self.fs.has_crashed() && !recovery.damage.is_empty();
        for _ in 0..self.rng.u32(..6) {
            match self.rng.u32(..3) {
                0 => self.append(),
                1 => self.glimpse(),
                // What it writes down is nothing that the book has completed in this process.
                _ => drop(self.writer.tidy()),
            }
        }
    }

    /// Takes something, which this process will not complete.
    fn glimpse(&mut self) {
        let queue = self.rng.usize(..QUEUES);
        let Ok(taken) = self.journal.take(self.queues[queue], Order::Oldest, self.rng.usize(..3000), &mut |_| true)
        else {
            assert!(self.fs.has_crashed() || self.style.faults);
            return;
        };
        assert!(self.doubts || taken.damaged == Loss::default(), "what cannot be read now is not lost");
        for (entry, range) in &taken.entries {
            self.check_entry(self.book.find(&taken.buffer[range.clone()]), entry);
        }
    }

    fn come_back(&mut self, death: Death) {
        let looked = inspect(&self.fs, Depth::Payloads).unwrap();
        let recovery = self.start().unwrap();
        self.check_report(&recovery, death);
        let mut backlogs: Vec<(String, Backlog)> =
            recovery.queues.iter().map(|(_, name, backlog)| (name.clone(), *backlog)).collect();
        backlogs.sort_by(|(one, _), (other, _)| one.cmp(other));
        if !self.doubts {
            let seen: Vec<_> = looked.queues.into_iter().map(|queue| (queue.name, queue.backlog)).collect();
            assert_eq!(seen, backlogs, "inspection sees what recovery sees");
        }
        self.check_idempotence(&recovery);
        let found = self.check_found(&self.journal, death);
        self.settle(&found);
        self.check_counters();
    }

    fn check_report(&self, recovery: &Recovery, death: Death) {
        if self.doubts {
            return;
        }
        assert_eq!(recovery.lost, []);
        for report in &recovery.damage {
            let unsynced = report.file.ends_with(".ack") && (death == Death::PowerLoss || self.lost_power);
            // A disk that did not take the note that a segment is done with may bring back what is left of it.
            let unnoted = report.what.starts_with("the file is gone") && (self.style.faults || self.style.full);
            assert!(unsynced || unnoted, "nothing is damaged: {report:?} {death:?} {:?}", self.fs.files().keys());
        }
    }

    /// JOURNAL-4
    fn check_idempotence(&self, recovery: &Recovery) {
        let (_, _, again) = open(Arc::new(self.fs.after_kill()), self.options).unwrap();
        assert_eq!(again.queues, recovery.queues);
        assert_eq!(again.truncated_bytes, 0, "what is torn was cut off: {recovery:?} {again:?}");
        let is_known = |report| recovery.damage.contains(report);
        assert!(self.doubts || again.damage.iter().all(is_known), "damage is told or mended, it never grows");
    }

    /// JOURNAL-1, JOURNAL-2, JOURNAL-3: what a journal that was just opened hands out.
    fn check_found(&self, journal: &Journal, death: Death) -> Found {
        let found: Found = (0..QUEUES).map(|queue| self.check_queue(journal, queue, death)).collect();
        self.check_prefix(&found);
        found
    }

    fn check_queue(&self, journal: &Journal, queue: usize, death: Death) -> BTreeMap<usize, Entry> {
        let id = journal.queue(&format!("traces/{queue}"));
        let before = journal.backlog(id);
        let (found, damaged) = self.drain(journal, id);
        assert_eq!(before.entries, found.len() as u64 + damaged.entries);
        assert!(self.doubts || damaged == Loss::default());
        for (number, item) in self.book.all.iter().enumerate() {
            if found.contains_key(&number) {
                assert!(item.may_be_found(queue, death), "item {number} is back for queue {queue}: {item:?}");
            } else {
                assert!(!item.must_survive(queue, death), "item {number} of queue {queue} is lost: {item:?}");
            }
        }
        found
    }

    /// Takes everything there is.
    fn drain(&self, journal: &Journal, queue: QueueId) -> (BTreeMap<usize, Entry>, Loss) {
        let (mut found, mut damaged, mut last) = (BTreeMap::new(), Loss::default(), None);
        // Any sizes.
        let mut sizes = Rng::with_seed(self.options.seed);
        loop {
            let taken = journal.take(queue, Order::Oldest, sizes.usize(..3000), &mut |_| true).unwrap();
            damaged.entries += taken.damaged.entries;
            for (entry, range) in &taken.entries {
                let number = self.book.find(&taken.buffer[range.clone()]);
                assert!(last.is_none_or(|last| last < number), "oldest first, and each once");
                last = Some(number);
                self.check_entry(number, entry);
                found.insert(number, *entry);
            }
            if taken.entries.is_empty() {
                return (found, damaged);
            }
        }
    }

    /// Of what a process wrote and did not sync, the first up to some point are there.
    fn check_prefix(&self, found: &Found) {
        let is_unsynced = |item: &Item| item.safety == Safety::Written && (0..QUEUES).any(|queue| item.is_open(queue));
        let items = self.book.all.iter().enumerate().filter(|(_, item)| is_unsynced(item));
        let is_missing = |number: &usize| !found.iter().any(|queue| queue.contains_key(number));
        let in_order = items.is_sorted_by_key(|(number, item)| (item.process, is_missing(&number)));
        assert!(self.doubts || in_order, "{found:?} {:?}", self.book);
    }

    /// What was found is what is owed from now on. It was synced when the journal was opened; on a failing disk only as
    /// far as that is known.
    fn settle(&mut self, found: &Found) {
        let safety = if self.doubts { Safety::Doubtful } else { Safety::Synced };
        for (number, item) in self.book.all.iter_mut().enumerate() {
            for (queue, found) in found.iter().enumerate() {
                let Some(entry) = found.get(&number) else {
                    item.forget(queue, self.doubts);
                    continue;
                };
                let taken = self.rng.u32(..3) == 0;
                assert!(taken || self.journal.release(self.queues[queue], entry));
                item.debts.insert(queue, Debt::Open { taken, completed: 0 });
                item.entry = Some(*entry);
                if item.safety != Safety::Synced {
                    item.safety = safety;
                }
            }
        }
    }
}

/// A disk as such a death leaves it.
fn restarted(fs: &SimFs, death: Death) -> SimFs {
    match death {
        Death::Kill => fs.after_kill(),
        Death::PowerLoss => fs.after_power_loss(),
    }
}
