//! Reads from an export request what the judge needs: the id and the time of each item.
//!
//! The walk uses prost's wire primitives. All requests have the levels resource (1), scope (2), items (2); metrics have
//! data (5, 7, 9, 10, 11) and points (1) below. Every other field is stepped over, not decoded, so damage inside
//! attributes goes unseen here. Ids are reported as runs of consecutive numbers.
//!
//! Where an id lies, in a field that a gateway has no reason to touch:
//! - span: `span_id`, eight bytes, big endian;
//! - log record: `span_id`, the same;
//! - data point: `start_time_unix_nano`, which all five types have under the same number. Generated points claim to
//!   have started in the first hours of 1970; a later start is a real time, and no id.

mod bodies;
mod fields;
mod msgpack;
mod points;
pub(crate) mod records;
pub(crate) mod remote_write;

use std::ops::RangeInclusive;

use bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

pub(crate) use self::bodies::find_lines;
pub(crate) use self::points::find_points;
use crate::lines::Finding;
use crate::series;
use crate::signal::Signal;

/// What an export request holds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Scan {
    /// Number of items.
    pub(crate) items: u64,
    /// Ids of the items as runs of consecutive numbers, in order of arrival.
    pub(crate) runs: Vec<RangeInclusive<u64>>,
    /// Times in nanoseconds since the epoch, each with the number of consecutive items that have it.
    pub(crate) times: Vec<(u64, u64)>,
    /// Items without an id of this judge: they cannot be told apart.
    pub(crate) without_id: u64,
    /// What each log record is as a line of `weir load log-files`; empty when nobody wants to know.
    pub(crate) lines: Vec<Finding>,
    /// What each data point is as a sample of `weir load scrape-targets`; empty when nobody wants to know.
    pub(crate) samples: Vec<series::Finding>,
}

/// A start time from here on (1972) is a time and not an id.
const FIRST_REAL_TIME: u64 = 1 << 56;

/// Field numbers of the data of each type in a metric, and of the points in all of them.
const METRIC_DATA: [u32; 5] = [5, 7, 9, 10, 11];
const POINTS: u32 = 1;

/// Walks an encoded export request.
///
/// # Errors
/// The bytes are not a protobuf message of that shape.
pub(crate) fn scan(signal: Signal, request: &mut impl Buf) -> Result<Scan, Malformed> {
    let mut scan = Scan::default();
    each_message(request, 0, &[1], &mut |resource, end| {
        each_message(resource, end, &[2], &mut |scope, end| {
            each_message(scope, end, &[2], &mut |item, end| match signal {
                Signal::Traces => read_item(item, end, &SPAN, &mut scan),
                Signal::Logs => read_item(item, end, &LOG_RECORD, &mut scan),
                Signal::Metrics => each_message(item, end, &METRIC_DATA, &mut |data, end| {
                    each_message(data, end, &[POINTS], &mut |point, end| read_item(point, end, &POINT, &mut scan))
                }),
            })
        })
    })?;
    Ok(scan)
}

/// Calls `visit` for each length-delimited field with one of `numbers` until `end` bytes remain; `visit` gets the
/// remaining length at which its own message ends.
fn each_message<B: Buf>(
    buf: &mut B,
    end: usize,
    numbers: &[u32],
    visit: &mut impl FnMut(&mut B, usize) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while buf.remaining() > end {
        let (field, wire_type) = decode_key(buf)?;
        if numbers.contains(&field) && wire_type == WireType::LengthDelimited {
            let inner_end = message_end(buf, end)?;
            visit(buf, inner_end)?;
        } else {
            skip_field(wire_type, field, buf, DecodeContext::default())?;
        }
    }
    ended_at(buf, end)
}

/// Field numbers of what is read from an item.
struct Fields {
    id: Id,
    /// A fixed64.
    time: u32,
}

enum Id {
    /// Bytes, big endian.
    Bytes(u32),
    /// A fixed64 that is a time unless the judge's generator wrote it.
    StartTime(u32),
}

const SPAN: Fields = Fields { id: Id::Bytes(2), time: 7 };
const LOG_RECORD: Fields = Fields { id: Id::Bytes(10), time: 1 };
const POINT: Fields = Fields { id: Id::StartTime(2), time: 3 };

/// Reads an item up to the later of its id and time and steps over the rest: attributes are most of the bytes and the
/// judge shares its core with the generator. A field that comes twice counts as it came first.
fn read_item(buf: &mut impl Buf, end: usize, fields: &Fields, scan: &mut Scan) -> Result<(), Malformed> {
    let mut id = None;
    let mut time = None;
    while buf.remaining() > end && (id.is_none() || time.is_none()) {
        let (field, wire_type) = decode_key(buf)?;
        match (wire_type, &fields.id) {
            (WireType::LengthDelimited, Id::Bytes(number)) if *number == field => id = Some(read_id(buf, end)?),
            (WireType::SixtyFourBit, Id::StartTime(number)) if *number == field => {
                id = Some(read_fixed64(buf, end)?).map(|start| if start < FIRST_REAL_TIME { start } else { 0 });
            }
            (WireType::SixtyFourBit, _) if fields.time == field => time = Some(read_fixed64(buf, end)?),
            _ => skip_field(wire_type, field, buf, DecodeContext::default())?,
        }
    }
    buf.advance(buf.remaining().checked_sub(end).ok_or(Malformed::TooLong)?);
    scan.add(id.unwrap_or(0), time.unwrap_or(0));
    Ok(())
}

/// Reads an id as a big-endian number; 0 when it is not eight bytes.
fn read_id(buf: &mut impl Buf, end: usize) -> Result<u64, Malformed> {
    let id_end = message_end(buf, end)?;
    if buf.remaining() - id_end == 8 {
        return Ok(buf.get_u64());
    }
    buf.advance(buf.remaining() - id_end);
    Ok(0)
}

fn read_fixed64(buf: &mut impl Buf, end: usize) -> Result<u64, Malformed> {
    if buf.remaining().saturating_sub(end) < 8 {
        return Err(Malformed::TooLong);
    }
    Ok(buf.get_u64_le())
}

/// Reads a length and returns how many bytes remain after that many.
fn message_end(buf: &mut impl Buf, end: usize) -> Result<usize, Malformed> {
    let length = decode_varint(buf)?;
    let room = buf.remaining().saturating_sub(end);
    match usize::try_from(length) {
        Ok(length) if length <= room => Ok(buf.remaining() - length),
        _ => Err(Malformed::TooLong),
    }
}

/// A field must not reach past the message it is in.
fn ended_at(buf: &impl Buf, end: usize) -> Result<(), Malformed> {
    if buf.remaining() == end { Ok(()) } else { Err(Malformed::TooLong) }
}

/// Why bytes are not an export request.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Malformed {
    /// prost cannot read a tag, length or value.
    #[error("cannot decode export request: {0}")]
    Wire(#[from] prost::DecodeError),
    /// A length points past the message the field is in.
    #[error("cannot decode export request: a field is longer than its message")]
    TooLong,
    /// Records that are not OTLP, and neither JSON nor MessagePack.
    #[error("cannot decode records: {0}")]
    Record(String),
}

impl Scan {
    fn add(&mut self, id: u64, time: u64) {
        self.items += 1;
        match self.times.last_mut() {
            Some((last, count)) if *last == time => *count += 1,
            _ => self.times.push((time, 1)),
        }
        if id == 0 {
            self.without_id += 1;
            return;
        }
        match self.runs.last_mut() {
            Some(run) if run.end().checked_add(1) == Some(id) => *run = *run.start()..=id,
            _ => self.runs.push(id..=id),
        }
    }

    /// Leaves out the first `count` ids, as a backend that rejects part of a request does.
    pub(crate) fn reject_first(&mut self, count: u64) {
        let mut rest = count.min(self.items);
        self.items -= rest;
        let first = usize::try_from(rest).unwrap_or(usize::MAX);
        self.lines.drain(..first.min(self.lines.len()));
        self.samples.drain(..first.min(self.samples.len()));
        let without_id = rest.min(self.without_id);
        self.without_id -= without_id;
        rest -= without_id;
        while rest > 0 && !self.runs.is_empty() {
            let run = self.runs.remove(0);
            let length = run.end() - run.start() + 1;
            if length > rest {
                self.runs.insert(0, run.start() + rest..=*run.end());
            }
            rest = rest.saturating_sub(length);
        }
    }
}

#[cfg(test)]
mod tests;
