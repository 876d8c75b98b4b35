//! Input and statements made to do damage: numbers too large, lists assigned while they are walked, and requests of which
//! the square would take minutes. These have no clock: whoever runs them will notice.

use serde_json::{Map, Value, json};
use weir_otlp::build::Encoder;
use weir_ottl::{Limits, Options, Signal, Transform, Transformed};

use crate::plain::from_otlp;
use crate::requests::request;
use crate::table::LIMITS;

fn compile(signal: Signal, statements: &[&str]) -> Result<Transform, String> {
    let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
    let compiled = Transform::compile(signal, &Options::transform(signal), &[], &statements);
    compiled.map_err(|errors| errors[0].to_string())
}

fn apply(signal: Signal, statements: &[&str], request: &[u8], limits: &Limits) -> Transformed {
    compile(signal, statements).unwrap_or_else(|error| panic!("{error}")).apply(request, limits)
}

fn plain(signal: Signal, request: &[u8]) -> Value {
    let json = weir_otlp::to_json(signal, request, &weir_otlp::Limits::default()).unwrap();
    from_otlp(&serde_json::from_slice(&json.text).unwrap())
}

/// A request with one log record.
fn log(record: &Value) -> Vec<u8> {
    request(Signal::Logs, &json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}))
}

fn first_log(request: &[u8]) -> Value {
    plain(Signal::Logs, request)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0].clone()
}

/// OTTL-1
#[test]
fn a_format_can_ask_for_any_precision() {
    for format in ["%.65536f", "%.65536e", "%.65536g", "%#.65536g", "%.65536v"] {
        let statement = format!("set(log.body, Format(\"{format}\", [1.5]))");
        // Whether it fits the limit for literals is not the point.
        compile(Signal::Logs, &[&statement]).map(|_| ()).unwrap_or_default();
    }
    let bytes = log(&json!({"attributes": {"p": 70_000, "d": 0.1, "i": 66}}));
    let text = |directive: &str, value: &str| {
        let statement =
            format!("set(log.body, Format(\"{directive}\", [log.attributes[\"p\"], log.attributes[\"{value}\"]]))");
        let done = apply(Signal::Logs, &[&statement], &bytes, &LIMITS);
        assert_eq!(done.statements[0].first_error, None, "{directive}");
        first_log(&done.request.unwrap())["body"].as_str().unwrap().to_owned()
    };
    let digits = "1000000000000000055511151231257827021181583404541015625";
    let zeros = |count: usize| "0".repeat(count);
    assert_eq!(text("%.*f", "d"), format!("0.{digits}{}", zeros(70_000 - digits.len())));
    assert_eq!(text("%.*e", "d"), format!("1.{}{}e-01", &digits[1..], zeros(70_001 - digits.len())));
    assert_eq!(text("%.*g", "d"), format!("0.{digits}"));
    assert_eq!(text("%#.*g", "d"), format!("0.{digits}{}", zeros(70_000 - digits.len())));
    assert_eq!(text("%.*U", "i"), format!("U+{}42", zeros(69_998)));
    assert_eq!(text("%.*d", "i"), format!("{}66", zeros(69_998)));
    assert_eq!(text("%*s", "i").len(), 70_000 + "%!s(int64=)".len());
}

#[test]
fn what_is_walked_cannot_be_replaced_meanwhile() {
    let events = compile(Signal::Traces, &["set(spanevent.name, \"x\")", "set(span.events, span.events)"]);
    let refused = events.unwrap_err();
    assert!(refused.contains("the events cannot be replaced while statements go through them"), "{refused}");
    let points = ["set(datapoint.flags, 1)", "set(metric.data_points, metric.data_points)"];
    let refused = compile(Signal::Metrics, &points).unwrap_err();
    assert!(refused.contains("the data points cannot be replaced"), "{refused}");

    // What is beside them, or around them in another group, can be.
    compile(Signal::Traces, &["set(spanevent.name, \"x\")", "set(span.links, span.links)"]).unwrap();
    compile(Signal::Traces, &["set(span.events, span.events)"]).unwrap();
    compile(Signal::Metrics, &["set(metric.data_points, metric.data_points)"]).unwrap();
}

/// Lengths whose square takes minutes.
const MANY: usize = 60_000;

/// Room for everything: what ends early here must end for another reason.
const ROOMY: Limits = Limits { max_growth: 1 << 26, max_scratch: 1 << 26, ..LIMITS };

/// A message in a field.
fn nested(out: &mut Encoder, number: u32, write: impl FnOnce(&mut Encoder)) {
    let open = out.open(number, 0);
    write(out);
    out.close(open);
}

/// A request with one resource, one scope and one item.
fn item(write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut out = Encoder::default();
    nested(&mut out, 1, |out| nested(out, 2, |out| nested(out, 2, write)));
    out.into_bytes()
}

/// Numbers of `LogRecord.body` and `LogRecord.attributes`, and of members of `AnyValue`.
const BODY: u32 = 5;
const ATTRIBUTES: u32 = 6;
const ARRAY: u32 = 5;
const KEY_VALUE_LIST: u32 = 6;

/// A `KeyValue`, whose value is written by `value`.
fn pair(out: &mut Encoder, number: u32, key: &str, value: impl FnOnce(&mut Encoder)) {
    nested(out, number, |out| {
        out.bytes(1, key.as_bytes());
        nested(out, 2, value);
    });
}

/// Keys of which none is told from another by its length, its middle or its end.
fn keys() -> impl Iterator<Item = String> {
    (0..MANY).map(|index| format!("{index:06}======-"))
}

/// A JSON object with all of them.
fn object() -> String {
    let entries: Vec<String> = keys().map(|key| format!("\"{key}\":0")).collect();
    format!("{{{}}}", entries.join(","))
}

fn assert_done(statements: &[&str], request: &[u8]) {
    let done = apply(Signal::Logs, statements, request, &ROOMY);
    for tally in done.statements {
        assert_eq!((tally.matched, tally.first_error), (1, None), "{statements:?}");
    }
}

#[test]
fn a_long_list_is_flattened_in_linear_time() {
    let list = |out: &mut Encoder| nested(out, ARRAY, |out| (0..MANY).for_each(|_| out.bytes(1, b"")));
    let bytes = item(|out| pair(out, ATTRIBUTES, "list", list));
    assert_done(&["flatten(log.attributes)"], &bytes);
    // Every element repeats the key of the list, so that a long key makes much of little.
    let bytes = item(|out| pair(out, ATTRIBUTES, &"k".repeat(1 << 16), list));
    let done = apply(Signal::Logs, &["flatten(log.attributes)"], &bytes, &LIMITS);
    assert_eq!((done.statements[0].errors, done.request), (1, None));
}

#[test]
fn long_maps_are_merged_in_linear_time() {
    let body = object();
    let text = |out: &mut Encoder| out.bytes(1, body.as_bytes());
    let map = |out: &mut Encoder| nested(out, KEY_VALUE_LIST, |out| pair(out, 1, "a", |_| {}));
    let bytes = item(|out| {
        nested(out, BODY, text);
        pair(out, ATTRIBUTES, "map", map);
    });
    assert_done(&["merge_maps(log.attributes, ParseJSON(log.body), \"upsert\")"], &bytes);
    assert_done(&["merge_maps(log.attributes, ParseJSON(log.body), \"insert\")"], &bytes);
    assert_done(&["merge_maps(log.attributes[\"map\"], ParseJSON(log.body), \"upsert\")"], &bytes);
    // Where all of them are there already.
    let bytes = item(|out| {
        nested(out, BODY, text);
        keys().for_each(|key| pair(out, ATTRIBUTES, &key, |_| {}));
    });
    assert_done(&["merge_maps(log.attributes, ParseJSON(log.body), \"update\")"], &bytes);
}

/// What is found by an index is what is found by looking.
#[test]
fn long_maps_are_merged_as_short_ones_are() {
    let entries = |keys: std::ops::Range<u32>, value: &str| -> Map<String, Value> {
        keys.map(|key| (format!("k{key}"), json!(value))).collect()
    };
    let (old, new) = (entries(0..150, "old"), entries(100..300, "new"));
    let bytes = log(&json!({"attributes": old.clone(), "body": Value::from(new.clone()).to_string()}));
    let merged = |target: &str, strategy: &str| {
        let statements = [
            format!("set({target}, log.attributes) where {target} != log.attributes"),
            format!("merge_maps({target}, {{\"k0\": \"first\", \"x\": 1}}, \"{strategy}\")"),
            format!("delete_key({target}, \"k120\")"),
            format!("merge_maps({target}, ParseJSON(log.body), \"{strategy}\")"),
            format!("delete_matching_keys({target}, \"^k1[34]\")"),
            format!("delete_key({target}, \"k250\")"),
            format!("merge_maps({target}, ParseJSON(log.body), \"{strategy}\")"),
            format!("set(log.attributes, {target}) where {target} != log.attributes"),
        ];
        let done = apply(Signal::Logs, &statements.each_ref().map(String::as_str), &bytes, &LIMITS);
        assert!(done.statements.iter().all(|tally| tally.errors == 0), "{:?}", done.statements);
        first_log(&done.request.unwrap())["attributes"].clone()
    };
    let expected = |strategy: &str| {
        let mut all = old.clone();
        let merge = |all: &mut Map<String, Value>, source: &Map<String, Value>| {
            for (key, value) in source {
                if strategy == "upsert" || all.contains_key(key) == (strategy == "update") {
                    all.insert(key.clone(), value.clone());
                }
            }
        };
        merge(&mut all, json!({"k0": "first", "x": 1}).as_object().unwrap());
        all.remove("k120");
        merge(&mut all, &new);
        all.retain(|key, _| !key.starts_with("k13") && !key.starts_with("k14"));
        all.remove("k250");
        merge(&mut all, &new);
        Value::from(all)
    };
    for strategy in ["upsert", "insert", "update"] {
        for target in ["log.attributes", "log.cache", "log.cache[\"m\"]"] {
            assert_eq!(merged(target, strategy), expected(strategy), "{target} {strategy}");
        }
    }
}

#[test]
fn long_maps_and_lists_are_compared_in_linear_time() {
    let map = |out: &mut Encoder| {
        nested(out, KEY_VALUE_LIST, |out| (0..MANY).for_each(|index| pair(out, 1, &index.to_string(), |_| {})));
    };
    let list = |out: &mut Encoder| nested(out, ARRAY, |out| (0..2 * MANY).for_each(|_| out.bytes(1, b"")));
    // A list of empty lists, then an empty map.
    let lists = |out: &mut Encoder| {
        nested(out, ARRAY, |out| (0..2 * MANY).for_each(|_| nested(out, 1, |out| nested(out, ARRAY, |_| {}))));
    };
    let bytes = item(|out| {
        pair(out, ATTRIBUTES, "map", map);
        pair(out, ATTRIBUTES, "same", map);
        pair(out, ATTRIBUTES, "list", list);
        pair(out, ATTRIBUTES, "lists", lists);
    });
    assert_done(&["set(log.severity_text, \"x\") where log.attributes[\"map\"] == log.attributes[\"same\"]"], &bytes);
    let contains = "ContainsValue(log.attributes[\"lists\"], log.attributes[\"list\"])";
    assert_done(&[&format!("set(log.severity_text, \"x\") where not {contains}")], &bytes);
}

#[test]
fn many_xml_nodes_are_removed_in_linear_time() {
    let document = format!("<a><k/>{}</a>", "<b/>".repeat(MANY));
    let bytes = item(|out| nested(out, BODY, |out| out.bytes(1, document.as_bytes())));
    let done = apply(Signal::Logs, &["set(log.body, RemoveXML(log.body, \"/a/b\"))"], &bytes, &ROOMY);
    assert_eq!(first_log(&done.request.unwrap())["body"], "<a><k></k></a>");
}

/// Each point makes a metric of all of them, and most of these do not fit.
#[test]
fn summaries_without_room_for_what_is_made_of_them_end_soon() {
    const NAME: u32 = 1;
    const SUMMARY: u32 = 11;
    let bytes = item(|out| {
        out.bytes(NAME, b"m");
        nested(out, SUMMARY, |out| (0..MANY).for_each(|_| out.bytes(1, b"")));
    });
    let statements = [
        "convert_summary_sum_val_to_sum(\"delta\", true) where metric.name == \"m\"",
        "convert_summary_count_val_to_sum(\"delta\", true) where metric.name == \"m\"",
    ];
    let done = apply(Signal::Metrics, &statements, &bytes, &Limits { max_growth: 1 << 16, ..LIMITS });
    let errors: Vec<u64> = done.statements.iter().map(|tally| tally.errors).collect();
    assert_eq!((errors, done.request), (vec![MANY as u64; 2], None));
}

/// How many items a scope has says nothing about the scope.
#[test]
fn a_scope_of_many_items_can_be_changed() {
    const SCHEMA_URL: u32 = 3;
    let mut out = Encoder::default();
    nested(&mut out, 1, |out| {
        nested(out, 2, |out| {
            (0..70_000).for_each(|_| out.bytes(2, b""));
            out.bytes(SCHEMA_URL, b"old");
        });
    });
    let bytes = out.into_bytes();
    let statements = ["set(scope.schema_url, \"new\")", "set(resource.schema_url, scope.schema_url)"];
    let done = apply(Signal::Logs, &statements, &bytes, &LIMITS);
    let counts: Vec<_> = done.statements.into_iter().map(|tally| (tally.matched, tally.first_error)).collect();
    assert_eq!(counts, vec![(1, None); 2]);
    let changed = plain(Signal::Logs, &done.request.unwrap());
    let resource = &changed["resourceLogs"][0];
    assert_eq!([&resource["schemaUrl"], &resource["scopeLogs"][0]["schemaUrl"]], ["new"; 2]);
    assert_eq!(resource["scopeLogs"][0]["logRecords"].as_array().unwrap().len(), 70_000);
}
