//! Limits of a backlog, in bytes and in age: what goes is the oldest, of this pipeline alone, and counted.

use weir_testkit::clients::send_all;
use weir_testkit::data_dir::DataDir;
use weir_testkit::metrics::{Scrape, whole};
use weir_testkit::sink::{DOWN, sink};

use crate::process::{Weir, manifest};

const LIMIT: u64 = 1 << 20;

/// Requests of some 20 KiB, twice of what the limit allows.
const REQUESTS: u64 = 100;

const PADDING: usize = 2000;

/// From the annotations of a resource to the journal.
#[tokio::test]
async fn annotations_set_the_limits() {
    let (dir, sick, healthy) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let annotations = "metadata:\n  annotations:\n    weir.dev/backlog-max-bytes: 1Mi\n    \
                       weir.dev/backlog-overflow: drop_oldest\n";
    let limited = manifest("sick", sick.grpc).replace("metadata:\n", annotations);
    let manifests = limited + &manifest("healthy", healthy.grpc);
    let weir = Weir::start(&manifests, &["--data-dir", dir.arg(), "--spill-after", "10ms"]).await;
    send_all(weir.grpc, 0..REQUESTS, PADDING).await;
    let scrape = Scrape::of(weir.metrics).await;
    assert_eq!(scrape.figure("weir_pipeline_backlog_limit_bytes", "sick"), LIMIT as f64);
    let dropped = "weir_pipeline_dropped_items_total{pipeline=\"sick\",signal=\"traces\",reason=\"backlog_full\"}";
    assert_eq!(whole(scrape.get(dropped)), scrape.books("sick").dropped);
    let logged = weir
        .logs()
        .into_iter()
        .find(|line| line["pipeline"] == "traces/sick" && line["level"] == "WARN" && line["items"].is_u64());
    assert!(logged.is_some_and(|line| line["message"].as_str().unwrap().contains("backlog-max-bytes")));
}
