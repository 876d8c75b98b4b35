use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, Metric, NumberDataPoint, ScopeMetrics, number_data_point};
use prost::Message as _;

use super::cost::has_exemplars;
use super::*;

mod labels;

const T: u64 = 1_000_000_000;

fn rules(format: Format) -> PageRules {
    PageRules { sample_limit: 1000, ..PageRules::of(format) }
}

/// What comes of a page, a line for each point. It takes no more memory than was asked for.
fn take(last_page: &mut LastPage, page: &str, format: Format, time: u64) -> Result<(Taken, Vec<String>), PageError> {
    let (mut out, paid) = (Vec::new(), last_page.work(page.as_bytes(), &rules(format))?);
    let taken = last_page.take(page.as_bytes(), &rules(format), time, &mut out)?;
    assert!(last_page.memory() + out.capacity() <= paid, "{} and {} of {paid}", last_page.memory(), out.capacity());
    let lines = view(&out);
    assert_eq!(last_page.data_points(), Some(lines.len() as u64), "{page}");
    Ok((taken, lines))
}

fn text(last_page: &mut LastPage, page: &str, time: u64) -> Vec<String> {
    take(last_page, page, Format::Text, time).unwrap().1
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
    let mut last_page = LastPage::default();
    let (taken, lines) = take(&mut last_page, page, Format::Text, T).unwrap();
    assert_eq!(lines, expected);
    assert_eq!(taken, Taken { samples: 4, added: 4, repeated: 0, dropped: 0, is_same: false });
    let (taken, lines) =
        take(&mut last_page, &page.replace(" 5\n", " 50\n").replace(" 6\n", " 3\n"), Format::Text, 2 * T).unwrap();
    assert_eq!(taken, Taken { samples: 4, added: 0, repeated: 0, dropped: 0, is_same: true });
    let expected = ["counter a{x=1} 50 @1..2", "counter a{x=2} 3 @2..2", "gauge b 1.5 @2", "gauge c{y=z} NaN @2"];
    assert_eq!(lines, expected, "the second counter began again");
}

#[test]
fn series_come_and_go() {
    let mut last_page = LastPage::default();
    text(&mut last_page, "# TYPE a counter\na{x=\"1\"} 5\na{x=\"2\"} 6\nb 1\n", T);
    let page = "# TYPE a counter\na{x=\"2\"} 7\na{x=\"3\"} 1\n";
    let (taken, lines) = take(&mut last_page, page, Format::Text, 2 * T).unwrap();
    assert_eq!(taken, Taken { samples: 2, added: 1, repeated: 0, dropped: 0, is_same: false });
    let expected = ["counter a{x=2} 7 @1..2", "counter a{x=3} 1 @2..2", "counter a{x=1} gone @2", "gauge b gone @2"];
    assert_eq!(lines, expected);
    let mut out = Vec::new();
    assert!(last_page.mark_all_stale(3 * T, &mut out).unwrap());
    assert_eq!(view(&out), ["counter a{x=2} gone @3", "counter a{x=3} gone @3"]);
    out.clear();
    assert!(!last_page.mark_all_stale(4 * T, &mut out).unwrap());
    assert!(out.is_empty(), "it was said before");
    last_page.mark_stale_again();
    assert!(last_page.mark_all_stale(4 * T, &mut out).unwrap(), "it has not arrived");
    let lines = text(&mut last_page, page, 5 * T);
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
    let mut last_page = LastPage::default();
    let expected = ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..1"];
    assert_eq!(text(&mut last_page, HISTOGRAM, T), expected);
    assert_eq!(
        text(&mut last_page, HISTOGRAM, 2 * T),
        ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..2"]
    );
    let fewer = HISTOGRAM.replace("} 4\n", "} 3\n");
    assert_eq!(
        text(&mut last_page, &fewer, 3 * T),
        ["histogram h{x=1} count 3 sum Some(2.5) [0.5, 1.0] [1, 2, 0] @3..3"]
    );
    let gone = ["histogram h{x=1} count 0 sum None [] [] @4 gone"];
    assert_eq!(text(&mut last_page, "", 4 * T), gone);
}

#[test]
fn what_a_histogram_leaves_out_follows_from_the_rest() {
    let without = |part: &str| {
        let page: String =
            HISTOGRAM.lines().filter(|line| !line.contains(part)).map(|line| format!("{line}\n")).collect();
        let mut last_page = LastPage::default();
        let first = text(&mut last_page, &page, T);
        assert_eq!(text(&mut last_page, &page, T), first);
        first
    };
    assert_eq!(without("Inf"), ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..1"]);
    assert_eq!(without("h_count"), ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..1"]);
    assert_eq!(without("h_sum"), ["histogram h{x=1} count 4 sum None [0.5, 1.0] [1, 2, 1] @1..1"]);
    assert_eq!(without("bucket"), ["histogram h{x=1} count 4 sum Some(2.5) [] [4] @1..1"]);
    let only_buckets = "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"2\"} 3\n";
    let expected = ["histogram h count 3 sum None [1.0, 2.0] [2, 1, 0] @1..1"];
    assert_eq!(text(&mut LastPage::default(), only_buckets, T), expected);
    let other = HISTOGRAM.replace("\"+Inf\"} 4", "\"+Inf\"} 5");
    let expected = ["histogram h{x=1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..1"];
    assert_eq!(text(&mut LastPage::default(), &other, T), expected, "the count counts");
}

#[test]
fn parts_of_points_may_come_in_any_order() {
    let page = "# TYPE h histogram\nh_sum{x=\"2\"} 1\nh_bucket{x=\"1\",le=\"+Inf\"} 2\nh_bucket{le=\"+Inf\",x=\"2\"} 1\n\
                h_count{x=\"2\"} 1\nh_bucket{x=\"1\",le=\"7\"} 1\nh_sum{x=\"1\"} 9\nh_count{x=\"1\"} 2\n";
    let expected = [
        "histogram h{x=2} count 1 sum Some(1.0) [] [1] @1..1",
        "histogram h{x=1} count 2 sum Some(9.0) [7.0] [1, 1] @1..1",
    ];
    assert_eq!(text(&mut LastPage::default(), page, T), expected);
}

#[test]
fn series_that_are_twice_on_a_page_are_one() {
    let (taken, lines) = take(&mut LastPage::default(), "a 1\na 2\n", Format::Text, T).unwrap();
    assert_eq!((taken.samples, taken.added, taken.repeated), (2, 1, 1));
    assert_eq!(lines, ["gauge a 1 @1"]);
}

#[test]
fn a_summary_is_one_point() {
    let page = "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns{quantile=\"0.9\"} 2\ns_sum 30\ns_count 20\n";
    let mut last_page = LastPage::default();
    assert_eq!(text(&mut last_page, page, T), ["summary s count 20 sum 30 [(0.5, 1.0), (0.9, 2.0)] @1..1"]);
    assert_eq!(text(&mut last_page, page, 2 * T), ["summary s count 20 sum 30 [(0.5, 1.0), (0.9, 2.0)] @1..2"]);
}

#[test]
fn openmetrics_says_when_and_gives_examples() {
    let page = "# TYPE a counter\n# UNIT a seconds\na_total{x=\"1\"} 5 # {trace_id=\"0123456789abcdef0123456789abcdef\",y=\"z\"} 0.5 7\n\
                a_created{x=\"1\"} 3\n# TYPE h histogram\nh_bucket{le=\"1\"} 2 # {} 0.7\nh_bucket{le=\"+Inf\"} 2\nh_count 2\nh_sum 1\n\
                h_created 4\n# TYPE i info\ni_info{v=\"1\"} 1\n# EOF\n";
    let mut last_page = LastPage::default();
    let expected = [
        "counter a_total{x=1} 5 @3..9 example{y=z} trace 16 Some(AsDouble(0.5)) @7",
        "histogram h count 2 sum Some(1.0) [1.0] [2, 0] @4..9 example trace 0 Some(AsDouble(0.7)) @9",
        "sum i{v=1} 1 @9",
    ];
    assert_eq!(take(&mut last_page, page, Format::OpenMetrics, 9 * T).unwrap().1, expected);
    let (taken, lines) = take(&mut last_page, page, Format::OpenMetrics, 9 * T).unwrap();
    assert_eq!((taken.is_same, lines.as_slice()), (true, expected.map(str::to_owned).as_slice()));
    let cut = page.strip_suffix("# EOF\n").unwrap();
    assert_eq!(take(&mut last_page, cut, Format::OpenMetrics, 9 * T), Err(PageError::Truncated));
    let more = take(&mut last_page, "a 1\n# EOF\nb 1\n# EOF\n", Format::OpenMetrics, 9 * T).unwrap_err();
    assert_eq!(more.to_string(), "line 3: a line behind # EOF, which is the last one");
}

#[test]
fn counters_that_say_when_they_were_created_are_compared() {
    let page = |a, b| {
        let counter = |x, value| format!("a_total{{x=\"{x}\"}} {value}\na_created{{x=\"{x}\"}} 3.5\n");
        format!("# TYPE a counter\n{}{}# EOF\n", counter(1, a), counter(2, b))
    };
    let mut last_page = LastPage::default();
    take(&mut last_page, &page(1, 2), Format::OpenMetrics, 9 * T).unwrap();
    let (taken, lines) = take(&mut last_page, &page(5, 1), Format::OpenMetrics, 10 * T).unwrap();
    let expected = ["counter a_total{x=1} 5 @3..10", "counter a_total{x=2} 1 @3..10"].map(str::to_owned);
    assert_eq!((taken.is_same, lines.as_slice()), (true, expected.as_slice()));
}

#[test]
fn what_is_told_of_a_family_holds_for_all_its_samples() {
    let metrics = |page: &str, format| {
        let mut out = Vec::new();
        LastPage::default().take(page.as_bytes(), &rules(format), T, &mut out).unwrap();
        let told = |metric: Metric| {
            let kind = labels(&metric.metadata);
            format!("{}{kind} {:?} {:?}", metric.name, metric.description, metric.unit)
        };
        ScopeMetrics::decode(out.as_slice()).unwrap().metrics.into_iter().map(told).collect::<Vec<_>>()
    };
    let page = "a_total 1\n# HELP a  With \\\"quotes\\\"\n# TYPE a_total counter\n# TYPE a_total gauge\n# HELP a_total \\\"\n# UNIT a seconds\n";
    assert_eq!(metrics(page, Format::Text), ["a_total{prometheus.type=counter} \"\\\\\\\"\" \"\""]);
    let page = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds  \\\"\na_seconds_total 1\n\
                # TYPE g gaugehistogram\n# HELP g x\ng_bucket{le=\"1\"} 1\ng_gcount 1\nb 1\n# EOF\n";
    let expected = [
        "a_seconds_total{prometheus.type=counter} \" \\\"\" \"s\"",
        "g{prometheus.type=gaugehistogram} \"x\" \"\"",
        "g_gcount{prometheus.type=unknown} \"\" \"\"",
        "b{prometheus.type=unknown} \"\" \"\"",
    ];
    assert_eq!(metrics(page, Format::OpenMetrics), expected);
}

#[test]
fn examples_have_times_and_ids() {
    let of = |exemplar: &str| {
        let page = format!("# TYPE a counter\na_total 5 # {exemplar}\n# EOF\n");
        take(&mut LastPage::default(), &page, Format::OpenMetrics, 9 * T).unwrap().1
    };
    let expected = ["counter a_total 5 @9..9 example{span_id=abc} trace 16 Some(AsDouble(1.0)) @9"];
    assert_eq!(of(r#"{Trace_ID="0123456789ABCDEF",span_id="abc"} 1"#), expected);
    let long =
        "counter a_total 5 @9..9 example{trace_id=0123456789abcdef0123456789abcdef01} trace 0 Some(AsDouble(1.0)) @7";
    assert_eq!(of(r#"{trace_id="0123456789abcdef0123456789abcdef01"} 1 7"#), [long]);
}

#[test]
fn a_page_may_say_when_it_was() {
    let mut last_page = LastPage::default();
    assert_eq!(text(&mut last_page, "# TYPE a counter\na 1 5000\nb 2\n", 9 * T), ["counter a 1 @5..5", "gauge b 2 @9"]);
    assert_eq!(text(&mut last_page, "# TYPE a counter\na 2 6000\nb 2\n", 9 * T), ["counter a 2 @5..6", "gauge b 2 @9"]);
    assert_eq!(text(&mut last_page, "c 1\n", 10 * T), ["gauge c 1 @10", "gauge b gone @10"], "a may come again");
}

#[test]
fn a_page_may_say_when_its_histograms_were() {
    let timed = |seconds: u64| {
        let line =
            |line: &str| if line.starts_with('#') { format!("{line}\n") } else { format!("{line} {seconds}000\n") };
        HISTOGRAM.lines().map(line).collect::<String>() + "# TYPE s summary\ns_count 1\n"
    };
    let mut last_page = LastPage::default();
    let expected = |histogram, summary| {
        let numbers = "count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1]";
        [format!("histogram h{{x=1}} {numbers} @{histogram}"), format!("summary s count 1 sum 0 [] @{summary}")]
    };
    assert_eq!(text(&mut last_page, &timed(5), 9 * T), expected("5..5", "9..9"));
    assert_eq!(text(&mut last_page, &timed(6), 10 * T), expected("5..6", "9..10"));
    assert_eq!(text(&mut last_page, "", 11 * T), ["summary s count 0 sum 0 [] @11 gone"]);
}

#[test]
fn the_last_line_may_have_no_end() {
    let mut last_page = LastPage::default();
    assert_eq!(text(&mut last_page, "a 1\n\nb 2", T), ["gauge a 1 @1", "gauge b 2 @1"]);
    let (taken, lines) = take(&mut last_page, "a 3\n\nb 4\n", Format::Text, 2 * T).unwrap();
    assert_eq!(
        (taken.is_same, lines.as_slice()),
        (true, ["gauge a 3 @2", "gauge b 4 @2"].map(str::to_owned).as_slice())
    );
}

/// SCRAPE-1
#[test]
fn a_page_that_is_refused_leaves_no_trace() {
    let mut last_page = LastPage::default();
    text(&mut last_page, "# TYPE a counter\na 5\nb 1\n", T);
    let mut out = b"before".to_vec();
    last_page.take(b"# TYPE a counter\na 2\nb x\n", &rules(Format::Text), 2 * T, &mut out).unwrap_err();
    assert_eq!(out, b"before");
    let lines = text(&mut last_page, "# TYPE a counter\na 5\nb 1\n", 3 * T);
    assert_eq!(lines, ["counter a 5 @1..3", "gauge b 1 @3"], "the counter did not begin anew");
}

#[test]
fn little_is_remembered_of_many_series() {
    let page: String = (0..900).map(|x| format!("name{{some_label=\"some value\",x=\"{x}\"}} {x}\n")).collect();
    let mut last_page = LastPage::default();
    text(&mut last_page, &page, T);
    assert!(last_page.memory() < 900 * 32, "{} bytes", last_page.memory());
    assert!(last_page.work(page.as_bytes(), &rules(Format::Text)).unwrap() > last_page.length());
}

#[test]
fn a_page_that_is_wrong_is_refused_as_a_whole() {
    let failed = |page: &str| take(&mut LastPage::default(), page, Format::Text, T).unwrap_err().to_string();
    assert_eq!(failed("a 1\nb x\n"), "line 2: a value that is no number, or too large for one");
    assert_eq!(failed("<html>\n"), "line 1: no value after the name and labels");
    assert_eq!(
        failed("<p>one</p> 1\n"),
        "line 1: a name with more than letters, digits, _ and : that is not in quotes"
    );
    let error =
        LastPage::default().take(b"# HELP a \xff\na 1\n", &rules(Format::Text), T, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "line 1: text that is not UTF-8");
    let many = "a 1\n".repeat(1001);
    assert_eq!(failed(&many), "1001 samples, the limit is 1000: let the target expose fewer series");
}

#[test]
fn metrics_are_no_larger_than_was_paid_for() {
    let mixed: String = (0..400).map(|x| format!("a{{x=\"{x}\"}} 1\nb{{x=\"{x}\"}} 1\n")).collect();
    let page = format!("# HELP a {0}\n# HELP b {0}\n{mixed}", "what it is".repeat(1000));
    let mut out = Vec::new();
    LastPage::default().take(page.as_bytes(), &rules(Format::Text), T, &mut out).unwrap();
    assert!(out.len() < most_bytes(page.len(), page.lines().count()), "{} bytes", out.len());
    assert!(ScopeMetrics::decode(out.as_slice()).unwrap().metrics[0].description.starts_with("what it is"));
}

/// What comes of a page that is taken if it is the same.
fn same(last_page: &mut LastPage, page: &str, time: u64) -> Option<Vec<String>> {
    let mut out = b"".to_vec();
    let taken = last_page.take_same(page.as_bytes(), &rules(Format::Text), time, &mut out).unwrap();
    assert!(taken.is_some() || out.is_empty());
    taken.map(|taken| {
        assert!(taken.is_same);
        view(&out)
    })
}

#[test]
fn a_page_is_taken_alone_if_it_is_the_same() {
    let mut last_page = LastPage::default();
    let page = "# TYPE a counter\na 5\nb{x=\"1\"} 1\n";
    assert_eq!((same(&mut last_page, page, T), last_page.work_if_same()), (None, None), "nothing is known");
    text(&mut last_page, page, T);
    assert!(last_page.work_if_same().is_some());
    for other in
        [page.replace(" 1\n", " 1\nc 1\n"), page.replace(" 5", " 5 # {x=\"y\"} 1"), page.replace(" 5", " 5 1000")]
    {
        assert_eq!(same(&mut last_page, &other, 2 * T), None, "{other}");
    }
    let lines = same(&mut last_page, &page.replace(" 5", " 7"), 3 * T).unwrap();
    assert_eq!(lines, ["counter a 7 @1..3", "gauge b{x=1} 1 @3"]);
    text(&mut last_page, &page.replace(" 5", " 8 # {x=\"y\"} 1"), 4 * T);
    assert_eq!(last_page.work_if_same(), None, "there was more than numbers");
    text(&mut last_page, page, 5 * T);
    assert!(last_page.work_if_same().is_some());
    last_page.mark_all_stale(6 * T, &mut Vec::new()).unwrap();
    assert_eq!((same(&mut last_page, page, 7 * T), last_page.work_if_same()), (None, None), "all is gone");
}

#[test]
fn a_page_that_is_the_same_takes_a_small_part_of_the_memory() {
    let page: String = (0..900).map(|x| format!("name{{some_label=\"some value\",x=\"{x}\"}} {x}\n")).collect();
    let mut last_page = LastPage::default();
    let first = last_page.work(page.as_bytes(), &rules(Format::Text)).unwrap();
    text(&mut last_page, &page, T);
    let (next, same) =
        (last_page.work(page.as_bytes(), &rules(Format::Text)).unwrap(), last_page.work_if_same().unwrap());
    assert!(same >= 2 * last_page.length() && 4 * same < first && first < next, "{same}, {first}, {next}");
}

#[test]
fn pages_that_may_have_exemplars_take_more_memory() {
    assert!(!has_exemplars(b"# HELP a # {x} 1\n  # TYPE a counter\na 1\n\n#"));
    assert!(has_exemplars(b"# TYPE a counter\na 1 # {x=\"y\"} 1\n"));
    assert!(has_exemplars(b"a 1\n# HELP a b\na{x=\"#\"} 1"), "it may be");
}

mod properties {
    use proptest::prelude::*;

    use super::labels::{rule, sorted, target_labels, view_request, with};
    use super::*;
    use crate::scrape::relabel::{Action, Relabeling};

    /// Lines that go together, now and then with something odd in them.
    fn page() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            r#"(a|b|h|h_bucket|h_sum|h_count|h_created|s|s_sum|s_count)(\{(x="[12]"|le="(1|2|\+Inf|x)"|quantile="0\.5")(,y="[ab\\\\"é]{0,3}")?\})? (-?[0-9]{1,3}(\.5)?|NaN|\+Inf|1e400|x)( [0-9]{1,4})?( # \{z="1"\} 2)?"#,
            r"# (TYPE|HELP|UNIT) (a|b|h|s) (counter|gauge|histogram|summary|info|x)",
            "# EOF",
            ".{0,12}",
        ];
        of_lines(line)
    }

    fn of_lines(line: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        proptest::collection::vec(line, 0..14).prop_map(|lines| lines.iter().map(|line| format!("{line}\n")).collect())
    }

    /// Lines of a few families, so that most pages have data points in common.
    fn family_line() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => r#"(a|a_total|b|c)\{x="[1-6]"\} [0-9]{1,2}( [1-9]000)?"#,
            1 => r#"a_created\{x="[1-6]"\} [1-9]"#,
            4 => r#"(h_bucket\{x="[1-3]",le="(1|2|\+Inf)"\}|(h_sum|h_count|h_created)\{x="[1-3]"\}) [0-9]{1,2}"#,
            2 => r#"(s\{x="[1-3]",quantile="0\.[59]"\}|(s_sum|s_count)\{x="[1-3]"\}) [0-9]{1,2}"#,
            1 => r"# (TYPE|HELP) (a|b|c|h|s|h_sum) (counter|gauge|histogram|summary)",
            1 => Just(String::new()),
        ]
    }

    /// Whole families, with many of the lines that they can have.
    fn families() -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (family, kind) in [("a", "counter"), ("b", "gauge"), ("c", "x")] {
            lines.push(format!("# HELP {family} what"));
            lines.push(format!("# TYPE {family} {kind}"));
            lines.extend((1..6).map(|x| format!("{family}{{x=\"{x}\"}} {x}")));
        }
        lines.push("# TYPE h histogram".to_owned());
        for x in 1..4 {
            lines.extend(["1", "2", "+Inf"].map(|le| format!("h_bucket{{x=\"{x}\",le=\"{le}\"}} {x}")));
            lines.extend(["sum", "count"].map(|part| format!("h_{part}{{x=\"{x}\"}} {x}")));
        }
        lines.push("# TYPE s summary".to_owned());
        for x in 1..4 {
            lines.extend(["0.5", "0.9"].map(|quantile| format!("s{{x=\"{x}\",quantile=\"{quantile}\"}} {x}")));
            lines.extend(["sum", "count"].map(|part| format!("s_{part}{{x=\"{x}\"}} {x}")));
        }
        lines
    }

    /// What happens to a page before it is scraped again. Numbers are places of lines.
    #[derive(Debug, Clone)]
    enum Change {
        Gone(usize, usize),
        Came(usize, String),
        Moved(usize, usize),
        Repeated(usize, usize),
        /// All values are this much higher, or lower.
        Counted(i32),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..99_usize, 1..12_usize).prop_map(|(at, count)| Change::Gone(at, count)),
            (0..99_usize, family_line()).prop_map(|(at, line)| Change::Came(at, line)),
            (0..99_usize, 0..99_usize).prop_map(|(from, to)| Change::Moved(from, to)),
            (0..99_usize, 0..99_usize).prop_map(|(from, to)| Change::Repeated(from, to)),
            (-5..9_i32).prop_map(Change::Counted),
        ]
    }

    fn apply(lines: &mut Vec<String>, change: &Change) {
        let count = lines.len();
        let within = |at: &usize| at % count.max(1);
        match change {
            Change::Came(at, line) => lines.insert((*at).min(count), line.clone()),
            _ if lines.is_empty() => {}
            Change::Gone(at, many) => drop(lines.drain(within(at)..count.min(within(at) + many))),
            Change::Moved(from, to) => {
                let line = lines.remove(within(from));
                lines.insert((*to).min(lines.len()), line);
            }
            Change::Repeated(from, to) => lines.insert(within(to), lines[within(from)].clone()),
            Change::Counted(more) => lines.iter_mut().filter(|line| line.contains('}')).for_each(|line| {
                let (series, rest) = line.split_once(' ').unwrap();
                let (value, time) = rest.split_once(' ').map_or((rest, None), |(value, time)| (value, Some(time)));
                let value = value.parse::<i32>().unwrap() + more;
                *line = time.map_or(format!("{series} {value}"), |time| format!("{series} {value} {time}"));
            }),
        }
    }

    /// Lines with labels that say which resource and scope they are of.
    fn labeled_page() -> impl Strategy<Value = String> {
        of_lines(prop_oneof![
            4 => r#"(a|b|h|h_bucket|h_count)\{(x="[12]",)?(job="[jk]",)?(otel_scope_name="[st]",)?(otel_scope_k="[12]",)?(le="(1|\+Inf)")?\} [0-9]{1,2}( [5-9])?( # \{\} 2)?"#,
            1 => r#"(target_info|otel_scope_info)\{(x="[12]",)?(job="j",)?(otel_scope_name="[st]")?\} 1"#,
            1 => r"# TYPE (a|b|h|target_info) (counter|gauge|histogram|info)",
        ])
    }

    fn any_rules() -> impl Strategy<Value = PageRules> {
        let rules = [
            rule(Action::Keep, "__name__", "a|h.*|t.*", "", ""),
            rule(Action::Drop, "x", "1", "", ""),
            rule(Action::LabelDrop, "", "x", "", ""),
            rule(Action::Replace, "x", "(.+)", "job", "$1"),
            rule(Action::Replace, "__name__", "b", "__name__", "a"),
            rule(Action::LabelMap, "", "otel_scope_k", "", "otel_scope_name"),
        ];
        let relabel = proptest::sample::subsequence(rules.to_vec(), 0..3);
        let labels = proptest::sample::select(vec![vec![], target_labels(&[("job", "j"), ("x", "own")])]);
        (relabel, labels, any::<[bool; 3]>()).prop_map(|(relabel, target_labels, [honor_labels, tracks, honors])| {
            PageRules {
                relabel: Relabeling::new(relabel).unwrap(),
                target_labels,
                honor_labels,
                track_timestamps_staleness: tracks,
                honor_timestamps: honors,
                ..with([])
            }
        })
    }

    /// Points that are not gone, without their start times.
    fn points(lines: &[String]) -> Vec<String> {
        let new = lines.iter().filter(|line| !line.ends_with("gone") && !line.contains(" gone @"));
        let without_start = |line: &String| match line.split_once('@') {
            Some((before, times)) => format!("{before}@{}", times.split_once("..").map_or(times, |(_, rest)| rest)),
            None => line.clone(),
        };
        new.map(without_start).collect()
    }

    /// The same in an order of their own: a point that is gone may bring its scope to another place.
    fn by_point(lines: &[String]) -> Vec<(String, String, String)> {
        let (mut resource, mut scope, mut all) = (String::new(), String::new(), Vec::new());
        for line in points(lines) {
            if line.starts_with("resource") {
                (resource, scope) = (line, String::new());
            } else if line.contains("scope ") || line == "own scope" {
                scope = line;
            } else {
                all.push((resource.clone(), scope.clone(), line));
            }
        }
        all
    }

    proptest! {
        /// Copying what was there before gives the same bytes as reading all of each page.
        #[test]
        fn copies_are_what_would_be_read(
            changes in proptest::collection::vec(proptest::collection::vec(change(), 0..4), 1..6),
            is_openmetrics in any::<bool>(),
        ) {
            let rules = rules(if is_openmetrics { Format::OpenMetrics } else { Format::Text });
            let mut lines = families();
            let (mut last_page, mut anew) = (LastPage::default(), LastPage::default());
            for (time, changes) in (1..).zip(&changes) {
                let page: String = lines.iter().map(|line| format!("{line}\n")).collect();
                let page = if is_openmetrics { format!("{page}# EOF\n") } else { page };
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                let taken = last_page.take(page.as_bytes(), &rules, time * T, &mut out).unwrap();
                let other = anew.read(page.as_bytes(), &rules, time * T, &mut expected, false).unwrap();
                let mut points: Vec<u64> = last_page.lines.composites.iter().map(|composite| composite.hash).collect();
                points.sort_unstable();
                if points.windows(2).any(|pair| pair[0] == pair[1]) {
                    // A family with a comment in its middle has the same point twice, and it is not said when each began.
                    break;
                }
                prop_assert_eq!(view(&out), view(&expected), "{}", page);
                prop_assert!(out == expected);
                prop_assert_eq!(Taken { is_same: false, ..taken }, other);
                changes.iter().for_each(|change| apply(&mut lines, change));
            }
        }

        /// Whatever pages follow each other: what comes of each can be read, and the same page again gives the same.
        #[test]
        fn whatever_is_on_pages_metrics_are_well_formed(pages in proptest::collection::vec(page(), 1..5)) {
            let mut last_page = LastPage::default();
            for (time, page) in (1..).zip(&pages) {
                let Ok((taken, lines)) = take(&mut last_page, page, Format::Text, time * T) else { continue };
                let is_new = |line: &&String| !line.ends_with("gone") && !line.contains(" gone @");
                let new: Vec<_> = lines.iter().filter(is_new).cloned().collect();
                let (again, same) = take(&mut last_page, page, Format::Text, time * T).unwrap();
                prop_assert_eq!(again.samples, taken.samples);
                prop_assert_eq!(again.added, 0);
                prop_assert_eq!(&same, &new, "{}", page);
            }
        }

        /// With any rules: a page gives the same points in the same resources and scopes, whether it is compared with
        /// the one before it, with itself, or with none.
        #[test]
        fn rules_give_the_same_by_comparison(
            rules in any_rules(),
            pages in proptest::collection::vec(labeled_page(), 1..5),
        ) {
            let mut last_page = LastPage::default();
            for (time, page) in (1..).zip(&pages) {
                let mut fresh = LastPage::default();
                let Ok(expected) = sorted(&mut fresh, page, &rules, time * T) else { continue };
                let anew = sorted(&mut last_page, page, &rules, time * T).unwrap();
                prop_assert_eq!(by_point(&anew), by_point(&expected), "{}", page);
                let same = sorted(&mut last_page, page, &rules, time * T).unwrap();
                prop_assert_eq!(by_point(&same), by_point(&expected), "{}", page);
                prop_assert!(!same.iter().any(|line| line.contains("gone")), "{}", page);
            }
            let mut out = Vec::new();
            last_page.mark_all_stale(9 * T, &mut out).unwrap();
            prop_assert!(points(&view_request(&out)).iter().all(|line| !line.contains('@')));
        }

        #[test]
        fn any_bytes_are_taken_or_refused(page in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            let mut last_page = LastPage::default();
            let rules = rules(Format::OpenMetrics);
            let _ = last_page.take(&page, &rules, T, &mut out);
            last_page.mark_all_stale(2 * T, &mut out).unwrap();
            view(&out);
        }
    }
}
