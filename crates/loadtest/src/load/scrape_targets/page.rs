//! A page that is written once. For each scrape, values are changed in place, where they always stand.

use std::fmt::Write;

use bytes::{Bytes, BytesMut};

use super::args::{MetricType, PageArgs, PageFormat};
use crate::series::{self, BOUNDS, CYCLE, NUMBER, QUANTILES, SCRAPE_DIGITS, TARGET, digest_of, value};

/// Digits of what is written in a fixed width.
const CYCLE_DIGITS: usize = 6;
const DIGEST_DIGITS: usize = 16;
/// Labels cannot be shorter: each has the number of its series.
const SHORTEST_LABEL: usize = 8;

/// The page of a target, and where on it is what changes.
#[derive(Debug)]
pub(super) struct Page {
    text: Bytes,
    lines: Vec<Line>,
    series: Vec<Series>,
    /// Scrapes so far.
    scrape: u64,
    /// Series that others take the place of at each scrape.
    replaced: u64,
}

/// Where a line's value stands, and its label `cycle`, which is followed by the digest.
#[derive(Debug, Clone, Copy)]
struct Line {
    value: usize,
    cycle: usize,
}

#[derive(Debug, Clone, Copy)]
struct Series {
    first_line: usize,
    /// Of its name and all labels but `cycle`.
    digest: u64,
}

impl Page {
    /// The page of target `target`, not scraped yet.
    pub(super) fn new(args: &PageArgs, target: u32) -> Self {
        let mut writer = Writer::new(args, target);
        for metric in 0..args.metrics {
            writer.metric(metric);
        }
        if args.format == PageFormat::Openmetrics {
            writer.text.push_str("# EOF\n");
        }
        let Writer { text, lines, series, .. } = writer;
        let replaced = share_of(series.len(), args.churn.fraction());
        Self { text: text.into(), lines, series, scrape: 0, replaced }
    }

    /// Lines with a value: the samples.
    pub(super) fn samples(&self) -> u64 {
        self.lines.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// The page for the next scrape and its number; nothing when numbers have run out.
    pub(super) fn next(&mut self) -> Option<(u64, Bytes)> {
        self.scrape = (self.scrape + 1 < series::SCRAPES).then_some(self.scrape + 1)?;
        // Only a page that is still being sent has to be copied.
        let text = std::mem::take(&mut self.text);
        let mut text = text.try_into_mut().unwrap_or_else(|text| BytesMut::from(&text[..]));
        let mut digits = [0; SCRAPE_DIGITS];
        digits.copy_from_slice(&value(self.scrape, 0).to_string().as_bytes()[..SCRAPE_DIGITS]);
        for line in &self.lines {
            text[line.value..line.value + SCRAPE_DIGITS].copy_from_slice(&digits);
        }
        self.churn(&mut text);
        self.text = text.freeze();
        Some((self.scrape, self.text.clone()))
    }

    /// Gives the next few series another label, so that they are others.
    fn churn(&self, text: &mut BytesMut) {
        let all = self.series.len() as u64;
        let cycle = cycle_text(self.scrape);
        for step in 0..self.replaced {
            let index = usize::try_from((self.scrape * self.replaced + step) % all).unwrap_or(0);
            let digest = digest_text(self.series[index].digest, &cycle);
            let end = self.series.get(index + 1).map_or(self.lines.len(), |next| next.first_line);
            for line in &self.lines[self.series[index].first_line..end] {
                text[line.cycle..line.cycle + CYCLE_DIGITS].copy_from_slice(cycle.as_bytes());
                let digest_at = line.cycle + CYCLE_DIGITS + between().len();
                text[digest_at..digest_at + DIGEST_DIGITS].copy_from_slice(digest.as_bytes());
            }
        }
    }
}

/// What stands between the values of the labels `cycle` and `digest`.
fn between() -> &'static str {
    "\",digest=\""
}

fn cycle_text(scrape: u64) -> String {
    format!("{scrape:0CYCLE_DIGITS$}")
}

fn digest_text(without_cycle: u64, cycle: &str) -> String {
    let digest = without_cycle.wrapping_add(digest_of(CYCLE.as_bytes(), cycle.as_bytes()));
    format!("{digest:0DIGEST_DIGITS$x}")
}

#[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a share of a page's series is small")]
#[expect(clippy::cast_possible_truncation, reason = "a share of a page's series is small")]
fn share_of(series: usize, share: f64) -> u64 {
    (series as f64 * share).round() as u64
}

/// Writes a page.
struct Writer<'a> {
    args: &'a PageArgs,
    target: String,
    /// Length of each label that is only there to be long.
    label_bytes: usize,
    text: String,
    lines: Vec<Line>,
    series: Vec<Series>,
}

impl<'a> Writer<'a> {
    fn new(args: &'a PageArgs, target: u32) -> Self {
        // What a line of a gauge has beside the values of the labels: with names of one digit.
        let fixed = "load_gauge_00000{cycle=\"000000\",digest=\"0123456789abcdef\",series=\"0000000\",target=\"00000\"} 1000000000000\n";
        let labels = usize::from(args.labels);
        let names: usize = (0..labels).map(|label| format!("label_{label}=\"\",").len()).sum();
        let rest = (args.line_size as usize).saturating_sub(fixed.len() + names);
        let label_bytes = (rest / labels.max(1)).max(SHORTEST_LABEL);
        let target = format!("{target:05}");
        Self { args, target, label_bytes, text: String::new(), lines: Vec::new(), series: Vec::new() }
    }

    /// A metric with all its series.
    fn metric(&mut self, metric: u32) {
        let types = &self.args.types;
        let of_type = types[metric as usize % types.len()];
        let (word, suffix) = match of_type {
            MetricType::Gauge => ("gauge", ""),
            MetricType::Counter => ("counter", "_total"),
            MetricType::Histogram => ("histogram", ""),
            MetricType::Summary => ("summary", ""),
        };
        let family = format!("load_{word}_{metric:05}");
        let name = format!("{family}{suffix}");
        let title = if self.args.format == PageFormat::Openmetrics { &family } else { &name };
        self.push(format_args!("# HELP {title} A {word} of a load test.\n# TYPE {title} {word}\n"));
        for series in 0..self.args.series {
            let number = u64::from(metric) * u64::from(self.args.series) + u64::from(series);
            self.series(of_type, &name, number);
        }
    }

    fn series(&mut self, of_type: MetricType, name: &str, number: u64) {
        let rest = self.labels(number);
        let own = [(NUMBER, format!("{number:07}")), (TARGET, self.target.clone())];
        let padding = (0..self.args.labels).map(|label| (format!("label_{label}"), self.padding(number)));
        let pairs = own.map(|(key, value)| (key.to_owned(), value)).into_iter().chain(padding);
        let digest = pairs.fold(digest_of(b"", name.as_bytes()), |sum, (key, value)| {
            sum.wrapping_add(digest_of(key.as_bytes(), value.as_bytes()))
        });
        self.series.push(Series { first_line: self.lines.len(), digest });
        let head = Head { name, digest, rest: &rest };
        let base = value(0, number);
        match of_type {
            MetricType::Gauge | MetricType::Counter => self.line(&head, "", None, base),
            MetricType::Histogram => {
                for (bound, count) in BOUNDS.iter().zip(base..) {
                    self.line(&head, "_bucket", Some(("le", bound)), count);
                }
                self.line(&head, "_sum", None, base);
                self.line(&head, "_count", None, base + BOUNDS.len() as u64 - 1);
            }
            MetricType::Summary => {
                for (quantile, at) in QUANTILES.iter().zip(base..) {
                    self.line(&head, "", Some(("quantile", quantile)), at);
                }
                self.line(&head, "_sum", None, base);
                self.line(&head, "_count", None, base);
            }
        }
    }

    /// The labels that a series keeps.
    fn labels(&self, number: u64) -> String {
        let mut text = String::new();
        for label in 0..self.args.labels {
            // Writing to a String cannot fail.
            let _ = write!(text, ",label_{label}=\"{}\"", self.padding(number));
        }
        let _ = write!(text, ",{NUMBER}=\"{number:07}\",{TARGET}=\"{}\"", self.target);
        text
    }

    fn padding(&self, number: u64) -> String {
        format!("{number:07}{}", "v".repeat(self.label_bytes - SHORTEST_LABEL + 1))
    }

    fn line(&mut self, head: &Head<'_>, suffix: &str, extra: Option<(&str, &str)>, value: u64) {
        self.push(format_args!("{}{suffix}{{{CYCLE}=\"", head.name));
        let cycle = cycle_text(0);
        let cycle_at = self.text.len();
        let digest = digest_text(head.digest, &cycle);
        self.push(format_args!("{cycle}{}{digest}\"", between()));
        if let Some((key, value)) = extra {
            self.push(format_args!(",{key}=\"{value}\""));
        }
        self.push(format_args!("{}}} ", head.rest));
        self.lines.push(Line { value: self.text.len(), cycle: cycle_at });
        self.push(format_args!("{value}\n"));
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(text);
    }
}

/// What the lines of a series have in common.
struct Head<'a> {
    name: &'a str,
    digest: u64,
    rest: &'a str,
}

#[cfg(test)]
mod tests;
