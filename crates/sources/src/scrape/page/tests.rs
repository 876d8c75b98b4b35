use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, Metric, NumberDataPoint, ScopeMetrics, number_data_point};
use prost::Message as _;

use super::*;

const T: u64 = 1_000_000_000;

fn rules(format: Format) -> PageRules {
    PageRules { format, sample_limit: 1000, honor_timestamps: true, target_labels: Vec::new() }
}

/// What comes of a page, a line for each point.
fn take(known: &mut Known, page: &str, format: Format, time: u64) -> Result<(Taken, Vec<String>), PageError> {
    let mut out = Vec::new();
    let taken = known.take(page.as_bytes(), &rules(format), time, &mut out)?;
    Ok((taken, view(&out)))
}

fn text(known: &mut Known, page: &str, time: u64) -> Vec<String> {
    take(known, page, Format::Text, time).unwrap().1
}

fn view(bytes: &[u8]) -> Vec<String> {
    let scope = ScopeMetrics::decode(bytes).unwrap();
    scope.metrics.iter().flat_map(of_metric).collect()
}

fn of_metric(metric: &Metric) -> Vec<String> {
    let name = &metric.name;
    let number = |kind: &str, point: &NumberDataPoint| {
        let value = match point.value {
            Some(number_data_point::Value::AsDouble(value)) => value.to_string(),
            _ => "gone".to_owned(),
        };
        let NumberDataPoint { start_time_unix_nano, time_unix_nano, .. } = point;
        let (labels, times) = (labels(&point.attributes), times(*start_time_unix_nano, *time_unix_nano));
        format!("{kind} {name}{labels} {value} {times}{}", exemplars(&point.exemplars))
    };
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => gauge.data_points.iter().map(|point| number("gauge", point)).collect(),
        Data::Sum(sum) => {
            assert_eq!(sum.aggregation_temporality, 2);
            let kind = if sum.is_monotonic { "counter" } else { "sum" };
            sum.data_points.iter().map(|point| number(kind, point)).collect()
        }
        Data::Histogram(histogram) => {
            assert_eq!(histogram.aggregation_temporality, 2);
            let point = |point: &opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint| {
                let gone = if point.flags == 1 { " gone" } else { "" };
                format!(
                    "histogram {name}{} count {} sum {:?} {:?} {:?} {}{}{gone}",
                    labels(&point.attributes),
                    point.count,
                    point.sum,
                    point.explicit_bounds,
                    point.bucket_counts,
                    times(point.start_time_unix_nano, point.time_unix_nano),
                    exemplars(&point.exemplars)
                )
            };
            histogram.data_points.iter().map(point).collect()
        }
        Data::Summary(summary) => {
            let point = |point: &opentelemetry_proto::tonic::metrics::v1::SummaryDataPoint| {
                let values: Vec<_> = point.quantile_values.iter().map(|value| (value.quantile, value.value)).collect();
                let gone = if point.flags == 1 { " gone" } else { "" };
                format!(
                    "summary {name}{} count {} sum {} {values:?} {}{gone}",
                    labels(&point.attributes),
                    point.count,
                    point.sum,
                    times(point.start_time_unix_nano, point.time_unix_nano)
                )
            };
            summary.data_points.iter().map(point).collect()
        }
        Data::ExponentialHistogram(_) => unreachable!("no text has one"),
    }
}

fn times(start: u64, time: u64) -> String {
    if start == 0 { format!("@{}", time / T) } else { format!("@{}..{}", start / T, time / T) }
}

fn labels(attributes: &[KeyValue]) -> String {
    let label = |attribute: &KeyValue| match &attribute.value.as_ref().unwrap().value {
        Some(any_value::Value::StringValue(value)) => format!("{}={value}", attribute.key),
        other => panic!("{other:?}"),
    };
    let labels: Vec<_> = attributes.iter().map(label).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

fn exemplars(exemplars: &[Exemplar]) -> String {
    let one = |exemplar: &Exemplar| {
        let (trace, labels) = (exemplar.trace_id.len(), labels(&exemplar.filtered_attributes));
        format!(" example{labels} trace {trace} {:?} @{}", exemplar.value, exemplar.time_unix_nano / T)
    };
    exemplars.iter().map(one).collect()
}

#[test]
fn numbers_become_points() {
    let page = "# HELP a what\n# TYPE a counter\na{x=\"1\"} 5\na{x=\"2\"} 6\n# TYPE b gauge\nb 1.5\nc{y=\"z\"} NaN\n";
    let expected = ["counter a{x=1} 5 @1..1", "counter a{x=2} 6 @1..1", "gauge b 1.5 @1", "gauge c{y=z} NaN @1"];
    let mut known = Known::default();
    let (taken, lines) = take(&mut known, page, Format::Text, T).unwrap();
    assert_eq!(lines, expected);
    assert_eq!(taken, Taken { samples: 4, added: 4, repeated: 0, is_same: false });
    let (taken, lines) =
        take(&mut known, &page.replace(" 5\n", " 50\n").replace(" 6\n", " 3\n"), Format::Text, 2 * T).unwrap();
    assert_eq!(taken, Taken { samples: 4, added: 0, repeated: 0, is_same: true });
    let expected = ["counter a{x=1} 50 @1..2", "counter a{x=2} 3 @2..2", "gauge b 1.5 @2", "gauge c{y=z} NaN @2"];
    assert_eq!(lines, expected, "the second counter began again");
}

#[test]
fn series_come_and_go() {
    let mut known = Known::default();
    text(&mut known, "# TYPE a counter\na{x=\"1\"} 5\na{x=\"2\"} 6\nb 1\n", T);
    let page = "# TYPE a counter\na{x=\"2\"} 7\na{x=\"3\"} 1\n";
    let (taken, lines) = take(&mut known, page, Format::Text, 2 * T).unwrap();
    assert_eq!(taken, Taken { samples: 2, added: 1, repeated: 0, is_same: false });
    let expected = ["counter a{x=2} 7 @1..2", "counter a{x=3} 1 @2..2", "counter a{x=1} gone @2", "gauge b gone @2"];
    assert_eq!(lines, expected);
    let mut out = Vec::new();
    known.end(3 * T, &mut out);
    assert_eq!(view(&out), ["counter a{x=2} gone @3", "counter a{x=3} gone @3"]);
    out.clear();
    known.end(4 * T, &mut out);
    assert!(out.is_empty(), "it was said before");
    let lines = text(&mut known, page, 5 * T);
    assert_eq!(lines, ["counter a{x=2} 7 @1..5", "counter a{x=3} 1 @2..5"], "they are back, and went on counting");
}

const HISTOGRAM: &str = r#"# TYPE h histogram
h_bucket{x="1",le="0.5"} 1
h_bucket{x="1",le="1"} 3
h_bucket{x="1",le="+Inf"} 4
h_sum{x="1"} 2.5
h_count{x="1"} 4
"#;

#[test]
fn lines_of_a_histogram_are_one_point() {
    let mut known = Known::default();
    let expected = ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..1"];
    assert_eq!(text(&mut known, HISTOGRAM, T), expected);
    assert_eq!(
        text(&mut known, HISTOGRAM, 2 * T),
        ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..2"]
    );
    let fewer = HISTOGRAM.replace("} 4\n", "} 3\n");
    assert_eq!(text(&mut known, &fewer, 3 * T), ["histogram h{x=1} count 3 sum Some(2.5) [0.5, 1.0] [1, 2, 0] @3..3"]);
    let gone = ["histogram h{x=1} count 0 sum None [] [] @4 gone"];
    assert_eq!(text(&mut known, "", 4 * T), gone);
}

#[test]
fn what_a_histogram_leaves_out_follows_from_the_rest() {
    let without = |part: &str| {
        let page: String =
            HISTOGRAM.lines().filter(|line| !line.contains(part)).map(|line| format!("{line}\n")).collect();
        let mut known = Known::default();
        let first = text(&mut known, &page, T);
        assert_eq!(text(&mut known, &page, T), first);
        first
    };
    assert_eq!(without("Inf"), ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..1"]);
    assert_eq!(without("h_count"), ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..1"]);
    assert_eq!(without("h_sum"), ["histogram h{x=1} count 4 sum None [0.5, 1.0] [1, 2, 1] @1..1"]);
    assert_eq!(without("bucket"), ["histogram h{x=1} count 4 sum Some(2.5) [] [] @1..1"]);
}

#[test]
fn parts_of_points_may_come_in_any_order() {
    let page = "# TYPE h histogram\nh_sum{x=\"2\"} 1\nh_bucket{x=\"1\",le=\"+Inf\"} 2\nh_bucket{le=\"+Inf\",x=\"2\"} 1\n\
                h_count{x=\"2\"} 1\nh_bucket{x=\"1\",le=\"7\"} 1\nh_sum{x=\"1\"} 9\nh_count{x=\"1\"} 2\n";
    let expected = [
        "histogram h{x=2} count 1 sum Some(1.0) [] [1] @1..1",
        "histogram h{x=1} count 2 sum Some(9.0) [7.0] [1, 1] @1..1",
    ];
    assert_eq!(text(&mut Known::default(), page, T), expected);
}

#[test]
fn a_summary_is_one_point() {
    let page = "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns{quantile=\"0.9\"} 2\ns_sum 30\ns_count 20\n";
    let mut known = Known::default();
    assert_eq!(text(&mut known, page, T), ["summary s count 20 sum 30 [(0.5, 1.0), (0.9, 2.0)] @1..1"]);
    assert_eq!(text(&mut known, page, 2 * T), ["summary s count 20 sum 30 [(0.5, 1.0), (0.9, 2.0)] @1..2"]);
}

#[test]
fn openmetrics_says_when_and_gives_examples() {
    let page = "# TYPE a counter\n# UNIT a seconds\na_total{x=\"1\"} 5 # {trace_id=\"0123456789abcdef0123456789abcdef\",y=\"z\"} 0.5 7\n\
                a_created{x=\"1\"} 3\n# TYPE h histogram\nh_bucket{le=\"1\"} 2 # {} 0.7\nh_bucket{le=\"+Inf\"} 2\nh_count 2\nh_sum 1\n\
                h_created 4\n# TYPE i info\ni_info{v=\"1\"} 1\n# EOF\n";
    let mut known = Known::default();
    let expected = [
        "counter a_total{x=1} 5 @3..9 example{y=z} trace 16 Some(AsDouble(0.5)) @7",
        "histogram h count 2 sum Some(1.0) [1.0] [2, 0] @4..9 example trace 0 Some(AsDouble(0.7)) @0",
        "sum i_info{v=1} 1 @9",
    ];
    assert_eq!(take(&mut known, page, Format::OpenMetrics, 9 * T).unwrap().1, expected);
    let (taken, lines) = take(&mut known, page, Format::OpenMetrics, 9 * T).unwrap();
    assert_eq!((taken.is_same, lines.as_slice()), (true, expected.map(str::to_owned).as_slice()));
    let cut = page.strip_suffix("# EOF\n").unwrap();
    assert_eq!(take(&mut known, cut, Format::OpenMetrics, 9 * T), Err(PageError::Truncated));
}

#[test]
fn a_page_may_say_when_it_was() {
    let mut known = Known::default();
    assert_eq!(text(&mut known, "# TYPE a counter\na 1 5000\nb 2\n", 9 * T), ["counter a 1 @5..5", "gauge b 2 @9"]);
    assert_eq!(text(&mut known, "# TYPE a counter\na 2 6000\nb 2\n", 9 * T), ["counter a 2 @5..6", "gauge b 2 @9"]);
}

#[test]
fn a_page_that_is_wrong_is_refused_as_a_whole() {
    let failed = |page: &str| take(&mut Known::default(), page, Format::Text, T).unwrap_err().to_string();
    assert_eq!(failed("a 1\nb x\n"), "line 2: a value that is no number");
    assert_eq!(failed("<html>\n"), "line 1: no value after the name and labels");
    let many = "a 1\n".repeat(1001);
    assert_eq!(failed(&many), "1001 samples, the limit is 1000");
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// Lines that go together, now and then with something odd in them.
    fn page() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            r#"(a|b|h|h_bucket|h_sum|h_count|h_created|s|s_sum|s_count)(\{(x="[12]"|le="(1|2|\+Inf|x)"|quantile="0\.5")(,y="[ab\\\\"é]{0,3}")?\})? (-?[0-9]{1,3}(\.5)?|NaN|\+Inf|1e400|x)( [0-9]{1,4})?( # \{z="1"\} 2)?"#,
            r"# (TYPE|HELP|UNIT) (a|b|h|s) (counter|gauge|histogram|summary|info|x)",
            "# EOF",
            ".{0,12}",
        ];
        proptest::collection::vec(line, 0..14).prop_map(|lines| lines.iter().map(|line| format!("{line}\n")).collect())
    }

    proptest! {
        /// Whatever pages follow each other: what comes of each can be read, and the same page again gives the same.
        #[test]
        fn whatever_is_on_pages_metrics_are_well_formed(pages in proptest::collection::vec(page(), 1..5)) {
            let mut known = Known::default();
            for (time, page) in (1..).zip(&pages) {
                let Ok((taken, lines)) = take(&mut known, page, Format::Text, time * T) else { continue };
                let is_new = |line: &&String| !line.ends_with("gone") && !line.contains(" gone @");
                let new: Vec<_> = lines.iter().filter(is_new).cloned().collect();
                let (again, same) = take(&mut known, page, Format::Text, time * T).unwrap();
                prop_assert_eq!(again.samples, taken.samples);
                prop_assert_eq!(again.added, 0);
                prop_assert_eq!(&same, &new, "{}", page);
            }
        }

        #[test]
        fn any_bytes_are_taken_or_refused(page in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            let mut known = Known::default();
            let rules = rules(Format::OpenMetrics);
            let _ = known.take(&page, &rules, T, &mut out);
            known.end(2 * T, &mut out);
            view(&out);
        }
    }
}
