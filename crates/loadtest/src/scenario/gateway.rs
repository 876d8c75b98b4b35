//! The system under test: one process after the other when it is killed, and what they used together.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, interval, timeout};

use super::children::{Launch, Process};
use super::config::{self, Pipelines, Ports};
use super::metrics::SelfView;
use super::script::Ending;
use super::{Settings, System, SystemKind, disk, http};
use crate::cpu::{self, Memory};

/// How long a system may take to start and to stop.
const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks whether it has started.
pub(crate) const READY_POLL: Duration = Duration::from_millis(2);

/// What sets this gateway apart from another of the same system.
pub(crate) struct Place<'a> {
    /// Where its files go.
    pub(crate) directory: PathBuf,
    pub(crate) ports: Ports,
    pub(crate) pipelines: Pipelines<'a>,
}

/// A running gateway.
pub(crate) struct Gateway<'a> {
    system: &'a System,
    settings: &'a Settings,
    directory: PathBuf,
    ports: Ports,
    /// Where a peer listens when it is ready.
    ready_port: u16,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    process: Process,
    started: Instant,
    /// Of the processes that were killed.
    earlier: Used,
}

/// What a process has used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Used {
    cpu_seconds: f64,
    memory_peak_bytes: u64,
    written_bytes: u64,
}

impl<'a> Gateway<'a> {
    /// Writes its configuration, starts it and waits until it is ready.
    pub(crate) async fn start(system: &'a System, settings: &'a Settings, place: Place<'_>) -> anyhow::Result<Self> {
        let (file, data) = files(&place.directory);
        let configured = configure(system.kind, settings, &place, &file, &data);
        let Place { directory, ports, pipelines } = place;
        // Without clients, nothing listens but what shows metrics.
        let is_agent = pipelines.pod_logs.is_some() || pipelines.scraped.is_some();
        let ready_port = if is_agent { ports.metrics } else { ports.grpc };
        Self::start_as(system, settings, (directory, ports, ready_port), configured).await
    }

    /// The same with pipelines of several signals. The system is Weir.
    pub(crate) async fn start_all(
        system: &'a System,
        settings: &'a Settings,
        (directory, ports): (PathBuf, Ports),
        pipelines: &[Pipelines<'_>],
    ) -> anyhow::Result<Self> {
        let (file, data) = files(&directory);
        let text = pipelines.iter().map(config::weir).collect::<Vec<_>>().join("---\n");
        let pod_logs = pipelines.iter().find_map(|of| of.pod_logs);
        let arguments = weir_arguments(settings, ports, pod_logs, &file, &data);
        let configured = Configured { text, arguments, environment: Vec::new() };
        Self::start_as(system, settings, (directory, ports, ports.grpc), configured).await
    }

    async fn start_as(
        system: &'a System,
        settings: &'a Settings,
        (directory, ports, ready_port): (PathBuf, Ports, u16),
        Configured { text, arguments, environment }: Configured,
    ) -> anyhow::Result<Self> {
        let (file, data) = files(&directory);
        remove_leftovers(&data)?;
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let launch = Launch {
            name: "gateway",
            program: &system.program,
            arguments: arguments.clone(),
            environment: environment.clone(),
            cores: &settings.layout.gateway,
            directory: &directory,
        };
        let started = Instant::now();
        let process = Process::start(launch)?;
        let earlier = Used::default();
        let mut gateway =
            Self { system, settings, directory, ports, ready_port, arguments, environment, process, started, earlier };
        gateway.until_ready().await?;
        Ok(gateway)
    }

    /// Ends it and starts it again at once, with the same files and ports.
    pub(crate) async fn replace(&mut self, ending: Ending) -> anyhow::Result<()> {
        // A gateway that ended by itself before it could be killed is a finding.
        self.check_alive()?;
        self.earlier = self.used()?;
        match ending {
            Ending::Crash => self.process.kill().await?,
            Ending::Restart => self.process.stop(STOP_LIMIT).await?,
        }
        self.started = Instant::now();
        self.process = Process::start_again(Launch {
            name: "gateway",
            program: &self.system.program,
            arguments: self.arguments.clone(),
            environment: self.environment.clone(),
            cores: &self.settings.layout.gateway,
            directory: &self.directory,
        })?;
        Ok(())
    }

    /// Whether it takes requests: Weir says so in its log, a peer by listening.
    pub(crate) async fn is_ready(&self) -> anyhow::Result<bool> {
        match self.system.kind {
            SystemKind::Weir => Ok(self.process.output()?.lines().any(says_ready)),
            SystemKind::Otelcol | SystemKind::Vmagent | SystemKind::Prometheus => {
                Ok(tokio::net::TcpStream::connect(("127.0.0.1", self.ready_port)).await.is_ok())
            }
        }
    }

    /// Waits until it is ready; fails when it ends or takes too long.
    pub(crate) async fn until_ready(&mut self) -> anyhow::Result<()> {
        let mut ticks = interval(READY_POLL);
        let ready = async {
            while !self.is_ready().await? {
                self.process.check_alive()?;
                ticks.tick().await;
            }
            anyhow::Ok(())
        };
        match timeout(START_LIMIT, ready).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(err)) => bail!("{err:#}\n{}", self.process.last_words()),
            Err(_) => bail!("{} was not ready within {START_LIMIT:?}", self.system.name),
        }
    }

    /// Time since the process that runs now was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Lines of WARN and ERROR in its log.
    pub(crate) fn complaints(&self) -> anyhow::Result<Vec<String>> {
        let log = self.process.output()?;
        let levels = [r#""level":"WARN""#, r#""level":"ERROR""#];
        let is_complaint = |line: &&str| levels.iter().any(|level| line.contains(level));
        Ok(log.lines().filter(is_complaint).map(str::to_owned).collect())
    }

    /// Fails when it has ended although nobody asked it to.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        self.process.check_alive()
    }

    /// CPU seconds of all its processes.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        Ok(self.earlier.cpu_seconds + cpu::process_seconds(&self.process.pid)?)
    }

    /// Resident memory now, and the most that any of its processes ever had.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        let Memory { now, peak } = cpu::process_memory(&self.process.pid)?;
        Ok(Memory { now, peak: peak.max(self.earlier.memory_peak_bytes) })
    }

    /// Bytes its processes caused to be written to disks.
    pub(crate) fn written_bytes(&self) -> anyhow::Result<u64> {
        Ok(self.earlier.written_bytes + cpu::process_written_bytes(&self.process.pid)?)
    }

    /// Bytes of disk its data takes now.
    pub(crate) fn disk_bytes(&self) -> anyhow::Result<u64> {
        let data = self.directory.join(DATA);
        disk::allocated_bytes(&data).with_context(|| format!("cannot measure {}", data.display()))
    }

    /// What it says about itself.
    pub(crate) async fn view(&self) -> anyhow::Result<SelfView> {
        let text = http::get(self.ports.metrics, "/metrics").await?;
        Ok(SelfView::parse(&String::from_utf8_lossy(&text), self.settings.signal()))
    }

    /// Asks it to end; returns what went wrong with that.
    pub(crate) async fn stop(mut self) -> Option<String> {
        self.process.stop(STOP_LIMIT).await.err().map(|err| format!("{err:#}"))
    }

    fn used(&self) -> anyhow::Result<Used> {
        Ok(Used {
            cpu_seconds: self.cpu_seconds()?,
            memory_peak_bytes: self.memory()?.peak,
            written_bytes: self.written_bytes()?,
        })
    }
}

/// The configuration, and the directory for data, below the directory of a test.
fn files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("config.yaml"), directory.join(DATA))
}

/// Name of the directory that Weir keeps its data in, below that of the test.
const DATA: &str = "data";

/// What an earlier test left in the same place is not this test's.
pub(crate) fn remove_leftovers(data: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(data) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
            Err(err).with_context(|| format!("cannot remove {}", data.display()))
        }
        _ => Ok(()),
    }
}

/// What a system is told.
struct Configured {
    text: String,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

/// `file` is where the text will be, `data` where a system may keep something.
fn configure(kind: SystemKind, settings: &Settings, place: &Place<'_>, file: &Path, data: &Path) -> Configured {
    let Place { ports, pipelines, .. } = place;
    let memory = settings.memory_bytes;
    let limit = vec![("GOMEMLIMIT", memory.to_string())];
    match kind {
        SystemKind::Weir => Configured {
            text: config::weir(pipelines),
            arguments: weir_arguments(settings, *ports, pipelines.pod_logs, file, data),
            environment: Vec::new(),
        },
        SystemKind::Otelcol => Configured {
            text: config::otelcol(*ports, pipelines, memory, data),
            arguments: vec!["--config".into(), file.display().to_string()],
            environment: limit,
        },
        SystemKind::Vmagent => Configured {
            text: config::prometheus(pipelines, false),
            arguments: config::vmagent_arguments(*ports, pipelines, memory, file, data),
            environment: Vec::new(),
        },
        SystemKind::Prometheus => Configured {
            text: config::prometheus(pipelines, true),
            arguments: vec![
                "--agent".to_owned(),
                format!("--config.file={}", file.display()),
                format!("--storage.agent.path={}", data.display()),
                format!("--web.listen-address=127.0.0.1:{}", ports.metrics),
            ],
            environment: limit,
        },
    }
}

/// `pod_logs`: where container logs are, if they are read.
fn weir_arguments(settings: &Settings, ports: Ports, pod_logs: Option<&Path>, file: &Path, data: &Path) -> Vec<String> {
    let mut arguments = vec!["run".to_owned(), file.display().to_string()];
    for (flag, value) in [
        ("--listen", "127.0.0.1".to_owned()),
        ("--grpc-port", ports.grpc.to_string()),
        ("--http-port", ports.http.to_string()),
        ("--metrics-port", ports.metrics.to_string()),
        ("--health-port", ports.health.to_string()),
        ("--admin-port", "0".to_owned()),
        ("--memory", settings.memory_bytes.to_string()),
    ] {
        arguments.extend([flag.to_owned(), value]);
    }
    if settings.has_data_directory {
        arguments.extend(["--data-dir".to_owned(), data.display().to_string()]);
    }
    if let Some(pods) = pod_logs {
        arguments.extend(["--pod-logs".to_owned(), pods.display().to_string()]);
    }
    arguments.extend(settings.weir_arguments.iter().cloned());
    arguments
}

/// Whether a line of Weir's log says that it takes requests now.
fn says_ready(line: &str) -> bool {
    let entry: Result<serde_json::Value, _> = serde_json::from_str(line);
    entry.is_ok_and(|entry| entry["message"] == "ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_line_with_that_message_says_ready() {
        assert!(says_ready(r#"{"level":"INFO","message":"ready","grpc":"127.0.0.1:1"}"#));
        assert!(!says_ready(r#"{"level":"INFO","message":"ready","gr"#));
        assert!(!says_ready(r#"{"message":"not ready"}"#));
        assert!(!says_ready("ready"));
    }
}
