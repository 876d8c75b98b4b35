//! The asynchronous runtime of each subcommand, and the signals that end it.

use std::num::NonZero;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Builds a runtime for the cores this process may use: one core needs no thread pool and is faster without.
pub(crate) fn build() -> anyhow::Result<Runtime> {
    let mut builder = if cores() == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build().context("cannot start runtime")
}

/// How many cores this process may use, its affinity mask considered.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Completes at the first SIGINT or SIGTERM after it was called.
pub(crate) fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
    })
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn unix_nanos() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
