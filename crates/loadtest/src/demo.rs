//! `weir demo`: a gateway, a sink behind it, a gentle load and a few containers that write before it, and once a second
//! what flows.
//!
//! Everything runs as the processes a user would start, so what the demo shows can be repeated by hand.

use std::io::{self, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tokio::time::{Instant, MissedTickBehavior, interval};
use weir_units::parse_positive_duration;

use crate::output;
use crate::runtime;
use crate::scenario::children::{Launch, Process};
use crate::scenario::http;
use crate::scenario::metrics::sum;
use crate::signal::Signal;
use crate::sink::{self, SinkReport};

const EXAMPLES: &str = "\
Examples:
  weir demo examples/all-signals.yaml
  weir demo examples/quickstart.yaml --rate 50000 --duration 30s

All processes use the ports that they have by default, so nothing else may use them. Logs and data are in a temporary \
directory, which is deleted at the end.";

/// Where the gateway serves its metrics and health by default.
const METRICS_PORT: u16 = 8888;
const HEALTH_PORT: u16 = 13133;
const ADMIN_PORT: u16 = 55679;
/// Where the sink takes its commands by default.
const CONTROL_PORT: u16 = 14319;
/// Every port the demo's processes listen on.
const PORTS: [u16; 8] = [4317, 4318, METRICS_PORT, HEALTH_PORT, ADMIN_PORT, 14317, 14318, CONTROL_PORT];
/// How long a process may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(25);
/// Rows between two headings.
const ROWS_PER_HEADING: u64 = 20;

/// Start a gateway with a sink behind it, a gentle load and containers that write logs, and show what flows.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// A file whose pipelines send to http://127.0.0.1:14317, where the demo's sink listens
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Spans per second, and as many points and log records where there are pipelines for them
    #[arg(long, value_name = "ITEMS_PER_SECOND", default_value_t = 1000)]
    pub rate: u64,
    /// How long it runs; without it, until Ctrl-C
    #[arg(short, long, alias = "seconds", value_name = "DURATION", value_parser = parse_positive_duration)]
    pub duration: Option<Duration>,
}

/// Runs until Ctrl-C.
///
/// # Errors
/// A process does not start (its port may be taken) or ends early.
pub fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    runtime::build()?.block_on(async {
        let stop = runtime::stop_signal()?;
        check_free_ports()?;
        let directory = std::env::temp_dir().join(format!("weir-demo-{}", std::process::id()));
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let shown = from_start_to_end(&args, &directory, stop).await;
        shown.with_context(|| format!("the demo failed; its files stay in {}", directory.display()))?;
        // They are of no use any more; what cannot be removed does no harm in a temporary directory.
        let _ = std::fs::remove_dir_all(&directory);
        Ok(ExitCode::SUCCESS)
    })
}

async fn from_start_to_end(args: &DemoArgs, directory: &Path, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let mut stop = pin!(stop);
    let mut processes = tokio::select! {
        started = Processes::start(args, directory) => started?,
        // Those that run already are killed: there is nothing to keep.
        () = &mut stop => return Ok(()),
    };
    tokio::select! {
        shown = show(&mut processes, directory, args.duration) => shown?,
        () = &mut stop => {}
    }
    processes.stop().await
}

/// The demo uses the ports that everything has by default, so that what it shows can be repeated as it is.
fn check_free_ports() -> anyhow::Result<()> {
    for port in PORTS {
        TcpListener::bind(("127.0.0.1", port))
            .with_context(|| format!("cannot use port {port}: is a gateway, a sink or another demo running?"))?;
    }
    Ok(())
}

/// The processes of the demo.
struct Processes {
    sink: Process,
    gateway: Process,
    /// A generator for each signal that a pipeline takes.
    loads: Vec<(Signal, Process)>,
    /// Containers whose logs the gateway reads, where a pipeline takes log records.
    containers: Option<Process>,
}

impl Processes {
    async fn start(args: &DemoArgs, directory: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let file = args.file.display().to_string();
        let start = |name: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            Process::start(Launch {
                name,
                program: &program,
                arguments,
                environment: Vec::new(),
                cores: &[],
                directory,
            })
        };
        let pods = directory.join("pods");
        std::fs::create_dir_all(&pods).with_context(|| format!("cannot create {}", pods.display()))?;
        let pods = pods.display().to_string();
        let mut sink = start("sink", &["sink", "--log-lines"])?;
        until_up(&mut sink, CONTROL_PORT, "/healthz").await?;
        let data = directory.join("data").display().to_string();
        let mut gateway = start("gateway", &["run", &file, "--data-dir", &data, "--pod-logs", &pods])?;
        until_up(&mut gateway, HEALTH_PORT, "/").await?;
        let rate = args.rate.to_string();
        let mut loads = Vec::new();
        for signal in delivered_signals().await? {
            // Small batches, as applications send them.
            let small = ["--rate", &rate, "--batch", "50", "--attributes", "10", "--retry"];
            let arguments: Vec<&str> = ["load", signal.name()].into_iter().chain(small).collect();
            loads.push((signal, start(&format!("load-{signal}"), &arguments)?));
        }
        let mut containers = None;
        if loads.iter().any(|(signal, _)| *signal == Signal::Logs) {
            let write = ["load", "log-files", &pods, "--shape", "json", "--partial", "5", "--rotate-size", "1MiB"];
            let gently = ["--containers", "3", "--rate", "100"];
            containers = Some(start("containers", &[write.as_slice(), &gently].concat())?);
        }
        Ok(Self { sink, gateway, loads, containers })
    }

    fn check_alive(&mut self) -> anyhow::Result<()> {
        let sources = self.loads.iter_mut().map(|(_, load)| load).chain(&mut self.containers);
        [&mut self.sink, &mut self.gateway].into_iter().chain(sources).try_for_each(Process::check_alive)
    }

    /// In the order in which nothing is lost: the source first, the backend last.
    async fn stop(mut self) -> anyhow::Result<()> {
        for source in self.loads.iter_mut().map(|(_, load)| load).chain(&mut self.containers) {
            source.stop(PATIENCE).await?;
        }
        let samples = scraped_samples().await?;
        let pending = pending_items().await?;
        self.gateway.stop(PATIENCE).await?;
        let report = sink_report().await?;
        self.sink.stop(PATIENCE).await?;
        let (received, duplicates) = (sink::received(&report), report.duplicates);
        let lines = container_lines(&report);
        say(&format!(
            "\nstopped; the backend received {received}; {duplicates} of them twice, {lines} of them lines of containers; \
             {samples} samples were scraped"
        ))?;
        if pending > 0.0 {
            let _ = say(&format!(
                "{pending} items waited for the backend just before the end; what it did not take is deleted with these files"
            ))?;
        }
        Ok(())
    }
}

async fn sink_report() -> anyhow::Result<SinkReport> {
    let report = http::get(CONTROL_PORT, "/report").await?;
    serde_json::from_slice(&report).context("cannot read the sink's report")
}

/// Samples of all pages that the gateway has scraped.
async fn scraped_samples() -> anyhow::Result<f64> {
    let text = http::get(METRICS_PORT, "/metrics").await?;
    Ok(sum(&String::from_utf8_lossy(&text), "weir_scraped_samples_total").unwrap_or(0.0))
}

/// Items that are owed to the backend.
async fn pending_items() -> anyhow::Result<f64> {
    let text = http::get(METRICS_PORT, "/metrics").await?;
    Ok(sum(&String::from_utf8_lossy(&text), "weir_pipeline_pending_items").unwrap_or(0.0))
}

/// Lines of containers that arrived.
#[expect(clippy::cast_precision_loss, reason = "a demo does not receive 2^53 lines")]
fn container_lines(report: &SinkReport) -> f64 {
    report.log_lines.as_ref().map_or(0.0, |lines| lines.received as f64)
}

/// What the gateway has pipelines for: only these have a count of what was sent.
async fn delivered_signals() -> anyhow::Result<Vec<Signal>> {
    let text = http::get(METRICS_PORT, "/metrics").await?;
    let text = String::from_utf8_lossy(&text);
    let is_delivered = |signal: &Signal| sum(&text, &sent(*signal)).is_some();
    Ok(Signal::ALL.into_iter().filter(is_delivered).collect())
}

fn sent(signal: Signal) -> String {
    format!("otelcol_exporter_sent_{}_total", signal.series())
}

async fn until_up(process: &mut Process, port: u16, path: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut tick = interval(Duration::from_millis(20));
    while http::get(port, path).await.is_err() {
        if let Err(error) = process.check_alive() {
            bail!("{error:#}\n{}", process.last_words());
        }
        if Instant::now() > deadline {
            bail!("no answer from http://127.0.0.1:{port}{path} within {PATIENCE:?}");
        }
        tick.tick().await;
    }
    Ok(())
}

fn welcome(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "Weir is running. Send it your own telemetry:

  OTLP/gRPC  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc
  OTLP/HTTP  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf

  page               http://127.0.0.1:{ADMIN_PORT}/ in a browser: where data goes, and what it is
  the same here      weir top; weir why; weir tap '*'
  how it flows       curl http://127.0.0.1:{HEALTH_PORT}/health/pipelines
  metrics            curl http://127.0.0.1:{METRICS_PORT}/metrics
  scraped targets    weir targets (these metrics, every 5 s)
  break the backend  curl -X POST http://127.0.0.1:{CONTROL_PORT}/faults -d '{{\"fault\":[\"503:100\"]}}'
  mend the backend   curl -X POST http://127.0.0.1:{CONTROL_PORT}/faults -d '{{}}'
  files              {directory} has logs of all processes, the data directory,
                     and in pods the log files of a few containers

Ctrl-C ends it, and deletes these files.
"
    )
}

/// One row a second, for as long as somebody reads them.
async fn show(processes: &mut Processes, directory: &Path, duration: Option<Duration>) -> anyhow::Result<()> {
    if !say(&welcome(directory))? {
        return Ok(());
    }
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tick.tick().await;
    let signals: Vec<Signal> = processes.loads.iter().map(|(signal, _)| *signal).collect();
    let mut before = Reading::take(&signals).await?;
    for row in 0..duration.map_or(u64::MAX, |duration| duration.as_secs().max(1)) {
        tick.tick().await;
        processes.check_alive()?;
        let now = Reading::take(&signals).await?;
        if row % ROWS_PER_HEADING == 0 && !say(&heading(&signals))? || !say(&now.row(&before))? {
            break;
        }
        before = now;
    }
    Ok(())
}

/// Columns of each signal, then those of all.
fn heading(signals: &[Signal]) -> String {
    let each = signals.iter().map(|signal| format!("{:>11} {:>12}", format!("{}/s", signal.items()), "delivered/s"));
    let all = ["lines/s", "pending", "refused/s", "memory MB", "backend ms"].map(|name| format!("{name:>10}"));
    each.chain(all).collect::<Vec<_>>().join(" ")
}

/// What the gateway said at one moment.
struct Reading {
    at: Instant,
    /// Accepted and delivered items of each signal.
    items: Vec<(f64, f64)>,
    /// Lines of containers that reached the backend.
    lines: f64,
    refused: f64,
    pending: f64,
    memory: f64,
    latency_sum: f64,
    latency_count: f64,
}

impl Reading {
    async fn take(signals: &[Signal]) -> anyhow::Result<Self> {
        let text = http::get(METRICS_PORT, "/metrics").await?;
        let text = String::from_utf8_lossy(&text);
        let read = |name: &str| sum(&text, name).unwrap_or(0.0);
        let received =
            |what: &str, signal: &Signal| read(&format!("otelcol_receiver_{what}_{}_total", signal.series()));
        Ok(Self {
            at: Instant::now(),
            items: signals.iter().map(|signal| (received("accepted", signal), read(&sent(*signal)))).collect(),
            lines: container_lines(&sink_report().await?),
            refused: signals.iter().map(|signal| received("refused", signal)).sum(),
            pending: read("weir_pipeline_pending_items") + read("weir_pipeline_waiting_items"),
            memory: read("otelcol_process_memory_rss"),
            latency_sum: read("weir_backend_latency_seconds_sum"),
            latency_count: read("weir_backend_latency_seconds_count"),
        })
    }

    fn row(&self, before: &Self) -> String {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let rate = |now: f64, then: f64| (now - then) / seconds;
        let answers = (self.latency_count - before.latency_count).max(1.0);
        let each =
            self.items.iter().zip(&before.items).map(|((accepted, delivered), (accepted_then, delivered_then))| {
                format!("{:>11.0} {:>12.0}", rate(*accepted, *accepted_then), rate(*delivered, *delivered_then))
            });
        let all = format!(
            "{:>10.0} {:>10.0} {:>10.0} {:>10.1} {:>10.2}",
            rate(self.lines, before.lines),
            self.pending,
            rate(self.refused, before.refused),
            self.memory / f64::from(1 << 20),
            (self.latency_sum - before.latency_sum) / answers * 1000.0,
        );
        each.chain([all]).collect::<Vec<_>>().join(" ")
    }
}

/// Whether somebody reads it.
fn say(line: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    output::is_read(writeln!(out, "{line}").and_then(|()| out.flush()))
}
