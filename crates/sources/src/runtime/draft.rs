//! Metrics as they are encoded: resources with their metrics, in requests of a limited size.

use weir_engine::Added;
use weir_otlp::build::Encoder;
use weir_otlp::field::{gauge, metric, number_data_point, request, resource, resource_data, scope_data, sum};
use weir_plan::{RuntimeData, RuntimeMetric, RuntimeMetrics};

use crate::encoding::{CUMULATIVE, attribute, own_scope};

/// A request is complete once it has so many bytes.
pub(super) const REQUEST_BYTES: usize = 1 << 20;

/// A number of a data point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// Keys and values of attributes.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a str)];

/// Requests under construction.
#[derive(Debug)]
pub(super) struct Draft {
    wanted: RuntimeMetrics,
    /// The name of the scope.
    scope: &'static str,
    /// When the values were taken, in nanoseconds since the Unix epoch.
    time: u64,
    /// Bytes that may still be written.
    room: usize,
    complete: Vec<(Added, Vec<u8>)>,
    /// One for each kind of addition.
    open: [(Added, Encoder); 2],
}

/// The metrics of one resource.
#[derive(Debug)]
pub(super) struct Metrics<'d> {
    wanted: RuntimeMetrics,
    time: u64,
    /// When what is counted began; 0 if nobody knows.
    start: u64,
    out: &'d mut Encoder,
}

/// There are more metrics than there is room for, which was estimated so that there never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the metrics take more memory than was estimated: this is a bug in weir")]
pub(super) struct EstimateTooSmall;

impl Draft {
    /// With these metrics, of this moment. It has at most about `room` bytes.
    pub(super) fn new(scope: &'static str, wanted: RuntimeMetrics, time: u64, room: usize) -> Self {
        let open = [Added::All, Added::OfCluster].map(|added| (added, Encoder::default()));
        Self { wanted, scope, time, room, complete: Vec::new(), open }
    }

    /// Adds a resource. `start`: when what it counts began, in nanoseconds since the Unix epoch. One without any metric
    /// that is wanted is left out.
    pub(super) fn resource(
        &mut self,
        added: Added,
        attributes: Attributes<'_>,
        start: u64,
        fill: impl FnOnce(&mut Metrics<'_>),
    ) -> Result<(), EstimateTooSmall> {
        let mut metrics = Encoder::default();
        fill(&mut Metrics { wanted: self.wanted, time: self.time, start, out: &mut metrics });
        if metrics.is_empty() {
            return Ok(());
        }
        let scope = self.scope;
        let (_, out) = &mut self.open[usize::from(added == Added::OfCluster)];
        let before = out.len();
        let all = out.open(request::RESOURCES, metrics.len() + 512);
        let about = out.open(resource_data::RESOURCE, 255);
        pairs(out, resource::ATTRIBUTES, attributes);
        out.close(about);
        let scopes = out.open(resource_data::SCOPES, metrics.len() + 128);
        own_scope(out, scope);
        out.raw(metrics.written());
        out.close(scopes);
        out.close(all);
        self.room = self.room.checked_sub(out.len() - before).ok_or(EstimateTooSmall)?;
        if out.len() >= REQUEST_BYTES {
            self.complete.push((added, std::mem::take(out).into_bytes()));
        }
        Ok(())
    }

    /// The requests, and what is to be added to them.
    pub(super) fn finish(mut self) -> Vec<(Added, Vec<u8>)> {
        let open = self.open.into_iter().filter(|(_, out)| !out.is_empty());
        self.complete.extend(open.map(|(added, out)| (added, out.into_bytes())));
        self.complete
    }
}

impl Metrics<'_> {
    /// A whole number, if it is known and wanted.
    pub(super) fn int(&mut self, name: &str, value: Option<u64>) {
        self.signed(name, value.map(signed));
    }

    /// A whole number that may be negative.
    pub(super) fn signed(&mut self, name: &str, value: Option<i64>) {
        self.one(name, value.map(Number::Int));
    }

    /// A fraction, if it is known and wanted.
    pub(super) fn float(&mut self, name: &str, value: Option<f64>) {
        self.one(name, value.map(Number::Float));
    }

    fn one(&mut self, name: &str, value: Option<Number>) {
        if let Some(value) = value {
            self.points(name, [(value, &[][..])]);
        }
    }

    /// Numbers with attributes of their own.
    pub(super) fn ints<'a>(&mut self, name: &str, points: impl IntoIterator<Item = (i64, Attributes<'a>)>) {
        self.points(name, points.into_iter().map(|(value, attributes)| (Number::Int(value), attributes)));
    }

    fn points<'a>(&mut self, name: &str, points: impl IntoIterator<Item = (Number, Attributes<'a>)>) {
        debug_assert!(RuntimeMetrics::all().get(name).is_some(), "there is no metric {name}");
        if let Some(metric) = self.wanted.get(name) {
            self.write(metric, points);
        }
    }

    /// A metric with its points, whether it is wanted or not. Nothing is written without any point.
    pub(super) fn write<'a>(&mut self, of: &RuntimeMetric, points: impl IntoIterator<Item = (Number, Attributes<'a>)>) {
        let mut points = points.into_iter().peekable();
        if points.peek().is_none() {
            return;
        }
        let (time, start, out) = (self.time, self.start, &mut *self.out);
        let whole = out.open(scope_data::ITEMS, 255);
        out.bytes(metric::NAME, of.name.as_bytes());
        out.bytes(metric::DESCRIPTION, of.about.as_bytes());
        if !of.unit.is_empty() {
            out.bytes(metric::UNIT, of.unit.as_bytes());
        }
        let (data, number) = match of.data {
            RuntimeData::Gauge => (metric::GAUGE, gauge::DATA_POINTS),
            RuntimeData::Counter | RuntimeData::UpDown => (metric::SUM, sum::DATA_POINTS),
        };
        let data = out.open(data, 64);
        for (value, attributes) in points {
            let point = out.open(number, 64);
            if start > 0 && of.data == RuntimeData::Counter {
                out.fixed64(number_data_point::START_TIME_UNIX_NANO, start);
            }
            out.fixed64(number_data_point::TIME_UNIX_NANO, time);
            match value {
                Number::Int(value) => out.fixed64(number_data_point::AS_INT, value.cast_unsigned()),
                Number::Float(value) => out.fixed64(number_data_point::AS_DOUBLE, value.to_bits()),
            }
            pairs(out, number_data_point::ATTRIBUTES, attributes);
            out.close(point);
        }
        if of.data != RuntimeData::Gauge {
            out.varint(sum::AGGREGATION_TEMPORALITY, CUMULATIVE);
        }
        if of.data == RuntimeData::Counter {
            out.varint(sum::IS_MONOTONIC, 1);
        }
        out.close(data);
        out.close(whole);
    }
}

/// As a data point has it. What is larger than that is larger than anything that is measured.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn pairs(out: &mut Encoder, number: u32, pairs: Attributes<'_>) {
    pairs.iter().for_each(|(key, value)| attribute(out, number, key.as_bytes(), value.as_bytes()));
}
