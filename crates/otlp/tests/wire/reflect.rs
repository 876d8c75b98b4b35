//! The definitions of OTLP as protoc compiled them, and with them a second oracle: protobuf and JSON of any message,
//! by a library that knows no OTLP.

use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};
use serde_json::Value as Json;
use weir_otlp::Signal;
pub(crate) use weir_testkit::fields::request;

/// The same request as OTLP/JSON: proto3 JSON as `options` say, but for ids, which are hexadecimal.
pub(crate) fn to_json(signal: Signal, bytes: &[u8], options: &SerializeOptions) -> Json {
    let message = DynamicMessage::decode(request(signal), bytes).unwrap();
    let mut json = message.serialize_with_options(serde_json::value::Serializer, options).unwrap();
    rewrite_ids(&mut json, &|base64| hex(&decode_base64(base64)));
    json
}

/// Reads OTLP/JSON into protobuf; names that are not in the definitions are ignored.
pub(crate) fn from_json(signal: Signal, text: &[u8]) -> Vec<u8> {
    use prost::Message as _;

    let mut json: Json = serde_json::from_slice(text).unwrap();
    rewrite_ids(&mut json, &|hex| encode_base64(&decode_hex(hex)));
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    DynamicMessage::deserialize_with_options(request(signal), json, &options).unwrap().encode_to_vec()
}

/// Puts all trace and span ids in another form. A key of an attribute is a value in JSON, so nothing else has these
/// names.
fn rewrite_ids(json: &mut Json, rewrite: &impl Fn(&str) -> String) {
    const IDS: [&str; 6] = ["traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"];
    match json {
        Json::Array(elements) => elements.iter_mut().for_each(|element| rewrite_ids(element, rewrite)),
        Json::Object(members) => {
            for (name, value) in members {
                match value {
                    Json::String(id) if IDS.contains(&name.as_str()) => *id = rewrite(id),
                    value => rewrite_ids(value, rewrite),
                }
            }
        }
        _ => {}
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.decode(text).unwrap()
}

fn encode_base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

/// In either case, which readers must take.
fn hex(bytes: &[u8]) -> String {
    let digits =
        |(index, byte): (usize, &u8)| if index % 2 == 0 { format!("{byte:02x}") } else { format!("{byte:02X}") };
    bytes.iter().enumerate().map(digits).collect()
}

fn decode_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
