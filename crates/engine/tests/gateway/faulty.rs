//! A pipeline that cannot be set up as it is planned, whatever is found out before: the others do not notice.

use weir_engine::Settings;
use weir_plan::{Filter, Identity, Pipeline, Plan, Tls};
use weir_testkit::clients::{SPANS, ids, send_all};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::sink::{arrived, sink};
use weir_testkit::tls::Authority;

use crate::support::{Gateway, on_disk, pipeline, traces};

const FAILED: &str = "weir_pipeline_setup_failed{pipeline=\"faulty\",signal=\"traces\"}";

fn plan(pipelines: Vec<Pipeline>) -> Plan {
    Plan { pipelines, ..Plan::default() }
}

/// The same pipeline with a client certificate and a key that is not its own.
fn unusable(mut pipeline: Pipeline) -> Pipeline {
    let (cert_pem, key_pem) = (Authority::new().identity().cert_pem, Authority::new().identity().key_pem);
    pipeline.output.tls = Some(Tls { identity: Some(Identity { cert_pem, key_pem }), ..Tls::default() });
    pipeline
}

async fn is_faulty(gateway: &Gateway) -> (bool, bool) {
    let scrape = gateway.scrape().await;
    (scrape.get(FAILED) == 1.0, scrape.get("weir_config_last_reload_successful") == 0.0)
}

/// Its data waits like that of a backend that is away, on disk or in memory, until it is corrected.
#[tokio::test]
async fn without_a_backend_from_the_start() {
    for with_journal in [true, false] {
        let (dir, first, well) = (DataDir::new(), sink("{}").await, sink("{}").await);
        let settings = on_disk(&dir).await;
        let settings = if with_journal { settings } else { Settings { journal: None, ..settings } };
        let good = || vec![pipeline("faulty", first.grpc), pipeline("well", well.grpc)];
        let mut gateway = Gateway::with(vec![unusable(good().remove(0)), good().remove(1)], settings).await;
        send_all(gateway.at.grpc, 0..10, 10).await;
        eventually("the other has everything", async || arrived(&well) == ids(0..10)).await;
        let books = gateway.books("faulty");
        assert_eq!((books.accepted, books.pending), (10 * SPANS, 10 * SPANS), "{books:?}");
        assert_eq!(is_faulty(&gateway).await, (true, true));
        let changes = gateway.engine.reload(&plan(good())).unwrap();
        assert_eq!((changes.changed.as_slice(), changes.faults.as_slice()), (&[traces("faulty")][..], &[][..]));
        gateway.settle().await;
        assert_eq!(arrived(&first), ids(0..10));
        assert_eq!(is_faulty(&gateway).await, (false, false));
        gateway.stop().await;
    }
}

/// It goes on with the backend it has, and what else the change is about takes effect.
#[tokio::test]
async fn without_a_new_backend() {
    let (old, new, other) = (sink("{}").await, sink("{}").await, sink("{}").await);
    let mut gateway = Gateway::start(vec![pipeline("faulty", old.grpc)]).await;
    let faulty = plan(vec![unusable(pipeline("faulty", new.grpc)), pipeline("other", other.grpc)]);
    // Again and again, as when files are read once a day.
    for _ in 0..2 {
        let changes = gateway.engine.reload(&faulty).unwrap();
        assert_eq!(changes.faults.len(), 1, "{changes:?}");
        assert_eq!(changes.faults[0].pipeline, traces("faulty"));
        assert!(changes.faults[0].cause.contains("do not match"), "{changes:?}");
    }
    send_all(gateway.at.grpc, 0..10, 10).await;
    gateway.settle().await;
    assert_eq!((arrived(&old), arrived(&new), arrived(&other)), (ids(0..10), vec![], ids(0..10)));
    assert_eq!(is_faulty(&gateway).await, (true, true));
    let corrected = plan(vec![pipeline("faulty", new.grpc), pipeline("other", other.grpc)]);
    assert!(gateway.engine.reload(&corrected).unwrap().faults.is_empty());
    send_all(gateway.at.grpc, 10..20, 10).await;
    gateway.settle().await;
    assert_eq!((arrived(&old), arrived(&new), arrived(&other)), (ids(0..10), ids(10..20), ids(0..20)));
    assert_eq!(is_faulty(&gateway).await, (false, false));
}

/// Each has its own cause, and what watches the process is told of all.
#[tokio::test]
async fn each_pipeline_has_its_cause() {
    let backend = sink("{}").await;
    let bad = |name: &str, condition: &str| {
        let mut pipeline = pipeline(name, backend.grpc);
        pipeline.processing.filters = vec![Filter { conditions: vec![condition.to_owned()] }];
        pipeline
    };
    let both = unusable(bad("both", "no condition"));
    let pipelines = vec![bad("rules", "nor this"), both, pipeline("well", backend.grpc)];
    let mut gateway = Gateway::start(pipelines).await;
    let snapshot = gateway.engine.view().snapshot().unwrap();
    let causes: Vec<_> = snapshot.pipelines.iter().map(|of| of.setup_error.clone().unwrap_or_default()).collect();
    let [rules, both, well] = &causes[..] else { panic!("{causes:?}") };
    assert!(rules.contains("nor this") && !rules.contains("do not match"), "{rules}");
    assert!(both.contains("no condition") && both.contains("do not match"), "{both}");
    assert_eq!(well, "");
    let error = snapshot.reloads.error.clone().unwrap();
    assert!(error.contains("traces/rules") && error.contains("traces/both"), "{error}");
    assert_eq!(gateway.engine.faults().len(), 2);
    assert!(gateway.engine.reload(&plan(vec![pipeline("rules", backend.grpc)])).unwrap().faults.is_empty());
    assert_eq!(gateway.engine.faults(), []);
    gateway.stop().await;
}

/// What it would have left out must not reach its backend: without rules from the start, it takes nothing.
#[tokio::test]
async fn without_rules() {
    let (first, well) = (sink("{}").await, sink("{}").await);
    let with = |condition: &str| {
        let mut pipeline = pipeline("faulty", first.grpc);
        pipeline.processing.filters = vec![Filter { conditions: vec![condition.to_owned()] }];
        vec![pipeline, self::pipeline("well", well.grpc)]
    };
    let mut gateway = Gateway::start(with("no condition")).await;
    assert_eq!(gateway.engine.reload(&plan(with("no condition"))).unwrap().faults.len(), 1, "it is tried again");
    send_all(gateway.at.grpc, 0..10, 10).await;
    gateway.settle().await;
    assert_eq!((arrived(&first), arrived(&well)), (vec![], ids(0..10)));
    assert_eq!(gateway.books("faulty").accepted, 0);
    assert_eq!(is_faulty(&gateway).await, (true, true));

    assert!(gateway.engine.reload(&plan(with("span.name == \"none has this\""))).unwrap().faults.is_empty());
    send_all(gateway.at.grpc, 10..20, 10).await;
    // It goes on with the rules it has.
    assert_eq!(gateway.engine.reload(&plan(with("no condition"))).unwrap().faults.len(), 1);
    send_all(gateway.at.grpc, 20..30, 10).await;
    gateway.settle().await;
    assert_eq!((arrived(&first), arrived(&well)), (ids(10..30), ids(0..30)));
}
