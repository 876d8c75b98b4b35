//! Runs to compare: a directory of results, a `result.json`, or entries of the history by their version or name.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::files;
use crate::report::Environment;
use crate::report::environment::Record;
use crate::report::history::{Entry, Figures, History};
use crate::scenario::{ENVIRONMENT, RESULT, rows_of};

/// What was measured at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Run {
    /// Where it is from.
    pub(crate) source: String,
    /// When and where it was measured, if that is known.
    pub(crate) environment: Option<Environment>,
    /// Why it did not pass; nothing when it did, or when nobody knows.
    pub(crate) failure: Option<String>,
    pub(crate) rows: Vec<Figures>,
}

/// All runs that `words` name.
pub(crate) fn load(words: &[String], history: &History) -> anyhow::Result<Vec<Run>> {
    let runs = words.iter().map(|word| of_word(word, history)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(runs.into_iter().flatten().collect())
}

fn of_word(word: &str, history: &History) -> anyhow::Result<Vec<Run>> {
    let path = Path::new(word);
    if path.is_dir() {
        return of_directory(path);
    }
    if path.is_file() {
        return match path.extension().is_some_and(|extension| extension == "jsonl") {
            true => Ok(History { path: path.to_path_buf() }.read()?.into_iter().map(of_entry).collect()),
            false => Ok(vec![of_result(path)?]),
        };
    }
    of_history(word, history)
}

/// Its result, or those of the directories in it: repeated runs, or the scenarios of `weir loadtest all`.
fn of_directory(directory: &Path) -> anyhow::Result<Vec<Run>> {
    if directory.join(RESULT).is_file() {
        return Ok(vec![of_result(&directory.join(RESULT))?]);
    }
    let listed = || format!("cannot list {}", directory.display());
    let mut results: Vec<PathBuf> = std::fs::read_dir(directory)
        .with_context(listed)?
        .map(|entry| entry.map(|entry| entry.path().join(RESULT)))
        .collect::<Result<_, _>>()
        .with_context(listed)?;
    results.retain(|result| result.is_file());
    results.sort();
    ensure!(
        !results.is_empty(),
        "cannot compare {0}: there is no {RESULT} in {0}, nor in a directory in it",
        directory.display()
    );
    results.iter().map(|result| of_result(result)).collect()
}

fn of_result(path: &Path) -> anyhow::Result<Run> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows =
        rows_of(&text).with_context(|| format!("cannot use {}: it is no result of a load test", path.display()))?;
    let environment = path.with_file_name(ENVIRONMENT);
    let record: Option<Record> = if environment.is_file() { Some(files::read_json(&environment)?) } else { None };
    let source = path.display().to_string();
    let Some(Record { environment, passed, failures }) = record else {
        return Ok(Run { source, rows, ..Run::default() });
    };
    Ok(Run { source, environment: Some(environment), failure: failure(passed.unwrap_or(true), &failures), rows })
}

fn failure(passed: bool, failures: &[String]) -> Option<String> {
    (!passed).then(|| failures.join("; "))
}

fn of_history(word: &str, history: &History) -> anyhow::Result<Vec<Run>> {
    let entries = history.read()?;
    let mut known: Vec<String> = entries.iter().map(|entry| entry.environment.build()).collect();
    let runs: Vec<Run> = entries.into_iter().filter(|entry| is_named(entry, word)).map(of_entry).collect();
    if runs.is_empty() {
        known.sort_unstable();
        known.dedup();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        bail!(
            "cannot find \"{word}\": it is no file or directory, and no version, commit or name in the history {}, which has {known}",
            history.path.display()
        );
    }
    Ok(runs)
}

/// By its version, the commit, or the name that `-n` gave it.
fn is_named(entry: &Entry, word: &str) -> bool {
    let Environment { version, commit, .. } = &entry.environment;
    entry.name == word || version == word || commit.as_deref() == Some(word) || entry.environment.build() == word
}

fn of_entry(entry: Entry) -> Run {
    let source = format!("{} of {}", entry.scenario, entry.environment.started);
    let failure = failure(entry.passed, &entry.failures);
    Run { source, environment: Some(entry.environment), failure, rows: entry.rows }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn result(directory: &Path, name: &str) {
        std::fs::create_dir_all(directory.join(name)).unwrap();
        let rows = json!([{"system": "weir", "scenario": "traces", "accepted_per_s": 5.0}]);
        files::write_json(&directory.join(name).join(RESULT), &rows).unwrap();
    }

    #[test]
    fn runs_are_found_in_directories_files_and_the_history() {
        let temporary = TempDir::new().unwrap();
        let directory = temporary.path();
        result(directory, "one");
        result(directory, "two");
        let history = History { path: directory.join("history.jsonl") };
        let environment =
            Environment { version: "0.1.0".to_owned(), commit: Some("abc".to_owned()), ..Environment::default() };
        history.append(&Entry::new("before", "traces", environment)).unwrap();
        let path = |name: &str| directory.join(name).display().to_string();
        let count = |word: &str| load(&words(&[word]), &history).unwrap().len();
        for (word, runs) in [("one", 1), ("one/result.json", 1), ("", 2), ("history.jsonl", 1)] {
            assert_eq!(count(&path(word)), runs, "{word}");
        }
        assert_eq!(["0.1.0", "abc", "before", "0.1.0 (abc)"].map(count), [1; 4]);
        let error = load(&words(&["0.9.9"]), &history).unwrap_err().to_string();
        assert!(error.contains("\"0.9.9\"") && error.contains("which has 0.1.0 (abc)"), "{error}");
    }

    #[test]
    fn a_run_that_did_not_pass_says_why() {
        let temporary = TempDir::new().unwrap();
        let directory = temporary.path();
        let history = History { path: directory.join("history.jsonl") };
        let word = directory.display().to_string();
        let read = |word: &str| load(&words(&[word]), &history).unwrap().remove(0).failure;
        let failed = Some("3 lost; no collector".to_owned());
        let failures = words(&["3 lost", "no collector"]);
        result(directory, "");
        assert_eq!(read(&word), None, "nobody knows");
        for (passed, expected) in [(None, None), (Some(true), None), (Some(false), failed.clone())] {
            let failures = if expected.is_some() { failures.clone() } else { Vec::new() };
            let record = Record { passed, failures, ..Record::default() };
            files::write_json(&directory.join(ENVIRONMENT), &record).unwrap();
            assert_eq!(read(&word), expected, "{passed:?}");
        }
        history.append(&Entry { failures, ..Entry::new("before", "traces", Environment::default()) }).unwrap();
        history.append(&Entry { passed: true, ..Entry::new("after", "traces", Environment::default()) }).unwrap();
        assert_eq!(["before", "after"].map(read), [failed, None]);
    }

    #[test]
    fn what_is_no_result_is_named() {
        let temporary = TempDir::new().unwrap();
        let history = History { path: temporary.path().join("history.jsonl") };
        let file = temporary.path().join("other.json");
        std::fs::write(&file, "{\"a\": 1}").unwrap();
        for (path, expected) in [(file.as_path(), "other.json"), (temporary.path(), "there is no result.json")] {
            let error = format!("{:#}", load(&words(&[&path.display().to_string()]), &history).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
