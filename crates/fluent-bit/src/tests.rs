//! Literal records, and what holds for any text.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::{Value, json};
use weir_plan::{Date, DateFormat, Sink};

use super::*;

/// As it is by default under Kyma, but for `keep_original_body`.
pub(crate) fn settings(format: FluentBitFormat) -> FluentBit {
    let date = Date { key: Some("date".to_owned()), format: DateFormat::Iso8601 };
    let (to, kyma) = (Sink::Http, true);
    FluentBit { to, format, date, kyma, dedot: false, labels: true, annotations: false, keep_original_body: false }
}

fn attribute((key, value): (&str, &str)) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// Facts about the pod.
pub(crate) const POD: [(&str, &str); 10] = [
    ("k8s.namespace.name", "shop"),
    ("k8s.pod.name", "cart-0"),
    ("k8s.pod.uid", "0f3b9f6e-5a7c-4a6e-9b1d-2a3c4d5e6f70"),
    ("k8s.container.name", "app"),
    ("k8s.container.restart_count", "0"),
    ("k8s.cluster.name", "garden"),
    ("k8s.node.name", "node-1"),
    ("container.image.name", "example.com/cart:1.2"),
    ("k8s.pod.label.app.kubernetes.io/name", "cart"),
    ("k8s.pod.annotation.example.com/owner", "team \"blue\""),
];

const TIME: u64 = 1_795_435_200_123_456_789;

/// A request as the tailer and enrichment make it.
pub(crate) fn request(resource: &[(&str, &str)], texts: &[&str]) -> Vec<u8> {
    let record = |text: &&str| LogRecord {
        time_unix_nano: TIME,
        observed_time_unix_nano: TIME + 1,
        body: attribute(("", text)).value,
        attributes: vec![attribute(("log.iostream", "stderr"))],
        ..LogRecord::default()
    };
    let scope = ScopeLogs { log_records: texts.iter().map(record).collect(), ..ScopeLogs::default() };
    let attributes = resource.iter().copied().map(attribute).collect();
    let resource = Some(Resource { attributes, ..Resource::default() });
    let logs = ResourceLogs { resource, scope_logs: vec![scope], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }.encode_to_vec()
}

/// FLUENT-1 is asked every time.
fn made(settings: &FluentBit, requests: &[Vec<u8>]) -> Vec<u8> {
    let size = measure(settings, requests);
    let body = write(settings, requests, size);
    assert_eq!(body.len(), size.bytes);
    body
}

fn record(settings: &FluentBit, text: &str) -> Value {
    let body = made(settings, &[request(&POD, &[text])]);
    let records: Vec<Value> = serde_json::from_slice(&body).unwrap();
    let [record] = records.try_into().unwrap();
    record
}

#[test]
fn a_line_of_text() {
    let text = "cart is \"empty\"\t ";
    let body = made(&settings(FluentBitFormat::Json), &[request(&POD, &[text])]);
    let expected = concat!(
        r#"[{"date":"2026-11-23T12:00:00.123456Z","time":"2026-11-23T12:00:00.123456789Z","stream":"stderr","_p":"F","#,
        r#""log":"cart is \"empty\"\t ","cluster_identifier":"garden","kubernetes":{"pod_name":"cart-0","#,
        r#""namespace_name":"shop","pod_id":"0f3b9f6e-5a7c-4a6e-9b1d-2a3c4d5e6f70","host":"node-1","#,
        r#""container_name":"app","container_image":"example.com/cart:1.2","#,
        r#""labels":{"app.kubernetes.io/name":"cart"},"app_name":"cart"},"#,
        r#""@timestamp":"2026-11-23T12:00:00.123456789Z"}]"#,
    );
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn members_of_an_object_are_at_the_root() {
    let text = r#"{"level":"warn","user":{"id":7,"big":12345678901234567890},"list":[1.50,null]}"#;
    let parsed = record(&settings(FluentBitFormat::Json), text);
    assert_eq!(parsed["user"], json!({"id": 7, "big": 12_345_678_901_234_567_890_u64}));
    assert_eq!((&parsed["level"], &parsed["list"], parsed.get("log")), (&json!("warn"), &json!([1.5, null]), None));
    let kept = record(&FluentBit { keep_original_body: true, ..settings(FluentBitFormat::Json) }, text);
    assert_eq!((&kept["log"], &kept["level"]), (&json!(text), &json!("warn")));
    // As it was written.
    let body = made(&settings(FluentBitFormat::Json), &[request(&POD, &[text])]);
    assert!(String::from_utf8(body).unwrap().contains(r#","list":[1.50,null],"#));
}

/// The date gives place to a field of its name, so that all names of a record are different.
#[test]
fn a_date_may_have_any_name() {
    let texts = ["a line", r#"{"x":1}"#, r#"{"kubernetes":1}"#];
    // A file that says neither when nor where a line was written.
    let plain = |text: &&str| LogRecord { body: attribute(("", text)).value, ..LogRecord::default() };
    let scope = ScopeLogs { log_records: texts.iter().map(plain).collect(), ..ScopeLogs::default() };
    let plain = ResourceLogs { scope_logs: vec![scope], ..ResourceLogs::default() };
    let requests = [
        request(&POD, &texts),
        request(&[], &texts),
        ExportLogsServiceRequest { resource_logs: vec![plain] }.encode_to_vec(),
    ];
    for name in ["time", "stream", "_p", "log", "cluster_identifier", "kubernetes", "@timestamp", "date"] {
        for kyma in [false, true] {
            let date = Date { key: Some(name.to_owned()), format: DateFormat::Epoch };
            for request in &requests {
                let body = made(
                    &FluentBit { date: date.clone(), kyma, ..settings(FluentBitFormat::Json) },
                    std::slice::from_ref(request),
                );
                let records: Vec<Value> = serde_json::from_slice(&body).unwrap();
                assert!(records.iter().all(|record| record.get(name).is_some()), "{name}: {records:?}");
                let named = String::from_utf8(body).unwrap().matches(&format!("\"{name}\":")).count();
                assert_eq!(named, texts.len(), "{name}: {records:?}");
            }
        }
    }
}

#[test]
fn members_go_before_our_own_fields_but_for_kubernetes() {
    let text =
        r#" {"time":1,"stream":2,"_p":3,"l\u006fg":4,"date":5,"@timestamp":6,"cluster_identifier":7,"kubernetes":8} "#;
    let body = made(&settings(FluentBitFormat::Json), &[request(&POD, &[text])]);
    let record = String::from_utf8(body).unwrap();
    assert!(record.starts_with(concat!(
        r#"[{"time":1,"stream":2,"_p":3,"l\u006fg":4,"date":5,"@timestamp":6,"cluster_identifier":7,"#,
        r#""kubernetes":{"pod_name":"#
    )));
    assert!(record.ends_with(r#""app_name":"cart"}}]"#), "{record}");
}

#[test]
fn of_equal_names_the_last_one_counts() {
    let many: String = (0..100).map(|number| format!(r#""k{}":{number},"#, number % 60)).collect();
    let record = record(&settings(FluentBitFormat::Json), &format!("{{{many}\"a\":1,\"\\u0061\":2}}"));
    assert_eq!((&record["a"], &record["k39"], &record["k40"]), (&json!(2), &json!(99), &json!(40)));
    let body = made(&settings(FluentBitFormat::Json), &[request(&POD, &[r#"{"a":1,"a":2,"\u0061":3}"#])]);
    assert!(String::from_utf8(body).unwrap().contains(r#""_p":"F","\u0061":3,"cluster"#));
}

#[test]
fn what_is_not_json_stays_text() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(64), "]".repeat(64));
    let many: String = (0..=MOST_MEMBERS).map(|number| format!(r#""k{number}":1,"#)).collect();
    let many = format!("{{{}}}", many.trim_end_matches(','));
    for text in [
        "{",
        "{}}",
        r#"{"a":01}"#,
        r#"{"a":1.}"#,
        r#"{"a":+1}"#,
        r#"{"a":1e309}"#,
        r#"{"a":-6E88994}"#,
        r#"{"a":1,}"#,
        r#"{"a":tru}"#,
        r#"{a:1}"#,
        "{\"a\":\"\u{1}\"}",
        r#"{"a":"\ud800"}"#,
        r#"{"a":"\udc00\ud800"}"#,
        r#"{"a":"\x"}"#,
        r#"{"a":1} {}"#,
        "{\"a\":\n1}",
        "[1]",
        &deep,
        &many,
    ] {
        let record = record(&settings(FluentBitFormat::Json), text);
        assert_eq!((&record["log"], record.get("a")), (&json!(text), None), "{text}");
    }
    let fine = record(&settings(FluentBitFormat::Json), r#"{"a":"\ud83d\ude00","b":-0.5e+3,"c":{},"d":[]}"#);
    assert_eq!((&fine["a"], &fine["b"], &fine["c"]), (&json!("😀"), &json!(-500.0), &json!({})));
}

#[test]
fn what_a_pipeline_wants_of_the_pod() {
    let wanted = FluentBit { dedot: true, annotations: true, ..settings(FluentBitFormat::Json) };
    let kubernetes = &record(&wanted, "a")["kubernetes"];
    assert_eq!(kubernetes["labels"], json!({"app_kubernetes_io_name": "cart"}));
    assert_eq!(kubernetes["annotations"], json!({"example_com_owner": "team \"blue\""}));
    assert_eq!(kubernetes["app_name"], "cart");
    let wanted = FluentBit { labels: false, ..settings(FluentBitFormat::Json) };
    let kubernetes = &record(&wanted, "a")["kubernetes"];
    assert_eq!(
        (kubernetes.get("labels"), kubernetes.get("app_name"), kubernetes.get("annotations")),
        (None, None, None)
    );
    // Keys that become the same.
    let pod =
        [("k8s.pod.label.a.b", "1"), ("k8s.pod.label.a/b", "2"), ("k8s.pod.label.app", "x"), ("k8s.cluster.uid", "u")];
    let body = made(&FluentBit { dedot: true, ..settings(FluentBitFormat::Json) }, &[request(&pod, &["a"])]);
    let body = String::from_utf8(body).unwrap();
    let expected = r#""cluster_identifier":"u","kubernetes":{"labels":{"a_b":"2","app":"x"},"app_name":"x"}"#;
    assert!(body.contains(expected), "{body}");
}

#[test]
fn a_plain_file_says_neither_time_nor_stream() {
    let log = LogRecord { observed_time_unix_nano: TIME, body: attribute(("", "x")).value, ..LogRecord::default() };
    let scope = ScopeLogs { log_records: vec![log], ..ScopeLogs::default() };
    let logs = ResourceLogs { scope_logs: vec![scope], ..ResourceLogs::default() };
    let request = ExportLogsServiceRequest { resource_logs: vec![logs] }.encode_to_vec();
    let body = made(&settings(FluentBitFormat::JsonLines), &[request]);
    let expected = "{\"date\":\"2026-11-23T12:00:00.123456Z\",\"log\":\"x\",\"kubernetes\":{}}\n";
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn frames_of_json() {
    let requests = [request(&POD, &["a", r#"{"b":1}"#]), request(&POD[..2], &["c"])];
    let bodies = [FluentBitFormat::Json, FluentBitFormat::JsonLines, FluentBitFormat::JsonStream].map(|format| {
        let body = made(&settings(format), &requests);
        assert_eq!(measure(&settings(format), &requests).records, 3);
        String::from_utf8(body).unwrap()
    });
    let [array, lines, stream] = &bodies;
    let records: Vec<Value> = serde_json::from_str(array).unwrap();
    assert_eq!((&records[0]["log"], &records[1]["b"], &records[2]["log"]), (&json!("a"), &json!(1), &json!("c")));
    assert_eq!(records[0]["kubernetes"], records[1]["kubernetes"]);
    assert_eq!(records[2]["kubernetes"], json!({"pod_name": "cart-0", "namespace_name": "shop"}));
    let of_lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.ends_with("}\n") && stream.contains("}{") && !stream.contains('\n'));
    let of_stream: Vec<Value> = serde_json::Deserializer::from_str(stream).into_iter().map(Result::unwrap).collect();
    assert!(of_lines == records && of_stream == records);
}

#[test]
fn nothing_is_an_empty_array() {
    assert_eq!(made(&settings(FluentBitFormat::Json), &[]), b"[]");
}

/// Every byte, as the specification of MessagePack and Fluent Bit's events have it.
#[test]
fn an_event_of_messagepack() {
    let body = made(
        &settings(FluentBitFormat::MsgPack),
        &[request(&POD[1..2], &[r#"{"a":[1,-2,0.5,true,null,"\n"],"b":200}"#])],
    );
    let mut expected = b"\x92\x92\xd7\x00\x6b\x04\x2a\xc0\x07\x5b\xcd\x15\x80\xdf\0\0\0\x07".to_vec();
    expected.extend(b"\xa4time\xbe2026-11-23T12:00:00.123456789Z\xa6stream\xa6stderr\xa2_p\xa1F");
    expected
        .extend(b"\xa1a\xdd\0\0\0\x06\x01\xd3\xff\xff\xff\xff\xff\xff\xff\xfe\xcb\x3f\xe0\0\0\0\0\0\0\xc3\xc0\xa1\n");
    expected.extend(b"\xa1b\xcf\0\0\0\0\0\0\0\xc8\xaakubernetes\xdf\0\0\0\x01\xa8pod_name\xa6cart-0");
    expected.extend(b"\xaa@timestamp\xbe2026-11-23T12:00:00.123456789Z");
    assert_eq!(body, expected);
}

#[test]
fn a_message_of_gelf() {
    let text = r#"{"msg":"hi","level":"Err","host":7,"id":1,"a b":{"c":{"d":true},"e":null},"f":[{"g":"h"}],"i":2}"#;
    let body = made(&settings(FluentBitFormat::Gelf), &[request(&POD[..2], &[text, "plain"])]);
    let body = String::from_utf8(body).unwrap();
    let lines: Vec<&str> = body.lines().collect();
    let expected = concat!(
        r#"{"version":"1.1","host":"cart-0","short_message":"hi","timestamp":1795435200.123456,"#,
        r#""_time":"2026-11-23T12:00:00.123456789Z","_stream":"stderr","__p":"F","_msg":"hi","level":3,"_host":7,"#,
        r#""__id":1,"_a_b_c_d":"true","_f":"[{\"g\":\"h\"}]","_i":2,"#,
        r#""_kubernetes_pod_name":"cart-0","_kubernetes_namespace_name":"shop","#,
        r#""__timestamp":"2026-11-23T12:00:00.123456789Z"}"#,
    );
    assert_eq!(lines[0], expected);
    let plain: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!((&plain["short_message"], &plain["_log"]), (&json!("plain"), &json!("plain")));
    let own = r#"{"short_message":"s","full_message":"f","host":"h","timestamp":1.5,"level":"9"}"#;
    let body = made(&settings(FluentBitFormat::Gelf), &[request(&[], &[own])]);
    let own: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!([&own["short_message"], &own["full_message"], &own["host"]], [&json!("s"), &json!("f"), &json!("h")]);
    assert_eq!((&own["timestamp"], &own["_level"], own.get("level")), (&json!(1.5), &json!("9"), None));
}

/// A message of GELF, all of whose names are different.
fn gelf(line: &[u8]) -> serde_json::Map<String, Value> {
    struct Names(usize);
    impl json::Visitor for Names {
        fn open(&mut self, _: json::Nested, _: usize) {}
        fn close(&mut self, _: json::Nested, _: usize) {}
        fn scalar(&mut self, _: json::Scalar<'_>) {}
        fn key(&mut self, _: &str) {
            self.0 += 1;
        }
    }
    let mut names = Names(0);
    json::Lexer::new(std::str::from_utf8(line).unwrap()).value(&mut names, 0).unwrap();
    let message: serde_json::Map<String, Value> = serde_json::from_slice(line).unwrap();
    assert_eq!(names.0, message.len(), "{}", String::from_utf8_lossy(line));
    message
}

/// Objects become flat, and names lose characters: whatever becomes the same, the last one counts.
#[test]
fn names_that_become_the_same_in_gelf() {
    let pod = [
        ("k8s.pod.name", "cart-0"),
        ("k8s.pod.label.a/b", "first"),
        ("k8s.pod.label.a_b", "last"),
        ("k8s.pod.label.c/d", "one"),
    ];
    let message = |text: &str| {
        let body = made(&settings(FluentBitFormat::Gelf), &[request(&pod, &["plain", text, text])]);
        let lines: Vec<_> = body.split_inclusive(|byte| *byte == b'\n').map(gelf).collect();
        assert_eq!((lines.len(), &lines[1]), (3, &lines[2]));
        assert_eq!((&lines[0]["_kubernetes_labels_a_b"], &lines[0]["_log"]), (&json!("last"), &json!("plain")));
        lines[1].clone()
    };
    let first = message(r#"{"a_b":1,"a":{"b":2},"c":{"d":3,"d":4},"e":{"f":{"g":5}},"e f":{"g":6},"e_f_g":null}"#);
    assert_eq!((&first["_a_b"], &first["_c_d"], &first["_e_f_g"]), (&json!(2), &json!(4), &json!(6)));
    let own = message(r#"{"id":1,"_id":2,"stream":{"x":1},"strea\u006d":3,"p p":1,"p_p":[2],"_timestamp":7}"#);
    assert_eq!((&own["__id"], &own["_p_p"], &own["_stream"]), (&json!(2), &json!("[2]"), &json!(3)));
    assert_eq!(own["__timestamp"], "2026-11-23T12:00:00.123456789Z");
    let pod = message(r#"{"kubernetes_pod_name":"x","kubernetes_labels":{"c_d":"y"},"kubernetes_x":1}"#);
    assert_eq!((&pod["_kubernetes_pod_name"], &pod["_kubernetes_labels_c_d"]), (&json!("cart-0"), &json!("one")));
    assert_eq!(pod["_kubernetes_x"], 1);
}

/// An object that there is no room for among the fields of a message stays together.
#[test]
fn a_message_of_gelf_has_so_many_fields() {
    let object = |name: &str| {
        let members: Vec<_> = (0..1000).map(|number| format!("\"{number}\":{number}")).collect();
        format!("\"{name}\":{{{}}}", members.join(","))
    };
    let text = format!("{{{},{},{},\"d\":1}}", object("a"), object("b"), object("c"));
    let message = gelf(&made(&settings(FluentBitFormat::Gelf), &[request(&POD, &[&text])]));
    assert_eq!((&message["_a_999"], &message["_b_999"], &message["_d"]), (&json!(999), &json!(999), &json!(1)));
    assert!(message["_c"].as_str().is_some_and(|text| text.starts_with("{\"0\":0,")));
}

#[test]
fn an_object_that_gelf_would_multiply_stays_together() {
    let members: Vec<String> = (0..20_000).map(|number| format!("\"{number}\":0")).collect();
    let many = format!("{{\"{}\":{{{}}}}}", "x".repeat(64 << 10), members.join(","));
    let deep = format!("{{{}\"a\":1{}}}", "\"name\":{".repeat(20), "}".repeat(20));
    for text in [&many, &deep] {
        let body = made(&settings(FluentBitFormat::Gelf), &[request(&POD[..2], &[text])]);
        assert!(body.len() < 5 * text.len() + 4096, "{} bytes of {}", body.len(), text.len());
        let message: serde_json::Map<String, Value> = serde_json::from_slice(&body).unwrap();
        assert!(message.len() < 20, "{} fields", message.len());
        let is_apart = message.iter().any(|(name, value)| name.ends_with("_name_a") && value == 1);
        assert_eq!(is_apart, text == &deep);
    }
}

/// Texts of all kinds, many of them JSON or nearly so.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from)
    ];
    let key = || prop_oneof![any::<String>(), "(log|time|kubernetes|level|host|date|a)"];
    let value = leaf.prop_recursive(4, 20, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect()))
        ]
    });
    let damage = (value.prop_map(|value| value.to_string()), any::<prop::sample::Index>(), any::<char>());
    let damaged = damage.prop_map(|(text, at, letter)| {
        let at = at.index(text.len() + 1);
        let at = (0..=at).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0);
        format!("{}{letter}{}", &text[..at], &text[at..])
    });
    prop::collection::vec(
        prop_oneof![2 => Just(json!({"a": {"b": [1, {}]}}).to_string()), 4 => damaged, 1 => any::<String>()],
        0..4,
    )
}

proptest! {
    /// FLUENT-1 and FLUENT-3: what serde_json takes for an object is merged and has the same values.
    #[test]
    fn bodies_are_valid_and_complete(texts in texts(), keep_original_body: bool, dedot: bool) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let requests = [request(&POD, &texts)];
        for format in [FluentBitFormat::Json, FluentBitFormat::JsonLines, FluentBitFormat::JsonStream, FluentBitFormat::MsgPack, FluentBitFormat::Gelf] {
            let settings = FluentBit { keep_original_body, dedot, ..settings(format) };
            let body = made(&settings, &requests);
            match format {
                FluentBitFormat::MsgPack => prop_assert_eq!(msgpack_objects(&body), texts.len()),
                FluentBitFormat::Gelf => {
                    let lines = body.split_inclusive(|byte| *byte == b'\n');
                    prop_assert_eq!(lines.map(gelf).count(), texts.len());
                }
                FluentBitFormat::JsonLines => {
                    let lines = body.split_inclusive(|byte| *byte == b'\n');
                    let records: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
                    prop_assert_eq!(records.len(), texts.len());
                }
                _ => {
                    let records = serde_json::Deserializer::from_slice(&body).into_iter::<Value>();
                    let records: Vec<Value> = records.map(Result::unwrap).collect();
                    let records = if format == FluentBitFormat::Json { records[0].as_array().unwrap().clone() } else { records };
                    prop_assert_eq!(records.len(), texts.len());
                    for (record, text) in records.iter().zip(&texts) {
                        check(record, text)?;
                    }
                }
            }
        }
    }
}

fn check(record: &Value, text: &str) -> Result<(), TestCaseError> {
    let object = serde_json::from_str::<Value>(text).ok();
    // A number that is no double is one for us.
    match object.as_ref().and_then(Value::as_object).filter(|_| !text.contains('\n')) {
        Some(members) => {
            for (key, value) in members.iter().filter(|(key, _)| *key != "kubernetes") {
                prop_assert_eq!(&record[key], value);
            }
        }
        None if object.is_none() && !text.trim_ascii().starts_with('{') => prop_assert_eq!(&record["log"], text),
        None => {}
    }
    Ok(())
}

/// How many values there are, each read to its end.
fn msgpack_objects(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while !bytes.is_empty() {
        bytes = skip(bytes);
        count += 1;
    }
    count
}

fn skip(bytes: &[u8]) -> &[u8] {
    let number = |width: usize| bytes[1..=width].iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    let text = |header: usize, length: usize| {
        std::str::from_utf8(&bytes[header..header + length]).unwrap();
        &bytes[header + length..]
    };
    let values = |header: usize, count: usize| (0..count).fold(&bytes[header..], |rest, _| skip(rest));
    match bytes[0] {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0x80 => &bytes[1..],
        0xcb | 0xcf | 0xd3 => &bytes[9..],
        0xd7 => &bytes[10..],
        0x92 => values(1, 2),
        first @ 0xa0..=0xbf => text(1, usize::from(first & 31)),
        0xd9 => text(2, number(1)),
        0xda => text(3, number(2)),
        0xdb => text(5, number(4)),
        0xdd => values(5, number(4)),
        0xdf => values(5, 2 * number(4)),
        other => panic!("{other:x}"),
    }
}
