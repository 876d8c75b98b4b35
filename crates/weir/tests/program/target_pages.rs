//! The page of a scrape target as the target sends it: for people who may see telemetry, on the admin port and in a terminal.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use weir_testkit::backend::Backend;
use weir_testkit::http::{self, JSON, exchange};
use weir_testkit::{eventually, in_time};

use crate::process::{Weir, command};
use crate::scraping::scraping;

const PAGE: &str = "# HELP a <script>alert(1)</script>\na{password=\"s3cr3t\"} 1\na{n=\"2\"} 2\n";
const PROTOBUF: &str = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
const LOGGED: &str = "somebody looks at the page of a target";

/// A target on a loopback address; ends with the value.
struct Target {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Target {
    /// Answers each request with what `script` makes of its head, as long as `gate` lets requests through.
    async fn behind(gate: &Arc<Semaphore>, script: fn(&str) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, gate) = (listener.local_addr().unwrap(), Arc::clone(gate));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let gate = Arc::clone(&gate);
                // Whoever is not served goes away.
                tokio::spawn(async move { drop(serve(stream, &gate, script).await) });
            }
        });
        Self { address, task }
    }

    async fn start(script: fn(&str) -> String) -> Self {
        Self::behind(&Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)), script).await
    }

    fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

async fn serve(stream: TcpStream, gate: &Semaphore, script: fn(&str) -> String) -> std::io::Result<()> {
    let (mut stream, mut head) = (BufReader::new(stream), String::new());
    while stream.read_line(&mut head).await? > 2 {}
    let _passes = gate.acquire().await;
    stream.write_all(script(&head).as_bytes()).await?;
    stream.shutdown().await
}

fn answer(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// In protobuf for those who like it.
fn page(head: &str) -> String {
    if head.contains("vnd.google.protobuf") {
        return answer("200 OK", PROTOBUF, "");
    }
    answer("200 OK", "text/plain; version=0.0.4", PAGE)
}

fn long_page(_: &str) -> String {
    let lines: String = (100_000..120_000).map(|number| format!("a{{n=\"{number}\"}} 1\n")).collect();
    answer("200 OK", "text/plain", &lines)
}

fn denied(_: &str) -> String {
    answer("403 Forbidden", "text/html", "<h1>RBAC: access denied</h1>")
}

fn admin(weir: &Weir) -> SocketAddr {
    weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap()
}

async fn get(port: SocketAddr, path: &str) -> (u16, Value) {
    let answer = http::get(port, path).await;
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

async fn post(port: SocketAddr, document: &Value) -> (u16, Value) {
    let answer = http::post_to(port, "/api/pages", JSON, document.to_string().as_bytes()).await;
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// The id of a target.
async fn id(port: SocketAddr, target: &Target) -> u64 {
    let (_, page) = get(port, "/targets").await;
    let found = page["targets"].as_array().unwrap().iter().find(|shown| shown["url"] == target.url());
    found.unwrap()["id"].as_u64().unwrap()
}

/// Has a page read; its number.
async fn open(port: SocketAddr, wish: &Value) -> u64 {
    let (status, opened) = post(port, wish).await;
    assert_eq!(status, 200, "{opened}");
    opened["page"].as_u64().unwrap()
}

/// The page with this number, once it is there.
async fn see(port: SocketAddr, number: u64) -> Value {
    let mut page = Value::Null;
    eventually("the page is read", async || {
        let (status, found) = get(port, &format!("/api/pages/{number}")).await;
        assert_eq!(status, 200, "{found}");
        page = found;
        page["state"] == "read"
    })
    .await;
    page
}

/// `weir targets --page` with these arguments: its exit code, and what it printed.
async fn told(of: &[&str], page: &[&str]) -> (Option<i32>, String, String) {
    let arguments = [&["targets"], of, &["--page"], page].concat();
    let output = in_time("weir targets --page", command(&arguments).output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The target is scraped in protobuf, and a person gets text.
#[tokio::test]
async fn whoever_may_see_telemetry_sees_the_page_of_a_target_and_the_log_says_so() {
    let (target, backend) = (Target::start(page).await, Backend::start().await);
    let wants = "annotations: {weir.dev/native-histograms: \"true\", ";
    let manifest = scraping("shop", backend.address, &[target.url()]).replace("annotations: {", wants);
    let weir = Weir::start(&manifest, &[]).await;
    let port = admin(&weir);
    let id = id(port, &target).await;
    assert_eq!(get(port, "/api/pages/1").await.0, 410, "nothing is read before somebody asks");
    let page = see(port, open(port, &json!({"target": id})).await).await;
    assert_eq!(page["text"], PAGE.replace("s3cr3t", "[redacted]"));
    let of = ["target", "url", "status", "content_type", "bytes", "left_out_bytes", "error"].map(|of| page[of].clone());
    let expected = json!([id, target.url(), 200, "text/plain; version=0.0.4", PAGE.len(), 0, null]);
    assert_eq!(Value::from(of.to_vec()), expected);
    assert!(page["took_seconds"].as_f64().is_some_and(|took| took > 0.0), "{page}");
    let looks = || weir.all_logged(LOGGED);
    eventually("the log says so", async || looks().len() == 1).await;
    for (redact, seen) in [(true, 1), (false, 2), (false, 2)] {
        let page = see(port, open(port, &json!({"target": id, "redact": redact})).await).await;
        assert_eq!(page["text"] == PAGE, !redact, "{page}");
        eventually("the log says so once", async || looks().len() == seen).await;
    }
    let last = looks().pop().unwrap();
    let said = (&last["from"], &last["target_url"], &last["redact"]);
    assert_eq!(said, (&json!("127.0.0.1"), &json!(target.url()), &json!(false)), "{last}");
    assert_eq!(get(weir.metrics, "/api/pages/1").await.0, 404, "not for everybody");
    assert_eq!(post(weir.metrics, &json!({"target": id})).await.0, 405, "not for everybody");
}

#[tokio::test]
async fn what_a_target_answers_is_shown_when_it_is_no_page_and_nothing_else_is_fetched() {
    let (long, denies, backend) = (Target::start(long_page).await, Target::start(denied).await, Backend::start().await);
    let other = Target::start(page).await;
    let nobody = "http://127.0.0.1:1/metrics".to_owned();
    let weir = Weir::start(&scraping("shop", backend.address, &[long.url(), denies.url(), nobody]), &[]).await;
    let port = admin(&weir);
    let page = see(port, open(port, &json!({"target": id(port, &denies).await})).await).await;
    assert_eq!((&page["status"], &page["text"]), (&json!(403), &json!("<h1>RBAC: access denied</h1>")));
    assert!(page["error"].as_str().unwrap().starts_with("answered 403 Forbidden"), "{page}");
    let page = see(port, open(port, &json!({"target": id(port, &long).await})).await).await;
    let (text, bytes) = (page["text"].as_str().unwrap(), page["bytes"].as_u64().unwrap());
    assert!(text.len() <= 256 << 10 && text.ends_with("\"} 1\n"), "{} bytes", text.len());
    assert_eq!((text.len() as u64 + page["left_out_bytes"].as_u64().unwrap(), bytes), (bytes, 16 * 20_000));
    let (_, targets) = get(port, "/targets").await;
    let unreachable =
        targets["targets"].as_array().unwrap().iter().find(|of| of["url"] == "http://127.0.0.1:1/metrics");
    let page = see(port, open(port, &json!({"target": unreachable.unwrap()["id"]})).await).await;
    assert_eq!((&page["status"], &page["text"]), (&Value::Null, &json!("")));
    assert!(page["error"].as_str().unwrap().contains("nothing listens"), "{page}");
    for (wish, status) in [
        (json!({"target": 1000}), 404),
        (json!({"target": other.url()}), 400),
        (json!({"target": 1, "url": other.url()}), 400),
        (json!({}), 400),
    ] {
        let (answered, refused) = post(port, &wish).await;
        assert!(answered == status && refused["error"].is_string(), "{wish}: {answered} {refused}");
    }
    assert_eq!(get(port, "/api/pages").await.0, 400);
    assert_eq!(get(port, "/api/pages/x").await.0, 410);
}

#[tokio::test]
async fn one_page_is_read_at_a_time() {
    let gate = Arc::new(Semaphore::new(0));
    let (held, other, backend) = (Target::behind(&gate, page).await, Target::start(page).await, Backend::start().await);
    let weir = Weir::start(&scraping("shop", backend.address, &[held.url(), other.url()]), &[]).await;
    let port = admin(&weir);
    let (of_held, of_other) = (json!({"target": id(port, &held).await}), json!({"target": id(port, &other).await}));
    let first = open(port, &of_held).await;
    assert_eq!(get(port, &format!("/api/pages/{first}")).await.1["state"], "reading");
    let (status, refused) = post(port, &of_other).await;
    assert!(status == 503 && refused["error"].as_str().unwrap().contains("one is read at a time"), "{refused}");
    gate.add_permits(1000);
    assert_eq!(see(port, first).await["status"], 200);
    let second = open(port, &of_other).await;
    assert_eq!(see(port, second).await["status"], 200);
    assert_eq!(get(port, &format!("/api/pages/{first}")).await.0, 410, "one page is kept");
}

#[tokio::test]
async fn a_terminal_shows_the_page_of_a_target() {
    let (target, denies, backend) = (Target::start(page).await, Target::start(denied).await, Backend::start().await);
    let tokens = TempDir::new().unwrap();
    let token = tokens.path().join("token");
    std::fs::write(&token, "abc\n").unwrap();
    let token = token.to_str().unwrap();
    let manifest = scraping("shop", backend.address, &[target.url(), denies.url()]);
    let weir = Weir::start(&manifest, &["--admin-token-file", token]).await;
    let port = admin(&weir);
    assert_eq!(post(port, &json!({"target": 1})).await.0, 401);
    let asked = "GET /api/pages/1 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer abc\r\n\r\n";
    assert_eq!(exchange(port, asked.as_bytes()).await.status, 410, "and that had none read");
    let url = format!("http://{port}");
    let of = [url.as_str(), "--token-file", token];
    let (code, out, said) = told(&of, &[&target.url()]).await;
    assert_eq!((code, out), (Some(0), PAGE.replace("s3cr3t", "[redacted]")), "{said}");
    assert!(said.starts_with(&format!("{}: 200, text/plain; version=0.0.4, ", target.url())), "{said}");
    let part = target.address.to_string();
    assert_eq!(told(&of, &[&part, "--no-redact"]).await.1, PAGE);
    let (code, out, _) = told(&of, &[&part, "--format", "json"]).await;
    let page: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, page["status"].as_u64(), &page["redact"]), (Some(0), Some(200), &json!(true)));
    let (code, out, said) = told(&of, &[&denies.url()]).await;
    assert!(code == Some(1) && out.contains("RBAC") && said.contains("\nanswered 403 Forbidden"), "{out}{said}");
    let (code, _, said) = told(&of, &["127.0.0.1"]).await;
    assert!(code == Some(1) && said.contains("2 targets have \"127.0.0.1\" in their addresses"), "{said}");
}
