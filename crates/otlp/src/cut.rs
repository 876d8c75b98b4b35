//! Takes requests apart: to fit a backend's size limit, or in two halves when a backend says "too large".
//!
//! All signals share the shape request > resource > scope > item, in which a metric is one level more, so this module
//! knows the field numbers of that chain and nothing else. Every field that is not a child of it (resource, scope,
//! schema url, the name of a metric, unknown fields) is context and stands in each part again (WIRE-3). It expects
//! validated bytes; of others it keeps what it can read.

use std::borrow::Cow;

use bytes::Bytes;

use crate::build::{Encoder, varint_len};
use crate::cursor::{Field, Fields};
use crate::signal::{Chain, Signal};

/// A request cut from a larger one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The request; shares the memory of the original wherever it is a contiguous piece of it.
    pub bytes: Bytes,
    /// Items (spans, data points, log records) in it.
    pub items: u32,
}

/// Cuts a valid request (or several, one after the other) into requests of at most `max_bytes` each.
///
/// Whole resources stay contiguous pieces of the original. A resource larger than the limit is cut inside, its context
/// repeated in each part. A part is larger than the limit only where cutting cannot help: it is a single item, or the
/// context alone takes more than half of the limit and repeating it would multiply the data. So all parts together take
/// at most about four times the memory of the request for each level that is cut, and in practice hardly more than it.
pub fn cut(signal: Signal, bytes: &Bytes, max_bytes: usize) -> Vec<Part> {
    let chain = signal.chain();
    if bytes.len() <= max_bytes {
        return vec![Part { bytes: bytes.clone(), items: count_at(bytes, chain) }];
    }
    let mut cutter = Cutter { request: bytes, chain, max_bytes, start: 0, items: 0, parts: Vec::new() };
    let mut end = 0;
    for field in Fields::new(bytes) {
        cutter.add(&field);
        end = field.end;
    }
    cutter.flush(end);
    cutter.parts
}

/// Cuts a valid request into two with the same number of items each (the second has one more if it is odd); `None` when
/// there are fewer than two items.
pub fn halve(signal: Signal, bytes: &Bytes) -> Option<(Part, Part)> {
    let chain = signal.chain();
    let items = count_at(bytes, chain);
    let wanted = items / 2;
    if wanted == 0 {
        return None;
    }
    let mut taken = 0;
    let field = Fields::new(bytes).find(|field| {
        let inside = count_field(field, chain);
        let last = taken + inside >= wanted;
        taken += if last { 0 } else { inside };
        last
    })?;
    let (left, right) = if taken + count_field(&field, chain) == wanted {
        (bytes.slice(..field.end), bytes.slice(field.end..))
    } else {
        let mut halves = Halves::default();
        halves.left.raw(&bytes[..field.start]);
        halves.split(&field, &chain[1..], wanted - taken);
        halves.right.raw(&bytes[field.end..]);
        (halves.left.into_bytes().into(), halves.right.into_bytes().into())
    };
    Some((Part { bytes: left, items: wanted }, Part { bytes: right, items: items - wanted }))
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

/// Gathers top-level fields into contiguous parts.
struct Cutter<'a> {
    request: &'a Bytes,
    chain: Chain,
    max_bytes: usize,
    /// Where the part being gathered begins, and what it holds.
    start: usize,
    items: u32,
    parts: Vec<Part>,
}

impl<'a> Cutter<'a> {
    fn add(&mut self, field: &Field<'a>) {
        if field.end - self.start > self.max_bytes {
            self.flush(field.start);
        }
        if field.end - field.start > self.max_bytes {
            let mut pieces = Vec::new();
            cut_field(self.request, field, self.chain, self.max_bytes, &mut pieces);
            self.parts.extend(pieces.into_iter().map(|piece| piece.into_part(self.request)));
            self.start = field.end;
        } else {
            self.items += count_field(field, self.chain);
        }
    }

    /// Ends the part being gathered at `end`.
    fn flush(&mut self, end: usize) {
        if end > self.start {
            self.parts.push(Part { bytes: self.request.slice(self.start..end), items: self.items });
        }
        self.start = end;
        self.items = 0;
    }
}

/// One encoded field: as it stands in the request, or made anew.
struct Piece<'a> {
    bytes: Cow<'a, [u8]>,
    items: u32,
}

impl Piece<'_> {
    fn into_part(self, request: &Bytes) -> Part {
        let bytes = match self.bytes {
            // Borrowed pieces are fields of this very request, which `slice_ref` insists on.
            Cow::Borrowed(bytes) => request.slice_ref(bytes),
            Cow::Owned(bytes) => bytes.into(),
        };
        Part { bytes, items: self.items }
    }
}

/// Cuts one field of `message`, whose children are at `chain`, into fields of at most `max` bytes where possible.
fn cut_field<'a>(message: &'a [u8], field: &Field<'a>, chain: &[&[u32]], max: usize, out: &mut Vec<Piece<'a>>) {
    let whole = || Piece { bytes: message[field.start..field.end].into(), items: count_field(field, chain) };
    let ([numbers, deeper @ ..], Some(body)) = (chain, field.body()) else { return out.push(whole()) };
    if field.end - field.start <= max || !numbers.contains(&field.number) || deeper.is_empty() {
        return out.push(whole());
    }
    let context = context(body, deeper);
    let header = 1 + varint_len(max as u64) + context.len();
    if header > max / 2 {
        return out.push(whole());
    }
    let mut children = Vec::new();
    for child in Fields::new(body).filter(|child| is_child(child, deeper)) {
        cut_field(body, &child, deeper, max - header, &mut children);
    }
    if children.is_empty() {
        return out.push(whole());
    }
    pack(field.number, &context, &children, max - header, out);
}

/// Joins neighbouring children into messages whose children take at most `room` bytes, each with the whole context.
fn pack(number: u32, context: &[u8], children: &[Piece<'_>], room: usize, out: &mut Vec<Piece<'_>>) {
    let mut rest = children;
    while !rest.is_empty() {
        let mut size = 0;
        let fitting = rest.iter().take_while(|child| {
            size += child.bytes.len();
            size <= room
        });
        let (group, later) = rest.split_at(fitting.count().max(1));
        let mut encoder = Encoder::with_capacity(context.len() + size.min(room) + 16);
        let message = encoder.open(number, context.len() + size.min(room));
        encoder.raw(context);
        group.iter().for_each(|child| encoder.raw(&child.bytes));
        encoder.close(message);
        out.push(Piece { bytes: encoder.into_bytes().into(), items: group.iter().map(|child| child.items).sum() });
        rest = later;
    }
}

fn is_child(field: &Field<'_>, chain: &[&[u32]]) -> bool {
    chain.first().is_some_and(|numbers| numbers.contains(&field.number)) && field.body().is_some()
}

/// The fields of a message that are not children, in their order.
fn context(body: &[u8], chain: &[&[u32]]) -> Vec<u8> {
    let mut context = Vec::new();
    for field in Fields::new(body).filter(|field| !is_child(field, chain)) {
        context.extend_from_slice(&body[field.start..field.end]);
    }
    context
}

/// The two sides of a message that is split between its items.
#[derive(Default)]
struct Halves {
    left: Encoder,
    right: Encoder,
}

impl Halves {
    /// Splits one field, whose children are at `chain`, so that `wanted` items of it go left.
    fn split(&mut self, field: &Field<'_>, chain: &[&[u32]], wanted: u32) {
        let body = field.body().unwrap_or_default();
        let (left, right) = (self.left.open(field.number, body.len()), self.right.open(field.number, body.len()));
        let mut missing = wanted;
        for inner in Fields::new(body) {
            let bytes = &body[inner.start..inner.end];
            let items = count_field(&inner, chain);
            if !is_child(&inner, chain) {
                self.left.raw(bytes);
                self.right.raw(bytes);
            } else if missing == 0 {
                self.right.raw(bytes);
            } else if items <= missing {
                self.left.raw(bytes);
                missing -= items;
            } else {
                self.split(&inner, &chain[1..], missing);
                missing = 0;
            }
        }
        self.left.close(left);
        self.right.close(right);
    }
}
