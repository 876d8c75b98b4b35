mod messages;
mod properties;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{ScopeMetrics, number_data_point};
use prost::Message as _;

use super::super::page;
use super::super::relabel::{Action, Relabeling, Rule};
use super::super::request::request;
use super::native::Side;
use super::*;
use messages as m;

const T: u64 = 1_000_000_000;

fn rules(format: page::Format) -> PageRules {
    PageRules { sample_limit: 1000, ..PageRules::of(format) }
}

fn page_of(families: &[m::MetricFamily]) -> Vec<u8> {
    families.iter().flat_map(m::MetricFamily::encode_length_delimited_to_vec).collect()
}

/// What comes of a page, a line for each point.
fn take(last_page: &mut page::LastPage, page: &[u8], time: u64) -> Result<(Taken, Vec<String>), PageError> {
    let mut out = Vec::new();
    let taken = last_page.take(page, &rules(page::Format::Protobuf), time, &mut out)?;
    Ok((taken, view(&out)))
}

/// What comes of one page.
fn points(families: &[m::MetricFamily]) -> Vec<String> {
    take(&mut page::LastPage::default(), &page_of(families), 9 * T).unwrap().1
}

/// Why a page is refused.
fn refused(families: &[m::MetricFamily]) -> String {
    take(&mut page::LastPage::default(), &page_of(families), 9 * T).unwrap_err().to_string()
}

fn scope(bytes: &[u8]) -> ScopeMetrics {
    ScopeMetrics::decode(bytes).unwrap()
}

fn view(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in scope(bytes).metrics {
        let name = &metric.name;
        match metric.data.unwrap() {
            Data::Gauge(gauge) => lines.extend(gauge.data_points.iter().map(|point| number("gauge", name, point))),
            Data::Sum(sum) => {
                assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (2, true));
                lines.extend(sum.data_points.iter().map(|point| number("counter", name, point)));
            }
            Data::Summary(summary) => lines.extend(summary.data_points.iter().map(|point| {
                let values: Vec<_> = point.quantile_values.iter().map(|value| (value.quantile, value.value)).collect();
                let what = format!("count {} sum {} {values:?}", point.count, point.sum);
                let times = (point.start_time_unix_nano, point.time_unix_nano);
                line("summary", (name, &point.attributes), &what, times, point.flags)
            })),
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2);
                lines.extend(histogram.data_points.iter().map(|point| {
                    let (bounds, counts) = (&point.explicit_bounds, &point.bucket_counts);
                    let what = format!("count {} sum {:?} {bounds:?} {counts:?}", point.count, point.sum);
                    let times = (point.start_time_unix_nano, point.time_unix_nano);
                    let what = format!("{what}{}", exemplars(&point.exemplars));
                    line("histogram", (name, &point.attributes), &what, times, point.flags)
                }));
            }
            Data::ExponentialHistogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2);
                lines.extend(histogram.data_points.iter().map(|point| {
                    let side = |side: &Option<Buckets>| {
                        side.as_ref()
                            .map_or_else(String::new, |side| format!("{}{:?}", side.offset, side.bucket_counts))
                    };
                    let (positive, negative) = (side(&point.positive), side(&point.negative));
                    let zero = format!("zero {} {}", point.zero_threshold, point.zero_count);
                    let what = format!("count {} sum {:?} scale {}", point.count, point.sum, point.scale);
                    let what = format!("{what} {zero} +{positive} -{negative}{}", exemplars(&point.exemplars));
                    let times = (point.start_time_unix_nano, point.time_unix_nano);
                    line("native", (name, &point.attributes), &what, times, point.flags)
                }));
            }
        }
    }
    lines
}

fn number(kind: &str, name: &str, point: &opentelemetry_proto::tonic::metrics::v1::NumberDataPoint) -> String {
    let value = match point.value {
        Some(number_data_point::Value::AsDouble(value)) => value.to_string(),
        _ => String::new(),
    };
    let times = (point.start_time_unix_nano, point.time_unix_nano);
    let what = format!("{value}{}", exemplars(&point.exemplars));
    line(kind, (name, &point.attributes), &what, times, point.flags)
}

fn line(
    kind: &str,
    (name, attributes): (&str, &[KeyValue]),
    what: &str,
    (start, time): (u64, u64),
    flags: u32,
) -> String {
    let times = if start == 0 { format!("@{}", time / T) } else { format!("@{}..{}", start / T, time / T) };
    let what = if flags == 1 { "gone" } else { what };
    format!("{kind} {name}{} {what} {times}", labels(attributes))
}

fn labels(attributes: &[KeyValue]) -> String {
    let label = |attribute: &KeyValue| match &attribute.value.as_ref().unwrap().value {
        Some(any_value::Value::StringValue(value)) => format!("{}={value}", attribute.key),
        other => panic!("{other:?}"),
    };
    let labels: Vec<_> = attributes.iter().map(label).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

fn exemplars(exemplars: &[opentelemetry_proto::tonic::metrics::v1::Exemplar]) -> String {
    let one = |exemplar: &opentelemetry_proto::tonic::metrics::v1::Exemplar| {
        let (trace, labels) = (exemplar.trace_id.len(), labels(&exemplar.filtered_attributes));
        format!(" example{labels} trace {trace} @{}", exemplar.time_unix_nano / T)
    };
    exemplars.iter().map(one).collect()
}

fn counter(name: &str, values: &[(&str, f64)]) -> m::MetricFamily {
    let metric = |(x, value): &(&str, f64)| m::Metric {
        counter: Some(m::Counter { value: Some(*value), ..Default::default() }),
        ..m::labelled(x)
    };
    m::family(name, 0, values.iter().map(metric).collect())
}

fn histograms(histograms: Vec<m::Histogram>) -> m::MetricFamily {
    let metric = |(index, histogram): (usize, m::Histogram)| m::Metric {
        histogram: Some(histogram),
        ..m::labelled(&index.to_string())
    };
    m::family("h", 4, histograms.into_iter().enumerate().map(metric).collect())
}

#[test]
fn numbers_become_points() {
    let exemplar = m::exemplar("0123456789abcdef0123456789abcdef", 7);
    let created = m::Counter { value: Some(5.0), exemplar: Some(exemplar), created_timestamp: Some(m::seconds(3)) };
    let page = [
        m::family("a_total", 0, vec![m::Metric { counter: Some(created), ..m::labelled("1") }]),
        m::family(
            "b",
            1,
            vec![m::Metric {
                gauge: Some(m::Number { value: Some(1.5) }),
                timestamp_ms: Some(5000),
                ..m::Metric::default()
            }],
        ),
        m::family("c", 3, vec![m::Metric { untyped: Some(m::Number { value: None }), ..m::labelled("2") }]),
    ];
    let expected = ["counter a_total{x=1} 5 example{y=z} trace 16 @7 @3..9", "gauge b 1.5 @5", "gauge c{x=2} 0 @9"];
    assert_eq!(points(&page), expected);
    let page = page_of(&page);
    let rules = PageRules { honor_timestamps: false, ..rules(page::Format::Protobuf) };
    let mut out = Vec::new();
    page::LastPage::default().take(&page, &rules, 9 * T, &mut out).unwrap();
    assert_eq!(view(&out)[1], "gauge b 1.5 @9");
}

#[test]
fn series_come_and_go() {
    let mut last_page = page::LastPage::default();
    let (taken, lines) = take(&mut last_page, &page_of(&[counter("a", &[("1", 5.0), ("2", 6.0)])]), T).unwrap();
    assert_eq!(lines, ["counter a{x=1} 5 @1..1", "counter a{x=2} 6 @1..1"]);
    assert_eq!(taken, Taken { samples: 2, added: 2, repeated: 0, dropped: 0, is_same: false });
    let (taken, lines) = take(&mut last_page, &page_of(&[counter("a", &[("1", 7.0), ("2", 1.0)])]), 2 * T).unwrap();
    assert_eq!(lines, ["counter a{x=1} 7 @1..2", "counter a{x=2} 1 @2..2"], "the second began again");
    assert_eq!(taken, Taken { samples: 2, added: 0, repeated: 0, dropped: 0, is_same: true });
    let other = page_of(&[counter("a", &[("3", 1.0), ("2", 2.0), ("2", 3.0)])]);
    let (taken, lines) = take(&mut last_page, &other, 3 * T).unwrap();
    assert_eq!(lines, ["counter a{x=3} 1 @3..3", "counter a{x=2} 2 @2..3", "counter a{x=1} gone @3"]);
    assert_eq!(taken, Taken { samples: 3, added: 1, repeated: 1, dropped: 0, is_same: false });
    let mut out = Vec::new();
    last_page.mark_all_stale(4 * T, &mut out).unwrap();
    assert_eq!(view(&out), ["counter a{x=3} gone @4", "counter a{x=2} gone @4"]);
    out.clear();
    assert!(!last_page.mark_all_stale(5 * T, &mut out).unwrap());
    assert!(out.is_empty(), "it was said before");
    let (taken, lines) = take(&mut last_page, &other, 6 * T).unwrap();
    assert_eq!(lines, ["counter a{x=3} 1 @3..6", "counter a{x=2} 2 @2..6"], "they are back, and went on counting");
    assert_eq!(taken.added, 0, "they are known, as series in text are");
}

/// Five values: 1 in (0.5, 1], 3 in (1, 2], none in (2, 4], 1 in (4, 8].
fn native() -> m::Histogram {
    m::Histogram {
        sample_count: Some(6),
        sample_sum: Some(12.5),
        schema: Some(0),
        zero_threshold: Some(0.001),
        zero_count: Some(1),
        positive_span: vec![m::span(0, 2), m::span(1, 1)],
        positive_delta: vec![1, 2, -2],
        ..Default::default()
    }
}

#[test]
fn native_histograms_are_exponential() {
    let both_sides = m::Histogram {
        schema: Some(-4),
        negative_span: vec![m::span(-3, 1)],
        negative_delta: vec![4],
        created_timestamp: Some(m::seconds(2)),
        exemplars: vec![m::exemplar("x", 8)],
        ..native()
    };
    let float = m::Histogram {
        sample_count: None,
        sample_count_float: Some(5.4),
        zero_count: None,
        zero_count_float: Some(0.9),
        positive_delta: Vec::new(),
        positive_count: vec![1.2, 3.3, 0.5],
        ..native()
    };
    let empty = m::Histogram { positive_span: vec![m::span(0, 0)], ..Default::default() };
    let lines = points(&[histograms(vec![native(), both_sides, float, empty])]);
    assert_eq!(
        lines,
        [
            "native h{x=0} count 6 sum Some(12.5) scale 0 zero 0.001 1 +-1[1, 3, 0, 1] - @9..9",
            "native h{x=1} count 6 sum Some(12.5) scale -4 zero 0.001 1 +-1[1, 3, 0, 1] --4[4] \
         example{trace_id=x,y=z} trace 0 @8 @2..9",
            "native h{x=2} count 5 sum Some(12.5) scale 0 zero 0.001 1 +-1[1, 3, 0, 1] - @9..9",
            "native h{x=3} count 0 sum None scale 0 zero 0 0 + - @9..9",
        ]
    );
}

#[test]
fn numbers_may_stand_together() {
    let native = native();
    let packed = m::PackedHistogram {
        sample_count: native.sample_count,
        schema: native.schema,
        positive_span: native.positive_span,
        positive_delta: native.positive_delta,
    };
    let body = packed.encode_to_vec();
    let buckets = Side::Positive.buckets(Message::request(&body), false).unwrap();
    assert_eq!((buckets.offset, buckets.counts), (-1, vec![1, 3, 0, 1]));
}

fn classic() -> m::Histogram {
    let exemplar = m::Bucket { exemplar: Some(m::exemplar("x", 8)), ..m::bucket(0.5, 1) };
    m::Histogram {
        sample_count: Some(4),
        sample_sum: Some(2.5),
        bucket: vec![exemplar, m::bucket(1.0, 3)],
        ..Default::default()
    }
}

#[test]
fn other_histograms_have_bounds() {
    let with_last = m::Histogram { bucket: vec![m::bucket(1.0, 3), m::bucket(f64::INFINITY, 4)], ..classic() };
    let float_bucket = m::Bucket { cumulative_count_float: Some(2.6), ..m::bucket(1.0, 0) };
    let float = m::Histogram { sample_count_float: Some(3.7), bucket: vec![float_bucket], ..classic() };
    let count_alone = m::Histogram { sample_count: Some(7), ..Default::default() };
    let lines = points(&[histograms(vec![classic(), with_last, float, count_alone])]);
    assert_eq!(
        lines,
        [
            "histogram h{x=0} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] example{trace_id=x,y=z} trace 0 @8 @9..9",
            "histogram h{x=1} count 4 sum Some(2.5) [1.0] [3, 1] @9..9",
            "histogram h{x=2} count 4 sum Some(2.5) [1.0] [3, 1] @9..9",
            "histogram h{x=3} count 7 sum None [] [7] @9..9",
        ]
    );
}

#[test]
fn of_two_kinds_of_buckets_the_native_ones_are_taken_if_they_are_known() {
    let both = m::Histogram { bucket: classic().bucket, ..native() };
    let known = points(&[histograms(vec![classic(), both.clone()])]);
    assert!(known[0].starts_with("native h{x=1} count 6"), "{known:?}");
    assert!(known[0].contains("example{trace_id=x,y=z}"), "those of other buckets, as it has none: {known:?}");
    assert!(known[1].starts_with("histogram h{x=0} count 4"), "{known:?}");
    for schema in [-53, 9] {
        let unknown = m::Histogram { schema: Some(schema), ..both.clone() };
        assert!(points(&[histograms(vec![unknown])])[0].starts_with("histogram h{x=0} count 6"));
        let alone = m::Histogram { schema: Some(schema), ..native() };
        let expected = format!(
            "metric family 1 (\"h\"): a native histogram of schema {schema}, which is none of -4 to 8, without other buckets"
        );
        assert_eq!(refused(&[histograms(vec![alone])]), expected);
    }
}

#[test]
fn samples_are_counted_as_prometheus_does() {
    let page = [histograms(vec![native(), classic()]), summary(), counter("a", &[("1", 1.0)])];
    let (taken, _) = take(&mut page::LastPage::default(), &page_of(&page), T).unwrap();
    assert_eq!(taken.samples, 1 + 5 + 4 + 1, "a native histogram is one");
    assert_eq!(taken.added, 11);
    let many: Vec<(String, f64)> = (0..1001).map(|x| (x.to_string(), 1.0)).collect();
    let many: Vec<(&str, f64)> = many.iter().map(|(x, value)| (x.as_str(), *value)).collect();
    assert_eq!(refused(&[counter("a", &many)]), "1001 samples, the limit is 1000: let the target expose fewer series");
}

fn summary() -> m::MetricFamily {
    let quantile = |quantile, value| m::Quantile { quantile: Some(quantile), value: Some(value) };
    let summary = m::Summary {
        sample_count: Some(20),
        sample_sum: Some(30.0),
        quantile: vec![quantile(0.5, 1.0), quantile(0.9, 2.0)],
        created_timestamp: None,
    };
    m::family("s", 2, vec![m::Metric { summary: Some(summary), ..m::Metric::default() }])
}

#[test]
fn summaries_and_gauge_histograms() {
    assert_eq!(points(&[summary()]), ["summary s count 20 sum 30 [(0.5, 1.0), (0.9, 2.0)] @9..9"]);
    let gauges = m::MetricFamily { r#type: Some(5), ..histograms(vec![classic(), native()]) };
    let (taken, lines) = take(&mut page::LastPage::default(), &page_of(&[gauges]), 9 * T).unwrap();
    assert_eq!(
        lines,
        [
            "gauge h{x=0,le=0.5} 1 @9",
            "gauge h{x=0,le=1.0} 3 @9",
            "gauge h{x=0,le=+Inf} 4 @9",
            "gauge h_gsum{x=0} 2.5 @9",
            "gauge h_gsum{x=1} 12.5 @9",
            "gauge h_gcount{x=0} 4 @9",
            "gauge h_gcount{x=1} 6 @9",
        ]
    );
    assert_eq!((taken.samples, taken.added), (7, 7));
}

#[test]
fn a_page_of_text_and_one_in_protobuf_say_the_same() {
    let text = "# HELP a what\n# TYPE a counter\na{x=\"1\"} 5\n# TYPE h histogram\nh_bucket{x=\"0\",le=\"0.5\"} 1\n\
                h_bucket{x=\"0\",le=\"1\"} 3\nh_bucket{x=\"0\",le=\"+Inf\"} 4\nh_sum{x=\"0\"} 2.5\nh_count{x=\"0\"} 4\n\
                # TYPE s summary\ns{quantile=\"0.5\"} 1\ns{quantile=\"0.9\"} 2\ns_sum 30\ns_count 20\n";
    let mut from_text = Vec::new();
    let of_text = rules(page::Format::Text);
    let taken_text = page::LastPage::default().take(text.as_bytes(), &of_text, T, &mut from_text).unwrap();
    let plain = m::Histogram { bucket: vec![m::bucket(0.5, 1), m::bucket(1.0, 3)], ..classic() };
    let first = m::MetricFamily { help: Some("what".to_owned()), ..counter("a", &[("1", 5.0)]) };
    let (page, mut from_protobuf) = (page_of(&[first, histograms(vec![plain]), summary()]), Vec::new());
    let of_protobuf = rules(page::Format::Protobuf);
    let taken = page::LastPage::default().take(&page, &of_protobuf, T, &mut from_protobuf).unwrap();
    assert_eq!(taken, taken_text);
    assert_eq!(scope(&from_protobuf), scope(&from_text));
}

#[test]
fn another_format_begins_anew() {
    let mut last_page = page::LastPage::default();
    let page = page_of(&[counter("a", &[("1", 5.0)])]);
    let of_text = |last_page: &mut page::LastPage, page: &str, time| {
        let mut out = Vec::new();
        last_page.take(page.as_bytes(), &rules(page::Format::Text), time, &mut out).map(|_| view(&out))
    };
    assert_eq!(take(&mut last_page, &page, T).unwrap().1, ["counter a{x=1} 5 @1..1"]);
    let text = "# TYPE a counter\na{x=\"1\"} 5\n";
    assert_eq!(of_text(&mut last_page, text, 2 * T).unwrap(), ["counter a{x=1} 5 @2..2"], "and nothing is gone");
    assert!(take(&mut last_page, &page[..5], 3 * T).is_err());
    let mut out = Vec::new();
    last_page.mark_all_stale(3 * T, &mut out).unwrap();
    assert_eq!(view(&out), ["counter a{x=1} gone @3"], "what is known of text stays until there is another page");
    assert_eq!(take(&mut last_page, &page, 4 * T).unwrap().1, ["counter a{x=1} 5 @4..4"]);
    of_text(&mut last_page, text, 5 * T).unwrap();
    take(&mut last_page, &page, 6 * T).unwrap();
    out.clear();
    last_page.mark_all_stale(7 * T, &mut out).unwrap();
    assert_eq!(view(&out), ["counter a{x=1} gone @7"], "once, as only the last page is known");
}

#[test]
fn what_is_wrong_is_said() {
    let because = |cause: &str| format!("metric family 1 (\"h\"): {cause}");
    let native_with = |change: fn(&mut m::Histogram)| {
        let mut histogram = native();
        change(&mut histogram);
        refused(&[histograms(vec![histogram])])
    };
    let reaches = because("a native histogram that reaches over more than 65536 buckets on one side");
    assert_eq!(native_with(|h| h.positive_span[1].offset = Some(i32::MAX)), reaches);
    assert_eq!(native_with(|h| h.positive_span[1].length = Some(u32::MAX)), reaches);
    assert_eq!(
        native_with(|h| h.positive_span[1].offset = Some(-1)),
        because("a native histogram whose spans overlap")
    );
    let unequal = because("a native histogram whose spans do not have as many buckets as there are counts");
    assert_eq!(native_with(|h| h.positive_delta.push(1)), unequal);
    assert_eq!(native_with(|h| h.positive_span[0].length = Some(3)), unequal);
    let negative = because("a native histogram with a bucket that has a negative count");
    assert_eq!(native_with(|h| h.positive_delta[1] = -2), negative);
    let exist = because("a native histogram with buckets that do not exist");
    assert_eq!(native_with(|h| h.positive_span[0].offset = Some(i32::MIN)), exist);
    assert_eq!(native_with(|h| h.positive_span[0].offset = Some(i32::MAX)), exist);

    let of = |family| refused(&[family]);
    assert_eq!(of(m::family("", 0, Vec::new())), "metric family 1 (\"\"): no name");
    assert_eq!(of(m::family("h", 6, Vec::new())), because("the type 6, which is not known"));
    let without = because("a metric without the value that the type of its family says it has");
    assert_eq!(of(m::family("h", 1, vec![m::Metric::default()])), without);
    let twice = m::Metric {
        label: vec![m::label("x", "1"), m::label("y", "2"), m::label("x", "2")],
        ..counter("h", &[("1", 1.0)]).metric.remove(0)
    };
    assert_eq!(of(m::family("h", 0, vec![twice.clone()])), because("the same label twice"));
    let unnamed = m::Metric { label: vec![m::label("", "1")], ..twice.clone() };
    assert_eq!(of(m::family("h", 0, vec![unnamed])), because("a label without a name"));
    let early = m::Metric { timestamp_ms: Some(-1), label: Vec::new(), ..twice };
    let time = because("a time that is before 1970, or in more than five centuries");
    assert_eq!(of(m::family("h", 0, vec![early])), time);
}

#[test]
fn bytes_that_are_no_messages_are_refused() {
    let failed = |page: &[u8]| take(&mut page::LastPage::default(), page, T).unwrap_err().to_string();
    let page = page_of(&[counter("a", &[("1", 5.0)]), counter("b", &[("1", 5.0)])]);
    let cut = failed(&page[..page.len() - 1]);
    assert!(cut.starts_with("metric family 2 (\"\"): field longer than the message"), "{cut}");
    assert_eq!(
        failed(b"<html>").split(':').next(),
        Some("metric family 1 (\"\")"),
        "text is taken for a length that is too long"
    );
    let not_utf8 = b"\x03\x0a\x01\xff";
    assert!(failed(not_utf8).contains("not UTF-8"), "{}", failed(not_utf8));
    let wrong_type = b"\x05\x0a\x01a\x20\x01";
    assert!(failed(wrong_type).contains("wrong wire type"), "{}", failed(wrong_type));
}

#[test]
fn points_with_times_of_the_page_end_without_a_word_unless_they_are_tracked() {
    let timed = |value| m::Metric { timestamp_ms: Some(5000), ..counter("a", &[("1", value)]).metric.remove(0) };
    let page = page_of(&[m::family("a", 0, vec![timed(1.0)])]);
    for (track_timestamps_staleness, expected) in [(false, &[][..]), (true, &["counter a{x=1} gone @7"])] {
        let rules = PageRules { track_timestamps_staleness, ..rules(page::Format::Protobuf) };
        let (mut last_page, mut out) = (LastPage::default(), Vec::new());
        let untimed = page_of(&[counter("a", &[("1", 1.0)])]);
        last_page.take(&untimed, &rules, 5 * T, &mut Vec::new()).unwrap();
        last_page.take(&page, &rules, 6 * T, &mut out).unwrap();
        assert_eq!(view(&out), ["counter a{x=1} 1 @5..5"]);
        out.clear();
        assert_eq!(last_page.mark_all_stale(7 * T, &mut out).unwrap(), track_timestamps_staleness);
        assert_eq!(view(&out), expected);
    }
}

#[test]
fn rules_for_labels_are_those_of_text() {
    let drop = Rule {
        source_labels: vec!["__name__".into()],
        regex: "dropped".into(),
        action: Action::Drop,
        ..Rule::default()
    };
    let rules = PageRules {
        relabel: Relabeling::new([drop]).unwrap(),
        target_labels: vec![(b"x".to_vec(), b"target".to_vec())],
        label_limit: 6,
        sample_limit: 1,
        ..rules(page::Format::Protobuf)
    };
    let page = page_of(&[counter("a", &[("1", 5.0)]), counter("dropped", &[("1", 1.0), ("2", 1.0)])]);
    let (mut last_page, mut out) = (LastPage::default(), Vec::new());
    let taken = last_page.take(&page, &rules, T, &mut out).unwrap();
    assert_eq!((taken.samples, taken.dropped, taken.added), (3, 2, 1));
    assert_eq!(view(&out), ["counter a{exported_x=1,x=target} 5 @1..1"]);
    let many = m::Metric {
        label: ["a", "b", "c"].map(|name| m::label(name, "1")).to_vec(),
        ..counter("a", &[("1", 1.0)]).metric.remove(0)
    };
    let error = last_page.take(&page_of(&[m::family("a", 0, vec![many])]), &rules, T, &mut out).unwrap_err();
    assert_eq!(
        (error.result(), error.to_string().as_str()),
        ("limit", "metric family 1 (\"a\"): a has 7 labels, label_limit is 6")
    );
}

/// Of a rule that doubles a label, applied so many times.
fn doubling(times: usize, format: page::Format) -> PageRules {
    let double = Rule {
        source_labels: vec!["x".into()],
        target_label: "x".into(),
        replacement: "$1$1".into(),
        ..Rule::default()
    };
    PageRules { relabel: Relabeling::new(vec![double; times]).unwrap(), ..rules(format) }
}

#[test]
fn labels_that_rules_make_longer_are_paid_for() {
    let long = "x".repeat(5000);
    let counters = counter("a", &[(long.as_str(), 1.0), (&long[1..], 1.0)]);
    let metric = |histogram| m::Metric { histogram: Some(histogram), ..m::labelled(&long) };
    let histograms = vec![metric(classic()), m::Metric { label: vec![m::label("x", "y")], ..metric(native()) }];
    let page = page_of(&[counters, m::family("g", 5, histograms)]);
    let take = |rules: &PageRules| {
        let mut out = Vec::new();
        LastPage::default().take(&page, rules, T, &mut out).unwrap();
        (out.len(), Survey::of(&page, rules).unwrap().bytes)
    };
    let (plain, doubled) = (take(&rules(page::Format::Protobuf)), take(&doubling(4, page::Format::Protobuf)));
    assert!(plain.0 <= plain.1, "{plain:?}");
    assert!(doubled.0 > 10 * plain.0 && doubled.0 <= doubled.1, "{doubled:?}");
    let error = LastPage::default().take(&page, &doubling(9, page::Format::Protobuf), T, &mut Vec::new()).unwrap_err();
    let words = "metric family 1 (\"a\"): a: rules make the labels more than 1048576 bytes longer";
    assert_eq!((error.result(), error.to_string().as_str()), ("limit", words));
}

type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of gauges, in protobuf or in text.
fn gauges(format: page::Format, samples: &[(&str, Labels<'_>)]) -> Vec<u8> {
    let (mut families, mut text): (Vec<m::MetricFamily>, _) = (Vec::new(), String::new());
    for (name, labels) in samples {
        if families.last().is_none_or(|last| last.name.as_deref() != Some(*name)) {
            families.push(m::family(name, 1, Vec::new()));
            text += &format!("# TYPE {name} gauge\n");
        }
        let label = labels.iter().map(|(name, value)| m::label(name, value)).collect();
        let gauge = Some(m::Number { value: Some(1.0) });
        families.last_mut().unwrap().metric.push(m::Metric { label, gauge, ..m::Metric::default() });
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        text += &format!("{name}{{{}}} 1\n", labels.join(","));
    }
    if format == page::Format::Protobuf { page_of(&families) } else { text.into_bytes() }
}

#[test]
fn what_labels_say_of_resource_and_scope_is_what_it_is_in_text() {
    let info = |v: Labels<'static>| ("target_info", v);
    let first: [(&str, Labels<'_>); 5] = [
        info(&[("v", "1")]),
        ("otel_scope_info", &[("otel_scope_name", "s"), ("w", "2")]),
        ("a", &[("otel_scope_name", "s"), ("x", "1")]),
        ("a", &[("otel_scope_name", "t"), ("x", "1")]),
        ("b", &[("x", "1")]),
    ];
    let mut of_another_version = first;
    of_another_version[0] = info(&[("v", "2")]);
    let (ends_in_a_scope, ends_in_another) = ([first[0], first[2]], [first[0], first[2], first[3]]);
    let request_of = |metrics: &[u8]| {
        let (bytes, ()) = request(b"", "weir", metrics.len(), |out| out.extend_from_slice(metrics));
        ExportMetricsServiceRequest::decode(bytes.as_slice()).unwrap()
    };
    let said = |format, pages: &[&[_]]| {
        let (mut last_page, mut said) = (page::LastPage::default(), Vec::new());
        for samples in pages {
            let mut out = Vec::new();
            let taken = last_page.take(&gauges(format, samples), &rules(format), T, &mut out).unwrap();
            said.push((request_of(&out), (taken.added, taken.repeated)));
        }
        let mut end = Vec::new();
        assert!(last_page.mark_all_stale(2 * T, &mut end).unwrap());
        said.push((request_of(&end), (0, 0)));
        said
    };
    let twice = [first[0], first[0], first[1], first[1], first[4]];
    let sequences: [&[&[_]]; 6] = [
        &[&first],
        &[&first, &first],
        &[&first, &of_another_version],
        &[&first, &ends_in_a_scope],
        &[&first, &ends_in_another],
        &[&twice, &twice],
    ];
    for pages in sequences {
        assert_eq!(said(page::Format::Protobuf, pages), said(page::Format::Text, pages));
    }
}

#[test]
fn what_is_said_of_a_scope_is_written_once() {
    let long = "w".repeat(5000);
    let info = [("otel_scope_name", "s"), ("w", long.as_str())];
    let mut samples: Vec<(&str, Labels<'_>)> = vec![("otel_scope_info", &info)];
    let mixed =
        ["1", "2", "3", "4", "5", "6", "7", "8", "9"].map(|x| ([("otel_scope_name", "s"), ("x", x)], [("x", x)]));
    for (in_scope, own) in &mixed {
        samples.extend([("a", &in_scope[..]), ("a", &own[..])]);
    }
    let (page, rules) = (gauges(page::Format::Protobuf, &samples), rules(page::Format::Protobuf));
    let mut out = Vec::new();
    LastPage::default().take(&page, &rules, T, &mut out).unwrap();
    let most = Survey::of(&page, &rules).unwrap().bytes;
    assert!(out.len() > long.len() && out.len() <= most, "{} of {most}", out.len());
}

#[test]
fn what_is_said_of_many_scopes_is_paid_for() {
    let long = "w".repeat(100_000);
    let info = [("otel_scope_name", "s"), ("w", long.as_str())];
    let numbers: Vec<String> = (0..500).map(|k| k.to_string()).collect();
    let labels: Vec<_> = numbers.iter().map(|k| [("otel_scope_name", "s"), ("otel_scope_k", k.as_str())]).collect();
    let mut samples: Vec<(&str, Labels<'_>)> = vec![("otel_scope_info", &info)];
    samples.extend(labels.iter().map(|labels| ("a", &labels[..])));
    let (page, rules) = (gauges(page::Format::Protobuf, &samples), rules(page::Format::Protobuf));
    let (mut last_page, mut out) = (LastPage::default(), Vec::new());
    let paid = last_page.work(&page, &rules).unwrap();
    last_page.take(&page, &rules, T, &mut out).unwrap();
    assert!(out.len() > long.len() && out.len() < 4 * page.len(), "{} of {}", out.len(), page.len());
    assert!(out.capacity() + last_page.memory() <= paid, "{} of {paid}", out.capacity());
}
