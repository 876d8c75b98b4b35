//! Limits of growth and of memory: what fails at them changes nothing, and what does not grow does not fail.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use weir_otlp::{from_json, to_json};
use weir_ottl::{Filter, Limits, Options, Signal, Tally, Transform, Transformed};

use crate::plain::{from_otlp, to_otlp};
use crate::table::LIMITS;

fn request(signal: Signal, plain: &Value) -> Vec<u8> {
    from_json(signal, to_otlp(plain).to_string().as_bytes(), &weir_otlp::Limits::default(), 1 << 26).unwrap()
}

fn plain(signal: Signal, request: &[u8]) -> Value {
    from_otlp(&serde_json::from_slice(&to_json(signal, request, &weir_otlp::Limits::default()).unwrap().text).unwrap())
}

fn transform(signal: Signal, statements: &[&str]) -> Transform {
    let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
    Transform::compile(signal, &Options::transform(signal), &[], &statements).unwrap()
}

fn apply(signal: Signal, statements: &[&str], request: &[u8], limits: &Limits) -> Transformed {
    transform(signal, statements).apply(request, limits)
}

fn spans(spans: &[Value]) -> Vec<u8> {
    request(Signal::Traces, &json!({"resourceSpans": [{"scopeSpans": [{ "spans": spans }]}]}))
}

fn logs(records: &[Value]) -> Vec<u8> {
    request(Signal::Logs, &json!({"resourceLogs": [{"scopeLogs": [{ "logRecords": records }]}]}))
}

#[track_caller]
fn assert_all(tallies: &[Tally], items: u64) {
    for tally in tallies {
        assert_eq!((tally.matched, tally.errors), (items, 0), "{:?}", tally.first_error);
    }
}

/// Statements that change much, or fail, or change one thing after the other.
const OF_SPANS: &[&str] = &[
    "flatten(span.attributes)",
    "flatten(span.attributes, \"prefix\", 1)",
    "flatten(resource.attributes, \"p\")",
    "merge_maps(span.attributes, {\"a\": \"first\", \"new\": [1, 2], \"c\": \"cc\"}, \"upsert\")",
    "merge_maps(span.attributes, {\"x\": 1, \"y\": \"yyyyyyyy\"}, \"insert\")",
    "merge_maps(span.attributes, {\"a\": \"aaaaaaaaaaaaaaaaaaaa\", \"b\": 2}, \"update\")",
    "merge_maps(span.attributes, ParseJSON(span.name), \"upsert\")",
    "merge_maps(span.attributes, {\"k\": 1, \"time\": span.start_time}, \"upsert\")",
    "merge_maps(span.attributes[\"map\"], span.attributes, \"insert\")",
    "truncate_all(span.attributes, 3)",
    "truncate_all(span.attributes, 4, true, \"....\")",
    "stringify_all(span.attributes)",
    "replace_all_matches(span.attributes, \"*a*\", \"a longer text\")",
    "replace_all_patterns(span.attributes, \"value\", \"[a-c]\", \"<$0$0>\")",
    "replace_all_patterns(span.attributes, \"key\", \"^.\", \"key.$0\")",
    "replace_pattern(span.name, \"[a-z]\", \"$0$0$0\")",
    "keep_keys(span.attributes, [\"a\", \"map\"])",
    "delete_key(span.attributes, \"a\")",
    "delete_matching_keys(span.attributes, \"^[b-k]\")",
    "limit(span.attributes, 2, [\"map\"])",
    "clear(resource.attributes)",
    "set(span.attributes[\"map\"][\"deep\"][\"er\"], span.name)",
    "set(span.attributes[\"a\"], Concat([span.attributes[\"a\"], span.name, span.attributes[\"map\"]], \"-\"))",
    "set(span.attributes, ParseJSON(span.name))",
    "set(span.attributes[\"all\"], span.attributes)",
    "set(span.name, Concat([span.name, span.name], \"\"))",
    "set(span.trace_state[\"k\"], span.name)",
    "set(resource.attributes[\"parts\"], Split(span.name, \"\\\"\"))",
    "set(span.cache[\"x\"], span.attributes)",
    "set(span.cache[\"y\"], Split(Concat([span.name, span.name], \"\"), \"a\"))",
    "set(span.cache, {})",
    "append(span.attributes[\"list\"], span.name)",
    "set_semconv_span_name(\"1.37.0\", \"original\")",
    "set_semconv_span_name(\"1.37.0\", \"a\")",
];

const OF_METRICS: &[&str] = &[
    "scale_metric(2.0, \"a very long unit of measure\")",
    "scale_metric(0.5)",
    "convert_gauge_to_sum(\"cumulative\", true)",
    "convert_sum_to_gauge()",
    "copy_metric(\"copy\") where metric.name != \"copy\"",
    "aggregate_on_attributes(\"sum\", [\"a\"])",
    "aggregate_on_attribute_value(\"max\", \"a\", [\"x\", \"y\"], \"a long value that is new\")",
    "set(metric.name, Concat([metric.name, metric.name], \"\")) where Len(metric.name) < 64",
    "set(metric.description, \"what it is\")",
    "set(metric.aggregation_temporality, AGGREGATION_TEMPORALITY_DELTA)",
];

/// A value of an attribute.
fn any_value(depth: u32) -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        4 => "[a-e]{0,12}".prop_map(Value::from),
        1 => any::<i64>().prop_map(|number| json!(number / 2)),
        1 => any::<bool>().prop_map(Value::from),
    ];
    if depth == 0 {
        return scalar.boxed();
    }
    let list = vec(any_value(depth - 1), 0..4).prop_map(Value::from);
    let map = any_map(depth - 1).prop_map(Value::from);
    prop_oneof![3 => scalar, 1 => list, 1 => map].boxed()
}

fn any_map(depth: u32) -> BoxedStrategy<serde_json::Map<String, Value>> {
    let key = prop_oneof![
        Just("a".to_owned()),
        Just("map".to_owned()),
        Just("list".to_owned()),
        Just("http.request.method".to_owned()),
        "[a-k]{1,4}",
    ];
    vec((key, any_value(depth)), 0..6).prop_map(|entries| entries.into_iter().collect()).boxed()
}

fn any_span() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof!["[a-z/\"]{0,20}", any_map(1).prop_map(|map| Value::from(map).to_string())];
    (name, any_map(2), any_map(1)).prop_map(|(name, attributes, resource)| {
        let span = json!({"name": name, "kind": 2, "startTimeUnixNano": "7", "attributes": attributes});
        request(
            Signal::Traces,
            &json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"spans": [span]}]}]}),
        )
    })
}

fn any_metric() -> impl Strategy<Value = Vec<u8>> {
    let point =
        ("[x-z]", any::<i32>()).prop_map(|(a, value)| json!({"asInt": value.to_string(), "attributes": {"a": a}}));
    ("[a-c]{1,9}", any::<bool>(), vec(point, 0..5)).prop_map(|(name, is_gauge, points)| {
        let metric = if is_gauge {
            json!({"name": name, "gauge": {"dataPoints": points}})
        } else {
            json!({"name": name, "sum": {"dataPoints": points, "aggregationTemporality": 2, "isMonotonic": true}})
        };
        request(Signal::Metrics, &json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}))
    })
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let limit = || prop_oneof![0usize..64, 0usize..512, Just(1 << 16)];
    let scratch = prop_oneof![0usize..1024, 0usize..4096, Just(1 << 20)];
    (limit(), scratch).prop_map(|(max_growth, max_scratch)| Limits { max_growth, max_scratch, ..LIMITS })
}

/// Applies the statements before one of them, with it and without it, each time with `probe` behind them. When it fails,
/// nothing may differ: neither the request nor what is left of the limits.
fn check(signal: Signal, statements: &[&str], probe: &str, bytes: &[u8], limits: &Limits) -> Result<(), TestCaseError> {
    for number in 0..statements.len() {
        let with = [&statements[..=number], &[probe]].concat();
        let without = [&statements[..number], &[probe]].concat();
        let with = apply(signal, &with, bytes, limits);
        let length = with.request.as_ref().map_or(bytes.len(), Vec::len);
        prop_assert!(length <= bytes.len() + limits.max_growth, "{} to {length} with {statements:?}", bytes.len());
        if let Some(request) = &with.request {
            prop_assert!(weir_otlp::validate(signal, request, &weir_otlp::Limits::default()).is_ok(), "{statements:?}");
        }
        // Of several items, a metric and its copies, only some may have failed.
        let tally = &with.statements[number];
        if tally.errors > 0 && tally.matched == 0 {
            let without = apply(signal, &without, bytes, limits);
            let shown = |request: &Option<Vec<u8>>| request.as_ref().map(|request| plain(signal, request).to_string());
            prop_assert_eq!(
                (&with.request, shown(&with.request)),
                (&without.request, shown(&without.request)),
                "{} fails ({:?}) after {:?}",
                statements[number],
                tally.first_error,
                &statements[..number]
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_statement_that_fails_leaves_its_span_as_it_was(
        bytes in any_span(),
        statements in vec(prop::sample::select(OF_SPANS), 1..5),
        limits in any_limits(),
    ) {
        check(Signal::Traces, &statements, "set(span.attributes[\"probe\"], span.cache)", &bytes, &limits)?;
    }

    #[test]
    fn a_statement_that_fails_leaves_its_metric_as_it_was(
        bytes in any_metric(),
        statements in vec(prop::sample::select(OF_METRICS), 1..5),
        limits in any_limits(),
    ) {
        check(Signal::Metrics, &statements, "set(metric.unit, \"probe\")", &bytes, &limits)?;
    }
}

/// Texts of the same length in the place of others, in every attribute of every item: nothing grows.
#[test]
fn what_is_replaced_counts() {
    let attributes: Value =
        (0..40).map(|key| (format!("key.{key:02}"), json!("x".repeat(64)))).collect::<serde_json::Map<_, _>>().into();
    let bytes = spans(&vec![json!({"name": "n", "attributes": attributes}); 100]);
    let redact = "replace_all_patterns(span.attributes, \"value\", \"x\", \"y\")";
    let limits = Limits { max_growth: 0, ..LIMITS };
    let done = apply(
        Signal::Traces,
        &[redact, "set(span.name, \"m\")", "set(span.attributes[\"key.00\"], \"\")"],
        &bytes,
        &limits,
    );
    assert_all(&done.statements, 100);
    assert_eq!(done.request.unwrap().len(), bytes.len() - 100 * 64);

    // What one statement takes away, another may add; in this item or in a later one.
    let rename =
        ["set(span.attributes[\"KEY.00\"], span.attributes[\"key.00\"])", "delete_key(span.attributes, \"key.00\")"];
    let swapped = [rename[1], "set(span.attributes[\"KEY.00\"], span.attributes[\"key.01\"])"];
    // A few bytes are kept back for the lengths of messages.
    assert_all(&apply(Signal::Traces, &swapped, &bytes, &Limits { max_growth: 28, ..LIMITS }).statements, 100);
    let tight = Limits { max_growth: 128, ..LIMITS };
    assert_all(&apply(Signal::Traces, &rename, &bytes, &tight).statements, 100);
    let refused = apply(Signal::Traces, &rename, &bytes, &limits).statements.remove(0);
    assert!(refused.errors > 0, "at first it does grow");
}

/// The length of a message that grows may take a byte more itself.
#[test]
fn lengths_count() {
    let bytes = spans(&vec![json!({"name": "x".repeat(110)}); 1000]);
    let limits = Limits { max_growth: 10_000, ..LIMITS };
    let done = apply(Signal::Traces, &["set(span.attributes[\"new\"], \"value\")"], &bytes, &limits);
    let grown = done.request.unwrap().len() - bytes.len();
    assert!((9_950..=10_000).contains(&grown) && done.statements[0].errors > 0, "{grown}");
}

#[test]
fn json_logs_become_attributes() {
    let body = json!({"level": "info", "message": "it works", "user": {"id": 7, "name": "somebody"}}).to_string();
    let record = json!({"timeUnixNano": "1", "observedTimeUnixNano": "1", "severityNumber": 9, "severityText": "INFO",
        "body": body, "attributes": {"log.file.path": "/var/log/pods/shop_orders/main/0.log"}});
    let bytes = logs(&vec![record; 200]);
    let merge = "merge_maps(log.attributes, ParseJSON(log.body), \"upsert\")";
    let done = apply(Signal::Logs, &[merge], &bytes, &Limits { max_growth: bytes.len(), ..LIMITS });
    assert_all(&done.statements, 200);
}

/// A list that is too long to look into, beside attributes that a statement would rewrite.
#[test]
fn what_cannot_be_read_is_no_reason_to_lose_the_rest() {
    let span = json!({"name": "n", "attributes": {"a": "text", "long": vec![Value::Null; 600_000], "m": {"k": 1}}});
    let bytes = spans(&[span]);
    let limits = Limits { max_growth: 1 << 24, max_scratch: 1 << 24, ..LIMITS };
    for statement in [
        "flatten(span.attributes)",
        "stringify_all(span.attributes)",
        "replace_all_patterns(span.attributes, \"key\", \"a\", \"b\")",
        "set(span.attributes, span.attributes)",
    ] {
        let done = apply(Signal::Traces, &[statement], &bytes, &limits);
        assert_eq!((done.statements[0].errors, done.request), (1, None), "{statement}");
    }
}

/// A message with too many fields read, and another one that could be changed.
#[test]
fn what_was_not_read_in_full_changes_nothing_else() {
    let mut request = weir_otlp::build::Encoder::default();
    let resource = request.open(1, 0);
    let scope = request.open(2, 0);
    let span = request.open(2, 0);
    (0..70_000).for_each(|_| request.bytes(9, b"\x0a\x01k\x12\x03\x0a\x01v"));
    request.close(span);
    request.close(scope);
    request.close(resource);
    let bytes = request.into_bytes();
    for statement in [
        "set(resource.attributes[\"copy\"], span.attributes[\"k\"])",
        "set(span.cache[\"copy\"], span.attributes[\"k\"])",
        "delete_key(resource.attributes, \"a\") where span.attributes[\"k\"] == \"v\"",
    ] {
        let done = apply(Signal::Traces, &[statement], &bytes, &LIMITS);
        assert_eq!((done.statements[0].errors, done.request), (1, None), "{statement}");
    }
}

#[test]
fn what_a_statement_calculates_is_limited_and_then_gone() {
    let words = "word ".repeat(1000);
    let bytes = logs(&vec![json!({"body": words, "attributes": {"list": vec![1; 1000]}}); 50]);
    let limits = Limits { max_growth: 0, max_scratch: 256 << 10, ..LIMITS };
    let holds = |condition: &str, limits: &Limits| {
        let filter = Filter::compile(Signal::Logs, &Options::filter(Signal::Logs), &[condition.to_owned()]).unwrap();
        let tally = filter.apply(&bytes, limits).conditions.remove(0);
        (tally.matched, tally.errors)
    };
    let works = [
        "Len(Split(log.body, \" \")) == 1001",
        "Len(Split(log.body, \" \")) == 1001 and Len(Split(log.body, \"o\")) == 1001 and Len(Split(log.body, \"r\")) == 1001",
        // A thousand texts, one at a time.
        "Len(Reduce(log.attributes[\"list\"], \"\", (acc, _, v) => Concat([acc, String(v)], \"\"))) == 1000",
        "Any(log.attributes[\"list\"], (_, v) => Concat([log.body, String(v)], \"\") == \"x\") == false",
    ];
    works.iter().for_each(|condition| assert_eq!(holds(condition, &limits), (50, 0), "{condition}"));
    // A thousand texts at once.
    let too_much = "Len(MapEach(log.attributes[\"list\"], (_, v) => Concat([log.body, String(v)], \"\"))) == 1000";
    assert_eq!(holds(too_much, &limits), (0, 50));
    assert_eq!(holds(too_much, &Limits { max_scratch: 8 << 20, ..limits }), (50, 0));
}

/// A text that grows with every element is written anew each time, which takes the square of its length.
#[test]
fn what_a_statement_writes_is_limited_too_when_it_is_gone_at_once() {
    let limits = Limits { max_growth: 0, max_scratch: 1 << 20, ..LIMITS };
    let errors = |elements: usize, condition: &str| {
        let list: Vec<String> = std::iter::once("x".repeat(100_000)).chain(vec!["y".to_owned(); elements]).collect();
        let bytes = logs(&[json!({"attributes": {"list": list}})]);
        let filter = Filter::compile(Signal::Logs, &Options::filter(Signal::Logs), &[condition.to_owned()]).unwrap();
        filter.apply(&bytes, &limits).conditions.remove(0).first_error
    };
    for condition in [
        "Len(Reduce(log.attributes[\"list\"], \"\", (acc, _, v) => Concat([acc, v], \"\"))) > 100000",
        "Any(log.attributes[\"list\"], (_, v) => Concat([log.attributes[\"list\"][0], v], \"\") == \"z\") == false",
    ] {
        assert_eq!(errors(100, condition), None, "{condition}");
        let error = errors(10_000, condition);
        assert_eq!(error.as_deref(), Some("what is calculated takes more work than rules may do"), "{condition}");
    }
}

/// A pattern may look at all of a text for each of its matches, which takes the square of the text's length.
#[test]
fn matches_are_replaced_as_long_as_that_takes_linear_time() {
    let body = "1 ".repeat(20_000);
    let bytes = logs(&[json!({"body": body, "attributes": {"list": body, "other": "1 1"}})]);
    let run = |statement: &str| apply(Signal::Logs, &[statement], &bytes, &LIMITS);
    for statement in
        ["replace_pattern(log.body, \"\\\\d+\", \"N\")", "replace_pattern(log.body, \"(\\\\d+)(?: [a-z]+)?\", \"N\")"]
    {
        let done = run(statement);
        assert_all(&done.statements, 1);
        let record = plain(Signal::Logs, &done.request.unwrap());
        assert!(record.to_string().contains(&"N ".repeat(20_000)), "{statement}");
    }
    for statement in [
        "replace_pattern(log.body, \"(\\\\d+)(?: .*ms)?\", \"N\")",
        "replace_all_patterns(log.attributes, \"value\", \"(\\\\d+)(?: .*ms)?\", \"N\")",
        "replace_all_patterns(log.attributes, \"value\", \".*[^0-9 ]|[0-9 ]\", \"N\")",
    ] {
        let done = run(statement);
        let tally = &done.statements[0];
        assert_eq!((tally.matched, tally.errors, &done.request), (0, 1, &None), "{statement}");
        assert_eq!(tally.first_error.as_deref(), Some("what is calculated takes more work than rules may do"));
    }
}

/// What is kept for longer than a statement takes of the same memory: the cache and changes.
#[test]
fn what_is_kept_counts_as_long_as_it_is_kept() {
    let bytes = logs(&vec![json!({"body": "x ".repeat(1000)}); 20]);
    let limits = Limits { max_growth: 1 << 24, max_scratch: 300 << 10, ..LIMITS };
    let counts = |done: &Transformed| done.statements.iter().map(|tally| tally.errors).collect::<Vec<_>>();
    let cached = "set(log.cache[\"SLOT\"], Split(log.body, \" \"))";
    let cached: Vec<String> = (0..8).map(|slot| cached.replace("SLOT", &slot.to_string())).collect();
    let cached: Vec<&str> = cached.iter().map(String::as_str).collect();
    let done = apply(Signal::Logs, &cached, &bytes, &limits);
    assert_eq!((counts(&done)[0], counts(&done)[7]), (0, 20), "{:?}", counts(&done));
    // Changes of an item are gone with it, those of what is around it are not.
    let own = apply(Signal::Logs, &["set(log.attributes[\"parts\"], Split(log.body, \" \"))"], &bytes, &limits);
    assert_eq!(counts(&own), [0]);
    let number = "set(resource.attributes[\"n\"], 0) where resource.attributes[\"n\"] == nil";
    let next = "set(resource.attributes[\"n\"], resource.attributes[\"n\"] + 1)";
    let shared = "set(resource.attributes[Concat([\"n\", resource.attributes[\"n\"]], \"\")], Split(log.body, \" \"))";
    let shared = apply(Signal::Logs, &[number, next, shared], &bytes, &limits);
    assert!((10..20).contains(&counts(&shared)[2]), "{:?}", counts(&shared));
}

/// Two bytes of JSON must not become a hundred bytes of memory without an end.
#[test]
fn json_takes_no_more_memory_than_it_may() {
    let number = |text: &str, max_scratch: usize| {
        let bytes = logs(&[json!({ "body": text })]);
        let limits = Limits { max_growth: 1 << 24, max_scratch, ..LIMITS };
        apply(Signal::Logs, &["set(log.attributes[\"n\"], Len(ParseJSON(log.body)))"], &bytes, &limits)
            .statements
            .remove(0)
    };
    let zeros = format!("[{}0]", "0,".repeat(100_000));
    let empty = format!("[{}{{}}]", "{\"\":0},".repeat(50_000));
    let escaped = format!("[{}\"\"]", "\"\\n\",".repeat(50_000));
    for text in [&zeros, &empty, &escaped] {
        let refused = number(text, 1 << 20);
        assert_eq!((refused.matched, refused.errors), (0, 1));
        assert_eq!(refused.first_error.as_deref(), Some("what is calculated takes more memory than rules may use"));
        assert_all(&[number(text, 32 << 20)], 1);
    }
}

/// What is kept for each item is asked for before it is kept, and so is what is made of the request.
#[test]
fn rules_do_nothing_without_the_memory_for_their_changes() {
    let named =
        |index: usize| json!({"name": if index.is_multiple_of(2) { "even" } else { "odd" }, "attributes": {"a": "b"}});
    let bytes = spans(&(0..2_000).map(named).collect::<Vec<_>>());
    let change = transform(Signal::Traces, &["set(span.name, \"\")", "set(span.attributes[\"a\"], \"c\")"]);
    let conditions = ["span.name == \"even\"".to_owned(), "scope.name == \"none\"".to_owned()];
    let drop = Filter::compile(Signal::Traces, &Options::filter(Signal::Traces), &conditions).unwrap();
    let mut refused = [0, 0];
    let (changed, dropped) = (change.apply(&bytes, &LIMITS), drop.apply(&bytes, &LIMITS));
    for limit in (0..bytes.len() * 10).step_by(10_000) {
        let (mut of_change, mut of_drop) = (0, 0);
        let pay = |paid: &mut usize, more: usize| {
            let is_there = *paid + more <= limit;
            *paid += if is_there { more } else { 0 };
            is_there
        };
        match change.apply_within(&bytes, &LIMITS, &mut |more| pay(&mut of_change, more)) {
            Ok(done) => {
                assert_eq!(done, changed);
                assert!(of_change >= done.request.unwrap().len() + 4_000 * 32, "{of_change} bytes");
            }
            Err(_) => refused[0] += 1,
        }
        match drop.apply_within(&bytes, &LIMITS, &mut |more| pay(&mut of_drop, more)) {
            Ok(done) => {
                assert_eq!(done, dropped);
                assert!(of_drop >= done.request.unwrap().len() + 1_000 * 32, "{of_drop} bytes");
            }
            Err(_) => refused[1] += 1,
        }
    }
    assert!(refused.iter().all(|refused| *refused > 2), "{refused:?}");
}

/// Fields that are looked at take many times what they take in the request.
#[test]
fn fields_are_looked_at_as_far_as_there_is_memory_for_them() {
    let mut span = weir_otlp::build::Encoder::default();
    (0..20_000).for_each(|_| span.bytes(9, b""));
    let mut scope = weir_otlp::build::Encoder::default();
    // A large one, and then small ones.
    [&span.into_bytes()[..], b"\x2a\x01a", b"\x2a\x01a"].iter().for_each(|span| scope.bytes(2, span));
    let mut resource = weir_otlp::build::Encoder::default();
    resource.bytes(2, &scope.into_bytes());
    let mut bytes = weir_otlp::build::Encoder::default();
    bytes.bytes(1, &resource.into_bytes());
    let bytes = bytes.into_bytes();
    for (max_scratch, errors) in [(1 << 20, 1), (8 << 20, 0)] {
        let limits = Limits { max_growth: 1 << 16, max_scratch, ..LIMITS };
        let done = apply(Signal::Traces, &["set(span.name, \"b\")"], &bytes, &limits);
        assert_eq!((done.statements[0].matched, done.statements[0].errors), (3 - errors, errors), "{max_scratch}");
    }
}

/// Patterns that come with the telemetry: a request may have many times the same few, not very many different ones, and
/// none that is large.
#[test]
fn patterns_that_are_no_literals_are_few_and_small() {
    const ITEMS: usize = 3000;
    let statement = "set(span.attributes[\"found\"], true) where IsMatch(span.name, span.attributes[\"pattern\"])";
    let tally = |pattern: &dyn Fn(usize) -> String| {
        let span = |number| json!({"name": "abc", "attributes": {"pattern": pattern(number)}});
        let request = spans(&(0..ITEMS).map(span).collect::<Vec<_>>());
        apply(Signal::Traces, &[statement], &request, &LIMITS).statements[0].clone()
    };
    let few = tally(&|number| format!("^abc|{}", number % 5));
    assert_eq!((few.matched, few.errors), (ITEMS as u64, 0), "{:?}", few.first_error);
    let many = tally(&|number| format!("^abc|{number}"));
    assert_eq!((many.matched, many.errors), (1000, ITEMS as u64 - 1000));
    assert!(many.first_error.is_some_and(|cause| cause.contains("more different patterns")));
    let large = tally(&|_| "(?:\\pL{20}){20}".to_owned());
    assert_eq!((large.matched, large.errors), (0, ITEMS as u64));
    let with_groups = |count: usize| tally(&|_| "(a?)".repeat(count));
    assert_eq!(with_groups(9).matched, ITEMS as u64);
    assert_eq!(with_groups(200).errors, ITEMS as u64, "each of them takes memory when texts are long");
}

/// What is read on the way to a small result takes memory, too.
#[test]
fn what_a_text_is_taken_apart_to_is_limited() {
    let errors = |statement: &str, text: String| {
        let request = spans(&[json!({"name": "abc", "attributes": {"text": text}})]);
        let tally = apply(Signal::Traces, &[statement], &request, &LIMITS).statements[0].clone();
        assert!(tally.first_error.is_none_or(|cause| cause.contains("more memory than rules may use")));
        tally.errors
    };
    let document = |elements: usize| format!("<a>{}</a>", "<b c=\"d\"/>".repeat(elements));
    let get = "set(span.attributes[\"found\"], GetXML(span.attributes[\"text\"], \"/a/none\"))";
    assert_eq!([1_000, 60_000].map(|elements| errors(get, document(elements))), [0, 1]);
    let pairs = "set(span.attributes[\"found\"], ParseKeyValue(span.attributes[\"text\"], \":\", \",\"))";
    assert_eq!([1_000, 200_000].map(|count| errors(pairs, "a:b,".repeat(count))), [0, 1]);
}
