//! What a user types after `weir loadtest`, and what it means.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::{ArgAction, Args, ValueEnum};

use super::config::Annotation;
use super::script::{self, Absence, KillPlan, Script, Variant};
use crate::codec::Compression;
use crate::load::payload::Shape;
use crate::units::{parse_bytes, parse_duration};

const EXAMPLES: &str = "\
Examples:
  weir loadtest -t traces
  weir loadtest -t traces -m true -d 20m -o results
  weir loadtest -t traces -b true --peer otelcol=bench/peers/bin/otelcol
  weir loadtest -t traces --rate 50000 --compression gzip
  weir loadtest -t traces --scenario outage -d 10m
  weir loadtest -t traces --scenario sick-neighbour
  weir loadtest -t traces --scenario crash -d 20m --kill-every 1s";

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
    /// Back-pressure: backends refuse 70 % of requests with 503 and delay 70 % by one second
    #[arg(short = 'b', long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", conflicts_with = "scenario")]
    pub backpressure: bool,
    /// Something worse than the four published scenarios
    #[arg(long, value_enum, value_name = "NAME")]
    pub scenario: Option<Hardship>,
    /// How the backend is away in the scenario `outage`
    #[arg(long, value_enum, value_name = "HOW", default_value = "refused")]
    pub outage: Absence,
    /// Mean time between two kills of the gateway in the scenario `crash`; each is half to one and a half times as long
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_duration)]
    pub kill_every: Duration,
    /// Seed of what the scenario `crash` draws: moments of kills, faults of backends [default: a random one]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Measured time; a plain number is seconds
    #[arg(short, long, value_name = "DURATION", default_value = "60", value_parser = parse_duration)]
    pub duration: Duration,
    /// Keep logs and configuration of all processes and write result.json here
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Connections of the generator, each with one request in flight [default: 8; with --scenario 64]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub concurrency: Option<u16>,
    /// Offer this many spans per second (open loop) [default: --max; with --scenario 10000, sick-neighbour 20000]
    #[arg(long, value_name = "SPANS_PER_SECOND", conflicts_with = "max", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Offer as much as is answered (closed loop)
    #[arg(long)]
    pub max: bool,
    /// Compression from the gateway to its backends
    #[arg(long, value_enum, default_value = "none")]
    pub compression: Compression,
    /// Memory each system may use, in bytes or with MiB
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = parse_bytes)]
    pub memory: u64,
    /// Also test a peer; the only known one is otelcol, an OpenTelemetry Collector 0.158 or newer
    #[arg(long, value_name = "NAME=PATH")]
    pub peer: Option<Peer>,
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
    #[arg(long, value_name = "DURATION", default_value = "3", value_parser = parse_duration)]
    pub warmup: Duration,
    /// How long a system may take after the load to hand over what it holds; ends as soon as there is nothing more
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    pub settle: Duration,
    /// What spans look like
    #[command(flatten)]
    pub shape: Shape,
}

/// What can be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Spans through the gateway
    Traces,
}

/// Scenarios beside the four published ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hardship {
    /// The backend is gone for the middle half of the time
    Outage,
    /// Three pipelines: one backend healthy, one refuses everything, one answers after 5 s; and the healthy one alone
    SickNeighbour,
    /// The gateway is killed again and again
    Crash,
}

/// A system to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub(crate) program: PathBuf,
}

impl std::str::FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("otelcol", path)) if !path.is_empty() => Ok(Self { program: path.into() }),
            _ => Err(format!("cannot use peer \"{text}\": use otelcol=PATH")),
        }
    }
}

/// Spans per second when a scenario is about what is kept and not about how much goes through. An outage of five minutes
/// at this rate fits the default limit of a backlog.
const GENTLE_RATE: u64 = 10_000;
/// And when neighbours are to be kept busy.
const NEIGHBOUR_RATE: u64 = 20_000;
/// Connections when clients may have to wait: enough for the rate at a wait of half a second and more.
const PATIENT_CONNECTIONS: u16 = 64;
const CONNECTIONS: u16 = 8;
/// Kills in a shorter time than a start takes show nothing.
const SHORTEST_KILL_INTERVAL: Duration = Duration::from_millis(50);

impl LoadtestArgs {
    /// The scripts that every system goes through, in order.
    pub(crate) fn scripts(&self) -> anyhow::Result<Vec<Script>> {
        let Some(scenario) = self.scenario else {
            let variant = Variant { multi: self.multi, backpressure: self.backpressure };
            return Ok(vec![script::published(variant)]);
        };
        Ok(match scenario {
            Hardship::Outage => vec![script::outage(self.outage, self.multi, self.duration)],
            Hardship::SickNeighbour if self.multi => bail!("cannot use -m: sick-neighbour has three pipelines anyway"),
            Hardship::SickNeighbour => script::sick_neighbour().into(),
            Hardship::Crash => {
                let every = self.kill_every;
                ensure!(every >= SHORTEST_KILL_INTERVAL, "cannot kill every {every:?}: use at least 50ms");
                let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
                vec![script::crash(KillPlan { every, seed }, self.multi)]
            }
        })
    }

    /// Spans per second to offer; as much as is answered when there is none.
    pub(crate) fn offered_rate(&self) -> Option<u64> {
        match self.scenario {
            _ if self.max => None,
            None => self.rate,
            Some(Hardship::SickNeighbour) => self.rate.or(Some(NEIGHBOUR_RATE)),
            Some(Hardship::Outage | Hardship::Crash) => self.rate.or(Some(GENTLE_RATE)),
        }
    }

    /// Connections of the generator.
    pub(crate) fn connections(&self) -> u16 {
        let default = if self.scenario.is_some() { PATIENT_CONNECTIONS } else { CONNECTIONS };
        self.concurrency.unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: LoadtestArgs,
    }

    fn args(line: &str) -> Result<LoadtestArgs, clap::Error> {
        let words = std::iter::once("loadtest").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.args)
    }

    fn names(line: &str) -> Vec<&'static str> {
        args(line).unwrap().scripts().unwrap().iter().map(|script| script.name).collect()
    }

    #[test]
    fn flags_choose_the_scenario() {
        assert_eq!(names("-t traces"), ["traces"]);
        assert_eq!(names("-m true -b true"), ["traces-multi-backpressure"]);
        assert_eq!(names("--scenario outage"), ["traces-outage"]);
        assert_eq!(names("--scenario outage --outage silent -m"), ["traces-outage-silent"]);
        assert_eq!(names("--scenario sick-neighbour"), ["traces-sick-neighbour-alone", "traces-sick-neighbour"]);
        assert_eq!(names("--scenario crash"), ["traces-crash"]);
        assert!(args("--scenario crash -b true").is_err());
        assert!(args("--scenario sick-neighbour -m true").unwrap().scripts().is_err());
        assert!(args("--scenario crash --kill-every 1ms").unwrap().scripts().is_err());
    }

    #[test]
    fn a_seed_repeats_a_crash() {
        let kills = |line: &str| args(line).unwrap().scripts().unwrap()[0].kills.unwrap();
        assert_eq!(kills("--scenario crash --seed 7 --kill-every 2s").seed, 7);
        assert_ne!(kills("--scenario crash").seed, kills("--scenario crash").seed);
    }

    #[test]
    fn what_is_offered_depends_on_the_scenario_unless_it_is_said() {
        let rate = |line: &str| args(line).unwrap().offered_rate();
        assert_eq!(rate("-b true"), None);
        assert_eq!(rate("--rate 5"), Some(5));
        assert_eq!(rate("--scenario outage"), Some(GENTLE_RATE));
        assert_eq!(rate("--scenario sick-neighbour --rate 5"), Some(5));
        assert_eq!(rate("--scenario crash --max"), None);
        assert_eq!(args("").unwrap().connections(), 8);
        assert_eq!(args("--scenario crash").unwrap().connections(), 64);
        assert_eq!(args("--scenario crash -c 3").unwrap().connections(), 3);
    }
}
