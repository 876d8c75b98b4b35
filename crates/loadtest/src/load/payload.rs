//! The payload: one export request encoded once, then stamped with ids and times for every request.
//!
//! A request holds whole traces of one root span without attributes and its children with attributes; the last trace of
//! a request is shorter when the batch is no multiple of the trace. Span ids are consecutive big-endian numbers.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::grpc;

/// What the spans of a request look like.
#[derive(Args, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[command(next_help_heading = "Payload")]
pub struct Shape {
    /// Spans per request
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch: u32,
    /// Attributes per span, except on root spans
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub attributes: u32,
    /// Length of each attribute value
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub attribute_bytes: u32,
    /// Spans per trace: one root and its children
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub spans_per_trace: u32,
}

/// An encoded request and where its ids and times are.
#[derive(Debug)]
pub struct Template {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

/// Offsets of what is stamped in one span.
#[derive(Debug)]
struct Slot {
    trace_id: usize,
    span_id: usize,
    /// Where the parent's id goes; a root has none.
    parent_id: Option<usize>,
    start: usize,
    end: usize,
    /// Position in the request of the root of its trace.
    root: u32,
}

/// What makes one request different from the next.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Id of the first span; the others follow.
    pub first_id: u64,
    /// Start time of all spans, nanoseconds since the epoch.
    pub start_unix_nanos: u64,
    /// First half of all trace ids; the second is the id of the root span.
    pub trace_seed: u64,
}

/// How long each span says it took.
const SPAN_NANOS: u64 = 123_000;

impl Template {
    /// Encodes a request of `spans` spans.
    pub fn new(shape: &Shape, spans: u32) -> Self {
        let mut writer = Writer::default();
        let resource = writer.message(|w| {
            for (key, value) in [
                ("service.name", "load-test"),
                ("service.version", "1.0.0"),
                ("deployment.environment.name", "benchmark"),
                ("k8s.namespace.name", "load-test"),
            ] {
                w.attribute(1, key, value);
            }
        });
        let scope = writer.message(|w| w.text(1, "weir-load"));
        let spans: Vec<Encoded> = (0..spans).map(|index| encode_span(shape, index)).collect();
        let spans_length: usize = spans.iter().map(|span| field_length(2, span.bytes.len())).sum();
        let scope_spans_length = field_length(1, scope.len()) + spans_length;
        let resource_spans_length = field_length(1, resource.len()) + field_length(2, scope_spans_length);

        writer.header(1, resource_spans_length);
        writer.bytes_field(1, &resource);
        writer.header(2, scope_spans_length);
        writer.bytes_field(1, &scope);
        let mut slots = Vec::with_capacity(spans.len());
        for span in spans {
            writer.header(2, span.bytes.len());
            slots.push(span.slot.moved_by(writer.bytes.len()));
            writer.bytes.extend_from_slice(&span.bytes);
        }
        Self { bytes: writer.bytes, slots }
    }

    /// The same request with a gRPC prefix in front.
    ///
    /// # Errors
    /// The request is over 4 GiB.
    pub fn with_grpc_prefix(self) -> anyhow::Result<Self> {
        let mut bytes = grpc::prefix(self.bytes.len(), false)?.to_vec();
        bytes.extend_from_slice(&self.bytes);
        let slots = self.slots.into_iter().map(|slot| slot.moved_by(grpc::PREFIX_BYTES)).collect();
        Ok(Self { bytes, slots })
    }

    /// The encoded request, ids and times not yet stamped.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of spans.
    pub fn spans(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Writes ids and times into `request`, a copy of [`Self::bytes`].
    pub fn stamp(&self, request: &mut [u8], stamp: Stamp) {
        let start = stamp.start_unix_nanos.to_le_bytes();
        let end = stamp.start_unix_nanos.saturating_add(SPAN_NANOS).to_le_bytes();
        let seed = stamp.trace_seed.to_be_bytes();
        for (slot, id) in self.slots.iter().zip(stamp.first_id..) {
            let root = (stamp.first_id + u64::from(slot.root)).to_be_bytes();
            put(request, slot.trace_id, seed);
            put(request, slot.trace_id + 8, root);
            put(request, slot.span_id, id.to_be_bytes());
            if let Some(parent_id) = slot.parent_id {
                put(request, parent_id, root);
            }
            put(request, slot.start, start);
            put(request, slot.end, end);
        }
    }
}

fn put(request: &mut [u8], at: usize, value: [u8; 8]) {
    request[at..at + 8].copy_from_slice(&value);
}

impl Slot {
    fn moved_by(mut self, offset: usize) -> Self {
        for position in [&mut self.trace_id, &mut self.span_id, &mut self.start, &mut self.end] {
            *position += offset;
        }
        self.parent_id = self.parent_id.map(|position| position + offset);
        self
    }
}

struct Encoded {
    bytes: Vec<u8>,
    slot: Slot,
}

const KIND_INTERNAL: u8 = 1;
const KIND_SERVER: u8 = 2;

fn encode_span(shape: &Shape, index: u32) -> Encoded {
    let position = index % shape.spans_per_trace;
    let is_root = position == 0;
    let mut writer = Writer::default();
    let trace_id = writer.placeholder(1, 16);
    let span_id = writer.placeholder(2, 8);
    let parent_id = (!is_root).then(|| writer.placeholder(4, 8));
    if is_root {
        writer.text(5, "GET /orders");
    } else {
        writer.text(5, &format!("step-{position}"));
    }
    writer.varint_field(6, if is_root { KIND_SERVER } else { KIND_INTERNAL });
    let start = writer.fixed64_placeholder(7);
    let end = writer.fixed64_placeholder(8);
    if !is_root {
        for number in 0..shape.attributes {
            writer.attribute(9, &format!("key{number}"), &value_text(number, shape.attribute_bytes));
        }
    }
    let slot = Slot { trace_id, span_id, parent_id, start, end, root: index - position };
    Encoded { bytes: writer.bytes, slot }
}

/// Text of exactly `length` bytes that reads like a value and differs between attributes.
fn value_text(number: u32, length: u32) -> String {
    let text = format!("value {number} of a client that generates traces for a load test, ");
    text.chars().cycle().take(length as usize).collect()
}

/// Appends protobuf fields.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Encodes a message of its own with `fill`.
    fn message(&self, fill: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut inner = Self::default();
        fill(&mut inner);
        inner.bytes
    }

    /// Tag and length of a length-delimited field.
    fn header(&mut self, field: u32, length: usize) {
        prost::encoding::encode_key(field, prost::encoding::WireType::LengthDelimited, &mut self.bytes);
        prost::encoding::encode_varint(length as u64, &mut self.bytes);
    }

    fn bytes_field(&mut self, field: u32, value: &[u8]) {
        self.header(field, value.len());
        self.bytes.extend_from_slice(value);
    }

    fn text(&mut self, field: u32, value: &str) {
        self.bytes_field(field, value.as_bytes());
    }

    fn varint_field(&mut self, field: u32, value: u8) {
        prost::encoding::encode_key(field, prost::encoding::WireType::Varint, &mut self.bytes);
        prost::encoding::encode_varint(value.into(), &mut self.bytes);
    }

    /// A `KeyValue` with a string.
    fn attribute(&mut self, field: u32, key: &str, value: &str) {
        let any = self.message(|w| w.text(1, value));
        let pair = self.message(|w| {
            w.text(1, key);
            w.bytes_field(2, &any);
        });
        self.bytes_field(field, &pair);
    }

    /// A field of `length` zero bytes; returns where they are.
    fn placeholder(&mut self, field: u32, length: usize) -> usize {
        self.header(field, length);
        let at = self.bytes.len();
        self.bytes.resize(at + length, 0);
        at
    }

    fn fixed64_placeholder(&mut self, field: u32) -> usize {
        prost::encoding::encode_key(field, prost::encoding::WireType::SixtyFourBit, &mut self.bytes);
        let at = self.bytes.len();
        self.bytes.resize(at + 8, 0);
        at
    }
}

/// Length of a length-delimited field with a value of `length` bytes.
fn field_length(field: u32, length: usize) -> usize {
    prost::encoding::key_len(field) + prost::encoding::encoded_len_varint(length as u64) + length
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use prost::Message;

    use super::*;

    const SHAPE: Shape = Shape { batch: 25, attributes: 40, attribute_bytes: 64, spans_per_trace: 11 };
    const STAMP: Stamp = Stamp { first_id: 1000, start_unix_nanos: 1_700_000_000_000_000_000, trace_seed: 99 };

    fn stamped(template: &Template, stamp: Stamp) -> Vec<u8> {
        let mut bytes = template.bytes().to_vec();
        template.stamp(&mut bytes, stamp);
        bytes
    }

    #[test]
    fn prost_reads_exactly_the_described_shape() {
        let template = Template::new(&SHAPE, SHAPE.batch);
        let bytes = stamped(&template, STAMP);
        let request = ExportTraceServiceRequest::decode(bytes.as_slice()).unwrap();
        assert_eq!(request.encode_to_vec(), bytes, "canonical encoding");
        let resource = &request.resource_spans[0];
        assert_eq!(resource.resource.as_ref().unwrap().attributes[0].key, "service.name");
        let spans = &resource.scope_spans[0].spans;
        assert_eq!(spans.len(), 25);
        for (index, (span, id)) in spans.iter().zip(1000_u64..).enumerate() {
            let root_id = 1000 + (index as u64 / 11) * 11;
            let is_root = index % 11 == 0;
            assert_eq!(span.span_id, id.to_be_bytes());
            assert_eq!(span.trace_id, [99_u64.to_be_bytes(), root_id.to_be_bytes()].concat());
            assert_eq!(span.parent_span_id, if is_root { vec![] } else { root_id.to_be_bytes().to_vec() });
            assert_eq!(span.start_time_unix_nano, STAMP.start_unix_nanos);
            assert_eq!(span.end_time_unix_nano, STAMP.start_unix_nanos + SPAN_NANOS);
            assert_eq!(span.attributes.len(), if is_root { 0 } else { 40 });
            for (number, attribute) in span.attributes.iter().enumerate() {
                assert_eq!(attribute.key, format!("key{number}"));
                let Some(Value::StringValue(text)) = &attribute.value.as_ref().unwrap().value else {
                    panic!("no text")
                };
                assert_eq!(text.len(), 64);
            }
        }
    }

    #[test]
    fn a_child_span_has_the_size_of_the_published_test() {
        let template = Template::new(&SHAPE, 512);
        let per_span = template.bytes().len() / 512;
        assert!((2800..3300).contains(&per_span), "{per_span} bytes per span");
    }

    #[test]
    fn stamping_again_leaves_nothing_of_the_first_stamp() {
        let template = Template::new(&SHAPE, 25).with_grpc_prefix().unwrap();
        let fresh = stamped(&template, STAMP);
        let mut reused = stamped(&template, Stamp { first_id: 7, start_unix_nanos: u64::MAX, trace_seed: u64::MAX });
        template.stamp(&mut reused, STAMP);
        assert_eq!(reused, fresh);
        assert_eq!(fresh[..5], grpc::prefix(fresh.len() - 5, false).unwrap());
    }

    #[test]
    fn shapes_at_the_edges_encode() {
        for (attributes, attribute_bytes, spans_per_trace, spans) in [(0, 0, 1, 1), (1, 0, 2, 3), (3, 300, 10_000, 5)] {
            let shape = Shape { batch: spans, attributes, attribute_bytes, spans_per_trace };
            let bytes = stamped(&Template::new(&shape, spans), STAMP);
            let request = ExportTraceServiceRequest::decode(bytes.as_slice()).unwrap();
            assert_eq!(request.resource_spans[0].scope_spans[0].spans.len(), spans as usize);
        }
    }
}
