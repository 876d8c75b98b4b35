//! One log agent under one script: files are written, it reads them, and everything it can read has to arrive.
//!
//! As with gateways it gathers facts and judges nothing; see `judgement/lines.rs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::backend::{Backend, SinkPorts};
use super::children::{Launch, Process};
use super::config::{Output, Pipelines};
use super::director::{Director, Kills};
use super::gateway::{Gateway, Place, remove_leftovers};
use super::metrics::SelfView;
use super::samples::Samples;
use super::trial::{Part, choose_ports};
use super::writer::Writer;
use super::{Settings, SystemKind, progress};
use crate::files;
use crate::load::log_files::Manifest;
use crate::signal::Signal;
use crate::sink::SinkReport;

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
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
    /// The measured time: while files were written, or until everything that was written before had arrived.
    pub(crate) seconds: f64,
    /// Lines that arrived in it, summed over sinks.
    pub(crate) arrived: u64,
    pub(crate) cpu_seconds: f64,
    /// CPU seconds of all sinks in it.
    pub(crate) sinks_cpu_seconds: f64,
    /// CPU seconds until everything had arrived.
    pub(crate) settled_cpu_seconds: f64,
    pub(crate) settle_seconds: f64,
    pub(crate) mended_at: Option<Instant>,
    pub(crate) samples: Samples,
    pub(crate) kills: Option<Kills>,
    pub(crate) written_bytes: u64,
    pub(crate) self_view: SelfView,
    /// Records the agent said it held just before it was asked to stop.
    pub(crate) held: f64,
    pub(crate) stop_error: Option<String>,
}

/// Goes through a script once.
///
/// # Errors
/// A process cannot be started, ends early or fails.
pub(crate) async fn run(part: &Part<'_>, writer: &Writer, settings: &Settings) -> anyhow::Result<AgentTrial> {
    let scene = Scene { part, settings, pods: part.directory.join(PODS) };
    let (grounds, backends) = scene.prepare().await?;
    let mut written = None;
    if writer.first {
        let mut generator = scene.start_writer(writer)?;
        let status = generator.wait().await?;
        generator.check(status)?;
        written = Some(scene.manifest()?);
    }
    let gateway = Gateway::start(part.system, settings, grounds.place(&scene)).await?;
    let mut running =
        RunningTrial { scene: &scene, backends, gateway, samples: Samples::default(), view: SelfView::default() };
    let begin = Instant::now();
    // An agent that finds everything there reads while it starts.
    let cpu_before = if writer.first { 0.0 } else { running.gateway.cpu_seconds()? };
    let mut director = Director::new(part.script, begin);
    let manifest = match written {
        Some(manifest) => {
            running.settle(&manifest, settings.duration).await?;
            manifest
        }
        None => running.watch(scene.start_writer(writer)?, &mut director).await?,
    };
    let kills = director.finish(&mut running.gateway).await?;
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = running.gateway.cpu_seconds()? - cpu_before;
    let sinks_cpu_seconds = running.backends.iter().map(Backend::cpu_seconds).sum::<anyhow::Result<f64>>()?;
    let arrived = running.arrived().await?.iter().sum();
    let settle_seconds = running.settle(&manifest, settings.settle).await?;
    running.samples.note_peak(running.gateway.memory()?);
    let settled_cpu_seconds = running.gateway.cpu_seconds()? - cpu_before;
    let written_bytes = running.gateway.written_bytes()?;
    let held = running.gateway.view().await.map_or(0.0, |view| view.pending.unwrap_or(0.0));
    let RunningTrial { backends, gateway, samples, view: self_view, .. } = running;
    let stop_error = gateway.stop().await;
    let mut sinks = Vec::new();
    for backend in backends {
        sinks.push(backend.stop().await?);
    }
    // Gigabytes, which nobody needs any more.
    remove_leftovers(&scene.pods)?;
    Ok(AgentTrial {
        manifest,
        sinks,
        seconds,
        arrived,
        cpu_seconds,
        sinks_cpu_seconds,
        settled_cpu_seconds,
        settle_seconds,
        mended_at: director.mended_at(),
        samples,
        kills,
        written_bytes,
        self_view,
        held,
        stop_error,
    })
}

/// Where a run takes place.
struct Scene<'a> {
    part: &'a Part<'a>,
    settings: &'a Settings,
    pods: PathBuf,
}

/// What an agent is configured with.
struct Grounds {
    ports: super::config::Ports,
    sinks: Vec<u16>,
    annotations: Vec<super::Annotation>,
}

impl Grounds {
    fn place<'a>(&'a self, scene: &'a Scene<'_>) -> Place<'a> {
        let Settings { compression, processing, output, .. } = scene.settings;
        let pipelines = Pipelines {
            signal: Signal::Logs,
            backends: &self.sinks,
            output: *output,
            compression: *compression,
            processing: *processing,
            annotations: &self.annotations,
            pod_logs: Some(&scene.pods),
        };
        Place { directory: scene.part.directory.clone(), ports: self.ports, pipelines }
    }
}

impl Scene<'_> {
    /// Starts the sinks; the directory of the files is there, and empty.
    async fn prepare(&self) -> anyhow::Result<(Grounds, Vec<Backend>)> {
        let directory = &self.part.directory;
        remove_leftovers(&self.pods)?;
        std::fs::create_dir_all(&self.pods).with_context(|| format!("cannot create {}", self.pods.display()))?;
        let (ports, sink_ports) = choose_ports(self.part.script.backends.len())?;
        let mut backends = Vec::new();
        for (index, &ports) in sink_ports.iter().enumerate() {
            backends.push(Backend::start(self.settings, directory, index, ports)?);
        }
        for (backend, faults) in backends.iter_mut().zip(&self.part.script.backends) {
            backend.prepare(faults).await?;
        }
        let port = |ports: &SinkPorts| match self.settings.output {
            Output::Otlp => ports.grpc,
            Output::Http(_) => ports.http,
        };
        let sinks = sink_ports.iter().map(port).collect();
        let annotations = self.settings.annotations_over(&self.part.script.annotations);
        Ok((Grounds { ports, sinks, annotations }, backends))
    }

    fn manifest_path(&self) -> PathBuf {
        self.part.directory.join("manifest.json")
    }

    fn manifest(&self) -> anyhow::Result<Manifest> {
        files::read_json(&self.manifest_path())
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

/// The processes of a running trial, and what was sampled so far.
struct RunningTrial<'a> {
    scene: &'a Scene<'a>,
    backends: Vec<Backend>,
    gateway: Gateway<'a>,
    samples: Samples,
    view: SelfView,
}

impl RunningTrial<'_> {
    /// Lets the writer come to its end; meanwhile the agent is sampled and the director does what he has to.
    async fn watch(&mut self, mut generator: Process, director: &mut Director) -> anyhow::Result<Manifest> {
        let started = Instant::now();
        let mut ticks = interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let status = loop {
            let due = director.next();
            tokio::select! {
                status = generator.wait() => break status?,
                () = sleep_until(due.unwrap_or(started)), if due.is_some() => {
                    director.act(&self.backends, &mut self.gateway).await?;
                }
                _ = ticks.tick() => self.sample("writer", started.elapsed()).await?,
            }
        };
        generator.check(status)?;
        self.scene.manifest()
    }

    /// Waits until every line has arrived, nothing more can, or `limit` is over; says how long that took.
    async fn settle(&mut self, manifest: &Manifest, limit: Duration) -> anyhow::Result<f64> {
        let started = Instant::now();
        let mut ticks = interval(SAMPLE_INTERVAL);
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
            self.sample("settling", started.elapsed()).await?;
            if now - last_arrival >= self.quiet() && holds_nothing(&self.view) {
                return Ok((last_arrival - started).as_secs_f64());
            }
        }
    }

    fn quiet(&self) -> Duration {
        match self.scene.part.system.kind {
            SystemKind::Weir => QUIET_WEIR,
            SystemKind::Otelcol => QUIET_PEER,
        }
    }

    /// An agent that does not answer, being busy or just started, is not an error.
    async fn sample(&mut self, phase: &str, elapsed: Duration) -> anyhow::Result<()> {
        self.gateway.check_alive()?;
        self.samples.add_memory(self.gateway.memory()?);
        self.samples.note_disk(self.gateway.disk_bytes()?);
        if let Ok(view) = self.gateway.view().await {
            self.samples.queue_size.extend(view.queue_size);
            self.samples.note_faults(&view);
            self.samples.note_backlog(Instant::now(), view.pending.unwrap_or(0.0));
            let memory = self.samples.memory_bytes.last().copied();
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
