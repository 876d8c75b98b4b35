//! What is not converted, and what else is in a request.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, Gauge, Histogram, NumberDataPoint, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar,
};
use proptest::prelude::*;
use prost::Message as _;
use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::splice::{Edit, splice};
use weir_otlp::{Limits, Signal, metrics::resource_metrics, validate};
use weir_temporality::{Counts, Dropped, Passed};

use crate::model::{CUMULATIVE, attribute, converted_to, converter, int, metric, metrics, one, request, sum};

fn with_temporality(temporality: i32, is_monotonic: bool) -> Data {
    Data::Sum(Sum { data_points: vec![int(101, 110, 7)], aggregation_temporality: temporality, is_monotonic })
}

#[test]
fn what_has_nothing_to_convert_stays_the_same_bytes() {
    let gauge = Data::Gauge(Gauge { data_points: vec![int(0, 110, 7), int(0, 120, 7)] });
    let summary = Data::Summary(Summary { data_points: vec![SummaryDataPoint::default()] });
    let delta = Histogram { data_points: vec![Default::default()], aggregation_temporality: 1 };
    let empty = Histogram { data_points: vec![], aggregation_temporality: CUMULATIVE };
    let bytes = request(vec![
        metric("gauge", gauge),
        metric("summary", summary),
        metric("delta sum", with_temporality(1, true)),
        metric("delta histogram", Data::Histogram(delta)),
        metric("unspecified", with_temporality(0, true)),
        metric("up and down", with_temporality(CUMULATIVE, false)),
        metric("empty", Data::Histogram(empty)),
        metric("empty", sum(vec![])),
    ])
    .encode_to_vec();
    let mut converter = converter();
    let converted = converter.convert(&bytes, 110).unwrap();
    assert!(matches!(converted.request, std::borrow::Cow::Borrowed(same) if std::ptr::eq(same, &bytes[..])));
    let passed = Passed { gauge: 2, summary: 1, delta: 2, unspecified: 1, non_monotonic: 1, not_finite: 0 };
    assert_eq!(converted.counts, Counts { passed, ..Counts::default() });
    assert_eq!(converter.series(), 0);
}

#[test]
fn one_point_of_many_is_dropped() {
    let old = NumberDataPoint { attributes: vec![attribute("method", "GET")], ..int(50, 110, 1) };
    let new = NumberDataPoint { attributes: vec![attribute("method", "PUT")], ..int(101, 110, 2) };
    let bytes = request(vec![metric("requests", sum(vec![old, new.clone()]))]).encode_to_vec();
    let mut converter = converter();
    let converted = converter.convert(&bytes, 110).unwrap();
    let expected = Data::Sum(Sum { data_points: vec![new], aggregation_temporality: 1, is_monotonic: true });
    assert_eq!(metrics(&converted.request), [metric("requests", expected)]);
    let dropped = Dropped { first: 1, ..Dropped::default() };
    assert_eq!(converted.counts, Counts { converted: 1, dropped, ..Counts::default() });
}

#[test]
fn metrics_scopes_and_resources_of_which_nothing_is_left_go_away() {
    let old = |name| metric(name, sum(vec![int(50, 110, 1)]));
    let mut whole = request(vec![old("a"), metric("gauge", Data::Gauge(Gauge { data_points: vec![int(0, 110, 7)] }))]);
    whole.resource_metrics[0]
        .scope_metrics
        .push(ScopeMetrics { metrics: vec![old("b"), old("c")], ..Default::default() });
    whole.resource_metrics[0].scope_metrics.push(ScopeMetrics::default());
    whole.resource_metrics.extend(request(vec![old("d")]).resource_metrics);
    let bytes = whole.encode_to_vec();
    let mut expected = whole;
    expected.resource_metrics.pop();
    expected.resource_metrics[0].scope_metrics[0].metrics.remove(0);
    expected.resource_metrics[0].scope_metrics.remove(1);
    let mut converter = converter();
    assert_eq!(*converter.convert(&bytes, 110).unwrap().request, expected.encode_to_vec());
    assert!(converter.convert(&one(int(50, 110, 1)), 110).unwrap().request.is_empty());
}

#[test]
fn attributes_exemplars_and_flags_stay() {
    let exemplar = Exemplar { time_unix_nano: 109, value: Some(exemplar::Value::AsInt(3)), ..Exemplar::default() };
    let mut point = NumberDataPoint {
        attributes: vec![attribute("method", "GET"), attribute("code", "200")],
        exemplars: vec![exemplar],
        flags: 0x100,
        ..int(50, 120, 9)
    };
    let mut converter = converter();
    converter.convert(&one(NumberDataPoint { time_unix_nano: 110, ..point.clone() }), 110).unwrap();
    let bytes = one(NumberDataPoint { value: int(0, 0, 12).value, ..point.clone() });
    let converted = converter.convert(&bytes, 120).unwrap();
    point.start_time_unix_nano = 110;
    point.value = int(0, 0, 3).value;
    let expected = Data::Sum(Sum { data_points: vec![point], aggregation_temporality: 1, is_monotonic: true });
    assert_eq!(metrics(&converted.request), [metric("requests", expected)]);
}

/// Every part of what sets a series apart does.
#[test]
fn series_are_told_apart() {
    let base = request(vec![metric("requests", sum(vec![int(101, 110, 7)]))]);
    let changes: &[fn(&mut opentelemetry_proto::tonic::metrics::v1::ResourceMetrics)] = &[
        |_| {},
        |resource| resource.resource = None,
        |resource| resource.scope_metrics[0].scope = None,
        |resource| resource.scope_metrics[0].schema_url = "https://opentelemetry.io/schemas/1.38.0".into(),
        |resource| resource.scope_metrics[0].scope.as_mut().unwrap().name = "other".into(),
        |resource| resource.scope_metrics[0].scope.as_mut().unwrap().version = "2".into(),
        |resource| resource.scope_metrics[0].scope.as_mut().unwrap().attributes = vec![attribute("a", "b")],
        |resource| resource.scope_metrics[0].metrics[0].name = "other".into(),
        |resource| resource.scope_metrics[0].metrics[0].unit = "s".into(),
    ];
    let mut converter = converter();
    for (index, change) in changes.iter().enumerate() {
        let mut request = base.clone();
        change(&mut request.resource_metrics[0]);
        assert_eq!(converted_to(&mut converter, &request.encode_to_vec(), 110), "101..110 +7", "change {index}");
    }
    assert_eq!(converter.series(), changes.len());
    let mut described = base;
    described.resource_metrics[0].scope_metrics[0].metrics[0].description = "does not count".into();
    assert_eq!(converted_to(&mut converter, &described.encode_to_vec(), 110), "duplicate");
}

proptest! {
    #[test]
    fn the_order_of_attributes_does_not_matter(
        (attributes, shuffled) in prop::collection::btree_map("[a-c]{0,3}", "[a-c]{0,3}", 0..6)
            .prop_map(|map| map.iter().map(|(key, value)| attribute(key, value)).collect::<Vec<_>>())
            .prop_flat_map(|attributes| (Just(attributes.clone()), Just(attributes).prop_shuffle())),
    ) {
        let with = |time, attributes: &[KeyValue]| {
            let mut request = request(vec![metric("requests", sum(vec![NumberDataPoint {
                attributes: attributes.to_vec(), ..int(101, time, 7)
            }]))]);
            request.resource_metrics[0].resource.as_mut().unwrap().attributes = attributes.to_vec();
            request.encode_to_vec()
        };
        let mut converter = converter();
        converter.convert(&with(110, &attributes), 110).unwrap();
        prop_assert_eq!(converted_to(&mut converter, &with(120, &shuffled), 120), "110..120 +0");
        if let Some((_, rest)) = attributes.split_first() {
            prop_assert_eq!(converted_to(&mut converter, &with(130, rest), 130), "101..130 +7");
        }
    }

    /// Whatever the bytes, there is no panic, and of what is valid every point is counted (DELTA-4).
    #[test]
    fn bytes_of_any_kind(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            Just(one(int(101, 110, 7))),
            Just(crate::model::histogram(Default::default())),
            Just(crate::model::exponential(Default::default())),
        ],
    ) {
        let mut bytes = bytes;
        for (index, byte) in damage {
            if !bytes.is_empty() {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
        }
        let mut converter = converter();
        let converted = converter.convert(&bytes, 110);
        if let Ok(counts) = validate(Signal::Metrics, &bytes, &Limits::default()) {
            let converted = converted.unwrap();
            let left = converted.counts.converted + converted.counts.passed.total();
            prop_assert_eq!(u64::from(counts.items), left + converted.counts.dropped.total());
            let counts = validate(Signal::Metrics, &converted.request, &Limits::default()).unwrap();
            prop_assert_eq!(u64::from(counts.items), left);
        }
    }
}

/// Fields of numbers that OTLP does not have yet, in every message around a point and in the point.
#[test]
fn unknown_fields_survive() {
    let bytes = one(int(101, 110, 7));
    let mut unknown = Encoder::default();
    unknown.bytes(4000, b"from a later version");
    let unknown = unknown.into_bytes();
    let resource = resource_metrics(&bytes).next().unwrap();
    let scope = resource.scope_metrics().next().unwrap();
    let metric = scope.metrics().next().unwrap();
    let data = metric.data().unwrap();
    let point = data.data_points().next().unwrap();
    let messages = [Message::request(&bytes), resource.0, scope.0, metric.0, data.message(), point];
    let edits = messages.iter().map(|message| Edit::append(*message, &unknown[..])).collect();
    let bytes = splice(Signal::Metrics, &bytes, edits).unwrap();
    let mut converter = converter();
    let converted = converter.convert(&bytes, 110).unwrap();
    let found = converted.request.windows(unknown.len()).filter(|window| *window == unknown).count();
    assert_eq!((converted.counts.converted, found), (1, messages.len()));
}
