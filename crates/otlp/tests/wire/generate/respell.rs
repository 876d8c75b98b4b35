//! The same request in other bytes: everything that protobuf allows and encoders do not do.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use weir_otlp::Signal;
use weir_otlp::build::Encoder;
use weir_otlp::cursor::{Cursor, Fields, Value, WireType};

use crate::reflect;

/// Another spelling of a request, chosen by `seed`.
pub(super) fn request(signal: Signal, bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut respelling = Respelling { out: Encoder::default(), state: seed };
    respelling.message(&reflect::request(signal), bytes);
    respelling.out.into_bytes()
}

struct Respelling {
    out: Encoder,
    state: u64,
}

impl Respelling {
    /// A number below `bound` (Knuth's generator of 64 bits, of which the high ones are good).
    fn choose(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % bound
    }

    fn message(&mut self, message: &MessageDescriptor, body: &[u8]) {
        for field in Fields::new(body) {
            let definition = message.get_field(field.number).unwrap();
            self.before(&definition);
            match (definition.kind(), field.value) {
                (Kind::Message(inner), Value::Len(body)) => {
                    // Room for a length that is closed in fewer bytes.
                    let open = self.out.open(field.number, body.len() * 2);
                    self.message(&inner, body);
                    self.out.close(open);
                }
                (kind, Value::Len(numbers)) if definition.is_packed() => self.numbers(field.number, &kind, numbers),
                _ => self.out.raw(&body[field.start..field.end]),
            }
        }
        if self.choose(8) == 0 {
            self.out.raw(b"\xfa\x01\x03new");
        }
    }

    /// Something that the field after it makes void: an older value of it or of a rival in its oneof.
    fn before(&mut self, definition: &FieldDescriptor) {
        if definition.is_list() || self.choose(4) != 0 {
            return;
        }
        let rivals: Vec<_> = match definition.containing_oneof() {
            Some(oneof) => oneof.fields().collect(),
            None => vec![definition.clone()],
        };
        let count = u64::try_from(rivals.len()).unwrap();
        let rival = &rivals[usize::try_from(self.choose(count)).unwrap()];
        let value = self.choose(1 << 20);
        match rival.kind() {
            // Two messages would have to be merged, which is refused.
            Kind::Message(_) => {}
            Kind::String | Kind::Bytes => self.out.bytes(rival.number(), b"void"),
            Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => self.out.fixed64(rival.number(), value),
            Kind::Fixed32 | Kind::Sfixed32 | Kind::Float => self.out.fixed32(rival.number(), 7),
            _ => self.out.varint(rival.number(), value),
        }
    }

    /// Packed numbers, one field each or in packs of several, empty ones too.
    fn numbers(&mut self, number: u32, kind: &Kind, packed: &[u8]) {
        let wire = match kind {
            Kind::Fixed64 | Kind::Double => WireType::Fixed64,
            _ => WireType::Varint,
        };
        let mut cursor = Cursor::new(packed);
        let mut start = 0;
        while cursor.offset() < packed.len() {
            let first = start == cursor.offset();
            let value = cursor.value(wire).unwrap();
            match self.choose(4) {
                // The pack goes on.
                0 | 1 if cursor.offset() < packed.len() => {}
                2 if first => {
                    self.single(number, value);
                    start = cursor.offset();
                }
                _ => {
                    self.out.bytes(number, &packed[start..cursor.offset()]);
                    start = cursor.offset();
                }
            }
        }
        if self.choose(8) == 0 {
            self.out.bytes(number, b"");
        }
    }

    fn single(&mut self, number: u32, value: Value<'_>) {
        match value {
            Value::Varint(value) => self.out.varint(number, value),
            Value::Fixed64(bits) => self.out.fixed64(number, bits),
            other => unreachable!("{other:?} in a packed field"),
        }
    }
}
