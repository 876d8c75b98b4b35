//! The scripts of a log agent, and the orders of the fake kubelet in each: how much to write, and what to do to files.
//!
//! It never deletes faster than a kubelet does, which looks at sizes every ten seconds and keeps five files: a rotated
//! file stays for [`KEPT_FOR`] at least.

use std::time::Duration;

use anyhow::{bail, ensure};

use super::processing::Processing;
use super::script::{self, Absence, Ending, Script};
use super::{Hardship, LoadtestArgs, SystemKind, Test};
use crate::codec::Compression;
use crate::load::Offered;

/// The script of a log agent, and what is written for it to read.
pub(super) fn agent_script(args: &LoadtestArgs) -> anyhow::Result<Script> {
    let name = args.test.name();
    ensure!(args.processing == Processing::None, "cannot use --processing: not with -t {name}");
    let is_fluent_bit = args.test == Test::LogsFluentbit;
    ensure!(
        args.peers.is_empty() || !is_fluent_bit,
        "cannot use --peer: a Collector does not send Fluent Bit's records"
    );
    ensure!(
        args.compression != Compression::Zstd || !is_fluent_bit,
        "cannot use --compression zstd: output.http takes gzip or none"
    );
    ensure!(args.producers.is_none(), "cannot use --producers: nobody pushes to a log agent");
    let scrapers = args.peers.iter().any(|peer| peer.kind != SystemKind::Otelcol);
    ensure!(!scrapers, "cannot use this --peer: it only scrapes; use -t metricagent");
    ensure!(args.page_arguments.is_empty(), "cannot use --page-arg: only -t metricagent scrapes pages");
    ensure!(!args.max || args.scenario.is_none(), "cannot use --max: files of a scenario have a rate");
    let (test, multi) = (args.test, args.multi);
    let rotated = |usually: u64| Fate::Rotated(args.rotate_every.unwrap_or(Duration::from_millis(usually)));
    let (script, fate) = match args.scenario {
        None => (script::published(test, args.variant()), args.rotate_every.map_or(Fate::Usual, Fate::Rotated)),
        Some(Hardship::Outage) => {
            (script::outage(test, args.outage.unwrap_or_default(), multi, args.duration), Fate::Usual)
        }
        Some(Hardship::Rotation) => {
            let absence = args.outage.unwrap_or(Absence::Silent);
            (script::rotation(test, absence, multi, args.duration), rotated(50))
        }
        Some(Hardship::Restart) => (script::restart(test, args.kill_plan(Ending::Restart)?, multi), rotated(1000)),
        Some(Hardship::Crash) => (script::crash(test, args.kill_plan(Ending::Crash)?, multi), rotated(1000)),
        Some(Hardship::ShortPods) => (script::short_pods(test, multi), Fate::ShortPods),
        Some(Hardship::SickNeighbour | Hardship::Matrix | Hardship::Scale) => {
            bail!("cannot use this scenario with -t {name}")
        }
    };
    let writer = match args.offered() {
        Offered::Maximum => Writer::before(args),
        Offered::Rate(_) | Offered::Producers { .. } => Writer::meanwhile(args, fate),
    };
    Ok(Script { writer: Some(writer), ..script })
}

/// How the files of a test come about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Writer {
    /// Arguments of `weir load log-files`.
    pub(crate) arguments: Vec<String>,
    /// Whether everything is written before the agent starts, so that it reads as much as it can.
    pub(crate) first: bool,
}

/// What happens to files while they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// What a kubelet does by default: rotation at 10 MiB.
    Usual,
    /// Rotation by time.
    Rotated(Duration),
    /// Pods of 200 ms, whose directories are removed a second later.
    ShortPods,
}

/// The time between two looks of a kubelet, for each of the four rotated files that it keeps.
const KEPT_FOR: Duration = Duration::from_secs(40);
/// Share of lines that the runtime splits, where rates are not the point.
const PARTIAL_PERCENT: &str = "5";

impl Writer {
    /// Writes while the agent runs.
    pub(crate) fn meanwhile(args: &LoadtestArgs, fate: Fate) -> Self {
        let containers = args.connections();
        let rate = match args.offered() {
            Offered::Rate(rate) => (rate / u64::from(containers)).max(1),
            Offered::Maximum | Offered::Producers { .. } => 0,
        };
        let mut arguments = vec![
            format!("--containers={containers}"),
            format!("--rate={rate}"),
            format!("--duration={}s", args.duration.as_secs_f64()),
            format!("--partial={PARTIAL_PERCENT}"),
        ];
        arguments.extend(fate.flags());
        Self { arguments, first: false }.with(args)
    }

    /// Writes everything before the agent starts, and nothing happens to it.
    pub(crate) fn before(args: &LoadtestArgs) -> Self {
        let containers = u64::from(args.connections());
        let arguments = vec![
            format!("--containers={containers}"),
            format!("--byte-rate={}", args.backlog / containers),
            "--duration=1s".to_owned(),
        ];
        Self { arguments, first: true }.with(args)
    }

    fn with(mut self, args: &LoadtestArgs) -> Self {
        if args.test == Test::LogsFluentbit {
            self.arguments.push("--shape=flog".to_owned());
        }
        self.arguments.extend(args.shape.size.map(|size| format!("--line-size={size}")));
        self.arguments.extend(args.writer_arguments.iter().cloned());
        self
    }

    /// In words, for the heading.
    pub(crate) fn describe(&self) -> String {
        let when = if self.first { "before the agent starts" } else { "while the agent runs" };
        format!("files written {when}: weir load log-files {}", self.arguments.join(" "))
    }
}

impl Fate {
    fn flags(self) -> Vec<String> {
        let flags: &[&str] = match self {
            Self::Usual => &["--rotate-size=10MiB"],
            Self::ShortPods => &["--pods-live=200ms", "--removed-after=1s"],
            Self::Rotated(every) => {
                // Nobody could compress so many files in time, and the kubelet would wait for that.
                let gzip = if every < Duration::from_millis(500) { "--no-gzip" } else { "--reopen-after=5ms" };
                let keep = (KEPT_FOR.as_secs_f64() / every.as_secs_f64()).ceil();
                return vec![
                    format!("--rotate-every={}s", every.as_secs_f64()),
                    format!("--keep={}", keep.clamp(5.0, f64::from(u16::MAX))),
                    gzip.to_owned(),
                ];
            }
        };
        flags.iter().map(|&flag| flag.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_stay_as_long_as_a_kubelet_keeps_them() {
        let flags = |every| Fate::Rotated(Duration::from_millis(every)).flags();
        assert_eq!(flags(50), ["--rotate-every=0.05s", "--keep=800", "--no-gzip"]);
        assert_eq!(flags(20_000), ["--rotate-every=20s", "--keep=5", "--reopen-after=5ms"]);
    }
}
