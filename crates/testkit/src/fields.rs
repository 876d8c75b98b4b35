//! Every field of the OTLP requests, from the compiled definitions, and requests in which one of them has a wrong type.

use std::ops::Range;
use std::sync::LazyLock;

use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use weir_otlp::Signal;

static OTLP: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(opentelemetry_proto::DESCRIPTORS).expect("the definitions are compiled by protoc")
});

/// The export request of a signal.
pub fn request(signal: Signal) -> MessageDescriptor {
    let name = match signal {
        Signal::Traces => "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest",
        Signal::Metrics => "opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest",
        Signal::Logs => "opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest",
    };
    OTLP.get_message_by_name(name).expect("the definitions have every signal")
}

/// A field, by the way to it from the request.
#[derive(Debug, Clone)]
pub struct Field {
    outer: Vec<FieldDescriptor>,
    field: FieldDescriptor,
}

/// A JSON request with one field in it, and where that stands.
#[derive(Debug, Clone)]
pub struct Document {
    /// The request.
    pub text: String,
    /// The path that an error in the value has, for example `resourceSpans[1].scopeSpans[1].spans[1].kind`.
    pub path: String,
    /// Bytes of `text` that are the value.
    pub value: Range<usize>,
}

impl Field {
    /// Every field of the requests of a signal. Values inside values are followed once.
    pub fn every(signal: Signal) -> Vec<Self> {
        let mut fields = Vec::new();
        follow(&request(signal), &[], &mut fields);
        fields
    }

    /// What the definitions say of it.
    pub fn descriptor(&self) -> &FieldDescriptor {
        &self.field
    }

    /// The request with this value for the field and nothing else in it. Messages in lists stand behind an empty one.
    pub fn json(&self, value: &str) -> Document {
        let (mut text, mut path, mut end) = (String::new(), String::new(), String::new());
        for field in &self.outer {
            let (open, close, index) = if field.is_list() { ("[{},", "]}", "[1]") } else { ("", "}", "") };
            text.push_str(&format!(r#"{{"{}":{open}"#, field.json_name()));
            path.push_str(&format!("{}{index}.", field.json_name()));
            end.insert_str(0, close);
        }
        text.push_str(&format!(r#"{{"{}":"#, self.field.json_name()));
        path.push_str(self.field.json_name());
        let start = text.len();
        text.push_str(value);
        let value = start..text.len();
        text.push('}');
        text.push_str(&end);
        Document { text, path, value }
    }

    /// One request for each value that the field does not take.
    pub fn wrong_json(&self) -> Vec<Document> {
        let elements = self.wrong_values().iter().copied();
        if !self.field.is_list() {
            return elements.map(|value| self.json(value)).collect();
        }
        let one = elements.chain(["null"]).map(|value| {
            let document = self.json(&format!("[{value}]"));
            Document { path: format!("{}[0]", document.path), ..document }
        });
        let instead = ["true", "1", "\"x\"", "{}"].map(|value| self.json(value));
        one.chain(instead).collect()
    }

    /// What the field does not take; for a list, what one element does not take.
    fn wrong_values(&self) -> &'static [&'static str] {
        match self.field.kind() {
            Kind::Bool => &["0", "1", "\"true\"", "\"\"", "[]", "{}"],
            Kind::Int32 | Kind::Sint32 => {
                &["true", "\"x\"", "\"\"", "1.5", "2147483648", "\"-2147483649\"", "[]", "{}"]
            }
            Kind::Uint32 | Kind::Fixed32 => &["true", "\"x\"", "\"\"", "1.5", "-1", "4294967296", "[]", "{}"],
            Kind::Int64 | Kind::Sfixed64 => {
                &["true", "\"x\"", "\"NaN\"", "0.1", "9223372036854775808", "1e30", "[]", "{}"]
            }
            Kind::Uint64 | Kind::Fixed64 => {
                &["true", "\"x\"", "\"NaN\"", "0.1", "-1", "18446744073709551616", "[]", "{}"]
            }
            Kind::Double => &["true", "\"x\"", "\"inf\"", "\"nan\"", "\"\"", "[]", "{}"],
            Kind::String => &["true", "1", "1.5", "[]", "{}"],
            Kind::Bytes if self.is_id() => &["true", "1", "\"0\"", "\"0x\"", "[]", "{}"],
            Kind::Bytes => &["true", "1", "\"*\"", "\"A\"", "[1]", "{}"],
            Kind::Message(_) => &["true", "1", "\"x\"", "[]"],
            Kind::Enum(_) => &["true", "\"NO_SUCH_NAME\"", "\"\"", "1.5", "2147483648", "[]", "{}"],
            other => unreachable!("OTLP has no field of type {other:?}"),
        }
    }

    /// Whether it is hexadecimal in JSON.
    pub fn is_id(&self) -> bool {
        self.field.name().ends_with("trace_id") || self.field.name().ends_with("span_id")
    }

    /// The path that an error in the field has in protobuf, for example `resource_spans.scope_spans.spans.kind`.
    pub fn protobuf_path(&self) -> String {
        let names: Vec<_> = self.outer.iter().chain([&self.field]).map(FieldDescriptor::name).collect();
        names.join(".")
    }

    /// The request with the field in each wire type that it does not have.
    pub fn wrong_protobuf(&self) -> Vec<Vec<u8>> {
        let own = wire_type(&self.field.kind());
        let may_be_packed = self.field.is_list() && own != WireType::LengthDelimited;
        let values: [(WireType, &[u8]); 4] = [
            (WireType::Varint, &[1]),
            (WireType::SixtyFourBit, &[0; 8]),
            (WireType::LengthDelimited, &[0]),
            (WireType::ThirtyTwoBit, &[0; 4]),
        ];
        let right = |wire: WireType| wire == own || (may_be_packed && wire == WireType::LengthDelimited);
        values.into_iter().filter(|(wire, _)| !right(*wire)).map(|(wire, value)| self.protobuf(wire, value)).collect()
    }

    fn protobuf(&self, wire: WireType, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_key(self.field.number(), wire, &mut bytes);
        bytes.extend_from_slice(value);
        for field in self.outer.iter().rev() {
            let mut around = Vec::new();
            encode_key(field.number(), WireType::LengthDelimited, &mut around);
            encode_varint(bytes.len() as u64, &mut around);
            around.extend_from_slice(&bytes);
            bytes = around;
        }
        bytes
    }
}

fn follow(message: &MessageDescriptor, outer: &[FieldDescriptor], found: &mut Vec<Field>) {
    if outer.iter().any(|field| field.parent_message() == message) {
        return;
    }
    for field in message.fields() {
        found.push(Field { outer: outer.to_vec(), field: field.clone() });
        if let Kind::Message(inner) = field.kind() {
            follow(&inner, &[outer, &[field]].concat(), found);
        }
    }
}

fn wire_type(kind: &Kind) -> WireType {
    match kind {
        Kind::Bool
        | Kind::Int32
        | Kind::Int64
        | Kind::Uint32
        | Kind::Uint64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Enum(_) => WireType::Varint,
        Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => WireType::SixtyFourBit,
        Kind::Fixed32 | Kind::Sfixed32 | Kind::Float => WireType::ThirtyTwoBit,
        Kind::String | Kind::Bytes | Kind::Message(_) => WireType::LengthDelimited,
    }
}
