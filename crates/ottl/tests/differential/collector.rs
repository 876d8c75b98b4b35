//! The OpenTelemetry Collector as a child process: one pipeline for each set of statements, all fed by one receiver,
//! each writing what it makes of a request to a file of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};
use weir_ottl::Signal;

use crate::compare::Points;

/// Statements or conditions that belong together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Set {
    Transform(Vec<String>),
    /// Conditions of which one must hold, and statements.
    Guarded(Vec<String>, Vec<String>),
    Filter(Vec<String>),
}

impl Set {
    fn processor(&self) -> &'static str {
        match self {
            Self::Transform(_) | Self::Guarded(..) => "transform",
            Self::Filter(_) => "filter",
        }
    }

    /// How to compare the data points in what becomes of a request.
    pub(crate) fn points(&self) -> Points {
        let (Self::Transform(texts) | Self::Guarded(_, texts) | Self::Filter(texts)) = self;
        if texts.iter().any(|text| text.contains("aggregate_on_")) { Points::Unordered } else { Points::Ordered }
    }

    fn config(&self, signal: Signal) -> Value {
        // A dollar sign starts a variable in the configuration of the collector, unless it is doubled.
        let escaped = |texts: &[String]| -> Value { texts.iter().map(|text| text.replace('$', "$$")).collect() };
        let prefix = match signal {
            Signal::Traces => "trace",
            Signal::Metrics => "metric",
            Signal::Logs => "log",
        };
        match self {
            Self::Transform(texts) => {
                json!({"error_mode": "ignore", format!("{prefix}_statements"): [{"statements": escaped(texts)}]})
            }
            Self::Guarded(conditions, texts) => {
                let group = json!({"conditions": escaped(conditions), "statements": escaped(texts)});
                json!({"error_mode": "ignore", format!("{prefix}_statements"): [group]})
            }
            Self::Filter(texts) => {
                json!({"error_mode": "ignore", format!("{prefix}_conditions"): [{"conditions": escaped(texts)}]})
            }
        }
    }
}

/// A set, and the signal it is for.
pub(crate) type Task = (Signal, Set);

/// What the collector did for a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// What was left of the request; empty when everything was dropped.
    pub(crate) request: Vec<u8>,
    /// How often a statement or a condition failed.
    pub(crate) errors: u64,
    /// What was logged the first time.
    pub(crate) first_error: Option<String>,
}

fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "traces",
        Signal::Metrics => "metrics",
        Signal::Logs => "logs",
    }
}

fn command(config: &Path) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers/bin/otelcol");
    assert!(path.exists(), "cannot find the collector: make test-ottl-differential builds {}", path.display());
    let mut command = Command::new(path);
    command.arg("--feature-gates=ottl.functions.enableLambda").arg("--config").arg(config);
    command
}

fn write_config(directory: &Path, tasks: &[Task]) -> PathBuf {
    let (mut processors, mut exporters, mut pipelines) = (Map::new(), Map::new(), Map::new());
    for (index, (signal, set)) in tasks.iter().enumerate() {
        let processor = format!("{}/{index}", set.processor());
        let exporter = format!("file/{index}");
        let pipeline = json!({"receivers": ["otlp"], "processors": [processor], "exporters": [exporter]});
        processors.insert(processor, set.config(*signal));
        exporters.insert(exporter, json!({"path": directory.join(index.to_string()), "format": "proto"}));
        pipelines.insert(format!("{}/{index}", name(*signal)), pipeline);
    }
    let http = json!({"transport": "unix", "endpoint": directory.join("socket")});
    let telemetry = json!({"metrics": {"level": "none"}, "logs": {"sampling": {"enabled": false}}});
    let config = json!({
        "receivers": {"otlp": {"protocols": {"http": http}}},
        "processors": processors,
        "exporters": exporters,
        "service": {"pipelines": pipelines, "telemetry": telemetry},
    });
    let path = directory.join("config.yaml");
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// The tasks the collector refuses when it starts, with its reasons.
pub(crate) fn refused(tasks: &[Task]) -> BTreeMap<usize, String> {
    if tasks.is_empty() {
        return BTreeMap::new();
    }
    let directory = tempfile::tempdir().unwrap();
    let config = write_config(directory.path(), tasks);
    let output = command(&config).arg("validate").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut refused = BTreeMap::new();
    for part in text.split("processors::").skip(1) {
        let (id, reason) = part.split_once(": ").unwrap_or((part, ""));
        let index = id.split_once('/').and_then(|(_, index)| index.parse().ok());
        refused.insert(index.unwrap_or_else(|| panic!("cannot read {part}")), reason.trim().to_owned());
    }
    assert!(output.status.success() != refused.values().len().gt(&0), "{text}");
    refused
}

/// Runs the collector on one request of each signal. Where a statement makes it panic, no task has an outcome.
pub(crate) fn run(tasks: &[Task], requests: &BTreeMap<&'static str, Vec<u8>>) -> Result<Vec<Outcome>, String> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let directory = tempfile::tempdir().unwrap();
    let config = write_config(directory.path(), tasks);
    let mut child = command(&config).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("Everything is ready") {
        let read = log.read_line(&mut said).unwrap();
        assert!(read > 0, "the collector did not start: {said}");
    }
    // What it logs about statements that fail is read on, so that it is never blocked.
    let rest = std::thread::spawn(move || {
        let mut text = Vec::new();
        log.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let socket = directory.path().join("socket");
    let wanted = |signal: &str| tasks.iter().any(|(of, _)| name(*of) == signal);
    let mut posted = requests.iter().filter(|(signal, _)| wanted(signal));
    let failed = posted.find_map(|(signal, request)| post(&socket, signal, request).err());
    match &failed {
        // It may hang, or have lost what it was doing: nothing of it is of use.
        Some(_) => child.kill().unwrap(),
        None => {
            let id = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        }
    }
    let status = child.wait().unwrap();
    let log = rest.join().unwrap();
    if let Some(answer) = failed {
        let panic = log.lines().find(|line| line.contains("panic serving"));
        return Err(panic.map_or(answer, str::to_owned));
    }
    if status.signal().is_some() {
        // It says that it is ready a moment before it listens to signals; what it had was not written then.
        return run(tasks, requests);
    }
    assert!(status.success(), "{status} {log}");
    let outcome =
        |index: usize| Outcome { request: frame(&directory.path().join(index.to_string())), ..Outcome::default() };
    let mut outcomes: Vec<Outcome> = (0..tasks.len()).map(outcome).collect();
    for line in log
        .lines()
        .filter(|line| line.contains("failed to execute statement\t") || line.contains("failed to eval condition\t"))
    {
        let outcome = &mut outcomes[component(line)];
        outcome.errors += 1;
        let (_, reason) = line.split_once("\"error\": ").unwrap_or(("", line));
        outcome.first_error.get_or_insert_with(|| reason.to_owned());
    }
    Ok(outcomes)
}

/// Which component a line of the log is about.
fn component(line: &str) -> usize {
    let (_, id) = line.split_once("\"otelcol.component.id\": \"").unwrap();
    let digits: String = id.chars().skip_while(|char| *char != '/').skip(1).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// An answer takes a second; statements that make the collector hang are found by halving.
const LONGEST_ANSWER: Duration = Duration::from_secs(15);

/// Sends a request as OTLP over HTTP.
fn post(socket: &Path, signal: &str, request: &[u8]) -> Result<(), String> {
    let answer = exchange(socket, signal, request).map_err(|error| format!("{signal}: {error}"))?;
    let text = String::from_utf8_lossy(&answer);
    if text.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(format!("{signal}: {text}")) }
}

fn exchange(socket: &Path, signal: &str, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LONGEST_ANSWER))?;
    let head = format!(
        "POST /v1/{signal} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
        request.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// The one request in a file, after its length.
fn frame(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let Some((length, body)) = bytes.split_first_chunk::<4>() else { return Vec::new() };
    assert_eq!(body.len(), u32::from_be_bytes(*length) as usize, "one request");
    body.to_vec()
}
