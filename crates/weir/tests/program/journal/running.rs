//! While a gateway runs on the directory.

use rustix::process::Signal;
use serde_json::Value;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::metrics::Scrape;
use weir_testkit::payload;
use weir_testkit::sink::{arrived, sink};

use super::directory::weir;
use crate::process::{Weir, manifest};

/// What a gateway has acknowledged and no backend has taken is exported, and delivered all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_seen_and_nothing_is_disturbed() {
    let dir = tempfile::tempdir().unwrap();
    let backend = sink(r#"{"fault": ["503:100"]}"#).await;
    let arguments = ["--data-dir", dir.path().to_str().unwrap(), "--spill-after", "5ms"];
    let gateway = Weir::start(&manifest("backend", backend.grpc), &arguments).await;
    let client = Grpc::connect(gateway.grpc).await;
    for request in 0..20 {
        let answer = client.export(&payload::encoded(request * 10 + 1, 10, 100)).await;
        assert_eq!(answer.code, OK, "{answer:?}");
    }

    let path = dir.path().to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        ["inspect", "verify", "export"].map(|verb| {
            let arguments: &[&str] = match verb {
                "inspect" => &["--format", "json"],
                "export" => &["--pipeline", "backend"],
                _ => &[],
            };
            weir(verb, &path, arguments)
        })
    });
    let [inspect, verify, export] = ended.await.unwrap();
    for ended in [&inspect, &verify, &export] {
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let report: Value = serde_json::from_slice(&inspect.out).unwrap();
    assert_eq!(
        (&report["pipelines"][0]["name"], &report["pipelines"][0]["items"]),
        (&"traces/backend".into(), &200.into())
    );
    let spans = export.text().matches("\"spanId\"").count();
    assert_eq!(spans, 200);

    backend.set_faults(weir_testkit::sink::faults("{}"));
    Scrape::settled(gateway.metrics, "backend").await;
    assert_eq!(arrived(&backend), (1..=200).collect::<Vec<u64>>());
}

/// A gateway that ends in good order says how far its journal goes: no byte of it can rot unnoticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_after_a_stop_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let backend = sink(r#"{"fault": ["503:100"]}"#).await;
    let arguments = ["--data-dir", dir.path().to_str().unwrap(), "--spill-after", "5ms"];
    let mut gateway = Weir::start(&manifest("backend", backend.grpc), &arguments).await;
    let client = Grpc::connect(gateway.grpc).await;
    for request in 0..3 {
        let answer = client.export(&payload::encoded(request * 10 + 1, 10, 100)).await;
        assert_eq!(answer.code, OK, "{answer:?}");
    }
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().await.code(), Some(0));
    let segment = dir.path().join("journal/0000000000000001.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    let last = bytes.len() - 16;
    bytes[last] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let verify = weir("verify", dir.path(), &[]);
    assert_eq!(verify.code, Some(1), "{verify:?}");
    assert!(verify.text().contains("1 entry, 10 items") && !verify.text().contains("note:"), "{verify:?}");
}
