//! What backends see that struggle, ask for time, are away, or come back.

use serde_json::Value;
use weir_testkit::clients::{SPANS, ids, send_all, send_singly};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{DOWN, arrived, closed_port, faults, sink};

use crate::process::{Weir, manifest};

/// What is wrong with a backend is told in the log: no such host, nobody listens, no TLS.
#[tokio::test]
async fn reasons_for_not_reaching_a_backend_are_told_apart() {
    let (dir, plain, closed) = (DataDir::new(), sink("{}").await, closed_port().await);
    let at = |name, host: &str| manifest(name, closed).replace(&format!("http://{closed}"), host);
    let manifests = at("nowhere", "http://no-such-host.invalid:4317")
        + &manifest("closed", closed)
        + &at("plain", &format!("https://{}", plain.grpc));
    let weir = Weir::start(&manifests, &["--data-dir", dir.arg(), "--spill-after", "10ms"]).await;
    send_all(weir.grpc, 0..3, 100).await;
    for (pipeline, reason) in [("nowhere", "dns"), ("closed", "refused"), ("plain", "invalid")] {
        let logged = || {
            let of_pipeline =
                |line: &Value| line["pipeline"] == format!("traces/{pipeline}") && line["cause"].is_string();
            weir.logs().into_iter().find(of_pipeline)
        };
        eventually("it is logged", async || logged().is_some()).await;
        let logged = logged().unwrap();
        assert!(logged["message"].as_str().unwrap().contains("cannot be reached"), "{logged}");
        assert!(logged["cause"].as_str().unwrap().to_lowercase().contains(reason), "{logged}");
    }
    let scrape = Scrape::of(weir.metrics).await;
    for pipeline in ["nowhere", "closed", "plain"] {
        assert_eq!(scrape.books(pipeline).pending, 3 * SPANS, "{pipeline}");
    }
}

/// A backend that is away costs one line in the log, and one when it is back.
#[tokio::test]
async fn an_outage_is_told_once_and_so_is_its_end() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let weir = Weir::start(&manifest("backend", sink.grpc), &["--data-dir", dir.arg(), "--spill-after", "10ms"]).await;
    send_singly(weir.grpc, 0..50, 100).await;
    sink.set_faults(faults("{}"));
    eventually("everything arrives", async || arrived(&sink) == ids(0..50)).await;
    let logged = |message: &str| {
        let lines = weir.logs().into_iter();
        lines.filter(|line| line["message"].as_str().unwrap().contains(message)).count()
    };
    eventually("its end is logged", async || logged("can be reached again") == 1).await;
    assert_eq!(logged("cannot be reached"), 1, "{:?}", weir.logs());
}
