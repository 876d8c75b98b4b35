//! The runs.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::Value;
use weir_otlp::to_json;
use weir_ottl::{Error, Filter, Limits, Options, Signal, Transform};

use crate::collector::{self, Set, Task};
use crate::subject::{ALL, Case, Subject, cases};
use crate::{compare, generate, items, plain};

const TABLES: [(&str, &str); 4] = [
    ("language", include_str!("../conformance/cases/language.txt")),
    ("paths", include_str!("../conformance/cases/paths.txt")),
    ("editors", include_str!("../conformance/cases/editors.txt")),
    ("converters", include_str!("../conformance/cases/converters.txt")),
];

const LIMITS: Limits = Limits { now_unix_nano: 1_700_000_000_123_456_789, max_growth: 1 << 26 };

/// Tasks of one process of the collector; each has a pipeline and a file.
const AT_ONCE: usize = 600;

/// What is compared, and where it comes from.
struct Subjected {
    origin: String,
    task: Task,
}

fn seed() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a developer repeats a run with the seed it printed")]
    let wish = std::env::var("OTTL_SEED").ok().map(|text| text.parse().unwrap());
    let seed = wish.unwrap_or_else(|| fastrand::u64(..));
    println!("OTTL_SEED={seed}");
    seed
}

/// The statements of a case; none when what it does depends on the moment.
fn task_of(case: &Case<'_>) -> Option<Task> {
    let set = match case.word {
        "true" | "false" | "error" => {
            let (store, _) = case.subject.store("\"yes\"");
            Set::Transform(vec![format!("{store} where {}", case.subject.anchored(case.what))])
        }
        "value" => Set::Transform(vec![case.subject.store(case.what).0]),
        "refused-condition" => Set::Filter(vec![case.what.to_owned()]),
        _ => Set::Transform(case.what.split(" ;; ").map(str::to_owned).collect()),
    };
    (!["Now()", "UUID()", "UUIDv7()"].iter().any(|moment| case.what.contains(moment)))
        .then(|| (case.subject.signal(), set))
}

fn tabled(words: impl Fn(&str) -> bool) -> Vec<Subjected> {
    let mut all = Vec::new();
    for (name, table) in TABLES {
        for case in cases(table).iter().filter(|case| words(case.word)) {
            let origin = format!("{name}:{}: {} {} --> {}", case.line, case.word, case.what, case.expected);
            all.extend(task_of(case).map(|task| Subjected { origin, task }));
        }
    }
    all
}

/// One request of each signal with the items of all tables, and generated ones.
fn requests(rng: &mut Rng) -> BTreeMap<&'static str, Vec<u8>> {
    let mut subjects: Vec<Subject> = Vec::new();
    for case in TABLES.iter().flat_map(|(_, table)| cases(table)) {
        if !subjects.contains(&case.subject) {
            subjects.push(case.subject);
        }
    }
    subjects.extend(items::generate(rng, 60));
    let mut requests: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for subject in subjects {
        requests.entry(name(subject.signal())).or_default().extend(subject.request());
    }
    requests
}

fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "traces",
        Signal::Metrics => "metrics",
        Signal::Logs => "logs",
    }
}

/// What this crate makes of a request.
fn ours((signal, set): &Task, request: &[u8]) -> Result<(Vec<u8>, Option<String>), Vec<Error>> {
    let options = Options::inferred(ALL);
    let (changed, tallies) = match set {
        Set::Transform(texts) => {
            let transform = Transform::compile(*signal, &options, &[], texts)?;
            let done = transform.apply(request, &LIMITS);
            (done.request, done.statements)
        }
        Set::Filter(texts) => {
            let filter = Filter::compile(*signal, &options, texts)?;
            let done = filter.apply(request, &LIMITS);
            (done.request, done.conditions)
        }
    };
    let error = tallies.into_iter().find_map(|tally| tally.first_error);
    Ok((changed.unwrap_or_else(|| request.to_vec()), error))
}

/// Which differ, with the first difference of each.
fn differing(all: &[Subjected], requests: &BTreeMap<&'static str, Vec<u8>>) -> Vec<String> {
    let mut differing = Vec::new();
    for some in all.chunks(AT_ONCE) {
        for (one, theirs) in some.iter().zip(theirs(some, requests)) {
            let (signal, _) = one.task;
            let Some(theirs) = theirs else { continue };
            let (ours, error) = ours(&one.task, &requests[name(signal)]).unwrap();
            if let Some(difference) = difference(signal, &ours, &theirs) {
                let error = error.map(|error| format!("\n    first error: {error}")).unwrap_or_default();
                differing.push(format!("{}\n{difference}{error}", one.origin));
            }
        }
    }
    differing
}

/// What the reference makes of each; nothing where it panics, which is found by halving.
fn theirs(some: &[Subjected], requests: &BTreeMap<&'static str, Vec<u8>>) -> Vec<Option<Vec<u8>>> {
    let tasks: Vec<Task> = some.iter().map(|one| one.task.clone()).collect();
    match collector::run(&tasks, requests) {
        Ok(outcome) => outcome.into_iter().map(|bytes| Some(bytes.unwrap_or_default())).collect(),
        Err(panic) if some.len() == 1 => {
            println!("the reference cannot do {}: {panic}", some[0].origin);
            vec![None]
        }
        Err(_) => {
            let (left, right) = some.split_at(some.len() / 2);
            [theirs(left, requests), theirs(right, requests)].concat()
        }
    }
}

fn difference(signal: Signal, ours: &[u8], theirs: &[u8]) -> Option<String> {
    let (ours, theirs) = (compare::by_resource(signal, ours), compare::by_resource(signal, theirs));
    if ours.len() != theirs.len() {
        return Some(format!("    {} resources are left, and {} in the reference", ours.len(), theirs.len()));
    }
    let (ours, theirs) = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs)?;
    let mut text = String::new();
    compare::list(&plain(signal, ours), &plain(signal, theirs), "", &mut text);
    Some(text)
}

fn plain(signal: Signal, request: &[u8]) -> Value {
    let text = to_json(signal, request, &weir_otlp::Limits::default()).unwrap().text;
    plain::from_otlp(&serde_json::from_slice(&text).unwrap())
}

/// Sets both compile; the others, when one of the two refuses them.
fn accepted(all: Vec<Subjected>) -> (Vec<Subjected>, Vec<String>) {
    let tasks: Vec<Task> = all.iter().map(|one| one.task.clone()).collect();
    let mut refused = collector::refused(&tasks);
    let (mut accepted, mut disagreed) = (Vec::new(), Vec::new());
    for (index, one) in all.into_iter().enumerate() {
        match (ours(&one.task, &[]), refused.remove(&index)) {
            (Ok(_), None) => accepted.push(one),
            (Ok(_), Some(reason)) => disagreed.push(format!("{}\n    refused by the reference: {reason}", one.origin)),
            (Err(errors), None) => disagreed.push(format!("{}\n    refused by us: {}", one.origin, errors[0])),
            (Err(_), Some(_)) => {}
        }
    }
    (accepted, disagreed)
}

#[test]
fn the_tables_are_what_the_reference_does() {
    let mut rng = Rng::with_seed(seed());
    let (accepted, disagreed) = accepted(tabled(|word| !word.starts_with("refused")));
    let differing = differing(&accepted, &requests(&mut rng));
    assert!(disagreed.is_empty() && differing.is_empty(), "{}\n{}", disagreed.join("\n"), differing.join("\n"));
}

#[test]
fn what_the_tables_refuse_is_refused_by_the_reference() {
    let (accepted, disagreed) = accepted(tabled(|word| word.starts_with("refused")));
    assert!(accepted.is_empty());
    assert!(disagreed.is_empty(), "{}", disagreed.join("\n"));
}

#[test]
fn generated_statements_do_what_they_do_in_the_reference() {
    let mut rng = Rng::with_seed(seed());
    let tasks = generate::generate(&mut rng, 500).into_iter();
    let all = tasks.map(|task| Subjected { origin: format!("{:?}", task.1), task }).collect();
    let (accepted, disagreed) = accepted(all);
    let differing = differing(&accepted, &requests(&mut rng));
    assert!(disagreed.is_empty() && differing.is_empty(), "{}\n{}", disagreed.join("\n"), differing.join("\n"));
}
