//! Every field of every signal with a type that it does not have, by every way in: refused under the name of the field,
//! and everybody else is served.

use serde_json::Value;
use weir_plan::{Protocol, Signal};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;
use weir_testkit::fields::{Document, Field};
use weir_testkit::grpc::{INVALID_ARGUMENT, OK, frame};
use weir_testkit::http::{self, JSON, PROTOBUF};
use weir_testkit::signals::{encoded, items};

use crate::signals::{all_to, backends};
use crate::support::Gateway;

async fn stage() -> ([Backend; 3], Gateway) {
    let backends = backends().await;
    let gateway = Gateway::start(all_to(&backends, Protocol::Grpc)).await;
    (backends, gateway)
}

/// Other clients' data goes through, of every signal, and nothing else was accepted.
async fn nothing_but_the_other_clients(backends: &[Backend; 3], gateway: &Gateway) {
    let mut sent = 0;
    for (signal, backend) in Signal::ALL.into_iter().zip(backends) {
        let request = encoded(signal, &[("service.name", "shop")], 1..3);
        let answer = gateway.client().await.call(signal.grpc_method(), None, frame(&request, false)).await;
        assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
        eventually("it arrives", async || !backend.captured().is_empty()).await;
        assert_eq!(backend.captured()[0].plain, request, "{signal:?}");
        sent += items(signal, &request);
    }
    gateway.settle().await;
    let accepted: u64 = gateway.engine.books().iter().map(|(_, books)| books.accepted).sum();
    assert_eq!(accepted, sent);
}

#[tokio::test]
async fn a_wrong_type_in_json_is_refused_under_its_path() {
    let (backends, gateway) = stage().await;
    let mut refused = 0;
    for signal in Signal::ALL {
        for Document { text, path, .. } in Field::every(signal).iter().flat_map(Field::wrong_json) {
            let answer = http::post_to(gateway.at.http, signal.http_path(), JSON, text.as_bytes()).await;
            assert_eq!((answer.status, answer.header("content-type")), (400, JSON), "{text}: {answer:?}");
            let status: Value = serde_json::from_slice(&answer.body).unwrap();
            assert!(status["message"].as_str().unwrap().ends_with(&format!(" in {path}")), "{text}: {status}");
            refused += 1;
        }
    }
    assert!(refused > 1500, "only {refused} requests");
    nothing_but_the_other_clients(&backends, &gateway).await;
}

#[tokio::test]
async fn a_wrong_wire_type_is_refused_under_its_path() {
    let (backends, gateway) = stage().await;
    let client = gateway.client().await;
    let mut refused = 0;
    for signal in Signal::ALL {
        for field in Field::every(signal) {
            let reason = "wrong wire type for this field at byte";
            let path = format!(" in {}", field.protobuf_path());
            let right = |message: &str| message.contains(reason) && message.ends_with(&path);
            for request in field.wrong_protobuf() {
                let answer = client.call(signal.grpc_method(), None, frame(&request, false)).await;
                assert_eq!(answer.code, INVALID_ARGUMENT, "{path}: {answer:?}");
                assert!(right(&answer.message), "{path}: {answer:?}");
                let answer = http::post_to(gateway.at.http, signal.http_path(), PROTOBUF, &request).await;
                assert_eq!(answer.status, 400, "{path}: {answer:?}");
                // The message is the last field of a `google.rpc.Status`.
                assert!(right(&answer.text()), "{path}: {answer:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 500, "only {refused} requests");
    nothing_but_the_other_clients(&backends, &gateway).await;
}
