//! Exceptions from the usual: the key `overrides` of the ConfigMap `telemetry-overrides`.
//!
//! They are for whoever looks for a fault. So a part of them that is wrong is told and left out, and the rest counts.

use serde_json::Value;
use weir_plan::Signal;
use weir_resources::{Files, Source};

use super::object::{switch, text};

/// Levels that a log may have.
const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

/// The exceptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    /// How much operator and nodes log.
    pub(crate) log_level: Option<String>,
    /// Nothing of these changes any more, whatever becomes of their pipelines.
    pub(crate) paused: Vec<Signal>,
    /// Nor of the Telemetry.
    pub(crate) telemetry_paused: bool,
    /// Nor of the DaemonSet and what belongs to it.
    pub(crate) nodes_paused: bool,
    /// Whether nodes collect their own logs.
    pub(crate) collect_agent_logs: bool,
    /// What is wrong with them.
    pub(crate) problem: Option<String>,
}

impl Overrides {
    /// Reads the text of the key.
    pub(crate) fn read(written: Option<&str>) -> Self {
        let Some(written) = written else { return Self::default() };
        let mut files = Files::default();
        files.sources.push(Source { name: "overrides".to_owned(), text: written.to_owned() });
        let document = match files.documents() {
            Ok(documents) => documents.into_iter().flat_map(|(_, documents)| documents).next(),
            Err(report) => {
                let problem = format!("ConfigMap telemetry-overrides is left out: {report}");
                return Self { problem: Some(problem), ..Self::default() };
            }
        };
        document.map(|document| Self::of(&document)).unwrap_or_default()
    }

    fn of(document: &Value) -> Self {
        let paused = |part: &str| switch(document, &format!("/{part}/paused"), false);
        let signals = [(Signal::Traces, "tracing"), (Signal::Logs, "logging"), (Signal::Metrics, "metrics")];
        let level = text(document, "/global/logLevel").map(str::to_lowercase);
        let (log_level, problem) = match level {
            Some(level) if !LEVELS.contains(&level.as_str()) => {
                let known = LEVELS.join(", ");
                (
                    None,
                    Some(format!("ConfigMap telemetry-overrides: logLevel {level:?} is none; expected one of {known}")),
                )
            }
            level => (level, None),
        };
        Self {
            log_level,
            paused: signals.into_iter().filter(|(_, part)| paused(part)).map(|(signal, _)| signal).collect(),
            telemetry_paused: paused("telemetry"),
            nodes_paused: paused("otlpGateway"),
            collect_agent_logs: switch(document, "/logging/collectAgentLogs", false),
            problem,
        }
    }

    pub(crate) fn is_paused(&self, signal: Signal) -> bool {
        self.paused.contains(&signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_read_as_published() {
        let text = "global:\n  logLevel: debug\ntracing:\n  paused: true\nlogging:\n  paused: false\n  \
                    collectAgentLogs: true\ntelemetry:\n  paused: true\notlpGateway:\n  paused: true\n";
        let read = Overrides::read(Some(text));
        assert_eq!(read.log_level.as_deref(), Some("debug"));
        assert_eq!(read.paused, [Signal::Traces]);
        assert!(read.telemetry_paused && read.nodes_paused && read.collect_agent_logs);
        assert_eq!(read.problem, None);
        assert_eq!(Overrides::read(None), Overrides::default());
        assert_eq!(Overrides::read(Some("")), Overrides::default());
    }

    #[test]
    fn what_is_wrong_is_told_and_left_out() {
        let read = Overrides::read(Some("global: {logLevel: loud}\ntracing: {paused: true}"));
        assert_eq!((read.log_level, read.paused), (None, vec![Signal::Traces]));
        assert!(read.problem.is_some_and(|problem| problem.contains("\"loud\"")));
        assert!(Overrides::read(Some("a: [")).problem.is_some());
        assert_eq!(Overrides::read(Some("global: 7")), Overrides::default());
    }
}
