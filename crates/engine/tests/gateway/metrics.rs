//! What Prometheus reads: the names dashboards of the field know, and books that balance in every scrape.

use weir_testkit::grpc::{INVALID_ARGUMENT, OK};
use weir_testkit::http::{self, PROTOBUF};
use weir_testkit::payload;
use weir_testkit::sink::{closed_port, sink};

use crate::support::{Gateway, pipeline};

#[tokio::test]
async fn the_names_and_values_of_a_known_traffic() {
    let sink = sink("{}").await;
    let gateway = Gateway::start(vec![pipeline("ok", sink.grpc), pipeline("dead", closed_port().await)]).await;
    let client = gateway.client().await;
    assert_eq!(client.export(&payload::encoded(1, 7, 10)).await.code, OK);
    assert_eq!(http::post(gateway.at.http, PROTOBUF, None, &payload::encoded(8, 5, 10)).await.status, 200);
    assert_eq!(client.export(b"\xff").await.code, INVALID_ARGUMENT);
    let bytes = (payload::encoded(1, 7, 10).len() + payload::encoded(8, 5, 10).len()) as f64;
    let scrape = gateway.scrape().await;
    let (sent, dead) = ("exporter=\"otlp_grpc/tracepipeline-ok\"", "exporter=\"otlp_grpc/tracepipeline-dead\"");
    for (sample, expected) in [
        ("otelcol_receiver_accepted_spans_total{receiver=\"otlp\",transport=\"grpc\"}".to_owned(), 7.0),
        ("otelcol_receiver_accepted_spans_total{receiver=\"otlp\",transport=\"http\"}".to_owned(), 5.0),
        ("otelcol_receiver_refused_spans_total{receiver=\"otlp\",transport=\"grpc\"}".to_owned(), 0.0),
        (format!("otelcol_exporter_sent_spans_total{{{sent}}}"), 12.0),
        (format!("otelcol_exporter_sent_spans_total{{{dead}}}"), 0.0),
        (format!("otelcol_exporter_send_failed_spans_total{{{sent}}}"), 0.0),
        (format!("otelcol_exporter_enqueue_failed_spans_total{{{dead}}}"), 0.0),
        (format!("otelcol_exporter_queue_size{{{sent},data_type=\"traces\"}}"), 0.0),
        (format!("otelcol_exporter_queue_size{{{dead},data_type=\"traces\"}}"), bytes),
        (format!("otelcol_exporter_in_flight_requests{{{sent},data_type=\"traces\"}}"), 0.0),
        ("weir_pipeline_pending_items{pipeline=\"dead\",signal=\"traces\"}".to_owned(), 12.0),
        ("weir_pipeline_held_bytes{pipeline=\"dead\",signal=\"traces\"}".to_owned(), bytes + 2.0 * 1024.0),
        ("weir_pipeline_accepted_bytes_total{pipeline=\"ok\",signal=\"traces\"}".to_owned(), bytes),
        ("weir_pipeline_delivered_bytes_total{pipeline=\"ok\",signal=\"traces\"}".to_owned(), bytes),
        ("weir_pipeline_accepted_bytes_total{pipeline=\"dead\",signal=\"traces\"}".to_owned(), bytes),
        ("weir_pipeline_delivered_bytes_total{pipeline=\"dead\",signal=\"traces\"}".to_owned(), 0.0),
        ("weir_receiver_refused_requests_total{transport=\"grpc\",reason=\"malformed\"}".to_owned(), 1.0),
        ("weir_receiver_answer_seconds_count{transport=\"grpc\",signal=\"traces\"}".to_owned(), 2.0),
        ("weir_receiver_answer_seconds_bucket{le=\"+Inf\",transport=\"grpc\",signal=\"traces\"}".to_owned(), 2.0),
        ("weir_receiver_answer_seconds_count{transport=\"http\",signal=\"traces\"}".to_owned(), 1.0),
        ("weir_receiver_answer_seconds_count{transport=\"http\",signal=\"logs\"}".to_owned(), 0.0),
        ("weir_books_mismatches_total{pipeline=\"ok\",signal=\"traces\"}".to_owned(), 0.0),
        ("weir_receiver_connections".to_owned(), 1.0),
    ] {
        assert_eq!(scrape.get(&sample), expected, "{sample}");
    }
    assert!(scrape.get(&format!("otelcol_exporter_queue_capacity{{{dead},data_type=\"traces\"}}")) > bytes);
    assert!(scrape.get("weir_pipeline_oldest_age_seconds{pipeline=\"dead\",signal=\"traces\"}") > 0.0);
    let answered = scrape.get("weir_receiver_answer_seconds_sum{transport=\"http\",signal=\"traces\"}");
    assert!(answered > 0.0, "time has passed: {answered}");
    assert!(scrape.get("weir_memory_used_bytes") >= bytes, "held data is paid for");
    assert!(scrape.get("weir_memory_budget_bytes") > 0.0);
    assert!(scrape.get("otelcol_process_memory_rss") > 1e6);
    assert!(scrape.get("otelcol_process_cpu_seconds_total") >= 0.0);
    assert!(scrape.get("otelcol_process_uptime_seconds_total") > 0.0, "time has passed");
}

#[tokio::test]
async fn only_metrics_are_served_and_only_by_get() {
    let gateway = Gateway::to(closed_port().await).await;
    assert_eq!(http::get(gateway.at.metrics, "/").await.status, 404);
    let post = http::head("POST", "/metrics", "text/plain", "content-length: 0\r\n");
    let refused = http::exchange(gateway.at.metrics, &post).await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_books_balance_in_every_scrape_under_load() {
    let flaky = sink(r#"{"fault": ["503:20", "400:10"], "partial": 10, "delay": "20ms:20"}"#).await;
    let steady = sink("{}").await;
    let pipelines = vec![pipeline("flaky", flaky.grpc), pipeline("steady", steady.grpc)];
    let gateway = Gateway::start(pipelines).await;
    let load = (0..4).map(|worker| {
        let address = gateway.at.grpc;
        tokio::spawn(async move {
            let client = weir_testkit::grpc::Grpc::connect(address).await;
            for request in 0..100 {
                let first = 1 + (worker * 100 + request) * 20;
                assert_eq!(client.export(&payload::encoded(first, 20, 100)).await.code, OK);
            }
        })
    });
    let load = tokio::spawn(futures_util::future::join_all(load.collect::<Vec<_>>()));
    let mut scrapes = 0;
    while !load.is_finished() || scrapes == 0 {
        let scrape = gateway.scrape().await;
        scrape.books("flaky");
        scrape.books("steady");
        let snapshot = gateway.engine.view().snapshot().unwrap();
        assert!(snapshot.pipelines.iter().all(|pipeline| pipeline.books.balanced()), "{snapshot:?}");
        scrapes += 1;
    }
    for worker in load.await.unwrap() {
        worker.unwrap();
    }
    gateway.settle().await;
    let books = gateway.books("flaky");
    assert_eq!(books.accepted, 8_000);
    // What was refused as invalid was sent again in parts, of which hardly any were refused to the end.
    assert!(books.rejected["partial_success"] > 0, "{books:?}");
    // What the books call delivered is what the backend recorded.
    let report = flaky.report(false);
    assert_eq!((report.unique, report.partial_rejected), (books.delivered, books.rejected["partial_success"]));
    assert_eq!(gateway.books("steady").delivered, 8_000);
}
