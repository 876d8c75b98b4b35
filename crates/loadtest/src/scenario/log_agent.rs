//! One log agent under one script: files are written, it reads them, and everything it can read has to arrive.
//!
//! As with gateways it gathers facts and judges nothing; see `judgement/lines.rs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::backend::{self, Backend, SinkPorts};
use super::children::{Launch, Process};
use super::config::Output;
use super::course::Window;
use super::director::{Director, Kills};
use super::gateway::{Gateway, Place, remove_leftovers};
use super::metrics::SelfView;
use super::readings::Readings;
use super::track::seconds_now;
use super::trial::{Part, Settled, Setup};
use super::writer::Writer;
use super::{Settings, SystemKind, progress};
use crate::files;
use crate::load::log_files::Manifest;
use crate::sink::SinkReport;

/// Time between two readings.
const READING_INTERVAL: Duration = Duration::from_millis(100);
/// When nothing arrived for so long, and nothing is held, nothing more will: Weir looks at everything once in 30 s; a
/// collector retries after 30 s and half of that at most.
const QUIET_WEIR: Duration = Duration::from_secs(35);
const QUIET_PEER: Duration = Duration::from_secs(50);
/// The directory of the files, below that of the test.
const PODS: &str = "pods";

/// Everything a run of one agent showed.
pub(crate) struct AgentTrial {
    pub(crate) manifest: Manifest,
    pub(crate) sinks: Vec<SinkReport>,
    pub(crate) window: Window,
    pub(crate) measured: Measured,
    pub(crate) settled: Settled,
    pub(crate) readings: Readings,
    pub(crate) kills: Option<Kills>,
    pub(crate) stop_error: Option<String>,
}

/// The measured time: while files were written, or until everything that was written before had arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// Lines that arrived in it, summed over sinks.
    pub(crate) arrived: u64,
    /// CPU seconds of the agent before it, and in it.
    pub(crate) cpu_seconds_before: f64,
    pub(crate) cpu_seconds: f64,
    /// CPU seconds of all sinks in it.
    pub(crate) sinks_cpu_seconds: f64,
}

/// Goes through a script once.
///
/// # Errors
/// A process cannot be started, ends early or fails.
pub(crate) async fn run(part: &Part<'_>, writer: &Writer, settings: &Settings) -> anyhow::Result<AgentTrial> {
    let scene = Scene { part, settings, pods: part.directory.join(PODS) };
    let (setup, backends) = scene.prepare().await?;
    let written = if writer.first { Some(scene.write(writer).await?) } else { None };
    let gateway = Gateway::start(part.system, settings, scene.place(&setup)).await?;
    let mut running =
        RunningTrial { scene: &scene, backends, gateway, readings: Readings::default(), view: SelfView::default() };
    let (begin, began) = (Instant::now(), seconds_now());
    // An agent that finds everything there reads while it starts.
    let cpu_seconds_before = if writer.first { 0.0 } else { running.gateway.cpu_seconds()? };
    let mut director = Director::new(part.script, begin);
    let manifest = match written {
        Some(manifest) => {
            running.settle(&manifest, settings.duration).await?;
            manifest
        }
        None => running.watch(scene.start_writer(writer)?, &mut director).await?,
    };
    let kills = director.finish(&mut running.gateway).await?;
    let measured = running.measured(begin, cpu_seconds_before).await?;
    let window = Window { began, ended: seconds_now() };
    if part.script.mended {
        director.mend(&running.backends).await?;
    }
    let settled = Settled { mended_at: director.mended_at(), ..running.settled(&manifest).await? };
    let readings = std::mem::take(&mut running.readings);
    let (stop_error, sinks) = running.stop().await?;
    // Gigabytes, which nobody needs any more.
    remove_leftovers(&scene.pods)?;
    Ok(AgentTrial { manifest, sinks, window, measured, settled, readings, kills, stop_error })
}

/// Where a run takes place.
struct Scene<'a> {
    part: &'a Part<'a>,
    settings: &'a Settings,
    pods: PathBuf,
}

impl Scene<'_> {
    /// Starts the sinks; the directory of the files is there, and empty.
    async fn prepare(&self) -> anyhow::Result<(Setup, Vec<Backend>)> {
        remove_leftovers(&self.pods)?;
        std::fs::create_dir_all(&self.pods).with_context(|| format!("cannot create {}", self.pods.display()))?;
        let port = |ports: &SinkPorts| match self.settings.output {
            Output::Otlp => ports.grpc,
            Output::Http(_) => ports.http,
        };
        Setup::start(self.part, self.settings, port).await
    }

    /// Where the agent runs, which reads the files.
    fn place<'s>(&'s self, setup: &'s Setup) -> Place<'s> {
        let mut place = setup.place(self.part, self.settings);
        place.pipelines.pod_logs = Some(&self.pods);
        place
    }

    fn manifest_path(&self) -> PathBuf {
        self.part.directory.join("manifest.json")
    }

    fn manifest(&self) -> anyhow::Result<Manifest> {
        files::read_json(&self.manifest_path())
    }

    /// Lets the writer come to its end.
    async fn write(&self, writer: &Writer) -> anyhow::Result<Manifest> {
        let mut generator = self.start_writer(writer)?;
        let status = generator.wait().await?;
        generator.check(status)?;
        self.manifest()
    }

    fn start_writer(&self, writer: &Writer) -> anyhow::Result<Process> {
        let path = |path: &Path| path.display().to_string();
        let mut arguments = vec!["load".to_owned(), "log-files".to_owned(), path(&self.pods)];
        arguments.extend(["--manifest".to_owned(), path(&self.manifest_path())]);
        arguments.extend(writer.arguments.iter().cloned());
        Process::start(Launch {
            name: "writer",
            program: &self.settings.judge,
            arguments,
            environment: Vec::new(),
            cores: &self.settings.layout.judge,
            directory: &self.part.directory,
        })
    }
}

/// The processes of a running trial, and what was read so far.
struct RunningTrial<'a> {
    scene: &'a Scene<'a>,
    backends: Vec<Backend>,
    gateway: Gateway<'a>,
    readings: Readings,
    view: SelfView,
}

impl RunningTrial<'_> {
    /// Lets the writer come to its end; meanwhile the agent is watched and the director does what he has to.
    async fn watch(&mut self, mut generator: Process, director: &mut Director) -> anyhow::Result<Manifest> {
        let started = Instant::now();
        let mut ticks = interval(READING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let status = loop {
            let due = director.next();
            tokio::select! {
                status = generator.wait() => break status?,
                () = sleep_until(due.unwrap_or(started)), if due.is_some() => {
                    director.act(&self.backends, &mut self.gateway).await?;
                }
                _ = ticks.tick() => self.read("writer", started.elapsed()).await?,
            }
        };
        generator.check(status)?;
        self.scene.manifest()
    }

    /// What the measured time showed, which ends here.
    async fn measured(&self, begin: Instant, cpu_seconds_before: f64) -> anyhow::Result<Measured> {
        Ok(Measured {
            seconds: begin.elapsed().as_secs_f64(),
            cpu_seconds_before,
            cpu_seconds: self.gateway.cpu_seconds()? - cpu_seconds_before,
            sinks_cpu_seconds: self.backends.iter().map(Backend::cpu_seconds).sum::<anyhow::Result<f64>>()?,
            arrived: self.arrived().await?.iter().sum(),
        })
    }

    /// Lets the agent hand over what it has read and what is left in files.
    async fn settled(&mut self, manifest: &Manifest) -> anyhow::Result<Settled> {
        let seconds = self.settle(manifest, self.scene.settings.settle).await?;
        self.readings.note_peak(self.gateway.memory()?);
        Ok(Settled {
            seconds,
            mended_at: None,
            gateway_cpu_seconds: self.gateway.cpu_seconds()?,
            written_bytes: self.gateway.written_bytes()?,
            self_view: self.view,
            held: self.gateway.view().await.map_or(0.0, |view| view.pending.unwrap_or(0.0)),
        })
    }

    /// Stops the agent, then the sinks; returns what went wrong, and the sinks' reports.
    async fn stop(self) -> anyhow::Result<(Option<String>, Vec<SinkReport>)> {
        let stop_error = self.gateway.stop().await;
        Ok((stop_error, backend::stop(self.backends).await?))
    }

    /// Waits until every line has arrived, nothing more can, or `limit` is over; says how long that took.
    async fn settle(&mut self, manifest: &Manifest, limit: Duration) -> anyhow::Result<f64> {
        let started = Instant::now();
        let mut ticks = interval(READING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut total, mut last_arrival) = (0, started);
        loop {
            let now = ticks.tick().await;
            let arrived = self.arrived().await?;
            if arrived.iter().all(|&lines| lines >= manifest.lines) || now - started >= limit {
                return Ok(started.elapsed().as_secs_f64());
            }
            if arrived.iter().sum::<u64>() != total {
                (total, last_arrival) = (arrived.iter().sum(), now);
            }
            self.read("settling", started.elapsed()).await?;
            if now - last_arrival >= self.quiet() && holds_nothing(&self.view) {
                return Ok((last_arrival - started).as_secs_f64());
            }
        }
    }

    fn quiet(&self) -> Duration {
        match self.scene.part.system.kind {
            SystemKind::Weir => QUIET_WEIR,
            SystemKind::Otelcol | SystemKind::Vmagent | SystemKind::Prometheus => QUIET_PEER,
        }
    }

    /// An agent that does not answer, being busy or just started, is not an error.
    async fn read(&mut self, phase: &str, elapsed: Duration) -> anyhow::Result<()> {
        self.gateway.check_alive()?;
        self.readings.read(&self.gateway)?;
        if let Ok(view) = self.gateway.view().await {
            self.readings.queue_size.extend(view.queue_size);
            self.readings.note_view(&view);
            self.readings.note_backlog(Instant::now(), view.pending.unwrap_or(0.0));
            let memory = self.readings.memory_bytes.last().copied();
            progress::show(&self.scene.part.system.name, phase, elapsed, &view, memory);
            self.view = view;
        }
        Ok(())
    }

    /// Different lines at each sink.
    async fn arrived(&self) -> anyhow::Result<Vec<u64>> {
        let mut arrived = Vec::new();
        for backend in &self.backends {
            let lines = backend.counts().await?.log_lines.unwrap_or_default();
            arrived.push(lines.received - lines.duplicates);
        }
        Ok(arrived)
    }
}

/// By its own account, in whatever it counts.
fn holds_nothing(view: &SelfView) -> bool {
    view.pending.or(view.queue_size).unwrap_or(0.0) == 0.0
}
