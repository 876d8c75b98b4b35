//! What is seen of telemetry while it passes: taps, rules that are tried on it, who sends it; on the page and in a terminal.

mod audit;
mod edges;
mod explained;
mod on_disk;
mod private;
mod rehearsals;
mod searches;

use std::net::SocketAddr;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use weir_plan::Signal;
use weir_testkit::backend::{Backend, Captured, Say};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::http::{self, JSON, exchange};
use weir_testkit::sink::sink;
use weir_testkit::{eventually, in_time, payload, signals};

use crate::process::{BESIDE, Weir, command, manifest};

/// Removes the spans 2 and 4.
const FILTER: &str =
    "  filter:\n  - conditions:\n    - span.name == \"never\"\n    - IsMatch(span.name, \"/(2|4)$\")\n";

fn filtering(backend: SocketAddr) -> String {
    manifest("shop", backend).replace("---\n", &format!("{FILTER}---\n"))
}

fn admin(weir: &Weir) -> SocketAddr {
    weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap()
}

async fn get(port: SocketAddr, path: &str) -> (u16, Value) {
    let answer = http::get(port, path).await;
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

async fn post(port: SocketAddr, path: &str, document: &Value) -> (u16, Value) {
    let answer = http::post_to(port, path, JSON, document.to_string().as_bytes()).await;
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

async fn open(port: SocketAddr, wish: &Value) -> u64 {
    let (status, answer) = post(port, "/api/taps", wish).await;
    assert_eq!(status, 200, "{answer}");
    answer["tap"].as_u64().unwrap()
}

async fn read(port: SocketAddr, tap: u64) -> Value {
    let (status, page) = get(port, &format!("/api/taps/{tap}")).await;
    assert_eq!(status, 200, "{page}");
    page
}

/// Sends spans of these numbers in one request.
async fn send(weir: &Weir, first: u64, count: u64) {
    let answer = Grpc::connect(weir.grpc).await.export(&payload::encoded(first, count, 10)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
}

/// Names and ways of what a tap has caught.
fn caught(page: &Value) -> Vec<(String, String)> {
    let items = page["items"].as_array().unwrap().iter();
    let name = |item: &Value| item["item"]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"].clone();
    items.map(|item| (name(item).as_str().unwrap().into(), item["way"].as_str().unwrap().into())).collect()
}

fn named(number: u64, way: &str) -> (String, String) {
    (format!("GET /orders/{number}"), way.to_owned())
}

#[tokio::test]
async fn every_edge_shows_what_passes_there_and_what_becomes_of_it() {
    let sink = sink("{}").await;
    let weir = Weir::start(&filtering(sink.grpc), &[]).await;
    let port = admin(&weir);
    send(&weir, 9, 1).await;
    let on = |edge: &str| json!({"pipeline": "traces/shop", "edge": edge});
    let [arrives, removed, out] =
        [open(port, &on("in")).await, open(port, &on("removed")).await, open(port, &on("out")).await];
    send(&weir, 1, 4).await;
    let is_whole =
        |page: &Value, items: u64| page["matched"] == items && caught(page).iter().all(|(_, way)| way != "pending");
    eventually("all is seen", async || {
        let (arrives, removed, out) = (read(port, arrives).await, read(port, removed).await, read(port, out).await);
        is_whole(&arrives, 4) && is_whole(&removed, 2) && is_whole(&out, 2)
    })
    .await;
    let page = read(port, arrives).await;
    let expected = [named(1, "delivered"), named(2, "removed"), named(3, "delivered"), named(4, "removed")];
    assert_eq!(caught(&page), expected, "and not what came before");
    assert_eq!((&page["seen"], &page["matched"], &page["left_out"]), (&json!(4), &json!(4), &json!(0)));
    assert_eq!(caught(&read(port, out).await), [named(1, "delivered"), named(3, "delivered")]);
    let delivered = &page["items"][0];
    assert!(delivered["way_at"].as_str() >= delivered["at"].as_str(), "{delivered}");
    assert_eq!(page["ways"][0], json!([1, "delivered", delivered["way_at"]]));
    assert_eq!((&page["items"][1]["way_at"], &page["ways"][1]), (&Value::Null, &json!([2, "removed", null])));
    let page = read(port, removed).await;
    assert_eq!(caught(&page), [named(2, "removed"), named(4, "removed")]);
    let by = json!({"field": "filter[0].conditions[1]", "text": "IsMatch(span.name, \"/(2|4)$\")"});
    assert_eq!(page["items"][0]["removed_by"], by);
    assert_eq!((&page["seen"], &page["matched"], &page["left_out"]), (&json!(2), &json!(2), &json!(0)));
    let opened = weir.logged("a tap is open: somebody looks at telemetry").unwrap();
    assert_eq!(
        (&opened["tap"], &opened["from"], &opened["pipeline"]),
        (&json!(arrives), &json!("127.0.0.1"), &json!("traces/shop"))
    );
    // Nothing was counted twice.
    let (_, now) = get(port, "/api/now").await;
    let rule = &now["pipelines"][0]["rules"][1];
    assert_eq!((&rule["field"], &rule["filtered"]), (&by["field"], &json!(2)));
    let (_, later) = get(port, &format!("/api/taps/{arrives}?after=3")).await;
    assert_eq!(caught(&later), [named(4, "removed")]);
}

#[tokio::test]
async fn what_a_backend_does_not_take_is_pending() {
    let backend = Backend::scripted(|_, _| Say::Code(14, "try again", None)).await;
    let weir = Weir::start(&manifest("shop", backend.address), &[]).await;
    let port = admin(&weir);
    let tap = open(port, &json!({"pipeline": "*"})).await;
    send(&weir, 1, 1).await;
    eventually("it is seen", async || caught(&read(port, tap).await) == [named(1, "pending")]).await;
}

#[tokio::test]
async fn a_tap_finds_a_trace_a_text_and_what_a_condition_says() {
    let sink = sink("{}").await;
    let weir = Weir::start(&(manifest("shop", sink.grpc) + &manifest("other", sink.grpc)), &[]).await;
    let port = admin(&weir);
    let wish = |what: Value| {
        let mut wish = json!({"pipeline": "traces/shop"});
        wish.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        wish
    };
    let trace = open(port, &wish(json!({"text": format!("{:032x}", 77), "pipeline": "*"}))).await;
    let text = open(port, &wish(json!({"text": "/orders/78"}))).await;
    let condition = open(port, &wish(json!({"where": "span.name == \"GET /orders/79\""}))).await;
    let few = open(port, &wish(json!({"items_per_second": 1}))).await;
    send(&weir, 1, 100).await;
    eventually("all is seen", async || {
        let mut matched = Vec::new();
        for tap in [trace, text, condition, few] {
            matched.push(read(port, tap).await["matched"].as_u64().unwrap());
        }
        matched == [2, 1, 1, 1]
    })
    .await;
    let page = read(port, trace).await;
    let pipelines: Vec<_> = page["items"].as_array().unwrap().iter().map(|item| item["pipeline"].clone()).collect();
    assert_eq!(pipelines, ["traces/shop", "traces/other"], "{page}");
    assert_eq!(caught(&read(port, text).await)[0].0, "GET /orders/78");
    assert_eq!(caught(&read(port, condition).await)[0].0, "GET /orders/79");
    assert_eq!(caught(&read(port, condition).await).len(), 1);
    let page = read(port, few).await;
    assert_eq!((&page["seen"], &page["matched"], &page["left_out"]), (&json!(100), &json!(1), &json!(99)));
    // What the resource says of where an item comes from, such as its pod, is text like any other.
    let pod = open(port, &wish(json!({"text": "checkout-7d4f9"}))).await;
    send(&weir, 101, 1).await;
    let of_pod = signals::encoded(Signal::Traces, &[("k8s.pod.name", "checkout-7d4f9")], 102..103);
    assert_eq!(Grpc::connect(weir.grpc).await.export(&of_pod).await.code, OK);
    eventually("that of the pod is seen", async || read(port, pod).await["matched"] == 1).await;
    let page = read(port, pod).await;
    assert_eq!((caught(&page)[0].0.as_str(), &page["seen"]), ("GET /orders/102", &json!(2)));
}

#[tokio::test]
async fn a_tap_that_cannot_be_opened_says_why() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    for (wish, words) in [
        (json!({"pipeline": "traces/none"}), "there is no pipeline \"traces/none\""),
        (json!({"pipeline": "logs/*"}), "there is no pipeline of logs"),
        (json!({"pipeline": "traces/shop", "edge": "middle"}), "unknown variant `middle`"),
        (json!({"pipeline": "traces/shop", "where": "span.nam == 1"}), "span.nam"),
        (json!({"pipeline": "traces/shop", "seconds": 0}), "seconds must be 1 to 900"),
        (json!({"pipeline": "traces/shop", "speed": 1}), "unknown field `speed`"),
        (json!([]), "cannot read what the tap should show"),
    ] {
        let (status, answer) = post(port, "/api/taps", &wish).await;
        assert_eq!(status, 400, "{wish}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
    let wish = json!({"pipeline": "traces/shop"}).to_string();
    // A foreign site can send this without asking the browser.
    assert_eq!(http::post_to(port, "/api/taps", "text/plain", wish.as_bytes()).await.status, 415);
    assert_eq!(http::post_to(port, "/api/taps", JSON, &[b' '; 70_000]).await.status, 400);
    assert_eq!(http::post_to(weir.metrics, "/api/taps", JSON, wish.as_bytes()).await.status, 405, "not for everybody");
    assert_eq!(get(weir.metrics, "/api/taps/1").await.0, 404);
    let foreign = exchange(port, b"GET /api/taps HTTP/1.1\r\nhost: evil.example:55679\r\n\r\n").await;
    assert_eq!(foreign.status, 421, "a foreign site that has pointed its name here");
    for tap in 1..=8 {
        let tap = open(port, &json!({"pipeline": "traces/shop", "seconds": tap})).await;
        assert_eq!(read(port, tap).await["state"], "open");
    }
    let (status, answer) = post(port, "/api/taps", &json!({"pipeline": "traces/shop"})).await;
    assert!(status == 503 && answer["error"].as_str().unwrap().contains("8 taps"), "{answer}");
    let (_, list) = get(port, "/api/taps").await;
    let last = list["taps"][0]["tap"].as_u64().unwrap();
    let delete = format!("DELETE /api/taps/{last} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(exchange(port, delete.as_bytes()).await.status, 204);
    assert_eq!(read(port, last).await["state"], "ended", "what it caught can still be read");
    assert_eq!(get(port, "/api/taps/4711").await.0, 410);
    for (path, status) in [("/api/taps/abc", 404), (&*format!("/api/taps/{last}?after=abc"), 400)] {
        let (found, answer) = get(port, path).await;
        assert!(found == status && answer["error"].as_str().unwrap().contains("abc"), "{answer}");
    }
    eventually("one ends by itself", async || {
        let (_, list) = get(port, "/api/taps").await;
        list["taps"].as_array().unwrap().iter().filter(|tap| tap["state"] == "open").count() < 7
    })
    .await;
}

/// It has the right address, and cannot read the answer; but nothing is done for it, and nothing is logged.
#[tokio::test]
async fn a_picture_of_a_foreign_site_is_not_answered() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    for (path, site, status) in [
        ("/rejected", "cross-site", 403),
        ("/rejected", "same-site", 403),
        ("/dropped", "same-origin", 200),
        ("/dropped", "none", 200),
        ("/", "cross-site", 200),
    ] {
        let asked = format!("GET {path} HTTP/1.1\r\nhost: {port}\r\nsec-fetch-site: {site}\r\n\r\n");
        assert_eq!(exchange(port, asked.as_bytes()).await.status, status, "{path} for a page that is {site}");
    }
    let looked = || weir.all_logged("somebody looks at samples of what was given up").len();
    eventually("the log says who looked", async || looked() == 1).await;
    assert!(weir.logged("somebody looks at samples of what backends refused").is_none());
}

/// What a browser sends for another site has no token.
#[tokio::test]
async fn whoever_has_a_token_is_answered_whatever_the_site() {
    let sink = sink("{}").await;
    let directory = tempfile::TempDir::new().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "good\n").unwrap();
    let weir = Weir::start(&manifest("shop", sink.grpc), &["--admin-token-file", tokens.to_str().unwrap()]).await;
    let fields = "host: any.example\r\nsec-fetch-site: cross-site\r\nauthorization: Bearer good";
    let asked = format!("GET /rejected HTTP/1.1\r\n{fields}\r\n\r\n");
    assert_eq!(exchange(admin(&weir), asked.as_bytes()).await.status, 200);
}

fn names(items: &Value) -> Vec<(String, String)> {
    caught(&json!({ "items": items }))
}

/// Nobody has to look when it happens.
#[tokio::test]
async fn what_passed_is_seen_afterwards() {
    let refuses = |request: &Captured| payload::ids(&request.message).contains(&1);
    let script =
        move |_, request: &Captured| if refuses(request) { Say::Code(3, "no such field", None) } else { Say::Ok };
    let backend = Backend::scripted(script).await;
    let weir = Weir::start(&filtering(backend.address), &[]).await;
    let (port, path) = (admin(&weir), "/api/recent?pipeline=traces/shop");
    let (_, before) = get(port, path).await;
    assert_eq!((&before["count"], &before["removed"], &before["lost"]), (&json!(0), &json!([]), &json!([])));
    let first = async { send(&weir, 1, 1).await };
    let others = async {
        eventually("the first is kept", async || get(port, path).await.1["count"] == 1).await;
        eventually("it is lost, as others are taken", async || {
            send(&weir, 5, 1).await;
            get(port, path).await.1["lost"][0].is_object()
        })
        .await;
    };
    // Nobody else is first.
    tokio::join!(first, others);
    send(&weir, 2, 10).await;
    let (status, recent) = get(port, path).await;
    assert_eq!((status, names(&recent["lost"])), (200, vec![named(1, "rejected")]));
    assert!(names(&recent["items"]).contains(&named(1, "rejected")), "{recent}");
    let removed = names(&recent["removed"]);
    assert!(removed == [named(2, "removed")] || removed == [named(4, "removed")], "{removed:?}");
    let by = json!({"field": "filter[0].conditions[1]", "text": "IsMatch(span.name, \"/(2|4)$\")"});
    assert_eq!(recent["removed"][0]["removed_by"], by);
    let (_, lines, said) = told(port, &["tap", "traces/shop", "--recent"]).await;
    assert!(said.contains("are kept"), "{said}");
    assert_eq!(lines.matches("traces/shop rejected at ").count(), 1, "{lines}");
    assert!(lines.contains("removed by filter[0].conditions[1]"), "{lines}");
    for (text, found) in [("GET%20%2Forders%2F1", 1), (&format!("{:032x}", 1), 1), ("nowhere", 0)] {
        let (_, of) = get(port, &format!("{path}&text={text}")).await;
        assert_eq!((names(&of["lost"]).len(), names(&of["removed"]).len()), (found, 0), "{text}: {of}");
    }
    assert_eq!(get(port, &format!("{path}&text=%ff")).await.0, 400);
    let (code, lines, _) = told(port, &["why", "--item", "GET /orders/1", "-d", "1s"]).await;
    let line = lines.lines().find(|line| line.contains(": span \"GET /orders/1\"")).unwrap();
    assert!(code == Some(0) && line.contains("traces/shop rejected at "), "{lines}");
    let (code, _, error) = told(port, &["tap", "*", "--recent"]).await;
    assert!(code == Some(1) && error.contains("of one pipeline"), "{error}");
    for (path, status) in [("/api/recent?pipeline=traces/none", 404), ("/api/recent", 404), ("/api/recent?of=a", 400)] {
        assert_eq!(get(port, path).await.0, status, "{path}");
    }
    assert_eq!(get(weir.metrics, path).await.0, 404, "not for everybody");
}

/// A few of each second are enough to try rules on, and to count what attributes have.
#[tokio::test]
async fn rules_are_tried_on_recent_items_and_nobody_sees_them_unnoticed() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    send(&weir, 1, 10).await;
    let (_, recent) = get(port, "/api/recent?pipeline=traces/shop").await;
    let kept: Vec<_> = names(&recent["items"]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, [4, 3, 2, 1].map(|number| format!("GET /orders/{number}")));
    let looks = || weir.all_logged("somebody looks at recent items of telemetry").len();
    eventually("the log says so", async || looks() == 1).await;
    let statement = "set(span.attributes[\"note\"], \"password=s3cr3t\") where span.name == \"GET /orders/2\"";
    for (redact, seen) in [(true, 1), (false, 2), (false, 2)] {
        let rules = json!({"pipeline": "traces/shop", "redact": redact, "transform": [{"statements": [statement]}],
            "filter": [{"conditions": ["IsMatch(span.name, \"/1$\")"]}]});
        let (status, answer) = post(port, "/api/preview", &rules).await;
        assert_eq!((status, &answer["samples"], &answer["removed"]), (200, &json!(4), &json!(1)), "{answer}");
        assert_eq!(answer["changed"].to_string().contains("s3cr3t"), !redact, "{answer}");
        eventually("the log says so", async || looks() == seen).await;
    }
    let (status, attributes) = get(port, "/api/attributes?pipeline=traces/shop").await;
    assert_eq!((status, &attributes["items"]), (200, &json!(4)), "{attributes}");
    let service = attributes["attributes"].as_array().unwrap().iter().find(|of| of["key"] == "service.name").unwrap();
    let of = (&service["of"], &service["items"], &service["values"]);
    assert_eq!(of, (&json!("resource"), &json!(4), &json!(1)), "{attributes}");
    let (code, table, _) = told(port, &["tap", "traces/shop", "--attributes"]).await;
    assert!(code == Some(0) && table.starts_with("4 recent items, the oldest "), "{table}");
    let line: Vec<_> =
        table.lines().find(|line| line.starts_with("service.name ")).unwrap().split_whitespace().collect();
    assert_eq!(line[1..4], ["resource", "4", "1"], "{table}");
    let (_, document, _) = told(port, &["tap", "traces/shop", "--attributes", "--format", "json"]).await;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&document["items"], &document["bytes"]), (&attributes["items"], &attributes["bytes"]));
    assert_eq!(told(port, &["tap", "*", "--attributes"]).await.0, Some(1), "of one pipeline");
    assert_eq!(told(port, &["tap", "traces/shop", "--attributes", "--recent"]).await.0, Some(2), "one of them");
}

/// What looks like a secret is hidden in recent items, too.
#[tokio::test]
async fn recent_items_show_no_secret() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": format!("{:032x}", 1),
        "spanId": format!("{:016x}", 1), "name": "login", "attributes": [{"key": "password",
        "value": {"stringValue": "s3cr3t"}}]}]}]}]});
    let answer = http::post_to(weir.http, "/v1/traces", JSON, body.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200);
    for (query, shows) in [("", false), ("&redact=false", true), ("&redact=no", false)] {
        let (_, recent) = get(admin(&weir), &format!("/api/recent?pipeline=traces/shop{query}")).await;
        assert_eq!((&recent["count"], recent.to_string().contains("s3cr3t")), (&json!(1), shows), "{recent}");
    }
}

/// What was kept names the rules.
#[tokio::test]
async fn with_other_rules_what_passed_begins_anew() {
    let sink = sink("{}").await;
    let weir = Weir::start(&filtering(sink.grpc), &[]).await;
    let (port, path) = (admin(&weir), "/api/recent?pipeline=traces/shop");
    let kept = async || get(port, path).await.1["count"].clone();
    let changed = async |times: usize| {
        eventually("it is taken up", async || weir.all_logged("configuration reloaded").len() == times).await;
    };
    send(&weir, 1, 3).await;
    assert_eq!(kept().await, json!(3));
    let document = filtering(sink.grpc);
    weir.edit(&(document.clone() + &manifest("other", sink.grpc)));
    changed(1).await;
    assert_eq!(kept().await, json!(3), "its rules are the same");
    weir.edit(&document.replace("never", "ever"));
    changed(2).await;
    assert_eq!(kept().await, json!(0));
}

/// A request of 48 KB that is a document of some ten MB, by many clients at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_do_not_take_memory_together() {
    const MEMORY: u64 = 64 << 20;
    const CLIENTS: usize = 100;
    // Lists of empty values, in the body of a log record.
    let values = [0x0a, 4, 0x2a, 2, 0x0a, 0].repeat(7_900);
    let request = [5, 5, 2, 2, 1].into_iter().fold(values, |inner, number| field(number, &inner));
    let sample = json!({"signal": "logs", "otlp": STANDARD.encode(request)}).to_string();
    let weir = Weir::start(&manifest("shop", sink("{}").await.grpc), &["--memory", "64MiB"]).await;
    let port = admin(&weir);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let sample = sample.clone();
        // Whoever is too much is hung up on.
        clients.spawn(async move { exchange_or_none(port, &sample).await });
    }
    let answers = clients.join_all().await;
    assert!(answers.iter().flatten().any(|status| *status == 200), "{answers:?}");
    let peak = weir.peak();
    assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak");
}

/// A field of a protobuf message that holds bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = value.len();
    while length > 0x7f {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend_from_slice(value);
    field
}

/// The status of the answer, if there is one.
async fn exchange_or_none(port: SocketAddr, sample: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(port).await.ok()?;
    let head = format!(
        "POST /api/sample HTTP/1.1\r\nhost: localhost\r\ncontent-type: {JSON}\r\ncontent-length: {}\r\n\r\n{sample}",
        sample.len()
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.ok()?;
    line.split(' ').nth(1)?.parse().ok()
}

#[tokio::test]
async fn who_sends_most_and_what_runs() {
    let sink = sink("{}").await;
    let weir = Weir::start(&filtering(sink.grpc), &[]).await;
    let port = admin(&weir);
    send(&weir, 1, 5).await;
    let (_, none) = get(port, "/api/talkers").await;
    assert_eq!(none["talkers"], json!([]), "nobody has asked before");
    send(&weir, 6, 5).await;
    let (_, page) = get(port, "/api/talkers").await;
    let row = &page["talkers"][0];
    assert_eq!((&row["service"], &row["items"], &row["signal"]), (&json!("shop"), &json!(5), &json!("traces")));
    let (_, page) = get(port, "/api/configuration").await;
    let shop = &page["pipelines"][0];
    assert_eq!((&shop["pipeline"], &shop["inputs"]), (&json!("traces/shop"), &json!(["OTLP"])));
    assert_eq!(shop["rules"][1]["text"], "IsMatch(span.name, \"/(2|4)$\")");
    assert_eq!((&page["history"][0]["what"], &page["history"][0]["by"]), (&json!("started"), &json!("start")));
    weir.edit("kind: [");
    eventually("it is refused", async || get(port, "/api/configuration").await.1["history"][0]["what"] == "refused")
        .await;
    weir.edit(&manifest("shop", sink.grpc));
    eventually("it is taken up", async || get(port, "/api/configuration").await.1["history"][0]["what"] == "changed")
        .await;
    let (_, page) = get(port, "/api/configuration").await;
    assert_eq!((&page["history"][0]["changed"], &page["pipelines"][0]["rules"]), (&json!(["traces/shop"]), &json!([])));
    let file = &page["pipelines"][0]["changed_by"];
    assert!(file["file"].as_str().unwrap().ends_with(".yaml") && file["at"].as_str().unwrap().ends_with('Z'), "{file}");
    assert_eq!(page["history"][0]["changed_by"], json!({"traces/shop": file}));
    let kept: Vec<_> = page["history"].as_array().unwrap().iter().map(|of| of["is_kept"].as_bool().unwrap()).collect();
    assert_eq!((kept.first(), kept.iter().filter(|is| **is).count()), (Some(&true), 2), "the refused one is none");
    let at = |event: &Value| format!("/api/configuration/{}", event["number"]);
    let (_, newest) = get(port, &at(&page["history"][0])).await;
    let (_, first) = get(port, &at(page["history"].as_array().unwrap().last().unwrap())).await;
    assert_eq!(newest["pipelines"], page["pipelines"]);
    assert_eq!(first["pipelines"][0]["rules"][1]["text"], "IsMatch(span.name, \"/(2|4)$\")");
    assert_eq!(get(port, "/api/configuration/4711").await.0, 404);
    let brought: Vec<_> = page["history"].as_array().unwrap().iter().map(|event| &event["by"]).collect();
    assert_eq!(brought, ["files_changed", "files_changed", "start"]);
    weir.signal(rustix::process::Signal::HUP);
    let newest = async || get(port, "/api/configuration").await.1["history"][0].clone();
    eventually("it is read again", async || newest().await["by"] == "sighup").await;
    let newest = newest().await;
    assert_eq!(
        (&newest["what"], &newest["changed"], &newest["revision"]),
        (&json!("changed"), &json!([]), &Value::Null)
    );
    assert_eq!(newest["left_out"], json!({"added": 0, "changed": 0, "removed": 0}));
    let (code, lines, _) = told(port, &["why", "--configuration"]).await;
    assert!(code == Some(0) && lines.contains(", by sighup\n  no pipeline differs\n3: changed at "), "{lines}");
    assert!(
        lines.contains("\n  changed traces/shop\n  last changed in file ")
            && lines.contains(": traces/shop\n2: refused at "),
        "{lines}"
    );
    assert!(lines.contains(", by start\n"), "{lines}");
    let (_, history, _) = told(port, &["why", "--configuration", "--format", "json"]).await;
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!((history[0]["number"].as_u64(), &history[3]["added"]), (Some(4), &json!(["traces/shop"])), "{history}");
    assert_eq!(told(port, &["why", "--format", "json"]).await.0, Some(2), "of configurations alone");
}

/// A backend that takes all but the item with number 1.
async fn refusing_the_first() -> Backend {
    let refuses = |request: &Captured| payload::ids(&request.message).contains(&1);
    Backend::scripted(move |_, request| if refuses(request) { Say::Code(3, "no such field", None) } else { Say::Ok })
        .await
}

#[tokio::test]
async fn what_a_backend_refuses_becomes_a_sample_and_has_a_time() {
    let backend = refusing_the_first().await;
    let weir = Weir::start(&manifest("shop", backend.address), &[]).await;
    let port = admin(&weir);
    send(&weir, 1, 4).await;
    let mut next = 5;
    eventually("it is refused, as others are taken", async || {
        send(&weir, next, 1).await;
        next += 1;
        get(port, "/rejected").await.1[0]["code"].is_string()
    })
    .await;
    let (_, refused) = get(port, "/rejected").await;
    let ask = json!({"signal": refused[0]["signal"], "otlp": refused[0]["otlp"]});
    let (status, answer) = post(port, "/api/sample", &ask).await;
    let span = &answer["sample"]["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!((status, &span["name"]), (200, &json!("GET /orders/1")), "{answer}");
    lost_in_a_terminal(port, &refused[0], &answer["sample"]).await;
    for (wrong, words) in [
        (json!({"signal": "spans", "otlp": ""}), "no signal \"spans\""),
        (json!({"signal": "traces", "otlp": "?"}), "base64"),
        (json!({"signal": "traces", "otlp": "CgU="}), "was it cut"),
    ] {
        let (status, answer) = post(port, "/api/sample", &wrong).await;
        assert!(status == 400 && answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
    let loss = async || get(port, "/api/history").await.1["losses"][0].clone();
    eventually("it has a time", async || {
        let loss = loss().await;
        let [first, last] = ["first_at", "last_at"].map(|at| loss[at].as_str());
        let what = (&loss["pipeline"], &loss["way"], &loss["reason"], &loss["items"]);
        what == (&json!("traces/shop"), &json!("rejected"), &refused[0]["code"], &json!(1))
            && first.is_some()
            && first <= last
    })
    .await;
    let rate = async || loss().await["items_per_second"].as_f64();
    assert!(rate().await.is_some_and(|rate| (0.0..=2.0).contains(&rate)), "{:?}", rate().await);
    eventually("that is over", async || rate().await == Some(0.0)).await;
    let (_, why, _) = told(port, &["why", "traces/shop"]).await;
    let lost = format!("  {} 1\n", refused[0]["code"].as_str().unwrap());
    assert!(why.contains(&lost), "no more are lost now: {why}");
}

/// What `weir tap --lost` says of the only sample.
async fn lost_in_a_terminal(port: SocketAddr, refused: &Value, sample: &Value) {
    let words = ["code", "message"].map(|field| refused[field].as_str().unwrap());
    let expected = format!("traces/shop rejected for {} ({}): span \"GET /orders/1\"", words[0], words[1]);
    for pipeline in ["traces/shop", "traces/*", "*"] {
        let (code, lines, said) = told(port, &["tap", pipeline, "--lost", "-n", "1"]).await;
        assert!(
            code == Some(0) && lines.lines().count() == 1 && lines.contains(&expected),
            "{pipeline}: {lines}{said}"
        );
        assert!(said.contains("1 item shown, of 1 sample"), "{said}");
    }
    let (_, document, _) = told(port, &["tap", "traces/shop", "--lost", "--format", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&document).unwrap(), *sample);
    let (code, _, error) = told(port, &["tap", "traces/none", "--lost"]).await;
    assert!(code == Some(1) && error.contains("there is no pipeline \"traces/none\""), "{error}");
    assert_eq!(told(port, &["tap", "traces/shop", "--lost", "--recent"]).await.0, Some(2), "one of them");
}

/// What looks like a secret is hidden in samples of what was lost, too.
#[tokio::test]
async fn lost_items_show_no_secret_in_a_terminal() {
    let backend = refusing_the_first().await;
    let weir = Weir::start(&manifest("shop", backend.address), &[]).await;
    let port = admin(&weir);
    let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": format!("{:032x}", 1),
        "spanId": format!("{:016x}", 1), "name": "login", "attributes": [{"key": "password",
        "value": {"stringValue": "s3cr3t"}}]}]}]}]});
    let first = async { http::post_to(weir.http, "/v1/traces", JSON, body.to_string().as_bytes()).await };
    let others = async {
        let mut next = 2;
        eventually("it is refused, as others are taken", async || {
            send(&weir, next, 1).await;
            next += 1;
            get(port, "/rejected").await.1[0].is_object()
        })
        .await;
    };
    tokio::join!(first, others);
    for (flag, shows) in [("--full", false), ("--no-redact", true)] {
        for format in ["text", "json"] {
            let (_, lines, said) = told(port, &["tap", "traces/shop", "--lost", flag, "--format", format]).await;
            assert!(lines.contains("login") && lines.contains("s3cr3t") == shows, "{flag} {format}: {lines}{said}");
        }
    }
}

/// A command against the admin port: its exit code, and what it printed.
async fn told(port: SocketAddr, arguments: &[&str]) -> (Option<i32>, String, String) {
    let url = format!("http://{port}");
    let output = command(&[arguments, &["--url", &url]].concat()).output();
    let output = in_time("the command", output).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn the_same_is_told_in_a_terminal() {
    let sink = sink("{}").await;
    let weir = Weir::start(&filtering(sink.grpc), &[]).await;
    let port = admin(&weir);
    send(&weir, 1, 4).await;
    eventually("it is delivered", async || get(port, "/api/now").await.1["pipelines"][0]["books"]["delivered"] == 2)
        .await;
    let (code, top, _) = told(port, &["top", "--once", "--interval", "10ms", "--format", "json"]).await;
    let top: Value = serde_json::from_str(&top).unwrap();
    assert_eq!((code, &top[0]["pipeline"], &top[0]["lost"]), (Some(0), &json!("traces/shop"), &json!(0)));
    let (code, why, _) = told(port, &["why", "traces/shop"]).await;
    assert_eq!(code, Some(0));
    for line in ["traces/shop: 4 items came in", "filter[0].conditions[1] removed 2: IsMatch(span.name", "All is well."]
    {
        assert!(why.contains(line), "{why}");
    }
    let (code, _, error) = told(port, &["why", "traces/none"]).await;
    assert!(
        code == Some(1) && error.contains("there is no pipeline \"traces/none\"; there are: traces/shop"),
        "{error}"
    );
    let sends = async {
        eventually("all taps are open", async || {
            get(port, "/api/taps").await.1["taps"].as_array().is_some_and(|taps| taps.len() == 3)
        })
        .await;
        send(&weir, 1, 4).await;
    };
    let id = format!("{:032x}", 4);
    let (tap, why) = (["tap", "traces/shop", "-n", "1"], ["why", "--item", &id, "-d", "10s"]);
    let ((), tap, why) = tokio::join!(sends, told(port, &tap), told(port, &why));
    assert!(tap.0 == Some(0) && tap.1.lines().count() == 1 && tap.1.contains("span \"GET /orders/1\""), "{tap:?}");
    let line =
        "traces/shop removed by filter[0].conditions[1] (IsMatch(span.name, \"/(2|4)$\")): span \"GET /orders/4\"";
    assert!(why.0 == Some(0) && why.1.contains(line), "{why:?}");
    let (code, talkers, _) = told(port, &["top", "--talkers", "--once", "--interval", "10ms"]).await;
    assert!(code == Some(0) && talkers.contains("0 talkers"), "counted since somebody looks: {talkers}");
    send(&weir, 1, 4).await;
    let (_, talkers, _) = told(port, &["top", "--talkers", "--once", "--interval", "10ms", "--format", "json"]).await;
    let talkers: Value = serde_json::from_str(&talkers).unwrap();
    assert_eq!((&talkers[0]["service"], &talkers[0]["items"]), (&json!("shop"), &json!(4)), "{talkers}");
    assert!(talkers[0]["bytes_per_item"].as_u64() > Some(0), "{talkers}");
    let (code, _, error) = told("127.0.0.1:1".parse().unwrap(), &["top", "--once"]).await;
    assert!(code == Some(1) && error.contains("nothing answers at 127.0.0.1:1"), "{error}");
}

/// Each command names what it has itself.
#[tokio::test]
async fn what_was_not_looked_at_is_said_with_advice() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let sends = async {
        eventually("all taps are open", async || {
            get(port, "/api/taps").await.1["taps"].as_array().is_some_and(|taps| taps.len() == 3)
        })
        .await;
        send(&weir, 1, 150).await;
    };
    let (tap, why) = (["tap", "traces/shop", "-n", "1", "--rate", "1"], ["why", "--item", "GET /orders", "-d", "10s"]);
    let ((), tap, why) = tokio::join!(sends, told(port, &tap), told(port, &why));
    assert!(tap.2.contains("were not looked at") && tap.2.contains("raise --rate"), "{tap:?}");
    assert!(why.2.contains("were not looked at") && why.2.contains("name one pipeline"), "{why:?}");
    assert!(!why.2.contains("--rate"), "{why:?}");
}

/// An item that waits is told of again when its backend has it.
#[tokio::test]
async fn the_way_of_an_item_is_told_to_its_end() {
    let backend = Backend::holding().await;
    let weir = Weir::start(&manifest("shop", backend.address), &[]).await;
    let port = admin(&weir);
    let (id, url) = (format!("{:032x}", 1), format!("http://{port}"));
    let arguments = ["why", "--item", &id, "-d", "100s", "--url", &url];
    let mut why = command(&arguments).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(why.stdout.take().unwrap()).lines();
    eventually("both taps are open", async || {
        get(port, "/api/taps").await.1["taps"].as_array().is_some_and(|taps| taps.len() == 2)
    })
    .await;
    send(&weir, 1, 1).await;
    for way in ["pending", "delivered"] {
        let line = in_time(way, lines.next_line()).await.unwrap().unwrap();
        assert!(line.contains(&format!("traces/shop {way}: span \"GET /orders/1\"")), "{line}");
        backend.answer();
    }
}

/// A valid request whose parts are costly to find: fields of a later OTLP between its many small spans.
#[tokio::test]
async fn a_tap_of_a_hostile_request_keeps_nobody_waiting() {
    let sink = sink("{}").await;
    let weir = Weir::start(&(filtering(sink.grpc) + &manifest("other", sink.grpc)), &[]).await;
    let port = admin(&weir);
    let tap = open(port, &json!({"pipeline": "traces/shop", "where": "span.name == \"never\""})).await;
    let request = slow_to_take_apart(30_000, &[]);
    let answer = Grpc::connect(weir.grpc).await.export(&request).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    let page = read(port, tap).await;
    assert_eq!((&page["seen"], &page["matched"]), (&json!(30_000), &json!(0)));
    assert_ne!(page["left_out"], 0, "there is no time for all of them");
    send(&weir, 1, 1).await;
}

/// Spans without anything in them, with foreign fields between, so that each step from one to the next looks at all of them;
/// and another span.
fn slow_to_take_apart(spans: usize, last: &[u8]) -> Vec<u8> {
    let scope: Vec<u8> = (0..spans).flat_map(|_| [0x12, 0x00, 0xf8, 0x01, 0x01]).chain(last.iter().copied()).collect();
    let field = |tag: u8, body: Vec<u8>| {
        let (mut length, mut field) = (body.len(), vec![tag]);
        while length > 127 {
            field.push(u8::try_from(length & 127).unwrap() | 128);
            length >>= 7;
        }
        field.push(u8::try_from(length).unwrap());
        [field, body].concat()
    };
    field(0x0a, field(0x12, scope))
}

/// Looking for what a rule removed has an end.
#[tokio::test]
async fn recent_items_of_a_hostile_request_keep_nobody_waiting() {
    let sink = sink("{}").await;
    let weir = Weir::start(&filtering(sink.grpc), &[]).await;
    // The last one is called "/2".
    let request = slow_to_take_apart(100_000, &[0x12, 4, 0x2a, 2, b'/', b'2']);
    let client = Grpc::connect(weir.grpc).await;
    let answer = in_time("an answer", client.export(&request)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    let (_, now) = get(admin(&weir), "/api/now").await;
    let books = &now["pipelines"][0]["books"];
    assert_eq!((&books["accepted"], &books["filtered"]["filter"]), (&json!(100_001), &json!(1)), "{books}");
    send(&weir, 1, 1).await;
}

/// Statements that add points hide nothing of what filters remove; and what no rule removed says what did.
#[tokio::test]
async fn what_was_removed_is_never_shown_as_delivered() {
    let sink = sink("{}").await;
    let rules = "  transform:\n  - statements:\n    - copy_metric(name=\"twice\") where metric.name == \"kept\"\n  filter:\n  - conditions:\n    - metric.name == \"gone\"\n";
    let document = manifest("shop", sink.grpc).replace("TracePipeline", "MetricPipeline");
    let weir = Weir::start(&document.replace("---\n", &format!("{rules}---\n")), &[]).await;
    let metric = |name: &str| json!({"name": name, "gauge": {"dataPoints": [{"asInt": "1", "timeUnixNano": "1"}]}});
    let request = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric("kept"), metric("gone")]}]}]});
    let answer = http::post_to(weir.http, "/v1/metrics", JSON, request.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200);
    let (_, recent) = get(admin(&weir), "/api/recent?pipeline=metrics/shop").await;
    let name = |item: &Value| item["item"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["name"].clone();
    let ways = |list: &str| {
        let items = recent[list].as_array().unwrap().iter();
        items.map(|item| (name(item), item["removed_by"]["field"].clone())).collect::<Vec<_>>()
    };
    let field = "filter[0].conditions[0]";
    assert_eq!(ways("items"), [(json!("gone"), json!(field)), (json!("kept"), Value::Null)], "{recent}");
    assert_eq!(ways("removed"), [(json!("gone"), json!(field))], "{recent}");
}

/// What a condition may take is paid for before it is compiled.
#[tokio::test]
async fn a_condition_that_takes_more_memory_than_there_is_opens_no_tap() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &["--memory", "32MiB"]).await;
    let port = admin(&weir);
    let many = vec!["IsMatch(span.name, \"\\\\pL{9}\")"; 30].join(" or ");
    let (status, answer) = post(port, "/api/taps", &json!({"pipeline": "traces/shop", "where": many})).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("may take 31 MiB"), "{status} {answer}");
    let long = format!("span.name == \"{}\"", "x".repeat(1000));
    let (status, answer) = post(port, "/api/taps", &json!({"pipeline": "traces/shop", "where": long})).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("at most 1000"), "{status} {answer}");
    open(port, &json!({"pipeline": "traces/shop", "where": "IsMatch(span.name, \"a\")"})).await;
}

/// There is always another request to be taken apart.
#[tokio::test]
async fn a_tap_ends_in_time_while_it_has_much_to_look_at() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let tap = open(port, &json!({"pipeline": "traces/shop", "where": "span.name == \"never\"", "seconds": 2})).await;
    let client = Grpc::connect(weir.grpc).await;
    let sends = async {
        loop {
            assert_eq!(client.export(&payload::encoded(1, 500, 10)).await.code, OK);
        }
    };
    let ends = eventually("it ends", async || read(port, tap).await["state"] == "ended");
    tokio::select! {
        () = sends => {}
        () = ends => {}
    }
    assert!(read(port, tap).await["seen"].as_u64().unwrap() > 1000);
}
