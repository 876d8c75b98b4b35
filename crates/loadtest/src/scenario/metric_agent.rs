//! One metric agent under one script: it scrapes targets, and what it read of their pages has to arrive.
//!
//! As with gateways it gathers facts and judges nothing; see `judgement/pages.rs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::backend::{self, Backend, SinkPorts};
use super::children::{Launch, Process};
use super::config::Scraped;
use super::course::Window;
use super::director::Director;
use super::gateway::{Gateway, READY_POLL};
use super::metrics::SelfView;
use super::pages::ScrapeLoad;
use super::readings::Readings;
use super::track::seconds_now;
use super::trial::{Part, Settled, Setup};
use super::{Settings, SystemKind, progress};
use crate::cpu;
use crate::files;
use crate::load::scrape_targets::PagesReport;
use crate::ports::free_ports;
use crate::sink::SinkReport;

/// Time between two readings of memory, and readings for each look at what arrived and at the agent's metrics.
const READING_INTERVAL: Duration = Duration::from_millis(100);
const READINGS_PER_LOOK: u32 = 10;
/// When nothing arrived for so long and nothing is held, nothing more will: Weir asks its backend again within 30 s, a
/// collector within half as long again, and vmagent within a minute and a tenth of that.
const QUIET_WEIR: Duration = Duration::from_secs(5);
const QUIET_PEER: Duration = Duration::from_secs(70);
/// Intervals before the measured time: pages that are seen for the first time cost more.
const FIRST_SCRAPES: u32 = 2;
/// When Prometheus, and a collector with its code, look for targets for the first time.
const DISCOVERY: Duration = Duration::from_secs(5);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// What targets write at their end.
const REPORT: &str = "pages.json";

/// Everything a run of one agent showed.
pub(crate) struct ScrapeTrial {
    pub(crate) served: PagesReport,
    pub(crate) sinks: Vec<SinkReport>,
    pub(crate) window: Window,
    pub(crate) measured: Measured,
    pub(crate) settled: Settled,
    pub(crate) readings: Readings,
    pub(crate) stop_error: Option<String>,
}

/// The measured time: whole intervals, so that each target is scraped equally often.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// Samples that arrived in it, summed over sinks.
    pub(crate) arrived: u64,
    /// CPU seconds in it of agent, sinks and targets.
    pub(crate) cpu_seconds: f64,
    pub(crate) sinks_cpu_seconds: f64,
    pub(crate) targets_cpu_seconds: f64,
}

/// Goes through a script once.
///
/// # Errors
/// A process cannot be started, ends early or fails.
pub(crate) async fn run(part: &Part<'_>, scraped: &ScrapeLoad, settings: &Settings) -> anyhow::Result<ScrapeTrial> {
    let mut running = RunningTrial::start(part, scraped, settings).await?;
    let discovery = if part.system.kind == SystemKind::Weir { Duration::ZERO } else { DISCOVERY };
    let first = discovery + settings.warmup.max(scraped.interval * FIRST_SCRAPES);
    running.watch("first scrapes", first, &mut Director::idle()).await?;
    running.readings = Readings::default();
    let before = running.used().await?;
    let began = seconds_now();
    let mut director = Director::new(part.script, Instant::now());
    running.watch("measuring", settings.duration, &mut director).await?;
    let measured = running.used().await?.since(&before);
    let window = Window { began, ended: seconds_now() };
    director.finish(&mut running.gateway).await?;
    let served = running.stop_targets().await?;
    if part.script.mended {
        director.mend(&running.backends).await?;
    }
    let settled = Settled { mended_at: director.mended_at(), ..running.settle(&served).await? };
    let readings = std::mem::take(&mut running.readings);
    let stop_error = running.gateway.stop().await;
    let sinks = backend::stop(running.backends).await?;
    Ok(ScrapeTrial { served, sinks, window, measured, settled, readings, stop_error })
}

impl Measured {
    fn since(&self, before: &Self) -> Self {
        Self {
            seconds: self.seconds - before.seconds,
            arrived: self.arrived - before.arrived,
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            sinks_cpu_seconds: self.sinks_cpu_seconds - before.sinks_cpu_seconds,
            targets_cpu_seconds: self.targets_cpu_seconds - before.targets_cpu_seconds,
        }
    }
}

/// The processes of a running trial, and what was read so far.
struct RunningTrial<'a> {
    part: &'a Part<'a>,
    settings: &'a Settings,
    targets: Process,
    report: PathBuf,
    backends: Vec<Backend>,
    gateway: Gateway<'a>,
    started: Instant,
    readings: Readings,
    view: SelfView,
}

impl<'a> RunningTrial<'a> {
    async fn start(part: &'a Part<'a>, scraped: &ScrapeLoad, settings: &'a Settings) -> anyhow::Result<Self> {
        // What these send is not OTLP, and comes over HTTP.
        let writes = matches!(part.system.kind, SystemKind::Vmagent | SystemKind::Prometheus);
        let port = |ports: &SinkPorts| if writes { ports.http } else { ports.grpc };
        let (setup, backends) = Setup::start(part, settings, port).await?;
        let port = free_ports(1)?[0];
        let targets = start_targets(settings, &part.directory, scraped, port).await?;
        let report = part.directory.join(REPORT);
        let mut place = setup.place(part, settings);
        place.pipelines.scraped = Some(Scraped { port, targets: scraped.targets, interval: scraped.interval });
        let gateway = Gateway::start(part.system, settings, place).await?;
        let (started, readings, view) = (Instant::now(), Readings::default(), SelfView::default());
        Ok(Self { part, settings, targets, report, backends, gateway, started, readings, view })
    }

    /// Reads the resources of the agent for so long, while the director does what he has to.
    async fn watch(&mut self, phase: &str, time: Duration, director: &mut Director) -> anyhow::Result<()> {
        let started = Instant::now();
        let mut ticks = interval(READING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = 0;
        loop {
            let due = director.next();
            tokio::select! {
                biased;
                () = sleep_until(started + time) => return Ok(()),
                () = sleep_until(due.unwrap_or(started)), if due.is_some() => {
                    director.act(&self.backends, &mut self.gateway).await?;
                }
                _ = ticks.tick() => {
                    self.read()?;
                    if count % READINGS_PER_LOOK == 0 {
                        self.look(phase, started.elapsed()).await;
                    }
                    count += 1;
                }
            }
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        self.gateway.check_alive()?;
        self.targets.check_alive()?;
        self.readings.read(&self.gateway)?;
        Ok(())
    }

    /// An agent that does not answer, being busy or just started, is not an error.
    async fn look(&mut self, phase: &str, elapsed: Duration) {
        let Ok(view) = self.gateway.view().await else { return };
        self.readings.queue_size.extend(view.queue_size);
        self.readings.note_view(&view);
        if let Some(points) = view.pending {
            self.readings.note_backlog(Instant::now(), points);
        }
        progress::show(&self.part.system.name, phase, elapsed, &view, self.readings.memory_bytes.last().copied());
        self.view = view;
    }

    /// What all have used since they were started.
    async fn used(&self) -> anyhow::Result<Measured> {
        Ok(Measured {
            seconds: self.started.elapsed().as_secs_f64(),
            arrived: self.arrived().await?.iter().sum(),
            cpu_seconds: self.gateway.cpu_seconds()?,
            sinks_cpu_seconds: self.backends.iter().map(Backend::cpu_seconds).sum::<anyhow::Result<f64>>()?,
            targets_cpu_seconds: cpu::process_seconds(&self.targets.pid)?,
        })
    }

    /// Different samples at each sink.
    async fn arrived(&self) -> anyhow::Result<Vec<u64>> {
        let mut arrived = Vec::new();
        for backend in &self.backends {
            arrived.push(backend.counts().await?.scraped.map_or(0, |pages| pages.samples));
        }
        Ok(arrived)
    }

    /// No page is served any more.
    async fn stop_targets(&mut self) -> anyhow::Result<PagesReport> {
        self.targets.stop(STOP_LIMIT).await?;
        files::read_json(&self.report)
    }

    /// Waits until all that was served has arrived, nothing more can, or time is up.
    async fn settle(&mut self, served: &PagesReport) -> anyhow::Result<Settled> {
        let owed = served.whole() * served.samples;
        let quiet = if self.part.system.kind == SystemKind::Weir { QUIET_WEIR } else { QUIET_PEER };
        let started = Instant::now();
        let mut ticks = interval(READING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let queue_readings = self.readings.queue_size.len();
        let (mut total, mut last_arrival) = (0, started);
        let seconds = loop {
            let now = ticks.tick().await;
            self.gateway.check_alive()?;
            let arrived = self.arrived().await?;
            self.look("settling", started.elapsed()).await;
            let holds_nothing = self.view.pending.or(self.view.queue_size).unwrap_or(0.0) == 0.0;
            if arrived.iter().sum::<u64>() != total {
                (total, last_arrival) = (arrived.iter().sum(), now);
            }
            let all_there = arrived.iter().all(|&samples| samples >= owed);
            if now - started >= self.settings.settle || (all_there && holds_nothing) {
                break started.elapsed().as_secs_f64();
            }
            if now - last_arrival >= quiet && holds_nothing {
                break (last_arrival - started).as_secs_f64();
            }
        };
        self.readings.queue_size.truncate(queue_readings);
        self.readings.note_peak(self.gateway.memory()?);
        Ok(Settled {
            seconds,
            mended_at: None,
            gateway_cpu_seconds: self.gateway.cpu_seconds()?,
            written_bytes: self.gateway.written_bytes()?,
            self_view: self.view,
            held: self.view.pending.unwrap_or(0.0),
        })
    }
}

/// Starts the targets and waits until they listen.
pub(crate) async fn start_targets(
    settings: &Settings,
    directory: &Path,
    scraped: &ScrapeLoad,
    port: u16,
) -> anyhow::Result<Process> {
    let mut arguments = vec!["load".to_owned(), "scrape-targets".to_owned(), format!("--port={port}")];
    arguments.extend(["--report".to_owned(), directory.join(REPORT).display().to_string()]);
    arguments.extend(scraped.arguments.iter().cloned());
    let mut targets = Process::start(Launch {
        name: "targets",
        program: &settings.judge,
        arguments,
        environment: Vec::new(),
        cores: &settings.layout.judge,
        directory,
    })?;
    let mut ticks = interval(READY_POLL);
    // They write millions of lines before they listen, and end when they cannot.
    while !targets.output()?.contains("http://") {
        targets.check_alive().with_context(|| targets.last_words())?;
        ticks.tick().await;
    }
    Ok(targets)
}
