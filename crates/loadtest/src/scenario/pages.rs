//! The scripts of a metric agent, and the pages that targets serve in each.

use std::time::Duration;

use anyhow::{bail, ensure};

use super::processing::Processing;
use super::script::{self, Script};
use super::{Hardship, LoadtestArgs};

/// What is scraped in a test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScrapeLoad {
    /// Arguments of `weir load scrape-targets`.
    pub(crate) arguments: Vec<String>,
    pub(crate) targets: u32,
    pub(crate) interval: Duration,
}

/// Series of each of a thousand metrics that make a million of twenty targets.
const MILLION: u32 = 50;

/// The script of a metric agent, and what is served for it to scrape.
pub(super) fn agent_script(args: &LoadtestArgs) -> anyhow::Result<Script> {
    ensure!(args.processing == Processing::None, "cannot use --processing: not with -t metricagent");
    ensure!(args.producers.is_none(), "cannot use --producers: nobody pushes to a metric agent");
    ensure!(
        args.rate.is_none() && !args.max,
        "cannot use --rate and --max: a metric agent scrapes as often as --scrape-interval says"
    );
    ensure!(
        args.writer_arguments.is_empty(),
        "cannot use --writer-arg: only -t logagent and logs-fluentbit read files"
    );
    let (test, multi) = (args.test, args.multi);
    let script = match args.scenario {
        None => script::published(test, args.variant()),
        Some(Hardship::Outage) => script::outage(test, args.outage.unwrap_or_default(), multi, args.duration),
        Some(Hardship::Scale) => script::scale(test, multi),
        Some(_) => bail!("cannot use this scenario with -t {}: it has outage and scale", test.name()),
    };
    let mut arguments =
        vec![format!("--targets={}", args.targets), format!("--interval-hint={}s", args.scrape_interval.as_secs_f64())];
    if args.scenario == Some(Hardship::Scale) {
        arguments.push(format!("--series={MILLION}"));
    }
    arguments.extend(args.page_arguments.iter().cloned());
    Ok(Script {
        pages: Some(ScrapeLoad { arguments, targets: args.targets, interval: args.scrape_interval }),
        ..script
    })
}

impl ScrapeLoad {
    /// In words, for the heading.
    pub(crate) fn describe(&self) -> String {
        let every = self.interval.as_secs_f64();
        format!("pages scraped every {every} s: weir load scrape-targets {}", self.arguments.join(" "))
    }
}
