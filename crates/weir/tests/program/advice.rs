//! Whoever reads a warning wants to know what to do: every WARN and ERROR of the sources says it in a field `advice`.

use std::fs;
use std::path::{Path, PathBuf};

/// Files whose lines say it otherwise.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("crates/loadtest/", "what generators and sinks say is for whoever runs a test"),
    ("crates/weir/src/findings.rs", "findings of `weir check` have a field `expected`"),
    ("crates/weir/src/health.rs", "the self monitor's message ends with it"),
    ("crates/weir/src/journal/export.rs", "a command, whose texts say it"),
    ("crates/weir/src/main.rs", "errors of all kinds, whose texts say it"),
];

/// Nobody but us can do anything about these.
const BUG: &str = "please report it";

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("a file of sources").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What follows up to the parenthesis that closes it.
fn arguments(text: &str) -> &str {
    let (mut depth, mut is_text, mut is_escaped) = (1, false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            '(' if !is_text => depth += 1,
            ')' if !is_text => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

/// The lines of a source that do not say what to do, by their numbers.
fn without_advice(source: &str) -> Vec<usize> {
    let end = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let calls = ["warn!(", "error!("].iter().flat_map(|call| source[..end].match_indices(call));
    let silent = calls.filter(|(at, call)| {
        let arguments = arguments(&source[at + call.len()..]);
        !arguments.contains("advice") && !arguments.contains(BUG)
    });
    let mut lines: Vec<usize> = silent.map(|(at, _)| source[..at].lines().count()).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn every_warning_says_what_to_do() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for of_crate in fs::read_dir(root.join("crates")).unwrap() {
        sources(&of_crate.unwrap().path().join("src"), &mut files);
    }
    assert!(files.len() > 300, "only {} sources were found", files.len());
    let mut silent = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        if EXCEPTIONS.iter().all(|(exception, _)| !name.starts_with(exception)) {
            let lines = without_advice(&fs::read_to_string(&file).unwrap());
            silent.extend(lines.iter().map(|line| format!("{name}:{line}")));
        }
    }
    assert_eq!(silent, Vec::<String>::new(), "add a field `advice`, or say it at INFO");
}

#[test]
fn a_warning_without_advice_is_found() {
    let source =
        "fn a() {\n    tracing::warn!(a = b(\"(\"), \"no \\\" good\");\n    tracing::error!(advice, \"well\");\n}\n";
    assert_eq!(without_advice(source), [2]);
}
