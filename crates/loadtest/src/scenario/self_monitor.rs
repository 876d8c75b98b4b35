//! `weir loadtest -t self-monitor`: whether troubles are told, how soon, and nothing that is none.
//!
//! As in the published test, there are three pipelines of each signal, and a synthetic load. The three pipelines of a signal send
//! to three backends. While all are well, nothing may be told; then one backend fails in the ways in which backends do, and
//! its pipelines have to be told, and those alone. What is told is read from `/health/pipelines`, as the operator does.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::backend::Backend;
use super::children::{Launch, Process};
use super::config::{Output, Pipelines};
use super::gateway::Gateway;
use super::script::HEALTHY;
use super::trial::choose_ports;
use super::{LoadtestArgs, Settings, System, http};
use crate::files;
use crate::output::printed;
use crate::signal::Signal;

/// Pipelines of each signal, each with a backend that the others of its signal do not have.
const BACKENDS: usize = 3;
/// The backend that fails.
const SICK: usize = 1;

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

/// What a backend does wrong, and the state that follows.
struct Trouble {
    name: &'static str,
    faults: &'static str,
    state: &'static str,
}

const TROUBLES: [Trouble; 4] = [
    Trouble { name: "400 to 30 % of requests", faults: r#"{"fault": ["400:30"]}"#, state: "some_dropped" },
    Trouble { name: "partial success of half of them", faults: r#"{"partial": 50}"#, state: "some_dropped" },
    Trouble { name: "400 to everything", faults: r#"{"fault": ["400:100"]}"#, state: "all_dropped" },
    Trouble { name: "no connection", faults: r#"{"outage": ["0s..1000h"]}"#, state: "nothing_delivered" },
];

/// What was measured, as `result.json` has it.
#[derive(Debug, Serialize)]
struct Report {
    pipelines: usize,
    /// For so long all was well.
    healthy_seconds: f64,
    /// Times that a pipeline was told of whose backend was well, in the whole test.
    false_alarms: Vec<String>,
    troubles: Vec<Told>,
    /// Of the page with metrics, and how many of them a monitor would read each second if it scraped as the published one does.
    series: usize,
    samples_per_second: f64,
    memory_bytes: u64,
    memory_peak_bytes: u64,
    cpu_cores: f64,
}

/// One trouble, of the three pipelines of a backend.
#[derive(Debug, Serialize)]
struct Told {
    name: &'static str,
    state: &'static str,
    /// By pipeline; those that were not told of in time are not there.
    told_seconds: BTreeMap<String, f64>,
    over_seconds: BTreeMap<String, f64>,
}

/// The published self monitor scrapes that often.
const PUBLISHED_INTERVAL_S: f64 = 30.0;

/// Runs the test; exit code 1 when something was told late, or that is none.
pub(super) async fn test(args: &LoadtestArgs, system: &System, settings: &Settings) -> anyhow::Result<ExitCode> {
    let limits = format!("told within {TOLD_WITHIN:?}, over within {OVER_WITHIN:?}");
    let healthy = settings.duration.as_secs_f64();
    print(&format!(
        "{}: self-monitor, {healthy} s all is well, then {} troubles; {limits}\n\n",
        args.name,
        TROUBLES.len()
    ))?;
    let mut scene = Scene::start(system, settings).await?;
    let report = scene.play(settings).await?;
    scene.stop().await?;
    let failures = failures(&report);
    print(&render(&report))?;
    for failure in &failures {
        print(&format!("weir: FAILED: {failure}\n"))?;
    }
    if let Some(directory) = &args.output {
        files::write_json(&directory.join("result.json"), &report)?;
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
    /// What was told of each pipeline last.
    last: BTreeMap<String, String>,
    false_alarms: Vec<String>,
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
        let pipelines = Signal::ALL.map(|signal| Pipelines {
            signal,
            backends: &grpc,
            output: Output::Otlp,
            compression: settings.compression,
            processing: settings.processing,
            annotations: &settings.annotations,
            pod_logs: None,
            scraped: None,
        });
        let gateway = Gateway::start_all(system, settings, (directory.clone(), ports), &pipelines).await?;
        let generators = Signal::ALL.map(|signal| generator(settings, &directory, signal, ports.grpc));
        Ok(Self {
            gateway,
            health: ports.health,
            metrics: ports.metrics,
            backends,
            generators: generators.into_iter().collect::<anyhow::Result<_>>()?,
            last: BTreeMap::new(),
            false_alarms: Vec::new(),
        })
    }

    async fn play(&mut self, settings: &Settings) -> anyhow::Result<Report> {
        sleep(settings.warmup).await;
        let (began, used) = (Instant::now(), self.gateway.cpu_seconds()?);
        self.is_well(settings.duration).await?;
        let healthy_seconds = began.elapsed().as_secs_f64();
        let cpu_cores = (self.gateway.cpu_seconds()? - used) / healthy_seconds;
        let memory = self.gateway.memory()?;
        let page = http::get(self.metrics, "/metrics").await?;
        let series = String::from_utf8_lossy(&page).lines().filter(|line| !line.starts_with('#')).count();
        let mut troubles = Vec::new();
        for trouble in &TROUBLES {
            // Faults begin at any time between two looks of the monitor.
            self.is_well(REST + Duration::from_millis(fastrand::u64(..5000))).await?;
            troubles.push(self.suffers(trouble).await?);
        }
        Ok(Report {
            pipelines: self.last.len(),
            healthy_seconds,
            false_alarms: std::mem::take(&mut self.false_alarms),
            troubles,
            series,
            samples_per_second: series as f64 / PUBLISHED_INTERVAL_S,
            memory_bytes: memory.now,
            memory_peak_bytes: memory.peak,
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
        self.backends[SICK].set_faults(trouble.faults).await?;
        let told_seconds = self.until(|state| state == trouble.state).await?;
        self.backends[SICK].set_faults(HEALTHY).await?;
        let over_seconds = self.until(|state| state == "healthy").await?;
        Ok(Told { name: trouble.name, state: trouble.state, told_seconds, over_seconds })
    }

    /// When each pipeline of the backend that fails was first seen in such a state.
    async fn until(&mut self, is_it: impl Fn(&str) -> bool) -> anyhow::Result<BTreeMap<String, f64>> {
        let began = Instant::now();
        let (mut ticks, mut seen) = (ticks(), BTreeMap::new());
        while began.elapsed() < GIVEN_UP && seen.len() < Signal::ALL.len() {
            ticks.tick().await;
            self.look(is_of_sick).await?;
            for (pipeline, state) in self.last.iter().filter(|(pipeline, _)| is_of_sick(pipeline)) {
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
        let page = http::get(self.health, "/health/pipelines").await?;
        let page: Vec<Health> = serde_json::from_slice(&page).context("cannot read /health/pipelines")?;
        for Health { pipeline, state } in page {
            let before = self.last.insert(pipeline.clone(), state.clone());
            let begins = state != "healthy" && before.as_ref() != Some(&state);
            if begins && !may_be(&pipeline) {
                self.false_alarms.push(format!("{pipeline}: {state}"));
            }
        }
        Ok(())
    }

    async fn stop(self) -> anyhow::Result<()> {
        drop(self.generators);
        if let Some(problem) = self.gateway.stop().await {
            anyhow::bail!("{problem}");
        }
        for backend in self.backends {
            backend.stop().await?;
        }
        Ok(())
    }
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Whether a pipeline, as `traces/load-test-2`, sends to the backend that fails.
fn is_of_sick(pipeline: &str) -> bool {
    pipeline.ends_with(&format!("-{}", SICK + 1))
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

/// What broke a promise.
fn failures(report: &Report) -> Vec<String> {
    let mut failures: Vec<_> = report.false_alarms.iter().map(|alarm| format!("a false alarm of {alarm}")).collect();
    for Told { name, told_seconds, over_seconds, .. } in &report.troubles {
        for (what, seconds, limit) in [("told", told_seconds, TOLD_WITHIN), ("over", over_seconds, OVER_WITHIN)] {
            let in_time = seconds.values().filter(|seconds| **seconds <= limit.as_secs_f64()).count();
            if in_time < Signal::ALL.len() {
                failures.push(format!(
                    "{name}: of {} pipelines, {in_time} were {what} within {limit:?}",
                    Signal::ALL.len()
                ));
            }
        }
    }
    failures
}

fn render(report: &Report) -> String {
    let range = |seconds: &BTreeMap<String, f64>| {
        let (least, most) =
            seconds.values().fold((f64::MAX, 0.0_f64), |(least, most), at| (least.min(*at), most.max(*at)));
        if seconds.is_empty() { "never".to_owned() } else { format!("{least:.1} to {most:.1} s") }
    };
    let mut text = format!("{:<34} {:<18} {:>16} {:>16}\n", "backend", "state", "told after", "over after");
    for Told { name, state, told_seconds, over_seconds } in &report.troubles {
        text += &format!("{name:<34} {state:<18} {:>16} {:>16}\n", range(told_seconds), range(over_seconds));
    }
    let Report { pipelines, healthy_seconds, false_alarms, series, samples_per_second, .. } = report;
    let [memory, peak] = [report.memory_bytes, report.memory_peak_bytes].map(|bytes| bytes as f64 / 1e6);
    text += &format!(
        "\nfalse alarms: {} with {pipelines} pipelines, {healthy_seconds:.0} s of them all well
the whole gateway: {memory:.1} MB, {peak:.1} MB at most, {:.3} cores; {series} series on its page, {samples_per_second:.1} \
         samples/s if scraped every 30 s
published of a self monitor of its own: 15 to 22 samples/s, 200 to 350 series\n",
        false_alarms.len(),
        report.cpu_cores,
    );
    text
}

fn print(text: &str) -> anyhow::Result<()> {
    printed(io::stdout().lock().write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(told: [f64; 3], over: [f64; 3]) -> Report {
        let by = |seconds: [f64; 3]| {
            ["traces", "metrics", "logs"]
                .map(|signal| format!("{signal}/load-test-2"))
                .into_iter()
                .zip(seconds)
                .collect()
        };
        let told = Told { name: "400", state: "some_dropped", told_seconds: by(told), over_seconds: by(over) };
        Report {
            pipelines: 9,
            healthy_seconds: 60.0,
            false_alarms: Vec::new(),
            troubles: vec![told],
            series: 300,
            samples_per_second: 10.0,
            memory_bytes: 1,
            memory_peak_bytes: 1,
            cpu_cores: 0.1,
        }
    }

    #[test]
    fn what_is_late_or_nothing_fails() {
        assert_eq!(failures(&report([10.0, 20.0, 30.0], [25.0, 30.0, 45.0])), Vec::<String>::new());
        assert_eq!(failures(&report([10.0, 20.0, 30.1], [25.0, 61.0, 62.0])).len(), 2);
        let mut wrong = report([1.0; 3], [1.0; 3]);
        wrong.false_alarms.push("traces/load-test-1: some_dropped".to_owned());
        wrong.troubles[0].told_seconds.clear();
        assert_eq!(failures(&wrong).len(), 2);
        assert!(render(&wrong).contains("never"));
    }

    #[test]
    fn a_pipeline_belongs_to_the_backend_of_its_number() {
        assert!(is_of_sick("traces/load-test-2") && !is_of_sick("traces/load-test-1"));
    }
}
