//! One system under one script: start, warm up, measure, settle, stop, collect.
//!
//! It gathers facts and judges nothing; see [`super::judgement`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::backend::{self, Backend, SinkPorts};
use super::children::{Launch, Process};
use super::config::{Annotation, Pipelines, Ports, batch_size};
use super::course::Window;
use super::director::{Director, Kills};
use super::gateway::{Gateway, Place};
use super::metrics::SelfView;
use super::readings::{Readings, held};
use super::script::Script;
use super::settle::Settling;
use super::track::seconds_now;
use super::{Settings, System, progress};
use crate::cpu::{self, CoreTime};
use crate::files;
use crate::ids::IdSet;
use crate::load::LoadReport;
use crate::ports::free_ports;
use crate::signal::Signal;
use crate::sink::SinkReport;

/// Ids of the measured run start here, far above those of the warm-up.
pub(crate) const MEASURED_FIRST_ID: u64 = 1 << 40;

/// How often a moment is looked for in which the gateway delivers nothing.
const STILL_ATTEMPTS: usize = 20;

/// Time between two readings of memory and disk. Metrics are scraped as often where a backlog is followed, and on each
/// fourth where the scrape would only cost what is measured.
const READING_INTERVAL: Duration = Duration::from_millis(250);
const READINGS_PER_SCRAPE: u32 = 4;

/// One run: a system, what it goes through, and where its files go.
pub(crate) struct Part<'a> {
    pub(crate) system: &'a System,
    pub(crate) script: &'a Script,
    pub(crate) directory: PathBuf,
}

/// Everything a run of one system showed.
pub(crate) struct Trial {
    pub(crate) warmup: LoadReport,
    pub(crate) load: LoadReport,
    pub(crate) sinks: Vec<SinkReport>,
    pub(crate) window: Window,
    pub(crate) before: Snapshot,
    pub(crate) after: Snapshot,
    pub(crate) readings: Readings,
    /// What the kills of the scenario showed, when it has any.
    pub(crate) kills: Option<Kills>,
    pub(crate) settled: Settled,
    /// Owed items that sinks did not have just before the gateway was asked to stop, summed over sinks.
    pub(crate) missing: u64,
    /// What went wrong while stopping.
    pub(crate) stop_error: Option<String>,
}

/// The end of the time that the gateway had to hand over what it held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settled {
    /// How long it took.
    pub(crate) seconds: f64,
    /// When backends that were sick turned healthy.
    pub(crate) mended_at: Option<Instant>,
    /// CPU seconds of the gateway until then.
    pub(crate) gateway_cpu_seconds: f64,
    /// Bytes the gateway wrote to disk until then.
    pub(crate) written_bytes: u64,
    /// The gateway's own counts.
    pub(crate) self_view: SelfView,
    /// Items the gateway said it held just before it was asked to stop, summed over pipelines.
    pub(crate) held: f64,
}

/// Counters at the start or the end of the measured time.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) gateway_cpu_seconds: f64,
    pub(crate) sinks_cpu_seconds: f64,
    pub(crate) own_cpu_seconds: f64,
    pub(crate) gateway_cores: CoreTime,
    pub(crate) judge_cores: CoreTime,
    /// Different ids that each sink holds.
    pub(crate) arrived: Vec<u64>,
}

/// Goes through a script once.
///
/// # Errors
/// A process cannot be started, ends early or fails.
pub(crate) async fn run(part: &Part<'_>, settings: &Settings) -> anyhow::Result<Trial> {
    let mut running = RunningTrial::start(part, settings).await?;
    let warmup = match settings.warmup {
        time if time.is_zero() => LoadReport::default(),
        time => running.run_load("warmup", 1, time, &mut Director::idle()).await?,
    };
    for backend in &running.backends {
        backend.forget_latencies().await?;
    }
    running.readings = Readings::default();
    let before = running.snapshot().await?;
    let began = seconds_now();
    let mut director = Director::new(part.script, Instant::now());
    let load = running.run_load("generator", MEASURED_FIRST_ID, settings.duration, &mut director).await?;
    let window = Window { began, ended: seconds_now() };
    let kills = director.finish(&mut running.gateway).await?;
    let after = running.snapshot().await?;
    if part.script.mended {
        director.mend(&running.backends).await?;
    }
    let owed = owed_ids(settings, &warmup, &load);
    let settled = running.settle(&owed).await?;
    let (missing, held) = running.at_stop(&owed).await?;
    let settled = Settled { mended_at: director.mended_at(), held, ..settled };
    let readings = std::mem::take(&mut running.readings);
    let (stop_error, sinks) = running.stop().await?;
    Ok(Trial { warmup, load, sinks, window, before, after, readings, kills, settled, missing, stop_error })
}

/// What the system owes to each sink: every id that was acknowledged and that no filter is to drop.
pub(crate) fn owed_ids(settings: &Settings, warmup: &LoadReport, load: &LoadReport) -> IdSet {
    let mut acked = IdSet::from_ranges(&warmup.ids.acked);
    acked.merge(&IdSet::from_ranges(&load.ids.acked));
    settings.shape.marked.map_or(acked.clone(), |marked| marked.kept(&acked))
}

/// Ids of `owed` that a sink does not have, summed over sinks.
pub(crate) fn missing<'a>(owed: &IdSet, signal: Signal, sinks: impl IntoIterator<Item = &'a SinkReport>) -> u64 {
    let received = |sink: &SinkReport| IdSet::from_ranges(sink.ids_of(signal));
    sinks.into_iter().map(|sink| owed.missing_from(&received(sink))).sum()
}

/// The processes of a running trial, and what was read so far.
struct RunningTrial<'a> {
    settings: &'a Settings,
    part: &'a Part<'a>,
    backends: Vec<Backend>,
    gateway: Gateway<'a>,
    grpc_port: u16,
    readings: Readings,
}

impl<'a> RunningTrial<'a> {
    async fn start(part: &'a Part<'a>, settings: &'a Settings) -> anyhow::Result<Self> {
        let (setup, backends) = Setup::start(part, settings, |ports| ports.grpc).await?;
        let gateway = Gateway::start(part.system, settings, setup.place(part, settings)).await?;
        Ok(Self { settings, part, backends, gateway, grpc_port: setup.ports.grpc, readings: Readings::default() })
    }

    /// Runs the generator to its end; meanwhile the gateway is watched and the director does what he has to.
    async fn run_load(
        &mut self,
        name: &str,
        first_id: u64,
        duration: Duration,
        director: &mut Director,
    ) -> anyhow::Result<LoadReport> {
        let report = self.part.directory.join(format!("{name}.json"));
        let mut generator = Process::start(Launch {
            name,
            program: &self.settings.judge,
            arguments: self.generator_arguments(first_id, duration, &report),
            environment: Vec::new(),
            cores: &self.settings.layout.judge,
            directory: &self.part.directory,
        })?;
        let mut ticks = interval(READING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let started = Instant::now();
        let scrape_every = self.readings_per_scrape();
        let mut count = 0;
        let status = loop {
            let due = director.next();
            tokio::select! {
                status = generator.wait() => break status?,
                () = sleep_until(due.unwrap_or(started)), if due.is_some() => {
                    director.act(&self.backends, &mut self.gateway).await?;
                }
                _ = ticks.tick() => {
                    self.gateway.check_alive()?;
                    self.readings.read(&self.gateway)?;
                    if count % scrape_every == 0 {
                        self.scrape(name, started.elapsed()).await;
                    }
                    count += 1;
                }
            }
        };
        generator.check(status)?;
        self.gateway.check_alive()?;
        files::read_json(&report)
    }

    fn readings_per_scrape(&self) -> u32 {
        if self.part.script.published.is_some() { READINGS_PER_SCRAPE } else { 1 }
    }

    fn generator_arguments(&self, first_id: u64, duration: Duration, report: &Path) -> Vec<String> {
        let Settings { shape, .. } = self.settings;
        let load = self.part.script.load(self.settings);
        let mut arguments = vec!["load".to_owned(), shape.signal().name().to_owned()];
        for (flag, value) in [
            ("--endpoint", format!("127.0.0.1:{}", self.grpc_port)),
            ("--first-id", first_id.to_string()),
            ("--duration", format!("{}s", duration.as_secs_f64())),
            ("--concurrency", load.connections.to_string()),
            ("--report", report.display().to_string()),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        arguments.extend(shape.flags());
        arguments.extend(load.offered.flags());
        if self.part.script.retry {
            arguments.push("--retry".to_owned());
        }
        arguments
    }

    /// One look at the gateway's metrics; a gateway that does not answer, being busy or just started, is not an error.
    async fn scrape(&mut self, phase: &str, elapsed: Duration) -> Option<SelfView> {
        let view = self.gateway.view().await.ok()?;
        self.readings.queue_size.extend(view.queue_size);
        self.readings.note_view(&view);
        self.readings.note_backlog(Instant::now(), self.held(&view));
        let name = &self.part.system.name;
        progress::show(name, phase, elapsed, &view, self.readings.memory_bytes.last().copied());
        Some(view)
    }

    async fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let sinks_cpu: anyhow::Result<Vec<f64>> = self.backends.iter().map(Backend::cpu_seconds).collect();
        Ok(Snapshot {
            at: Instant::now(),
            gateway_cpu_seconds: self.gateway.cpu_seconds()?,
            sinks_cpu_seconds: sinks_cpu?.iter().sum(),
            own_cpu_seconds: cpu::own_seconds()?,
            gateway_cores: cpu::core_time(&self.settings.layout.gateway)?,
            judge_cores: cpu::core_time(&self.settings.layout.judge)?,
            arrived: self.arrived().await?,
        })
    }

    /// Different items at each sink.
    async fn arrived(&self) -> anyhow::Result<Vec<u64>> {
        let mut arrived = Vec::new();
        for backend in &self.backends {
            arrived.push(backend.counts().await?.unique);
        }
        Ok(arrived)
    }

    /// Waits until every owed item is where it belongs, or the gateway holds nothing more, or time is up.
    async fn settle(&mut self, owed: &IdSet) -> anyhow::Result<Settled> {
        let started = Instant::now();
        // As often as under load: whoever settles later is not to pay for more scrapes.
        let mut ticks = interval(READING_INTERVAL * self.readings_per_scrape());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut settling = Settling::new(started);
        let mut compared = None;
        let queue_readings = self.readings.queue_size.len();
        let self_view = loop {
            let now = ticks.tick().await;
            self.gateway.check_alive()?;
            self.readings.read_settling(&self.gateway)?;
            let arrived = self.arrived().await?;
            let view = self.scrape("settling", started.elapsed()).await;
            let total = arrived.iter().sum();
            let over = settling.is_over(now, view.as_ref(), total) || now - started >= self.settings.settle;
            // Ids are compared only when counts make it likely that all are there, and not twice for the same counts.
            let likely = arrived.iter().all(|&items| items >= owed.len()) && compared.replace(total) != Some(total);
            if over || (likely && self.missing(owed).await? == 0) {
                break view.unwrap_or_default();
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        // The queue's average is that of the measured time.
        self.readings.queue_size.truncate(queue_readings);
        self.readings.note_peak(self.gateway.memory()?);
        let gateway_cpu_seconds = self.gateway.cpu_seconds()?;
        let written_bytes = self.gateway.written_bytes()?;
        Ok(Settled { seconds, gateway_cpu_seconds, written_bytes, self_view, ..Settled::default() })
    }

    /// Compares what sinks lack with what the gateway holds, at a moment when nothing moves if there is one.
    async fn at_stop(&self, owed: &IdSet) -> anyhow::Result<(u64, f64)> {
        let mut last = (0, 0.0);
        for _ in 0..STILL_ATTEMPTS {
            let before = self.held(&self.gateway.view().await?);
            last = (self.missing(owed).await?, before);
            let after = self.held(&self.gateway.view().await?);
            if (before - after).abs() < 1.0 {
                break;
            }
        }
        Ok(last)
    }

    /// Owed items that sinks do not have now.
    async fn missing(&self, owed: &IdSet) -> anyhow::Result<u64> {
        let mut sinks = Vec::new();
        for backend in &self.backends {
            sinks.push(backend.with_ids().await?);
        }
        Ok(missing(owed, self.settings.signal(), &sinks))
    }

    fn held(&self, view: &SelfView) -> f64 {
        // Where nothing is gathered, requests wait as clients sent them.
        let batch = batch_size(self.settings.signal(), self.part.script.overlay());
        held(view, batch.unwrap_or(self.settings.shape.batch))
    }

    /// Stops the gateway, then the sinks; returns what went wrong, and the sinks' reports.
    async fn stop(self) -> anyhow::Result<(Option<String>, Vec<SinkReport>)> {
        let stop_error = self.gateway.stop().await;
        Ok((stop_error, backend::stop(self.backends).await?))
    }
}

/// What a gateway or an agent is configured with.
pub(crate) struct Setup {
    ports: Ports,
    /// The ports of the sinks that it sends to.
    sinks: Vec<u16>,
    annotations: Vec<Annotation>,
}

impl Setup {
    /// Starts the sinks. `port`: which port of theirs it sends to.
    pub(crate) async fn start(
        part: &Part<'_>,
        settings: &Settings,
        port: impl Fn(&SinkPorts) -> u16,
    ) -> anyhow::Result<(Self, Vec<Backend>)> {
        let directory = &part.directory;
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let (ports, sink_ports) = choose_ports(part.script.backends.len())?;
        let backends = backend::start(part, settings, &sink_ports).await?;
        let sinks = sink_ports.iter().map(port).collect();
        let annotations = settings.annotations_over(&part.script.annotations);
        Ok((Self { ports, sinks, annotations }, backends))
    }

    /// A place for a gateway. An agent has to be told what it collects.
    pub(crate) fn place(&self, part: &Part<'_>, settings: &Settings) -> Place<'_> {
        let pipelines = Pipelines {
            signal: settings.signal(),
            backends: &self.sinks,
            output: settings.output,
            compression: settings.compression,
            processing: settings.processing,
            overlay: part.script.overlay(),
            annotations: &self.annotations,
            pod_logs: None,
            scraped: None,
        };
        Place { directory: part.directory.clone(), ports: self.ports, pipelines }
    }
}

/// Ports of the gateway and of `sinks` sinks, all different.
/// Free ports of a gateway, and of so many sinks.
pub(crate) fn choose_ports(sinks: usize) -> anyhow::Result<(Ports, Vec<SinkPorts>)> {
    let ports = free_ports(4 + 3 * sinks)?;
    let (gateway, sinks) = ports.split_at(4);
    let gateway = Ports { grpc: gateway[0], http: gateway[1], metrics: gateway[2], health: gateway[3] };
    let sinks = sinks.chunks_exact(3);
    Ok((gateway, sinks.map(|ports| SinkPorts { grpc: ports[0], http: ports[1], control: ports[2] }).collect()))
}
