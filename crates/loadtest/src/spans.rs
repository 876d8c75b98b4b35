//! Reads from an export request what the judge needs: the id and start time of each span.
//!
//! The walk uses prost's wire primitives on the three levels `resource_spans` (1), `scope_spans` (2), `spans` (2); every
//! other field is stepped over, not decoded, so damage inside attributes goes unseen here. Ids are reported as runs of consecutive numbers.

use std::ops::RangeInclusive;

use bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// What an export request holds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Scan {
    /// Number of spans.
    pub(crate) spans: u64,
    /// Ids of the spans as runs of consecutive numbers, in order of arrival.
    pub(crate) runs: Vec<RangeInclusive<u64>>,
    /// Start times in nanoseconds since the epoch, each with the number of consecutive spans that have it.
    pub(crate) starts: Vec<(u64, u64)>,
    /// Spans whose id was not eight bytes or was all zeros: they break OTLP and cannot be told apart.
    pub(crate) without_id: u64,
}

/// Walks an encoded `ExportTraceServiceRequest`.
///
/// # Errors
/// The bytes are not a protobuf message of that shape.
pub(crate) fn scan(request: &mut impl Buf) -> Result<Scan, Malformed> {
    let mut scan = Scan::default();
    each_message(request, 0, 1, &mut |resource_spans, end| {
        each_message(resource_spans, end, 2, &mut |scope_spans, end| {
            each_message(scope_spans, end, 2, &mut |span, end| read_span(span, end, &mut scan))
        })
    })?;
    Ok(scan)
}

/// Calls `visit` for each length-delimited field `number` until `end` bytes remain; `visit` gets the remaining length
/// at which its own message ends.
fn each_message<B: Buf>(
    buf: &mut B,
    end: usize,
    number: u32,
    visit: &mut impl FnMut(&mut B, usize) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while buf.remaining() > end {
        let (field, wire_type) = decode_key(buf)?;
        if field == number && wire_type == WireType::LengthDelimited {
            let inner_end = message_end(buf, end)?;
            visit(buf, inner_end)?;
        } else {
            skip_field(wire_type, field, buf, DecodeContext::default())?;
        }
    }
    ended_at(buf, end)
}

/// Reads a span up to the later of its id and start time and steps over the rest: attributes are most of the bytes and
/// the judge shares its core with the generator. A field that comes twice counts as it came first.
fn read_span(buf: &mut impl Buf, end: usize, scan: &mut Scan) -> Result<(), Malformed> {
    let mut id = None;
    let mut start = None;
    while buf.remaining() > end && (id.is_none() || start.is_none()) {
        match decode_key(buf)? {
            (2, WireType::LengthDelimited) => id = Some(read_id(buf, end)?),
            (7, WireType::SixtyFourBit) if buf.remaining() >= end + 8 => start = Some(buf.get_u64_le()),
            (field, wire_type) => skip_field(wire_type, field, buf, DecodeContext::default())?,
        }
    }
    buf.advance(buf.remaining().checked_sub(end).ok_or(Malformed::TooLong)?);
    scan.add(id.unwrap_or(0), start.unwrap_or(0));
    Ok(())
}

/// Reads a span id as a big-endian number; 0 when it is not eight bytes.
fn read_id(buf: &mut impl Buf, end: usize) -> Result<u64, Malformed> {
    let id_end = message_end(buf, end)?;
    if buf.remaining() - id_end == 8 {
        return Ok(buf.get_u64());
    }
    buf.advance(buf.remaining() - id_end);
    Ok(0)
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
}

impl Scan {
    fn add(&mut self, id: u64, start: u64) {
        self.spans += 1;
        match self.starts.last_mut() {
            Some((last, count)) if *last == start => *count += 1,
            _ => self.starts.push((start, 1)),
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
        let mut rest = count.min(self.spans);
        self.spans -= rest;
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
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use prost::Message;

    use super::*;

    fn span(id: &[u8], start: u64) -> Span {
        Span { span_id: id.to_vec(), start_time_unix_nano: start, name: "op".to_owned(), ..Span::default() }
    }

    fn numbered(ids: impl IntoIterator<Item = u64>) -> Vec<Span> {
        ids.into_iter().map(|id| span(&id.to_be_bytes(), 7)).collect()
    }

    fn request(spans: Vec<Span>) -> Vec<u8> {
        let scope = ScopeSpans { spans, schema_url: "s".to_owned(), ..ScopeSpans::default() };
        let resource =
            ResourceSpans { scope_spans: vec![scope], schema_url: "r".to_owned(), ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![resource] }.encode_to_vec()
    }

    #[test]
    fn ids_and_start_times_come_out_as_runs() {
        let mut spans = numbered([1, 2, 3, 9, 10]);
        spans.push(span(&[1, 2], 8));
        spans.push(span(&[0; 8], 8));
        let found = scan(&mut request(spans).as_slice()).unwrap();
        assert_eq!(found.runs, [1..=3, 9..=10]);
        assert_eq!(found.starts, [(7, 5), (8, 2)]);
        assert_eq!((found.spans, found.without_id), (7, 2));
    }

    #[test]
    fn a_request_cut_anywhere_is_an_error_or_shorter_but_never_a_panic() {
        let whole = request(numbered(1..=5));
        for length in 1..whole.len() {
            assert!(scan(&mut &whole[..length]).is_err(), "{length}");
        }
        assert_eq!(scan(&mut [].as_slice()).unwrap(), Scan::default());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let mut bytes = request(numbered(1..=3));
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            let _ = scan(&mut bytes.as_slice());
        }
    }

    #[test]
    fn rejecting_the_first_spans_leaves_the_rest() {
        let mut found = scan(&mut request(numbered([1, 2, 5, 6, 7])).as_slice()).unwrap();
        found.reject_first(3);
        assert_eq!((found.spans, found.runs), (2, vec![6..=7]));
    }
}
