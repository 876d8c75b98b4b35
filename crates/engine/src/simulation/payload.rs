//! Requests whose spans can be told apart.

use bytes::Bytes;

const MARK: &str = "span-";
const DIGITS: usize = 10;

/// A request with one span for each id, all of one resource and scope.
pub(crate) fn encode(ids: &[u64], padding: usize) -> Bytes {
    let spans: Vec<u8> = ids.iter().flat_map(|id| field(2, &span(*id, padding))).collect();
    let resource_spans = field(2, &spans);
    Bytes::from(field(1, &resource_spans))
}

fn span(id: u64, padding: usize) -> Vec<u8> {
    let mut span = field(1, &[1; 16]);
    span.extend(field(2, &id.max(1).to_be_bytes()));
    span.extend(field(5, format!("span-{id:010}").as_bytes()));
    // Field 3 is the trace state: any text.
    span.extend(field(3, &vec![b'x'; padding]));
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

fn find(body: &[u8]) -> Vec<u64> {
    // As text, because searching text is fast even in a build for debugging.
    let text = String::from_utf8_lossy(body);
    text.split(MARK).skip(1).map(|rest| rest[..DIGITS].parse().unwrap()).collect()
}

#[test]
fn what_is_encoded_is_valid_and_found_again() {
    let body = encode(&[1, 22, 333], 100);
    assert_eq!(weir_otlp::validate(weir_otlp::Signal::Traces, &body, &weir_otlp::Limits::default()).unwrap().items, 3);
    assert_eq!(decode(&[body]), [1, 22, 333]);
}
