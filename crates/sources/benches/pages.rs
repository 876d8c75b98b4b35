//! What a sample of a scraped page costs, in nanoseconds of one core, and what is remembered of it, in bytes: the best
//! of several rounds.
//!
//! `cargo bench -p weir-sources`. It measures what becomes of pages that are there, not how they are fetched and where
//! their metrics go; nothing is asserted.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Instant;

use weir_sources::scrape::{Format, LastPage, PageError, PageRules};

const SAMPLES: usize = 10_000;
const ROUNDS: u64 = 40;

/// What the samples of a page look like.
struct Shape {
    name: &'static str,
    /// Series of one metric, or histograms.
    series: usize,
    labels: Labels,
    is_histogram: bool,
}

#[derive(Clone, Copy)]
enum Labels {
    /// The same seven in all series, and a number that tells them apart, as Avalanche has it.
    Alike,
    /// Of objects in a cluster: a namespace, a name that ends with random letters, and an id.
    Objects,
    /// Three short ones.
    Few,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "series with labels alike, 260 bytes", series: 10, labels: Labels::Alike, is_histogram: false },
    Shape { name: "series of objects in a cluster", series: 100, labels: Labels::Objects, is_histogram: false },
    Shape { name: "series with few labels, 3 of a metric", series: 3, labels: Labels::Few, is_histogram: false },
    Shape { name: "histograms with 10 buckets", series: 10, labels: Labels::Few, is_histogram: true },
];

const BOUNDS: [&str; 10] = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "+Inf"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    for shape in &SHAPES {
        let steady: Vec<String> = (0..4).map(|round| page(shape, round, 0)).collect();
        let churning: Vec<String> = (0..4).map(|round| page(shape, round, round)).collect();
        let bytes = steady[0].len();
        writeln!(out, "{}: {bytes} bytes", shape.name)?;
        let (same, known, metrics) = measure(&steady, false)?;
        let per_sample = |bytes: usize| bytes as f64 / samples(&steady[0]);
        writeln!(out, "  the same lines: {same:.0} ns, {:.0} bytes known", per_sample(known))?;
        writeln!(out, "  10 % are new and 10 % gone: {:.0} ns", measure(&churning, false)?.0)?;
        writeln!(out, "  never seen: {:.0} ns, {:.0} bytes made", measure(&steady, true)?.0, per_sample(metrics))?;
    }
    Ok(())
}

/// Nanoseconds per sample, and how many bytes are known and made.
fn measure(pages: &[String], forgets: bool) -> Result<(f64, usize, usize), PageError> {
    let rules = PageRules::of(Format::Text);
    let (mut last_page, mut best, mut made) = (LastPage::default(), f64::MAX, 0);
    for (round, page) in (1..=ROUNDS).zip(pages.iter().cycle()) {
        if forgets {
            last_page = LastPage::default();
        }
        let began = Instant::now();
        let mut out = Vec::with_capacity(last_page.length());
        last_page.take(page.as_bytes(), &rules, round, &mut out)?;
        // The first round knows no page.
        if round > 1 {
            best = best.min(began.elapsed().as_nanos() as f64);
        }
        made = out.len();
    }
    Ok((best / samples(&pages[0]), last_page.memory(), made))
}

fn samples(page: &str) -> f64 {
    page.lines().filter(|line| !line.starts_with('#')).count() as f64
}

/// A page. Those of another `generation` have other series in a tenth of their places.
fn page(shape: &Shape, round: u64, generation: u64) -> String {
    let mut page = String::new();
    let lines = if shape.is_histogram { BOUNDS.len() + 2 } else { 1 };
    for number in 0..SAMPLES / (shape.series * lines) {
        let kind = if shape.is_histogram { "histogram" } else { ["gauge", "counter"][number % 2] };
        let name = format!("application_subsystem_measurements_{number}");
        let _ = writeln!(page, "# HELP {name} What is measured there.\n# TYPE {name} {kind}");
        for series in 0..shape.series {
            let place = (number * shape.series + series) as u64;
            let own = if place % 10 == 7 { place << 8 | generation } else { place << 8 };
            let labels = labels(shape.labels, own);
            let value = round * 7 + place;
            if shape.is_histogram {
                histogram(&mut page, &name, &labels, value);
            } else {
                let _ = writeln!(page, "{name}{{{labels}}} {value}");
            }
        }
    }
    page
}

fn histogram(page: &mut String, name: &str, labels: &str, value: u64) {
    for (count, bound) in (value..).zip(BOUNDS) {
        let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    let _ = writeln!(page, "{name}_sum{{{labels}}} {value}.5\n{name}_count{{{labels}}} {}", value + 9);
}

fn labels(labels: Labels, own: u64) -> String {
    let random = own.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match labels {
        Labels::Alike => {
            let keys = (0..3).map(|key| format!("label_key_kkkkk_{key}=\"label_val_vvvvv_value_{key}\","));
            let keys: String = keys.collect();
            format!(
                "{keys}cycle_id=\"0\",pod=\"some-deployment-5f7d8c9b4-abcde\",namespace=\"default\",series_id=\"{own}\""
            )
        }
        Labels::Objects => {
            let other = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            format!(
                "namespace=\"team-{}\",pod=\"service-{}-{:010x}-{:05x}\",uid=\"{other:016x}-{random:016x}\",phase=\"Running\"",
                own >> 8 & 15,
                own >> 12 & 31,
                random >> 24,
                other >> 44
            )
        }
        Labels::Few => format!("method=\"GET\",route=\"/api/v1/items/{own}\",code=\"200\""),
    }
}
