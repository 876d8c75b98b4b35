//! Container logs to an HTTP server, as Fluent Bit sends them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_plan::Signal;
use weir_testkit::backend::{Backend, Captured, Say};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::manifests::{from_secret, secret, with_spec};
use weir_testkit::metrics::Scrape;
use weir_testkit::tls::Authority;

use crate::process::Weir;

pub(crate) const UID: &str = "0f3b9f6e-5a7c-4a6e-9b1d-2a3c4d5e6f70";

/// What is known of the pod.
pub(crate) fn pod() -> String {
    let metadata = json!({
        "name": "cart-0", "namespace": "shop", "uid": UID,
        "labels": {"app.kubernetes.io/name": "cart", "team": "blue"}, "annotations": {"example.com/owner": "blue"},
    });
    let spec = json!({"nodeName": "node-1", "containers": [{"name": "app", "image": "example.com/cart:1.2"}]});
    let cluster =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "c0ffee"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    format!("---\n{pod}\n---\n{cluster}\n")
}

/// A backend that is away until it is said to be up.
pub(crate) async fn backend_that_comes_back() -> (Backend, Arc<AtomicBool>) {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let answer = move |_, _: &Captured| if up.load(Ordering::SeqCst) { Say::Ok } else { Say::Code(503, "", None) };
    (Backend::scripted(answer).await, is_up)
}

/// A node with the logs of a pod.
pub(crate) struct Node(TempDir);

impl Node {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn pods(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    pub(crate) fn container(&self) -> PathBuf {
        self.0.path().join(format!("shop_cart-0_{UID}/app"))
    }

    pub(crate) fn writes(&self, texts: &[&str]) {
        fs::create_dir_all(self.container()).unwrap();
        let lines: String =
            texts.iter().map(|text| format!("2026-11-23T12:00:00.123456789Z stdout F {text}\n")).collect();
        let file = self.container().join("0.log");
        OpenOptions::new().create(true).append(true).open(file).unwrap().write_all(lines.as_bytes()).unwrap();
    }
}

/// A pipeline to this server, with more fields of `output.http`.
fn pipeline(server: SocketAddr, fields: Value, runtime: &Value) -> String {
    let mut http = json!({
        "host": {"value": server.ip().to_string()}, "port": server.port().to_string(), "tls": {"insecure": true},
    });
    let Value::Object(fields) = fields else { panic!("an object") };
    http.as_object_mut().unwrap().extend(fields);
    let spec = json!({"input": {"runtime": runtime}, "output": {"http": http}});
    with_spec(Signal::Logs, "http", &spec) + &pod()
}

pub(crate) async fn start(node: &Node, manifests: &str, further: &[&str]) -> Weir {
    Weir::start(manifests, &[&["--pod-logs", node.pods()], further].concat()).await
}

pub(crate) fn records(request: &Captured) -> Vec<Value> {
    serde_json::from_slice(&request.plain).unwrap()
}

/// What the server took.
fn logs(server: &Backend) -> Vec<String> {
    let taken = server.captured().into_iter().filter(|request| request.taken);
    let mut logs: Vec<String> =
        taken.flat_map(|request| records(&request)).map(|record| record["log"].as_str().unwrap().to_owned()).collect();
    logs.sort();
    logs
}

fn kubernetes() -> Value {
    json!({
        "pod_name": "cart-0", "namespace_name": "shop", "pod_id": UID, "host": "node-1", "container_name": "app",
        "container_image": "example.com/cart:1.2", "labels": {"app.kubernetes.io/name": "cart", "team": "blue"},
        "app_name": "cart",
    })
}

#[tokio::test]
async fn a_line_becomes_a_record_and_any_success_takes_it() {
    let (node, server) = (Node::new(), Backend::scripted(|_, _| Say::Raw("text/html", b"<p>thanks</p>")).await);
    let weir = start(&node, &pipeline(server.address, json!({"uri": "/in?a=b"}), &json!({})), &[]).await;
    node.writes(&["cart is \"empty\" ", r#"{"level":"warn","user":{"id":7},"time":"now"}"#]);
    eventually("both are delivered", async || Scrape::of(weir.metrics).await.books("http").delivered == 2).await;
    let requests = server.captured();
    let records: Vec<Value> = requests.iter().flat_map(records).collect();
    let mut kubernetes = kubernetes();
    kubernetes["labels"] = json!({"app.kubernetes.io/name": "cart", "team": "blue"});
    let time = "2026-11-23T12:00:00.123456789Z";
    let line = json!({
        "date": "2026-11-23T12:00:00.123456Z", "time": time, "@timestamp": time, "stream": "stdout", "_p": "F",
        "log": "cart is \"empty\" ", "cluster_identifier": "c0ffee", "kubernetes": kubernetes,
    });
    let object = json!({
        "date": "2026-11-23T12:00:00.123456Z", "time": "now", "@timestamp": time, "stream": "stdout", "_p": "F",
        "log": r#"{"level":"warn","user":{"id":7},"time":"now"}"#, "level": "warn", "user": {"id": 7},
        "cluster_identifier": "c0ffee", "kubernetes": kubernetes,
    });
    assert_eq!(records, [line, object]);
    assert_eq!(requests[0].path, "/in");
    assert_eq!(requests[0].headers["content-type"], "application/json");
}

#[tokio::test]
async fn every_format_arrives_compressed_or_not() {
    for (format, content_type) in [
        ("json", "application/json"),
        ("json_lines", "application/x-ndjson"),
        ("json_stream", "application/json"),
        ("msgpack", "application/msgpack"),
        ("gelf", "application/json"),
    ] {
        for compress in ["none", "gzip"] {
            let (node, server) = (Node::new(), Backend::start().await);
            node.writes(&["one", r#"{"a":{"b":[1,-2,0.5,true,null,"x"]}}"#]);
            let fields = json!({"format": format, "compress": compress, "user": {"value": "weir"}});
            let runtime = json!({"keepOriginalBody": false, "dropLabels": true, "keepAnnotations": true});
            let weir = start(&node, &pipeline(server.address, fields, &runtime), &[]).await;
            eventually("both arrive", async || Scrape::of(weir.metrics).await.books("http").delivered == 2).await;
            let requests = server.captured();
            let request = &requests[0];
            assert_eq!(request.headers["content-type"], content_type);
            assert_eq!(request.headers.contains_key("content-encoding"), compress == "gzip");
            assert_eq!(request.headers["authorization"], "Basic d2Vpcjo=");
            let [first, second] = decode(format, &request.plain).try_into().unwrap();
            if format == "gelf" {
                assert_eq!((&first["short_message"], &first["host"]), (&json!("one"), &json!("node-1")));
                assert_eq!(second["_a_b"], r#"[1,-2,0.5,true,null,"x"]"#);
                assert_eq!(second["_kubernetes_annotations_example.com_owner"], "blue");
                continue;
            }
            assert_eq!((&first["log"], first.get("a")), (&json!("one"), None), "{format}");
            assert_eq!((second.get("log"), &second["a"]["b"]), (None, &json!([1, -2, 0.5, true, null, "x"])));
            let kubernetes = &second["kubernetes"];
            assert_eq!(kubernetes["annotations"], json!({"example.com/owner": "blue"}));
            assert_eq!((kubernetes.get("labels"), kubernetes.get("app_name")), (None, None));
        }
    }
}

fn decode(format: &str, body: &[u8]) -> Vec<Value> {
    match format {
        "json" => serde_json::from_slice(body).unwrap(),
        "msgpack" => {
            let mut events = Vec::new();
            let mut rest = body;
            while !rest.is_empty() {
                let event = msgpack(&mut rest);
                assert_eq!(event[0], json!([1_795_435_200.123_456_7, {}]));
                events.push(event[1].clone());
            }
            events
        }
        _ => serde_json::Deserializer::from_slice(body).into_iter().map(Result::unwrap).collect(),
    }
}

/// Reads one value, of the types that are in events.
fn msgpack(rest: &mut &[u8]) -> Value {
    let first = number(rest, 1);
    match first {
        0..0x80 => json!(first),
        0x80..0x90 => map(rest, first & 15),
        0x90..0xa0 => (0..first & 15).map(|_| msgpack(rest)).collect(),
        0xa0..0xc0 => text(rest, first & 31),
        0xc0 => Value::Null,
        0xc2 | 0xc3 => json!(first == 0xc3),
        0xcb => json!(f64::from_bits(number(rest, 8))),
        0xcf => json!(number(rest, 8)),
        0xd3 => json!(number(rest, 8).cast_signed()),
        // An extension of type 0 with eight bytes: seconds and nanoseconds.
        0xd7 => {
            assert_eq!(number(rest, 1), 0);
            json!(number(rest, 4) as f64 + number(rest, 4) as f64 / 1e9)
        }
        0xd9..=0xdb => {
            let length = number(rest, 1 << (first - 0xd9));
            text(rest, length)
        }
        0xdd => (0..number(rest, 4)).map(|_| msgpack(rest)).collect(),
        0xdf => {
            let length = number(rest, 4);
            map(rest, length)
        }
        other => panic!("{other:x}"),
    }
}

fn number(rest: &mut &[u8], width: usize) -> u64 {
    let (bytes, after) = rest.split_at(width);
    *rest = after;
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn text(rest: &mut &[u8], length: u64) -> Value {
    let (bytes, after) = rest.split_at(usize::try_from(length).unwrap());
    *rest = after;
    json!(std::str::from_utf8(bytes).unwrap())
}

fn map(rest: &mut &[u8], length: u64) -> Value {
    let entry = |_| (msgpack(rest).as_str().unwrap().to_owned(), msgpack(rest));
    Value::Object((0..length).map(entry).collect())
}

/// 503 asks to try again, 413 for less at once, and 400 is about the one record that the server cannot read.
#[tokio::test]
async fn answers_decide_what_becomes_of_records() {
    let server = Backend::scripted(|number, request| {
        let records = records(request);
        let is_poison = |record: &Value| record["log"] == "poison";
        match number {
            0 => Say::Code(503, "", None),
            _ if records.len() > 3 => Say::Code(413, "too much", None),
            _ if records.iter().any(is_poison) => Say::Code(400, "bad record", None),
            _ => Say::Ok,
        }
    })
    .await;
    let node = Node::new();
    node.writes(&["a", "b", "c", "d", "e", "poison", "f", "g"]);
    let weir = start(&node, &pipeline(server.address, json!({}), &json!({})), &[]).await;
    eventually("all but one are taken", async || logs(&server) == ["a", "b", "c", "d", "e", "f", "g"]).await;
    // It is given up only while the server takes others.
    eventually("one is given up", async || {
        node.writes(&["later"]);
        Scrape::of(weir.metrics).await.books("http").rejected == 1
    })
    .await;
    let books = Scrape::settled(weir.metrics, "http").await;
    assert_eq!((books.rejected, books.delivered), (1, books.accepted - 1));
}

/// A pod may say so much of itself that its records are far larger than in OTLP. Then less is sent at once.
#[tokio::test]
async fn records_that_grow_beyond_the_room_are_sent_a_few_at_a_time() {
    let (node, server) = (Node::new(), Backend::start().await);
    let texts: Vec<String> = (0..3000).map(|number| format!("line {number:04}")).collect();
    node.writes(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let manifests = pipeline(server.address, json!({"compress": "gzip"}), &json!({"keepAnnotations": true}));
    let manifests =
        manifests.replace("\"example.com/owner\":\"blue\"", &format!("\"large\":\"{}\"", "x".repeat(12 << 10)));
    let weir = start(&node, &manifests, &["--memory", "64MiB"]).await;
    eventually("all arrive", async || Scrape::of(weir.metrics).await.books("http").delivered == 3000).await;
    assert_eq!(logs(&server), texts);
    assert!(weir.logged("backend found a request too large; sending less at once").is_some());
}

/// What the pod was is known of its last lines, also when neither it nor its files are there any more.
#[tokio::test]
async fn what_waits_on_disk_survives_a_kill_and_the_end_of_its_pod() {
    let (server, is_up) = backend_that_comes_back().await;
    let (node, dir) = (Node::new(), DataDir::new());
    node.writes(&["last words", "of a pod"]);
    let manifests = pipeline(server.address, json!({"dedot": true}), &json!({}));
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = start(&node, &manifests, &arguments).await;
    eventually("they are on disk", async || {
        Scrape::of(weir.metrics).await.get("weir_pipeline_backlog_items{pipeline=\"http\",signal=\"logs\"}") == 2.0
    })
    .await;
    weir.kill().await;
    fs::remove_dir_all(node.container().parent().unwrap()).unwrap();
    is_up.store(true, Ordering::SeqCst);
    let without_pod = &manifests[..manifests.find("---\n{").unwrap()];
    let weir = start(&node, without_pod, &arguments).await;
    eventually("they arrive", async || logs(&server).len() >= 2).await;
    Scrape::settled(weir.metrics, "http").await;
    assert_eq!(logs(&server), ["last words", "of a pod"]);
    let taken = server.captured().into_iter().find(|request| request.taken).unwrap();
    let mut kubernetes = kubernetes();
    kubernetes["labels"] = json!({"app_kubernetes_io_name": "cart", "team": "blue"});
    assert_eq!(records(&taken)[0]["kubernetes"], kubernetes);
    dir.becomes_empty().await;
}

#[tokio::test]
async fn certificates_are_used_and_verified() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = Backend::with_tls(authority.server(Some(&authority))).await;
    let identity = authority.identity();
    let of = |authority: &Authority, skip: bool| {
        let tls = json!({
            "insecure": false, "insecureSkipVerify": skip, "ca": {"value": authority.pem()},
            "cert": {"value": identity.cert_pem}, "key": from_secret("client", "key"),
        });
        let secret = secret("client", &json!({"key": identity.key_pem.reveal()}));
        let manifests = pipeline(server.address, json!({"tls": tls}), &json!({}));
        manifests.replacen("---\n{", &format!("---\n{secret}{{"), 1)
    };
    let node = Node::new();
    node.writes(&["secret"]);
    let weir = start(&node, &of(&stranger, false), &[]).await;
    let message = "backend cannot be reached; data is kept and tried again";
    eventually("the server is not trusted", async || weir.logged(message).is_some()).await;
    assert_eq!(server.captured().len(), 0);
    weir.edit(&of(&authority, false));
    eventually("it is trusted", async || logs(&server) == ["secret"]).await;
    weir.edit(&of(&stranger, true));
    eventually("the new configuration is used", async || weir.all_logged("configuration reloaded").len() == 2).await;
    node.writes(&["more"]);
    eventually("anybody is trusted", async || logs(&server) == ["more", "secret"]).await;
}
