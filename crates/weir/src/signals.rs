//! The signals that end the program.

use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// A signal that comes this soon after another means the same: terminals, supervisors and timeout(1) signal a process
/// and then its group.
const ECHO: Duration = Duration::from_secs(1);

/// The signals that end the program.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    heard: Option<Instant>,
    /// One that nobody has acted on.
    kept: bool,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let (terminate, interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        // A file that must not grow is a disk that is full. Unheard, this signal would end the process before the error is seen.
        drop(listen(SignalKind::from_raw(libc::SIGXFSZ))?);
        Ok(Self { terminate, interrupt, heard: None, kept: false })
    }

    /// The next signal that is no echo of the one before. May be dropped and called again.
    pub(crate) async fn next(&mut self) {
        if !std::mem::take(&mut self.kept) {
            self.another().await;
        }
    }

    /// The second signal from now on. The first is kept for `next`.
    pub(crate) async fn second(&mut self) {
        self.next().await;
        self.kept = true;
        self.another().await;
    }

    async fn another(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if self.heard.is_none_or(|heard| heard.elapsed() >= ECHO) {
                self.heard = Some(Instant::now());
                return;
            }
        }
    }
}
