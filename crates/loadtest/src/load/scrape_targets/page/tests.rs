use prost::encoding::{bytes, double, string};

use super::*;
use crate::flags::Percent;
use crate::scan::remote_write;
use crate::series::{Finding, Labels, Lines, PageReport, PageTally};

fn args(types: &[MetricType]) -> PageArgs {
    PageArgs {
        metrics: 4,
        series: 3,
        types: types.to_vec(),
        labels: 6,
        line_size: 220,
        churn: Percent::default(),
        format: PageFormat::Text,
    }
}

const LINE: Lines = Lines::All(1);
const ALL: [MetricType; 4] = [MetricType::Gauge, MetricType::Counter, MetricType::Histogram, MetricType::Summary];

fn next(page: &mut Page) -> String {
    String::from_utf8(page.next().unwrap().1.to_vec()).unwrap()
}

/// What a line with a value of its own is, as a data point of gauges and counters is read.
fn found(line: &str) -> Finding {
    let (name, rest) = line.split_once('{').unwrap();
    let (labels, value) = rest.split_once("} ").unwrap();
    let mut read = Labels::of(name.as_bytes());
    for label in labels.split(',') {
        let (key, value) = label.split_once('=').unwrap();
        read.add(key.as_bytes(), value.trim_matches('"').as_bytes());
    }
    read.sample(value.parse().unwrap(), LINE)
}

#[test]
fn a_line_is_as_long_as_wanted_and_known_again() {
    let mut page = Page::new(&args(&[MetricType::Gauge]), 7);
    let text = next(&mut page);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!((lines.len(), page.samples(), page.bytes()), (12, 12, text.len() as u64));
    for (series, line) in (0..).zip(lines) {
        assert!((214..=220).contains(&(line.len() + 1)), "{} {line}", line.len());
        assert_eq!(found(line), Finding::Sample { target: 7, series, scrape: 1, lines: LINE }, "{line}");
    }
}

#[test]
fn a_value_tells_from_which_scrape_it_is() {
    let mut page = Page::new(&args(&[MetricType::Counter]), 0);
    for scrape in 1..=3 {
        let text = next(&mut page);
        let line = text.lines().rfind(|line| !line.starts_with('#')).unwrap();
        assert_eq!(found(line), Finding::Sample { target: 0, series: 11, scrape, lines: LINE }, "{line}");
        assert!(line.starts_with("load_counter_00003_total{"), "{line}");
    }
}

#[test]
fn series_take_the_place_of_others_and_are_known_again() {
    let churned = PageArgs { churn: "25".parse().unwrap(), ..args(&[MetricType::Gauge]) };
    let mut page = Page::new(&churned, 0);
    let mut before = next(&mut page);
    for scrape in 2..=5 {
        let text = next(&mut page);
        let labels = |line: &str| line.split_once(' ').unwrap().0.to_owned();
        let others = before.lines().zip(text.lines()).filter(|(a, b)| !a.starts_with('#') && labels(a) != labels(b));
        assert_eq!(others.count(), 3, "a quarter of the series");
        for (series, line) in (0..).zip(text.lines().filter(|line| !line.starts_with('#'))) {
            assert_eq!(found(line), Finding::Sample { target: 0, series, scrape, lines: LINE }, "{line}");
        }
        before = text;
    }
}

#[test]
fn all_types_are_there_in_both_formats() {
    for (format, title, end) in [
        (PageFormat::Text, "load_counter_00001_total", "}"),
        (PageFormat::Openmetrics, "load_counter_00001", "# EOF\n"),
    ] {
        let mut page = Page::new(&PageArgs { format, ..args(&ALL) }, 0);
        let text = next(&mut page);
        assert!(text.contains(&format!("# TYPE {title} counter\n")), "{text}");
        assert_eq!(text.ends_with("# EOF\n"), end == "# EOF\n");
        assert_eq!(page.samples(), 3 * (1 + 1 + 12 + 5));
        assert!(text.contains("load_histogram_00002_bucket{cycle=\"000000\",digest=\""));
        assert_eq!(text.matches(",le=\"+Inf\",").count(), 3);
        assert_eq!(text.matches(",quantile=\"0.99\",").count(), 3);
        // Series 6: ten buckets from 6 on, and the count is the last of them.
        let values: Vec<&str> = text.lines().filter(|line| line.contains("series=\"0000006\"")).collect();
        assert!(values[0].ends_with(" 1000010000006") && values[9].ends_with(" 1000010000015"), "{values:?}");
        assert!(values[10].contains("_sum{") && values[10].ends_with(" 1000010000006"), "{values:?}");
        assert!(values[11].contains("_count{") && values[11].ends_with(" 1000010000015"), "{values:?}");
    }
}

/// A line as a series of a write request, labels first.
fn written(line: &str) -> Vec<u8> {
    let (name, rest) = line.split_once('{').unwrap();
    let (labels, value) = rest.split_once("} ").unwrap();
    let own = labels.split(',').map(|label| label.split_once('=').unwrap());
    let (mut series, mut sample, mut request) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in own.chain([("__name__", name), ("job", "j"), ("instance", "i")]) {
        let mut label = Vec::new();
        string::encode(1, &key.to_owned(), &mut label);
        string::encode(2, &value.trim_matches('"').to_owned(), &mut label);
        bytes::encode(1, &label, &mut series);
    }
    double::encode(1, &value.parse().unwrap(), &mut sample);
    bytes::encode(2, &sample, &mut series);
    bytes::encode(1, &series, &mut request);
    request
}

#[test]
fn every_line_is_known_again_by_remote_write() {
    let mut page = Page::new(&args(&ALL), 7);
    let text = next(&mut page);
    let request: Vec<u8> = text.lines().filter(|line| !line.starts_with('#')).flat_map(written).collect();
    let mut tally = PageTally::default();
    for _ in 0..2 {
        tally.add(&remote_write::scan(&request, true).unwrap().samples);
    }
    let samples = page.samples();
    let expected = PageReport { samples, duplicates: samples, scrapes: vec![(7, 1, samples)], ..PageReport::default() };
    assert_eq!(tally.report(true), expected);
}

#[test]
fn a_page_that_is_still_being_sent_is_not_changed() {
    let mut page = Page::new(&args(&[MetricType::Gauge]), 0);
    let (_, first) = page.next().unwrap();
    let copy = first.to_vec();
    let (scrape, second) = page.next().unwrap();
    assert_eq!((scrape, first.to_vec()), (2, copy));
    assert_ne!(first, second);
}
