//! All series as bytes, and back: what a converter knows survives an orderly restart.
//!
//! ```text
//! "WTMP"  version (1 byte)  XXH3-128 of the body (16 bytes, little endian)  body
//! body    { 1: known from (fixed64)  2: repeated series }
//! series  { 1, 2: id, low and high half  3: time  4: seen (fixed64)  5: value  6: owed }
//! value   { 1: int  2: double (fixed64)  3: histogram  4: exponential histogram }; nothing for zero
//! ```
//! The body is protobuf, written and read with the tools of `weir-otlp`; the series stand in the order of their last
//! sight. A histogram has the field numbers of its data point, and a hash in the place of its bounds.

use std::io::{self, Write};

use twox_hash::XxHash3_128;
use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::cursor::Value as Wire;
use weir_otlp::metrics::{ExponentialHistogramDataPoint, HistogramDataPoint};

use crate::Limits;
use crate::counts::Forgotten;
use crate::exponential::Exponential;
use crate::histogram::Histogram;
use crate::identity::SeriesId;
use crate::series::{Series, SeriesTable};
use crate::value::Value;

const MAGIC: &[u8] = b"WTMP";
const VERSION: u8 = 1;
/// Field with the hash of the bounds; data points have none of this number.
const BOUNDS: u32 = 15;

/// Why bytes are not a snapshot that can be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// They are something else.
    #[error("cannot read the snapshot of metric series: it does not begin with \"WTMP\"")]
    Magic,
    /// They were written by another version of this crate.
    #[error("cannot read the snapshot of metric series: its version is {0}, not {VERSION}")]
    Version(u8),
    /// They have changed since they were written, or end early.
    #[error("cannot read the snapshot of metric series: its checksum is wrong")]
    Checksum,
}

/// Room for one series beside its buckets.
const SERIES_BYTES: usize = 512;
/// A bucket is written with so many bytes, and remembered with at least one.
const BUCKET_BYTES: usize = 8;

/// Writes one series after the other, so that at most one of them is in memory a second time. `pay` gives that memory.
pub(crate) fn write(table: &SeriesTable, out: &mut dyn Write, pay: &mut dyn FnMut(usize) -> bool) -> io::Result<()> {
    let largest = table.series.iter().map(|(id, series)| most_bytes(table, *id, series)).max();
    if !pay(largest.unwrap_or(SERIES_BYTES)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // The checksum stands before what it is of.
    let mut hash = XxHash3_128::new();
    write_body(table, &mut |piece| {
        hash.write(piece);
        Ok(())
    })?;
    out.write_all(MAGIC)?;
    out.write_all(&[VERSION])?;
    out.write_all(&hash.finish_128().to_le_bytes())?;
    write_body(table, &mut |piece| out.write_all(piece))
}

/// What a series takes at most when it is written.
fn most_bytes(table: &SeriesTable, id: SeriesId, series: &Series) -> usize {
    let owed = table.owed.get(&id).map_or(0, Value::heap_bytes);
    SERIES_BYTES + BUCKET_BYTES * (series.value.heap_bytes() + owed)
}

fn write_body(table: &SeriesTable, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut known_from = Encoder::default();
    known_from.fixed64(1, table.known_from);
    out(&known_from.into_bytes())?;
    for (id, series) in &table.series {
        let mut piece = Encoder::with_capacity(most_bytes(table, *id, series));
        let open = piece.open(2, 64);
        let [low, high] = halves(id.0);
        piece.fixed64(1, low);
        piece.fixed64(2, high);
        piece.fixed64(3, series.time);
        piece.fixed64(4, series.seen);
        encode_value(5, &series.value, &mut piece);
        if let Some(owed) = table.owed.get(id) {
            encode_value(6, owed, &mut piece);
        }
        piece.close(open);
        out(&piece.into_bytes())?;
    }
    Ok(())
}

pub(crate) fn decode(snapshot: &[u8], limits: Limits, now: u64) -> Result<SeriesTable, SnapshotError> {
    let rest = snapshot.strip_prefix(MAGIC).ok_or(SnapshotError::Magic)?;
    let (version, rest) = rest.split_first().ok_or(SnapshotError::Checksum)?;
    if *version != VERSION {
        return Err(SnapshotError::Version(*version));
    }
    let (checksum, body) = rest.split_first_chunk().ok_or(SnapshotError::Checksum)?;
    if XxHash3_128::oneshot(body) != u128::from_le_bytes(*checksum) {
        return Err(SnapshotError::Checksum);
    }
    let body = Message::request(body);
    let mut table = SeriesTable::new(limits, now);
    table.known_from = body.fixed64(1);
    for message in body.messages(2) {
        let id = SeriesId(u128::from(message.fixed64(2)) << 64 | u128::from(message.fixed64(1)));
        // Seen later than now is seen by a clock that has been set back since.
        let seen = message.fixed64(4).min(now);
        let value = message.message(5).map_or(Value::Zero, decode_value);
        let series = Series { time: message.fixed64(3), value, seen, conversion: 0 };
        table.put_back(id, series, message.message(6).map(decode_value));
        table.forget(&mut Forgotten::default());
    }
    Ok(table)
}

fn halves(id: u128) -> [u64; 2] {
    let mut halves = [0; 2];
    for (half, bytes) in halves.iter_mut().zip(id.to_le_bytes().as_chunks().0) {
        *half = u64::from_le_bytes(*bytes);
    }
    halves
}

fn encode_value(number: u32, value: &Value, out: &mut Encoder) {
    let open = out.open(number, 9);
    match value {
        Value::Zero => {}
        Value::Int(value) => out.fixed64(1, value.cast_unsigned()),
        Value::Double(value) => out.fixed64(2, value.to_bits()),
        Value::Histogram(histogram) => {
            let open = out.open(3, 64);
            value.write(out);
            out.fixed64(BOUNDS, histogram.bounds);
            out.close(open);
        }
        Value::Exponential(_) => {
            let open = out.open(4, 256);
            value.write(out);
            out.close(open);
        }
    }
    out.close(open);
}

fn decode_value(message: Message<'_>) -> Value {
    let member = message.fields().last();
    let histogram = |message: Message<'_>| {
        let read = Histogram::read(HistogramDataPoint(message));
        Value::Histogram(Box::new(Histogram { bounds: message.fixed64(BOUNDS), ..read }))
    };
    let exponential = |message| Value::Exponential(Box::new(Exponential::read(ExponentialHistogramDataPoint(message))));
    member.map_or(Value::Zero, |field| match (field.number, field.value) {
        (1, Wire::Fixed64(bits)) => Value::Int(bits.cast_signed()),
        (2, Wire::Fixed64(bits)) => Value::Double(f64::from_bits(bits)),
        (3, _) => message.inner(&field).map_or(Value::Zero, histogram),
        (4, _) => message.inner(&field).map_or(Value::Zero, exponential),
        _ => Value::Zero,
    })
}
