//! From a request to its answer: fan out to every pipeline, wait, and decide (promise P1).
//!
//! A client gets OK when each pipeline has delivered its data or, after `spill_after`, holds it in its share of the
//! memory. Decoding and transports are not known here.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::books::Snapshot;
use crate::budget::Budget;
use crate::obligation::{Obligation, Ticket};
use crate::pipeline::Pipeline;

/// What refused clients are asked to wait at least; as much again is added at random so that they do not return at once.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// When no pipeline is well and one is full, a client waits this much longer for room before it is refused.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks.
const ROOM_CHECK: Duration = Duration::from_millis(20);

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

/// All pipelines, as requests see them.
#[derive(Debug)]
pub(crate) struct Intake {
    pipelines: Vec<Arc<Pipeline>>,
    budget: Budget,
    spill_after: Duration,
    drain_deadline: OnceLock<Instant>,
}

impl Intake {
    pub(crate) fn new(pipelines: Vec<Arc<Pipeline>>, budget: Budget, spill_after: Duration) -> Self {
        Self { pipelines, budget, spill_after, drain_deadline: OnceLock::new() }
    }

    pub(crate) fn pipelines(&self) -> &[Arc<Pipeline>] {
        &self.pipelines
    }

    /// The books of every pipeline, by exporter id.
    pub(crate) fn books(&self) -> Vec<(String, Snapshot)> {
        self.pipelines.iter().map(|pipeline| (pipeline.exporter_id.clone(), pipeline.books.snapshot())).collect()
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
        !self.is_draining() && memory && self.pipelines.iter().any(|pipeline| pipeline.share.has_room_for(READY_BYTES))
    }

    /// Offers a validated request of `items` items to every pipeline and waits for the verdict. Dropping the future
    /// (the client went away) decides at once; it changes nothing about what is owed.
    pub(crate) async fn accept(&self, body: Bytes, items: u64) -> Verdict {
        let Some(pieces) = self.cut(body, items) else { return Verdict::Refused(retry_after()) };
        let receipt = self.offer(&pieces);
        drop(pieces);
        receipt.verdict().await
    }

    /// One piece, unless the request is larger than some backend takes. `None`: no memory for the pieces' copies.
    fn cut(&self, body: Bytes, items: u64) -> Option<Vec<(Bytes, u64)>> {
        let limit = self.pipelines.iter().map(|pipeline| pipeline.batch_bytes).min().unwrap_or(usize::MAX);
        if body.len() <= limit {
            return Some(vec![(body, items)]);
        }
        let parts = weir_otlp::cut_traces(&body, limit);
        parts
            .into_iter()
            .map(|part| Some((self.budget.pay_for_copy(&body, part.bytes)?, u64::from(part.items))))
            .collect()
    }

    fn offer(&self, pieces: &[(Bytes, u64)]) -> Receipt<'_> {
        let ticket = Arc::new(Ticket::default());
        let mut claims = Vec::with_capacity(pieces.len() * self.pipelines.len());
        for pipeline in &self.pipelines {
            for (body, items) in pieces {
                claims.push(Obligation::new(body.clone(), *items, &ticket, &pipeline.books, &pipeline.share));
            }
        }
        let receipt = Receipt { intake: self, ticket, claims, pieces: pieces.len(), decided: false };
        // Only now: a pipeline must not finish the first claim while the ticket does not know of the last.
        receipt.claims_by_pipeline().for_each(|(pipeline, claims)| {
            claims.iter().for_each(|claim| pipeline.take(Arc::clone(claim)));
        });
        receipt
    }
}

/// The claims of one waiting client.
struct Receipt<'a> {
    intake: &'a Intake,
    ticket: Arc<Ticket>,
    /// `pieces` claims for each pipeline, in the pipelines' order.
    claims: Vec<Arc<Obligation>>,
    pieces: usize,
    decided: bool,
}

impl Receipt<'_> {
    async fn verdict(mut self) -> Verdict {
        self.wait_until(Instant::now() + self.intake.spill_after).await;
        self.wait_for_room(Instant::now() + ROOM_PATIENCE).await;
        if let Some(deadline) = self.intake.drain_deadline.get() {
            self.wait_until(*deadline).await;
        }
        self.decide()
    }

    /// Waits until nothing is open, or the only open pipelines are known to be behind, or the deadline.
    async fn wait_until(&self, deadline: Instant) {
        let timeout = tokio::time::sleep_until(deadline);
        tokio::pin!(timeout);
        while !self.ticket.is_secured() && !self.only_laggards_left() {
            tokio::select! {
                () = self.ticket.changed.notified() => {}
                () = &mut timeout => return,
            }
        }
    }

    /// A pipeline that is behind must not slow the clients of one that is not (P2): once somebody delivered, there is
    /// no point in waiting for those who will not within `spill_after`.
    fn only_laggards_left(&self) -> bool {
        !self.intake.is_draining()
            && self.ticket.any_done()
            && self.claims_by_pipeline().all(|(pipeline, claims)| pipeline.share.is_behind() || open_cost(claims) == 0)
    }

    /// Slows the client down as long as taking its data would cost older data although no pipeline is in need of more.
    async fn wait_for_room(&self, deadline: Instant) {
        while !self.ticket.is_secured() && !self.intake.is_draining() && self.is_crowded() && Instant::now() < deadline
        {
            // Ends early when a pipeline is done with the request; room made by others is only seen by looking.
            let _ = tokio::time::timeout(ROOM_CHECK, self.ticket.changed.notified()).await;
        }
    }

    /// Some pipeline has no room for what is open although its backend takes data, and no pipeline is in need of more.
    fn is_crowded(&self) -> bool {
        let waits = |(pipeline, claims): (&Arc<Pipeline>, &[Arc<Obligation>])| {
            let open = open_cost(claims);
            open > 0 && !pipeline.share.is_stalled() && !pipeline.share.has_room_for(open)
        };
        self.claims_by_pipeline().any(waits) && !self.intake.pipelines.iter().any(|pipeline| pipeline.share.is_well())
    }

    /// Answers now: hold what is open where there is room. Where there is none, a pipeline's own oldest data makes room
    /// if its backend takes nothing anyway, or if another pipeline would otherwise go without; in all other cases the
    /// client is refused and nothing is lost.
    fn decide(&mut self) -> Verdict {
        self.decided = true;
        if self.ticket.is_secured() {
            return self.answer();
        }
        if self.intake.is_draining() {
            self.claims.iter().for_each(|claim| claim.withdraw());
            return self.answer();
        }
        let anyone_well = self.intake.pipelines.iter().any(|pipeline| pipeline.share.is_well());
        let places: Vec<Place<'_>> = self.claims_by_pipeline().map(Place::find).collect();
        let taken = places.iter().any(|place| place.reserved);
        let may_drop = |place: &Place<'_>| anyone_well || place.pipeline.share.is_stalled();
        if taken && places.iter().all(|place| place.reserved || may_drop(place)) {
            places.iter().for_each(Place::hold);
        } else {
            places.iter().for_each(Place::release);
            self.claims.iter().for_each(|claim| claim.withdraw());
        }
        self.answer()
    }

    fn answer(&self) -> Verdict {
        if self.ticket.was_withdrawn() { Verdict::Refused(retry_after()) } else { Verdict::Secured }
    }

    fn claims_by_pipeline(&self) -> impl Iterator<Item = (&Arc<Pipeline>, &[Arc<Obligation>])> {
        self.intake.pipelines.iter().zip(self.claims.chunks(self.pieces.max(1)))
    }
}

/// Room in one pipeline's share for what is open of a request.
struct Place<'a> {
    pipeline: &'a Pipeline,
    claims: &'a [Arc<Obligation>],
    open: usize,
    /// There was room (or nothing is open), and it is taken.
    reserved: bool,
}

impl<'a> Place<'a> {
    fn find((pipeline, claims): (&'a Arc<Pipeline>, &'a [Arc<Obligation>])) -> Self {
        let open = open_cost(claims);
        let reserved = open == 0 || pipeline.share.reserve(open);
        Self { pipeline, claims, open, reserved }
    }

    /// Gives the room back.
    fn release(&self) {
        if self.reserved {
            self.pipeline.share.remove(self.open);
        }
    }

    /// Holds what is still open; without room, at the cost of the pipeline's own oldest data.
    fn hold(&self) {
        let share = &self.pipeline.share;
        if !self.reserved {
            share.add(self.open);
        }
        let held: usize = self.claims.iter().map(|claim| claim.hold()).sum();
        // Some of it may have been delivered since, or cut into parts with a little overhead.
        if held > self.open {
            share.add(held - self.open);
        } else {
            share.remove(self.open - held);
        }
        if !self.reserved {
            self.pipeline.evict();
        }
    }
}

impl Drop for Receipt<'_> {
    fn drop(&mut self) {
        if !self.decided {
            self.decide();
        }
    }
}

fn open_cost(claims: &[Arc<Obligation>]) -> usize {
    claims.iter().map(|claim| claim.waiting_cost()).sum()
}

fn retry_after() -> Duration {
    RETRY_AFTER.mul_f64(1.0 + fastrand::f64())
}
