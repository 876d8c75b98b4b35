//! Edits to a request: fields appended, removed or replaced; everything else keeps its bytes.
//!
//! An edit names the message that it belongs to by the place of the message's body, which views know. All edits are
//! applied in one pass, and the lengths of the messages around them are written anew. Without edits the result is
//! identical (WIRE-2), and what is not touched survives, known or unknown (WIRE-3). New fields are taken as they are;
//! [`crate::build`] encodes them.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use crate::build::Encoder;
use crate::common::Message;
use crate::cursor::{Field, Fields};
use crate::error::Error;
use crate::limits::DEPTH_CEILING;
use crate::schema::{self, Kind};
use crate::signal::Signal;

/// One change to a message.
#[derive(Debug, Clone)]
pub struct Edit<'a> {
    /// Body of the message whose own fields change.
    message: Range<usize>,
    /// Whole fields of it that go away; empty for an insertion.
    range: Range<usize>,
    /// Encoded fields that stand there instead.
    fields: Cow<'a, [u8]>,
}

impl<'a> Edit<'a> {
    /// Adds encoded fields at the end of a message.
    pub fn append(message: Message<'_>, fields: impl Into<Cow<'a, [u8]>>) -> Self {
        let message = message.range();
        Self { range: message.end..message.end, message, fields: fields.into() }
    }

    /// Removes a message from the message that holds it directly.
    pub fn remove(holder: Message<'_>, message: Message<'_>) -> Self {
        Self::replace(holder, message, &[][..])
    }

    /// Puts encoded fields in the place of a message, in the message that holds it directly.
    pub fn replace(holder: Message<'_>, message: Message<'_>, fields: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { message: holder.range(), range: message.field_range(), fields: fields.into() }
    }

    /// Where it begins.
    pub fn start(&self) -> usize {
        self.range.start
    }

    fn error(&self, reason: &'static str) -> Error {
        Error::Edit { start: self.range.start, end: self.range.end, reason }
    }
}

/// Applies edits, given in any order, to a valid request. Edits of one place are applied in the order given.
///
/// # Errors
/// [`Error::Edit`] when edits overlap, or when one does not name a message of this request and whole fields in it.
pub fn splice(signal: Signal, request: &[u8], edits: Vec<Edit<'_>>) -> Result<Vec<u8>, Error> {
    splice_until(signal, request, edits, request.len())
}

/// The same for whoever can leave most of a request where it is: the bytes that stand in the place of its first ones,
/// and how many those are. No edit is behind them.
///
/// # Errors
/// As [`splice`].
pub fn splice_front(signal: Signal, request: &[u8], edits: Vec<Edit<'_>>) -> Result<(Vec<u8>, usize), Error> {
    let until = last_change(&edits).min(request.len());
    Ok((splice_until(signal, request, edits, until)?, until))
}

/// Where the last change ends.
pub fn last_change(edits: &[Edit<'_>]) -> usize {
    edits.iter().map(|edit| edit.range.end).max().unwrap_or(0)
}

fn splice_until(signal: Signal, request: &[u8], mut edits: Vec<Edit<'_>>, until: usize) -> Result<Vec<u8>, Error> {
    // At one place the innermost message comes first, since it ends there while the outer ones go on.
    let order = |edit: &Edit<'_>| (edit.range.start, Reverse(edit.message.start), edit.range.end);
    if !edits.is_sorted_by_key(order) {
        edits.sort_by_key(order);
    }
    let added: usize = edits.iter().map(|edit| edit.fields.len()).sum();
    // What has to grow would be there twice.
    let lengths = LENGTHS * (edits.len() + 1);
    let mut splicer = Splicer { request, until, left: 0, out: Encoder::with_capacity(until + added + lengths) };
    splicer.message(signal.schema(), 0..request.len(), &edits, 0)?;
    Ok(splicer.out.into_bytes())
}

/// Most bytes by which the lengths of the messages around an edit become longer.
const LENGTHS: usize = 16;

struct Splicer<'a> {
    request: &'a [u8],
    /// What comes from here on is not written.
    until: usize,
    /// Bytes that were not written.
    left: usize,
    out: Encoder,
}

impl Splicer<'_> {
    /// Writes the message with this body, which `edits` belong to directly or inside.
    fn message(
        &mut self,
        message: &'static schema::Message,
        body: Range<usize>,
        edits: &[Edit<'_>],
        depth: u32,
    ) -> Result<(), Error> {
        let mut rest = edits;
        // Up to here the request is written or replaced.
        let mut done = body.start;
        for field in Fields::starting_at(&self.request[..body.end], body.start) {
            (done, rest) = self.own_edits(&body, rest, field.start, done)?;
            if field.start < done {
                continue;
            }
            let inside = rest.iter().take_while(|edit| is_inside(edit, &field)).count();
            let (edits, later) = rest.split_at(inside);
            let Some(first) = edits.first() else { continue };
            let Some(inner) = message_type(message, &field).filter(|_| depth < DEPTH_CEILING) else {
                return Err(first.error("it lies in a field that is not a message"));
            };
            self.copy(done..field.start);
            let open = self.out.open(field.number, field.end - field.body_start());
            let left = self.left;
            self.message(inner, field.body_start()..field.end, edits, depth + 1)?;
            self.out.close_before(open, self.left - left);
            (done, rest) = (field.end, later);
        }
        (done, rest) = self.own_edits(&body, rest, body.end, done)?;
        if let Some(edit) = rest.first() {
            return Err(edit.error("it names no message of the request"));
        }
        self.copy(done..body.end);
        Ok(())
    }

    /// Writes bytes of the request as they are.
    fn copy(&mut self, range: Range<usize>) {
        let end = range.end.clamp(range.start, self.until.max(range.start));
        self.out.raw(&self.request[range.start..end]);
        self.left += range.end - end;
    }

    /// Applies the edits of the message with this body that start at `boundary`, where a field of it starts or its last
    /// one ends. Returns how far the request has been handled, and the edits left.
    fn own_edits<'e>(
        &mut self,
        body: &Range<usize>,
        edits: &'e [Edit<'e>],
        boundary: usize,
        mut done: usize,
    ) -> Result<(usize, &'e [Edit<'e>]), Error> {
        let own = edits.iter().take_while(|edit| edit.message == *body && edit.range.start <= boundary).count();
        let (own, rest) = edits.split_at(own);
        for edit in own {
            if edit.range.start < done {
                return Err(edit.error("it overlaps another edit"));
            }
            let whole_fields = edit.range.start == boundary && self.ends_field(body, &edit.range);
            if !whole_fields {
                return Err(edit.error("it does not cover whole fields"));
            }
            self.copy(done..edit.range.start);
            self.out.raw(&edit.fields);
            done = edit.range.end;
        }
        Ok((done, rest))
    }

    /// Whether `range`, which starts at a field, ends at the end of a field of the same message.
    fn ends_field(&self, body: &Range<usize>, range: &Range<usize>) -> bool {
        let mut ends = Fields::starting_at(&self.request[..body.end], range.start).map(|field| field.end);
        range.is_empty() || ends.find(|end| *end >= range.end) == Some(range.end)
    }
}

fn is_inside(edit: &Edit<'_>, field: &Field<'_>) -> bool {
    field.body().is_some() && edit.message.start >= field.body_start() && edit.message.end <= field.end
}

fn message_type(message: &'static schema::Message, field: &Field<'_>) -> Option<&'static schema::Message> {
    match message.field(field.number)?.kind {
        Kind::Message(inner) => Some(inner),
        _ => None,
    }
}
