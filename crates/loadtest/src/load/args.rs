//! The options of `weir load`, and the load that they describe.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use weir_units::{parse_duration, parse_positive_duration};

use super::log_files::LogFilesArgs;
use super::payload::ShapeArgs;
use super::scrape_targets::ScrapeTargetsArgs;
use crate::codec::Compression;
use crate::flags::Interval;
use crate::signal::Signal;

const EXAMPLES: &str = "\
Examples:
  weir load traces --endpoint 127.0.0.1:4317 --rate 1000 --duration 1m
  weir load traces --max --duration 30s --report load.json
  weir load metrics --producers 2000 --push-interval 30s
  weir load logs --rate 1000 --size 2000
  weir load log-files /var/log/pods --containers 10 --rate 1000 --rotate-size 10MiB --manifest lines.json
  weir load scrape-targets --targets 20 --metrics 1000 --series 10
  weir load traces --http --endpoint 127.0.0.1:4318 --items 10000 --batch 10 --attributes 5";

/// Generate telemetry and send it to an OTLP endpoint.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub struct LoadArgs {
    /// What to send
    #[arg(value_enum, value_name = "SIGNAL", required = true)]
    pub signal: Option<Signal>,
    /// Where, and how fast
    #[command(flatten)]
    pub send: SendArgs,
    /// What to do instead of sending
    #[command(subcommand)]
    pub instead: Option<LoadCommand>,
}

/// Load that is not sent to an endpoint.
#[derive(Subcommand, Debug, Clone)]
pub enum LoadCommand {
    /// Write log files of containers as the kubelet and the runtime do; count what an agent made of them
    LogFiles(Box<LogFilesArgs>),
    /// Serve pages of metrics to be scraped, as many targets do
    ScrapeTargets(Box<ScrapeTargetsArgs>),
}

/// Where to send what, and how fast.
#[derive(Args, Debug, Clone)]
pub struct SendArgs {
    /// Where to send, plain text [default: 127.0.0.1:4317; with --http 127.0.0.1:4318]
    #[arg(long, value_name = "HOST:PORT")]
    pub endpoint: Option<String>,
    /// Use OTLP/HTTP with protobuf over HTTP/1.1 instead of OTLP/gRPC
    #[arg(long)]
    pub http: bool,
    /// Connections, each with one request in flight
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub concurrency: u16,
    /// Spans, points or records per second (open loop); without it, as many as are answered
    #[arg(short, long, value_name = "ITEMS_PER_SECOND", conflicts_with_all = ["max", "producers"], value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// So many producers, each of which pushes one request in every --push-interval, evenly spread (open loop)
    #[arg(long, value_name = "N", conflicts_with = "max", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub producers: Option<u32>,
    /// Time between two pushes of a producer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_positive_duration)]
    pub push_interval: Duration,
    /// As many as are answered (closed loop); the default
    #[arg(long)]
    pub max: bool,
    /// How long to send; without --duration and --items, until stopped
    #[arg(short, long, value_name = "DURATION")]
    pub duration: Option<Interval>,
    /// How many spans, points or records to send
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub items: Option<u64>,
    /// Id of the first item; the others follow
    #[arg(long, value_name = "ID", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub first_id: u64,
    /// Compress request bodies
    #[arg(long, value_enum, default_value = "none")]
    pub compression: Compression,
    /// Give up waiting for an answer after this time
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Send a refused or unanswered request again, as exporters do, until it is acknowledged
    #[arg(long)]
    pub retry: bool,
    /// Write a report with all acknowledged ids as JSON to this file at the end
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// What items look like
    #[command(flatten)]
    pub shape: ShapeArgs,
}

impl SendArgs {
    pub(crate) fn offered(&self) -> Offered {
        match (self.rate, self.producers) {
            (Some(rate), _) => Offered::Rate(rate),
            (None, Some(count)) => Offered::Producers { count, every: self.push_interval },
            (None, None) => Offered::Maximum,
        }
    }
}

/// How much is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// As much as is answered.
    Maximum,
    /// Items per second.
    Rate(u64),
    /// Producers that push one request each in every interval.
    Producers { count: u32, every: Duration },
}

/// Items per request when nothing else was said: what an application has to push, what a log exporter gathers, and what a
/// gateway gathers.
const PUSHED: u32 = 20;
const LOGGED: u32 = 100;
const GATHERED: u32 = 512;

impl Offered {
    /// Items per request when nothing else was said.
    pub(crate) fn usual_batch(self, signal: Signal) -> u32 {
        match (self, signal) {
            (Self::Producers { .. }, _) => PUSHED,
            (Self::Rate(_), Signal::Logs) => LOGGED,
            _ => GATHERED,
        }
    }

    /// Time between two requests of `batch` items; zero sends as fast as answers come.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
    pub(crate) fn interval(self, batch: u32) -> Duration {
        match self {
            Self::Maximum => Duration::ZERO,
            Self::Rate(rate) => Duration::from_secs_f64(f64::from(batch) / rate as f64),
            Self::Producers { count, every } => every / count,
        }
    }

    /// Items per second in requests of `batch`; none when it is as many as are answered.
    pub(crate) fn items_per_s(self, batch: u32) -> Option<f64> {
        let interval = self.interval(batch);
        (!interval.is_zero()).then(|| f64::from(batch) / interval.as_secs_f64())
    }

    /// As much by each of so many clients.
    pub(crate) fn times(self, clients: u16) -> Self {
        match self {
            Self::Maximum => Self::Maximum,
            Self::Rate(rate) => Self::Rate(rate.saturating_mul(clients.into())),
            Self::Producers { count, every } => Self::Producers { count: count.saturating_mul(clients.into()), every },
        }
    }

    /// In words, for the heading of a result.
    pub(crate) fn describe(self, signal: Signal) -> String {
        match self {
            Self::Maximum => "maximum".to_owned(),
            Self::Rate(rate) => format!("{rate} {}/s", signal.items()),
            Self::Producers { count, every } => {
                format!("{count} producers, each pushing every {} s", every.as_secs_f64())
            }
        }
    }

    /// The flags that make another process offer as much.
    pub(crate) fn flags(self) -> Vec<String> {
        match self {
            Self::Maximum => Vec::new(),
            Self::Rate(rate) => vec!["--rate".to_owned(), rate.to_string()],
            Self::Producers { count, every } => {
                let every = format!("{}s", every.as_secs_f64());
                vec!["--producers".to_owned(), count.to_string(), "--push-interval".to_owned(), every]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: LoadArgs,
    }

    #[test]
    fn a_signal_or_log_files_but_not_both() {
        use clap::Parser;

        let parsed = |line: &str| Cli::try_parse_from(["load"].into_iter().chain(line.split_whitespace()));
        let sent = parsed("--rate 5 traces --http").unwrap().args;
        assert!(sent.signal == Some(Signal::Traces) && sent.instead.is_none());
        let Some(LoadCommand::LogFiles(files)) = parsed("log-files /tmp/pods --rate 5 --tear").unwrap().args.instead
        else {
            panic!("log-files is a subcommand")
        };
        assert_eq!((files.rate, files.look.tear), (5, Some(Duration::from_millis(20))));
        assert!(parsed("log-files --verify sink.json lines.json").is_ok());
        let usage = parsed("log-files").map(drop).unwrap_err().to_string();
        assert!(usage.contains("log-files <DIR>"), "{usage}");
        let help = parsed("log-files --help").map(drop).unwrap_err().to_string();
        assert!(help.contains("log-files [OPTIONS] <DIR>") && !help.contains("[DIR]"), "{help}");
        for wrong in [
            "",
            "--rate 5",
            "log-files",
            "traces log-files /tmp/pods",
            "log-files --verify sink.json",
            "log-files /tmp/pods --verify sink.json lines.json",
            "log-files /tmp/pods --rate 1 --byte-rate 1",
            "log-files /tmp/pods --namespace a_b",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn producers_are_spread_over_their_interval() {
        let offered = Offered::Producers { count: 2000, every: Duration::from_secs(30) };
        assert_eq!(offered.interval(20), Duration::from_millis(15));
        assert_eq!(offered.usual_batch(Signal::Metrics), 20);
        assert!(offered.items_per_s(20).is_some_and(|rate| (rate - 1333.3).abs() < 0.1));
        assert_eq!(offered.flags(), ["--producers", "2000", "--push-interval", "30s"]);
    }

    #[test]
    fn a_rate_is_one_of_items_and_a_maximum_has_none() {
        assert_eq!(Offered::Rate(1000).interval(100), Duration::from_millis(100));
        assert_eq!((Offered::Maximum.interval(512), Offered::Maximum.items_per_s(512)), (Duration::ZERO, None));
        assert_eq!(Offered::Rate(1).usual_batch(Signal::Logs), 100);
        assert_eq!(Offered::Maximum.usual_batch(Signal::Logs), 512);
    }
}
