//! An item is looked for among all that waits on the disk.

use rustix::process::Signal;
use weir_testkit::clients::{SPANS, request, send_singly};
use weir_testkit::data_dir::{DataDir, find, flip};
use weir_testkit::sink::{DOWN, closed_port, faults};

use super::*;

const PATH: &str = "/api/searches";

async fn begin(port: SocketAddr, wish: &Value) -> u64 {
    let (status, answer) = post(port, PATH, wish).await;
    assert_eq!(status, 200, "{answer}");
    answer["search"].as_u64().unwrap()
}

/// What a search has found, once it has ended.
async fn found(port: SocketAddr, number: u64) -> Value {
    let mut page = Value::Null;
    eventually("the search ends", async || {
        let (status, answer) = get(port, &format!("{PATH}/{number}")).await;
        assert_eq!(status, 200, "{answer}");
        page = answer;
        page["state"] == "ended"
    })
    .await;
    page
}

async fn search(port: SocketAddr, wish: &Value) -> Value {
    found(port, begin(port, wish).await).await
}

/// Names of what was found, and whose they are.
fn waiting(page: &Value) -> Vec<(String, String)> {
    let name = |item: &Value| {
        assert_eq!((&item["way"], &item["way_at"]), (&json!("stored"), &item["at"]), "{item}");
        item["pipeline"].as_str().unwrap().to_owned()
    };
    let pipelines: Vec<_> = page["items"].as_array().unwrap().iter().map(name).collect();
    caught(page).into_iter().map(|(name, _)| name).zip(pipelines).collect()
}

fn waits(number: u64, pipeline: &str) -> (String, String) {
    (format!("GET /orders/{number}"), pipeline.to_owned())
}

async fn pending(port: SocketAddr) -> [Value; 2] {
    let (_, now) = get(port, "/api/now").await;
    [0, 1].map(|at| json!([now["pipelines"][at]["backlog"]["items"], now["pipelines"][at]["books"]["pending"]]))
}

#[tokio::test]
async fn what_waits_on_the_disk_is_found_by_its_trace_and_its_text() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let manifests = manifest("shop", sink.grpc) + &manifest("other", sink.grpc);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = Weir::start(&manifests, &arguments).await;
    send(&weir, 1, 10).await;
    weir.kill().await;

    let weir = Weir::start(&manifests, &arguments).await;
    let port = admin(&weir);
    let owed = pending(port).await;
    assert_eq!(owed, [json!([10, 10]), json!([10, 10])]);
    for text in [format!("{:032x}", 9), format!("{:016x}", 9), "GET /orders/9".to_owned()] {
        let page = search(port, &json!({"pipeline": "*", "text": text})).await;
        let mut hits = waiting(&page);
        hits.sort();
        assert_eq!(hits, [waits(9, "traces/other"), waits(9, "traces/shop")], "{text}: {page}");
        let (_, now) = get(port, "/api/now").await;
        assert!(page["items"][0]["at"].as_str() < now["at"].as_str(), "{page}");
        assert!(page["stopped_by"].is_null() && page["goes_on_at"].is_null(), "{page}");
        assert!(page["records"].as_u64() >= Some(1) && page["bytes"].as_u64() > Some(500), "{page}");
    }
    let page = search(port, &json!({"pipeline": "traces/shop", "text": "GET /orders/9"})).await;
    assert_eq!(waiting(&page), [waits(9, "traces/shop")]);
    let page = search(port, &json!({"pipeline": "traces/*", "text": "nowhere"})).await;
    assert_eq!((&page["items"], &page["stopped_by"]), (&json!([]), &Value::Null));

    let said = || weir.all_logged("somebody searches telemetry that waits on the disk");
    eventually("the log says so each time", async || said().len() == 5).await;
    assert!(said().iter().all(|line| line["from"] == "127.0.0.1" && line["redact"] == true), "{:?}", said());
    assert!(said().iter().all(|line| !line.to_string().contains("orders")), "what is looked for may be telemetry");
    assert_eq!(pending(port).await, owed, "nothing is owed less");
    sink.set_faults(faults("{}"));
    let wish = json!({"pipeline": "*", "text": "GET /orders/9"});
    eventually("nothing waits", async || search(port, &wish).await["records"] == 0).await;
    eventually("all of it is delivered", async || {
        let (_, now) = get(port, "/api/now").await;
        let is_delivered = |of: &Value| of["books"]["delivered"] == 10 && of["books"]["difference"] == 0;
        now["pipelines"].as_array().unwrap().iter().all(is_delivered)
    })
    .await;
}

/// What looks like a secret is not shown, and whoever may not see telemetry sees nothing.
#[tokio::test]
async fn nobody_sees_it_without_a_token() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let directory = tempfile::TempDir::new().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "good\n").unwrap();
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms", "--admin-token-file", tokens.to_str().unwrap()];
    let weir = Weir::start(&manifest("shop", sink.grpc), &arguments).await;
    let port = admin(&weir);
    let mut spans = payload::request(1, 1, 10);
    let secret = payload::attribute("db.password", "s3cr3t");
    spans.resource_spans[0].scope_spans[0].spans[0].attributes.push(secret);
    let answer = Grpc::connect(weir.grpc).await.export(&prost::Message::encode_to_vec(&spans)).await;
    assert_eq!(answer.code, OK, "{answer:?}");

    let wish = json!({"pipeline": "*", "text": "GET /orders/1"});
    assert_eq!(post(port, PATH, &wish).await.0, 401);
    assert_eq!(get(port, &format!("{PATH}/1")).await.0, 401);
    for other in [weir.metrics, weir.health] {
        let status = http::post_to(other, PATH, JSON, wish.to_string().as_bytes()).await.status;
        assert!(status == 405 || status == 404, "not for everybody: {status}");
    }
    assert!(weir.all_logged("somebody searches telemetry that waits on the disk").is_empty());
    for (redact, is_shown) in [(true, false), (false, true)] {
        let wish = json!({"pipeline": "*", "text": "GET /orders/1", "redact": redact}).to_string();
        let fields = format!("authorization: Bearer good\r\ncontent-length: {}\r\n", wish.len());
        let asked = [http::head("POST", PATH, JSON, &fields), wish.into_bytes()].concat();
        let answer = exchange(port, &asked).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let number = serde_json::from_str::<Value>(&answer.text()).unwrap()["search"].clone();
        let asked = format!("GET {PATH}/{number} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer good\r\n\r\n");
        let mut text = String::new();
        eventually("the search ends", async || {
            text = exchange(port, asked.as_bytes()).await.text();
            text.contains("\"state\":\"ended\"")
        })
        .await;
        assert!(text.contains("\"name\":\"GET /orders/1\"") && text.contains("s3cr3t") == is_shown, "{text}");
    }
}

/// A damaged record costs itself: others are found, and it is said how many were not looked at.
#[tokio::test]
async fn damage_is_passed_over() {
    const REQUESTS: u64 = 30;
    let dir = DataDir::new();
    let manifest = manifest("shop", closed_port().await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "5ms"];
    let mut weir = Weir::start(&manifest, &arguments).await;
    send_singly(weir.grpc, 0..REQUESTS, 100).await;
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    let (file, spoiled) = (dir.largest(), request(12, 100));
    let at = find(&std::fs::read(&file).unwrap(), &spoiled).unwrap() as u64;
    flip(&file, at + 100);

    let weir = Weir::start(&manifest, &arguments).await;
    let port = admin(&weir);
    for (number, items) in [(12, 0), (13, 1), (REQUESTS - 1, 1)] {
        let text = format!("GET /orders/{}", number * SPANS + 5);
        let page = search(port, &json!({"pipeline": "traces/shop", "text": text})).await;
        assert_eq!(waiting(&page).len(), items, "{page}");
        assert_eq!((&page["records"], &page["stopped_by"]), (&json!(REQUESTS - 1), &Value::Null), "{page}");
        // Its pipeline may have come to it first: then nobody is owed it any more.
        let (_, now) = get(port, "/api/now").await;
        let dropped = &now["pipelines"][0]["books"]["dropped"]["journal_damaged"];
        assert!(page["damaged_records"] == 1 || *dropped == SPANS, "{page} {dropped}");
    }
}

#[tokio::test]
async fn a_search_that_reaches_its_limit_says_so_and_another_one_goes_on() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = Weir::start(&manifest("shop", sink.grpc), &arguments).await;
    let port = admin(&weir);
    // Some 4 MB.
    send_singly(weir.grpc, 0..40, 10_000).await;
    let mut wish = json!({"pipeline": "traces/shop", "text": "GET /orders/399", "max_bytes": 1 << 20});
    let (mut searches, mut records) = (0, 0);
    let last = loop {
        let page = search(port, &wish).await;
        assert!(page["bytes"].as_u64().unwrap() < (1 << 20) + 300_000, "{page}");
        (searches, records) = (searches + 1, records + page["records"].as_u64().unwrap());
        if page["goes_on_at"].is_null() {
            break page;
        }
        assert_eq!((&page["stopped_by"], &page["items"]), (&json!("bytes"), &json!([])), "{page}");
        wish["from"] = page["goes_on_at"].clone();
    };
    assert!(searches > 3 && records == 40, "{records} records in {searches} searches");
    assert_eq!(waiting(&last), [waits(399, "traces/shop")], "{last}");
    assert_eq!(get(port, &format!("{PATH}/1")).await.0, 410, "the last one is kept");
    let page = search(port, &json!({"pipeline": "traces/shop", "text": "GET /orders/"})).await;
    assert_eq!(page["stopped_by"], "found");
    let bytes = waiting(&page).len() * 10_000;
    assert!((200_000..300_000).contains(&bytes) && page["left_out_items"].as_u64() > Some(0), "256 KiB: {bytes}");
}

#[tokio::test]
async fn a_search_that_cannot_be_begun_says_why() {
    let (dir, sink) = (DataDir::new(), sink("{}").await);
    let weir = Weir::start(&manifest("shop", sink.grpc), &["--data-dir", dir.arg()]).await;
    let port = admin(&weir);
    for (wish, words) in [
        (json!({"pipeline": "traces/none", "text": "a"}), "no pipeline \"traces/none\""),
        (json!({"pipeline": "logs/*", "text": "a"}), "there is no pipeline of logs"),
        (json!({"pipeline": "*", "text": ""}), "a text to look for has 1 to 1024 bytes"),
        (json!({"pipeline": "*"}), "missing field `text`"),
        (json!({"pipeline": "*", "text": "a", "speed": 1}), "unknown field `speed`"),
        (json!({"pipeline": "*", "text": "a", "from": "3"}), "is no place where a search has ended"),
        (json!({"pipeline": "*", "text": "a", "max_bytes": 1}), "max_bytes must be 1048576 to 268435456, not 1"),
    ] {
        let (status, answer) = post(port, PATH, &wish).await;
        assert_eq!(status, 400, "{wish}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
    assert_eq!(search(port, &json!({"pipeline": "*", "text": "a"})).await["records"], 0, "none of these is under way");
    for (path, status) in [(PATH, 400), ("/api/searches/4711", 410), ("/api/searches/x", 410)] {
        assert_eq!(get(port, path).await.0, status, "{path}");
    }
    let without_disk = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let (status, answer) = post(admin(&without_disk), PATH, &json!({"pipeline": "*", "text": "a"})).await;
    assert!(status == 404 && answer["error"].as_str().unwrap().contains("no data directory"), "{answer}");
}
