//! Takes requests apart: to fit a backend's size limit, or in two halves when a backend says "too large".
//!
//! All signals share the shape request > resource > scope > item; for metrics, the metric is one more level. This
//! module knows the field numbers of that chain and nothing else. Every other field (resource, scope, schema url, the
//! name of a metric, unknown fields) is context and is repeated in each part (WIRE-3). It expects validated bytes; of
//! other bytes it keeps what it can read.
//!
//! A [`Part`] is only a place in the request until somebody makes it. So its memory can be paid for first, and nothing
//! is kept for an item.

mod single;

use std::ops::Range;

use bytes::Bytes;

use crate::build::{Encoder, varint_len};
use crate::cursor::{Field, Fields};
use crate::signal::{Chain, Signal};

pub use single::single;

/// A request cut from a larger one, not made yet.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    request: &'a Bytes,
    /// The messages that are cut, outermost first. Without any, the part is a contiguous piece of the request.
    path: Vec<Level>,
    /// Children that start before this are left out ...
    from: usize,
    /// ... and those from here on.
    to: usize,
    items: u32,
    length: usize,
}

impl Part<'_> {
    /// Items (spans, data points, log records) in it.
    pub fn items(&self) -> u32 {
        self.items
    }

    /// Bytes that it has.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether making it takes no memory, because it is a contiguous piece of the original.
    pub fn is_slice(&self) -> bool {
        self.path.is_empty()
    }

    /// The resources of the original that it has something of, and no others.
    pub fn resources(&self) -> &[u8] {
        let (from, to) = (self.from, self.to);
        let (from, to) = self.path.first().map_or((from, to), |level| (from.min(level.start), to.max(level.end)));
        &self.request[from..to]
    }

    /// The request; shares the memory of the original where it [is a piece](Self::is_slice) of it.
    pub fn make(&self) -> Bytes {
        if self.is_slice() {
            return self.request.slice(self.from..self.to);
        }
        let mut out = Encoder::with_capacity(self.length);
        self.write_around(0, 0..self.request.len(), &mut out);
        out.into_bytes().into()
    }
}

/// Cuts a valid request (or several, one after the other) into requests of at most `max_bytes` each, one after the
/// other.
///
/// Whole resources stay contiguous pieces of the original. A resource larger than the limit is cut inside, its context
/// repeated in each part. A part is larger than the limit only where cutting cannot help: it is a single item, or the
/// contexts of a level and of those around it together take more than half of the limit and repeating them would
/// multiply the data. So all parts together take at most about four times the memory of the request, and in practice
/// hardly more than it.
pub fn cut(signal: Signal, bytes: &Bytes, max_bytes: usize) -> impl Iterator<Item = Part<'_>> {
    Cutter { request: bytes, chain: signal.chain(), max: max_bytes, at: 0, open: Vec::new() }
}

/// Cuts a valid request into two with the same number of items each (the second has one more if it is odd); `None` when
/// there are fewer than two items.
pub fn halve(signal: Signal, bytes: &Bytes) -> Option<(Part<'_>, Part<'_>)> {
    let chain = signal.chain();
    let items = count_at(bytes, chain);
    let wanted = items / 2;
    if wanted == 0 {
        return None;
    }
    let (path, middle) = find_end(bytes, chain, wanted)?;
    let left = part(bytes, path.clone(), 0..middle, wanted);
    Some((left, part(bytes, path, middle..bytes.len(), items - wanted)))
}

/// Items in a valid request.
pub fn count(signal: Signal, request: &[u8]) -> u32 {
    count_at(request, signal.chain())
}

/// Items in a message whose children are at `chain`.
fn count_at(bytes: &[u8], chain: &[&[u32]]) -> u32 {
    Fields::new(bytes).map(|field| count_field(&field, chain)).sum()
}

/// Items in a field of a message whose children are at `chain`.
fn count_field(field: &Field<'_>, chain: &[&[u32]]) -> u32 {
    match (chain, field.body()) {
        ([numbers, deeper @ ..], Some(body)) if numbers.contains(&field.number) => {
            if deeper.is_empty() {
                1
            } else {
                count_at(body, deeper)
            }
        }
        _ => 0,
    }
}

/// Where the first `wanted` items end, and the messages that go on there. There are more items than that.
fn find_end(request: &Bytes, chain: Chain, wanted: u32) -> Option<(Vec<Level>, usize)> {
    let (mut path, mut missing): (Vec<Level>, _) = (Vec::new(), wanted);
    loop {
        let deeper = &chain[path.len()..];
        let children = path.last().map_or(0..request.len(), |level| level.children.clone());
        let field = Fields::starting_at(&request[..children.end], children.start).find(|field| {
            let inside = count_field(field, deeper);
            let last = inside >= missing;
            missing -= if last { 0 } else { inside };
            last
        })?;
        if count_field(&field, deeper) == missing {
            return Some((path, field.end));
        }
        path.push(Level::of(request, &field, &deeper[1..])?);
    }
}

/// The part of a request that these children are in.
fn part(request: &Bytes, path: Vec<Level>, place: Range<usize>, items: u32) -> Part<'_> {
    let mut part = Part { request, path, from: place.start, to: place.end, items, length: 0 };
    part.length = if part.is_slice() { place.len() } else { part.length_around(0, 0..request.len()) };
    part
}

/// A message that is cut.
#[derive(Debug, Clone)]
struct Level {
    /// Number of the field that holds it.
    number: u32,
    /// Where that field begins and ends.
    start: usize,
    end: usize,
    /// Where its body begins.
    body: usize,
    /// From its first child to the end of its last one.
    children: Range<usize>,
    /// Bytes of its context.
    context: usize,
    /// Whether there is context between its children.
    is_mixed: bool,
    /// Where its children lead.
    deeper: &'static [&'static [u32]],
}

impl Level {
    /// A field whose children are at `chain`; `None` when it has no children.
    fn of(request: &[u8], field: &Field<'_>, chain: Chain) -> Option<Self> {
        let body = field.body_start();
        let mut children: Option<Range<usize>> = None;
        let (mut context, mut is_mixed, mut after_context) = (0, false, false);
        for inner in Fields::starting_at(&request[..field.end], body) {
            if !is_child(&inner, chain) {
                context += inner.end - inner.start;
                after_context = children.is_some();
                continue;
            }
            is_mixed |= after_context;
            children = Some(children.map_or(inner.start, |children| children.start)..inner.end);
        }
        let (number, start, end) = (field.number, field.start, field.end);
        children.map(|children| Self { number, start, end, body, children, context, is_mixed, deeper: chain })
    }

    /// The most bytes that its header and context take in a part of `max` bytes.
    fn cost(&self, max: usize) -> usize {
        1 + varint_len(max as u64) + self.context
    }

    /// Fields of a part of it that are no children.
    fn own<'a>(&self, request: &'a [u8], part: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        let part = if self.is_mixed { part } else { part.end..part.end };
        let fields = Fields::starting_at(&request[..part.end], part.start);
        let own = fields.filter(|field| !is_child(field, self.deeper));
        own.map(|field| &request[field.start..field.end])
    }
}

fn is_child(field: &Field<'_>, chain: &[&[u32]]) -> bool {
    chain.first().is_some_and(|numbers| numbers.contains(&field.number)) && field.body().is_some()
}

impl Part<'_> {
    /// What this part has of `children`. If a message at `depth` of the path is among them, the part has them up to
    /// that message and from its end on.
    fn runs(&self, depth: usize, children: &Range<usize>) -> (Range<usize>, Range<usize>) {
        let inner = self.path.get(depth).map(|level| level.start..level.end);
        let inner = inner.unwrap_or_else(|| {
            let start = self.from.clamp(children.start, children.end);
            start..start
        });
        let start = self.from.clamp(children.start, inner.start);
        let end = self.to.clamp(inner.end, children.end);
        (start..inner.start, inner.end..end)
    }

    /// Bytes of these children in this part.
    fn length_around(&self, depth: usize, children: Range<usize>) -> usize {
        let (before, after) = self.runs(depth, &children);
        let inner = self.path.get(depth).map_or(0, |level| {
            let body = self.body_length(depth);
            varint_len(u64::from(level.number) << 3) + varint_len(body as u64) + body
        });
        before.len() + inner + after.len()
    }

    fn write_around(&self, depth: usize, children: Range<usize>, out: &mut Encoder) {
        let (before, after) = self.runs(depth, &children);
        out.raw(&self.request[before]);
        if self.path.len() > depth {
            self.write(depth, out);
        }
        out.raw(&self.request[after]);
    }

    /// Bytes of the body of a message on the path.
    fn body_length(&self, depth: usize) -> usize {
        let level = &self.path[depth];
        let (head, tail) = (level.children.start - level.body, level.end - level.children.end);
        let (before, after) = self.around(depth);
        let own = level.own(self.request, before).chain(level.own(self.request, after));
        head + own.map(<[u8]>::len).sum::<usize>() + self.length_around(depth + 1, level.children.clone()) + tail
    }

    /// Writes a message on the path.
    fn write(&self, depth: usize, out: &mut Encoder) {
        let level = &self.path[depth];
        out.header(level.number, self.body_length(depth));
        out.raw(&self.request[level.body..level.children.start]);
        let (before, after) = self.around(depth);
        level.own(self.request, before).for_each(|own| out.raw(own));
        self.write_around(depth + 1, level.children.clone(), out);
        level.own(self.request, after).for_each(|own| out.raw(own));
        out.raw(&self.request[level.children.end..level.end]);
    }

    /// What this part lacks of the children of a message on the path: before it, and behind it.
    fn around(&self, depth: usize) -> (Range<usize>, Range<usize>) {
        let children = &self.path[depth].children;
        let (before, after) = self.runs(depth + 1, children);
        (children.start..before.start, after.end..children.end)
    }
}

/// Finds one part after the other.
struct Cutter<'a> {
    request: &'a Bytes,
    chain: Chain,
    max: usize,
    /// Where the next part begins.
    at: usize,
    /// The messages that it begins in.
    open: Vec<Level>,
}

impl<'a> Iterator for Cutter<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if self.open.is_empty() {
            let first = Fields::starting_at(self.request, self.at).next()?;
            if first.end - first.start <= self.max || !self.open(self.at) {
                return Some(self.whole_fields());
            }
        }
        Some(self.inside())
    }
}

impl<'a> Cutter<'a> {
    /// As many fields of the request as fit, and at least one.
    fn whole_fields(&mut self) -> Part<'a> {
        let (start, mut items) = (self.at, 0);
        for field in Fields::starting_at(self.request, start) {
            if field.end - start > self.max && self.at > start {
                break;
            }
            items += count_field(&field, self.chain);
            self.at = field.end;
        }
        part(self.request, Vec::new(), start..self.at, items)
    }

    /// Goes into the field that begins at `start`. False when it has no children, or so much context that repeating it
    /// is worse than a large part.
    fn open(&mut self, start: usize) -> bool {
        let depth = self.open.len();
        let end = self.open.last().map_or(self.request.len(), |level| level.end);
        let field = Fields::starting_at(&self.request[..end], start).next();
        let deeper = self.chain.get(depth + 1..).filter(|deeper| !deeper.is_empty());
        let Some((field, deeper)) = field.zip(deeper).filter(|(field, _)| is_child(field, &self.chain[depth..])) else {
            return false;
        };
        let fits = |level: &Level| self.repeated() + level.cost(self.max) <= self.max / 2;
        let Some(level) = Level::of(self.request, &field, deeper).filter(fits) else { return false };
        self.at = level.children.start;
        self.open.push(level);
        true
    }

    /// How many bytes each part of the innermost open message has beside its children.
    fn repeated(&self) -> usize {
        self.open.iter().map(|level| level.cost(self.max)).sum()
    }

    /// The part that begins inside a resource: as many children of the innermost open message as fit, then children of
    /// the messages around it.
    fn inside(&mut self) -> Part<'a> {
        let (request, from) = (self.request, self.at);
        let (mut path, mut items, mut taken) = (Vec::new(), 0, 0);
        'levels: while let Some(level) = self.open.last() {
            let (deeper, room) = (level.deeper, self.max - self.repeated());
            let children = Fields::starting_at(&request[..level.children.end], self.at);
            for child in children.filter(|field| is_child(field, deeper)) {
                let size = child.end - child.start;
                let fits = taken + size <= room;
                if !fits && taken > 0 {
                    break 'levels;
                }
                if !fits && self.open(child.start) {
                    continue 'levels;
                }
                if taken == 0 {
                    path.clone_from(&self.open);
                }
                (items, taken, self.at) = (items + count_field(&child, deeper), taken + size, child.end);
            }
            if let Some(level) = self.open.pop() {
                taken += level.cost(self.max);
                self.at = level.end;
            }
        }
        part(self.request, path, from..self.at, items)
    }
}
