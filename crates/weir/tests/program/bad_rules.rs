//! Rules that are hostile or broken: refused with their place when they are checked or taken up, harmless when they run.

use std::fmt::Write;

use tempfile::TempDir;
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::grpc::{Grpc, OK, frame};
use weir_testkit::metrics::Scrape;
use weir_testkit::signals::{document, encoded};
use weir_testkit::sink::closed_port;
use weir_testkit::{eventually, in_time};

use crate::process::{Weir, command};

/// What is wrong with a text, for an item like `span`.
type Bad = (&'static str, fn(&str) -> String, &'static str);

/// A text that opens and closes something as often as fits into the longest one that is read: a thousand times and more.
fn nested(open: &str, inner: &str, close: &str) -> String {
    let depth = 31_000 / (open.len() + close.len());
    [open.repeat(depth), inner.to_owned(), close.repeat(depth)].concat()
}

/// A condition that looks for a pattern.
fn matching(item: &str, pattern: &str) -> String {
    format!("IsMatch({item}.attributes[\"text\"], \"{pattern}\")")
}

/// Conditions, each with what its refusal says.
const CONDITIONS: [Bad; 13] = [
    ("brackets", |item| nested("(", &format!("{item}.attributes == nil"), ")"), "nested deeper than 48 levels"),
    ("brackets that stay open", |_| "(".repeat(9_000), "`)` is missing for this bracket"),
    ("calls", |item| nested("Len(", &format!("{item}.attributes"), ")") + " == 1", "nested deeper than 48 levels"),
    ("keys", |item| nested(&format!("{item}.attributes["), "1", "]") + " == 1", "nested deeper than 48 levels"),
    ("lists", |item| format!("{item}.attributes == {}", nested("[", "1", "]")), "nested deeper than 48 levels"),
    ("maps", |item| format!("{item}.attributes == {}", nested("{\"a\": ", "1", "}")), "nested deeper than 48 levels"),
    ("sums", |item| format!("{item}.attributes == {}", nested("1 + (", "1", ")")), "nested deeper than 48 levels"),
    ("a text without end", |item| matching(item, &"a".repeat(40 << 10)), "text longer than 32768 bytes"),
    ("a pattern without end", |item| matching(item, &"a".repeat((16 << 10) + 1)), "pattern longer than 16384 bytes"),
    ("groups", |item| matching(item, &["(".repeat(1_000), ")".repeat(1_000)].concat()), "invalid pattern"),
    ("groups that stay open", |item| matching(item, &"(a".repeat(1_000)), "invalid pattern"),
    ("counts of counts", |item| matching(item, "(((a{1,99}){1,99}){1,99}){1,99}"), "invalid pattern"),
    ("a count without end", |item| matching(item, "a{999999999}"), "invalid pattern"),
];

/// Each signal, and what the context of its items is called.
const ITEMS: [(Signal, &str); 3] = [(Signal::Traces, "span"), (Signal::Metrics, "datapoint"), (Signal::Logs, "log")];

/// Each condition in a filter and in a transform of its own.
fn bad_rules(item: &str) -> String {
    let (mut filters, mut transforms) = ("  filter:\n".to_owned(), "  transform:\n".to_owned());
    for (_, condition, _) in CONDITIONS {
        let condition = condition(item);
        writeln!(filters, "  - conditions: ['{condition}']").unwrap();
        writeln!(transforms, "  - statements: ['set({item}.attributes[\"a\"], 1) where {condition}']").unwrap();
    }
    filters + &transforms
}

/// Field and message of an error.
type Finding = (String, String);

/// What is not among the findings and should be.
fn missing(findings: &[Finding]) -> Vec<String> {
    let expected = CONDITIONS.iter().enumerate().flat_map(|(number, (what, _, reason))| {
        let fields =
            [format!("spec.filter[{number}].conditions[0]"), format!("spec.transform[{number}].statements[0]")];
        fields.map(|field| (field, *what, *reason))
    });
    let is_told = |field: &str, reason: &str| findings.iter().any(|(at, why)| at == field && why.contains(reason));
    let missing = expected.filter(|(field, _, reason)| !is_told(field, reason));
    missing.map(|(field, what, reason)| format!("{field} ({what}): {reason}")).collect()
}

#[tokio::test]
async fn check_refuses_every_bad_rule() {
    for (signal, item) in ITEMS {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("pipelines.yaml");
        std::fs::write(&file, document(signal, "a", closed_port().await, &bad_rules(item))).unwrap();
        let output = in_time("weir check", command(&["check", file.to_str().unwrap()]).output()).await.unwrap();
        assert_eq!(output.status.code(), Some(1), "{signal:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.lines().all(|line| line.len() < 1_000), "no line repeats a text that long: {text}");
        let pipeline = format!(": error: {}/a: OTTLSpecInvalid: ", signal.name());
        let errors = text.lines().filter_map(|line| line.split_once(&pipeline)?.1.split_once(": "));
        let findings: Vec<_> = errors.map(|(field, message)| (field.to_owned(), message.to_owned())).collect();
        assert_eq!(missing(&findings), [""; 0], "{signal:?}: {text}");
    }
}

/// Sends a request of this signal to the program; it is taken and arrives.
async fn still_delivers(weir: &Weir, signal: Signal, backend: &Backend) {
    let before = backend.captured().len();
    let request = encoded(signal, &[("service.name", "shop")], 1..3);
    let answer = Grpc::connect(weir.grpc).await.call(signal.grpc_method(), None, frame(&request, false)).await;
    assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
    eventually("it arrives", async || backend.captured().len() > before).await;
    assert_eq!(backend.captured()[before].plain, request, "{signal:?}");
}

#[tokio::test]
async fn a_running_gateway_takes_up_no_bad_rule() {
    let backends = [Backend::start().await, Backend::start().await, Backend::start().await];
    let configuration = |rules: &dyn Fn(Signal) -> String| -> String {
        let documents = Signal::ALL.iter().zip(&backends);
        documents.map(|(signal, backend)| document(*signal, "a", backend.address, &rules(*signal))).collect()
    };
    let weir = Weir::start(&configuration(&|_| String::new()), &[]).await;
    for (signal, item) in ITEMS {
        let seen = weir.logs().len();
        weir.edit(&configuration(&|other| if other == signal { bad_rules(item) } else { String::new() }));
        let new = || weir.logs().split_off(seen);
        let refused = "the new configuration is not used; the last good one goes on";
        eventually("it is refused", async || new().iter().any(|line| line["message"] == refused)).await;
        let logged = new();
        let errors = logged.iter().filter(|line| line["level"] == "ERROR" && line["field"].is_string());
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let findings: Vec<_> = errors.map(|line| (text(&line["field"]), text(&line["message"]))).collect();
        assert_eq!(missing(&findings), [""; 0], "{signal:?}: {logged:#?}");
        assert_eq!(Scrape::of(weir.metrics).await.get("weir_config_last_reload_successful"), 0.0);
        for (signal, backend) in Signal::ALL.into_iter().zip(&backends) {
            still_delivers(&weir, signal, backend).await;
        }
    }
}
