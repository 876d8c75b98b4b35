//! What users send is not repeated in errors: these get into logs.

use std::collections::BTreeSet;

use serde_json::json;
use weir_ottl::{Options, Signal, Transform, signatures};

use crate::requests::request;
use crate::table::LIMITS;

/// What must not be seen again: in texts, and as numbers.
const SECRET: &str = "hunter2";
const NUMBERS: [&str; 2] = ["731652940", "7316.5294"];

/// Texts that parsers fail for at different places; `@` is the secret.
const TEXTS: [&str; 44] = [
    "@",
    "@==",
    "0x@",
    "1.@",
    "@/33",
    "2024-@",
    "5h@",
    "GET @",
    "a,\"@",
    "\"@\"x,",
    "k=v @",
    "k=\"@",
    "http://u:@%zz@host/",
    "http://u:p@@:70000x/",
    "http://u:@@[::1",
    "://@",
    "http://h/%zz@",
    "http://h/a?%z@#%z",
    "@ :x",
    "{\"@\": ",
    "{\"a\": @}",
    "[1, \"@",
    "{\"@\": 1} @",
    "<@></a>",
    "<a>&@;</a>",
    "<a @>",
    "<a @='1' @='2'/>",
    "<a b='&@;'/>",
    "</@>",
    "<!DOCTYPE @",
    "<a><@>",
    "<?@",
    "CEF:@",
    "LEEF:@|",
    "LEEF:2.0|a|b|c|d|@|x=1",
    "a b c [d] \"-\" @ -",
    "a b c [d] \"-\" 200 @",
    "#Version: 1\n@",
    "(@",
    "[@-",
    "(?P<@>a)(?P<@>b)",
    "(?@)",
    "%{@}",
    "%{INT:n:@}",
];

/// Statements for what no converter does.
const STATEMENTS: [&str; 20] = [
    "set(log.body, ExtractGrokPatterns(log.attributes[\"s\"], \"%{GREEDYDATA:n:int}\"))",
    "set(log.body, ExtractGrokPatterns(log.attributes[\"s\"], \"%{GREEDYDATA:n:double}\"))",
    "set(log.body, ExtractGrokPatterns(log.attributes[\"s\"], \"%{GREEDYDATA:n:bool}\"))",
    "set(log.body, log.attributes[\"s\"] + 1)",
    "set(log.body, -log.attributes[\"s\"])",
    "set(log.body, log.attributes[\"l\"][log.attributes[\"i\"]])",
    "set(log.body, log.attributes[\"l\"][log.attributes[\"s\"]])",
    "set(log.body, log.attributes[\"s\"][log.attributes[\"s\"]])",
    "set(log.body, Split(log.attributes[\"s\"], \"x\")[log.attributes[\"i\"]])",
    "set(log.body, ParseKeyValue(\"a=b\")[log.attributes[\"s\"]])",
    "set(log.attributes[\"l\"][log.attributes[\"i\"]], 1)",
    "set(log.attributes[\"none\"][-log.attributes[\"i\"]], 1)",
    "set(log.trace_id.string, log.attributes[\"s\"])",
    "set(log.severity_number, log.attributes[\"i\"] * 10)",
    "set(log.severity_number, log.attributes[\"s\"])",
    "set(log.attributes, log.attributes[\"s\"])",
    "append(log.attributes[\"m\"], log.attributes[\"s\"])",
    "delete_index(log.attributes[\"l\"], log.attributes[\"i\"])",
    "delete_matching_keys(log.attributes, log.attributes[\"s\"])",
    "replace_pattern(log.attributes[\"s\"], \".*\", log.attributes[\"s\"], SHA1, log.attributes[\"s\"])",
];

/// Arguments for a kind of parameter, the secrets among them; what no item has an influence on is one literal.
fn candidates(kind: &str) -> Vec<&str> {
    const TEXT: &str = "log.attributes[\"s\"]";
    const INT: &str = "log.attributes[\"i\"]";
    match kind {
        "string" | "regular expression" | "grok pattern" => vec![TEXT, "log.attributes[\"ok\"]"],
        "int" => vec![INT, "log.flags"],
        "value" => {
            let others =
                ["log.attributes[\"d\"]", "log.attributes[\"l\"]", "log.attributes[\"m\"]", "log.attributes[\"y\"]"];
            [&[TEXT, INT][..], &others].concat()
        }
        "list of values" => vec!["[log.attributes[\"s\"], log.attributes[\"i\"], log.attributes[\"l\"]]"],
        "map" => vec!["log.attributes[\"m\"]", "{\"info\": []}"],
        "list" => vec!["log.attributes[\"l\"]"],
        "time" => vec!["log.time"],
        "duration" => vec!["Duration(log.attributes[\"s\"])"],
        "string literal" | "list of string literals" => vec!["\"%d%.*f\"", "[\"k\"]"],
        "bool literal" => vec!["true"],
        "XPath literal" => vec!["\"//a[b='c']\""],
        "format of times" => vec!["\"%Y-%m\""],
        "name of a time zone" => vec!["\"UTC\""],
        "lambda of 0" => vec!["() => log.attributes[\"s\"]"],
        "lambda of 2" => vec!["(k, v) => v", "(k, v) => true"],
        "lambda of 3" => vec!["(a, k, v) => v"],
        choices => choices.split(" | ").collect(),
    }
}

/// Calls of a converter with all combinations of arguments, first without those that are optional.
fn calls(signature: &str) -> Vec<String> {
    let (name, parameters) = signature.strip_suffix(')').unwrap().split_once('(').unwrap();
    let mut calls = vec![String::new()];
    let mut all = Vec::new();
    let parameters = parameters.split(", ").filter(|parameter| !parameter.is_empty());
    for (name, kind) in parameters.map(|parameter| parameter.split_once(": ").unwrap()) {
        if name.ends_with('?') {
            all.extend(calls.clone());
        }
        let with = |call: &String| {
            let separator = if call.is_empty() { "" } else { ", " };
            candidates(kind).into_iter().map(|argument| format!("{call}{separator}{argument}")).collect::<Vec<_>>()
        };
        calls = calls.iter().flat_map(with).collect();
    }
    all.extend(calls);
    all.into_iter().map(|arguments| format!("set(log.body, {name}({arguments}))")).collect()
}

fn requests() -> Vec<Vec<u8>> {
    let of = |text: &str| {
        let text = text.replace('@', SECRET);
        let item = json!({"attributes": {
            "s": text, "i": 731_652_940, "d": 7316.5294, "l": [text, 731_652_940], "m": {text.as_str(): text},
            "y": {"$bytes": "aHVudGVyMg=="}, "ok": "10.0.0.1"}, "body": text});
        request(Signal::Logs, &json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [item]}]}]}))
    };
    TEXTS.iter().map(|text| of(text)).collect()
}

/// The first error of a statement for each of the requests; none when it does not compile.
fn errors(signal: Signal, statement: &str, requests: &[Vec<u8>]) -> Option<BTreeSet<String>> {
    let options = Options::transform(signal);
    let transform = Transform::compile(signal, &options, &[], &[statement.to_owned()]).ok()?;
    let done = requests.iter().map(|request| transform.apply(request, &LIMITS));
    Some(done.filter_map(|done| done.statements.into_iter().next()?.first_error).collect())
}

fn assert_keeps_secrets(statement: &str, errors: &BTreeSet<String>) {
    for error in errors {
        let tells = NUMBERS.iter().chain([&SECRET]).any(|secret| error.contains(secret));
        assert!(!tells, "{statement}: {error}");
    }
}

#[test]
fn errors_of_converters_do_not_repeat_data() {
    let requests = requests();
    let mut all = BTreeSet::new();
    for signature in signatures().into_iter().filter(|signature| !signature.is_editor) {
        // Those of other contexts take no argument.
        if !signature.contexts.is_empty() && !signature.contexts.contains(&weir_ottl::Context::Log) {
            continue;
        }
        let mut runs = 0;
        for statement in calls(&signature.signature) {
            let Some(errors) = errors(Signal::Logs, &statement, &requests) else { continue };
            assert_keeps_secrets(&statement, &errors);
            all.extend(errors);
            runs += 1;
        }
        assert!(runs > 0, "no call of {} compiles", signature.signature);
    }
    // What the texts are for is met.
    for part in ["not a number", "no valid part of a URL", "parse JSON", "parse XML", "LEEF", "invalid pattern", "grok"]
    {
        assert!(all.iter().any(|error| error.contains(part)), "{part} in {all:#?}");
    }
}

#[test]
fn errors_of_editors_and_paths_do_not_repeat_data() {
    let requests = requests();
    for statement in STATEMENTS {
        let errors = errors(Signal::Logs, statement, &requests).unwrap_or_else(|| panic!("{statement} compiles"));
        assert!(!errors.is_empty(), "{statement}");
        assert_keeps_secrets(statement, &errors);
    }
    let point = json!({"bucketCounts": ["1", "2"], "explicitBounds": [1.0], "attributes": {"d": 7316.5294}});
    let metrics = json!([{"name": "h", "histogram": {"dataPoints": [point]}}]);
    let bytes = request(Signal::Metrics, &json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}));
    let statement = "merge_histogram_buckets(datapoint.attributes[\"d\"], \"limit_buckets\")";
    let errors = errors(Signal::Metrics, statement, &[bytes]).unwrap();
    assert!(!errors.is_empty());
    assert_keeps_secrets(statement, &errors);
}
