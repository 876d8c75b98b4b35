//! The page of backends: the state of each, since when, and the reason that it gave, as JSON.

use std::io::Write;

use serde::{Serialize, Serializer};

use crate::admin::{Asked, Page, Shown};
use crate::budget::Text;
use crate::view::PipelineFigures;

/// `/backends`.
#[derive(Debug)]
pub(crate) struct Backends;

#[derive(Debug, Serialize)]
struct Backend<'a> {
    /// As it is called everywhere: `traces/backend`.
    pipeline: String,
    signal: &'static str,
    /// `ok`, `failing`, `silent`, `unreachable`, `unsent` or `refused`.
    state: &'static str,
    /// gRPC status name or HTTP status of a refusal.
    code: &'a str,
    message: &'a str,
    /// For how long it has been in this state.
    seconds: u64,
    pending_items: u64,
    pending_bytes: u64,
}

impl Page for Backends {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let snapshot = asked.view.snapshot()?;
        let mut json = serde_json::Serializer::pretty(&mut *body);
        json.collect_seq(snapshot.pipelines.iter().map(backend)).ok()?;
        body.write_all(b"\n").ok()?;
        Some(Shown::JSON)
    }
}

fn backend(pipeline: &PipelineFigures) -> Backend<'_> {
    Backend {
        pipeline: pipeline.id.to_string(),
        signal: pipeline.id.signal.name(),
        state: pipeline.backend.state.as_str(),
        code: &pipeline.backend.code,
        message: &pipeline.backend.message,
        seconds: pipeline.backend.lasts.as_secs(),
        pending_items: pipeline.books.pending,
        pending_bytes: pipeline.pending_bytes,
    }
}
