//! What a test found, and where it goes: the standard output, the directory of the results, the history.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;

use super::self_monitor;
use crate::files;
use crate::report::environment::Record;
use crate::report::history::{Entry, Figures, History};
use crate::report::{Environment, Page, Section};

/// What a test found, whatever it was about.
pub(crate) struct Outcome {
    pub(crate) scenario: String,
    /// For people who read a terminal.
    pub(crate) text: String,
    /// The contents of `result.json`; none when no system came to the end of the test.
    pub(crate) result: Option<Vec<u8>>,
    /// The same as rows of figures.
    pub(crate) rows: Vec<Figures>,
    /// The contents of `series.json`.
    pub(crate) series: Value,
    pub(crate) section: Section,
    pub(crate) failures: Vec<String>,
    /// Why a system did not come to the end.
    pub(crate) error: Option<anyhow::Error>,
}

impl Outcome {
    /// Whether every promise was kept, and every system tested.
    pub(crate) fn has_passed(&self) -> bool {
        self.failures.is_empty() && self.error.is_none()
    }

    /// The line of the history.
    pub(crate) fn entry(&self, name: &str, environment: &Environment) -> Entry {
        Entry {
            passed: self.has_passed(),
            failures: self.all_failures(),
            rows: self.rows.clone(),
            ..Entry::new(name, &self.scenario, environment.clone())
        }
    }

    fn record(&self, environment: &Environment) -> Record {
        let environment = environment.clone();
        Record { environment, passed: Some(self.has_passed()), failures: self.all_failures() }
    }

    /// Broken promises, and why a system did not come to the end.
    fn all_failures(&self) -> Vec<String> {
        let error = self.error.as_ref().map(|error| format!("{error:#}"));
        self.failures.iter().cloned().chain(error).collect()
    }

    /// Writes everything that belongs into the directory of the results; nothing when nothing was measured.
    pub(crate) fn write(&self, directory: &Path, name: &str, environment: &Environment) -> anyhow::Result<()> {
        let Some(result) = &self.result else { return Ok(()) };
        files::write(&directory.join(RESULT), result)?;
        files::write_json(&directory.join(SERIES), &self.series)?;
        files::write_json(&directory.join(ENVIRONMENT), &self.record(environment))?;
        let page = Page {
            title: format!("{name}: {}", self.scenario),
            environment: environment.clone(),
            overview: Vec::new(),
            sections: vec![self.section.clone()],
        };
        files::write(&directory.join(REPORT), page.render().as_bytes())
    }
}

/// Names of the files.
pub(crate) const RESULT: &str = "result.json";
const SERIES: &str = "series.json";
pub(crate) const ENVIRONMENT: &str = "environment.json";
pub(crate) const REPORT: &str = "report.html";

/// Removes what an earlier test wrote: it would stand there for this one, if this one shows nothing.
pub(crate) fn forget(directory: &Path) -> anyhow::Result<()> {
    let removed = |path: PathBuf| match std::fs::remove_file(&path) {
        Err(err) if err.kind() != ErrorKind::NotFound => {
            Err(err).with_context(|| format!("cannot remove {} of an earlier test", path.display()))
        }
        _ => Ok(()),
    };
    [RESULT, SERIES, ENVIRONMENT, REPORT].map(|name| directory.join(name)).into_iter().try_for_each(removed)
}

/// Adds a test to the history; says where, or why it is not there. A history that nobody asked for is no reason to fail.
pub(crate) fn note(history: &History, entry: &Entry, is_asked_for: bool) -> anyhow::Result<String> {
    match history.append(entry) {
        Ok(()) => Ok(format!("history: {}\n", history.path.display())),
        Err(error) if is_asked_for => Err(error),
        Err(error) => Ok(format!("not in a history: {error:#}\n")),
    }
}

/// What serialises as an object, as such.
pub(crate) fn figures<T: Serialize>(value: &T) -> anyhow::Result<Figures> {
    let value = serde_json::to_value(value).context("cannot encode figures as JSON")?;
    value.as_object().cloned().context("cannot encode figures as a JSON object")
}

/// The rows of a `result.json`.
pub(crate) fn rows_of(text: &[u8]) -> anyhow::Result<Vec<Figures>> {
    match serde_json::from_slice::<Value>(text).context("cannot decode it as JSON")? {
        Value::Array(rows) => rows.into_iter().map(row_of).collect(),
        report => self_monitor::rows_of(report),
    }
}

fn row_of(row: Value) -> anyhow::Result<Figures> {
    match row {
        Value::Object(figures) if figures.contains_key("system") && figures.contains_key("scenario") => Ok(figures),
        _ => bail!("a row of it has no system and scenario"),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn what_is_kept_of_a_test_says_whether_it_passed() {
        let outcome = |failures: &[&str], error: Option<anyhow::Error>| Outcome {
            scenario: "traces".to_owned(),
            text: String::new(),
            result: Some(b"[]".to_vec()),
            rows: Vec::new(),
            series: Value::Null,
            section: Section::default(),
            failures: failures.iter().map(|failure| (*failure).to_owned()).collect(),
            error,
        };
        let directory = TempDir::new().unwrap();
        let environment = Environment { version: "0.2.0".to_owned(), ..Environment::default() };
        let kept = |outcome: Outcome| -> Record {
            outcome.write(directory.path(), "load test", &environment).unwrap();
            files::read_json(&directory.path().join(ENVIRONMENT)).unwrap()
        };
        let passed = kept(outcome(&[], None));
        assert_eq!(passed, Record { environment: environment.clone(), passed: Some(true), failures: Vec::new() });
        let failed = kept(outcome(&["3 lost"], Some(anyhow::anyhow!("no collector"))));
        assert_eq!((&failed.environment, failed.passed), (&environment, Some(false)));
        assert_eq!(failed.failures, ["3 lost", "no collector"]);
    }
}
