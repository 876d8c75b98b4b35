//! Log records: one line of text each.

use std::ops::Range;

use super::writer::{Stamped, Writer};
use super::{Shape, value_text};

const SEVERITY_INFO: u64 = 9;

/// Writes these log records of a request into a `ScopeLogs`.
pub(crate) fn write(scope: &mut Writer, shape: &Shape, body_bytes: u32, items: Range<u32>) {
    let body = value_text(0, body_bytes);
    for item in items {
        scope.message(2, |record| {
            record.stamped_fixed64(1, Stamped::Time, item);
            record.varint(2, SEVERITY_INFO);
            record.text(3, "INFO");
            record.message(5, |any| any.text(1, &body));
            shape.write_attributes(record, 6, shape.attributes, item);
            record.stamped_bytes(9, &[(Stamped::TraceSeed, item), (Stamped::SpanId, item)]);
            record.stamped_bytes(10, &[(Stamped::SpanId, item)]);
            record.stamped_fixed64(11, Stamped::Time, item);
        });
    }
}
