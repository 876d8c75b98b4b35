//! Wrong, hostile and broken clients: each gets its answer, and nobody else notices.

use crate::support::gateway::{Gateway, sink};
use crate::support::grpc::INVALID_ARGUMENT;
use crate::support::http::{self, PROTOBUF};
use crate::support::payload;

#[tokio::test]
async fn every_truncation_of_a_request_is_refused() {
    let sink = sink("{}").await;
    let gateway = Gateway::to(sink.grpc).await;
    let client = gateway.client().await;
    let whole = payload::encoded(1, 2, 20);
    for length in 1..whole.len() {
        let answer = client.export(&whole[..length]).await;
        assert_eq!(answer.code, INVALID_ARGUMENT, "cut to {length}: {answer:?}");
        let answer = http::post(gateway.at.http, PROTOBUF, None, &whole[..length]).await;
        assert_eq!(answer.status, 400, "cut to {length}: {answer:?}");
    }
    gateway.still_delivers(&sink, 9).await;
    gateway.settle().await;
    assert_eq!(gateway.books("backend").accepted, 1);
}
