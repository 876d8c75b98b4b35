//! Input and statements made to do damage: numbers too large, lists assigned while they are walked.

use serde_json::{Value, json};
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
