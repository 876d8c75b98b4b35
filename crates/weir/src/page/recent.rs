//! `/api/recent?pipeline=traces/shop`: the few items of a pipeline that are kept without a tap: what passed, what its rules
//! removed, what was lost, and what was on the disk when the process began. `&redact=false` shows what looks like a secret,
//! too; `&text=` leaves those in which it occurs.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use serde::Serialize;
use weir_engine::Text;
use weir_engine::admin::{AUDIT, Asked, Page, Readers, Shown};
use weir_engine::taps::{Caught, RecentItems, has_any, needles};
use weir_legible::rfc3339_millis;
use weir_plan::PipelineId;

use super::json::{Refusal, parameters, show};
use super::taps::Items;
use crate::page::Configurations;

/// Items of a list that are shown, and their bytes before they are documents; one item more is shown.
const MOST_SHOWN: usize = 50;
const MOST_BYTES: usize = 64 << 10;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct RecentPage {
    configurations: Configurations,
    readers: Arc<Readers>,
}

impl RecentPage {
    pub(super) fn new(configurations: &Configurations) -> Self {
        Self { configurations: configurations.clone(), readers: Arc::default() }
    }

    /// The recent items of a pipeline. The log says who reads them: they are telemetry.
    pub(super) fn read(&self, pipeline: &PipelineId, redact: bool, asked: &Asked<'_>) -> RecentItems {
        let Some(recent) = asked.view.recent(pipeline) else { return RecentItems::default() };
        if self.readers.note(asked.from, &format!("{pipeline} {redact}")) {
            tracing::info!(
                target: AUDIT,
                from = %asked.from.peer,
                token = asked.from.token,
                %pipeline,
                redact,
                "somebody looks at recent items of telemetry"
            );
        }
        recent
    }

    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let [pipeline, redact, text] = parameters(asked.query, ["pipeline", "redact", "text"])?;
        let needles = text.map(needles_of).transpose()?.unwrap_or_default();
        let is_wanted = |caught: &&Arc<Caught>| needles.is_empty() || has_any(&caught.request, &needles);
        let (id, redacts) = (self.configurations.pipeline(pipeline.unwrap_or_default())?.id, redact != Some("false"));
        let recent = self.read(&id, redacts, asked);
        let list = |caught: Vec<Arc<Caught>>| Items { caught, redacts, texts: self.configurations.texts() };
        let answer = Answer {
            pipeline: id.to_string(),
            count: recent.items.len(),
            since: recent.items.first().map(|oldest| rfc3339_millis(oldest.unix_ms)),
            lost: list(newest(recent.lost().filter(is_wanted))),
            removed: list(newest(recent.removed.iter().filter(is_wanted))),
            recovered: list(newest(recent.recovered.iter().rev().filter(is_wanted))),
            items: list(newest(recent.items.iter().rev().filter(is_wanted))),
        };
        Ok(show(body, &answer))
    }
}

/// What a text, with percent-encoding, may be in the bytes of items.
fn needles_of(text: &str) -> Result<Vec<Vec<u8>>, Refusal> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|error| Refusal::wrong(format!("text is not in UTF-8: {error}")))?;
    needles(&text).map_err(|error| Refusal::wrong(error.to_string()))
}

/// As many of these as are shown.
fn newest<'a>(items: impl Iterator<Item = &'a Arc<Caught>>) -> Vec<Arc<Caught>> {
    let mut bytes = 0;
    let fits = |item: &&Arc<Caught>| {
        let fits = bytes < MOST_BYTES;
        bytes += item.request.len();
        fits
    };
    items.take(MOST_SHOWN).take_while(fits).cloned().collect()
}

impl Page for RecentPage {
    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.answer(asked, body).unwrap_or_else(|refusal| refusal.show(body))
    }
}

/// Every list begins with the newest; of `removed`, each condition's does. An item has the same `seq` in each list, but for
/// `recovered`, which has items and numbers of its own; its items passed when they were written to the disk.
#[derive(Serialize)]
struct Answer {
    pipeline: String,
    /// How many items there are to try rules on, and when the oldest of them passed.
    count: usize,
    since: Option<String>,
    lost: Items,
    removed: Items,
    recovered: Items,
    items: Items,
}
