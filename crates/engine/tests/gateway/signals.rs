//! Traces, metrics and logs go the same way: what a client sends is what its backend gets, byte by byte where nothing is
//! to be changed.

use serde_json::json;
use weir_plan::{Pipeline, Protocol, Signal};
use weir_testkit::backend::{Backend, Say};
use weir_testkit::eventually;
use weir_testkit::grpc::{OK, frame};
use weir_testkit::http::{self, JSON, PROTOBUF};
use weir_testkit::manifests::{self, plain, with};
use weir_testkit::metrics::whole;
use weir_testkit::signals::{encoded, items};

use crate::support::{Gateway, output, settings};

fn to(signal: Signal, backend: &Backend, protocol: Protocol) -> Pipeline {
    let mut output = output(backend.address, protocol);
    if protocol == Protocol::Http {
        output.endpoint.path = signal.http_path().into();
    }
    Pipeline::new(signal, "backend", output)
}

pub(crate) fn all_to(backends: &[Backend; 3], protocol: Protocol) -> Vec<Pipeline> {
    Signal::ALL.iter().zip(backends).map(|(signal, backend)| to(*signal, backend, protocol)).collect()
}

pub(crate) async fn backends() -> [Backend; 3] {
    [Backend::start().await, Backend::start().await, Backend::start().await]
}

/// The items of all requests that arrived.
fn arrived(signal: Signal, backend: &Backend) -> u64 {
    backend.captured().iter().map(|request| items(signal, &request.plain)).sum()
}

/// Clocks of clients differ.
#[tokio::test]
async fn times_of_the_past_and_of_the_future_arrive_as_they_were() {
    const CENTURIES: u64 = 6_000_000_000_000_000_000;
    let backends = backends().await;
    let gateway = Gateway::start(all_to(&backends, Protocol::Grpc)).await;
    for (signal, backend) in Signal::ALL.into_iter().zip(&backends) {
        // The number of an item is a part of its time.
        for (before, first) in [1, CENTURIES].into_iter().enumerate() {
            let request = encoded(signal, &[("service.name", "shop")], first..first + 3);
            let answer = gateway.client().await.call(signal.grpc_method(), None, frame(&request, false)).await;
            assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
            eventually("it arrives", async || backend.captured().len() > before).await;
            assert_eq!(backend.captured()[before].plain, request, "{signal:?} from {first}");
        }
    }
}

/// Pipelines of the same name for different signals have nothing in common.
#[tokio::test]
async fn each_signal_goes_to_its_pipelines_unchanged() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let backends = backends().await;
        let gateway = Gateway::start(all_to(&backends, protocol)).await;
        for (signal, backend) in Signal::ALL.into_iter().zip(&backends) {
            let request = encoded(signal, &[("service.name", "shop")], 1..20);
            let answer = gateway.client().await.call(signal.grpc_method(), None, frame(&request, false)).await;
            assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
            eventually("it arrives", async || !backend.captured().is_empty()).await;
            let captured = &backend.captured()[0];
            assert_eq!(captured.plain, request, "{signal:?}: the same bytes");
            let path = if protocol == Protocol::Grpc { signal.grpc_method() } else { signal.http_path() };
            assert_eq!(captured.path, path);

            let json = weir_otlp::to_json(signal, &request, &weir_otlp::Limits::default()).unwrap().text;
            for (content_type, body) in [(PROTOBUF, &request), (JSON, &json)] {
                let answer = http::post_to(gateway.at.http, signal.http_path(), content_type, body).await;
                assert_eq!(answer.status, 200, "{signal:?} {content_type}: {answer:?}");
            }
            let all = 3 * items(signal, &request);
            eventually("everything arrives", async || arrived(signal, backend) == all).await;
            let name = match signal {
                Signal::Traces => "spans",
                Signal::Metrics => "metric_points",
                Signal::Logs => "log_records",
            };
            let page = gateway.scrape().await;
            let accepted = ["grpc", "http"].map(|transport| {
                whole(page.get(&format!(
                    "otelcol_receiver_accepted_{name}_total{{receiver=\"otlp\",transport=\"{transport}\"}}"
                )))
            });
            assert_eq!(accepted, [all / 3, all / 3 * 2], "{signal:?}");
            let sent = format!("otelcol_exporter_sent_{name}_total");
            assert_eq!(
                whole(page.sum(&sent, &format!("{}pipeline-backend", &signal.name()[..signal.name().len() - 1]))),
                all
            );
        }
        gateway.settle().await;
    }
}

/// A backend that only takes small requests gets metrics in pieces: a point at a time if need be.
#[tokio::test]
async fn what_is_too_large_is_halved_down_to_the_item() {
    for signal in Signal::ALL {
        let backend =
            Backend::scripted(
                |_, request| {
                    if request.plain.len() > 500 { Say::Code(413, "too large", None) } else { Say::Ok }
                },
            )
            .await;
        let gateway = Gateway::start(vec![to(signal, &backend, Protocol::Http)]).await;
        let request = encoded(signal, &[("service.name", "shop")], 1..9);
        let answer = gateway.client().await.call(signal.grpc_method(), None, frame(&request, false)).await;
        assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
        let taken = || -> u64 {
            let captured = backend.captured();
            captured.iter().filter(|request| request.taken).map(|request| items(signal, &request.plain)).sum()
        };
        eventually("all items are taken", async || taken() == items(signal, &request)).await;
        gateway.settle().await;
    }
}

#[tokio::test]
async fn bytes_of_another_signal_are_refused() {
    let backends = backends().await;
    let gateway = Gateway::start(all_to(&backends, Protocol::Grpc)).await;
    for signal in Signal::ALL {
        let json = br#"{"resourceSpans": 7, "resourceMetrics": 7, "resourceLogs": 7}"#;
        let answer = http::post_to(gateway.at.http, signal.http_path(), JSON, json).await;
        assert_eq!(answer.status, 400, "{signal:?}: {answer:?}");
        let answer = http::post_to(gateway.at.http, signal.http_path(), PROTOBUF, b"\x0a\x03\x12\x01").await;
        assert_eq!(answer.status, 400, "{signal:?}: {answer:?}");
    }
    assert!(backends.iter().all(|backend| backend.captured().is_empty()));
}

/// `path` takes the place of the signal's; the endpoint's own path comes before either.
#[tokio::test]
async fn a_path_takes_the_place_of_the_one_of_the_signal() {
    for signal in Signal::ALL {
        let own = format!("/api{}", signal.http_path());
        let cases = [("", json!({}), signal.http_path()), ("/api", json!({}), &own)];
        let replaced = json!({"path": "/in/v2"});
        let cases = cases.into_iter().chain([("", replaced.clone(), "/in/v2"), ("/api/", replaced, "/api/in/v2")]);
        for (base, path, expected) in cases {
            let backend = Backend::start().await;
            let endpoint = json!({"endpoint": {"value": format!("http://{}{base}", backend.address)}});
            let output = with(with(plain("http", backend.address), endpoint), path);
            let gateway = Gateway::configured(&manifests::pipeline(signal, "backend", &output), settings()).await;
            let request = encoded(signal, &[("service.name", "shop")], 1..3);
            let answer = gateway.client().await.call(signal.grpc_method(), None, frame(&request, false)).await;
            assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
            gateway.settle().await;
            let captured = backend.captured();
            assert_eq!((captured.len(), captured[0].path.as_str()), (1, expected), "{signal:?}");
            assert_eq!(captured[0].plain, request, "{signal:?}");
        }
    }
}
