//! Random objects against a plain implementation over trees.

use proptest::prelude::*;

use super::*;

/// JSON with names in their order, also equal ones.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(Value),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Self::Leaf(value) => value.to_string(),
            Self::Array(list) => format!("[{}]", list.iter().map(Self::text).collect::<Vec<_>>().join(" ,")),
            Self::Object(members) => {
                let member = |(name, value): &(String, Self)| format!("{}: {}", json!(name), value.text());
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(",\t"))
            }
        }
    }
}

const NAMES: &str = "message msg level log.level trace_id span_id trace_flags traceparent log.original log.iostream \
                     log.file.path a b averylongname1 averylongname2";
const TEXTS: &str = "info WARN2 30 zz 0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 01 abc \
                     00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 \
                     00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01";

fn one_of(words: &'static str) -> impl Strategy<Value = String> {
    prop::sample::select(words.split_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned)
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![8 => one_of(NAMES), 1 => any::<String>()]
}

/// Numbers are such that all parsers give the same double for them.
fn leaves() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => (-5..30).prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        4 => one_of(TEXTS).prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
    ]
}

fn objects() -> impl Strategy<Value = Tree> {
    let values = leaves().prop_map(Tree::Leaf).prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::Array),
            prop::collection::vec((names(), inner), 0..40).prop_map(Tree::Object),
        ]
    });
    prop::collection::vec((names(), values), 0..60).prop_map(Tree::Object)
}

/// A record made the slow way, step by step as the operators of the Collector.
fn expected(text: &str, keep: bool) -> String {
    let parsed: Map<String, Value> = serde_json::from_str(text).unwrap();
    let mut attributes = Map::new();
    attributes.insert("log.file.path".into(), json!(SOURCE.path));
    attributes.insert("log.iostream".into(), json!("stdout"));
    attributes.extend(parsed.iter().map(|(key, value)| (key.clone(), doubles(value))));
    if keep {
        attributes.insert("log.original".into(), json!(text));
    }
    let mut body = Value::Null;
    for name in ["message", "msg"] {
        match (take(&mut attributes, name), &mut body) {
            (Some(Value::Object(over)), Value::Object(before)) => before.extend(over),
            (Some(value), body) => *body = value,
            _ => {}
        }
    }
    let mut severity = (0, String::new());
    for name in ["level", "log.level"] {
        severity = take(&mut attributes, name).and_then(|level| self::severity(&level)).unwrap_or(severity);
    }
    let trace = trace(&mut attributes);
    attributes.remove("log.file.path");
    if attributes.get("log.iostream") == Some(&json!("stdout")) {
        attributes.remove("log.iostream");
    }
    let mut shown = format!("{body} {}", Value::Object(attributes));
    if severity != (0, String::new()) {
        shown += &format!(" severity {} {}", severity.0, severity.1);
    }
    shown + &trace
}

/// All numbers as doubles.
fn doubles(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(list) => list.iter().map(doubles).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), doubles(value))).collect()),
        other => other.clone(),
    }
}

/// Takes an attribute away unless it is `null`.
fn take(attributes: &mut Map<String, Value>, name: &str) -> Option<Value> {
    if attributes.get(name)?.is_null() { None } else { attributes.remove(name) }
}

fn severity(level: &Value) -> Option<(usize, String)> {
    let text = match level {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.as_f64()?.fract() == 0.0 => number.to_string().replace(".0", ""),
        _ => return None,
    };
    let text = if text == "-0" { "0".to_owned() } else { text };
    let lower = text.to_lowercase().replace("warning", "warn");
    let lower =
        if lower.starts_with("err") && !lower.starts_with("error") { lower.replace("err", "error") } else { lower };
    let names = ["trace", "debug", "info", "warn", "error", "fatal"];
    let names = names.iter().flat_map(|name| ["", "2", "3", "4"].map(|step| format!("{name}{step}")));
    let number = names.zip(1..).find(|(name, number)| *name == lower || number.to_string() == lower);
    Some((number.map_or(0, |(_, number)| number), text))
}

fn trace(attributes: &mut Map<String, Value>) -> String {
    let names = ["trace_id", "span_id", "trace_flags"];
    let parent = attributes.get("traceparent").and_then(Value::as_str).map(str::to_owned);
    let parts = if attributes.get("trace_id").is_some_and(|id| !id.is_null()) {
        names.map(|name| take(attributes, name).unwrap_or_default())
    } else if let Some(parent) = parent.filter(|parent| is_parent(parent)) {
        attributes.retain(|name, _| name != "traceparent" && !names.contains(&&**name));
        [3..35, 36..52, 53..55].map(|range| json!(&parent[range]))
    } else {
        return String::new();
    };
    let [id, span, flags] = parts.map(|part| match part {
        Value::String(text) => text,
        // Others are too long to be hexadecimal when the Collector writes them.
        Value::Number(number) if number.as_f64().unwrap() < 1e6 => number.to_string().replace(".0", ""),
        _ => String::new(),
    });
    let bytes = |text: String, length: usize| {
        let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digits = if is_hex { format!("{text:0<length$}")[..length].to_lowercase() } else { String::new() };
        if digits.trim_matches('0').is_empty() { String::new() } else { digits }
    };
    let (id, span) = (bytes(id, 32), bytes(span, 16));
    let flags = u8::from_str_radix(&bytes(flags, 2), 16).unwrap_or(0);
    if id.is_empty() && span.is_empty() && flags == 0 { String::new() } else { format!(" trace {id} {span} {flags:x}") }
}

fn is_parent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    parts.iter().map(|part| part.len()).eq([2, 32, 16, 2]) && parts.iter().all(is_hex)
}

proptest! {
    /// Records are what the operators of the Collector make.
    #[test]
    fn objects_become_what_a_plain_implementation_says(object in objects(), keep: bool) {
        let text = object.text();
        let (form, record) = record(text.as_bytes(), RecordShape::Parsed { keep_original_body: keep });
        prop_assert_eq!(form, Form::Json);
        prop_assert_eq!(show(record), expected(&text, keep));
    }

    /// What is JSON for `serde_json` is JSON for us, and means the same; what is not, and not for us, stays text.
    #[test]
    fn what_is_almost_json_is_read_as_others_read_it(object in objects(), at: prop::sample::Index, byte in "[ -DF-df-~]") {
        let mut text = object.text();
        let at = at.index(text.len() + 1);
        if text.is_char_boundary(at) {
            text.insert_str(at, &byte);
        }
        let is_object = serde_json::from_str::<Map<String, Value>>(&text).is_ok();
        let (form, record) = record(text.as_bytes(), DROP);
        let trimmed = text.trim_end_matches([' ', '\t', '\r', '\n']);
        if is_object && looks_like_json(trimmed) {
            prop_assert_eq!(form, Form::Json);
            prop_assert_eq!(show(record), expected(&text, false));
        } else if form != Form::Json {
            prop_assert_eq!(show(record), format!("{} {{}}", json!(trimmed)));
        }
    }

    /// Whatever is written, there is a record for it, and no request is larger than it may be.
    #[test]
    fn any_bytes_become_a_record(text: Vec<u8>, object in objects(), most in 1_000usize..2_000) {
        let object = object.text();
        for text in [&text[..], object.as_bytes()] {
            let mut builder = builder(KEEP, most);
            while builder.items() < 10 && builder.push(&entry(text), &mut Attributes::default(), 8).is_ok() {}
            prop_assert!(builder.items() > 0);
            let items = builder.items() as usize;
            let bytes = builder.into_bytes();
            prop_assert!(bytes.len() <= most);
            prop_assert_eq!(records(ExportLogsServiceRequest::decode(&bytes[..]).unwrap()).len(), items);
        }
    }
}
