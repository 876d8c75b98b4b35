//! What backends refused for good, for the user to look at: the last samples of every pipeline as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

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

/// One JSON document: the newest first within each pipeline.
pub(crate) fn render(intake: &Intake) -> Result<String, serde_json::Error> {
    let pipelines = intake.pipelines();
    let samples: Vec<(&Pipeline, Vec<Sample>)> =
        pipelines.iter().map(|pipeline| (&**pipeline, pipeline.stats.samples.list())).collect();
    let rejected = samples.iter().flat_map(|(pipeline, samples)| samples.iter().map(|sample| entry(pipeline, sample)));
    serde_json::to_string_pretty(&rejected.collect::<Vec<_>>()).map(|text| text + "\n")
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
