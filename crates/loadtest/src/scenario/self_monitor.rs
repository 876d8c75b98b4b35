//! `weir loadtest -t self-monitor`: whether troubles are told, how soon, and nothing that is none.
//!
//! As in the published test, there are three pipelines of each signal, and a synthetic load; beside what clients push, those of
//! logs read what containers write, and those of metrics scrape. The three pipelines of a signal send to three backends.
//! While all are well, nothing may be told; then they fail in the ways in which backends do, one after the other, and the
//! pipelines of the one that fails have to be told, and those alone. What is told is read from `/health/pipelines`, as the
//! operator does.

mod collected;
mod report;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

pub(crate) use self::collected::COLLECTED;
use self::collected::Collected;
pub(crate) use self::report::rows_of;
use self::report::{Course, Report, Told};
use super::backend::Backend;
use super::children::{Launch, Process};
use super::config::{Output, Pipelines};
use super::gateway::Gateway;
use super::outcome::Outcome;
use super::readings::Readings;
use super::script::HEALTHY;
use super::track::seconds_now;
use super::trial::choose_ports;
use super::{Settings, System, http};
use crate::signal::Signal;

/// Pipelines of each signal, each with a backend that the others of its signal do not have.
const BACKENDS: usize = 3;

/// Items in a request: with the usual rate, each pipeline has twenty requests a second, of which a share can fail.
const BATCH: &str = "50";

/// How often it is looked what is told.
const LOOK: Duration = Duration::from_millis(500);
/// A trouble has to be told within this time, and its end.
const TOLD_WITHIN: Duration = Duration::from_secs(30);
const OVER_WITHIN: Duration = Duration::from_secs(45);
/// What has no end by then is not waited for.
const GIVEN_UP: Duration = Duration::from_secs(120);
/// After a trouble, everything is well for so long.
const REST: Duration = Duration::from_secs(3);

/// What a backend does wrong, and the state that follows. No backend has the same state twice: what comes back soon is told
/// for longer.
struct Trouble {
    backend: usize,
    name: &'static str,
    faults: &'static str,
    state: &'static str,
}

const TROUBLES: [Trouble; 4] = [
    Trouble { backend: 1, name: "400 to 30 % of requests", faults: r#"{"fault": ["400:30"]}"#, state: "some_dropped" },
    Trouble {
        backend: 2,
        name: "partial success of half of them",
        faults: r#"{"partial": 50}"#,
        state: "some_dropped",
    },
    Trouble { backend: 0, name: "400 to everything", faults: r#"{"fault": ["400:100"]}"#, state: "all_dropped" },
    Trouble { backend: 1, name: "no connection", faults: r#"{"outage": ["0s..1000h"]}"#, state: "nothing_delivered" },
];

/// The published self monitor scrapes that often.
const PUBLISHED_INTERVAL_S: f64 = 30.0;

/// Runs the test; it fails when something was told late, or that is none.
pub(super) async fn test(heading: &str, system: &System, settings: &Settings) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(system, settings).await?;
    let report = scene.play(settings).await?;
    let course = std::mem::take(&mut scene.course);
    scene.stop().await?;
    report::outcome(heading, &report, &course)
}

/// What is to happen, in words.
pub(super) fn heading(name: &str, settings: &Settings) -> String {
    let limits = format!("told within {TOLD_WITHIN:?}, over within {OVER_WITHIN:?}");
    let healthy = settings.duration.as_secs_f64();
    let troubles = TROUBLES.len();
    format!(
        "{name}: self-monitor, {healthy} s all is well, then {troubles} troubles; {limits}\nbeside clients, {COLLECTED}\n\n"
    )
}

/// What is told of a pipeline.
#[derive(Deserialize)]
struct Health {
    pipeline: String,
    state: String,
}

/// Everything that runs.
struct Scene<'a> {
    gateway: Gateway<'a>,
    health: u16,
    metrics: u16,
    backends: Vec<Backend>,
    /// They are killed at the end: how much they sent is not the point.
    generators: Vec<Process>,
    collected: Collected,
    /// The backend that fails, or did last.
    sick: usize,
    /// What was told of each pipeline last.
    last: BTreeMap<String, String>,
    false_alarms: Vec<String>,
    readings: Readings,
    course: Course,
}

impl<'a> Scene<'a> {
    async fn start(system: &'a System, settings: &'a Settings) -> anyhow::Result<Self> {
        let directory = settings.directory.join(&system.name);
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let (ports, sinks) = choose_ports(BACKENDS)?;
        let mut backends = Vec::new();
        for (index, &ports) in sinks.iter().enumerate() {
            backends.push(Backend::start(settings, &directory, index, ports)?);
        }
        for backend in &mut backends {
            backend.prepare(HEALTHY).await?;
        }
        let grpc: Vec<_> = sinks.iter().map(|sink| sink.grpc).collect();
        let collected = Collected::start(settings, &directory).await?;
        let pipelines = Signal::ALL.map(|signal| Pipelines {
            signal,
            backends: &grpc,
            output: Output::Otlp,
            compression: settings.compression,
            processing: settings.processing,
            overlay: None,
            annotations: &settings.annotations,
            pod_logs: (signal == Signal::Logs).then_some(collected.pods.as_path()),
            scraped: (signal == Signal::Metrics).then_some(collected.scraped),
        });
        let gateway = Gateway::start_all(system, settings, (directory.clone(), ports), &pipelines).await?;
        let generators = Signal::ALL.map(|signal| generator(settings, &directory, signal, ports.grpc));
        Ok(Self {
            gateway,
            health: ports.health,
            metrics: ports.metrics,
            backends,
            generators: generators.into_iter().collect::<anyhow::Result<_>>()?,
            collected,
            sick: 0,
            last: BTreeMap::new(),
            false_alarms: Vec::new(),
            readings: Readings::default(),
            course: Course::default(),
        })
    }

    async fn play(&mut self, settings: &Settings) -> anyhow::Result<Report> {
        sleep(settings.warmup).await;
        let origin = seconds_now();
        let (began, used) = (Instant::now(), self.gateway.cpu_seconds()?);
        self.is_well(settings.duration).await?;
        let healthy_seconds = began.elapsed().as_secs_f64();
        let cpu_cores = (self.gateway.cpu_seconds()? - used) / healthy_seconds;
        let complaints = self.gateway.complaints()?;
        let memory = self.gateway.memory()?;
        let memory_average = self.readings.memory_average();
        let page = http::get(self.metrics, "/metrics").await?;
        let series = String::from_utf8_lossy(&page).lines().filter(|line| !line.starts_with('#')).count();
        let mut troubles = Vec::new();
        for trouble in &TROUBLES {
            // Faults begin at any time between two looks of the monitor.
            self.is_well(REST + Duration::from_millis(fastrand::u64(..5000))).await?;
            let from = seconds_now() - origin;
            troubles.push(self.suffers(trouble).await?);
            self.course.troubles.push((trouble.name, from, from + self.course.suffered));
        }
        self.course.read(&self.readings, origin);
        Ok(Report {
            pipelines: self.last.len(),
            healthy_seconds,
            false_alarms: std::mem::take(&mut self.false_alarms),
            complaints,
            troubles,
            series,
            samples_per_second: series as f64 / PUBLISHED_INTERVAL_S,
            memory_bytes: memory.now,
            memory_peak_bytes: memory.peak,
            memory_average_bytes: Some(memory_average),
            cpu_cores,
        })
    }

    /// Looks for a while, in which no pipeline may be told of.
    async fn is_well(&mut self, time: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut ticks = ticks();
        while began.elapsed() < time {
            ticks.tick().await;
            self.look(|_| false).await?;
        }
        Ok(())
    }

    async fn suffers(&mut self, trouble: &Trouble) -> anyhow::Result<Told> {
        self.sick = trouble.backend;
        self.backends[self.sick].set_faults(trouble.faults).await?;
        let began = Instant::now();
        let told_seconds = self.until(|state| state == trouble.state).await?;
        self.course.suffered = began.elapsed().as_secs_f64();
        self.backends[self.sick].set_faults(HEALTHY).await?;
        let over_seconds = self.until(|state| state == "healthy").await?;
        Ok(Told { name: trouble.name.to_owned(), state: trouble.state.to_owned(), told_seconds, over_seconds })
    }

    /// When each pipeline of the backend that fails was first seen in such a state.
    async fn until(&mut self, is_it: impl Fn(&str) -> bool) -> anyhow::Result<BTreeMap<String, f64>> {
        let began = Instant::now();
        let (mut ticks, mut seen) = (ticks(), BTreeMap::new());
        while began.elapsed() < GIVEN_UP && seen.len() < Signal::ALL.len() {
            ticks.tick().await;
            let sick = self.sick;
            self.look(|pipeline| is_of(sick, pipeline)).await?;
            for (pipeline, state) in self.last.iter().filter(|(pipeline, _)| is_of(sick, pipeline)) {
                if is_it(state) && !seen.contains_key(pipeline) {
                    seen.insert(pipeline.clone(), began.elapsed().as_secs_f64());
                }
            }
        }
        Ok(seen)
    }

    /// Looks once. Of pipelines that may not be in trouble, each change to one is noted.
    async fn look(&mut self, may_be: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        self.gateway.check_alive()?;
        self.collected.check_alive()?;
        self.readings.read(&self.gateway)?;
        // On a busy machine an answer may be late. What it tells is told late then, and the test goes on.
        let page = http::get_long(self.health, "/health/pipelines").await?;
        let page: Vec<Health> = serde_json::from_slice(&page).context("cannot read /health/pipelines")?;
        for Health { pipeline, state } in page {
            let before = self.last.insert(pipeline.clone(), state.clone());
            let begins = state != "healthy" && before.as_ref() != Some(&state);
            if begins && !may_be(&pipeline) {
                self.false_alarms.push(format!("{pipeline}: {state}"));
            }
        }
        let ill = self.last.iter().filter(|(_, state)| *state != "healthy");
        let (sick, others): (Vec<_>, Vec<_>) = ill.partition(|(pipeline, _)| is_of(self.sick, pipeline));
        self.course.note(sick.len(), others.len());
        Ok(())
    }

    async fn stop(self) -> anyhow::Result<()> {
        drop(self.generators);
        let page = http::get(self.metrics, "/metrics").await?;
        collected::check_read(&String::from_utf8_lossy(&page))?;
        if let Some(problem) = self.gateway.stop().await {
            anyhow::bail!("{problem}");
        }
        for backend in self.backends {
            backend.stop().await?;
        }
        self.collected.stop().await
    }
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Whether a pipeline, as `traces/load-test-2`, sends to a backend.
fn is_of(backend: usize, pipeline: &str) -> bool {
    pipeline.ends_with(&format!("-{}", backend + 1))
}

fn generator(settings: &Settings, directory: &Path, signal: Signal, port: u16) -> anyhow::Result<Process> {
    let mut arguments = vec!["load".to_owned(), signal.name().to_owned()];
    let endpoint = format!("127.0.0.1:{port}");
    for (flag, value) in
        [("--endpoint", endpoint.as_str()), ("--duration", "1000h"), ("--concurrency", "2"), ("--batch", BATCH)]
    {
        arguments.extend([flag.to_owned(), value.to_owned()]);
    }
    arguments.push("--retry".to_owned());
    arguments.extend(settings.offered.flags());
    Process::start(Launch {
        name: &format!("generator-{}", signal.name()),
        program: &settings.judge,
        arguments,
        environment: Vec::new(),
        cores: &settings.layout.judge,
        directory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_belongs_to_the_backend_of_its_number() {
        assert!(is_of(1, "traces/load-test-2") && !is_of(1, "traces/load-test-1"));
    }
}
