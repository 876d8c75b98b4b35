//! Whoever reads a warning wants to know what it is about, how much, and what to do: every WARN and ERROR of the sources
//! says it in fields.

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

/// Fields that name what a line is about.
const SUBJECTS: &str = "address, container, containers, data_dir, finding, kubelet, lease, name, path, pipeline, \
    pipelines, problem, queue, reading, secret, signal, source, state, target_url, watched, what";

/// What a process has one of: where a text names it, it is clear which.
const ONE_OF_EACH: &str = "configuration, container logs are not read, data directory, hints about container logs, probes, \
    the cluster, the disk, the journal, the operator, the process that took over, the webhooks";

/// Lines that name nothing, by the beginnings of their texts.
const OF_NOTHING: [(&str, &str); 7] = [
    ("a decision panicked", "the operator decides on everything at once"),
    ("cannot find out which APIs there are", "`error` has the words of the API server"),
    ("cannot use the files with certificates", "`error` names the file, or the flag that does"),
    ("metrics of pods and their node are not collected", "there are none of any pod"),
    ("more could not be read or written", "lines before it name objects, for the same `reason`"),
    ("more was to be said of", "lines before it name subjects, for the same `reason`"),
    ("no room for more connections", "`limit` is that of the process"),
];

/// Words of lines about data that is lost, waits, or comes twice.
const OF_DATA: &str = "are passed over, asked to send, backlog, cannot scrape, cut off, damaged, delivered again, \
    delivers the data again, for good, gave up, given up, is gone before, is stuck, kept, lost, read again, \
    sent again, they wait";

/// Fields that say how much of it.
const AMOUNTS: &str = "bytes, bytes_behind, checkpoints, containers, data_points, entries, files, items, others, pending, \
    reads, seconds, waiting";

/// Lines about data that do not say how much, by the beginnings of their texts.
const WITHOUT_AMOUNT: [(&str, &str); 3] = [
    ("cannot write down in the journal what was delivered", "it is tried again, and then nothing comes twice"),
    ("running without a data directory", "nothing is lost as yet"),
    ("the journal is damaged: ", "the report in the text says it"),
];

/// Words of lines about data that is lost.
const OF_LOST_DATA: &str = "are missing, for good, gave up, is given up, is gone before, lost, the journal is damaged, \
    these objects have none, to make runtime metrics";

/// Fields that say how much was lost. What waits beside that is something else.
const LOST_AMOUNTS: &str = "bytes, containers, data_points, items";

/// Lines about lost data that name no pipelines, by the beginnings of their texts.
const WITHOUT_PIPELINES: [(&str, &str); 3] = [
    ("running without a data directory", "nothing is lost as yet"),
    ("the end of reading was not waited for", "`reading` has what goes on; what is missing is never made"),
    ("the journal is damaged", "what pipelines were owed there is in lines of theirs, `gave up data`"),
];

/// Those that do not say how much was lost.
const WITHOUT_LOST_AMOUNT: [(&str, &str); 5] = [
    ("metrics of objects take more memory", "nobody knows how many there would have been; `left_out` says how often"),
    ("no room in --memory to make runtime metrics", "the same"),
    ("running without a data directory", "nothing is lost as yet"),
    ("the end of reading was not waited for", "nobody knows what would have been made"),
    ("the journal is damaged: ", "the report in the text says it"),
];

/// A WARN or ERROR, as it stands in a source.
struct Said<'a> {
    /// The number of its line.
    line: usize,
    arguments: &'a str,
    /// Names of fields.
    fields: Vec<&'a str>,
    text: String,
}

impl<'a> Said<'a> {
    fn all(source: &'a str) -> Vec<Self> {
        let end = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
        let calls = ["warn!(", "error!("].iter().flat_map(|call| source[..end].match_indices(call));
        let of = |(at, call): (usize, &str)| Self::of(source[..at].lines().count(), &source[at + call.len()..]);
        let mut all: Vec<_> = calls.map(of).collect();
        all.sort_unstable_by_key(|said| said.line);
        all
    }

    fn of(line: usize, source: &'a str) -> Self {
        let arguments = arguments(source);
        let (texts, fields): (Vec<_>, Vec<_>) = one_by_one(arguments).into_iter().partition(|one| one.starts_with('"'));
        let name = |field: &'a str| field.split('=').next().unwrap_or(field).trim().trim_start_matches(['%', '?']);
        let text = texts.concat().replace("\\\n", " ").replace('"', "");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { line, arguments, fields: fields.into_iter().map(name).collect(), text }
    }

    fn has_advice(&self) -> bool {
        self.arguments.contains("advice") || self.arguments.contains(BUG)
    }

    fn has_subject(&self) -> bool {
        self.has_one_of(SUBJECTS) || self.says_one_of(ONE_OF_EACH)
    }

    fn has_amount(&self) -> bool {
        self.has_one_of(AMOUNTS) || !self.says_one_of(OF_DATA)
    }

    fn has_pipelines(&self) -> bool {
        self.has_one_of("pipeline, pipelines") || !self.says_one_of(OF_LOST_DATA)
    }

    fn has_lost_amount(&self) -> bool {
        self.has_one_of(LOST_AMOUNTS) || !self.says_one_of(OF_LOST_DATA)
    }

    fn has_one_of(&self, names: &str) -> bool {
        names.split(", ").any(|name| self.fields.contains(&name))
    }

    fn says_one_of(&self, words: &str) -> bool {
        words.split(", ").any(|words| self.text.contains(words))
    }

    fn begins_with(&self, (text, _): &(&str, &str)) -> bool {
        self.text.starts_with(*text)
    }
}

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

/// Characters outside of texts, where they stand, and how many brackets are open after each: less than none at the end of
/// a call.
fn outside_of_texts(source: &str) -> impl Iterator<Item = (usize, char, i32)> {
    let (mut depth, mut is_text, mut is_escaped) = (0, false, false);
    source.char_indices().filter_map(move |(at, char)| {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            '(' | '[' | '{' if !is_text => depth += 1,
            ')' | ']' | '}' if !is_text => depth -= 1,
            _ => {}
        }
        (!is_text).then_some((at, char, depth))
    })
}

/// What follows up to the parenthesis that closes it.
fn arguments(source: &str) -> &str {
    outside_of_texts(source).find(|(.., depth)| *depth < 0).map_or(source, |(at, ..)| &source[..at])
}

fn one_by_one(arguments: &str) -> Vec<&str> {
    let commas = outside_of_texts(arguments).filter(|(_, char, depth)| (*char, *depth) == (',', 0));
    let (mut all, mut begin) = (Vec::new(), 0);
    for end in commas.map(|(at, ..)| at).chain([arguments.len()]) {
        all.push(arguments[begin..end].trim());
        begin = (end + 1).min(arguments.len());
    }
    all
}

/// All sources, by their names.
pub(crate) fn all_sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for of_crate in fs::read_dir(root.join("crates")).unwrap() {
        sources(&of_crate.unwrap().path().join("src"), &mut files);
    }
    assert!(files.len() > 300, "only {} sources were found", files.len());
    let read =
        |file: PathBuf| (file.strip_prefix(&root).unwrap().display().to_string(), fs::read_to_string(&file).unwrap());
    files.into_iter().map(read).collect()
}

/// Lines that lack something and may not; and what need not be allowed, as no line lacks it.
fn lacking(has: impl Fn(&Said<'_>) -> bool, allowed: &[(&str, &str)]) -> Vec<String> {
    let is_said_otherwise = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| name.starts_with(exception));
    let sources: Vec<_> = all_sources().into_iter().filter(|(name, _)| !is_said_otherwise(name)).collect();
    let mut lacking = Vec::new();
    for (name, source) in &sources {
        lacking.extend(Said::all(source).into_iter().filter(|said| !has(said)).map(|said| (name, said)));
    }
    let is_allowed = |said: &Said<'_>| allowed.iter().any(|one| said.begins_with(one));
    let is_needed = |one: &(&str, &str)| lacking.iter().any(|(_, said)| said.begins_with(one));
    let wrong = lacking.iter().filter(|(_, said)| !is_allowed(said));
    let wrong = wrong.map(|(name, Said { line, text, .. })| format!("{name}:{line}: {text}"));
    let needless =
        allowed.iter().filter(|&one| !is_needed(one)).map(|(text, _)| format!("no line begins with {text:?}"));
    wrong.chain(needless).collect()
}

#[test]
fn every_warning_says_what_to_do() {
    let silent = lacking(|said| said.has_advice(), &[]);
    assert_eq!(silent, Vec::<String>::new(), "add a field `advice`, or say it at INFO");
}

#[test]
fn every_warning_names_what_it_is_about() {
    let silent = lacking(|said| said.has_subject(), &OF_NOTHING);
    assert_eq!(silent, Vec::<String>::new(), "add a field as in SUBJECTS");
}

#[test]
fn every_warning_of_data_says_how_much() {
    let silent = lacking(|said| said.has_amount(), &WITHOUT_AMOUNT);
    assert_eq!(silent, Vec::<String>::new(), "add a field as in AMOUNTS");
}

#[test]
fn every_warning_of_lost_data_says_whose_it_was_and_how_much() {
    let silent = lacking(|said| said.has_pipelines(), &WITHOUT_PIPELINES);
    assert_eq!(silent, Vec::<String>::new(), "add a field `pipelines`");
    let silent = lacking(|said| said.has_lost_amount(), &WITHOUT_LOST_AMOUNT);
    assert_eq!(silent, Vec::<String>::new(), "add a field as in LOST_AMOUNTS");
}

#[test]
fn what_a_warning_lacks_is_found() {
    let source = "fn a() {
    tracing::warn!(a = b(\"(,\"), \"no \\\" good\");
    tracing::error!(advice, %pipeline, items = sum(a, b), \"lost\");
    tracing::warn!(path = path.display(), \"data is given \\
        up: {}\", advice);
    tracing::warn!(of = [pipeline, items], advice = \"look\", \"the journal is kept\");
    tracing::warn!(pipelines, container, waiting, advice, \"it is gone before it was read\");
}";
    let has = |said: &Said<'_>| (said.line, said.has_advice(), said.has_subject(), said.has_amount());
    let has_of_lost = |said: &Said<'_>| (said.has_pipelines(), said.has_lost_amount());
    let found: Vec<_> = Said::all(source).iter().map(has).collect();
    let expected = [
        (2, false, false, true),
        (3, true, true, true),
        (4, true, true, false),
        (6, true, true, false),
        (7, true, true, true),
    ];
    assert_eq!(found, expected);
    let found: Vec<_> = Said::all(source).iter().map(has_of_lost).collect();
    assert_eq!(found, [(true, true), (true, true), (false, false), (true, true), (true, false)]);
}
