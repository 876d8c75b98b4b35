//! Taps: what passes a pipeline, for whoever looks at it.
//!
//! A tap catches items at one edge of some pipelines, or beside them, as they were there, until its time is over or
//! nobody asks for it any more. It only looks: no verdict, no book and no byte of a request depends on it. While there
//! is none, a request pays one relaxed load for each pipeline and each edge of none, and what its recent items cost
//! (`recent`). While there is one, requests are handed to it as they are, which copies nothing but what enrichment is
//! about to change, and a thread for blocking work takes them apart, one at a time for all taps, for a bounded time
//! each, and at most a quarter of the time. What it has no time or room for is left out and counted. What is kept is
//! paid for from the memory budget, and makes room for what comes.

mod caught;
mod followed;
mod inbox;
mod mark;
mod outside;
mod recent;
mod recovered;
mod rehearsal;
mod search;
mod tap;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Mutex;
use weir_ottl::max_pattern_bytes;
use weir_plan::{Pipeline, PipelineId, Signal};

use crate::budget::{Budget, OVERHEAD_BYTES, Permit, Purse};
use crate::clock::unix_nanos;
use crate::rules::{Processed, Rules};

pub use crate::rules::RulePlace;
pub use caught::{Caught, RemovedBy};
pub(crate) use followed::Followed;
use inbox::Passed;
pub(crate) use mark::Mark;
pub use mark::{Way, WayAndTime};
use outside::Outside;
pub use recent::RecentItems;
pub(crate) use recent::{MAX_BYTES as MAX_RECENT_BYTES, Recent};
pub(crate) use recovered::RecoveredItems;
pub use rehearsal::{Deltas, Rehearsal};
pub use search::{Findings, MOST_SEARCHED, Search, Sought, Stop};
use tap::Tap;
pub use tap::{has_any, needles};

/// Taps at once, with those that have ended and can still be read.
pub const MOST_TAPS: usize = 8;
/// A tap that nobody asks for ends after this long.
const FORSAKEN_AFTER: Duration = Duration::from_secs(15);
/// What a tap that has ended caught can be read for this long, if no other needs its place.
const READABLE_FOR: Duration = Duration::from_secs(30);
/// How often a tap's time is looked at.
const CHECK: Duration = Duration::from_secs(1);
/// After work that took a while, all taps rest this many times as long.
const REST: u32 = 3;
/// What a tap's items take at most, and the part of the memory if that is less.
const ROOM_BYTES: usize = 4 << 20;
const OF_MEMORY: usize = 64;
/// The same for what all taps copy and calculate together, and for what they have compiled.
const WORK_BYTES: usize = 64 << 20;
const WORK_OF_MEMORY: usize = 8;
/// What a condition, and all rules that are tried, may have of text.
const MOST_CONDITION: usize = 1000;
const MOST_RULES: usize = 16 << 10;
/// What is compiled takes so much for each byte of its text, beside its patterns.
const COMPILED_BYTES: usize = 64;

/// Where an item is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Before the pipeline's rules: enriched, and chosen by its inputs.
    In,
    /// The same, and only what its rules remove.
    Removed,
    /// After its rules.
    Out,
    /// After this rule and those before it, and before the others.
    After(RulePlace),
    /// Before all pipelines, and before enrichment: as it came from its client or source.
    Received,
    /// Beside all pipelines: what clients push and none of them takes, enriched.
    Unclaimed,
}

impl Edge {
    /// The rule that it comes after.
    pub fn rule(self) -> Option<RulePlace> {
        if let Self::After(rule) = self { Some(rule) } else { None }
    }

    /// Whether what passes there passes a pipeline.
    pub fn is_of_a_pipeline(self) -> bool {
        !matches!(self, Self::Received | Self::Unclaimed)
    }
}

/// What somebody wants to see.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The pipelines as they are configured. A condition needs them to be of one signal, and a rule is of one pipeline. At
    /// an edge of no pipeline, their signals are looked at.
    pub pipelines: Vec<Pipeline>,
    /// Where to look.
    pub edge: Edge,
    /// Only items in whose bytes this text occurs; of 16 or 32 hexadecimal digits, also those with this span or trace id.
    pub text: Option<String>,
    /// Only items for which this OTTL condition holds.
    pub condition: Option<String>,
    /// Items caught in a second, at most.
    pub per_second: u32,
    /// When it ends.
    pub lasts: Duration,
}

/// Why there is no tap, no rehearsal, or no search.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// It was written wrongly.
    #[error("{0}")]
    Wrong(String),
    /// There are as many as there may be.
    #[error("there are {MOST_TAPS} taps already, which is as many as there may be: close one, or wait until one ends")]
    TooMany,
    /// Another one is under way.
    #[error("other rules are being tried; try again in a moment")]
    Busy,
    /// Another search is under way.
    #[error("the disk is being searched, and there is one search at a time: try again in a moment")]
    Searching,
    /// The engine has no memory for it now.
    #[error("there is not enough memory for that now: use fewer patterns, close taps that have some, or try again")]
    NoMemory,
}

/// A tap as it stands.
#[derive(Debug, Clone)]
pub struct TapFigures {
    /// Its number.
    pub id: u64,
    /// Whether it still looks.
    pub is_open: bool,
    /// When it ends or ended, in milliseconds since the Unix epoch.
    pub ends_unix_ms: u64,
    /// Items that passed the edge since it was opened.
    pub seen: u64,
    /// How many of them it looked at; the others came when its limits were reached.
    pub looked_at: u64,
    /// How many it caught.
    pub caught: u64,
}

/// A part of what a tap has caught.
#[derive(Debug)]
pub struct Reading {
    /// The tap.
    pub figures: TapFigures,
    /// Items, the oldest first: as many as are read at once.
    pub items: Vec<Arc<Caught>>,
    /// What has become of all that it keeps, by their numbers, and when: see [`Caught::way_and_time`].
    pub ways: Vec<(u64, Option<WayAndTime>)>,
}

/// The taps of an engine. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Taps {
    shelf: Arc<Shelf>,
}

#[derive(Debug, Default)]
struct Shelf {
    /// Taps that look.
    open: AtomicUsize,
    taps: RwLock<Vec<Arc<Tap>>>,
    last: AtomicU64,
    /// Whoever takes requests apart, or rests after that, has it.
    turn: Mutex<()>,
    /// Whoever compiles rules has it, for as long as they are tried.
    compiles: std::sync::Mutex<()>,
    /// Whoever looks through the journal has it. Nobody waits for it.
    search: Arc<Mutex<()>>,
    /// Of payloads. Set when the engine starts.
    budget: OnceLock<Budget>,
    /// A part of that, which pays for what all taps copy and calculate.
    for_work: OnceLock<Budget>,
    /// Another one, which pays for what is compiled: by all taps, and by whoever tries rules.
    for_rules: OnceLock<Budget>,
}

impl Taps {
    /// What they catch is paid for from here.
    pub(crate) fn pay_from(&self, budget: &Budget) {
        // An engine begins once.
        let _ = self.shelf.budget.set(budget.clone());
        let _ = self.shelf.for_work.set(part_of(budget, WORK_BYTES, WORK_OF_MEMORY));
        let _ = self.shelf.for_rules.set(part_of(budget, WORK_BYTES, WORK_OF_MEMORY));
    }

    /// Opens a tap, and returns its number. Needs the engine's runtime.
    ///
    /// # Errors
    /// A condition that cannot be compiled, too many taps, or no memory.
    pub fn open(&self, wish: &Wish) -> Result<u64, TapError> {
        let work = self.shelf.for_work.get().ok_or(TapError::NoMemory)?.clone();
        let rooms = [self.room(ROOM_BYTES, OF_MEMORY)?, work];
        let text = wish.condition.as_deref().unwrap_or_default();
        let paid = self.pay_for([(text, max_pattern_bytes(text))].into_iter(), MOST_CONDITION)?;
        // Nobody else opens one meanwhile. Requests are not kept waiting while a condition is compiled.
        let _alone = lock(&self.shelf.compiles);
        let is_full = |taps: &[Arc<Tap>]| taps.iter().filter(|tap| tap.is_open()).count() >= MOST_TAPS;
        if is_full(&self.shelf.taps.read().unwrap_or_else(PoisonError::into_inner)) {
            return Err(TapError::TooMany);
        }
        let id = self.shelf.last.fetch_add(1, Ordering::Relaxed) + 1;
        let tap = Arc::new(Tap::new(id, wish, rooms, paid)?);
        let mut taps = self.shelf.taps.write().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended make room before their time, the oldest first.
        while taps.len() >= MOST_TAPS {
            let ended = taps.iter().position(|tap| !tap.is_open()).ok_or(TapError::TooMany)?;
            taps.remove(ended);
        }
        taps.push(Arc::clone(&tap));
        self.shelf.open.fetch_add(1, Ordering::Release);
        drop(taps);
        tokio::spawn(self.clone().look_after(tap));
        Ok(id)
    }

    /// Ends a tap. What it caught can be read for a while. False if there is none of this number.
    pub fn close(&self, id: u64) -> bool {
        self.find(id).map(|tap| self.end(&tap)).is_some()
    }

    /// Every tap that can be read, the newest first.
    pub fn list(&self) -> Vec<TapFigures> {
        let taps = self.shelf.taps.read().unwrap_or_else(PoisonError::into_inner);
        taps.iter().rev().map(|tap| tap.figures()).collect()
    }

    /// A tap, and what it caught with a number above `after`; `None` if there is none of this number. Whoever asks keeps
    /// the tap open.
    pub fn read(&self, id: u64, after: u64) -> Option<Reading> {
        let tap = self.find(id)?;
        tap.note_asked();
        Some(tap.read(after))
    }

    /// All that a tap keeps of one pipeline.
    pub fn kept(&self, id: u64, pipeline: &PipelineId) -> Option<Vec<Arc<Caught>>> {
        let tap = self.find(id)?;
        tap.note_asked();
        Some(tap.kept(pipeline))
    }

    /// Who looks at this pipeline: its taps, and whoever keeps its recent items.
    pub(crate) fn at<'a>(&self, pipeline: &PipelineId, recent: &'a Recent) -> Looking<'a> {
        if self.shelf.open.load(Ordering::Relaxed) == 0 {
            return Looking { recent, taps: Vec::new() };
        }
        let taps = self.shelf.taps.read().unwrap_or_else(PoisonError::into_inner);
        let taps = taps.iter().filter(|tap| tap.is_open() && tap.looks_at(pipeline)).cloned().collect();
        Looking { recent, taps }
    }

    /// Who looks at an edge of no pipeline, if anybody does.
    pub(crate) fn outside(&self, edge: Edge, signal: Signal) -> Option<Outside> {
        if self.shelf.open.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let taps = self.shelf.taps.read().unwrap_or_else(PoisonError::into_inner);
        let taps: Vec<_> =
            taps.iter().filter(|tap| tap.is_open() && tap.looks_outside(edge, signal)).cloned().collect();
        (!taps.is_empty()).then_some(Outside { signal, taps })
    }

    /// A part of the memory for payloads.
    fn room(&self, most: usize, of_memory: usize) -> Result<Budget, TapError> {
        let budget = self.shelf.budget.get().ok_or(TapError::NoMemory)?;
        Ok(part_of(budget, most, of_memory))
    }

    /// Pays for what these texts may become, each with what its patterns may take.
    fn pay_for<'a>(&self, texts: impl Iterator<Item = (&'a str, usize)>, most: usize) -> Result<Permit, TapError> {
        let (mut length, mut bytes) = (0, 0_usize);
        for (text, patterns) in texts {
            length += text.len();
            bytes = bytes.saturating_add(patterns).saturating_add(text.len() * COMPILED_BYTES);
        }
        if length > most {
            return Err(TapError::Wrong(format!("{length} bytes of text are too much: at most {most} are taken here")));
        }
        let room = self.shelf.for_rules.get().ok_or(TapError::NoMemory)?;
        if bytes > room.capacity().saturating_sub(OVERHEAD_BYTES) {
            return Err(TapError::Wrong(too_large(bytes, room.capacity())));
        }
        let paid = room.try_take(bytes).or_else(|| {
            // Those that have ended make room before their time.
            self.shelf.taps.write().unwrap_or_else(PoisonError::into_inner).retain(|tap| tap.is_open());
            room.try_take(bytes)
        });
        paid.ok_or(TapError::NoMemory)
    }

    fn find(&self, id: u64) -> Option<Arc<Tap>> {
        let taps = self.shelf.taps.read().unwrap_or_else(PoisonError::into_inner);
        taps.iter().find(|tap| tap.id == id).cloned()
    }

    fn end(&self, tap: &Tap) {
        if tap.end() {
            self.shelf.open.fetch_sub(1, Ordering::Release);
        }
    }

    /// Has its requests taken apart, ends it when its time is over, and forgets it when nobody reads it any more.
    async fn look_after(self, tap: Arc<Tap>) {
        while tap.is_open() && !tap.is_over(FORSAKEN_AFTER) {
            // Its time is looked at between any two requests: there may always be another one.
            match tap.next() {
                Some(passed) => self.work(&tap, passed).await,
                // Whichever is first.
                None => drop(tokio::time::timeout(CHECK, tap.has_more()).await),
            }
        }
        self.end(&tap);
        let id = tap.id;
        drop(tap);
        tokio::time::sleep(READABLE_FOR).await;
        self.shelf.taps.write().unwrap_or_else(PoisonError::into_inner).retain(|other| other.id != id);
    }

    /// Takes a request apart, when no other tap does, and rests after that.
    async fn work(&self, tap: &Arc<Tap>, passed: Passed) {
        let _turn = self.shelf.turn.lock().await;
        let worker = Arc::clone(tap);
        let work = move || {
            let began = Instant::now();
            worker.take_apart(&passed);
            began.elapsed()
        };
        // It has no other end than its own.
        let took = tokio::task::spawn_blocking(work).await.unwrap_or_default();
        tokio::time::sleep(took * REST).await;
    }
}

/// A part of a budget: at most so many bytes, and one part in so many of it.
fn part_of(budget: &Budget, most: usize, of_memory: usize) -> Budget {
    budget.within(most.min(budget.capacity() / of_memory))
}

/// What is said of rules for which there is never room.
fn too_large(bytes: usize, capacity: usize) -> String {
    let [bytes, capacity] = [bytes.div_ceil(1 << 20), capacity >> 20];
    format!(
        "patterns like these may take {bytes} MiB once they are compiled, and there are {capacity} MiB for them, \
         a part of the memory: try fewer rules at once, or give more memory"
    )
}

fn lock<T>(what: &std::sync::Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who looks at one pipeline while a request passes it.
pub(crate) struct Looking<'a> {
    recent: &'a Recent,
    taps: Vec<Arc<Tap>>,
}

/// A request before the rules of a pipeline.
pub(crate) struct Before {
    pub(crate) body: Bytes,
    pub(crate) items: u64,
}

impl Looking<'_> {
    /// The rules of the pipeline are done with a request. If somebody may catch some of it, the mark wants to know its
    /// way. `purse` pays for work, and for nothing that is kept.
    pub(crate) fn look(
        &self,
        signal: Signal,
        (pipeline, rules): (&PipelineId, Option<&Arc<Rules>>),
        (before, after): (&Before, &Processed),
        purse: Purse<'_>,
    ) -> Option<Mark> {
        let unix_nanos = unix_nanos();
        if before.items == 0 {
            return None;
        }
        let due = self.recent.due(&after.removed, unix_nanos / 1_000_000_000);
        if self.taps.is_empty() && due.is_nothing() {
            return None;
        }
        let mark = Mark::default();
        let passing = inbox::Passing { signal, pipeline, rules, before, after, mark: &mark, unix_nanos };
        let mut is_wanted = self.recent.keep(due, &passing, purse);
        for tap in &self.taps {
            is_wanted |= tap.hand_over(&passing);
        }
        is_wanted.then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use weir_plan::{Body, Compression, Endpoint, Output, Protocol};

    use super::*;
    use crate::budget::Holder;

    fn wish(condition: &str) -> Wish {
        let endpoint = Endpoint { host: "nowhere".into(), port: 1, path: String::new() };
        let (protocol, compression) = (Protocol::Grpc, Compression::None);
        let output =
            Output { protocol, body: Body::Otlp, endpoint, compression, headers: Vec::new(), oauth2: None, tls: None };
        Wish {
            pipelines: vec![Pipeline::new(Signal::Traces, "shop", output)],
            edge: Edge::In,
            text: None,
            condition: Some(condition.to_owned()),
            per_second: 1,
            lasts: Duration::from_secs(60),
        }
    }

    /// However many patterns they have.
    #[tokio::test]
    async fn conditions_of_all_taps_take_no_more_than_a_part_of_the_memory() {
        let (taps, budget) = (Taps::default(), Budget::new(256 << 20));
        taps.pay_from(&budget.held_by(Holder::Onlookers));
        let many = wish(&vec![r#"IsMatch(span.name, "a")"#; 30].join(" or "));
        let opened: Vec<_> = (0..MOST_TAPS).map(|_| taps.open(&many)).collect();
        assert!(matches!(opened.as_slice(), [Ok(_), Err(TapError::NoMemory), ..]), "{opened:?}");
        let used = budget.used();
        assert!((30 << 20..=budget.capacity() / WORK_OF_MEMORY).contains(&used), "{used}");
        assert!(budget.held().contains(&(Holder::Onlookers, used)), "{:?}", budget.held());
        let few = taps.open(&wish(r#"IsMatch(span.name, "b")"#)).unwrap();
        assert!(taps.close(few) && taps.close(*opened[0].as_ref().unwrap()));
        // Those who look after them let go of them.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(taps.open(&many).is_ok(), "what ended makes room");
    }

    /// Nobody has to try again what never has room, and what is called like a pattern is none.
    #[tokio::test]
    async fn conditions_that_never_have_room_are_wrong() {
        let (taps, budget) = (Taps::default(), Budget::new(64 << 20));
        taps.pay_from(&budget.held_by(Holder::Onlookers));
        let many = wish(&[r#"IsMatch(span.name, "a")"#; 9].join(" or "));
        let refused = taps.open(&many);
        assert!(matches!(&refused, Err(TapError::Wrong(why)) if why.contains("there are 8 MiB")), "{refused:?}");
        assert_eq!(budget.used(), 0);
        let none = wish(&[r#"span.attributes["batch.id"] == "pattern""#; 20].join(" or "));
        assert!(taps.open(&none).is_ok());
    }

    /// Long before its time is over. Whoever reads it keeps it open.
    #[tokio::test(start_paused = true)]
    async fn a_tap_that_nobody_asks_for_ends() {
        let (taps, budget) = (Taps::default(), Budget::new(256 << 20));
        taps.pay_from(&budget);
        let open = |asked_before| {
            let id = taps.open(&Wish { condition: None, ..wish("") }).unwrap();
            taps.find(id).unwrap().note_asked_before(asked_before);
            id
        };
        let [forsaken, awaited, read] = [FORSAKEN_AFTER, FORSAKEN_AFTER / 2, FORSAKEN_AFTER].map(open);
        assert!(taps.list().iter().all(|tap| tap.is_open), "nobody has looked after them so far");
        assert!(taps.read(read, 0).is_some());
        tokio::time::sleep(2 * CHECK).await;
        let are_open = [forsaken, awaited, read].map(|id| taps.find(id).unwrap().is_open());
        assert_eq!(are_open, [false, true, true]);
    }

    /// As of requests that are about to be enriched.
    #[tokio::test]
    async fn copies_for_all_taps_take_no_more_than_a_part_of_the_memory() {
        let (taps, budget, mut permits) = (Taps::default(), Budget::new(256 << 20), Vec::new());
        taps.pay_from(&budget);
        for _ in 0..MOST_TAPS {
            taps.open(&Wish { edge: Edge::Received, condition: None, ..wish("") }).unwrap();
        }
        let looking = taps.outside(Edge::Received, Signal::Traces).unwrap();
        for tap in &looking.taps {
            tap.take(&|| std::iter::once(&b"a"[..]), 1, 0, |budget| {
                permits.push(budget.try_take(16 << 20));
                None
            });
        }
        assert_eq!(permits.len(), MOST_TAPS);
        assert_eq!(permits.iter().flatten().count(), 1, "there is no room for another one beside what permits cost");
    }
}
