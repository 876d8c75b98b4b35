//! Every way to encode a request: what arrives at the backend is what the client meant, bit by bit.

use weir_testkit::eventually;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::http::{self, JSON};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::closed_port;

use crate::process::{Weir, manifest};

const ITEMLESS: &str = "weir_receiver_itemless_requests_total";

/// OTLP wants OK for it, but somebody may have meant something.
#[tokio::test]
async fn a_request_of_which_nothing_is_known_is_counted_and_logged() {
    let weir = Weir::start(&manifest("backend", closed_port().await), &[]).await;
    let other_signal = br#"{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "x"}}]}]}]}"#;
    let old = br#"{"resourceSpans": [{"instrumentationLibrarySpans": [{"spans": [{"name": "x"}]}]}]}"#;
    for request in [&other_signal[..], old] {
        assert_eq!(http::post(weir.http, JSON, None, request).await.status, 200);
    }
    // Fields 1000 and, of a resource, 1000.
    for request in [&b"\xc2\x3e\x01x"[..], b"\x0a\x04\xc2\x3e\x01x"] {
        assert_eq!(Grpc::connect(weir.grpc).await.export(request).await.code, OK);
    }
    let scrape = Scrape::of(weir.metrics).await;
    for transport in ["http", "grpc"] {
        assert_eq!(scrape.get(&format!("{ITEMLESS}{{transport=\"{transport}\",signal=\"traces\"}}")), 2.0);
    }
    let logged = |line: &serde_json::Value| line["message"].as_str().is_some_and(|text| text.contains(ITEMLESS));
    eventually("it is logged", async || weir.logs().iter().any(logged)).await;
    let lines: Vec<_> = weir.logs().into_iter().filter(logged).collect();
    assert_eq!(lines[0]["path"], "/v1/traces", "{lines:?}");
}
