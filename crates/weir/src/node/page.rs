//! The page that the operator asks: which configuration runs, and what became of the data.

use std::sync::{Arc, PoisonError, RwLock};

use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::view::PipelineFigures;
use weir_kubernetes::node::{BackendOfPage, NodePage, PipelineOfPage, Roles, most_frequent};
use weir_observe::Verdict;

use crate::health::Verdicts;

/// `/node`.
#[derive(Debug, Clone)]
pub(super) struct ServedNodePage {
    roles: Roles,
    revision: Arc<RwLock<Option<String>>>,
    verdicts: Verdicts,
}

impl ServedNodePage {
    pub(super) fn new(roles: Roles) -> Self {
        Self { roles, revision: Arc::default(), verdicts: Verdicts::default() }
    }

    /// The same page with these verdicts.
    pub(super) fn showing(&self, verdicts: &Verdicts) -> Self {
        Self { verdicts: verdicts.clone(), ..self.clone() }
    }

    /// This one runs from now on.
    pub(super) fn set(&self, revision: &str) {
        *self.revision.write().unwrap_or_else(PoisonError::into_inner) = Some(revision.to_owned());
    }
}

impl Page for ServedNodePage {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let snapshot = asked.view.snapshot()?;
        let revision = self.revision.read().unwrap_or_else(PoisonError::into_inner);
        let pipelines = snapshot.pipelines.iter().map(|pipeline| of_page(pipeline, self.verdicts.of(&pipeline.id)));
        let mut page = NodePage {
            revision: revision.as_deref(),
            error: snapshot.reloads.error.as_deref(),
            roles: self.roles.names(),
            connections: snapshot.receivers.connections,
            pipelines: pipelines.collect(),
        };
        // As much as is needed: a text that grows is there twice for a moment.
        body.reserve(page.fit().ok()?).then_some(())?;
        page.write(body).ok()?;
        Some(Shown::JSON)
    }
}

fn of_page(pipeline: &PipelineFigures, verdict: Verdict) -> PipelineOfPage<'_> {
    let (books, backend) = (&pipeline.books, &pipeline.backend);
    PipelineOfPage {
        pipeline: pipeline.id.to_string(),
        delivered: books.delivered,
        dropped: &books.dropped,
        rejected: most_frequent(&books.rejected),
        pending: books.pending,
        pending_bytes: pipeline.pending_bytes,
        backend: BackendOfPage {
            state: backend.state.as_str(),
            tried: pipeline.was_tried,
            code: &backend.code,
            message: &backend.message,
        },
        verdict,
    }
}
