//! `weir load`: sends generated telemetry to an OTLP endpoint and keeps exact books about the answers.
//!
//! Open loop at a rate (a request is due at its time even when earlier ones are late, and its latency counts from then),
//! or closed loop at the maximum. It never retries by itself unless told to: refusals are a result.

mod args;
mod client;
pub mod log_files;
pub mod payload;
mod report;
pub mod scrape_targets;
mod worker;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use self::args::Offered;
pub use self::args::{LoadArgs, LoadCommand, SendArgs};
use self::client::Target;
pub use self::report::{LoadIds, LoadReport};
use self::report::{Progress, Tally};
use self::worker::{Plan, Schedule};
use crate::output::printed;
use crate::signal::Signal;
use crate::{cpu, files, runtime};

/// Runs the generator until its schedule ends or SIGINT or SIGTERM arrives.
///
/// # Errors
/// The options make no sense together, or the report cannot be written.
pub fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    let LoadArgs { signal, send: args, instead } = args;
    match instead {
        Some(LoadCommand::LogFiles(args)) => return log_files::run(&args),
        Some(LoadCommand::ScrapeTargets(args)) => return scrape_targets::run(&args),
        None => (),
    }
    let signal = signal.context("no signal was named")?;
    runtime::build()?.block_on(async {
        let (sender, stop) = watch::channel(false);
        let stopped = runtime::stop_signal()?;
        tokio::spawn(async move {
            stopped.await;
            sender.send_replace(true);
            // Held open: a closed channel would read as a stop that never comes.
            std::future::pending::<()>().await;
        });
        let report = send(signal, &args, stop).await?;
        if let Some(path) = &args.report {
            files::write_json(path, &report)?;
        }
        let failures = report.connect_failures;
        let was_there = report.requests > 0 || failures == 0;
        ensure!(was_there, "all {failures} attempts to connect failed; is the endpoint right, and is anybody there?");
        printed(summarize(signal, &report))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Sends items of `signal` as `args` say until the schedule ends or `stop` turns true.
///
/// # Errors
/// The options make no sense together.
pub async fn send(signal: Signal, args: &SendArgs, stop: watch::Receiver<bool>) -> anyhow::Result<LoadReport> {
    let plan = Arc::new(plan(signal, args)?);
    let cpu_before = cpu::own_seconds().unwrap_or(0.0);
    let mut workers = JoinSet::new();
    for _ in 0..args.concurrency {
        workers.spawn(worker::run(Arc::clone(&plan), stop.clone()));
    }
    let watcher = Arc::clone(&plan);
    let progress = tokio::spawn(async move { show_progress(&watcher).await });
    let mut tally = Tally::default();
    while let Some(done) = workers.join_next().await {
        tally.merge(&done.context("a worker failed")??);
    }
    let seconds = plan.schedule.start.elapsed().as_secs_f64();
    progress.abort();
    let cpu_seconds = cpu::own_seconds().unwrap_or(0.0) - cpu_before;
    Ok(report(&tally, &plan, args, Usage { seconds, cpu_seconds }))
}

/// Time for all workers to connect and to fill their buffers before the first request is due at a rate: it must not show
/// as latency of whom they send to.
const LEAD_IN: Duration = Duration::from_millis(250);

fn plan(signal: Signal, args: &SendArgs) -> anyhow::Result<Plan> {
    let default_endpoint = if args.http { "127.0.0.1:4318" } else { "127.0.0.1:4317" };
    let endpoint = args.endpoint.as_deref().unwrap_or(default_endpoint);
    let target = Target::new(signal, endpoint, args.http, args.compression)?;
    let offered = args.offered();
    let shape = args.shape.resolve(signal, offered.usual_batch(signal))?;
    let interval = offered.interval(shape.batch);
    let template = worker::template(&shape, shape.batch, &target)?;
    let start = Instant::now() + if interval.is_zero() { Duration::ZERO } else { LEAD_IN };
    let schedule = Schedule {
        start,
        deadline: args.duration.map(|duration| start + duration.0),
        interval,
        first_id: args.first_id,
        batch: shape.batch.into(),
        total: args.items,
        next: AtomicU64::new(0),
    };
    Ok(Plan {
        template,
        target,
        shape,
        schedule,
        timeout: args.timeout,
        retry: args.retry,
        trace_seed: fastrand::u64(1..),
        progress: Progress::default(),
    })
}

/// What a run took.
struct Usage {
    seconds: f64,
    cpu_seconds: f64,
}

#[expect(clippy::cast_precision_loss, reason = "rates need no more than 53 bits")]
fn report(tally: &Tally, plan: &Plan, args: &SendArgs, usage: Usage) -> LoadReport {
    let Usage { seconds, cpu_seconds } = usage;
    let cores = runtime::cores() as f64;
    let busy = cpu_seconds / (seconds * cores).max(f64::MIN_POSITIVE);
    // Requests are due until the deadline; the last answers may come later.
    let sending = args.duration.map_or(seconds, |duration| seconds.min(duration.0.as_secs_f64()));
    LoadReport {
        seconds,
        requests: tally.requests,
        sent_items: tally.sent_items,
        acked_items: tally.acked_items,
        refused_items: tally.refused_items,
        unknown_items: tally.unknown_items,
        partial_rejected: tally.partial_rejected,
        refused: tally.refused.clone(),
        refused_without_hint: tally.refused_without_hint,
        errors: tally.errors.clone(),
        connect_failures: tally.connect_failures,
        bytes: tally.bytes,
        acked_per_s: tally.acked_items as f64 / seconds,
        timeline: plan.progress.timeline(),
        latency_ms: tally.latency.summary(),
        lateness_ms: tally.lateness.summary(),
        cpu_seconds,
        busy,
        bottleneck: bottleneck(busy, tally.sent_items as f64 / sending, args.offered().items_per_s(plan.shape.batch)),
        ids: LoadIds {
            acked: tally.acked.ranges(),
            refused: tally.refused_ids.ranges(),
            unknown: tally.unknown.ranges(),
        },
    }
}

/// From this share of its cores on, the generator counts as the limit.
const BUSY_LIMIT: f64 = 0.95;
/// Below this share of the wanted rate, the rate counts as not kept.
const RATE_KEPT: f64 = 0.99;

fn bottleneck(busy: f64, sent_per_s: f64, offered_per_s: Option<f64>) -> Option<String> {
    if busy > BUSY_LIMIT {
        return Some(format!("the generator used {:.0} % of its CPU", busy * 100.0));
    }
    let offered = offered_per_s?;
    (sent_per_s < offered * RATE_KEPT)
        .then(|| format!("sent {sent_per_s:.0} of {offered:.0} items/s: answers came too late for this concurrency"))
}

async fn show_progress(plan: &Plan) {
    if !io::stderr().is_terminal() {
        return;
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let mut before = 0;
    loop {
        ticks.tick().await;
        let acked = plan.progress.acked.load(Ordering::Relaxed);
        let refused = plan.progress.refused.load(Ordering::Relaxed);
        let unknown = plan.progress.unknown.load(Ordering::Relaxed);
        let line = format!("\r\x1b[Kacked {acked} (+{}), refused {refused}, no answer {unknown}", acked - before);
        // A progress line that cannot be shown is no reason to stop.
        let _ = io::stderr().lock().write_all(line.as_bytes());
        before = acked;
    }
}

fn summarize(signal: Signal, report: &LoadReport) -> io::Result<()> {
    let items = signal.items();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "acknowledged {} of {} {items} in {:.1} s: {:.0} {items}/s; refused {}, no answer {}; latency p50 {:.1} ms, p99 {:.1} ms; {:.0} % CPU",
        report.acked_items,
        report.sent_items,
        report.seconds,
        report.acked_per_s,
        report.refused_items,
        report.unknown_items,
        report.latency_ms.p50,
        report.latency_ms.p99,
        report.busy * 100.0
    )?;
    for (what, counts) in [("refused with", &report.refused), ("no answer", &report.errors)] {
        for (cause, count) in counts {
            writeln!(out, "{what} {cause}: {count} requests")?;
        }
    }
    if let Some(bottleneck) = &report.bottleneck {
        writeln!(out, "the generator was the limit: {bottleneck}")?;
    }
    Ok(())
}
