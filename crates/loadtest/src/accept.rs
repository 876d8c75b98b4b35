//! Accepting connections, also while the process may open no more files.

use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

/// How long until accepting is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// Time between two log lines.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// The next connection. `told`: when the log last said that there is none.
pub(crate) async fn next(listener: &TcpListener, told: &mut Option<Instant>) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
                    *told = Some(Instant::now());
                    tracing::warn!(%error, "cannot accept a connection (ulimit -n says how many files may be open)");
                }
                sleep(PAUSE).await;
            }
        }
    }
}
