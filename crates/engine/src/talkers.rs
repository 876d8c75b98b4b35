//! Who sends most: items and bytes of each namespace, pod and service, counted while somebody asks.
//!
//! Nothing is counted, and a request pays one relaxed load, until the first question, and again when nobody has asked
//! for a while.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use weir_otlp::common::{AnyValue, Message, Resource};
use weir_otlp::conventions::{NAMESPACE_NAME, POD_NAME};
use weir_otlp::field::{request, resource_data};
use weir_otlp::{Signal, count};

use crate::budget::{Budget, Permit};
use crate::clock::unix_nanos;

/// Counting ends when nobody has asked for so long.
const FORSAKEN_AFTER: Duration = Duration::from_secs(30);
/// Senders that are told apart.
const MOST_TALKERS: usize = 10_000;
/// What all of them take at most, and the part of the memory if that is less.
const ROOM_BYTES: usize = 4 << 20;
const OF_MEMORY: usize = 64;
/// What a sender costs beside its names.
const TALKER_BYTES: usize = 256;
/// How much of a name is kept: no name of Kubernetes is longer.
const MOST_NAME: usize = 253;

/// Who has sent how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Talker {
    /// Of what.
    pub signal: Signal,
    /// `k8s.namespace.name`; empty if the resource does not say.
    pub namespace: String,
    /// `k8s.pod.name`.
    pub pod: String,
    /// `service.name`.
    pub service: String,
    /// Spans, data points or log records.
    pub items: u64,
    /// Their bytes, with those of their resources.
    pub bytes: u64,
}

/// All of them, the most bytes first.
#[derive(Debug, Clone, Default)]
pub struct TalkersFigures {
    /// Since when they are counted, in milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
    /// Those that are told apart.
    pub talkers: Vec<Talker>,
    /// Items of others, for which there was no room.
    pub left_out: u64,
}

/// Counts who sends how much. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Talkers {
    shelf: Arc<Shelf>,
}

#[derive(Debug, Default)]
struct Shelf {
    is_on: AtomicBool,
    counts: Mutex<Counts>,
    budget: OnceLock<Budget>,
}

#[derive(Debug, Default)]
struct Counts {
    asked: Option<Instant>,
    since_unix_ms: u64,
    talkers: HashMap<Key, (u64, u64)>,
    left_out: u64,
    permit: Option<Permit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    signal: Signal,
    names: [Box<str>; 3],
}

impl Talkers {
    /// What they cost is paid for from here.
    pub(crate) fn pay_from(&self, budget: &Budget) {
        // An engine begins once.
        let _ = self.shelf.budget.set(budget.within(ROOM_BYTES.min(budget.capacity() / OF_MEMORY)));
    }

    /// What was counted so far. Counting goes on for a while, or begins.
    pub fn figures(&self) -> TalkersFigures {
        let mut counts = self.counts();
        counts.asked = Some(Instant::now());
        if !self.shelf.is_on.swap(true, Ordering::Relaxed) {
            counts.since_unix_ms = unix_nanos() / 1_000_000;
        }
        let talker = |(Key { signal, names: [namespace, pod, service] }, (items, bytes)): (&Key, &(u64, u64))| Talker {
            signal: *signal,
            namespace: namespace.to_string(),
            pod: pod.to_string(),
            service: service.to_string(),
            items: *items,
            bytes: *bytes,
        };
        let mut talkers: Vec<_> = counts.talkers.iter().map(talker).collect();
        talkers.sort_unstable_by_key(|talker| Reverse(talker.bytes));
        TalkersFigures { since_unix_ms: counts.since_unix_ms, talkers, left_out: counts.left_out }
    }

    /// Counts a request, if somebody wants to know.
    pub(crate) fn count(&self, signal: Signal, request: &[u8]) {
        if !self.shelf.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut counts = self.counts();
        if counts.asked.is_none_or(|asked| asked.elapsed() >= FORSAKEN_AFTER) {
            self.shelf.is_on.store(false, Ordering::Relaxed);
            *counts = Counts::default();
            return;
        }
        let Some(budget) = self.shelf.budget.get() else { return };
        for holder in Message::request(request).messages(request::RESOURCES) {
            let range = holder.field_range();
            let items = u64::from(count(signal, &request[range.clone()]));
            let names = names(holder.message(resource_data::RESOURCE).map(Resource));
            counts.add(Key { signal, names }, items, range.len() as u64, budget);
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.shelf.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn add(&mut self, key: Key, items: u64, bytes: u64, budget: &Budget) {
        if let Some(sum) = self.talkers.get_mut(&key) {
            *sum = (sum.0 + items, sum.1 + bytes);
            return;
        }
        let cost = TALKER_BYTES + key.names.iter().map(|name| name.len()).sum::<usize>();
        if self.talkers.len() >= MOST_TALKERS || !self.pay(cost, budget) {
            self.left_out += items;
            return;
        }
        self.talkers.insert(key, (items, bytes));
    }

    fn pay(&mut self, bytes: usize, budget: &Budget) -> bool {
        match &mut self.permit {
            Some(permit) => permit.grow(bytes),
            None => {
                self.permit = budget.try_take(bytes);
                self.permit.is_some()
            }
        }
    }
}

fn names(resource: Option<Resource<'_>>) -> [Box<str>; 3] {
    [NAMESPACE_NAME, POD_NAME, "service.name"].map(|key| {
        let found = resource.and_then(|resource| resource.attributes().filter(|of| of.key() == key).last());
        match found.map(|attribute| attribute.value()) {
            Some(AnyValue::String(name)) => name_of(name.into()),
            _ => Box::default(),
        }
    })
}

/// As much of a name as is kept.
fn name_of(name: Cow<'_, str>) -> Box<str> {
    let ends = name.char_indices().map(|(at, char)| at + char.len_utf8());
    let end = ends.take_while(|end| *end <= MOST_NAME).last().unwrap_or_default();
    name[..end].into()
}
