//! One tap.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use memchr::memmem;
use tokio::sync::Notify;
use weir_otlp::Part;
use weir_plan::{Filter, Pipeline, PipelineId, Processing, Signal};

use super::caught::{Caught, Newest, RemovedBy};
use super::inbox::{Inbox, Passed, Passing, Removers};
use super::{Edge, Reading, TapError, TapFigures, Wish, lock};
use crate::budget::{Budget, Permit, Purse, Shortage};
use crate::clock::unix_nanos;
use crate::rules::{Memory, Rules};

/// For one request.
const PATIENCE: Duration = Duration::from_millis(50);
/// A larger item is not taken out of its request.
pub(super) const MOST_ITEM: usize = 32 << 10;
/// Of what is looked for, this much.
const MOST_TEXT: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) id: u64,
    edge: Edge,
    /// What to look for in the bytes of an item: any of these, if there are some.
    needles: Vec<Vec<u8>>,
    /// A filter that removes what is wanted.
    condition: Option<Rules>,
    /// Pays for that.
    _paid: Permit,
    pipelines: BTreeSet<PipelineId>,
    per_second: u32,
    /// Pays for what is copied and calculated, as for all other taps.
    work: Budget,
    ends_ms: AtomicU64,
    is_open: AtomicBool,
    asked_ms: AtomicU64,
    seen: AtomicU64,
    looked_at: AtomicU64,
    pace: Mutex<Pace>,
    inbox: Mutex<Inbox>,
    has_more: Notify,
    newest: Mutex<Newest>,
}

/// How many were caught in the second that it is.
#[derive(Debug, Default)]
struct Pace {
    second: u64,
    caught: u32,
}

impl Tap {
    pub(super) fn new(id: u64, wish: &Wish, [room, work]: [Budget; 2], paid: Permit) -> Result<Self, TapError> {
        check(wish)?;
        let now = unix_ms();
        let ends = now + u64::try_from(wish.lasts.as_millis()).unwrap_or(u64::MAX / 2);
        Ok(Self {
            id,
            edge: wish.edge,
            needles: wish.text.as_deref().map(needles).transpose()?.unwrap_or_default(),
            condition: wish.condition.as_deref().map(|condition| compile(wish, condition)).transpose()?,
            _paid: paid,
            pipelines: wish.pipelines.iter().map(|pipeline| pipeline.id.clone()).collect(),
            per_second: wish.per_second,
            work,
            ends_ms: AtomicU64::new(ends),
            is_open: AtomicBool::new(true),
            asked_ms: AtomicU64::new(now),
            seen: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            pace: Mutex::default(),
            inbox: Mutex::default(),
            has_more: Notify::new(),
            newest: Mutex::new(Newest::within(room)),
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(super) fn looks_at(&self, pipeline: &PipelineId) -> bool {
        self.edge.is_of_a_pipeline() && self.pipelines.contains(pipeline)
    }

    /// Whether it looks at this edge of no pipeline.
    pub(super) fn looks_outside(&self, edge: Edge, signal: Signal) -> bool {
        self.edge == edge && self.pipelines.iter().any(|pipeline| pipeline.signal == signal)
    }

    /// False if it had ended before.
    pub(super) fn end(&self) -> bool {
        let ends = self.is_open.swap(false, Ordering::AcqRel);
        if ends {
            self.ends_ms.fetch_min(unix_ms(), Ordering::Relaxed);
            lock(&self.inbox).clear();
            self.has_more.notify_one();
        }
        ends
    }

    pub(super) fn note_asked(&self) {
        self.asked_ms.store(unix_ms(), Ordering::Relaxed);
    }

    /// As if somebody had asked for it so long ago.
    #[cfg(test)]
    pub(super) fn note_asked_before(&self, ago: Duration) {
        self.asked_ms.store(unix_ms() - crate::clock::millis(ago), Ordering::Relaxed);
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
            caught: lock(&self.newest).last,
        }
    }

    pub(super) fn read(&self, after: u64) -> Reading {
        let figures = self.figures();
        let newest = lock(&self.newest);
        Reading { figures, items: newest.after(after), ways: newest.ways() }
    }

    pub(super) fn kept(&self, pipeline: &PipelineId) -> Vec<Arc<Caught>> {
        lock(&self.newest).of(pipeline)
    }

    /// Takes a request that passes a pipeline, if something of it may be wanted.
    pub(super) fn hand_over(&self, passing: &Passing<'_>) -> bool {
        let Passing { before, after, .. } = passing;
        let until = |last| passing.rules.map(|rules| (Arc::clone(rules), last));
        let (body, items, until) = match self.edge {
            Edge::In => (&before.body, before.items, None),
            // Not a difference: statements may have added points.
            Edge::Removed => (&before.body, after.removed.iter().map(|removed| removed.items).sum(), None),
            Edge::Out => (&after.body, after.items, None),
            Edge::After(last) => (&before.body, passing.items_after(last), until(last)),
            // It is handed over where it passes.
            Edge::Received | Edge::Unclaimed => return false,
        };
        let passed = move |_: &Budget| {
            Some(Passed {
                signal: passing.signal,
                pipeline: Some(passing.pipeline.clone()),
                body: body.clone(),
                removers: if self.edge == Edge::Out { Removers::default() } else { passing.removers() },
                until,
                mark: passing.mark.clone(),
                unix_nanos: passing.unix_nanos,
            })
        };
        self.take(&|| std::iter::once(&**body), items, passing.unix_nanos, passed)
    }

    /// Takes so many items that pass the edge in some parts of a request, if some of them may be wanted: to be taken apart
    /// later. The budget pays for what `passed` has to copy.
    pub(super) fn take<'a, P: Iterator<Item = &'a [u8]>>(
        &self,
        parts: &impl Fn() -> P,
        items: u64,
        unix_nanos: u64,
        passed: impl FnOnce(&Budget) -> Option<Passed>,
    ) -> bool {
        if items == 0 {
            return false;
        }
        self.seen.fetch_add(items, Ordering::Relaxed);
        if !lock(&self.pace).has_room(self.per_second, unix_nanos) {
            return false;
        }
        // Of what rules make of them, it is not known as yet.
        if !matches!(self.edge, Edge::After(_)) && !parts().any(|part| self.has_text(part)) {
            self.looked_at.fetch_add(items, Ordering::Relaxed);
            return false;
        }
        let bytes = parts().map(<[u8]>::len).sum();
        if !lock(&self.inbox).has_room_for(bytes) {
            return false;
        }
        // Nobody waits for the inbox while something is copied.
        let Some(passed) = passed(&self.work) else { return false };
        let mut inbox = lock(&self.inbox);
        let is_taken = self.is_open() && inbox.has_room_for(bytes);
        if is_taken {
            inbox.push(passed);
            self.has_more.notify_one();
        }
        is_taken
    }

    /// Resolves when a request waits.
    pub(super) async fn has_more(&self) {
        self.has_more.notified().await;
    }

    pub(super) fn next(&self) -> Option<Passed> {
        lock(&self.inbox).pop()
    }

    /// Keeps what is wanted of a request, as far as there is time.
    pub(super) fn take_apart(&self, passed: &Passed) {
        let began = Instant::now();
        for part in weir_otlp::single(passed.signal, &passed.body) {
            let has_room = || lock(&self.pace).has_room(self.per_second, passed.unix_nanos);
            if !self.is_open() || began.elapsed() >= PATIENCE || !has_room() {
                return;
            }
            if part.length() > MOST_ITEM {
                continue;
            }
            // Without memory for that, or for the item, it is left out.
            let is_looked_at = match self.look(&part, passed) {
                Ok(Sight::Wanted(_, removed_by)) if passed.until.is_none() => self.keep(&part, passed, removed_by),
                // Statements may have made several data points of one.
                Ok(Sight::Wanted(item, by)) => {
                    weir_otlp::single(passed.signal, &item).all(|part| self.keep(&part, passed, by.clone()))
                }
                Ok(Sight::Unwanted) => true,
                Ok(Sight::Elsewhere) | Err(_) => false,
            };
            self.looked_at.fetch_add(is_looked_at.into(), Ordering::Relaxed);
        }
    }

    /// False if there is no room for it.
    fn keep(&self, part: &Part<'_>, passed: &Passed, removed_by: Option<RemovedBy>) -> bool {
        let caught = |number, request| {
            let place = (passed.signal, passed.pipeline.as_ref());
            Caught::new(number, passed.unix_nanos, place, request, (removed_by, &passed.mark))
        };
        let is_kept = lock(&self.newest).keep(part, caught);
        lock(&self.pace).caught += u32::from(is_kept);
        is_kept
    }

    fn look(&self, part: &Part<'_>, passed: &Passed) -> Result<Sight, Shortage> {
        let purse = Purse::new(&self.work, 0);
        let item = purse.copy(part)?;
        let removed_by = passed.removers.of(&item, purse, passed.unix_nanos)?;
        if self.edge == Edge::Removed && removed_by.is_none() {
            return Ok(Sight::Elsewhere);
        }
        let Some(item) = passed.at_edge(item, purse)?.filter(|item| item.len() <= MOST_ITEM) else {
            return Ok(Sight::Elsewhere);
        };
        let is_wanted = self.has_text(&item)
            && match &self.condition {
                Some(condition) => condition.attempt(item.clone(), 1, purse, passed.unix_nanos)?.items == 0,
                None => true,
            };
        Ok(if is_wanted { Sight::Wanted(item, removed_by) } else { Sight::Unwanted })
    }

    fn has_text(&self, bytes: &[u8]) -> bool {
        self.needles.is_empty() || has_any(bytes, &self.needles)
    }
}

/// What an item is to a tap.
enum Sight {
    /// It does not pass the edge that is looked at, or is too large there.
    Elsewhere,
    Unwanted,
    /// As it is at the edge, and what removes it.
    Wanted(Bytes, Option<RemovedBy>),
}

impl Pace {
    fn has_room(&mut self, per_second: u32, unix_nanos: u64) -> bool {
        let second = unix_nanos / 1_000_000_000;
        if second > self.second {
            *self = Self { second, caught: 0 };
        }
        self.caught < per_second
    }
}

/// A rule is of one pipeline.
fn check(wish: &Wish) -> Result<(), TapError> {
    let Edge::After(rule) = wish.edge else { return Ok(()) };
    match wish.pipelines.as_slice() {
        [pipeline] if rule.is_of(pipeline) => Ok(()),
        [pipeline] => Err(TapError::Wrong(format!("{} has no {}", pipeline.id, rule.field()))),
        _ => Err(TapError::Wrong("a rule is of one pipeline: name the pipeline".to_owned())),
    }
}

/// A condition is written for one kind of items.
fn compile(wish: &Wish, condition: &str) -> Result<Rules, TapError> {
    let mut pipelines = wish.pipelines.iter();
    let first = pipelines.next().ok_or_else(|| TapError::Wrong("no pipeline is named".to_owned()))?;
    if pipelines.any(|other| other.id.signal != first.id.signal) {
        return Err(TapError::Wrong(
            "a condition needs pipelines of one signal: name one, or write traces/* for all".to_owned(),
        ));
    }
    let filters = vec![Filter { conditions: vec![condition.to_owned()] }];
    let pipeline = Pipeline { processing: Processing { filters, ..Processing::default() }, ..first.clone() };
    let rules = Rules::compile(&pipeline, Memory { before: None, bytes: 0 }, &|| None, 0).map_err(TapError::Wrong)?;
    rules.ok_or_else(|| TapError::Wrong("the condition is empty".to_owned()))
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

/// Whether any of these is in some bytes.
pub fn has_any(bytes: &[u8], needles: &[Vec<u8>]) -> bool {
    needles.iter().any(|needle| memmem::find(bytes, needle).is_some())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn unix_ms() -> u64 {
    unix_nanos() / 1_000_000
}
