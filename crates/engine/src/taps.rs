//! Taps: what passes a pipeline, for whoever looks at it.
//!
//! A tap catches items at one edge of some pipelines, as they were there, until its time is over or nobody asks for it
//! any more. It only looks: no verdict, no book and no byte of a request depends on it. While there is none, a request
//! pays one relaxed load for each pipeline. While there is one, it looks at no more items a second than its limits say;
//! what it kept is paid for from the memory budget, and makes room for what comes.

mod caught;
mod mark;
mod rehearsal;
mod shadow;
mod tap;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use weir_plan::{Pipeline, PipelineId, Signal};

use crate::budget::Budget;
use crate::clock::unix_nanos;
use crate::rules::Processed;

pub use caught::{Caught, RemovedBy};
pub(crate) use mark::Mark;
pub use mark::Way;
pub use rehearsal::Rehearsal;
use tap::Tap;
pub use tap::needles;

/// Taps at once. Each holds memory, and looks at every request of its pipelines.
pub const MOST_TAPS: usize = 8;
/// A tap that nobody asks for ends after this long.
const FORSAKEN_AFTER: Duration = Duration::from_secs(15);
/// What a tap that has ended caught can be read for this long.
const READABLE_FOR: Duration = Duration::from_secs(30);
/// How often a tap's time is looked at.
const CHECK: Duration = Duration::from_secs(1);
/// What all of a tap's items take at most, and the part of the memory if that is less.
const ROOM_BYTES: usize = 8 << 20;
const OF_MEMORY: usize = 32;

/// Where an item is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Before the pipeline's rules: enriched, and chosen by its inputs.
    In,
    /// The same, and only what its rules remove.
    Removed,
    /// After its rules.
    Out,
}

/// What somebody wants to see.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The pipelines as they are configured. A condition needs them to be of one signal.
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

/// Why there is no tap.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// It was written wrongly.
    #[error("{0}")]
    Wrong(String),
    /// There are as many as there may be.
    #[error("there are {MOST_TAPS} taps already, which is as many as there may be: close one, or wait until one ends")]
    TooMany,
    /// The engine has no memory for it now.
    #[error("the memory budget is used up; try again")]
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
    /// Of payloads. Set when the engine starts.
    budget: OnceLock<Budget>,
}

impl Taps {
    /// What they catch is paid for from here.
    pub(crate) fn pay_from(&self, budget: &Budget) {
        // An engine begins once.
        let _ = self.shelf.budget.set(budget.clone());
    }

    /// Opens a tap, and returns its number. Needs the engine's runtime.
    ///
    /// # Errors
    /// A condition that cannot be compiled, too many taps, or no memory.
    pub fn open(&self, wish: &Wish) -> Result<u64, TapError> {
        let room = self.room().ok_or(TapError::NoMemory)?;
        let id = self.shelf.last.fetch_add(1, Ordering::Relaxed) + 1;
        let tap = Arc::new(Tap::new(id, wish, room)?);
        let mut taps = self.shelf.taps.write().unwrap_or_else(PoisonError::into_inner);
        if taps.iter().filter(|tap| tap.is_open()).count() >= MOST_TAPS {
            return Err(TapError::TooMany);
        }
        // One that has ended makes room before its time.
        if taps.len() >= 2 * MOST_TAPS {
            taps.retain(|tap| tap.is_open());
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
        self.all().iter().rev().map(|tap| tap.figures()).collect()
    }

    /// A tap, and what it caught with a number above `after`; `None` if there is none of this number. Whoever asks keeps
    /// the tap open.
    pub fn read(&self, id: u64, after: u64) -> Option<(TapFigures, Vec<Arc<Caught>>)> {
        let tap = self.find(id)?;
        tap.is_asked_for();
        Some((tap.figures(), tap.caught_after(after)))
    }

    /// The pipelines are other ones: a tap that relies on their rules cannot go on.
    pub(crate) fn pipelines_changed(&self, changed: &BTreeSet<PipelineId>) {
        for tap in self.all().iter().filter(|tap| tap.relies_on(changed)) {
            self.end(tap);
        }
    }

    /// Those that look at this pipeline.
    pub(crate) fn at(&self, pipeline: &PipelineId) -> Looking {
        if self.shelf.open.load(Ordering::Relaxed) == 0 {
            return Looking(Vec::new());
        }
        let taps = self.shelf.taps.read().unwrap_or_else(PoisonError::into_inner);
        Looking(taps.iter().filter(|tap| tap.is_open() && tap.looks_at(pipeline)).cloned().collect())
    }

    /// What one tap may take.
    fn room(&self) -> Option<Budget> {
        let budget = self.shelf.budget.get()?;
        Some(budget.within(ROOM_BYTES.min(budget.capacity() / OF_MEMORY)))
    }

    fn all(&self) -> Vec<Arc<Tap>> {
        self.shelf.taps.read().unwrap_or_else(PoisonError::into_inner).clone()
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

    /// Ends it when its time is over, and forgets it when nobody reads it any more.
    async fn look_after(self, tap: Arc<Tap>) {
        while tap.is_open() && !tap.is_over(FORSAKEN_AFTER) {
            tokio::time::sleep(CHECK).await;
        }
        self.end(&tap);
        tokio::time::sleep(READABLE_FOR).await;
        self.shelf.taps.write().unwrap_or_else(PoisonError::into_inner).retain(|other| other.id != tap.id);
    }
}

/// The taps that look at one pipeline while a request passes it.
pub(crate) struct Looking(Vec<Arc<Tap>>);

/// A request before the rules of a pipeline.
pub(crate) struct Before {
    pub(crate) body: Bytes,
    pub(crate) items: u64,
}

impl Looking {
    /// What they have to know of a request before the rules: `None` if nobody looks.
    pub(crate) fn before(&self, body: &Bytes, items: u64) -> Option<Before> {
        (!self.0.is_empty()).then(|| Before { body: body.clone(), items })
    }

    /// The rules of the pipeline are done with a request. If some of it was caught, the mark wants to know its way.
    pub(crate) fn look(
        &self,
        signal: Signal,
        pipeline: &PipelineId,
        before: Option<&Before>,
        after: &Processed,
    ) -> Option<Mark> {
        let before = before?;
        let (mark, now) = (Mark::default(), unix_nanos());
        let passing = tap::Passing { signal, pipeline, before, after, mark: &mark, unix_nanos: now };
        let mut has_caught = false;
        for tap in &self.0 {
            has_caught |= tap.look(&passing);
        }
        has_caught.then_some(mark)
    }
}
