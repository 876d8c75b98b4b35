//! The options of `weir load scrape-targets`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use weir_units::parse_positive_duration;

use crate::flags::{Interval, Percent};
use crate::series;
use crate::sink::faults::Delay;

const EXAMPLES: &str = "\
Examples:
  weir load scrape-targets
  weir load scrape-targets --targets 20 --metrics 1000 --series 10 --report pages.json
  weir load scrape-targets --types gauge,counter,histogram,summary --format openmetrics
  weir load scrape-targets --targets 5 --churn 10
  weir load scrape-targets --fault-503 20 --delay 2s:10 --hang 1

Then, for a MetricPipeline with all of them:
  metadata:
    annotations:
      weir.dev/static-targets: http://127.0.0.1:14320/targets/0/metrics, http://127.0.0.1:14320/targets/1/metrics

`weir sink --scraped` knows the samples again, each by its labels and its value.";

/// Serve pages of metrics to be scraped, as many targets do; say which pages were read to the end.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub struct ScrapeTargetsArgs {
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of all targets, which have a path each; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 14320)]
    pub port: u16,
    /// Number of targets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    pub targets: u32,
    /// Expected scrape interval; only used to log samples per second
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_positive_duration)]
    pub interval_hint: Duration,
    /// How long to serve; without it, until stopped
    #[arg(short, long, value_name = "DURATION")]
    pub duration: Option<Interval>,
    /// Write to this file at the end, as JSON, which pages were read to the end
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// What pages look like
    #[command(flatten)]
    pub look: PageArgs,
    /// What to do wrong on purpose
    #[command(flatten)]
    pub faults: PageFaults,
}

/// What pages look like.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Pages")]
pub struct PageArgs {
    /// Metrics of a target
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    pub metrics: u32,
    /// Series per metric; a histogram series has one line per bucket, plus _sum and _count
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub series: u32,
    /// Types of the metrics, in turn
    #[arg(long, value_enum, value_name = "TYPE", value_delimiter = ',', default_value = "gauge")]
    pub types: Vec<MetricType>,
    /// Labels per series, besides cycle, digest, series and target
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(0..=100))]
    pub labels: u16,
    /// Length of a line of a gauge; labels are made longer to reach it
    #[arg(long, value_name = "BYTES", default_value_t = 220, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub line_size: u32,
    /// Percentage of series that are replaced at each scrape
    #[arg(long, value_name = "PCT", default_value = "0")]
    pub churn: Percent,
    /// Format of the pages
    #[arg(long, value_enum, default_value = "text")]
    pub format: PageFormat,
}

/// What targets do wrong on purpose, drawn for each scrape.
#[derive(Args, Debug, Clone, Default, PartialEq)]
#[command(next_help_heading = "Faults")]
pub struct PageFaults {
    /// Answer PCT percent of scrapes with 503
    #[arg(long, value_name = "PCT", default_value = "0")]
    pub fault_503: Percent,
    /// Answer PCT percent of scrapes late by DURATION
    #[arg(long, value_name = "DURATION:PCT")]
    pub delay: Option<Delay>,
    /// Send PCT percent of pages in half, and nothing more
    #[arg(long, value_name = "PCT", default_value = "0")]
    pub hang: Percent,
    /// Seed of the random draws
    #[arg(long, value_name = "NUMBER", default_value_t)]
    pub seed: u64,
}

/// A type of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricType {
    /// A line for each series
    Gauge,
    /// The same, with _total behind the name
    Counter,
    /// Ten buckets, a sum and a count for each series
    Histogram,
    /// Three quantiles, a sum and a count for each series
    Summary,
}

/// A format of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageFormat {
    /// Prometheus's text format 0.0.4
    Text,
    /// OpenMetrics 1.0
    Openmetrics,
}

impl PageFormat {
    /// Its content type.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::Openmetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl PageArgs {
    /// Series of a target, each of which becomes one data point.
    ///
    /// # Errors
    /// There are more than their numbers have digits for.
    pub(super) fn all_series(&self) -> anyhow::Result<u64> {
        let all = u64::from(self.metrics) * u64::from(self.series);
        let most = series::SERIES - 100;
        ensure!(all <= most, "cannot serve {all} series on a page: use at most {most}; lower --metrics or --series");
        Ok(all)
    }
}
