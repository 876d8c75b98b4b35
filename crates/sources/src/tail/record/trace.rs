//! Trace context in the fields of a log record.

use weir_otlp::common::AnyValue;

/// What a record belongs to. Zeros say that it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Context {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) flags: u8,
}

impl Context {
    /// Of the fields `trace_id`, `span_id` and `trace_flags`, each for itself: what is not hexadecimal is nothing.
    pub(super) fn of_fields(trace_id: AnyValue<'_>, span_id: AnyValue<'_>, flags: AnyValue<'_>) -> Self {
        let [flags] = bytes(flags);
        Self { trace_id: bytes(trace_id), span_id: bytes(span_id), flags }
    }

    /// Of a `traceparent` of W3C: two, 32, 16 and two lower case hexadecimal digits with dashes between them.
    pub(super) fn of_parent(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let is_dash = |at: usize| matches!(at, 2 | 35 | 52);
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let fits = |(at, byte): (usize, &u8)| if is_dash(at) { *byte == b'-' } else { is_digit(*byte) };
        if text.len() != 55 || !text.iter().enumerate().all(fits) {
            return None;
        }
        let [flags] = from_hex(&text[53..]);
        Some(Self { trace_id: from_hex(&text[3..35]), span_id: from_hex(&text[36..52]), flags })
    }
}

/// Bytes that a value says in hexadecimal. The Collector writes what is no text as text first; of that, only whole
/// numbers below a million can be hexadecimal.
fn bytes<const N: usize>(value: AnyValue<'_>) -> [u8; N] {
    match value {
        AnyValue::String(text) => from_hex(text.as_bytes()),
        AnyValue::Double(number) if (0.0..1e6).contains(&number) && number.is_sign_positive() => {
            from_hex(number.to_string().as_bytes())
        }
        _ => [0; N],
    }
}

/// Of an even number of digits, the first `N` bytes, with zeros behind them when there are fewer; else zeros.
fn from_hex<const N: usize>(text: &[u8]) -> [u8; N] {
    let (pairs, rest) = text.as_chunks::<2>();
    let mut bytes = [0; N];
    let mut places = bytes.iter_mut();
    for pair in pairs {
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else { return [0; N] };
        if let Some(place) = places.next() {
            *place = high << 4 | low;
        }
    }
    if rest.is_empty() { bytes } else { [0; N] }
}

fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    })
}
