//! One system under one scenario: start, warm up, measure, drain, stop, collect.
//!
//! It gathers facts and judges nothing; see [`super::verdict`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::children::{Launch, Process, free_ports};
use super::config::{self, Ports};
use super::metrics::SelfView;
use super::{Settings, System, SystemKind, http, progress};
use crate::cpu::{self, CoreTime, Memory};
use crate::files;
use crate::ids::IdSet;
use crate::load::LoadReport;
use crate::sink::SinkReport;

/// Ids of the measured run start here, far above those of the warm-up.
pub(crate) const MEASURED_FIRST_ID: u64 = 1 << 40;

/// How long processes may take to start, the gateway to hand over what it holds, and to stop.
const START_LIMIT: Duration = Duration::from_secs(30);
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How often a moment is looked for in which the gateway delivers nothing.
const STILL_ATTEMPTS: usize = 20;

/// Time between two samples of memory; metrics are scraped on each fourth.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
const SAMPLES_PER_SCRAPE: u32 = 4;

/// Everything a run of one system showed.
pub(crate) struct Trial {
    pub(crate) warmup: LoadReport,
    pub(crate) load: LoadReport,
    pub(crate) sinks: Vec<SinkReport>,
    pub(crate) before: Snapshot,
    pub(crate) after: Snapshot,
    /// CPU seconds of the gateway once everything it accepted had left it, or the time for that was over.
    pub(crate) drained_cpu_seconds: f64,
    pub(crate) samples: Samples,
    /// The gateway's own counts at the end of the drain.
    pub(crate) self_view: SelfView,
    /// What was where when the gateway was asked to stop; only looked at under back-pressure.
    pub(crate) at_stop: Option<AtStop>,
    /// What went wrong while stopping.
    pub(crate) stop_error: Option<String>,
}

/// The undelivered spans just before the gateway is asked to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct AtStop {
    /// Acknowledged spans that sinks do not have, summed over sinks.
    pub(crate) missing: u64,
    /// Spans the gateway says it holds, summed over pipelines.
    pub(crate) pending: f64,
}

/// Counters at the start or the end of the measured time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) gateway_cpu_seconds: f64,
    pub(crate) sinks_cpu_seconds: f64,
    pub(crate) own_cpu_seconds: f64,
    pub(crate) gateway_cores: CoreTime,
    pub(crate) judge_cores: CoreTime,
    /// Different span ids the sinks hold, summed.
    pub(crate) exported: u64,
}

/// What was sampled during the measured time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    pub(crate) memory_bytes: Vec<u64>,
    pub(crate) memory_peak_bytes: u64,
    pub(crate) queue_size: Vec<f64>,
}

/// The processes of a running trial.
struct Stage<'a> {
    settings: &'a Settings,
    system: &'a System,
    directory: PathBuf,
    sinks: Vec<SinkProcess>,
    gateway: Process,
    ports: Ports,
}

struct SinkProcess {
    process: Process,
    control: u16,
    report: PathBuf,
}

/// Runs the scenario once against `system`.
///
/// # Errors
/// A process cannot be started, ends early or fails.
pub(crate) async fn run(system: &System, settings: &Settings) -> anyhow::Result<Trial> {
    let mut stage = Stage::start(system, settings).await?;
    let mut samples = Samples::default();
    let warmup = match settings.warmup {
        time if time.is_zero() => LoadReport::default(),
        time => stage.run_load("warmup", 1, time, &mut samples).await?,
    };
    for sink in &stage.sinks {
        http::post(sink.control, "/latency/reset").await?;
    }
    samples = Samples::default();
    let before = stage.snapshot().await?;
    let load = stage.run_load("generator", MEASURED_FIRST_ID, settings.duration, &mut samples).await?;
    let after = stage.snapshot().await?;
    let acked = acked_ids(&warmup, &load);
    let self_view = stage.drain(acked.len()).await?;
    let drained_cpu_seconds = cpu::process_seconds(&stage.gateway.pid)?;
    samples.note_peak(cpu::process_memory(&stage.gateway.pid)?);
    let at_stop = if settings.variant.backpressure { Some(stage.at_stop(&acked).await?) } else { None };
    let (stop_error, sinks) = stage.stop().await?;
    Ok(Trial { warmup, load, sinks, before, after, drained_cpu_seconds, samples, self_view, at_stop, stop_error })
}

/// Every id that was acknowledged: what the system owes to each sink.
pub(crate) fn acked_ids(warmup: &LoadReport, load: &LoadReport) -> IdSet {
    let mut acked = IdSet::from_ranges(&warmup.ids.acked);
    acked.merge(&IdSet::from_ranges(&load.ids.acked));
    acked
}

/// Ids of `acked` that a sink does not have, summed over sinks.
pub(crate) fn missing<'a>(acked: &IdSet, sinks: impl IntoIterator<Item = &'a SinkReport>) -> u64 {
    let received = |sink: &SinkReport| IdSet::from_ranges(sink.ids.as_deref().unwrap_or_default());
    sinks.into_iter().map(|sink| acked.missing_from(&received(sink))).sum()
}

impl<'a> Stage<'a> {
    async fn start(system: &'a System, settings: &'a Settings) -> anyhow::Result<Self> {
        let directory = settings.directory.join(&system.name);
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let mut sinks = Vec::new();
        let mut sink_ports = Vec::new();
        for index in 0..settings.variant.sinks() {
            let (sink, port) = start_sink(settings, &directory, index)?;
            sinks.push(sink);
            sink_ports.push(port);
        }
        for sink in &mut sinks {
            until_ready(&mut sink.process, || http::get(sink.control, "/healthz")).await?;
        }
        let [grpc, http_port, metrics, health] = free_ports()?;
        let ports = Ports { grpc, http: http_port, metrics, health };
        let mut gateway = start_gateway(system, settings, &directory, ports, &sink_ports)?;
        match system.kind {
            SystemKind::Weir => until_ready(&mut gateway, || http::get(health, "/")).await?,
            SystemKind::Otelcol => until_ready(&mut gateway, || connect(grpc)).await?,
        }
        Ok(Self { settings, system, directory, sinks, gateway, ports })
    }

    /// Runs the generator to its end, sampling the gateway meanwhile.
    async fn run_load(
        &mut self,
        name: &str,
        first_id: u64,
        duration: Duration,
        samples: &mut Samples,
    ) -> anyhow::Result<LoadReport> {
        let report = self.directory.join(format!("{name}.json"));
        let mut generator = Process::start(Launch {
            name,
            program: &self.settings.judge,
            arguments: generator_arguments(self.settings, self.ports.grpc, first_id, duration, &report),
            environment: Vec::new(),
            cores: &self.settings.layout.judge,
            directory: &self.directory,
        })?;
        let mut ticks = interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let started = Instant::now();
        let mut scrape_in = 0;
        let status = loop {
            tokio::select! {
                status = generator.wait() => break status?,
                _ = ticks.tick() => {
                    self.gateway.check_alive()?;
                    samples.add(cpu::process_memory(&self.gateway.pid)?);
                    if scrape_in == 0 {
                        scrape_in = SAMPLES_PER_SCRAPE;
                        self.scrape(samples, name, started.elapsed()).await;
                    }
                    scrape_in -= 1;
                }
            }
        };
        generator.check(status)?;
        self.gateway.check_alive()?;
        files::read_json(&report)
    }

    /// One look at the gateway's metrics; a gateway too busy to answer is not an error.
    async fn scrape(&self, samples: &mut Samples, phase: &str, elapsed: Duration) {
        let Ok(view) = self.self_view().await else { return };
        samples.queue_size.extend(view.queue_size);
        progress::show(&self.system.name, phase, elapsed, &view, samples.memory_bytes.last().copied());
    }

    async fn self_view(&self) -> anyhow::Result<SelfView> {
        let text = http::get(self.ports.metrics, "/metrics").await?;
        Ok(SelfView::parse(&String::from_utf8_lossy(&text)))
    }

    async fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let mut sinks_cpu_seconds = 0.0;
        let mut exported = 0;
        for sink in &self.sinks {
            sinks_cpu_seconds += cpu::process_seconds(&sink.process.pid)?;
            exported += sink.live_report().await?.unique;
        }
        Ok(Snapshot {
            at: Instant::now(),
            gateway_cpu_seconds: cpu::process_seconds(&self.gateway.pid)?,
            sinks_cpu_seconds,
            own_cpu_seconds: cpu::own_seconds()?,
            gateway_cores: cpu::core_time(&self.settings.layout.gateway)?,
            judge_cores: cpu::core_time(&self.settings.layout.judge)?,
            exported,
        })
    }

    /// Waits until each sink has as many spans as were acknowledged, or the gateway says that it holds nothing more.
    async fn drain(&mut self, acked: u64) -> anyhow::Result<SelfView> {
        let mut ticks = interval(SAMPLE_INTERVAL);
        let limit = Instant::now() + DRAIN_LIMIT;
        let mut view = SelfView::default();
        loop {
            let now = ticks.tick().await;
            self.gateway.check_alive()?;
            let mut complete = true;
            for sink in &self.sinks {
                complete &= sink.live_report().await?.unique >= acked;
            }
            if let Ok(newer) = self.self_view().await {
                view = newer;
            }
            if complete || view.pending == Some(0.0) || now >= limit {
                return Ok(view);
            }
        }
    }

    /// Compares what sinks lack with what the gateway holds, at a moment when nothing moves if there is one.
    async fn at_stop(&self, acked: &IdSet) -> anyhow::Result<AtStop> {
        let mut last = AtStop::default();
        for _ in 0..STILL_ATTEMPTS {
            let before = self.held(self.self_view().await?);
            let mut sinks = Vec::new();
            for sink in &self.sinks {
                sinks.push(sink.report_at("/report?ids=1").await?);
            }
            last = AtStop { missing: missing(acked, &sinks), pending: before };
            let after = self.held(self.self_view().await?);
            if (before - after).abs() < 1.0 {
                break;
            }
        }
        Ok(last)
    }

    /// Stops the gateway, then the sinks; returns what went wrong, and the sinks' reports.
    async fn stop(self) -> anyhow::Result<(Option<String>, Vec<SinkReport>)> {
        let stop_error = self.gateway.stop(STOP_LIMIT).await.err().map(|err| err.to_string());
        let mut reports = Vec::new();
        for sink in self.sinks {
            sink.process.stop(STOP_LIMIT).await?;
            reports.push(files::read_json(&sink.report)?);
        }
        Ok((stop_error, reports))
    }

    /// Spans the gateway says it holds; a queue that counts requests holds a batch in each.
    fn held(&self, view: SelfView) -> f64 {
        let queued = view.queue_size.unwrap_or(0.0) * f64::from(self.settings.shape.batch);
        view.pending.unwrap_or(queued)
    }
}

impl SinkProcess {
    async fn live_report(&self) -> anyhow::Result<SinkReport> {
        self.report_at("/report").await
    }

    async fn report_at(&self, path: &str) -> anyhow::Result<SinkReport> {
        let body = http::get(self.control, path).await?;
        serde_json::from_slice(&body).context("cannot decode sink report")
    }
}

impl Samples {
    fn add(&mut self, memory: Memory) {
        self.memory_bytes.push(memory.now);
        self.note_peak(memory);
    }

    fn note_peak(&mut self, memory: Memory) {
        self.memory_peak_bytes = self.memory_peak_bytes.max(memory.peak);
    }
}

fn start_sink(settings: &Settings, directory: &Path, index: usize) -> anyhow::Result<(SinkProcess, u16)> {
    let [grpc, http_port, control] = free_ports()?;
    let name = format!("sink-{}", index + 1);
    let report = directory.join(format!("{name}.json"));
    let mut arguments: Vec<String> = vec!["sink".into(), "--report".into(), report.display().to_string()];
    for (flag, value) in [("--grpc-port", grpc), ("--http-port", http_port), ("--control-port", control)] {
        arguments.extend([flag.into(), value.to_string()]);
    }
    if settings.variant.backpressure {
        // The faults of the load-test kit, drawn differently by each sink.
        for argument in ["--fault", "503:70", "--delay", "1s:70", "--seed"] {
            arguments.push(argument.into());
        }
        arguments.push(index.to_string());
    }
    let process = Process::start(Launch {
        name: &name,
        program: &settings.judge,
        arguments,
        environment: Vec::new(),
        cores: &settings.layout.judge,
        directory,
    })?;
    Ok((SinkProcess { process, control, report }, grpc))
}

fn start_gateway(
    system: &System,
    settings: &Settings,
    directory: &Path,
    ports: Ports,
    sinks: &[u16],
) -> anyhow::Result<Process> {
    let file = directory.join("config.yaml");
    let (text, arguments, environment) = match system.kind {
        SystemKind::Weir => {
            let mut arguments: Vec<String> = vec!["run".into(), file.display().to_string()];
            arguments.extend(["--listen".into(), "127.0.0.1".into()]);
            for (flag, value) in [
                ("--grpc-port", u64::from(ports.grpc)),
                ("--http-port", ports.http.into()),
                ("--metrics-port", ports.metrics.into()),
                ("--health-port", ports.health.into()),
                ("--memory", settings.memory_bytes),
            ] {
                arguments.extend([flag.into(), value.to_string()]);
            }
            (config::weir(sinks, settings.compression), arguments, Vec::new())
        }
        SystemKind::Otelcol => {
            let text = config::otelcol(ports, sinks, settings.compression, settings.memory_bytes);
            let arguments = vec!["--config".into(), file.display().to_string()];
            (text, arguments, vec![("GOMEMLIMIT", settings.memory_bytes.to_string())])
        }
    };
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Process::start(Launch {
        name: "gateway",
        program: &system.program,
        arguments,
        environment,
        cores: &settings.layout.gateway,
        directory,
    })
}

fn generator_arguments(
    settings: &Settings,
    port: u16,
    first_id: u64,
    duration: Duration,
    report: &Path,
) -> Vec<String> {
    let shape = &settings.shape;
    let mut arguments = vec!["load".to_owned(), "traces".to_owned()];
    for (flag, value) in [
        ("--endpoint", format!("127.0.0.1:{port}")),
        ("--first-id", first_id.to_string()),
        ("--duration", format!("{}s", duration.as_secs_f64())),
        ("--concurrency", settings.concurrency.to_string()),
        ("--batch", shape.batch.to_string()),
        ("--attributes", shape.attributes.to_string()),
        ("--attribute-bytes", shape.attribute_bytes.to_string()),
        ("--spans-per-trace", shape.spans_per_trace.to_string()),
        ("--report", report.display().to_string()),
    ] {
        arguments.extend([flag.to_owned(), value]);
    }
    if let Some(rate) = settings.rate {
        arguments.extend(["--rate".to_owned(), rate.to_string()]);
    }
    arguments
}

async fn connect(port: u16) -> anyhow::Result<()> {
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    Ok(())
}

/// Asks until `probe` succeeds; fails when the process ends or does not get ready in time.
async fn until_ready<T, F>(process: &mut Process, probe: impl Fn() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut ticks = interval(Duration::from_millis(20));
    let ready = async {
        loop {
            ticks.tick().await;
            process.check_alive()?;
            if probe().await.is_ok() {
                return anyhow::Ok(());
            }
        }
    };
    match timeout(START_LIMIT, ready).await {
        Ok(ready) => ready,
        Err(_) => bail!("a process was not ready within {START_LIMIT:?}"),
    }
}
