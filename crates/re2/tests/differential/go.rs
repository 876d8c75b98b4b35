//! Go's side: a child process that is asked line by line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::generate::Question;

/// What both sides find in texts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) groups: Vec<String>,
    /// For every text the matches in it, each with the places of its groups.
    pub(crate) matches: Vec<Vec<Vec<Option<(usize, usize)>>>>,
    pub(crate) replaced: Vec<String>,
}

/// What Go finds, or why it refuses the pattern.
pub(crate) fn ask(questions: &[Question]) -> Vec<Result<Found, String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers/bin/goregexp");
    assert!(path.exists(), "cannot find goregexp: make test-ottl-differential builds {}", path.display());
    let mut child = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let from = BufReader::new(child.stdout.take().unwrap());
    let answers: Vec<Result<Found, String>> = std::thread::scope(|scope| {
        scope.spawn(move || {
            for Question { pattern, texts, template } in questions {
                let question = json!({"pattern": pattern, "texts": texts, "template": template});
                writeln!(to, "{question}").unwrap();
            }
        });
        from.lines().map(|line| answer(&serde_json::from_str(&line.unwrap()).unwrap())).collect()
    });
    assert!(child.wait().unwrap().success());
    assert_eq!(answers.len(), questions.len());
    answers
}

fn answer(said: &Value) -> Result<Found, String> {
    match said["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(Found {
            groups: list(&said["groups"], text),
            matches: list(&said["matches"], |matches| list(matches, |offsets| places(&list(offsets, offset)))),
            replaced: list(&said["replaced"], text),
        }),
    }
}

/// A list of which Go writes `null` when it is empty.
fn list<T>(value: &Value, item: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().into_iter().flatten().map(item).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn offset(value: &Value) -> Option<usize> {
    usize::try_from(value.as_i64().unwrap()).ok()
}

fn places(offsets: &[Option<usize>]) -> Vec<Option<(usize, usize)>> {
    offsets.chunks(2).map(|pair| Some((pair[0]?, pair[1]?))).collect()
}
