//! What `--log-level debug` says of data on its way: who is connected, what is refused, and how each request to a
//! backend ended. By default none of it is in the log, and nothing of what clients send ever is.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};
use weir_testkit::backend::{Backend, Say};
use weir_testkit::eventually;
use weir_testkit::grpc::{Grpc, INVALID_ARGUMENT, OK};
use weir_testkit::http::{self, JSON};
use weir_testkit::payload;

use crate::process::{Weir, manifest};

const CONNECTED: &str = "a client connected";
const LEFT: &str = "the connection of a client ended";
const BROKE: &str = "the connection of a client failed";
const REFUSED: &str = "a request of a client is refused";
const CALLED: &str = "an outgoing connection is made";
const SENT: &str = "a request to a backend ended";
const WAITS: &str = "a request waits for its next attempt";

const SPANS: u64 = 3;

/// A client's text that is in no line.
const PRIVATE: &str = "hunter2";

/// A backend that asks once to try again.
async fn busy_once() -> Backend {
    let requests = AtomicUsize::new(0);
    Backend::scripted(move |_, _| match requests.fetch_add(1, Ordering::SeqCst) {
        0 => Say::Code(14, "for a reason", None),
        _ => Say::Ok,
    })
    .await
}

/// A process that took a request on one connection, and was then asked for what it does not take, on four in all.
async fn asked(arguments: &[&str]) -> Weir {
    let backend = busy_once().await;
    let weir = Weir::start(&manifest("shop", backend.address), arguments).await;
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&payload::encoded(1, SPANS, 10)).await.code, OK);
    assert_eq!(client.export(PRIVATE.as_bytes()).await.code, INVALID_ARGUMENT);
    drop(client);
    let wrong = format!(r#"{{"resourceSpans": "{PRIVATE}"}}"#);
    assert_eq!(http::post(weir.http, JSON, None, wrong.as_bytes()).await.status, 400);
    assert_eq!(http::post(weir.http, JSON, Some(PRIVATE), b"{}").await.status, 415);
    assert_eq!(http::post_to(weir.http, "/v1/orders", JSON, b"{}").await.status, 404);
    eventually("it is delivered", async || backend.taken_ids().len() as u64 == SPANS).await;
    weir
}

fn is_debug(line: &Value) -> bool {
    line["level"] == "DEBUG"
}

#[tokio::test]
async fn the_way_of_a_request_is_logged_where_that_is_wanted() {
    let weir = asked(&["--log-level", "debug"]).await;
    let count = |message: &str| weir.all_logged(message).len();
    eventually("all is logged", async || {
        (count(CONNECTED), count(LEFT) + count(BROKE), count(REFUSED), count(SENT)) == (4, 4, 4, 2)
    })
    .await;
    let connected = weir.all_logged(CONNECTED);
    assert!(connected.iter().all(|line| is_debug(line) && line["tls"] == false), "{connected:?}");
    let last = &connected[3]["peer"];
    assert!(last.as_str().unwrap().starts_with("127.0.0.1:"), "{last}");
    let left = weir.all_logged(LEFT).into_iter().find(|line| line["peer"] == *last).expect("its client hung up");
    assert!(left["reason"] == "closed" && is_debug(&left), "{left}");

    let refused = weir.all_logged(REFUSED);
    let said = |line: &Value| ["reason", "code", "signal"].map(|field| line[field].clone());
    let expected = [
        json!(["malformed", "INVALID_ARGUMENT", "traces"]),
        json!(["malformed", "400", "traces"]),
        json!(["unsupported", "415", null]),
        json!(["unsupported", "404", null]),
    ];
    assert_eq!(refused.iter().map(|line| json!(said(line))).collect::<Vec<_>>(), expected, "{refused:?}");
    assert!(refused[..3].iter().all(|line| line["cause"].is_null()), "only its client is told more: {refused:?}");
    assert!(refused[3]["cause"].as_str().unwrap().contains("/v1/orders"), "{refused:?}");

    let sent = weir.all_logged(SENT);
    let said = |line: &Value| ["pipeline", "items", "attempts", "outcome"].map(|field| line[field].clone());
    let expected = [json!(["traces/shop", SPANS, 1, "try_again"]), json!(["traces/shop", SPANS, 2, "delivered"])];
    assert_eq!(sent.iter().map(|line| json!(said(line))).collect::<Vec<_>>(), expected, "{sent:?}");
    assert_eq!(sent[0]["cause"], "UNAVAILABLE: for a reason");
    assert!(sent.iter().all(|line| is_debug(line) && line["took_ms"].is_u64()), "{sent:?}");
    assert!(sent.iter().all(|line| line["bytes"].as_u64().is_some_and(|bytes| bytes > 0)), "{sent:?}");
    let waits = weir.all_logged(WAITS);
    assert!(waits.len() == 1 && waits[0]["attempts"] == 1 && waits[0]["wait_ms"].is_u64(), "{waits:?}");
    assert!(!weir.all_logged(CALLED).is_empty());
    assert!(weir.logs().iter().all(|line| !line.to_string().contains(PRIVATE)), "{:?}", weir.logs());
}

#[tokio::test]
async fn by_default_no_line_is_of_a_request_or_a_connection() {
    let mut weir = asked(&[]).await;
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    assert!(weir.logged("stopped").is_some(), "the log is complete: {:?}", weir.logs());
    assert!(!weir.logs().iter().any(is_debug), "{:?}", weir.logs());
    for message in [CONNECTED, LEFT, BROKE, REFUSED, CALLED, SENT, WAITS] {
        assert!(weir.logged(message).is_none(), "{message}");
    }
}
