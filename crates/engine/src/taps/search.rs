//! Items that wait on the disk, for whoever looks for one: the journal is read for that.
//!
//! A search goes through what pipelines are owed, in small steps on threads for blocking work, and rests between them.
//! It takes nothing, and what is owed stays as it is. Between steps it does not have the journal, so that it keeps the
//! data directory from nobody. What it reads is paid for before. What it has no memory or time for is left out and
//! counted.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use weir_journal::{Bookmark, Entry, Journal, QueueId, Viewer};
use weir_otlp::Part;
use weir_plan::PipelineId;

use super::caught::Caught;
use super::mark::{Mark, Way};
use super::recent;
use super::tap::{MOST_ITEM, has_any, needles};
use super::{OF_MEMORY, REST, ROOM_BYTES, TapError, Taps, WORK_BYTES, WORK_OF_MEMORY};
use crate::budget::{Budget, Permit, Purse};
use crate::store::Reads;

/// A search reads no more of the disk, and one entry at most.
pub const MOST_SEARCHED: u64 = 256 << 20;
/// And it takes no longer, rests included.
const PATIENCE: Duration = Duration::from_secs(15);
/// A step ends after so much, with the entry that it is at.
const STEP_BYTES: u64 = 4 << 20;
const STEP: Duration = Duration::from_millis(50);
/// Items of one entry are looked at for so long.
const OF_ENTRY: Duration = Duration::from_millis(500);
/// A disk that takes longer for a step does not answer.
const HANGS_AFTER: Duration = Duration::from_secs(2);
/// Items that are found, and their bytes; one more item may be larger.
const MOST_FOUND: usize = 100;
const MOST_FOUND_BYTES: usize = 256 << 10;
const NANOS_OF_MILLISECOND: u64 = 1_000_000;

/// What somebody looks for.
#[derive(Debug, Clone)]
pub struct Sought {
    /// A text that items have; of 16 or 32 hexadecimal digits, also the span or trace id that they are.
    pub text: String,
    /// Where to begin: where an earlier search ended, or before all entries.
    pub from: Bookmark,
    /// It ends after so many bytes of the disk, up to [`MOST_SEARCHED`].
    pub most_bytes: u64,
}

/// Why a search ended before everything was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It has read as much as it may.
    Bytes,
    /// Its time is over.
    Time,
    /// It has found as many items as are shown.
    Found,
    /// The engine has no memory for it now.
    Memory,
    /// The disk does not answer.
    Disk,
    /// The journal is closed: the engine ends.
    Closed,
}

/// What a search has found, and how much it has looked at.
#[derive(Debug, Default)]
pub struct Findings {
    /// Items, the oldest first: each once for every pipeline that is owed it. They passed when they were written to the
    /// disk.
    pub items: Vec<Arc<Caught>>,
    /// Their bytes.
    found_bytes: usize,
    /// Records of the journal that were looked at; each is a request, or what was put together from some.
    pub records: u64,
    /// Bytes of the disk that were gone through.
    pub bytes: u64,
    /// Records that are damaged, or cannot be read.
    pub damaged_records: u64,
    /// Records that there was no memory or time for.
    pub left_out_records: u64,
    /// Items that are too large, or had no room.
    pub left_out_items: u64,
    /// Why it ended early; `None` if everything was looked at.
    pub stopped: Option<Stop>,
    /// Where another search goes on, if it ended early.
    pub next: Option<Bookmark>,
}

/// A search that is about to begin. As long as it is there, there is no other.
#[derive(Debug)]
pub struct Search {
    wanted: Arc<Wanted>,
    journal: Weak<Journal>,
    reads: Arc<Reads>,
    from: Bookmark,
    most_bytes: u64,
    turn: OwnedMutexGuard<()>,
}

#[derive(Debug)]
struct Wanted {
    queues: Vec<QueueId>,
    /// Of each queue.
    pipelines: Vec<PipelineId>,
    needles: Vec<Vec<u8>>,
    /// Pays for what is found.
    room: Budget,
    /// Pays for what is read.
    work: Budget,
}

impl Taps {
    /// A search through what these pipelines are owed, whether they are configured or not.
    ///
    /// # Errors
    /// A text that cannot be looked for, another search, or no memory.
    pub(crate) fn search(
        &self,
        (journal, reads): (&Arc<Journal>, &Arc<Reads>),
        sought: &Sought,
        is_meant: &dyn Fn(&PipelineId) -> bool,
    ) -> Result<Search, TapError> {
        let needles = needles(&sought.text)?;
        let turn = Arc::clone(&self.shelf.search).try_lock_owned().map_err(|_| TapError::Searching)?;
        let parsed = |(queue, name): (QueueId, String)| Some((queue, name.parse::<PipelineId>().ok()?));
        let named = journal.queues().into_iter().filter_map(parsed);
        let (queues, pipelines) = named.filter(|(_, id)| is_meant(id)).unzip();
        let (room, work) = (self.room(ROOM_BYTES, OF_MEMORY)?, self.room(WORK_BYTES, WORK_OF_MEMORY)?);
        Ok(Search {
            wanted: Arc::new(Wanted { queues, pipelines, needles, room, work }),
            journal: Arc::downgrade(journal),
            reads: Arc::clone(reads),
            from: sought.from,
            most_bytes: sought.most_bytes.min(MOST_SEARCHED),
            turn,
        })
    }
}

impl Search {
    /// The pipelines whose data is looked through.
    pub fn pipelines(&self) -> &[PipelineId] {
        &self.wanted.pipelines
    }

    /// Looks until everything was looked at, or a limit is reached. If the disk hangs, there is no other search until
    /// it answers.
    pub async fn run(self) -> Findings {
        let Self { wanted, journal, reads, from, most_bytes, mut turn } = self;
        let (began, mut rest) = (Instant::now(), Duration::ZERO);
        let mut found = Findings { next: Some(from), ..Findings::default() };
        found.stopped = loop {
            let Some(next) = found.next else { break None };
            let limit = found.limit(most_bytes, began.elapsed());
            if limit.is_some() {
                break limit;
            }
            sleep(rest).await;
            if reads.busy() > HANGS_AFTER {
                break Some(Stop::Disk);
            }
            let Some(journal) = journal.upgrade() else { break Some(Stop::Closed) };
            let left = most_bytes.saturating_sub(found.bytes);
            let step = Step {
                wanted: Arc::clone(&wanted),
                journal,
                from: next,
                most_bytes: left.min(STEP_BYTES),
                found: (found.items.len(), found.found_bytes),
            };
            let work = move || {
                let began = Instant::now();
                let more = step.look();
                (more, began.elapsed(), turn)
            };
            let Ok(Ok((more, took, returned))) = timeout(HANGS_AFTER, spawn_blocking(work)).await else {
                break Some(Stop::Disk);
            };
            found.add(more);
            (rest, turn) = (took * REST, returned);
        };
        found
    }
}

impl Findings {
    fn limit(&self, most_bytes: u64, took: Duration) -> Option<Stop> {
        let limits = [
            (is_full(self.items.len(), self.found_bytes), Stop::Found),
            (self.bytes >= most_bytes, Stop::Bytes),
            (took >= PATIENCE, Stop::Time),
        ];
        self.stopped.or_else(|| limits.into_iter().find_map(|(is_reached, stop)| is_reached.then_some(stop)))
    }

    /// Adds what a later step has found.
    fn add(&mut self, step: Self) {
        self.items.extend(step.items);
        self.found_bytes += step.found_bytes;
        self.records += step.records;
        self.bytes += step.bytes;
        self.damaged_records += step.damaged_records;
        self.left_out_records += step.left_out_records;
        self.left_out_items += step.left_out_items;
        (self.stopped, self.next) = (step.stopped, step.next);
    }
}

fn is_full(items: usize, bytes: usize) -> bool {
    items >= MOST_FOUND || bytes >= MOST_FOUND_BYTES
}

/// A part of a search, for a thread that may wait for the disk.
struct Step {
    wanted: Arc<Wanted>,
    journal: Arc<Journal>,
    from: Bookmark,
    most_bytes: u64,
    /// Items that were found before, and their bytes.
    found: (usize, usize),
}

impl Step {
    fn look(&self) -> Findings {
        let wanted = &*self.wanted;
        let Some(permit) = wanted.work.try_take(Journal::LOOK_OVERHEAD) else {
            return Findings { stopped: Some(Stop::Memory), next: Some(self.from), ..Findings::default() };
        };
        let (until, found) = (Instant::now() + STEP, self.found);
        let mut look = Look { wanted, permit, until, has_begun: false, found, findings: Findings::default() };
        let looked = self.journal.look(&wanted.queues, self.from, self.most_bytes, &mut look);
        Findings { bytes: looked.bytes, damaged_records: looked.unreadable, next: looked.next, ..look.findings }
    }
}

/// Looks at entries one by one.
struct Look<'a> {
    wanted: &'a Wanted,
    /// Pays for the largest entry so far, and for what reading takes beside it.
    permit: Permit,
    until: Instant,
    /// There is one step at least, however slow the disk is.
    has_begun: bool,
    found: (usize, usize),
    findings: Findings,
}

impl Viewer for Look<'_> {
    fn goes_on(&mut self) -> bool {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        !has_begun || (Instant::now() < self.until && self.findings.stopped.is_none() && !self.is_full())
    }

    fn pays(&mut self, entry: &Entry) -> bool {
        let is_paid = self.permit.cover(Journal::LOOK_OVERHEAD + entry.payload_bytes as usize);
        self.findings.left_out_records += u64::from(!is_paid);
        is_paid
    }

    fn see(&mut self, entry: &Entry, owed: &[QueueId], payload: Vec<u8>) {
        self.findings.records += 1;
        if !has_any(&payload, &self.wanted.needles) {
            return;
        }
        let Wanted { queues, pipelines, .. } = self.wanted;
        let is_owed = |(queue, _): &(&QueueId, &PipelineId)| owed.contains(queue);
        let owed: Vec<_> = queues.iter().zip(pipelines).filter(is_owed).map(|(_, id)| id).collect();
        let Some(signal) = owed.first().map(|id| id.signal) else { return };
        let (payload, until) = (Bytes::from(payload), Instant::now() + OF_ENTRY);
        for part in weir_otlp::single(signal, &payload) {
            if Instant::now() >= until {
                self.findings.left_out_records += 1;
                return;
            }
            self.look_at(&part, entry, &owed);
        }
    }
}

impl Look<'_> {
    fn is_full(&self) -> bool {
        let (items, bytes) = self.found;
        is_full(items + self.findings.items.len(), bytes + self.findings.found_bytes)
    }

    /// Keeps an item if it is wanted and there is room.
    fn look_at(&mut self, part: &Part<'_>, entry: &Entry, owed: &[&PipelineId]) {
        let has_room = part.length() <= MOST_ITEM;
        let item = has_room.then(|| Purse::new(&self.wanted.work, 0).copy(part).ok()).flatten();
        let is_left_out = match item {
            Some(item) if has_any(&item, &self.wanted.needles) => self.is_full() || !self.keep(part, entry, owed),
            Some(_) => false,
            None => true,
        };
        self.findings.left_out_items += u64::from(is_left_out);
    }

    /// False without memory.
    fn keep(&mut self, part: &Part<'_>, entry: &Entry, owed: &[&PipelineId]) -> bool {
        let beside: usize = owed.iter().map(|id| recent::cost_of(Some(*id), 0)).sum();
        let Ok(request) = Purse::new(&self.wanted.room, 0).copy_and(part, beside) else {
            self.findings.stopped = Some(Stop::Memory);
            return false;
        };
        let mark = Mark::told(Way::Stored, entry.written_ms);
        let at = entry.written_ms.saturating_mul(NANOS_OF_MILLISECOND);
        for id in owed {
            let number = (self.found.0 + self.findings.items.len()) as u64 + 1;
            let item = Caught::new(number, at, (id.signal, Some(*id)), request.clone(), (None, &mark));
            self.findings.items.push(Arc::new(item));
            self.findings.found_bytes += request.len();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use weir_journal::{Durability, NewEntry, Options, Owed, Writer};
    use weir_plan::Signal;
    use weir_testkit::{SimFs, payload};

    use super::*;
    use crate::budget::OVERHEAD_BYTES;
    use crate::store::Io;

    const MEMORY: usize = 64 << 20;

    /// A journal, and who looks through it.
    struct Disk {
        writer: Writer,
        journal: Arc<Journal>,
        taps: Taps,
        budget: Budget,
    }

    impl Disk {
        fn new(memory: usize) -> Self {
            let options = Options { segment_bytes: 1 << 20, seed: 1 };
            let (writer, journal, _) = weir_journal::open(Arc::new(SimFs::new(1)), options).unwrap();
            let (taps, budget) = (Taps::default(), Budget::new(memory));
            taps.pay_from(&budget);
            Self { writer, journal, taps, budget }
        }

        /// Writes spans of these numbers in one entry, with so much text in each.
        fn put(&mut self, pipelines: &[&str], (first, spans, padding): (u64, u64, usize)) -> Entry {
            let owed: Vec<_> =
                pipelines.iter().map(|name| Owed { queue: self.journal.queue(name), taken: false }).collect();
            let payload = [Bytes::from(payload::encoded(first, spans, padding))];
            let new = NewEntry { payload: &payload, items: 1, owed: &owed };
            self.writer.append(&[new], 1000 + first, Durability::Synced).unwrap()[0]
        }

        fn search(&self, text: &str, from: Bookmark, most_bytes: u64) -> Result<Search, TapError> {
            let sought = Sought { text: text.to_owned(), from, most_bytes };
            let is_meant = |id: &PipelineId| id.signal == Signal::Traces;
            self.taps.search((&self.journal, &Reads::new(Io::Threads)), &sought, &is_meant)
        }

        async fn find(&self, text: &str) -> Findings {
            self.search(text, Bookmark::default(), u64::MAX).unwrap().run().await
        }
    }

    /// Who is owed an item, and since when.
    fn waits(found: &Findings) -> Vec<(String, u64)> {
        let of = |item: &Arc<Caught>| {
            assert_eq!(item.way_and_time(), Some((Way::Stored, Some(item.unix_ms))));
            (item.pipeline.as_ref().unwrap().to_string(), item.unix_ms)
        };
        found.items.iter().map(of).collect()
    }

    fn waiting(pipeline: &str, since: u64) -> (String, u64) {
        (pipeline.to_owned(), since)
    }

    #[tokio::test]
    async fn an_item_is_found_for_each_pipeline_that_is_owed_it() {
        let mut disk = Disk::new(MEMORY);
        let first = disk.put(&["traces/a", "traces/b", "logs/a"], (1, 10, 10));
        disk.put(&["traces/b"], (11, 10, 10));
        disk.put(&["logs/a"], (21, 10, 10));
        let found = disk.find(&format!("{:032x}", 7)).await;
        assert_eq!(waits(&found), [waiting("traces/a", 1001), waiting("traces/b", 1001)]);
        assert_eq!(found.items.iter().map(|item| item.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((found.records, found.stopped, found.next), (2, None, None), "and nothing of logs is looked at");
        assert_eq!(waits(&disk.find("GET /orders/17").await), [waiting("traces/b", 1011)]);
        assert!(disk.find("GET /orders/27").await.items.is_empty());
        assert!(disk.journal.complete(disk.journal.queue("traces/a"), &first));
        assert_eq!(waits(&disk.find("GET /orders/7").await), [waiting("traces/b", 1001)]);
        drop(found);
        assert_eq!(disk.budget.used(), 0);
    }

    /// What is found is paid for as long as it is there: a request once, and each item that is made of it.
    #[tokio::test]
    async fn an_item_pays_for_all_that_is_owed_it() {
        let mut disk = Disk::new(MEMORY);
        disk.put(&["traces/a", "traces/b", "traces/c"], (1, 1, 10));
        let found = disk.find("GET /orders/").await;
        assert_eq!(found.items.len(), 3);
        let beside: usize = found.items.iter().map(|item| recent::cost_of(item.pipeline.as_ref(), 0)).sum();
        let whole = found.items[0].request.len() + beside;
        let used = disk.budget.used();
        assert!((whole..=whole + OVERHEAD_BYTES + whole / 8).contains(&used), "{used} for {whole}");
        drop(found);
        assert_eq!(disk.budget.used(), 0);
    }

    #[tokio::test]
    async fn one_search_at_a_time_and_the_next_goes_on_where_it_ended() {
        let mut disk = Disk::new(MEMORY);
        (0..30).for_each(|number| _ = disk.put(&["traces/a"], (1 + number, 1, 10_000)));
        let (mut from, mut found, mut searches) = (Bookmark::default(), 0, 0);
        loop {
            let search = disk.search("GET /orders/", from, 50_000).unwrap();
            assert!(matches!(disk.search("a", from, 1), Err(TapError::Searching)));
            let part = search.run().await;
            (found, searches) = (found + part.items.len(), searches + 1);
            assert!(part.bytes < 50_000 + 12_000, "{}", part.bytes);
            let Some(next) = part.next else { break };
            assert!(part.stopped == Some(Stop::Bytes) && next > from, "{:?}", part.stopped);
            from = next;
        }
        assert!(found == 30 && searches >= 6, "{found} in {searches}");
        assert!(disk.search("", from, 1).is_err());
    }

    #[tokio::test]
    async fn what_is_found_has_a_limit() {
        let mut disk = Disk::new(MEMORY);
        disk.put(&["traces/a"], (1, 150, 10));
        disk.put(&["traces/a"], (151, 1, 10));
        let found = disk.find("GET /orders/").await;
        assert_eq!((found.items.len(), found.left_out_items, found.records), (MOST_FOUND, 50, 1));
        assert_eq!(found.stopped, Some(Stop::Found));
        let next = disk.search("GET /orders/", found.next.unwrap(), u64::MAX).unwrap().run().await;
        assert_eq!((waits(&next), next.stopped), (vec![waiting("traces/a", 1151)], None));
    }

    /// An item that is too large is not shown, nor is an entry read that nobody can pay for.
    #[tokio::test]
    async fn what_there_is_no_memory_for_is_left_out_and_counted() {
        let mut disk = Disk::new(8 << 20);
        disk.put(&["traces/a"], (1, 1, MOST_ITEM));
        disk.put(&["traces/a"], (2, 1, 600_000));
        disk.put(&["traces/a"], (3, 1, 10));
        let found = disk.find("GET /orders/").await;
        assert_eq!((waits(&found), found.stopped), (vec![waiting("traces/a", 1003)], None));
        assert_eq!((found.records, found.left_out_records, found.left_out_items), (2, 1, 1));
        let _others = disk.budget.try_take(disk.budget.capacity() - disk.budget.used() - 100_000).unwrap();
        let found = disk.find("GET /orders/").await;
        assert_eq!((found.records, found.stopped), (0, Some(Stop::Memory)));
    }

    #[tokio::test]
    async fn it_keeps_the_journal_from_nobody() {
        let mut disk = Disk::new(MEMORY);
        disk.put(&["traces/a"], (1, 1, 10));
        let search = disk.search("GET", Bookmark::default(), u64::MAX).unwrap();
        let journal = Arc::downgrade(&disk.journal);
        drop(disk);
        assert!(journal.upgrade().is_none());
        assert_eq!(search.run().await.stopped, Some(Stop::Closed));
    }
}
