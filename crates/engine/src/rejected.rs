//! The page of what backends refused for good: the last samples of every pipeline as JSON.

use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use tokio::time::Instant;
use weir_plan::PipelineId;

use crate::admin::{Asked, Page, Shown};
use crate::budget::Text;
use crate::view::Sample;

/// Who has not looked for so long begins anew.
const PAUSE: Duration = Duration::from_secs(300);
/// Of more at once, each look is logged.
const MOST_READERS: usize = 64;

/// `/rejected`: the newest first within each pipeline. The log says who looks, as samples are telemetry.
#[derive(Debug, Default)]
pub(crate) struct Rejected {
    /// When each of them looked last.
    readers: Mutex<Vec<(IpAddr, Instant)>>,
}

impl Rejected {
    /// Whether this is somebody who has not looked lately. The page of a browser asks every few seconds.
    fn is_new(&self, peer: IpAddr, now: Instant) -> bool {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|(_, last)| now.duration_since(*last) < PAUSE);
        match readers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, last)) => {
                *last = now;
                false
            }
            None => {
                if readers.len() < MOST_READERS {
                    readers.push((peer, now));
                }
                true
            }
        }
    }
}

/// A sample as the page shows it.
#[derive(Debug, Serialize)]
struct SampleJson<'a> {
    /// As it is called everywhere: `traces/backend`.
    pipeline: &'a str,
    signal: &'static str,
    /// Milliseconds since the Unix epoch.
    unix_ms: u64,
    code: &'a str,
    message: &'a str,
    items: u64,
    /// The refused request, OTLP protobuf in base64.
    #[serde(serialize_with = "base64")]
    otlp: &'a Bytes,
    /// Whether the request was longer than what is kept of it.
    truncated: bool,
}

impl Page for Rejected {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        if self.is_new(asked.peer, Instant::now()) {
            tracing::info!(from = %asked.peer, "somebody looks at samples of what backends refused");
        }
        let most = asked.view.refused().map(|(id, samples)| most_bytes(&id, &samples)).sum::<usize>();
        body.reserve(BRACKETS + most).then_some(())?;
        let mut json = serde_json::Serializer::pretty(&mut *body);
        let mut list = json.serialize_seq(None).ok()?;
        for (id, samples) in asked.view.refused() {
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
        unix_ms: sample.at_ms,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_is_logged_once_as_long_as_it_goes_on() {
        let (page, begin) = (Rejected::default(), Instant::now());
        let is_new = |last: u8, seconds| page.is_new([10, 0, 0, last].into(), begin + Duration::from_secs(seconds));
        assert_eq!([is_new(1, 0), is_new(1, 200), is_new(2, 200), is_new(1, 400)], [true, false, true, false]);
        assert_eq!([is_new(2, 600), is_new(1, 600)], [true, false]);
    }
}
