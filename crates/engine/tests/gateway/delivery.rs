//! What a backend gets, and what its answers do to the data.

use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use weir_engine::Settings;
use weir_plan::{Compression, Header, Output, Pipeline, Protocol, Secret, Signal, Tls};
use weir_testkit::backend::{Backend, Captured, Say};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::OK;
use weir_testkit::sink::{DOWN, arrived, closed_port, faults, sink};
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, http, payload};

use crate::support::{Gateway, on_disk, output, pipeline, settings};

fn through(output: Output) -> Vec<Pipeline> {
    vec![Pipeline::new(Signal::Traces, "backend", output)]
}

/// Sends `count` spans in one request; the answer is OK.
async fn export(gateway: &Gateway, first: u64, count: u64) {
    let answer = gateway.client().await.export(&payload::encoded(first, count, 100)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
}

#[tokio::test]
async fn every_protocol_and_compression_delivers_the_same() {
    let protocols = [(Protocol::Grpc, "grpc-encoding"), (Protocol::Http, "content-encoding")];
    let compressions = [
        (Compression::None, None),
        (Compression::Gzip, Some("gzip")),
        (Compression::Snappy, Some("snappy")),
        (Compression::Zstd, Some("zstd")),
    ];
    for (protocol, field) in protocols {
        for (compression, name) in compressions {
            let backend = Backend::start().await;
            let gateway = Gateway::start(through(Output { compression, ..output(backend.address, protocol) })).await;
            export(&gateway, 1, 500).await;
            gateway.settle().await;
            let captured = backend.captured();
            assert_eq!(captured.len(), 1, "{protocol:?} {compression:?}");
            assert_eq!(captured[0].message, payload::request(1, 500, 100), "{protocol:?} {compression:?}");
            let header = captured[0].headers.get(field).map(|value| value.to_str().unwrap());
            assert_eq!(header, name, "{protocol:?} {compression:?}");
            assert_eq!(gateway.books("backend").delivered, 500);
        }
    }
}

/// Paths, headers, and the form of snappy, of which each transport's peers expect another.
#[tokio::test]
async fn the_requests_are_what_the_field_sends() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let backend = Backend::start().await;
        let mut to = output(backend.address, protocol);
        to.compression = Compression::Snappy;
        if protocol == Protocol::Http {
            to.endpoint.path = "/custom/v1/traces".into();
        }
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode("user:password"));
        for (name, value) in [("x-tenant", "shop"), ("authorization", &basic)] {
            to.headers.push(Header { name: name.into(), value: Secret::new(value) });
        }
        let gateway = Gateway::start(through(to)).await;
        export(&gateway, 1, 500).await;
        gateway.settle().await;
        let request = &backend.captured()[0];
        assert_eq!(request.headers["x-tenant"], "shop");
        assert_eq!(request.headers["authorization"], basic);
        let framed = request.body.starts_with(payload::SNAPPY_STREAM);
        let (path, content_type, is_framed) = match protocol {
            Protocol::Grpc => (weir_loadtest::grpc::EXPORT_TRACES, "application/grpc", true),
            Protocol::Http => ("/custom/v1/traces", "application/x-protobuf", false),
        };
        assert_eq!((request.path.as_str(), framed), (path, is_framed));
        assert_eq!(request.headers["content-type"], content_type);
    }
}

/// A pipeline over TLS to 127.0.0.1, by `protocol`.
fn over_tls(backend: &Backend, protocol: Protocol, tls: Tls) -> Vec<Pipeline> {
    through(Output { tls: Some(tls), ..output(backend.address, protocol) })
}

/// That of certificates that nobody gives another: the beginning of 4096.
const END_OF_CERTIFICATES: f64 = 67_090_118_400.0;

#[tokio::test]
async fn tls_with_the_right_authority_delivers() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let authority = Authority::new();
        let backend = Backend::with_tls(authority.server(None)).await;
        let tls = Tls { ca_pem: Some(authority.pem().into()), ..Tls::default() };
        let gateway = Gateway::start(over_tls(&backend, protocol, tls)).await;
        export(&gateway, 1, 3).await;
        gateway.settle().await;
        assert_eq!(backend.ids(), [1, 2, 3], "{protocol:?}");
        let ends = gateway.scrape().await.figure("weir_backend_certificate_end_timestamp_seconds", "backend");
        assert_eq!(ends, END_OF_CERTIFICATES, "{protocol:?}");
    }
}

#[tokio::test]
async fn insecure_skip_verify_accepts_anybody() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let backend = Backend::with_tls(Authority::new().server(None)).await;
        let tls = Tls { insecure_skip_verify: true, ..Tls::default() };
        let gateway = Gateway::start(over_tls(&backend, protocol, tls)).await;
        export(&gateway, 1, 3).await;
        gateway.settle().await;
        assert_eq!(backend.ids(), [1, 2, 3], "{protocol:?}");
    }
}

/// Data waits for a backend that cannot be trusted; it is neither sent nor given up.
#[tokio::test]
async fn tls_with_a_wrong_authority_keeps_the_data() {
    let backend = Backend::with_tls(Authority::new().server(None)).await;
    let tls = Tls { ca_pem: Some(Authority::new().pem().into()), ..Tls::default() };
    let gateway = Gateway::start(over_tls(&backend, Protocol::Grpc, tls)).await;
    export(&gateway, 1, 3).await;
    eventually("it is tried again", async || {
        gateway.scrape().await.get("weir_pipeline_retries_total{pipeline=\"backend\",signal=\"traces\"}") >= 2.0
    })
    .await;
    let books = gateway.books("backend");
    assert_eq!((books.accepted, books.pending, books.delivered), (3, 3, 0));
    assert!(backend.captured().is_empty());
}

#[tokio::test]
async fn mutual_tls_shows_the_client_certificate() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let backend = Backend::with_tls(servers.server(Some(&clients))).await;
    let tls = Tls { ca_pem: Some(servers.pem().into()), identity: Some(clients.identity()), ..Tls::default() };
    let gateway = Gateway::start(over_tls(&backend, Protocol::Grpc, tls)).await;
    export(&gateway, 1, 3).await;
    gateway.settle().await;
    assert_eq!(backend.ids(), [1, 2, 3]);

    let strangers =
        Tls { ca_pem: Some(servers.pem().into()), identity: Some(Authority::new().identity()), ..Tls::default() };
    let gateway = Gateway::start(over_tls(&backend, Protocol::Grpc, strangers)).await;
    export(&gateway, 4, 3).await;
    assert_eq!(gateway.books("backend").pending, 3, "a stranger's data waits");
    assert_eq!(backend.ids(), [1, 2, 3]);
}

#[tokio::test]
async fn refusals_that_ask_for_another_try_lead_to_delivery() {
    let retryable_codes = [1, 4, 8, 10, 11, 14, 15, 429, 502, 503, 504];
    for code in retryable_codes {
        let backend =
            Backend::scripted(move |number, _| if number == 0 { Say::Code(code, "later", None) } else { Say::Ok })
                .await;
        let protocol = if code > 99 { Protocol::Http } else { Protocol::Grpc };
        let gateway = Gateway::start(through(output(backend.address, protocol))).await;
        export(&gateway, 1, 10).await;
        gateway.settle().await;
        assert_eq!(backend.captured().len(), 2, "{code}");
        let books = gateway.books("backend");
        assert_eq!((books.accepted, books.delivered), (10, 10), "{code}");
    }
}

#[tokio::test]
async fn a_backend_that_refuses_most_requests_gets_everything_in_the_end() {
    let sink = sink(r#"{"fault": ["503:50"], "reset": 10, "seed": 3}"#).await;
    let gateway = Gateway::to(sink.grpc).await;
    for batch in 0..20 {
        export(&gateway, 1 + batch * 10, 10).await;
    }
    gateway.settle().await;
    assert_eq!(arrived(&sink), (1..=200).collect::<Vec<_>>());
    let books = gateway.books("backend");
    assert_eq!((books.accepted, books.delivered), (200, 200));
}

/// The hint is a lower bound, whatever the backoff would have been.
#[tokio::test]
async fn the_next_attempt_is_not_earlier_than_the_backend_asked() {
    let hint = Duration::from_secs(2);
    for (protocol, code) in [(Protocol::Grpc, 14), (Protocol::Grpc, 8), (Protocol::Http, 503), (Protocol::Http, 429)] {
        let backend = Backend::scripted(
            move |number, _| {
                if number == 0 { Say::Code(code, "later", Some(hint)) } else { Say::Ok }
            },
        )
        .await;
        let gateway = Gateway::start(through(output(backend.address, protocol))).await;
        export(&gateway, 1, 1).await;
        gateway.settle().await;
        let captured = backend.captured();
        assert_eq!(captured.len(), 2, "{protocol:?} {code}");
        let pause = captured[1].at - captured[0].at;
        assert!(pause >= hint, "{protocol:?} {code}: {pause:?}");
    }
}

#[tokio::test]
async fn too_large_requests_are_split_down_to_what_the_backend_takes() {
    for faults in [r#"{"max_request_bytes": 1000}"#, r#"{"max_request_bytes": 30000}"#] {
        let sink = sink(faults).await;
        for (protocol, address) in [(Protocol::Grpc, sink.grpc), (Protocol::Http, sink.http)] {
            let gateway = Gateway::start(through(output(address, protocol))).await;
            let first = if protocol == Protocol::Grpc { 1 } else { 1001 };
            export(&gateway, first, 300).await;
            gateway.settle().await;
            let books = gateway.books("backend");
            assert_eq!((books.accepted, books.delivered), (300, 300), "{protocol:?} {faults}");
        }
        let expected: Vec<_> = (1..=300).chain(1001..=1300).collect();
        assert_eq!(arrived(&sink), expected);
        assert_eq!(sink.report(false).duplicates, 0);
    }
}

/// What a backend has taught is not found out again for each request.
#[tokio::test]
async fn requests_are_cut_by_what_the_backend_was_found_to_take() {
    let small = sink(r#"{"max_request_bytes": 60000}"#).await;
    let gateway = Gateway::with(vec![pipeline("small", small.grpc)], settings()).await;
    let refused = || small.report(false).refused.get("too_large").copied().unwrap_or_default();
    export(&gateway, 1, 300).await;
    gateway.settle().await;
    let found_out = refused();
    assert!(found_out > 0);
    export(&gateway, 301, 300).await;
    gateway.settle().await;
    assert_eq!(refused(), found_out);
    assert_eq!(arrived(&small), (1..=600).collect::<Vec<_>>());
}

/// What one backend has taught is no matter of the others: they get what they got, and the journal has one copy.
#[tokio::test]
async fn what_backends_have_taught_makes_no_copies() {
    let (dir, healthy) = (DataDir::new(), Backend::start().await);
    let small = [sink(r#"{"max_request_bytes": 30000}"#).await, sink(r#"{"max_request_bytes": 60000}"#).await];
    let pipelines = vec![
        pipeline("smallest", small[0].grpc),
        pipeline("small", small[1].grpc),
        pipeline("healthy", healthy.address),
    ];
    let gateway =
        Gateway::with(pipelines, Settings { spill_after: Duration::from_millis(5), ..on_disk(&dir).await }).await;
    export(&gateway, 1, 300).await;
    gateway.settle().await;
    assert!(small.iter().all(|sink| sink.report(false).refused.contains_key("too_large")));
    small.iter().for_each(|sink| sink.set_faults(faults(DOWN)));
    let spilled = async || gateway.scrape().await.get("weir_journal_spilled_bytes_total");
    let before = spilled().await;
    export(&gateway, 301, 300).await;
    eventually("it is in the journal", async || spilled().await > before).await;
    let written = spilled().await - before;
    assert!(written < 100_000.0, "{written} bytes");
    eventually("the healthy one has it", async || healthy.ids().len() == 600).await;
    let whole: Vec<_> = healthy.captured().iter().map(|request| payload::ids(&request.message).len()).collect();
    assert_eq!(whole, [300, 300]);
}

#[tokio::test]
async fn a_single_item_that_is_too_large_is_rejected_and_the_others_are_not() {
    let sink = sink(r#"{"max_request_bytes": 2000}"#).await;
    let gateway = Gateway::to(sink.grpc).await;
    let mut mixed = payload::request(1, 4, 10);
    mixed.resource_spans.extend(payload::request(5, 1, 5_000).resource_spans);
    mixed.resource_spans.extend(payload::request(6, 3, 10).resource_spans);
    let answer = gateway.client().await.export(&prost::Message::encode_to_vec(&mixed)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    // Others have to pass for the size to be the cause.
    let mut id = 100;
    eventually("it is found", async || {
        gateway.client().await.export(&payload::encoded(id, 1, 10)).await;
        id += 1;
        gateway.books("backend").rejected.contains_key("too_large")
    })
    .await;
    gateway.settle().await;
    let mixed: Vec<_> = arrived(&sink).into_iter().filter(|id| *id < 100).collect();
    assert_eq!(mixed, [1, 2, 3, 4, 6, 7, 8]);
    assert_eq!(gateway.books("backend").rejected["too_large"], 1);
}

#[tokio::test]
async fn a_partial_success_counts_what_was_rejected() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let backend = Backend::scripted(|_, _| Say::Partial(3)).await;
        let gateway = Gateway::start(through(output(backend.address, protocol))).await;
        export(&gateway, 1, 10).await;
        gateway.settle().await;
        let books = gateway.books("backend");
        assert_eq!((books.delivered, books.rejected["partial_success"]), (7, 3), "{protocol:?}");
        assert_eq!(backend.captured().len(), 1, "{protocol:?}: a partial success is never sent again");
        let page = http::get(gateway.at.admin, "/rejected").await;
        let samples: Value = serde_json::from_slice(&page.body).unwrap();
        assert_eq!((&samples[0]["code"], &samples[0]["items"]), (&json!("partial_success"), &json!(3)), "{samples}");
        let message = samples[0]["message"].as_str().unwrap();
        assert!(message.starts_with("3 of 10 items of this request, without a word which"), "{message}");
    }
}

/// A backend may say nonsense about how much it rejected.
#[tokio::test]
async fn a_partial_success_never_rejects_more_than_was_sent() {
    let backend = Backend::scripted(|number, _| Say::Partial([i64::MAX, -5, 0][number % 3])).await;
    let gateway = Gateway::to(backend.address).await;
    for first in [1, 11, 21] {
        export(&gateway, first, 10).await;
    }
    gateway.settle().await;
    let books = gateway.books("backend");
    assert_eq!((books.accepted, books.delivered, books.rejected["partial_success"]), (30, 20, 10));
}

/// Sending it again would not help the client: it gets OK, and the user sees the code in the metrics.
#[tokio::test]
async fn a_refusal_for_good_is_counted_by_its_code() {
    for (protocol, code, name) in
        [(Protocol::Grpc, 3, "INVALID_ARGUMENT"), (Protocol::Http, 400, "400"), (Protocol::Http, 422, "422")]
    {
        let script = move |_, request: &Captured| {
            if payload::ids(&request.message).contains(&5) { Say::Code(code, "no", None) } else { Say::Ok }
        };
        let backend = Backend::scripted(script).await;
        let gateway = Gateway::start(through(output(backend.address, protocol))).await;
        export(&gateway, 1, 10).await;
        // Others have to pass for the span to be the cause.
        let mut id = 100;
        eventually("it is found", async || {
            export(&gateway, id, 1).await;
            id += 1;
            gateway.books("backend").rejected.contains_key(name)
        })
        .await;
        gateway.settle().await;
        let (books, others) = (gateway.books("backend"), id - 100);
        assert_eq!((books.accepted - others, books.delivered - others, books.rejected[name]), (10, 9, 1));
        let metric =
            format!("weir_pipeline_rejected_items_total{{pipeline=\"backend\",signal=\"traces\",code=\"{name}\"}}");
        assert_eq!(gateway.scrape().await.get(&metric), 1.0);
    }
}

#[tokio::test]
async fn a_backend_that_was_out_of_reach_gets_everything_when_it_returns() {
    let sink = sink(r#"{"outage": ["0s..1000s"]}"#).await;
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let (address, first) = if protocol == Protocol::Grpc { (sink.grpc, 1) } else { (sink.http, 101) };
        sink.set_faults(faults(r#"{"outage": ["0s..1000s"]}"#));
        eventually("the port is closed", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
        let gateway = Gateway::start(through(output(address, protocol))).await;
        for batch in 0..10 {
            export(&gateway, first + batch * 10, 10).await;
        }
        assert_eq!(gateway.books("backend").pending, 100);
        sink.set_faults(faults("{}"));
        gateway.settle().await;
        assert_eq!(gateway.books("backend").delivered, 100);
    }
    assert_eq!(arrived(&sink), (1..=200).collect::<Vec<_>>());
    assert_eq!(sink.report(false).duplicates, 0);
}

/// What was merged for the backend arrives once each, and no request is larger than the limit.
#[tokio::test]
async fn batches_stay_within_the_byte_limit() {
    let sink = sink(r#"{"delay": "50ms:100"}"#).await;
    let batch_bytes = 200_000;
    let settings = weir_engine::Settings { batch_bytes, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let client = gateway.client().await;
    let mut bodies: Vec<_> = (0..40).map(|n| payload::encoded(1 + n * 100, 100, 900)).collect();
    // One request that is larger than a batch itself.
    bodies.push(payload::encoded(4001, 1000, 900));
    for answer in futures_util::future::join_all(bodies.iter().map(|body| client.export(body))).await {
        assert_eq!(answer.code, OK, "{answer:?}");
    }
    gateway.settle().await;
    let report = sink.report(false);
    assert_eq!((report.unique, report.duplicates), (5000, 0));
    assert!(report.largest_request_bytes <= batch_bytes as u64, "{report:?}");
    assert_eq!(gateway.books("backend").delivered, 5000);
}

#[tokio::test]
async fn a_backend_that_never_listened_holds_the_data() {
    let gateway = Gateway::to(closed_port().await).await;
    let started = Instant::now();
    export(&gateway, 1, 10).await;
    assert!(started.elapsed() >= weir_engine::settings::SPILL_AFTER, "the client waited for delivery first");
    let books = gateway.books("backend");
    assert_eq!((books.accepted, books.pending), (10, 10));
}

/// A wish beyond all reason parks one batch and harms nothing else.
#[tokio::test]
async fn a_hint_of_centuries_does_not_stop_the_pipeline() {
    for (protocol, code) in [(Protocol::Grpc, 14), (Protocol::Http, 503)] {
        let hint = Duration::from_secs(i64::MAX.unsigned_abs());
        let backend = Backend::scripted(
            move |number, _| {
                if number == 0 { Say::Code(code, "later", Some(hint)) } else { Say::Ok }
            },
        )
        .await;
        let gateway = Gateway::start(through(output(backend.address, protocol))).await;
        export(&gateway, 1, 1).await;
        export(&gateway, 2, 1).await;
        eventually("the second request is delivered", async || gateway.books("backend").delivered == 1).await;
        assert_eq!(gateway.books("backend").pending, 1, "{protocol:?}");
    }
}
