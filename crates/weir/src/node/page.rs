//! The page that the operator asks: which configuration runs, and what became of the data.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_kubernetes::node::Roles;
use weir_observe::Verdict;

use crate::health::Verdicts;

/// `/node`.
#[derive(Debug, Clone)]
pub(super) struct NodePage {
    roles: Roles,
    revision: Arc<RwLock<Option<String>>>,
    verdicts: Verdicts,
}

#[derive(Serialize)]
struct Answer<'a> {
    /// Of the configuration that runs.
    revision: Option<&'a str>,
    /// Why a newer one does not.
    error: Option<&'a str>,
    /// What this process does beside delivering what it has.
    roles: Vec<&'static str>,
    /// Clients that are connected.
    connections: u64,
    pipelines: Vec<Books<'a>>,
}

/// Items since the start, and what is known of how they flow.
#[derive(Serialize)]
struct Books<'a> {
    pipeline: String,
    delivered: u64,
    dropped: &'a BTreeMap<&'static str, u64>,
    rejected: &'a BTreeMap<String, u64>,
    /// What is owed to the backend now.
    pending: u64,
    /// What of it waits, in memory or on the disk.
    pending_bytes: u64,
    backend: Backend<'a>,
    verdict: Verdict,
}

/// What the backend does with what it is sent.
#[derive(Serialize)]
struct Backend<'a> {
    /// `ok` as well if no request to it has ended yet.
    state: &'static str,
    /// Whether one has, since it is configured as it is.
    tried: bool,
    code: &'a str,
    message: &'a str,
}

impl NodePage {
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

impl Page for NodePage {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let snapshot = asked.view.snapshot()?;
        let revision = self.revision.read().unwrap_or_else(PoisonError::into_inner);
        let pipelines = snapshot.pipelines.iter().map(|pipeline| Books {
            pipeline: pipeline.id.to_string(),
            delivered: pipeline.books.delivered,
            dropped: &pipeline.books.dropped,
            rejected: &pipeline.books.rejected,
            pending: pipeline.books.pending,
            pending_bytes: pipeline.pending_bytes,
            backend: Backend {
                state: pipeline.backend.state.as_str(),
                tried: pipeline.was_tried,
                code: &pipeline.backend.code,
                message: &pipeline.backend.message,
            },
            verdict: self.verdicts.of(&pipeline.id),
        });
        let answer = Answer {
            revision: revision.as_deref(),
            error: snapshot.reloads.error.as_deref(),
            roles: self.roles.names(),
            connections: snapshot.receivers.connections,
            pipelines: pipelines.collect(),
        };
        serde_json::to_writer(&mut *body, &answer).ok()?;
        body.write_all(b"\n").ok()?;
        Some(Shown::JSON)
    }
}
