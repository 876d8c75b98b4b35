//! The options of `weir loadtest`, and their meaning.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::{ArgAction, Args, ValueEnum};
use weir_units::{parse_duration, parse_positive_duration, parse_positive_size, parse_size};

use super::config::{Annotation, Output, Overlay, RecordFormat};
use super::processing::Processing;
use super::script::{self, Absence, Backpressure, Ending, KillPlan, Script, Variant};
use super::{SystemKind, pages, writer};
use crate::codec::Compression;
use crate::load::Offered;
use crate::load::payload::{Shape, ShapeArgs};
use crate::signal::Signal;

const EXAMPLES: &str = "\
Examples:
  weir loadtest -t traces
  weir loadtest -t traces -m true -d 20m -o results
  weir loadtest -t traces -b true --peer otelcol=bench/peers/bin/otelcol
  weir loadtest -t traces --rate 50000 --compression gzip
  weir loadtest -t metrics
  weir loadtest -t metrics --rate 5300 --attributes 7
  weir loadtest -t logs-otel -r 1000 -s 2000
  weir loadtest -t logs-otel --overlay batch --peer otelcol=bench/peers/bin/otelcol
  weir loadtest -t logs-otel --scenario matrix -d 20
  weir loadtest -t traces --processing filter97 --peer otelcol=bench/peers/bin/otelcol
  weir loadtest -t logagent --peer otelcol=bench/peers/bin/otelcol
  weir loadtest -t logagent --scenario rotation
  weir loadtest -t logs-fluentbit -m true -b true
  weir loadtest -t metricagent -d 5m
  weir loadtest -t metricagent -b true --backpressure-percent 70
  weir loadtest -t metricagent --scrape-interval 2s --peer vmagent=bench/peers/bin/vmagent
  weir loadtest -t metricagent --scenario scale --memory 4GiB
  weir loadtest -t self-monitor -d 1h
  weir loadtest -t traces --scenario outage -d 10m
  weir loadtest -t traces --scenario sick-neighbour
  weir loadtest -t traces --scenario crash -d 20m --kill-every 1s
  weir loadtest all -d 60 -o results/0.2.0
  weir loadtest compare results/0.1.0 results/0.2.0

Exit code 1: Weir lost an item or broke another promise. What a peer does is no failure.";

/// Reproduce the KPI load tests, and worse: gateway, sinks and generator on this machine.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub struct LoadtestArgs {
    /// What to test
    #[arg(short = 't', long = "test", value_enum, default_value = "traces")]
    pub test: Test,
    /// A name for the heading of the result
    #[arg(short = 'n', long, value_name = "NAME", default_value = "load test")]
    pub name: String,
    /// Three pipelines to three backends instead of one
    #[arg(short = 'm', long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub multi: bool,
    /// Back-pressure: backends refuse 70 % of requests with 503 and delay 70 % by one second; with -t metricagent, 100 %
    #[arg(short = 'b', long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", conflicts_with = "scenario")]
    pub backpressure: bool,
    /// So many percent instead, with -b
    #[arg(long, value_name = "PCT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub backpressure_percent: Option<u8>,
    /// The published test of the log gateway, with -t logs-otel: 80 clients send a record in each request, as fast as they
    /// are answered
    #[arg(long, value_enum, value_name = "SETUP", conflicts_with = "scenario")]
    pub overlay: Option<Overlay>,
    /// Something worse than the published scenarios
    #[arg(long, value_enum, value_name = "NAME")]
    pub scenario: Option<Hardship>,
    /// How the backend is away in the scenarios `outage` [default: refused] and `rotation` [default: silent]
    #[arg(long, value_enum, value_name = "HOW")]
    pub outage: Option<Absence>,
    /// Time between two rotations of a container's file in the scenarios of the log agent [default: 50ms in rotation, else 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration)]
    pub rotate_every: Option<Duration>,
    /// Bytes in the files that a log agent finds when it starts, without --scenario and --rate
    #[arg(long, value_name = "SIZE", default_value = "400MB", value_parser = parse_size)]
    pub backlog: u64,
    /// One more argument for `weir load log-files`; repeatable, for example --writer-arg=--shape=json
    #[arg(long = "writer-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub writer_arguments: Vec<String>,
    /// Targets of a metric agent
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub targets: u32,
    /// How often a metric agent scrapes each target
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_positive_duration)]
    pub scrape_interval: Duration,
    /// One more argument for `weir load scrape-targets`; repeatable, for example --page-arg=--churn=10
    #[arg(long = "page-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub page_arguments: Vec<String>,
    /// Mean time between two kills in `crash`, or restarts in `restart`; each is half to one and a half times as long
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_duration)]
    pub kill_every: Duration,
    /// Seed of what `crash` and `restart` draw: moments of kills, faults of backends [default: a random one]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Measured time; a plain number is seconds
    #[arg(short, long, value_name = "DURATION", default_value = "60s", value_parser = parse_positive_duration)]
    pub duration: Duration,
    /// Keep logs and configuration of all processes and write result.json and report.html here
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Append a line about the test to this file [default: with -o, history.jsonl beside DIR]
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Connections of the generator, each with one request in flight [default: 8; with --scenario or producers 64, with --overlay 80]; of the
    /// log agents, containers [default: 10]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub concurrency: Option<u16>,
    /// Offer this many spans, points or records per second (open loop) [default: --max for traces and log agents,
    /// 2000 producers for metrics, 1000 for logs, --max with --overlay; with --scenario 10000, sick-neighbour 20000, matrix 1000 by each client,
    /// rotation as many lines as are 100 MB]
    #[arg(short, long, value_name = "ITEMS_PER_SECOND", conflicts_with_all = ["max", "producers"], value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// So many producers, each of which pushes one request in every --push-interval, evenly spread (open loop)
    #[arg(long, value_name = "N", conflicts_with = "max", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub producers: Option<u32>,
    /// Time between two pushes of a producer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_positive_duration)]
    pub push_interval: Duration,
    /// Offer as much as is answered (closed loop)
    #[arg(long)]
    pub max: bool,
    /// Compression from the gateway to its backends
    #[arg(long, value_enum, default_value = "none")]
    pub compression: Compression,
    /// Format of the records of -t logs-fluentbit [default: json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<RecordFormat>,
    /// What both systems do to the data on its way
    #[arg(long, value_enum, value_name = "WHAT", default_value = "none")]
    pub processing: Processing,
    /// Memory each system may use
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_positive_size)]
    pub memory: u64,
    /// Also test a peer; repeatable: otelcol, an OpenTelemetry Collector 0.158 or newer; with -t metricagent also vmagent
    /// and prometheus, as an agent
    #[arg(long = "peer", value_name = "NAME=PATH")]
    pub peers: Vec<Peer>,
    /// The Weir to test [default: this program]
    #[arg(long, value_name = "PATH")]
    pub weir: Option<PathBuf>,
    /// One more argument for `weir run`; repeatable, for example --weir-arg=--fsync=never
    #[arg(long = "weir-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub weir_arguments: Vec<String>,
    /// An annotation of all pipelines; repeatable, for example weir.dev/backlog-max-bytes=1GiB
    #[arg(long = "annotation", value_name = "KEY=VALUE")]
    pub annotations: Vec<Annotation>,
    /// Load before the measured time
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_duration)]
    pub warmup: Duration,
    /// How long a system may take after the load to hand over what it holds; ends as soon as there is nothing more
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    pub settle: Duration,
    /// What items look like
    #[command(flatten)]
    pub shape: ShapeArgs,
}

/// What a test is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Spans that clients push
    Traces,
    /// Data points that clients push
    Metrics,
    /// Log records that clients push
    #[value(alias = "logs")]
    LogsOtel,
    /// Lines that containers print, read from their files
    Logagent,
    /// The same, to an HTTP server and in Fluent Bit's records
    LogsFluentbit,
    /// Samples of pages that targets serve
    Metricagent,
    /// Whether what is wrong with pipelines is told, how soon, and nothing else: three of each signal
    SelfMonitor,
}

impl Test {
    /// As the load-test kit calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::LogsOtel => "logs-otel",
            Self::Logagent => "logagent",
            Self::LogsFluentbit => "logs-fluentbit",
            Self::Metricagent => "metricagent",
            Self::SelfMonitor => "self-monitor",
        }
    }

    /// What arrives at backends.
    pub(crate) fn signal(self) -> Signal {
        match self {
            Self::Traces | Self::SelfMonitor => Signal::Traces,
            Self::Metrics | Self::Metricagent => Signal::Metrics,
            Self::LogsOtel | Self::Logagent | Self::LogsFluentbit => Signal::Logs,
        }
    }

    /// How many of a hundred requests were refused and delayed when it was published with back-pressure.
    pub(super) fn published_backpressure(self) -> u8 {
        match self {
            Self::Traces
            | Self::Metrics
            | Self::LogsOtel
            | Self::Logagent
            | Self::LogsFluentbit
            | Self::SelfMonitor => 70,
            Self::Metricagent => 100,
        }
    }

    /// Whether systems read files; otherwise clients push.
    pub(crate) fn reads_files(self) -> bool {
        matches!(self, Self::Logagent | Self::LogsFluentbit)
    }
}

/// Scenarios beside the four published ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hardship {
    /// The backend is gone for the middle half of the time
    Outage,
    /// Three pipelines: one backend healthy, one refuses everything, one answers after 5 s; and the healthy one alone
    SickNeighbour,
    /// The gateway or agent is killed again and again
    Crash,
    /// The log agent is stopped and started again and again
    Restart,
    /// The files of the log agent are rotated all the time, and its backend answers nothing for half of it
    Rotation,
    /// The pods of the log agent live for 200 ms
    ShortPods,
    /// Not worse, but more of it: pages of 50,000 series each, a million of 20 targets
    Scale,
    /// Not worse, but more of it: one to a hundred clients (workers x replicas), each at the rate
    Matrix,
}

/// A system to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub(crate) kind: SystemKind,
    pub(crate) program: PathBuf,
}

impl Peer {
    /// Its name in results.
    pub(crate) fn name(&self) -> &'static str {
        PEERS.iter().find(|(_, kind)| *kind == self.kind).map_or("peer", |(name, _)| name)
    }
}

/// What peers are called.
const PEERS: [(&str, SystemKind); 3] =
    [("otelcol", SystemKind::Otelcol), ("vmagent", SystemKind::Vmagent), ("prometheus", SystemKind::Prometheus)];

impl std::str::FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("cannot use peer \"{text}\": use otelcol=PATH, vmagent=PATH or prometheus=PATH");
        let (name, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or_else(wrong)?;
        let (_, kind) = PEERS.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?;
        Ok(Self { kind: *kind, program: path.into() })
    }
}

/// Items per second when a scenario is about what is kept and not about how much goes through. An outage of five minutes
/// at this rate fits the default limit of a backlog.
const GENTLE_RATE: u64 = 10_000;
/// And when neighbours are to be kept busy.
const NEIGHBOUR_RATE: u64 = 20_000;
/// Connections when clients may have to wait: enough for the rate at a wait of half a second and more.
const PATIENT_CONNECTIONS: u16 = 64;
const CONNECTIONS: u16 = 8;
/// Lines of 200 bytes per second that make 100 MB of a runtime's.
const ROTATION_RATE: u64 = 410_000;
/// The same of lines of 300 bytes, as flog writes them.
const ROTATION_RATE_FLOG: u64 = 290_000;
/// Clients of the log gateway in the load-test kit, and the records in each of their requests.
const LOG_CLIENTS: u16 = 80;
const LOG_BATCH: u32 = 1;
/// Containers of the load-test kit that write.
const CONTAINERS: u16 = 10;
/// Producers of metrics in the load-test kit.
const PRODUCERS: u32 = 2000;
/// Log records per second in the load-test kit, by each client.
const LOG_RATE: u64 = 1000;
/// Kills in a shorter time than a start takes show nothing.
const SHORTEST_KILL_INTERVAL: Duration = Duration::from_millis(50);

impl LoadtestArgs {
    /// The scripts that every system goes through, in order.
    pub(crate) fn scripts(&self) -> anyhow::Result<Vec<Script>> {
        ensure!(
            self.format.is_none() || self.test == Test::LogsFluentbit,
            "cannot use --format: only -t logs-fluentbit sends records"
        );
        ensure!(
            self.backpressure_percent.is_none() || self.backpressure,
            "cannot use --backpressure-percent without -b: no backend refuses anything"
        );
        ensure!(
            self.overlay.is_none() || self.test == Test::LogsOtel,
            "cannot use --overlay: only -t logs-otel was published in several setups"
        );
        if self.test == Test::SelfMonitor {
            let is_plain = self.scenario.is_none() && !self.backpressure && !self.multi && self.peers.is_empty();
            ensure!(
                is_plain,
                "cannot use -m, -b, --scenario or --peer with -t self-monitor: it has its own pipelines and faults"
            );
            return Ok(Vec::new());
        }
        if self.test.reads_files() {
            return writer::agent_script(self).map(|script| vec![script]);
        }
        if self.test == Test::Metricagent {
            return pages::agent_script(self).map(|script| vec![script]);
        }
        ensure!(
            self.peers.iter().all(|peer| peer.kind == SystemKind::Otelcol),
            "cannot use this --peer: it only scrapes; use -t metricagent"
        );
        ensure!(self.page_arguments.is_empty(), "cannot use --page-arg: only -t metricagent scrapes pages");
        ensure!(
            self.writer_arguments.is_empty(),
            "cannot use --writer-arg: only -t logagent and logs-fluentbit read files"
        );
        match self.scenario {
            None => Ok(vec![script::published(self.test, self.variant())]),
            Some(hardship) => self.scripts_of(hardship),
        }
    }

    /// Those that test a gateway in a hardship.
    fn scripts_of(&self, hardship: Hardship) -> anyhow::Result<Vec<Script>> {
        let test = self.test;
        Ok(match hardship {
            Hardship::Restart | Hardship::Rotation | Hardship::ShortPods => {
                bail!("cannot use this scenario with -t {}: it needs -t logagent or logs-fluentbit", test.name())
            }
            Hardship::Scale => bail!("cannot use this scenario with -t {}: it needs -t metricagent", test.name()),
            Hardship::Outage => vec![script::outage(test, self.outage.unwrap_or_default(), self.multi, self.duration)],
            Hardship::SickNeighbour if self.multi => bail!("cannot use -m: sick-neighbour has three pipelines anyway"),
            Hardship::SickNeighbour => script::sick_neighbour(test).into(),
            Hardship::Matrix if self.multi => bail!("cannot use -m: matrix has one pipeline"),
            Hardship::Matrix if self.concurrency.is_some() => bail!("cannot use -c: matrix has its own connections"),
            Hardship::Matrix => script::matrix(test),
            Hardship::Crash => vec![script::crash(test, self.kill_plan(Ending::Crash)?, self.multi)],
        })
    }

    /// Which of the published scenarios.
    pub(super) fn variant(&self) -> Variant {
        let published = self.test.published_backpressure();
        let percent = self.backpressure_percent.unwrap_or(published);
        let backpressure = Backpressure { percent, is_published: percent == published };
        let backpressure = self.backpressure.then_some(backpressure);
        Variant { multi: self.multi, backpressure, overlay: self.overlay }
    }

    /// How often to end a process, and how.
    pub(super) fn kill_plan(&self, ending: Ending) -> anyhow::Result<KillPlan> {
        let every = self.kill_every;
        ensure!(every >= SHORTEST_KILL_INTERVAL, "cannot kill every {every:?}: use at least 50ms");
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        Ok(KillPlan { every, seed, ending })
    }

    /// How much to offer.
    pub(crate) fn offered(&self) -> Offered {
        match (self.rate, self.producers) {
            _ if self.max => Offered::Maximum,
            (Some(rate), _) => Offered::Rate(rate),
            (None, Some(count)) => Offered::Producers { count, every: self.push_interval },
            (None, None) => self.usually_offered(),
        }
    }

    fn usually_offered(&self) -> Offered {
        match (self.scenario, self.test) {
            // Its clients in the load-test kit are told to send 80,000 a second, and wait for their answers.
            _ if self.overlay.is_some() => Offered::Maximum,
            (Some(Hardship::SickNeighbour), _) => Offered::Rate(NEIGHBOUR_RATE),
            (Some(Hardship::Rotation), Test::LogsFluentbit) => Offered::Rate(ROTATION_RATE_FLOG),
            (Some(Hardship::Rotation), _) => Offered::Rate(ROTATION_RATE),
            (Some(Hardship::Outage | Hardship::Crash | Hardship::Restart | Hardship::ShortPods), _) => {
                Offered::Rate(GENTLE_RATE)
            }
            (Some(Hardship::Matrix), _) | (None, Test::LogsOtel | Test::SelfMonitor) => Offered::Rate(LOG_RATE),
            (None, Test::Metrics) => Offered::Producers { count: PRODUCERS, every: self.push_interval },
            (Some(Hardship::Scale), _)
            | (None, Test::Traces | Test::Logagent | Test::LogsFluentbit | Test::Metricagent) => Offered::Maximum,
        }
    }

    /// How systems send.
    pub(crate) fn sends(&self) -> Output {
        match self.test {
            Test::LogsFluentbit => Output::Http(self.format.unwrap_or(RecordFormat::Json)),
            Test::Traces | Test::Metrics | Test::LogsOtel | Test::Logagent | Test::Metricagent | Test::SelfMonitor => {
                Output::Otlp
            }
        }
    }

    /// Connections of the generator.
    pub(crate) fn connections(&self) -> u16 {
        if self.test.reads_files() {
            return self.concurrency.unwrap_or(CONTAINERS);
        }
        if self.overlay.is_some() {
            return self.concurrency.unwrap_or(LOG_CLIENTS);
        }
        let patient = self.scenario.is_some() || matches!(self.offered(), Offered::Producers { .. });
        self.concurrency.unwrap_or(if patient { PATIENT_CONNECTIONS } else { CONNECTIONS })
    }

    /// What is sent, with the defaults of its signal and what the processing needs.
    ///
    /// # Errors
    /// Something was said that items of this signal do not have, or that the processing decides.
    pub(crate) fn shape(&self) -> anyhow::Result<Shape> {
        ensure!(self.shape.marked.is_none(), "cannot use --marked: --processing filter97 marks what it drops");
        ensure!(
            self.shape.namespaces.is_none() || self.test == Test::LogsOtel,
            "cannot use --namespaces: only -t logs-otel pushes log records"
        );
        let mut shape = self.shape.clone();
        self.processing.prepare(&mut shape);
        let signal = self.test.signal();
        let usual_batch = if self.overlay.is_some() { LOG_BATCH } else { self.offered().usual_batch(signal) };
        let shape = shape.resolve(signal, usual_batch)?;
        self.processing.check(&shape)?;
        Ok(shape)
    }
}

#[cfg(test)]
mod tests;
