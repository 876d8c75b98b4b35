//! Conversion to delta over the end of a process.

use crate::data_dir::DataDir;
use crate::support::backend::Backend;
use crate::support::eventually;
use crate::support::grpc::{Grpc, OK, frame};
use crate::support::process::{Weir, manifest};
use crate::support::signals::{counter, deltas};

async fn count(weir: &Weir, second: u64, value: i64) {
    let path = weir_plan::Signal::Metrics.grpc_method();
    let answer = Grpc::connect(weir.grpc).await.call(path, None, frame(&counter(second, value), false)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
}

#[tokio::test]
async fn an_orderly_stop_remembers_every_series_and_a_kill_none() {
    let (dir, backend) = (DataDir::new(), Backend::start().await);
    let manifest = manifest("backend", backend.address)
        .replace("TracePipeline", "MetricPipeline")
        .replace("    otlp:\n", "    otlp:\n      temporality: delta\n");
    let start = async || Weir::start(&manifest, &["--data-dir", dir.arg()]).await;
    let arrived = || -> Vec<i64> {
        backend.captured().iter().flat_map(|request| deltas(&request.plain)).map(|(_, value)| value).collect()
    };

    let mut weir = start().await;
    count(&weir, 1, 10).await;
    count(&weir, 2, 15).await;
    eventually("the first delta arrives", async || arrived() == [5]).await;
    weir.signal(rustix::process::Signal::TERM);
    assert!(weir.wait().await.success());

    let weir = start().await;
    count(&weir, 3, 22).await;
    eventually("counting went on", async || arrived() == [5, 7]).await;
    weir.kill().await;

    let weir = start().await;
    count(&weir, 4, 30).await;
    count(&weir, 5, 31).await;
    eventually("counting begins anew", async || arrived() == [5, 7, 1]).await;
    drop(weir);
}
