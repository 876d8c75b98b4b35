//! `/api/recent?pipeline=traces/shop`: a few of the items that passed a pipeline lately, what its rules removed, and what was
//! lost. `&redact=false` shows what looks like a secret, too.

use std::sync::Arc;

use http::StatusCode;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Readers, Shown};
use weir_engine::taps::{Caught, RecentItems};
use weir_engine::view::View;
use weir_plan::PipelineId;

use super::configurations::Texts;
use super::json::{Refusal, parameters, show};
use super::taps;
use crate::page::Configurations;

/// Items of a list that are shown, and bytes of them before they are documents, and one item more.
const MOST_SHOWN: usize = 50;
const MOST_BYTES: usize = 64 << 10;

/// See the module. The log says who looks.
#[derive(Debug)]
pub(super) struct RecentPage {
    configurations: Configurations,
    readers: Readers,
}

impl RecentPage {
    pub(super) fn new(configurations: &Configurations) -> Self {
        Self { configurations: configurations.clone(), readers: Readers::default() }
    }

    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let [pipeline, redact] = parameters(asked.query, ["pipeline", "redact"])?;
        let (id, recent) = find(&self.configurations, pipeline.unwrap_or_default(), asked.view)?;
        if self.readers.is_new(asked.peer) {
            tracing::info!(from = %asked.peer, pipeline = %id, "somebody looks at telemetry that passed lately");
        }
        let list = |items: Vec<Arc<Caught>>| List {
            items,
            redacts: redact != Some("false"),
            texts: self.configurations.texts(),
        };
        let answer = Answer {
            pipeline: id.to_string(),
            kept: recent.passed.len(),
            since_unix_ms: recent.passed.first().map(|oldest| oldest.unix_ms),
            lost: list(recent.lost().cloned().collect()),
            removed: list(recent.removed),
            passed: list(recent.passed.into_iter().rev().collect()),
        };
        Ok(show(body, &answer))
    }
}

/// What passed the pipeline of this name lately.
pub(super) fn find(
    configurations: &Configurations,
    name: &str,
    view: &View,
) -> Result<(PipelineId, RecentItems), Refusal> {
    let mut all = configurations.pipelines().into_iter().map(|pipeline| pipeline.id);
    let found = all.find(|id| id.to_string() == name).and_then(|id| Some((view.recent(&id)?, id)));
    found.map(|(recent, id)| (id, recent)).ok_or_else(|| {
        let error = format!("there is no pipeline {name:?}: add ?pipeline=traces/NAME, with one of /api/configuration");
        Refusal::new(StatusCode::NOT_FOUND, error)
    })
}

impl Page for RecentPage {
    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.answer(asked, body).unwrap_or_else(|refusal| refusal.show(body))
    }
}

/// Every list begins with the newest; of `removed`, each condition's does.
#[derive(Serialize)]
struct Answer {
    pipeline: String,
    /// Items that can be tried on, and when the oldest of them passed.
    kept: usize,
    since_unix_ms: Option<u64>,
    lost: List,
    removed: List,
    passed: List,
}

struct List {
    items: Vec<Arc<Caught>>,
    redacts: bool,
    texts: Texts,
}

impl Serialize for List {
    /// Documents are made one after the other.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        let mut bytes = 0;
        for item in self.items.iter().take(MOST_SHOWN) {
            if bytes >= MOST_BYTES {
                break;
            }
            bytes += item.request.len();
            list.serialize_element(&taps::item(item, self.redacts, &self.texts))?;
        }
        list.end()
    }
}
