//! How the backends stand, for the user to look at: the state of each, since when, and its own words, as JSON.

use std::io::Write;

use bytes::Bytes;
use serde::Serialize;

use crate::budget::{Budget, Text};
use crate::intake::Intake;
use crate::pipeline::{Pipeline, Standing};

#[derive(Debug, Serialize)]
struct Backend<'a> {
    pipeline: &'a str,
    signal: &'static str,
    /// `ok`, `failing`, `silent`, `unreachable` or `refused`.
    state: &'static str,
    /// gRPC status name or HTTP status of a refusal.
    code: &'a str,
    message: &'a str,
    /// For how long it has been in this state.
    seconds: u64,
    pending_items: u64,
    pending_bytes: u64,
}

/// One JSON document, paid for. `None` when there is no room for it.
pub(crate) fn render(intake: &Intake, budget: &Budget) -> Option<Bytes> {
    let pipelines = intake.pipelines();
    let standings: Vec<(&Pipeline, Standing)> =
        pipelines.iter().map(|pipeline| (&**pipeline, pipeline.stats.backend.read())).collect();
    let backends = standings.iter().map(|(pipeline, standing)| Backend {
        pipeline: pipeline.name(),
        signal: pipeline.signal().name(),
        state: standing.state.as_str(),
        code: &standing.code,
        message: &standing.message,
        seconds: standing.since.elapsed().as_secs(),
        pending_items: pipeline.account.books.figures().pending,
        pending_bytes: pipeline.pending_bytes(),
    });
    let mut document = Text::new(budget)?;
    serde_json::to_writer_pretty(&mut document, &backends.collect::<Vec<_>>()).ok()?;
    document.write_all(b"\n").ok()?;
    Some(document.share())
}
