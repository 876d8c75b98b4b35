//! A backend of a test: a sink as a process of its own, spoken to through its control port.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{interval, timeout};

use super::children::{Launch, Process};
use super::trial::Part;
use super::{Settings, http};
use crate::cpu;
use crate::files;
use crate::sink::SinkReport;

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(20);

/// Ports of a sink.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SinkPorts {
    pub(crate) grpc: u16,
    pub(crate) http: u16,
    pub(crate) control: u16,
}

/// A running sink.
pub(crate) struct Backend {
    process: Process,
    control: u16,
    report: PathBuf,
}

impl Backend {
    /// Starts it; it is not ready yet.
    pub(crate) fn start(settings: &Settings, directory: &Path, index: usize, ports: SinkPorts) -> anyhow::Result<Self> {
        let name = format!("sink-{}", index + 1);
        let report = directory.join(format!("{name}.json"));
        let mut arguments = vec!["sink".to_owned(), "--report".to_owned(), report.display().to_string()];
        for (flag, port) in
            [("--grpc-port", ports.grpc), ("--http-port", ports.http), ("--control-port", ports.control)]
        {
            arguments.extend([flag.to_owned(), port.to_string()]);
        }
        if settings.reads_files {
            arguments.push("--log-lines".to_owned());
        }
        if settings.scrapes {
            arguments.push("--scraped".to_owned());
        }
        if let Some(evidence) = settings.processing.evidence() {
            arguments.extend(["--expect-text".to_owned(), evidence.to_owned()]);
        }
        let process = Process::start(Launch {
            name: &name,
            program: &settings.judge,
            arguments,
            environment: Vec::new(),
            cores: &settings.layout.judge,
            directory,
        })?;
        Ok(Self { process, control: ports.control, report })
    }

    /// Waits until it listens, then gives it its faults.
    pub(crate) async fn prepare(&mut self, faults: &str) -> anyhow::Result<()> {
        let mut ticks = interval(READY_POLL);
        let ready = async {
            while http::get(self.control, "/healthz").await.is_err() {
                self.process.check_alive()?;
                ticks.tick().await;
            }
            anyhow::Ok(())
        };
        match timeout(START_LIMIT, ready).await {
            Ok(ready) => ready?,
            Err(_) => bail!("a sink was not ready within {START_LIMIT:?}"),
        }
        self.set_faults(faults).await
    }

    /// Replaces its faults.
    pub(crate) async fn set_faults(&self, faults: &str) -> anyhow::Result<()> {
        http::post(self.control, "/faults", faults).await?;
        Ok(())
    }

    /// Makes it forget latencies: what the warm-up left behind.
    pub(crate) async fn forget_latencies(&self) -> anyhow::Result<()> {
        http::post(self.control, "/latency/reset", "").await?;
        Ok(())
    }

    /// Its counts, without ids. A sink with one core answers when it has read the request that it is reading.
    pub(crate) async fn counts(&self) -> anyhow::Result<SinkReport> {
        decode(&http::get_long(self.control, "/report").await?)
    }

    /// Everything it knows, ids included.
    pub(crate) async fn with_ids(&self) -> anyhow::Result<SinkReport> {
        decode(&http::get_long(self.control, "/report?ids=1").await?)
    }

    /// CPU seconds it has used.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        cpu::process_seconds(&self.process.pid)
    }

    /// Stops it; returns its last report.
    pub(crate) async fn stop(mut self) -> anyhow::Result<SinkReport> {
        self.process.stop(STOP_LIMIT).await?;
        files::read_json(&self.report)
    }
}

/// Starts one with its faults for each backend of the part's script.
pub(crate) async fn start(part: &Part<'_>, settings: &Settings, ports: &[SinkPorts]) -> anyhow::Result<Vec<Backend>> {
    let mut backends = Vec::new();
    for (index, &ports) in ports.iter().enumerate() {
        backends.push(Backend::start(settings, &part.directory, index, ports)?);
    }
    for (backend, faults) in backends.iter_mut().zip(&part.script.backends) {
        backend.prepare(faults).await?;
    }
    Ok(backends)
}

/// Stops all of them; returns their last reports.
pub(crate) async fn stop(backends: Vec<Backend>) -> anyhow::Result<Vec<SinkReport>> {
    let mut reports = Vec::new();
    for backend in backends {
        reports.push(backend.stop().await?);
    }
    Ok(reports)
}

fn decode(body: &[u8]) -> anyhow::Result<SinkReport> {
    serde_json::from_slice(body).context("cannot decode sink report")
}
