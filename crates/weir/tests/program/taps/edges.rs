//! Edges beside those around the rules of a pipeline.

use weir_plan::Signal;
use weir_testkit::grpc::frame;
use weir_testkit::manifests::POD;
use weir_testkit::signals::{document, encoded};

use super::*;

/// Takes log records of a namespace, and those that do not say where they are from.
fn choosing(namespace: &str, backend: SocketAddr) -> String {
    let input = format!("  input: {{otlp: {{namespaces: {{include: [{namespace}]}}}}}}");
    document(Signal::Logs, namespace, backend, &input)
}

/// One request with a log record of each of these namespaces, numbered from 1 on.
async fn send_of(weir: &Weir, namespaces: &[&str]) {
    let record = |(id, &namespace): (u64, &&str)| {
        encoded(Signal::Logs, &[("k8s.namespace.name", namespace), ("password", "s3cr3t")], id..id + 1)
    };
    let request: Vec<u8> = (1..).zip(namespaces).flat_map(record).collect();
    let client = Grpc::connect(weir.grpc).await;
    let answer = client.call(Signal::Logs.grpc_method(), None, frame(&request, false)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
}

/// Numbers and ways of the log records that a tap has caught.
fn records(page: &Value) -> Vec<(String, String)> {
    let items = page["items"].as_array().unwrap().iter();
    let record = |item: &Value| {
        let record = item["item"].pointer("/resourceLogs/0/scopeLogs/0/logRecords/0/body/intValue");
        (record.unwrap().as_str().unwrap().to_owned(), item["way"].as_str().unwrap().to_owned())
    };
    items.map(record).collect()
}

fn unclaimed(number: &str) -> (String, String) {
    (number.to_owned(), "unclaimed".to_owned())
}

/// Also of a request of which a pipeline takes another part.
#[tokio::test]
async fn what_no_pipeline_takes_is_seen() {
    let sink = sink("{}").await;
    let weir = Weir::start(&(choosing("shop", sink.grpc) + &choosing("cart", sink.grpc)), &[]).await;
    let port = admin(&weir);
    let all = open(port, &json!({"pipeline": "*", "edge": "unclaimed"})).await;
    let wish = json!({"pipeline": "logs/*", "edge": "unclaimed", "where": "log.body == 5"});
    let one = open(port, &wish).await;
    send_of(&weir, &["shop", "bank", "bank", "cart", "bank"]).await;
    eventually("all is seen", async || read(port, all).await["matched"] == 3 && read(port, one).await["matched"] == 1)
        .await;
    let page = read(port, all).await;
    assert_eq!(records(&page), ["2", "3", "5"].map(unclaimed));
    assert_eq!((&page["seen"], &page["left_out"]), (&json!(3), &json!(0)));
    assert!(page["items"][0]["pipeline"].is_null() && !page.to_string().contains("s3cr3t"), "{page}");
    assert_eq!(records(&read(port, one).await), [unclaimed("5")]);
    let opened = weir.logged("a tap is open: somebody looks at telemetry").unwrap();
    assert_eq!((&opened["edge"], &opened["pipeline"]), (&json!("unclaimed"), &json!("*")));
    assert_eq!(get(port, "/api/now").await.1["unclaimed"], json!([0, 0, 3]), "they are counted");
    // Of a whole request, too.
    send_of(&weir, &["bank"]).await;
    eventually("it is seen", async || read(port, all).await["matched"] == 4).await;
    assert_eq!(get(port, "/api/now").await.1["unclaimed"], json!([0, 0, 4]));
    let (status, answer) = post(port, "/api/taps", &json!({"pipeline": "logs/shop", "edge": "unclaimed"})).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("this edge is of no pipeline"), "{answer}");
}

#[tokio::test]
async fn a_terminal_shows_what_no_pipeline_takes() {
    let sink = sink("{}").await;
    let weir = Weir::start(&choosing("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let sends = async {
        eventually("a tap is open", async || {
            get(port, "/api/taps").await.1["taps"].as_array().is_some_and(|taps| taps.len() == 1)
        })
        .await;
        send_of(&weir, &["shop", "bank"]).await;
    };
    let ((), (code, lines, _)) = tokio::join!(sends, told(port, &["tap", "*", "--edge", "unclaimed", "-n", "1"]));
    assert!(code == Some(0) && lines.contains(" unclaimed: INFO 2 "), "{lines}");
}

/// Also where a pipeline is named: what none takes is beside all of them.
#[tokio::test]
async fn an_item_that_no_pipeline_takes_is_found() {
    let sink = sink("{}").await;
    let weir = Weir::start(&choosing("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let url = format!("http://{port}");
    let mut why = command(&["why", "logs/shop", "--item", "bank", "-d", "100s", "--url", &url]).spawn().unwrap();
    let mut lines = BufReader::new(why.stdout.take().unwrap()).lines();
    let states = async || {
        let (_, list) = get(port, "/api/taps").await;
        list["taps"].as_array().unwrap().iter().map(|tap| tap["state"].clone()).collect::<Vec<_>>()
    };
    eventually("both taps are open", async || states().await == ["open", "open"]).await;
    send_of(&weir, &["shop", "bank"]).await;
    let line = in_time("the item", lines.next_line()).await.unwrap().unwrap();
    assert!(line.contains(" unclaimed: INFO 2 "), "{line}");
    let pid = rustix::process::Pid::from_raw(i32::try_from(why.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = in_time("the end", why.wait_with_output()).await.unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let expected = "1 were answered OK and dropped, because no pipeline takes them";
    assert!(ended.status.success() && said.contains(expected), "{said}");
    assert_eq!(states().await, ["ended", "ended"]);
}

/// A large request is enriched where it is: whoever looks has it as it was.
#[tokio::test]
async fn what_arrives_is_seen_before_enrichment() {
    let sink = sink("{}").await;
    let weir = Weir::start(&(manifest("shop", sink.grpc) + POD), &[]).await;
    let port = admin(&weir);
    let wish = |pipeline: &str, edge: &str| json!({"pipeline": pipeline, "edge": edge, "items_per_second": 200});
    let received = open(port, &wish("traces/*", "received")).await;
    let enriched = open(port, &wish("traces/shop", "in")).await;
    let wish = json!({"pipeline": "traces/*", "edge": "received", "text": "/orders/7",
        "where": "span.name == \"GET /orders/7\""});
    let one = open(port, &wish).await;
    let request = payload::encoded(1, 50, 1000);
    let answer = Grpc::connect(weir.grpc).await.export(&request).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    eventually("all is seen", async || {
        let both = read(port, received).await["matched"] == 50 && read(port, enriched).await["matched"] == 50;
        both && read(port, one).await["matched"] == 1
    })
    .await;
    let page = read(port, received).await;
    let [before, after] = [page.clone(), read(port, enriched).await].map(|page| {
        let keys = page["items"][0]["item"]["resourceSpans"][0]["resource"]["attributes"].as_array().unwrap().iter();
        keys.map(|attribute| attribute["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    });
    assert!(before == ["service.name"] && after.contains(&"k8s.pod.label.team".to_owned()), "{before:?} {after:?}");
    assert_eq!(caught(&page)[0], named(1, "received"));
    assert_eq!((&page["seen"], &page["left_out"]), (&json!(50), &json!(0)));
    assert_eq!(caught(&read(port, one).await), [named(7, "received")]);
    let (status, answer) = post(port, "/api/taps", &json!({"pipeline": "traces/shop", "edge": "received"})).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("this edge is of no pipeline"), "{answer}");
}

#[tokio::test]
async fn between_two_rules_an_item_is_what_the_first_left() {
    let sink = sink("{}").await;
    let rules = "  transform:\n  - statements:\n    - set(span.attributes[\"step\"], \"one\")\n  - statements:\n    \
                 - set(span.attributes[\"step\"], \"two\")\n  filter:\n  - conditions:\n    - IsMatch(span.name, \"/2$\")\n  \
                 - conditions:\n    - IsMatch(span.name, \"/3$\")\n";
    let weir = Weir::start(&manifest("shop", sink.grpc).replace("---\n", &format!("{rules}---\n")), &[]).await;
    let port = admin(&weir);
    let after = |rule: &str| json!({"pipeline": "traces/shop", "edge": "after", "rule": rule});
    let changed = open(port, &after("transform[0]")).await;
    let filtered = open(port, &after("filter[0]")).await;
    // It is in no item as it arrives.
    let mut wish = after("transform[1]");
    wish["text"] = json!("two");
    let text = open(port, &wish).await;
    send(&weir, 1, 4).await;
    eventually("all is seen", async || {
        let (changed, filtered) = (read(port, changed).await, read(port, filtered).await);
        let are_delivered = caught(&filtered).iter().filter(|(_, way)| way == "delivered").count() == 2;
        changed["matched"] == 4 && are_delivered && read(port, text).await["matched"] == 4
    })
    .await;
    let page = read(port, changed).await;
    assert!(page.to_string().contains("\"one\"") && !page.to_string().contains("\"two\""), "{page}");
    let page = read(port, filtered).await;
    let expected = [named(1, "delivered"), named(3, "removed"), named(4, "delivered")];
    assert_eq!(caught(&page), expected, "the second filter removes one");
    assert_eq!((&page["seen"], &page["left_out"]), (&json!(3), &json!(0)));
    assert!(page.to_string().contains("\"two\"") && page["rule"] == "filter[0]", "{page}");
    // Nothing was counted twice.
    let (_, now) = get(port, "/api/now").await;
    assert_eq!(now["pipelines"][0]["books"]["filtered"]["filter"], 2, "{now}");
    for (wish, words) in [
        (after("filter[2]"), "traces/shop has no filter[2]"),
        (after("rules[0]"), "after which rule?"),
        (json!({"pipeline": "traces/shop", "edge": "after"}), "the edge after needs a rule: --rule transform[0]"),
        (json!({"pipeline": "traces/shop", "edge": "out", "rule": "filter[0]"}), "use --edge after with --rule"),
    ] {
        let (status, answer) = post(port, "/api/taps", &wish).await;
        assert!(status == 400 && answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
}
