//! One tap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use memchr::memmem;
use weir_plan::{PipelineId, Signal};

use super::caught::{Caught, Newest, RemovedBy};
use super::mark::Mark;
use super::shadow::Shadow;
use super::{Before, Edge, TapError, TapFigures, Wish};
use crate::budget::Budget;
use crate::clock::unix_nanos;
use crate::rules::Processed;

/// Items that a tap takes out of their requests in a second, to look at them one by one.
const LOOKS_PER_SECOND: u32 = 20_000;
/// A larger item is not taken out of its request.
const MOST_ITEM: usize = 64 << 10;
/// Of what is looked for, this much.
const MOST_TEXT: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) id: u64,
    edge: Edge,
    /// What to look for in the bytes of an item: any of these, if there are some.
    needles: Vec<Vec<u8>>,
    condition: Option<Shadow>,
    /// Those that it looks at, with their rules.
    pipelines: BTreeMap<PipelineId, Shadow>,
    per_second: u32,
    ends_ms: AtomicU64,
    is_open: AtomicBool,
    asked_ms: AtomicU64,
    seen: AtomicU64,
    looked_at: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    newest: Newest,
    /// The second that these are of.
    second: u64,
    caught: u32,
    looks: u32,
}

/// A request that passes a pipeline.
pub(super) struct Passing<'a> {
    pub(super) signal: Signal,
    pub(super) pipeline: &'a PipelineId,
    pub(super) before: &'a Before,
    pub(super) after: &'a Processed,
    pub(super) mark: &'a Mark,
    pub(super) unix_nanos: u64,
}

impl Tap {
    pub(super) fn new(id: u64, wish: &Wish, budget: Budget) -> Result<Self, TapError> {
        let mut pipelines = BTreeMap::new();
        for pipeline in &wish.pipelines {
            pipelines.insert(pipeline.id.clone(), Shadow::of(pipeline).map_err(TapError::Wrong)?);
        }
        let condition = wish.condition.as_deref().map(|condition| compile(wish, condition)).transpose()?;
        let now = unix_ms();
        let ends = now + u64::try_from(wish.lasts.as_millis()).unwrap_or(u64::MAX / 2);
        let state = State { newest: Newest::within(budget), second: 0, caught: 0, looks: 0 };
        Ok(Self {
            id,
            edge: wish.edge,
            needles: wish.text.as_deref().map(needles).transpose()?.unwrap_or_default(),
            condition,
            pipelines,
            per_second: wish.per_second,
            ends_ms: AtomicU64::new(ends),
            is_open: AtomicBool::new(true),
            asked_ms: AtomicU64::new(now),
            seen: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            state: Mutex::new(state),
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(super) fn looks_at(&self, pipeline: &PipelineId) -> bool {
        self.pipelines.contains_key(pipeline)
    }

    pub(super) fn relies_on(&self, changed: &BTreeSet<PipelineId>) -> bool {
        self.pipelines.keys().any(|id| changed.contains(id))
    }

    /// False if it had ended before.
    pub(super) fn end(&self) -> bool {
        let ends = self.is_open.swap(false, Ordering::AcqRel);
        if ends {
            self.ends_ms.fetch_min(unix_ms(), Ordering::Relaxed);
        }
        ends
    }

    pub(super) fn is_asked_for(&self) {
        self.asked_ms.store(unix_ms(), Ordering::Relaxed);
    }

    /// Whether its time is over, or nobody has asked for it for so long.
    pub(super) fn is_over(&self, forsaken: Duration) -> bool {
        let now = unix_ms();
        let asked = Duration::from_millis(now.saturating_sub(self.asked_ms.load(Ordering::Relaxed)));
        now >= self.ends_ms.load(Ordering::Relaxed) || asked >= forsaken
    }

    pub(super) fn figures(&self) -> TapFigures {
        TapFigures {
            id: self.id,
            is_open: self.is_open(),
            ends_unix_ms: self.ends_ms.load(Ordering::Relaxed),
            seen: self.seen.load(Ordering::Relaxed),
            looked_at: self.looked_at.load(Ordering::Relaxed),
            caught: self.state().newest.last,
        }
    }

    pub(super) fn caught_after(&self, number: u64) -> Vec<Arc<Caught>> {
        self.state().newest.after(number)
    }

    /// Looks at a request; whether some of it was caught.
    pub(super) fn look(&self, passing: &Passing<'_>) -> bool {
        let Passing { before, after, .. } = passing;
        let (body, items) = match self.edge {
            Edge::In => (&before.body, before.items),
            Edge::Removed => (&before.body, before.items.saturating_sub(after.items)),
            Edge::Out => (&after.body, after.items),
        };
        if items == 0 {
            return false;
        }
        self.seen.fetch_add(items, Ordering::Relaxed);
        let mut state = self.state();
        state.begin(passing.unix_nanos);
        if state.caught >= self.per_second || state.looks >= LOOKS_PER_SECOND {
            return false;
        }
        if !self.has_text(body) {
            self.looked_at.fetch_add(items, Ordering::Relaxed);
            return false;
        }
        self.take(&mut state, passing, body)
    }

    /// Takes a request apart, and keeps what is wanted.
    fn take(&self, state: &mut State, passing: &Passing<'_>, body: &Bytes) -> bool {
        let Some(shadow) = self.pipelines.get(passing.pipeline) else { return false };
        let (caught, has_removed) = (state.caught, passing.after.items < passing.before.items);
        let mut looked_at = 0;
        for part in weir_otlp::single(passing.signal, body) {
            if state.caught >= self.per_second || state.looks >= LOOKS_PER_SECOND {
                break;
            }
            state.looks += 1;
            if part.length() > MOST_ITEM {
                continue;
            }
            let Some(item) = state.newest.make(&part) else { continue };
            let purse = state.newest.purse();
            let removes = |rules: &Shadow| rules.removes(&item, purse, passing.unix_nanos);
            let removed_by = if has_removed && self.edge != Edge::Out { removes(shadow) } else { None };
            if self.edge == Edge::Removed && removed_by.is_none() {
                continue;
            }
            looked_at += 1;
            let is_wanted = self.has_text(&item) && self.condition.as_ref().is_none_or(|of| removes(of).is_some());
            if is_wanted {
                state.caught += 1;
                state.keep(passing, item, removed_by);
            }
        }
        self.looked_at.fetch_add(looked_at, Ordering::Relaxed);
        state.caught > caught
    }

    fn has_text(&self, bytes: &[u8]) -> bool {
        self.needles.is_empty() || self.needles.iter().any(|needle| memmem::find(bytes, needle).is_some())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, unix_nanos: u64) {
        let second = unix_nanos / 1_000_000_000;
        if second != self.second {
            (self.second, self.caught, self.looks) = (second, 0, 0);
        }
    }

    fn keep(&mut self, passing: &Passing<'_>, item: Bytes, removed_by: Option<RemovedBy>) {
        self.newest.keep(passing.unix_nanos / 1_000_000, passing.pipeline, item, removed_by, passing.mark);
    }
}

/// A condition is written for one kind of items.
fn compile(wish: &Wish, condition: &str) -> Result<Shadow, TapError> {
    let mut pipelines = wish.pipelines.iter();
    let first = pipelines.next().ok_or_else(|| TapError::Wrong("no pipeline is named".to_owned()))?;
    if pipelines.any(|other| other.id.signal != first.id.signal) {
        return Err(TapError::Wrong("a condition needs pipelines of one signal: name the pipeline".to_owned()));
    }
    Shadow::condition(first, condition).map_err(TapError::Wrong)
}

/// The bytes of a text as items may have them; of 16 or 32 hexadecimal digits, also those of the id that they are.
///
/// # Errors
/// When the text is empty or too long.
pub fn needles(text: &str) -> Result<Vec<Vec<u8>>, TapError> {
    if text.is_empty() || text.len() > MOST_TEXT {
        return Err(TapError::Wrong(format!("a text to look for has 1 to {MOST_TEXT} bytes")));
    }
    let mut needles = vec![text.as_bytes().to_vec()];
    if matches!(text.len(), 16 | 32) {
        needles.extend(from_hex(text));
    }
    Ok(needles)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn unix_ms() -> u64 {
    unix_nanos() / 1_000_000
}
