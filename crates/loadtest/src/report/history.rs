//! The history of load tests: a line of JSON for each, only ever appended to.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::environment::Environment;

/// Of the lines; a reader refuses those that it does not know.
const SCHEMA: u32 = 1;

/// One test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) schema: u32,
    /// As `-n` says.
    pub(crate) name: String,
    /// `traces-multi`, as in `result.json`.
    pub(crate) scenario: String,
    #[serde(flatten)]
    pub(crate) environment: Environment,
    /// Whether every promise was kept, and every system tested.
    pub(crate) passed: bool,
    pub(crate) failures: Vec<String>,
    /// As in `result.json`.
    pub(crate) rows: Vec<Figures>,
}

/// The figures of one system, by their names.
pub(crate) type Figures = Map<String, Value>;

impl Entry {
    /// One of the newest schema.
    pub(crate) fn new(name: &str, scenario: &str, environment: Environment) -> Self {
        let (name, scenario) = (name.to_owned(), scenario.to_owned());
        Self { schema: SCHEMA, name, scenario, environment, ..Self::default() }
    }
}

/// Where the history is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) path: PathBuf,
}

/// Its usual name, beside the directories of results.
pub(crate) const USUAL_NAME: &str = "history.jsonl";

impl History {
    /// The file asked for, which can be written, or the usual one beside the directory of the results.
    pub(crate) fn of(given: Option<&Path>, results: Option<&Path>) -> anyhow::Result<Option<Self>> {
        if let Some(path) = given {
            open(path)?;
            return Ok(Some(Self { path: path.to_path_buf() }));
        }
        Ok(results.map(|results| Self { path: results.parent().unwrap_or(results).join(USUAL_NAME) }))
    }

    /// Adds a line. Tests that end at the same time have a line each: it is written at once, behind all others.
    pub(crate) fn append(&self, entry: &Entry) -> anyhow::Result<()> {
        let path = self.path.display();
        let mut line = serde_json::to_vec(entry).context("cannot encode a line of the history")?;
        line.push(b'\n');
        let written = open(&self.path)?.write(&line).with_context(|| format!("cannot append to {path}"))?;
        ensure!(written == line.len(), "cannot append to {path}: only a part of its last line was written; remove it");
        Ok(())
    }

    /// All lines so far, the oldest first; none when there is no file.
    pub(crate) fn read(&self) -> anyhow::Result<Vec<Entry>> {
        let path = self.path.display();
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.with_context(|| format!("cannot read {path}"))?,
        };
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        lines.map(|(number, line)| parse(line).with_context(|| format!("cannot use {path}:{number}"))).collect()
    }
}

fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::options().create(true).append(true).open(path);
    file.with_context(|| format!("cannot open the history {}; name another file with --history", path.display()))
}

fn parse(line: &str) -> anyhow::Result<Entry> {
    let entry: Entry = serde_json::from_str(line).context("it is not a line of a history")?;
    ensure!(entry.schema == SCHEMA, "its schema is {}, and {SCHEMA} is what is known", entry.schema);
    Ok(entry)
}

/// How many times as long the longest of tests may be that are the same: the last requests of some take a while.
const TIMES_ALIKE: f64 = 1.5;

/// Whether tests can be the same that are measured for so long, at least and at most.
pub(crate) fn are_alike(shortest: f64, longest: f64) -> bool {
    longest <= shortest * TIMES_ALIKE
}

/// For how long a test was to be measured, if that is known. Where it is not said, it is how long Weir was measured; but not
/// where it read files, which have `input_mb`: that may have ended when all of them had arrived.
pub(crate) fn duration(environment: Option<&Environment>, rows: &[Figures]) -> Option<f64> {
    let asked = environment.and_then(|environment| environment.asked_duration_s);
    let says_it = |row: &&Figures| {
        let is_weir = row.get("system").and_then(Value::as_str) == Some("weir");
        is_weir && !row.contains_key("input_mb")
    };
    let measured = rows.iter().filter(says_it).filter_map(|row| row.get("duration_s")?.as_f64());
    asked.or_else(|| measured.reduce(f64::max))
}

/// What to compare a test with: the latest one of the same scenario, load and duration on the same machine that passed and that
/// another version made, or else the latest one.
pub(crate) fn previous<'a>(entries: &'a [Entry], scenario: &str, environment: &Environment) -> Option<&'a Entry> {
    let is_as_long = |entry: &Entry| {
        let durations = duration(Some(&entry.environment), &entry.rows).zip(environment.asked_duration_s);
        durations.is_none_or(|(one, other)| are_alike(one.min(other), one.max(other)))
    };
    let is_same = |entry: &&Entry| {
        let Environment { load, machine, .. } = &entry.environment;
        let is_alike = *load == environment.load && *machine == environment.machine && is_as_long(entry);
        entry.scenario == scenario && is_alike && entry.passed && !entry.rows.is_empty()
    };
    let same = || entries.iter().rev().filter(is_same);
    let build = environment.build();
    same().find(|entry| entry.environment.build() != build).or_else(|| same().next())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::environment::Machine;
    use super::*;

    fn entry(scenario: &str, version: &str) -> Entry {
        let environment = Environment { version: version.to_owned(), ..Environment::default() };
        let row = serde_json::json!({"system": "weir", "accepted_per_s": 5.0});
        let rows = vec![row.as_object().cloned().unwrap()];
        Entry { rows, passed: true, ..Entry::new("load test", scenario, environment) }
    }

    #[test]
    fn lines_are_appended_and_read_again() {
        let directory = TempDir::new().unwrap();
        let history = History::of(None, Some(&directory.path().join("run-1"))).unwrap().unwrap();
        assert_eq!(history.path, directory.path().join("history.jsonl"));
        assert_eq!(history.read().unwrap(), []);
        let entries = [entry("traces", "0.1.0"), entry("traces-multi", "0.2.0")];
        std::thread::scope(|scope| {
            for entry in &entries {
                scope.spawn(|| history.append(entry).unwrap());
            }
        });
        let mut read = history.read().unwrap();
        read.sort_by(|a, b| a.scenario.cmp(&b.scenario));
        assert_eq!(read, entries);
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let directory = TempDir::new().unwrap();
        let history = History { path: directory.path().join("history.jsonl") };
        history.append(&entry("traces", "0.1.0")).unwrap();
        for (line, expected) in [("{\"schema\": 1, \"na", "history.jsonl:2"), ("{}", "missing field")] {
            let before = std::fs::read_to_string(&history.path).unwrap();
            std::fs::write(&history.path, format!("{before}{line}\n")).unwrap();
            let error = format!("{:#}", history.read().unwrap_err());
            assert!(error.contains(expected), "{error}");
            std::fs::write(&history.path, before).unwrap();
        }
        let newer = Entry { schema: 2, ..entry("traces", "9.0.0") };
        history.append(&newer).unwrap();
        assert!(format!("{:#}", history.read().unwrap_err()).contains("its schema is 2"));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_said_before_the_test() {
        let error = History::of(Some(Path::new("/nowhere/history.jsonl")), None).unwrap_err();
        assert!(error.to_string().contains("--history"), "{error}");
        assert_eq!(History::of(None, None).unwrap(), None);
    }

    #[test]
    fn the_previous_one_is_of_another_version_if_there_is_one() {
        let entries =
            [entry("traces", "0.1.0"), entry("traces", "0.2.0"), entry("metrics", "0.1.0"), entry("traces", "0.2.0")];
        let environment = |version: &str| Environment { version: version.to_owned(), ..Environment::default() };
        let version = |scenario, version| {
            previous(&entries, scenario, &environment(version)).map(|entry| entry.environment.version.as_str())
        };
        assert_eq!(version("traces", "0.2.0"), Some("0.1.0"));
        assert_eq!(version("traces", "0.3.0"), Some("0.2.0"));
        assert_eq!(version("metrics", "0.1.0"), Some("0.1.0"));
        assert_eq!(version("logs-otel", "0.1.0"), None);
        let harder = Environment { load: "more".to_owned(), ..environment("0.3.0") };
        assert_eq!(previous(&entries, "traces", &harder), None, "of another load");
    }

    #[test]
    fn what_is_no_fair_comparison_is_not_the_previous_one() {
        let on = |cores: usize, seconds: f64| Environment {
            machine: Machine { cores, ..Machine::default() },
            asked_duration_s: Some(seconds),
            ..Environment::default()
        };
        let of = |environment: Environment, passed: bool| {
            let environment = Environment { version: "0.1.0".to_owned(), ..environment };
            [Entry { environment, passed, ..entry("traces", "") }]
        };
        let is_found = |entries: [Entry; 1]| previous(&entries, "traces", &on(2, 60.0)).is_some();
        assert!(is_found(of(on(2, 60.0), true)));
        assert!(!is_found(of(on(8, 60.0), true)), "another machine");
        assert!(!is_found(of(on(2, 5.0), true)), "another duration");
        assert!(!is_found(of(on(2, 60.0), false)), "it failed");
        let unsaid = Environment { asked_duration_s: None, ..on(2, 60.0) };
        assert!(is_found(of(unsaid, true)), "an earlier version did not say it, nor did it measure it");
    }
}
