//! What the metrics say of a backlog on disk.

use std::time::Duration;

use weir_engine::Settings;

use crate::clients::{ids, request, send_singly};
use crate::data_dir::DataDir;
use crate::support::eventually;
use crate::support::gateway::{DOWN, Gateway, arrived, faults, pipeline, sink};

const QUEUE: &str = "{exporter=\"otlp_grpc/tracepipeline-backend\",data_type=\"traces\"}";
/// More than travels in one request to the backend.
const REQUESTS: u64 = 8;
const PADDING: usize = 100_000;

async fn start(dir: &DataDir, backend: std::net::SocketAddr) -> Gateway {
    let settings = Settings { spill_after: Duration::from_millis(5), ..dir.settings().await };
    Gateway::with(vec![pipeline("backend", backend)], settings).await
}

#[tokio::test]
async fn what_is_on_disk_counts_as_queued_and_pending_once() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let gateway = start(&dir, sink.grpc).await;
    send_singly(gateway.at.grpc, 0..REQUESTS, PADDING).await;
    let bytes = (0..REQUESTS).map(|number| request(number, PADDING).len()).sum::<usize>() as f64;
    eventually("nothing waits in memory alone", async || {
        let scrape = gateway.scrape().await;
        let sizes = [
            scrape.figure("weir_pipeline_backlog_bytes", "backend"),
            scrape.figure("weir_pipeline_pending_bytes", "backend"),
            scrape.get(&format!("otelcol_exporter_queue_size{QUEUE}")),
        ];
        sizes == [bytes; 3]
    })
    .await;
    let scrape = gateway.scrape().await;
    let limit = scrape.figure("weir_pipeline_backlog_limit_bytes", "backend");
    assert_eq!(limit, weir_plan::Backlog::default().max_bytes as f64);
    assert_eq!(scrape.get(&format!("otelcol_exporter_queue_capacity{QUEUE}")), limit);

    sink.set_faults(faults("{}"));
    gateway.settle().await;
    assert_eq!(arrived(&sink), ids(0..REQUESTS));
    eventually("nothing is left", async || {
        let scrape = gateway.scrape().await;
        scrape.get(&format!("otelcol_exporter_queue_size{QUEUE}")) == 0.0
            && scrape.figure("weir_pipeline_pending_bytes", "backend") == 0.0
    })
    .await;
}

/// What was read back has not become younger.
#[tokio::test]
async fn the_oldest_item_may_be_on_disk() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let gateway = start(&dir, sink.grpc).await;
    send_singly(gateway.at.grpc, 0..1, 100).await;
    eventually("it has a certain age", async || {
        gateway.scrape().await.figure("weir_pipeline_backlog_oldest_age_seconds", "backend") > 3.0
    })
    .await;
    gateway.stop().await;
    let gateway = start(&dir, sink.grpc).await;
    let scrape = gateway.scrape().await;
    assert!(scrape.figure("weir_pipeline_oldest_age_seconds", "backend") > 3.0);
    sink.set_faults(faults("{}"));
    gateway.settle().await;
    eventually("nothing is left", async || {
        gateway.scrape().await.figure("weir_pipeline_oldest_age_seconds", "backend") == 0.0
    })
    .await;
}
