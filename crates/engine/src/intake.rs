//! All pipelines, as requests see them: each request is fanned out to every pipeline of its signal that takes it.
//!
//! What becomes of a request after that, until its client is answered, is in `intake/receipt.rs`. Decoding and
//! transports are not known here.

mod cuts;
mod offer;
mod prepare;
mod receipt;
mod select;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;
use weir_enrich::{Enricher, PodList};
use weir_plan::{PipelineId, Signal};

use crate::before_books::EarlyLoss;
use crate::books::BookFigures;
use crate::budget::{Budget, Holder, OVERHEAD_BYTES, Permit, Purse, Shortage};
use crate::counters::BySignal;
use crate::division::{Copies, PIECE_BYTES, RequestLimits};
use crate::inlet::{InputKind, Obstacle, Request, Secured, Verdict, retry_after};
use crate::obligation::Ticket;
use crate::pipeline::Pipeline;
use crate::rules::{Delta, Rules};
use crate::settings::{LAST_ANSWERS, Onlookers};
use crate::store::Store;
use crate::talkers::Talkers;
use crate::taps::{Before, Edge, Recent, Taps};
use crate::view::SourceFigures;
use cuts::Cuts;
use offer::Offer;
use receipt::Receipt;
use select::Selected;
use turns::Turns;

pub(crate) use prepare::{Enriched, LEAST_ROOM, Unprepared};
pub(crate) use select::Selection;

/// Rules are applied to smaller requests without waiting for a turn, unless one of them is the conversion to delta
/// (`turns`).
const HEAVY_BYTES: usize = 256 << 10;

/// The gateway is ready when a request of this size would be taken.
const READY_BYTES: usize = 4096;

/// How requests reach one pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) selection: Selection,
    /// None: it takes requests as they are.
    pub(crate) rules: Option<Arc<Rules>>,
    /// Recent items, under these rules.
    pub(crate) recent: Arc<Recent>,
}

impl Route {
    /// How many requests' worth of memory the pipeline keeps for itself: two where transforms may double a request, one
    /// where rules or a selection leave only a part of it.
    fn copies(&self) -> usize {
        match &self.rules {
            Some(rules) if !rules.transforms.is_empty() => 2,
            Some(_) => 1,
            None => usize::from(self.selection.is_selective()),
        }
    }
}

/// The routes of one plan.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) enricher: Enricher,
    pub(crate) routes: Vec<Route>,
}

impl Routes {
    /// No pipelines, and nothing to add.
    fn empty() -> Self {
        let enricher = Enricher::new(weir_plan::Enrichment::default(), Arc::new(PodList::default()));
        Self { enricher, routes: Vec::new() }
    }

    /// The route to the pipeline with this id.
    pub(crate) fn to(&self, pipeline: &PipelineId) -> Option<&Route> {
        self.routes.iter().find(|route| route.pipeline.account.id == *pipeline)
    }

    fn of(&self, signal: Signal) -> impl Iterator<Item = &Route> + Clone {
        self.routes.iter().filter(move |route| route.pipeline.signal() == signal)
    }

    /// Whether some pipeline takes this signal from this input.
    fn serve(&self, signal: Signal, input: InputKind) -> bool {
        self.of(signal).any(|route| route.selection.takes_from(input))
    }

    /// The copies that requests of one signal need, of the signal that needs most.
    pub(crate) fn copies(&self) -> Copies {
        let of = |signal| Copies {
            noise: self.keeps_noise(signal),
            rules: self.of(signal).any(|route| route.rules.is_some()),
            own: self.of(signal).map(Route::copies).sum(),
        };
        Signal::ALL.map(of).into_iter().max_by_key(|copies| copies.sum()).unwrap_or_default()
    }

    /// The conversions to delta, and whose they are.
    pub(crate) fn deltas(&self) -> impl Iterator<Item = (&PipelineId, &Delta)> {
        self.routes.iter().filter_map(|route| {
            let delta = route.rules.as_ref()?.delta.as_ref()?;
            Some((&route.pipeline.account.id, delta))
        })
    }

    /// Whether some pipeline wants what others call noise, or has to know whose noise it is.
    fn keeps_noise(&self, signal: Signal) -> bool {
        let knows =
            |selection: &Selection| !selection.drop_noise || selection.is_selective() || selection.takes_some_proxies();
        self.of(signal).any(|route| route.selection.takes_anything() && knows(&route.selection))
    }
}

/// All pipelines, as requests see them.
#[derive(Debug)]
pub(crate) struct Intake {
    /// Replaced as a whole when the plan changes; each request sees one state of it.
    routes: RwLock<Arc<Routes>>,
    max_request_bytes: AtomicUsize,
    /// Where that comes from.
    limits: Mutex<RequestLimits>,
    /// Pays for requests of clients.
    budget: Budget,
    /// The same for those of sources in this process.
    for_sources: Budget,
    spill_after: Duration,
    /// `None`: what no backend takes in time is held in memory.
    store: Option<Store>,
    drain_deadline: OnceLock<Instant>,
    turns: Turns,
    taps: Taps,
    talkers: Talkers,
    /// Items answered OK that no pipeline takes, because of their namespaces.
    pub(crate) unclaimed: BySignal,
    /// Items that sources in this process collected, by [`InputKind::COLLECTED`].
    pub(crate) collected: [AtomicU64; InputKind::COLLECTED.len()],
    /// What the sources in this process told last.
    pub(crate) sources: Mutex<SourceFigures>,
}

impl Intake {
    /// Without pipelines as yet: nothing is served.
    pub(crate) fn new(budget: Budget, spill_after: Duration, store: Option<Store>, onlookers: &Onlookers) -> Self {
        let Onlookers { taps, talkers } = onlookers.clone();
        let for_onlookers = budget.held_by(Holder::Onlookers);
        taps.pay_from(&for_onlookers);
        talkers.pay_from(&for_onlookers);
        let (routes, max_request_bytes) = (RwLock::new(Arc::new(Routes::empty())), AtomicUsize::new(0));
        Self {
            routes,
            max_request_bytes,
            limits: Mutex::default(),
            for_sources: budget.held_by(Holder::Sources),
            budget,
            spill_after,
            store,
            drain_deadline: OnceLock::new(),
            turns: Turns::new(),
            taps,
            talkers,
            unclaimed: BySignal::default(),
            collected: Default::default(),
            sources: Mutex::default(),
        }
    }

    /// From now on, requests within these limits go these ways.
    pub(crate) fn set_routes(&self, routes: Routes, limits: RequestLimits) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
        self.max_request_bytes.store(limits.largest(), Ordering::Relaxed);
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
    }

    pub(crate) fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Larger requests are not taken.
    pub(crate) fn max_request_bytes(&self) -> usize {
        self.max_request_bytes.load(Ordering::Relaxed)
    }

    /// What limits the size of requests.
    pub(crate) fn request_limits(&self) -> RequestLimits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pays for requests of clients.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Pays for work on a request of this input.
    fn pays_for(&self, input: InputKind) -> &Budget {
        if input == InputKind::Otlp { &self.budget } else { &self.for_sources }
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    pub(crate) fn taps(&self) -> &Taps {
        &self.taps
    }

    pub(crate) fn pipelines(&self) -> Vec<Arc<Pipeline>> {
        self.routes().routes.iter().map(|route| Arc::clone(&route.pipeline)).collect()
    }

    /// The books of every pipeline.
    pub(crate) fn books(&self) -> Vec<(PipelineId, BookFigures)> {
        self.pipelines()
            .iter()
            .map(|pipeline| (pipeline.account.id.clone(), pipeline.account.books.figures()))
            .collect()
    }

    /// From now on nothing new is held: each request is delivered by `deadline` or refused.
    pub(crate) fn drain(&self, deadline: Instant) {
        // Only the first call counts.
        let _ = self.drain_deadline.set(deadline);
    }

    /// Whether the process ends so soon that clients must be answered now.
    fn has_ended(&self) -> bool {
        self.drain_deadline.get().is_some_and(|deadline| *deadline + LAST_ANSWERS / 2 <= Instant::now())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drain_deadline.get().is_some()
    }

    /// Whether a small request finds memory now.
    pub(crate) fn has_memory(&self) -> bool {
        self.budget.used() < self.budget.capacity() - self.budget.capacity() / 64
    }

    /// Whether some pipeline has room for a small request.
    pub(crate) fn has_room(&self) -> bool {
        self.routes().routes.iter().any(|route| route.pipeline.account.share.has_room_for(READY_BYTES))
    }

    /// Nothing can be written, and every pipeline is behind: no request would be delivered in time.
    pub(crate) fn needs_broken_store(&self) -> bool {
        self.store.as_ref().is_some_and(Store::has_failed_lately)
            && self.routes().routes.iter().all(|route| route.pipeline.account.is_behind(self.spill_after))
    }

    /// Whether there is a pipeline that takes this signal from this input.
    pub(crate) fn serves(&self, signal: Signal, input: InputKind) -> bool {
        self.routes().serve(signal, input)
    }

    /// Counts what these pipelines lost before it came into their books.
    pub(crate) fn lost_early(&self, pipelines: &[PipelineId], items: u64, why: EarlyLoss) {
        let routes = self.routes();
        let theirs = pipelines.iter().filter_map(|pipeline| routes.to(pipeline));
        theirs.for_each(|route| route.pipeline.account.before_books.add(items, why));
    }

    /// The same of a request of so many items that will not be offered again, for all pipelines that would have
    /// taken some of it. Those in `secured` have it. Returns whether there is anybody else.
    pub(crate) fn lost_request(
        &self,
        of: (Signal, InputKind),
        request: &[u8],
        lost: (u64, EarlyLoss),
        secured: &Secured,
    ) -> bool {
        let ((signal, input), (items, why)) = (of, lost);
        let (routes, mut is_lost) = (self.routes(), false);
        for route in routes.of(signal).filter(|route| !secured.contains(&route.pipeline.account.id)) {
            let items = match route.selection.of(signal, input, request) {
                Selected::Nothing => continue,
                Selected::All => items,
                Selected::Some(part) => part.items.min(items),
            };
            route.pipeline.account.before_books.add(items, why);
            is_lost = true;
        }
        is_lost
    }

    /// Offers a request to every pipeline of its signal that takes it and has not `secured` it before, and waits for
    /// the verdict. When the future is dropped because the client went away, the verdict is made at once; what is owed
    /// stays the same, and a source finds in `secured` who has it.
    pub(crate) async fn accept(&self, request: Request, secured: Option<&mut Secured>) -> Verdict {
        let heavy = self.is_heavy(&request);
        let Some(turn) = self.turns.wait(heavy, self.converts(request.signal)).await else {
            return Verdict::Refused(Obstacle::Busy, retry_after());
        };
        let prepared = if heavy {
            // The others have a worker of their own meanwhile.
            tokio::task::block_in_place(|| self.prepare(request, secured.as_deref()))
        } else {
            self.prepare(request, secured.as_deref())
        };
        drop(turn);
        match prepared {
            Ok(receipt) => receipt.verdict(secured).await,
            Err(verdict) => verdict,
        }
    }

    /// Whether some pipeline converts requests of this signal to delta.
    fn converts(&self, signal: Signal) -> bool {
        self.routes().of(signal).any(|route| route.rules.as_ref().is_some_and(|rules| rules.delta.is_some()))
    }

    /// Whether work on a request should run where it keeps no other request waiting, if there is such a place.
    fn is_heavy(&self, request: &Request) -> bool {
        request.body.len() > HEAVY_BYTES
            && self.routes().of(request.signal).any(|route| route.rules.is_some())
            && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
    }

    /// Enriches, selects and processes a request, and offers the result.
    fn prepare(&self, request: Request, secured: Option<&Secured>) -> Result<Receipt<'_>, Verdict> {
        let (routes, signal, items) = (self.routes(), request.signal, request.items);
        if !routes.serve(signal, request.origin.input) {
            return Err(Verdict::NotServed);
        }
        if let Some(outside) = self.taps.outside(Edge::Received, signal) {
            outside.received(&request.body, items);
        }
        let budget = self.pays_for(request.origin.input);
        let enriched = Enriched::new(request, &routes.enricher, routes.keeps_noise(signal), budget)?;
        self.talkers.count(signal, enriched.whole());
        let mut cuts = Cuts::new(signal, &routes, &enriched, budget);
        let mut offers = Vec::new();
        let has_it = |route: &Route| secured.is_some_and(|secured| secured.contains(&route.pipeline.account.id));
        let mut is_claimed = false;
        for route in routes.of(signal) {
            if has_it(route) {
                is_claimed = true;
                continue;
            }
            let Some(taken) = enriched.select(&route.selection, cuts.purse)? else { continue };
            let (pipeline, rules) = (&route.pipeline.account.id, route.rules.as_ref());
            let (before, arrived) = (Before { body: taken.body.clone(), items: taken.items }, taken.body.len());
            let processed = enriched.process(taken, route.rules.as_deref(), cuts.purse)?;
            let looking = self.taps.at(pipeline, &route.recent);
            let mark = looking.look(signal, (pipeline, rules), (&before, &processed), cuts.purse);
            // Should this one fail, what was converted before it is taken back as it is dropped.
            offers.push(Offer { mark, ..cuts.offer(route, arrived, processed)? });
        }
        let left = self.left_by_all(signal, &routes, &enriched);
        let unclaimed = if offers.is_empty() && !is_claimed { items } else { left };
        let paid = pay(&offers, cuts.purse).map_err(Unprepared::from)?;
        Ok(self.offer(offers, paid, (signal, unclaimed)))
    }

    /// How many items of a request no pipeline takes, even if others take the rest. Whoever has a tap there sees them.
    fn left_by_all(&self, signal: Signal, routes: &Routes, enriched: &Enriched) -> u64 {
        let parts = || enriched.unclaimed(routes.of(signal).map(|route| &route.selection));
        let items = parts().map(|part| u64::from(weir_otlp::count(signal, part))).sum();
        if items > 0
            && let Some(outside) = self.taps.outside(Edge::Unclaimed, signal)
        {
            outside.unclaimed(parts, items);
        }
        items
    }

    /// From now on every pipeline owes what it is offered. So many items are `unclaimed`.
    fn offer(&self, mut offers: Vec<Offer>, mut paid: Option<Permit>, unclaimed: (Signal, u64)) -> Receipt<'_> {
        let ticket = Arc::new(Ticket::default());
        offers.iter_mut().for_each(|offer| offer.owe(&ticket, &mut paid));
        // Only now: a pipeline must not finish the first obligation while the ticket does not know of the last.
        for Offer { pipeline, obligations, .. } in &offers {
            obligations.iter().for_each(|obligation| pipeline.take(Arc::clone(obligation)));
        }
        Receipt { intake: self, ticket, offers, unclaimed, secured: None, is_concluded: false }
    }
}

/// Pays for what each piece costs in each pipeline beside its bytes. A single piece is paid for with its bytes.
fn pay(offers: &[Offer], purse: Purse<'_>) -> Result<Option<Permit>, Shortage> {
    let pieces: usize = offers.iter().map(|offer| offer.pieces.len().max(1)).sum();
    Ok(if pieces > 1 { Some(purse.take(pieces * PIECE_BYTES - OVERHEAD_BYTES)?) } else { None })
}
