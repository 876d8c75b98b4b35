//! What the tests share: clients, backends, gateways, and waiting for a condition.

pub(crate) mod backend;
pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod json;
pub(crate) mod manifests;
pub(crate) mod metrics;
pub(crate) mod payload;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod tls;

use std::io::Write;
use std::time::Duration;

use tokio::time::Instant;

/// Long enough for a busy machine; a condition that never comes true fails by then.
const PATIENCE: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(10);

/// Waits until `condition` holds; fails with `what` when it never does.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut ticks = tokio::time::interval(INTERVAL);
    while !condition().await {
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        ticks.tick().await;
    }
}

/// Says that something could not be tested here. Not captured by the test harness, because it must not go unnoticed.
pub(crate) fn warn(what: &str) {
    std::io::stderr().write_all(format!("\nwarning: {what}\n").as_bytes()).unwrap();
}

/// The result of `future`, which must not take forever.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("did not end in time: {what}"),
    }
}
