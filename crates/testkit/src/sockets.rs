//! What tests with real sockets share: clients and backends, what they send, what a gateway says of itself, and waiting
//! for a condition.

#![expect(clippy::unwrap_used, reason = "what fails here is to fail the test")]

pub mod backend;
pub mod clients;
pub mod data_dir;
pub mod grpc;
pub mod http;
pub mod json;
pub mod manifests;
pub mod metrics;
pub mod payload;
pub mod poison;
pub mod signals;
pub mod sink;
pub mod tls;
pub mod tokens;

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Long enough for a busy machine. A condition that never comes true has failed by then.
const PATIENCE: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(10);

/// Waits until `condition` holds; fails with `what` when it never does. Looks again after as long as a look takes at
/// least: what is waited for may run on the same thread.
pub async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    eventually_or(|| what.to_owned(), condition).await;
}

/// The same; what is said of a failure may depend on what was seen last.
pub async fn eventually_or(failure: impl Fn() -> String, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let began = Instant::now();
        if condition().await {
            return;
        }
        assert!(Instant::now() < deadline, "did not happen in time: {}", failure());
        sleep(INTERVAL.max(began.elapsed())).await;
    }
}

/// The result of `future`, which must not take forever.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("did not end in time: {what}"),
    }
}
