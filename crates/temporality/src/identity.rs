//! Which points belong to one series.
//!
//! A series is known by a 128-bit hash (XXH3) of everything that sets it apart: resource attributes; schema, name,
//! version and attributes of the scope; name, unit and type of the metric; attributes, start time and type of number of
//! the point. Each attribute is hashed as its bytes, and the hashes are added up, so that the order of attributes does
//! not matter.
//!
//! The start time is part of it, as in the reference. It tells apart two processes that report the same metric without
//! an attribute of their own, and a process that restarts begins a new series.
//!
//! Two series are taken for one when their hashes are equal. Among a million series, more than a gateway's memory is
//! meant for, the odds of that are 1 in 10^27. XXH3 can be made to collide on purpose, but nothing is gained: whoever
//! may send metrics may send them under any name, that of somebody else's series included.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use twox_hash::XxHash3_128;
use weir_otlp::common::Message;
use weir_otlp::field::resource;
use weir_otlp::metrics::{Metric, ResourceMetrics, ScopeMetrics};

use crate::point::{Kind, Point};
use crate::value::Value;

/// Hash of what sets a series apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeriesId(pub(crate) u128);

/// Hash of a part of it: of what all series of a resource, a scope or a metric have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common(u128);

impl Common {
    pub(crate) fn of_resource(resource: ResourceMetrics<'_>) -> Self {
        Self(resource.resource().map_or(0, |resource| attribute_set(resource.0, resource::ATTRIBUTES)))
    }

    pub(crate) fn with_scope(self, scope: ScopeMetrics<'_>) -> Self {
        let common = self.with(scope.schema_url().as_bytes());
        let Some(scope) = scope.scope() else { return common };
        common
            .with(scope.name().as_bytes())
            .with(scope.version().as_bytes())
            .with(&attribute_set(scope.0, 3).to_le_bytes())
    }

    pub(crate) fn with_metric(self, kind: Kind, metric: Metric<'_>) -> Self {
        self.with(metric.name().as_bytes()).with(metric.unit().as_bytes()).with(&[kind.tag()])
    }

    pub(crate) fn series(self, point: &Point, value: &Value) -> SeriesId {
        let mut key = [0; 41];
        key[..16].copy_from_slice(&self.0.to_le_bytes());
        key[16..32].copy_from_slice(&point.attributes.to_le_bytes());
        key[32..40].copy_from_slice(&point.start.to_le_bytes());
        key[40] = u8::from(matches!(value, Value::Double(_)));
        SeriesId(XxHash3_128::oneshot(&key))
    }

    /// Each part is hashed by itself, so that no two lists of parts look the same.
    fn with(self, part: &[u8]) -> Self {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.0.to_le_bytes());
        key[16..].copy_from_slice(&XxHash3_128::oneshot(part).to_le_bytes());
        Self(XxHash3_128::oneshot(&key))
    }
}

/// Hash of the attributes in field `number` of a message, whatever their order.
fn attribute_set(message: Message<'_>, number: u32) -> u128 {
    let attributes = message.fields().filter(|field| field.number == number).filter_map(|field| field.body());
    attributes.fold(0, add_attribute)
}

/// Adds the bytes of a `KeyValue` to the hash of a set.
pub(crate) fn add_attribute(set: u128, attribute: &[u8]) -> u128 {
    set.wrapping_add(XxHash3_128::oneshot(attribute))
}

impl Hash for SeriesId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [low @ .., _, _, _, _, _, _, _, _] = self.0.to_le_bytes();
        state.write_u64(u64::from_le_bytes(low));
    }
}

/// Builds hashers for maps of series.
pub(crate) type BuildIdHasher = BuildHasherDefault<IdHasher>;

/// Takes a `SeriesId` as the hash that it is.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
