//! How metrics that this crate makes are encoded, whatever they are of.

use std::ops::Range;

use weir_otlp::build::{Encoder, varint_len};
use weir_otlp::common::Message;
use weir_otlp::field::{any_value, key_value, scope, scope_data};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`
pub(crate) const CUMULATIVE: u64 = 2;

/// Writes an attribute whose value is a text.
pub(crate) fn attribute(out: &mut Encoder, number: u32, key: &[u8], value: &[u8]) {
    let text = 1 + varint_len(value.len() as u64) + value.len();
    let name = 1 + varint_len(key.len() as u64) + key.len();
    out.header(number, name + 1 + varint_len(text as u64) + text);
    out.bytes(key_value::KEY, key);
    out.header(key_value::VALUE, text);
    out.bytes(any_value::STRING_VALUE, value);
}

/// Writes the scope of all metrics that do not say one themselves, which has the version of Weir.
pub(crate) fn own_scope(out: &mut Encoder, name: &str) {
    let open = out.open(scope_data::SCOPE, 64);
    out.bytes(scope::NAME, name.as_bytes());
    out.bytes(scope::VERSION, env!("CARGO_PKG_VERSION").as_bytes());
    out.close(open);
}

/// Copies whole fields of a message.
pub(crate) fn copy_fields(out: &mut Encoder, message: Message<'_>, range: Range<usize>) {
    let start = message.range().start;
    out.raw(&message.body()[range.start - start..range.end - start]);
}
