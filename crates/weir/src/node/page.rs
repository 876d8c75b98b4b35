//! The page that the operator asks: which configuration runs, and what became of the data.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::Text;

/// `/node`.
#[derive(Debug, Clone, Default)]
pub(super) struct NodePage(Arc<RwLock<Option<String>>>);

#[derive(Serialize)]
struct Told<'a> {
    /// Of the configuration that runs.
    revision: Option<&'a str>,
    /// Why a newer one does not.
    error: Option<&'a str>,
    pipelines: Vec<Books<'a>>,
}

/// Items since the start.
#[derive(Serialize)]
struct Books<'a> {
    pipeline: String,
    delivered: u64,
    dropped: &'a BTreeMap<&'static str, u64>,
    rejected: &'a BTreeMap<String, u64>,
}

impl NodePage {
    /// This one runs from now on.
    pub(super) fn set(&self, revision: &str) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(revision.to_owned());
    }
}

impl Page for NodePage {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let snapshot = asked.view.snapshot()?;
        let revision = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let pipelines = snapshot.pipelines.iter().map(|pipeline| Books {
            pipeline: pipeline.id.to_string(),
            delivered: pipeline.books.delivered,
            dropped: &pipeline.books.dropped,
            rejected: &pipeline.books.rejected,
        });
        let told = Told {
            revision: revision.as_deref(),
            error: snapshot.reloads.error.as_deref(),
            pipelines: pipelines.collect(),
        };
        serde_json::to_writer(&mut *body, &told).ok()?;
        body.write_all(b"\n").ok()?;
        Some(Shown::JSON)
    }
}
