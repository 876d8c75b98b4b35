//! `weir sink`: an OTLP backend that counts what arrives and breaks on request.
//!
//! It takes all three signals and keeps no telemetry: of each item it records the id and the latency. Faults are
//! described in [`faults`].

mod control;
pub mod faults;
mod ledger;
mod message;
mod server;
mod service;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::faults::{Dice, Faults};
use self::ledger::Ledger;
pub use self::ledger::SinkReport;
use self::ledger::Wants;
use self::message::Transport;
use crate::output::printed;
use crate::{files, runtime};

/// How often the log says what was received.
const TELL_EVERY: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  weir sink
  weir sink --fault 503:70 --delay 1s:70 --retry-after 2
  weir sink --outage 10s..25s --report sink.json
  weir sink --log-lines --report sink.json
  weir sink --scraped --report sink.json
  curl -X POST localhost:14319/faults -d '{\"fault\": [\"429:30\", \"grpc=14:10\"], \"stall\": 1}'
  curl localhost:14319/report";

/// Receive OTLP as a backend: count, record ids, inject faults.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub struct SinkArgs {
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of OTLP/gRPC; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 14317)]
    pub grpc_port: u16,
    /// Port of OTLP/HTTP (protobuf), of the records that output.http sends to / in any format, and of Prometheus's remote
    /// write at /api/v1/write; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 14318)]
    pub http_port: u16,
    /// Port for reports, metrics and changing faults; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 14319)]
    pub control_port: u16,
    /// Largest HTTP/2 frame that clients are told to send; most backends have the default
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024, value_parser = clap::value_parser!(u32).range(16_384..16_777_216))]
    pub frame_bytes: u32,
    /// Write a report with all received ids as JSON to this file at exit
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Count requests in which this text, for example the key of an attribute, does not stand
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub expect_text: Option<String>,
    /// Count the lines of `weir load log-files` in log records: duplicates, order, damage
    #[arg(long)]
    pub log_lines: bool,
    /// Count the samples of `weir load scrape-targets` in data points: which of which scrape, duplicates, damage
    #[arg(long)]
    pub scraped: bool,
    /// What to do wrong on purpose
    #[command(flatten)]
    pub faults: Faults,
}

/// Runs the sink until SIGINT or SIGTERM.
///
/// # Errors
/// A port cannot be bound, or the report cannot be written.
pub fn run(args: SinkArgs) -> anyhow::Result<ExitCode> {
    runtime::build()?.block_on(async {
        let stop = runtime::stop_signal()?;
        let sink = Sink::start(&args).await?;
        tracing::info!(grpc = %sink.grpc, http = %sink.http, control = %sink.control, "sink ready");
        tokio::select! {
            () = stop => {}
            () = tell(&sink) => {}
        }
        let report = sink.stop(args.report.is_some()).await;
        if let Some(path) = &args.report {
            files::write_json(path, &report)?;
        }
        printed(summarize(&report))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Logs what was received so far, now and then while there is more.
async fn tell(sink: &Sink) {
    let mut told = 0;
    loop {
        sleep(TELL_EVERY).await;
        let report = sink.report(false);
        if report.received > told {
            told = report.received;
            tracing::info!(requests = report.requests, "received {} so far", received(&report));
        }
    }
}

fn summarize(report: &SinkReport) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "received {} ({} unique, {} duplicates) in {} of {} requests; latency p50 {:.1} ms, p99 {:.1} ms",
        received(report),
        report.unique,
        report.duplicates,
        report.accepted_requests,
        report.requests,
        report.latency_ms.p50,
        report.latency_ms.p99
    )?;
    if report.without_text > 0 {
        writeln!(out, "without the text expected: {} requests", report.without_text)?;
    }
    if let Some(lines) = &report.log_lines {
        writeln!(
            out,
            "lines of log files: {} ({} duplicates, {} out of order); damaged {}, records without a line {}",
            lines.received, lines.duplicates, lines.reordered, lines.damaged, lines.unmarked
        )?;
    }
    if let Some(pages) = &report.scraped {
        writeln!(
            out,
            "samples of pages: {} ({} duplicates); damaged points {}, of others {}, ends of series {}",
            pages.samples, pages.duplicates, pages.damaged, pages.foreign, pages.ended
        )?;
    }
    for (reason, count) in &report.refused {
        writeln!(out, "not accepted, {reason}: {count} requests")?;
    }
    Ok(())
}

/// What was received, by signal, in words.
pub(crate) fn received(report: &SinkReport) -> String {
    let counts: Vec<String> =
        report.received_by_signal.iter().map(|(signal, count)| format!("{count} {}", signal.items())).collect();
    if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") }
}

/// What all tasks of a sink share.
pub(crate) struct Shared {
    ledger: Ledger,
    dice: Dice,
    expected_text: Option<String>,
    outage: watch::Sender<bool>,
    frame_bytes: u32,
}

/// A sink that is listening; dropping it closes everything.
pub struct Sink {
    /// Address of OTLP/gRPC.
    pub grpc: SocketAddr,
    /// Address of OTLP/HTTP.
    pub http: SocketAddr,
    /// Address of the control port.
    pub control: SocketAddr,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Sink {
    /// Binds the ports and starts serving on the current runtime.
    ///
    /// # Errors
    /// A port cannot be bound.
    pub async fn start(args: &SinkArgs) -> anyhow::Result<Self> {
        let (grpc_listener, grpc) = bind(args.listen, args.grpc_port).await?;
        let (http_listener, http) = bind(args.listen, args.http_port).await?;
        let (control_listener, control) = bind(args.listen, args.control_port).await?;
        let dice = Dice::new(args.faults.clone());
        let shared = Arc::new(Shared {
            ledger: Ledger::new(Wants { lines: args.log_lines, pages: args.scraped }),
            dice,
            expected_text: args.expect_text.clone(),
            outage: server::outage_channel(),
            frame_bytes: args.frame_bytes,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(server::serve(grpc_listener, grpc, Arc::clone(&shared), Transport::Grpc));
        tasks.spawn(server::serve(http_listener, http, Arc::clone(&shared), Transport::Http));
        tasks.spawn(control::serve(control_listener, Arc::clone(&shared)));
        let driver = Arc::clone(&shared);
        tasks.spawn(async move { driver.dice.drive_outages(&driver.outage).await });
        Ok(Self { grpc, http, control, shared, tasks })
    }

    /// Replaces the faults; windows of time count from now.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.dice.replace(faults);
    }

    /// What was received so far.
    pub fn report(&self, with_ids: bool) -> SinkReport {
        self.shared.ledger.report(with_ids)
    }

    /// Closes everything, then reports: nothing is recorded after the report.
    pub async fn stop(mut self, with_ids: bool) -> SinkReport {
        self.tasks.shutdown().await;
        self.report(with_ids)
    }
}

async fn bind(ip: IpAddr, port: u16) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((ip, port)).await.with_context(|| format!("cannot listen on {ip}:{port}"))?;
    let address = listener.local_addr().with_context(|| format!("cannot read address of listener on {ip}:{port}"))?;
    Ok((listener, address))
}
