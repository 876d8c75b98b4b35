//! The payload: one export request encoded once, then stamped with ids and times for every request.
//!
//! Ids are consecutive in the order of the items. The scanner of the sink says where an item has its id.

mod points;
mod records;
mod shape;
mod spans;
mod writer;

use std::ops::Range;

pub use self::points::MetricType;
pub(crate) use self::shape::Pair;
pub use self::shape::{Items, Shape, ShapeArgs};
use self::writer::{Mark, Stamped, Writer};
use crate::{grpc, marked};

/// An encoded request and where its ids and times are.
#[derive(Debug)]
pub struct Template {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    items: u32,
    marked: Option<marked::Marked>,
}

/// What makes one request different from the next.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Id of the first item; the others follow.
    pub first_id: u64,
    /// Time of all items, nanoseconds since the epoch.
    pub unix_nanos: u64,
    /// First half of all trace ids; the second is the id of the root span, or of the log record.
    pub trace_seed: u64,
}

/// How long each span says it took.
const SPAN_NANOS: u64 = 123_000;

/// What every resource says about itself, beside its namespace.
const RESOURCE: [(&str, &str); 3] =
    [("service.name", "load-test"), ("service.version", "1.0.0"), ("deployment.environment.name", "benchmark")];

/// The namespace, unless several are asked for.
const NAMESPACE: &str = "load-test";

impl Template {
    /// Encodes a request of `items` items.
    pub fn new(shape: &Shape, items: u32) -> Self {
        let mut writer = Writer::default();
        match shape.items {
            Items::Spans { per_trace } => {
                writer.resource_items(shape, NAMESPACE, |scope| spans::write(scope, shape, per_trace, items));
            }
            Items::Points(kind) => {
                writer.resource_items(shape, NAMESPACE, |scope| points::write(scope, shape, kind, items));
            }
            Items::Records { body_bytes, namespaces } => {
                for (namespace, part) in parts(namespaces, items) {
                    writer.resource_items(shape, &namespace, |scope| records::write(scope, shape, body_bytes, part));
                }
            }
        }
        Self { bytes: writer.bytes, marks: writer.marks, items, marked: shape.marked }
    }

    /// The same request with a gRPC prefix in front.
    ///
    /// # Errors
    /// The request is over 4 GiB.
    pub fn with_grpc_prefix(mut self) -> anyhow::Result<Self> {
        let prefix = grpc::prefix(self.bytes.len(), false)?;
        self.bytes.splice(0..0, prefix);
        for mark in &mut self.marks {
            mark.at += grpc::PREFIX_BYTES;
        }
        Ok(self)
    }

    /// The encoded request, ids and times not yet stamped.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of items.
    pub fn items(&self) -> u64 {
        self.items.into()
    }

    /// Writes ids and times into `request`, a copy of [`Self::bytes`].
    pub fn stamp(&self, request: &mut [u8], stamp: Stamp) {
        let end = stamp.unix_nanos.saturating_add(SPAN_NANOS);
        for mark in &self.marks {
            let id = stamp.first_id + u64::from(mark.item);
            match mark.what {
                Stamped::TraceSeed => put(request, mark.at, &stamp.trace_seed.to_be_bytes()),
                Stamped::SpanId => put(request, mark.at, &id.to_be_bytes()),
                Stamped::StartTime => put(request, mark.at, &id.to_le_bytes()),
                Stamped::Time => put(request, mark.at, &stamp.unix_nanos.to_le_bytes()),
                Stamped::EndTime => put(request, mark.at, &end.to_le_bytes()),
                Stamped::Drop => put(request, mark.at, &[self.drop_or_keep(id)]),
            }
        }
    }

    fn drop_or_keep(&self, id: u64) -> u8 {
        if self.marked.is_some_and(|marked| marked.drops(id)) { marked::DROP } else { marked::KEEP }
    }
}

/// The namespaces of a request, and which of its items are of each: all have as many, or one more. A request of fewer
/// items than that is of fewer namespaces.
fn parts(namespaces: Option<u32>, items: u32) -> Vec<(String, Range<u32>)> {
    let Some(count) = namespaces else { return vec![(NAMESPACE.to_owned(), 0..items)] };
    let start = |number: u32| (items * number).div_ceil(count);
    let all = (0..count).map(|number| (format!("shop-{number}"), start(number)..start(number + 1)));
    all.filter(|(_, part)| !part.is_empty()).collect()
}

fn put(request: &mut [u8], at: usize, value: &[u8]) {
    request[at..at + value.len()].copy_from_slice(value);
}

impl Writer {
    /// A resource with one scope, whose items `fill` writes.
    fn resource_items(&mut self, shape: &Shape, namespace: &str, fill: impl FnOnce(&mut Self)) {
        self.message(1, |resource_items| {
            resource_items.message(1, |resource| {
                let more = shape.resource_attributes.iter().map(|Pair { key, value }| (key.as_str(), value.as_str()));
                for (key, value) in RESOURCE.into_iter().chain([("k8s.namespace.name", namespace)]).chain(more) {
                    resource.attribute(1, key, value);
                }
            });
            resource_items.message(2, |scope_items| {
                scope_items.message(1, |scope| scope.text(1, "weir-load"));
                fill(scope_items);
            });
        });
    }
}

impl Shape {
    /// Writes `count` attributes of an item into field `field`, and the mark when items have one.
    fn write_attributes(&self, item: &mut Writer, field: u32, count: u32, position: u32) {
        if self.marked.is_some() {
            item.stamped_attribute(field, marked::KEY, Stamped::Drop, position);
        }
        for number in 0..count {
            item.attribute(field, &format!("key{number}"), &value_text(number, self.attribute_bytes));
        }
    }
}

/// Text of exactly `length` bytes that reads like a value and differs between attributes.
fn value_text(number: u32, length: u32) -> String {
    let text = format!("value {number} of a client that sends telemetry for a load test, ");
    text.chars().cycle().take(length as usize).collect()
}

#[cfg(test)]
mod tests;
