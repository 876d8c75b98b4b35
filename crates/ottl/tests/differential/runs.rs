//! The runs.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::Value;
use weir_otlp::to_json;
use weir_ottl::{Error, Filter, Limits, Options, Signal, Transform};

use crate::collector::{self, Outcome, Set, Task};
use crate::subject::{ALL, Case, DIFFERENCES, Subject, TABLES, cases};
use crate::{compare, generate, items, plain};

/// Where the reference gives up and this crate does not, by what the reference says; and the other way round.
/// `docs/ottl-differences.md` has the reasons.
const KNOWN: [&str; 5] = [
    "unsupported type []uint64",
    "lambda expression must return a value of type <nil>",
    "<Invalid value type",
    "is out of range for this field",
    "a path must have at least one key",
];

/// Why this crate refuses a type that is known, which the reference takes in parts of a set that it does not evaluate for
/// every item. What it refuses there beside these must be a call that has no effect in the reference when it stands alone.
const KNOWN_TYPES: [&str; 4] = [
    " must be a ",
    " cannot be assigned to a path of the type ",
    " cannot be stored in attributes, bodies and caches",
    "cannot calculate with a ",
];

/// How many of a hundred sets of each form must be taken by both: a run that compares nothing proves nothing.
const LEAST_COMPARED: usize = 50;

const LIMITS: Limits = Limits { now_unix_nano: 1_700_000_000_123_456_789, max_growth: 1 << 26, max_scratch: 1 << 26 };

/// Tasks of one process of the collector; each has a pipeline and a file.
const AT_ONCE: usize = 600;

/// What is compared, and where it comes from.
struct Subjected {
    origin: String,
    task: Task,
}

impl Subjected {
    /// Which form of a set it is.
    fn form(&self) -> &'static str {
        match &self.task.1 {
            Set::Transform(_) => "statements",
            Set::Guarded(..) => "statements with conditions",
            Set::Filter(_) => "filters",
        }
    }

    /// The call that is refused in it as a statement of its own; none when it is no call.
    fn refused_call(&self, error: &Error) -> Option<Self> {
        let (map, call) = (generate::map_of(self.task.0, error.text())?, error.text().get(error.range())?);
        let stands_alone = call.ends_with(')') && !call.contains(" and ") && !call.contains(" or ");
        stands_alone.then(|| {
            let task = (self.task.0, Set::Transform(vec![format!("set({map}[\"result\"], {call})")]));
            Self { origin: format!("{}, which has {call}", self.origin), task }
        })
    }

    /// Whether every part of it is always evaluated.
    fn is_plain(&self) -> bool {
        match &self.task.1 {
            Set::Transform(texts) => !texts.iter().any(|text| text.contains(" and ") || text.contains(" or ")),
            Set::Guarded(..) | Set::Filter(_) => false,
        }
    }
}

fn seed() -> u64 {
    let seed = weir_testkit::seed("OTTL_SEED");
    println!("OTTL_SEED={seed}");
    seed
}

/// Whether what a case does depends on the moment.
fn is_of_the_moment(case: &Case<'_>) -> bool {
    ["Now()", "UUID()", "UUIDv7()"].iter().any(|moment| case.what.contains(moment))
}

/// The statements of a case.
fn task_of(case: &Case<'_>) -> Task {
    let set = match case.word {
        "true" | "false" | "error" => {
            let (store, _) = case.subject.store("\"yes\"");
            Set::Transform(vec![format!("{store} where {}", case.subject.anchored(case.what))])
        }
        "value" => Set::Transform(vec![case.subject.store(case.what).0]),
        "refused-condition" => Set::Filter(vec![case.what.to_owned()]),
        _ => Set::Transform(case.what.split(" ;; ").map(str::to_owned).collect()),
    };
    (case.subject.signal(), set)
}

fn tabled(tables: &[(&str, &str)], words: impl Fn(&str) -> bool) -> Vec<Subjected> {
    let mut all = Vec::new();
    for (name, table) in tables {
        for case in cases(table).iter().filter(|case| words(case.word) && !is_of_the_moment(case)) {
            let origin = format!("{name}:{}: {} {} --> {}", case.line, case.word, case.what, case.expected);
            // The filter has no exemplars.
            if matches!(case.word, "true" | "false" | "error") && case.subject.kind != "exemplar" {
                let task = (case.subject.signal(), Set::Filter(vec![case.subject.anchored(case.what)]));
                all.push(Subjected { origin: format!("{origin} as a filter"), task });
            }
            all.push(Subjected { origin, task: task_of(case) });
        }
    }
    all
}

/// One request of each signal with the items of all tables, and generated ones.
fn requests(rng: &mut Rng) -> BTreeMap<&'static str, Vec<u8>> {
    let mut subjects: Vec<Subject> = Vec::new();
    for case in TABLES.iter().chain([&DIFFERENCES]).flat_map(|(_, table)| cases(table)) {
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
fn ours((signal, set): &Task, request: &[u8]) -> Result<Outcome, Vec<Error>> {
    let options = Options::inferred(ALL);
    let (changed, tallies) = match set {
        Set::Transform(texts) => {
            let transform = Transform::compile(*signal, &options, &[], texts)?;
            let done = transform.apply(request, &LIMITS);
            (done.request, done.statements)
        }
        Set::Guarded(conditions, texts) => {
            let transform = Transform::compile(*signal, &options, conditions, texts)?;
            let done = transform.apply(request, &LIMITS);
            (done.request, [done.conditions, done.statements].concat())
        }
        Set::Filter(texts) => {
            let filter = Filter::compile(*signal, &options, texts)?;
            let done = filter.apply(request, &LIMITS);
            (done.request, done.conditions)
        }
    };
    let errors = tallies.iter().map(|tally| tally.errors).sum();
    let first_error = tallies.into_iter().find_map(|tally| tally.first_error);
    Ok(Outcome { request: changed.unwrap_or_else(|| request.to_vec()), errors, first_error })
}

/// Which differ, with the first difference of each.
fn differing(all: &[Subjected], requests: &BTreeMap<&'static str, Vec<u8>>) -> Vec<String> {
    let mut differing = Vec::new();
    for some in all.chunks(AT_ONCE) {
        for (one, theirs) in some.iter().zip(theirs(some, requests)) {
            let Some(theirs) = theirs else { continue };
            let request = &requests[name(one.task.0)];
            let ours = ours(&one.task, request).unwrap();
            if let Some(difference) = difference(&one.task, request, &ours, &theirs) {
                differing.push(format!("{}\n{difference}", one.origin));
            }
        }
    }
    differing
}

/// What the reference makes of each; nothing where it panics, which is found by halving.
fn theirs(some: &[Subjected], requests: &BTreeMap<&'static str, Vec<u8>>) -> Vec<Option<Outcome>> {
    let tasks: Vec<Task> = some.iter().map(|one| one.task.clone()).collect();
    match collector::run(&tasks, requests) {
        Ok(outcomes) => outcomes.into_iter().map(Some).collect(),
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

fn difference(task: &Task, request: &[u8], ours: &Outcome, theirs: &Outcome) -> Option<String> {
    let (signal, set) = task;
    let signal = *signal;
    let by_resource = |request| compare::by_resource(signal, set.points(), request);
    let before = by_resource(request).unwrap();
    let one = by_resource(&ours.request).unwrap();
    // The reference cuts texts between bytes, and sends what is no text then.
    let other = by_resource(&theirs.request).ok()?;
    let same_errors = ours.errors == theirs.errors;
    let mut text = String::new();
    if !same_errors {
        text += &format!("    {} errors, and {} in the reference\n", ours.errors, theirs.errors);
    }
    if one.len() != other.len() {
        text += &format!("    {} resources are left, and {} in the reference\n", one.len(), other.len());
    } else if let Some(index) = (0..one.len()).find(|index| {
        // A statement that fails leaves nothing behind here; in the reference it may have done half of its work.
        let failed = same_errors && ours.errors > 0 && one[*index] == before[*index];
        one[*index] != other[*index] && !failed
    }) {
        compare::list(&plain(signal, &one[index]), &plain(signal, &other[index]), "", &mut text);
        if let Some(before) = before.get(index).filter(|_| before.len() == one.len()) {
            text += &format!("    of {}\n", plain(signal, before));
        }
    }
    let first_errors = [&ours.first_error, &theirs.first_error].into_iter().flatten();
    if text.is_empty() {
        return None;
    }
    for error in first_errors {
        text += &format!("    {error}\n");
    }
    Some(text)
}

fn plain(signal: Signal, request: &[u8]) -> Value {
    let text = to_json(signal, request, &weir_otlp::Limits::default()).unwrap().text;
    plain::from_otlp(&serde_json::from_slice(&text).unwrap())
}

/// Who takes a set of statements.
enum Agreement {
    /// What it does is compared.
    BothTake,
    BothRefuse,
    /// For this reason; it must have no effect in the reference.
    OnlyWeRefuse(Error),
    /// For this reason.
    OnlyTheyRefuse(String),
}

fn agreements(all: &[Subjected]) -> Vec<Agreement> {
    let tasks: Vec<Task> = all.iter().map(|one| one.task.clone()).collect();
    let mut refused = collector::refused(&tasks);
    let agreement = |(index, task): (usize, &Task)| match (ours(task, &[]), refused.remove(&index)) {
        (Ok(_), None) => Agreement::BothTake,
        (Ok(_), Some(reason)) => Agreement::OnlyTheyRefuse(reason),
        (Err(mut errors), None) => Agreement::OnlyWeRefuse(errors.remove(0)),
        (Err(_), Some(_)) => Agreement::BothRefuse,
    };
    tasks.iter().enumerate().map(agreement).collect()
}

/// Everything that is not as in the reference.
fn differences(all: Vec<Subjected>, requests: &BTreeMap<&'static str, Vec<u8>>) -> Vec<String> {
    let agreements = agreements(&all);
    differences_of(agreements, all, requests)
}

fn differences_of(
    agreements: Vec<Agreement>,
    all: Vec<Subjected>,
    requests: &BTreeMap<&'static str, Vec<u8>>,
) -> Vec<String> {
    let (mut found, mut both, mut here, mut calls) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (agreement, one) in agreements.into_iter().zip(all) {
        match agreement {
            Agreement::BothTake => both.push(one),
            Agreement::BothRefuse => {}
            Agreement::OnlyWeRefuse(error) if one.is_plain() => here.push((error, one)),
            Agreement::OnlyWeRefuse(error) if KNOWN_TYPES.iter().any(|known| error.message().contains(known)) => {}
            Agreement::OnlyWeRefuse(error) => match one.refused_call(&error) {
                Some(call) => calls.push(call),
                None => found.push(format!("{}\n    only we refuse: {error}", one.origin)),
            },
            Agreement::OnlyTheyRefuse(reason) => {
                found.push(format!("{}\n    only the reference refuses: {reason}", one.origin))
            }
        }
    }
    found.extend(differing(&both, requests));
    found.extend(effective(here, requests));
    if !calls.is_empty() {
        found.extend(differences(calls, requests));
    }
    found
}

/// What is refused here, but of effect in the reference.
fn effective(refused: Vec<(Error, Subjected)>, requests: &BTreeMap<&'static str, Vec<u8>>) -> Vec<String> {
    let (reasons, refused): (Vec<Error>, Vec<Subjected>) = refused.into_iter().unzip();
    let mut found = Vec::new();
    for ((one, reason), theirs) in refused.iter().zip(reasons).zip(theirs(&refused, requests)) {
        let request = &requests[name(one.task.0)];
        let Some(theirs) = theirs else { continue };
        let unchanged = Outcome { request: request.clone(), errors: theirs.errors, first_error: None };
        if let Some(difference) = difference(&one.task, request, &unchanged, &theirs) {
            found.push(format!("{}\n    only we refuse: {reason}\n{difference}", one.origin));
        }
    }
    found
}

fn assert_none(mut found: Vec<String>) {
    found.retain(|difference| !KNOWN.iter().any(|known| difference.contains(known)));
    assert!(found.is_empty(), "{} differences\n{}", found.len(), found.join("\n"));
}

#[test]
fn the_tables_are_what_the_reference_does() {
    let mut rng = Rng::with_seed(seed());
    assert_none(differences(tabled(&TABLES, |word| !word.starts_with("refused")), &requests(&mut rng)));
}

#[test]
fn what_the_tables_refuse_is_refused_by_the_reference_or_of_no_effect() {
    let requests = requests(&mut Rng::with_seed(seed()));
    let all = tabled(&TABLES, |word| word.starts_with("refused"));
    let mut wrong = Vec::new();
    for (agreement, one) in agreements(&all).iter().zip(&all) {
        let here = one.origin.contains(": refused-here ");
        match agreement {
            Agreement::BothRefuse if !here => {}
            Agreement::OnlyWeRefuse(_) if here => {}
            Agreement::BothRefuse => wrong.push(format!("{}\n    the reference refuses it too", one.origin)),
            Agreement::OnlyWeRefuse(_) => wrong.push(format!("{}\n    the reference takes it", one.origin)),
            Agreement::BothTake | Agreement::OnlyTheyRefuse(_) => wrong.push(format!("{}\n    we take it", one.origin)),
        }
    }
    wrong.extend(differences(all, &requests));
    assert_none(wrong);
}

#[test]
fn what_is_said_to_differ_differs() {
    let requests = requests(&mut Rng::with_seed(seed()));
    let all = tabled(&[DIFFERENCES], |_| true);
    let origins: Vec<String> = all.iter().map(|one| one.origin.clone()).collect();
    let found = differences(all, &requests);
    for origin in origins {
        assert!(found.iter().any(|difference| difference.starts_with(&origin)), "{origin} is as in the reference");
    }
}

#[test]
fn conditions_of_several_contexts_filter_together() {
    let requests = requests(&mut Rng::with_seed(seed()));
    let groups: [(Signal, &[&str]); 8] = [
        (Signal::Traces, &["resource.attributes[\"service.name\"] == \"shop\"", "span.name == \"n\""]),
        (Signal::Traces, &["span.kind == SPAN_KIND_SERVER", "scope.name == \"lib\""]),
        (Signal::Traces, &["spanevent.name == \"e\"", "span.name == \"n\""]),
        (Signal::Traces, &["spanevent.attributes[\"x\"] == 1 and span.name == \"\""]),
        (Signal::Logs, &["log.body == \"text\"", "scope.name != \"lib\"", "resource.dropped_attributes_count > 1"]),
        (Signal::Metrics, &["metric.name == \"m\"", "datapoint.attributes[\"x\"] == 1"]),
        (Signal::Metrics, &["metric.type == METRIC_DATA_TYPE_SUM", "resource.attributes[\"b\"] == true"]),
        (Signal::Metrics, &["datapoint.attributes[\"x\"] == 1", "metric.type == METRIC_DATA_TYPE_NONE"]),
    ];
    let task = |(signal, texts): (Signal, &[&str])| {
        (signal, Set::Filter(texts.iter().map(|text| (*text).to_owned()).collect()))
    };
    let all = groups.into_iter().map(task).map(|task| Subjected { origin: format!("{:?}", task.1), task });
    assert_none(differences(all.collect(), &requests));
}

#[test]
fn generated_statements_do_what_they_do_in_the_reference() {
    let mut rng = Rng::with_seed(seed());
    let tasks = generate::generate(&mut rng, 500).into_iter();
    let all: Vec<_> = tasks.map(|task| Subjected { origin: format!("{:?}", task.1), task }).collect();
    let agreements = agreements(&all);
    assert_compared(&agreements, &all);
    assert_none(differences_of(agreements, all, &requests(&mut rng)));
}

/// Most sets of each form are taken by both, so that they are compared.
fn assert_compared(agreements: &[Agreement], all: &[Subjected]) {
    let mut forms: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (agreement, one) in agreements.iter().zip(all) {
        let (compared, count) = forms.entry(one.form()).or_default();
        *compared += usize::from(matches!(agreement, Agreement::BothTake));
        *count += 1;
    }
    println!("taken by both, of all: {forms:?}");
    assert_eq!(forms.len(), 3, "not all forms were generated: {forms:?}");
    for (form, (compared, count)) in forms {
        assert!(compared * 100 >= count * LEAST_COMPARED, "only {compared} of {count} {form} are compared");
    }
}
