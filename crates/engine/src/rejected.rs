//! What backends refused for good, for the user to look at: the last samples of every pipeline as JSON.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;

use crate::budget::{self, Budget};
use crate::intake::Intake;
use crate::pipeline::{Pipeline, Sample};

#[derive(Debug, Serialize)]
struct Rejected<'a> {
    pipeline: &'a str,
    signal: &'static str,
    /// Milliseconds since the Unix epoch.
    unix_ms: u64,
    code: &'a str,
    message: &'a str,
    items: u64,
    /// The refused request, OTLP protobuf in base64.
    otlp: String,
    /// Whether the request was longer than what is kept of it.
    truncated: bool,
}

/// One JSON document, paid for: the newest first within each pipeline. `None` when there is no room for it.
pub(crate) fn render(intake: &Intake, budget: &Budget) -> Option<Bytes> {
    let pipelines = intake.pipelines();
    let samples: Vec<(&Pipeline, Vec<Arc<Sample>>)> =
        pipelines.iter().map(|pipeline| (&**pipeline, pipeline.stats.samples.list())).collect();
    let samples = || samples.iter().flat_map(|(pipeline, samples)| samples.iter().map(|sample| (*pipeline, &**sample)));
    let room = samples().map(|(pipeline, sample)| most_bytes(pipeline, sample)).sum::<usize>() + BRACKETS;
    // Once in base64, and once more in the document.
    let permit = budget.try_take(2 * room)?;
    let mut document = Vec::with_capacity(room);
    let rejected: Vec<_> = samples().map(|(pipeline, sample)| entry(pipeline, sample)).collect();
    serde_json::to_writer_pretty(&mut document, &rejected).ok()?;
    document.push(b'\n');
    Some(budget::charge(document, permit))
}

/// Around all entries.
const BRACKETS: usize = 16;

/// The most that an entry can become: names and numbers, and text of which every byte has to be escaped.
fn most_bytes(pipeline: &Pipeline, sample: &Sample) -> usize {
    let text = pipeline.name().len() + sample.code.len() + sample.message.len();
    512 + 6 * text + 4 * sample.body.len().div_ceil(3)
}

fn entry<'a>(pipeline: &'a Pipeline, sample: &'a Sample) -> Rejected<'a> {
    Rejected {
        pipeline: pipeline.name(),
        signal: pipeline.signal().name(),
        unix_ms: sample.at_ms,
        code: &sample.code,
        message: &sample.message,
        items: sample.items,
        otlp: STANDARD.encode(&sample.body),
        truncated: sample.is_cut,
    }
}
