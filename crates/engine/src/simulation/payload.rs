//! Requests whose spans can be told apart.

use bytes::Bytes;
use weir_otlp::cursor::Cursor;

const MARK: &str = "span-";

/// A request with one span for each id, all of one resource and scope.
pub(crate) fn encode(ids: &[u64], padding: usize) -> Bytes {
    let padding = vec![b'x'; padding];
    let mut spans = Vec::new();
    for id in ids {
        spans.extend_from_slice(&field(2, &span(*id, &padding)));
    }
    let resource_spans = field(2, &spans);
    Bytes::from(field(1, &resource_spans))
}

fn span(id: u64, padding: &[u8]) -> Vec<u8> {
    let mut span = field(1, &[1; 16]);
    span.extend_from_slice(&field(2, &id.max(1).to_be_bytes()));
    span.extend_from_slice(&field(5, format!("{MARK}{id:010}").as_bytes()));
    // Field 3 is the trace state: any text.
    span.extend_from_slice(&field(3, padding));
    span
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend_from_slice(content);
    out
}

/// The ids of all spans in request bodies.
pub(crate) fn decode(bodies: &[Bytes]) -> Vec<u64> {
    bodies.iter().flat_map(|body| find(body)).collect()
}

/// Looks at fields, because a search of all bytes is slow in a build for debugging.
fn find(body: &[u8]) -> Vec<u64> {
    let mut ids = Vec::new();
    each(body, 1, &mut |resource_spans| {
        each(resource_spans, 2, &mut |scope_spans| {
            each(scope_spans, 2, &mut |span| each(span, 5, &mut |name| ids.push(id_of(name))));
        });
    });
    ids
}

/// The content of each field with this number.
fn each(message: &[u8], number: u32, visit: &mut dyn FnMut(&[u8])) {
    let mut fields = Cursor::new(message);
    while let Some(field) = fields.next_field().unwrap() {
        if field.number == number {
            visit(field.body().unwrap());
        }
    }
}

fn id_of(name: &[u8]) -> u64 {
    let digits = name.strip_prefix(MARK.as_bytes()).unwrap();
    std::str::from_utf8(digits).unwrap().parse().unwrap()
}

#[test]
fn what_is_encoded_is_valid_and_found_again() {
    let body = encode(&[1, 22, 333], 100);
    assert_eq!(weir_otlp::validate(weir_otlp::Signal::Traces, &body, &weir_otlp::Limits::default()).unwrap().items, 3);
    assert_eq!(decode(&[body]), [1, 22, 333]);
}
