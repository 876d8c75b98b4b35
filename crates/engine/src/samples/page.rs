//! The pages of what was lost: the last samples of every pipeline as JSON.

use std::io::Write;
use std::sync::Arc;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use weir_legible::rfc3339_millis;
use weir_plan::PipelineId;

use crate::admin::{AUDIT, Asked, Page, Readers, Shown};
use crate::budget::Text;
use crate::view::Sample;

/// `/rejected` or `/dropped`: the newest first within each pipeline. The log says who looks, as samples are telemetry.
#[derive(Debug)]
pub(crate) struct LostPage {
    lost: Lost,
    readers: Readers,
}

/// How it was lost.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lost {
    /// Backends refused it for good.
    Rejected,
    /// It was given up.
    Dropped,
}

impl Lost {
    fn said(self) -> &'static str {
        match self {
            Self::Rejected => "somebody looks at samples of what backends refused",
            Self::Dropped => "somebody looks at samples of what was given up",
        }
    }
}

impl LostPage {
    pub(crate) fn of(lost: Lost) -> Self {
        Self { lost, readers: Readers::default() }
    }
}

/// A sample as the page shows it.
#[derive(Debug, Serialize)]
struct SampleJson<'a> {
    /// As it is called everywhere: `traces/backend`.
    pipeline: &'a str,
    signal: &'static str,
    /// When it was lost.
    at: String,
    code: &'a str,
    message: &'a str,
    items: u64,
    /// The request, OTLP protobuf in base64.
    #[serde(serialize_with = "base64")]
    otlp: &'a Bytes,
    /// Whether the request was longer than what is kept of it.
    truncated: bool,
}

impl Page for LostPage {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        if self.readers.note(asked.from, "") {
            tracing::info!(target: AUDIT, from = %asked.from.peer, token = asked.from.token, "{}", self.lost.said());
        }
        let most = asked.view.lost(self.lost).map(|(id, samples)| most_bytes(&id, &samples)).sum::<usize>();
        body.reserve(BRACKETS + most).then_some(())?;
        let mut json = serde_json::Serializer::pretty(&mut *body);
        let mut list = json.serialize_seq(None).ok()?;
        for (id, samples) in asked.view.lost(self.lost) {
            let pipeline = id.to_string();
            let shown = samples.iter().map(|sample| as_json(&id, &pipeline, sample));
            shown.into_iter().try_for_each(|sample| list.serialize_element(&sample)).ok()?;
        }
        list.end().ok()?;
        body.write_all(b"\n").ok()?;
        Some(Shown::JSON)
    }
}

/// Around all samples.
const BRACKETS: usize = 16;

/// The most bytes that the samples of a pipeline can become: names and numbers, and text of which every byte has to be
/// escaped.
fn most_bytes(id: &PipelineId, samples: &[Arc<Sample>]) -> usize {
    let most = |sample: &Arc<Sample>| {
        let text = id.name.len() + sample.code.len() + sample.message.len();
        512 + 6 * text + 4 * sample.body.len().div_ceil(3)
    };
    samples.iter().map(most).sum()
}

fn as_json<'a>(id: &PipelineId, pipeline: &'a str, sample: &'a Sample) -> SampleJson<'a> {
    SampleJson {
        pipeline,
        signal: id.signal.name(),
        at: rfc3339_millis(sample.at_ms),
        code: &sample.code,
        message: &sample.message,
        items: sample.items,
        otlp: &sample.body,
        truncated: sample.is_cut,
    }
}

fn base64<S: Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(body, &STANDARD))
}
