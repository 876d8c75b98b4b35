//! Whether the messages of a page are well formed. What was checked here is read without further questions.

use weir_otlp::cursor::{Cursor, Value};
use weir_otlp::{Fault, Problem};

use super::field::{bucket, exemplar, family, histogram, label, metric, number, quantile, span, summary, timestamp};

/// What a field holds.
#[derive(Debug, Clone, Copy)]
enum Holds {
    Varint,
    Double,
    Text,
    /// Many numbers, one by one or packed.
    Varints,
    Doubles,
    Message(&'static [(u32, Holds)]),
}

/// A message, by the numbers of its fields. Other fields are skipped.
type Shape = [(u32, Holds)];

const TIMESTAMP: &Shape = &[(timestamp::SECONDS, Holds::Varint), (timestamp::NANOS, Holds::Varint)];
const LABEL: &Shape = &[(label::NAME, Holds::Text), (label::VALUE, Holds::Text)];
const EXEMPLAR: &Shape = &[
    (exemplar::LABELS, Holds::Message(LABEL)),
    (exemplar::VALUE, Holds::Double),
    (exemplar::TIMESTAMP, Holds::Message(TIMESTAMP)),
];
const NUMBER: &Shape = &[(number::VALUE, Holds::Double)];
const COUNTER: &Shape = &[
    (number::VALUE, Holds::Double),
    (number::EXEMPLAR, Holds::Message(EXEMPLAR)),
    (number::CREATED, Holds::Message(TIMESTAMP)),
];
const QUANTILE: &Shape = &[(quantile::QUANTILE, Holds::Double), (quantile::VALUE, Holds::Double)];
const SUMMARY: &Shape = &[
    (summary::COUNT, Holds::Varint),
    (summary::SUM, Holds::Double),
    (summary::QUANTILES, Holds::Message(QUANTILE)),
    (summary::CREATED, Holds::Message(TIMESTAMP)),
];
const BUCKET: &Shape = &[
    (bucket::COUNT, Holds::Varint),
    (bucket::UPPER_BOUND, Holds::Double),
    (bucket::EXEMPLAR, Holds::Message(EXEMPLAR)),
    (bucket::COUNT_FLOAT, Holds::Double),
];
const SPAN: &Shape = &[(span::OFFSET, Holds::Varint), (span::LENGTH, Holds::Varint)];
const HISTOGRAM: &Shape = &[
    (histogram::COUNT, Holds::Varint),
    (histogram::SUM, Holds::Double),
    (histogram::BUCKETS, Holds::Message(BUCKET)),
    (histogram::COUNT_FLOAT, Holds::Double),
    (histogram::SCHEMA, Holds::Varint),
    (histogram::ZERO_THRESHOLD, Holds::Double),
    (histogram::ZERO_COUNT, Holds::Varint),
    (histogram::ZERO_COUNT_FLOAT, Holds::Double),
    (histogram::NEGATIVE_SPANS, Holds::Message(SPAN)),
    (histogram::NEGATIVE_DELTAS, Holds::Varints),
    (histogram::NEGATIVE_COUNTS, Holds::Doubles),
    (histogram::POSITIVE_SPANS, Holds::Message(SPAN)),
    (histogram::POSITIVE_DELTAS, Holds::Varints),
    (histogram::POSITIVE_COUNTS, Holds::Doubles),
    (histogram::CREATED, Holds::Message(TIMESTAMP)),
    (histogram::EXEMPLARS, Holds::Message(EXEMPLAR)),
];
const METRIC: &Shape = &[
    (metric::LABELS, Holds::Message(LABEL)),
    (metric::GAUGE, Holds::Message(NUMBER)),
    (metric::COUNTER, Holds::Message(COUNTER)),
    (metric::SUMMARY, Holds::Message(SUMMARY)),
    (metric::UNTYPED, Holds::Message(NUMBER)),
    (metric::TIMESTAMP_MS, Holds::Varint),
    (metric::HISTOGRAM, Holds::Message(HISTOGRAM)),
];
const FAMILY: &Shape = &[
    (family::NAME, Holds::Text),
    (family::HELP, Holds::Text),
    (family::TYPE, Holds::Varint),
    (family::METRICS, Holds::Message(METRIC)),
    (family::UNIT, Holds::Text),
];

/// Checks the message of a family.
pub(super) fn family(body: &[u8]) -> Result<(), Fault> {
    message(FAMILY, body)
}

/// Offsets of faults are those in the innermost message.
fn message(shape: &Shape, body: &[u8]) -> Result<(), Fault> {
    let mut cursor = Cursor::new(body);
    while let Some(field) = cursor.next_field()? {
        let Some((_, holds)) = shape.iter().find(|(number, _)| *number == field.number) else { continue };
        let fault = |problem| Fault { problem, offset: field.start };
        match (holds, field.value) {
            (Holds::Varint | Holds::Varints, Value::Varint(_))
            | (Holds::Double | Holds::Doubles, Value::Fixed64(_)) => {}
            (Holds::Text, Value::Len(text)) if std::str::from_utf8(text).is_ok() => {}
            (Holds::Text, Value::Len(_)) => return Err(fault(Problem::Utf8)),
            (Holds::Message(shape), Value::Len(body)) => message(shape, body)?,
            (Holds::Doubles, Value::Len(packed)) if packed.len().is_multiple_of(8) => {}
            (Holds::Doubles, Value::Len(_)) => return Err(fault(Problem::Truncated)),
            (Holds::Varints, Value::Len(packed)) => varints(packed)?,
            _ => return Err(fault(Problem::WireType)),
        }
    }
    Ok(())
}

fn varints(packed: &[u8]) -> Result<(), Fault> {
    let mut cursor = Cursor::new(packed);
    while cursor.offset() < packed.len() {
        cursor.varint()?;
    }
    Ok(())
}
