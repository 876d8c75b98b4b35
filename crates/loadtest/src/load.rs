//! `weir load`: sends generated telemetry to an OTLP endpoint and keeps exact books about the answers.
//!
//! Open loop at a rate (a request is due at its time even when earlier ones are late, and its latency counts from then),
//! or closed loop at the maximum. It never retries by itself unless told to: refusals are a result.

mod client;
pub mod payload;
mod report;
mod worker;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::client::Target;
use self::payload::Shape;
pub use self::report::{LoadIds, LoadReport};
use self::report::{Progress, Tally};
use self::worker::{Plan, Schedule};
use crate::codec::Compression;
use crate::units::{Interval, parse_duration};
use crate::{cpu, files, runtime};

const EXAMPLES: &str = "\
Examples:
  weir load traces --endpoint 127.0.0.1:4317 --rate 1000 --duration 1m
  weir load traces --max --duration 30s --report load.json
  weir load traces --http --endpoint 127.0.0.1:4318 --spans 10000 --batch 10 --attributes 5";

/// Generate telemetry and send it to an OTLP endpoint.
#[derive(Args, Debug, Clone)]
pub struct LoadArgs {
    #[command(subcommand)]
    signal: Signal,
}

#[derive(Subcommand, Debug, Clone)]
enum Signal {
    /// Send spans: traces of one root and its children
    Traces(TraceArgs),
}

/// Send generated spans.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub struct TraceArgs {
    /// Where to send, plain text; with --http the default is 127.0.0.1:4318
    #[arg(long, value_name = "HOST:PORT")]
    pub endpoint: Option<String>,
    /// Use OTLP/HTTP with protobuf over HTTP/1.1 instead of OTLP/gRPC
    #[arg(long)]
    pub http: bool,
    /// Connections, each with one request in flight
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub concurrency: u16,
    /// Spans per second (open loop); without it, as many as are answered
    #[arg(long, value_name = "SPANS_PER_SECOND", conflicts_with = "max", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// As many as are answered (closed loop); the default
    #[arg(long)]
    pub max: bool,
    /// How long to send; without --duration and --spans, until stopped
    #[arg(short, long, value_name = "DURATION")]
    pub duration: Option<Interval>,
    /// How many spans to send
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub spans: Option<u64>,
    /// Id of the first span; the others follow
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
    /// What spans look like
    #[command(flatten)]
    pub shape: Shape,
}

/// Runs the generator until its schedule ends or SIGINT or SIGTERM arrives.
///
/// # Errors
/// The options make no sense together, or the report cannot be written.
pub fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    let Signal::Traces(args) = args.signal;
    runtime::build()?.block_on(async {
        let (sender, stop) = watch::channel(false);
        let signal = runtime::stop_signal()?;
        tokio::spawn(async move {
            signal.await;
            sender.send_replace(true);
            // Held open: a closed channel would read as a stop that never comes.
            std::future::pending::<()>().await;
        });
        let report = send_traces(&args, stop).await?;
        if let Some(path) = &args.report {
            files::write_json(path, &report)?;
        }
        summarize(&report).context("cannot write summary")?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Sends as `args` say until the schedule ends or `stop` turns true.
///
/// # Errors
/// The options make no sense together.
pub async fn send_traces(args: &TraceArgs, stop: watch::Receiver<bool>) -> anyhow::Result<LoadReport> {
    let plan = Arc::new(plan(args)?);
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
    Ok(report(&tally, args, seconds, cpu_seconds))
}

/// Time for all workers to connect and to fill their buffers before the first request is due at a rate: it must not show
/// as latency of whom they send to.
const LEAD_IN: Duration = Duration::from_millis(250);

fn plan(args: &TraceArgs) -> anyhow::Result<Plan> {
    let default_endpoint = if args.http { "127.0.0.1:4318" } else { "127.0.0.1:4317" };
    let target = Target::new(args.endpoint.as_deref().unwrap_or(default_endpoint), args.http, args.compression)?;
    let batch = u64::from(args.shape.batch);
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
    let interval = args.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(batch as f64 / rate as f64));
    let template = worker::template(&args.shape, args.shape.batch, &target)?;
    let start = Instant::now() + if args.rate.is_some() { LEAD_IN } else { Duration::ZERO };
    let schedule = Schedule {
        start,
        deadline: args.duration.map(|duration| start + duration.0),
        interval,
        first_id: args.first_id,
        batch,
        total: args.spans,
        next: AtomicU64::new(0),
    };
    Ok(Plan {
        template,
        target,
        shape: args.shape,
        schedule,
        timeout: args.timeout,
        retry: args.retry,
        trace_seed: fastrand::u64(1..),
        progress: Progress::default(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "rates need no more than 53 bits")]
fn report(tally: &Tally, args: &TraceArgs, seconds: f64, cpu_seconds: f64) -> LoadReport {
    let cores = runtime::cores() as f64;
    let busy = cpu_seconds / (seconds * cores).max(f64::MIN_POSITIVE);
    // Requests are due until the deadline; the last answers may come later.
    let sending = args.duration.map_or(seconds, |duration| seconds.min(duration.0.as_secs_f64()));
    LoadReport {
        seconds,
        requests: tally.requests,
        sent_spans: tally.sent_spans,
        acked_spans: tally.acked_spans,
        refused_spans: tally.refused_spans,
        unknown_spans: tally.unknown_spans,
        partial_rejected: tally.partial_rejected,
        refused: tally.refused.clone(),
        refused_without_hint: tally.refused_without_hint,
        errors: tally.errors.clone(),
        connect_failures: tally.connect_failures,
        bytes: tally.bytes,
        acked_per_s: tally.acked_spans as f64 / seconds,
        latency_ms: tally.latency.summary(),
        lateness_ms: tally.lateness.summary(),
        cpu_seconds,
        busy,
        bottleneck: bottleneck(busy, tally.sent_spans as f64 / sending, args.rate),
        ids: LoadIds { acked: tally.acked.ranges(), unknown: tally.unknown.ranges() },
    }
}

/// From this share of its cores on, the generator counts as the limit.
const BUSY_LIMIT: f64 = 0.95;
/// Below this share of the wanted rate, the rate counts as not kept.
const RATE_KEPT: f64 = 0.99;

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
fn bottleneck(busy: f64, sent_per_s: f64, rate: Option<u64>) -> Option<String> {
    if busy > BUSY_LIMIT {
        return Some(format!("the generator used {:.0} % of its CPU", busy * 100.0));
    }
    let rate = rate? as f64;
    (sent_per_s < rate * RATE_KEPT)
        .then(|| format!("sent {sent_per_s:.0} of {rate:.0} spans/s: answers came too late for this concurrency"))
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

fn summarize(report: &LoadReport) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "acknowledged {} of {} spans in {:.1} s: {:.0} spans/s; refused {}, no answer {}; latency p50 {:.1} ms, p99 {:.1} ms; {:.0} % CPU",
        report.acked_spans,
        report.sent_spans,
        report.seconds,
        report.acked_per_s,
        report.refused_spans,
        report.unknown_spans,
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
