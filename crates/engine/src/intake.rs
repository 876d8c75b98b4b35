//! All pipelines, as requests see them: each request is fanned out to every pipeline of its signal. What then becomes of it, until its
//! client is answered, is in `intake/receipt.rs`. Decoding and transports are not known here.

mod receipt;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weir_plan::Signal;

use crate::books::Snapshot;
use crate::budget::Budget;
use crate::obligation::{Obligation, Ticket};
use crate::pipeline::Pipeline;
use crate::store::Store;
use receipt::{Offer, Receipt, retry_after};

/// The gateway is ready when a request of this size would be taken.
const READY_BYTES: usize = 4096;

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every pipeline has delivered or holds the data.
    Secured,
    /// No pipeline can take it; the client shall try again after this long.
    Refused(Duration),
}

/// The way of a request into one pipeline.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) pipeline: Arc<Pipeline>,
}

/// All pipelines, as requests see them.
#[derive(Debug)]
pub(crate) struct Intake {
    /// Replaced as a whole when the plan changes; each request sees one state of it.
    routes: RwLock<Arc<[Route]>>,
    max_request_bytes: AtomicUsize,
    budget: Budget,
    spill_after: Duration,
    /// None: what no backend takes in time is held in memory.
    store: Option<Store>,
    drain_deadline: OnceLock<Instant>,
}

impl Intake {
    /// Without pipelines as yet: nothing is served.
    pub(crate) fn new(budget: Budget, spill_after: Duration, store: Option<Store>) -> Self {
        let (routes, max_request_bytes) = (RwLock::new(Arc::from([])), AtomicUsize::new(0));
        Self { routes, max_request_bytes, budget, spill_after, store, drain_deadline: OnceLock::new() }
    }

    /// From now on requests of up to `max_request_bytes` go these ways.
    pub(crate) fn set_routes(&self, routes: Vec<Route>, max_request_bytes: usize) {
        self.max_request_bytes.store(max_request_bytes, Ordering::Relaxed);
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = routes.into();
    }

    fn routes(&self) -> Arc<[Route]> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Larger requests are not taken.
    pub(crate) fn max_request_bytes(&self) -> usize {
        self.max_request_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    pub(crate) fn pipelines(&self) -> Vec<Arc<Pipeline>> {
        self.routes().iter().map(|route| Arc::clone(&route.pipeline)).collect()
    }

    /// The books of every pipeline, by exporter id.
    pub(crate) fn books(&self) -> Vec<(String, Snapshot)> {
        self.pipelines()
            .iter()
            .map(|pipeline| (pipeline.exporter_id.clone(), pipeline.account.books.snapshot()))
            .collect()
    }

    /// From now on nothing new is held: a request is delivered by `deadline` or refused.
    pub(crate) fn drain(&self, deadline: Instant) {
        // Only the first call counts.
        let _ = self.drain_deadline.set(deadline);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drain_deadline.get().is_some()
    }

    /// Whether a small request would be accepted now.
    pub(crate) fn can_accept(&self) -> bool {
        let memory = self.budget.used() < self.budget.capacity() - self.budget.capacity() / 64;
        !self.is_draining()
            && memory
            && self.pipelines().iter().any(|pipeline| pipeline.account.share.has_room_for(READY_BYTES))
            && !self.needs_broken_store()
    }

    /// Nothing can be written, and every pipeline lags: no request would be delivered in time.
    fn needs_broken_store(&self) -> bool {
        self.store.as_ref().is_some_and(Store::has_failed_lately)
            && self.pipelines().iter().all(|pipeline| pipeline.account.lags(self.spill_after))
    }

    /// Whether there is a pipeline for this signal.
    pub(crate) fn serves(&self, signal: Signal) -> bool {
        of(&self.routes(), signal).next().is_some()
    }

    /// Offers a validated request of `items` items to every pipeline of its signal and waits for the verdict. Dropping the
    /// future (the client went away) decides at once; it changes nothing about what is owed.
    pub(crate) async fn accept(&self, signal: Signal, body: Bytes, items: u64) -> Verdict {
        let routes = self.routes();
        let limit = of(&routes, signal).map(|pipeline| pipeline.batch_bytes()).min().unwrap_or(usize::MAX);
        let Some(pieces) = self.cut(signal, body, items, limit) else { return Verdict::Refused(retry_after()) };
        let receipt = self.offer(of(&routes, signal), &pieces);
        drop(pieces);
        receipt.verdict().await
    }

    /// One piece, unless the request is larger than some backend takes. `None`: no memory for the pieces' copies.
    fn cut(&self, signal: Signal, body: Bytes, items: u64, limit: usize) -> Option<Vec<(Bytes, u64)>> {
        if body.len() <= limit {
            return Some(vec![(body, items)]);
        }
        let parts = weir_otlp::cut(signal, &body, limit);
        parts
            .into_iter()
            .map(|part| Some((self.budget.pay_for_copy(&body, part.bytes)?, u64::from(part.items))))
            .collect()
    }

    fn offer<'p>(&self, pipelines: impl Iterator<Item = &'p Arc<Pipeline>>, pieces: &[(Bytes, u64)]) -> Receipt<'_> {
        let ticket = Arc::new(Ticket::default());
        let offer = |pipeline: &Arc<Pipeline>| {
            let claim =
                |(body, items): &(Bytes, u64)| Obligation::new(body.clone(), *items, &ticket, &pipeline.account);
            Offer { pipeline: Arc::clone(pipeline), claims: pieces.iter().map(claim).collect() }
        };
        let offers: Vec<_> = pipelines.map(offer).collect();
        // Only now: a pipeline must not finish the first claim while the ticket does not know of the last.
        for Offer { pipeline, claims } in &offers {
            claims.iter().for_each(|claim| pipeline.take(Arc::clone(claim)));
        }
        Receipt { intake: self, ticket, offers, decided: false }
    }
}

/// The pipelines that take a signal.
fn of(routes: &[Route], signal: Signal) -> impl Iterator<Item = &Arc<Pipeline>> {
    routes.iter().map(|route| &route.pipeline).filter(move |pipeline| pipeline.signal() == signal)
}
