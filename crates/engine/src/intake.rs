//! All pipelines, as requests see them: each request is fanned out to every pipeline of its signal that takes it. What
//! then becomes of it, until its client is answered, is in `intake/receipt.rs`. Decoding and transports are not known
//! here.

mod prepare;
mod receipt;
mod select;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;
use weir_enrich::{Enricher, PodList};
use weir_otlp::Part;
use weir_plan::{PipelineId, Signal};

use crate::books::BookFigures;
use crate::budget::{Budget, OVERHEAD_BYTES, Permit, Purse, Shortage};
use crate::inlet::{InputKind, Obstacle, Request, Verdict};
use crate::obligation::{Obligation, Ticket};
use crate::pipeline::Pipeline;
use crate::receive::BySignal;
use crate::rules::{Conversion, Delta, Processed, Removed, Rules};
use crate::settings::{Copies, LAST_ANSWERS, PIECE_BYTES};
use crate::store::Store;
use receipt::{Offer, Receipt, retry_after};
use turns::Turns;

pub(crate) use prepare::{Enriched, Unprepared};
pub(crate) use select::Selection;

/// Rules are applied to smaller requests in passing.
const HEAVY_BYTES: usize = 256 << 10;

/// The gateway is ready when a request of this size would be taken.
const READY_BYTES: usize = 4096;

/// The way of a request into one pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) selection: Selection,
    /// None: it takes requests as they are.
    pub(crate) rules: Option<Arc<Rules>>,
}

impl Route {
    /// What the pipeline keeps of a request for itself: transforms may double it, and what others remove or select is as
    /// large at most.
    fn copies(&self) -> usize {
        match &self.rules {
            Some(rules) if !rules.transforms.is_empty() => 2,
            Some(_) => 1,
            None => usize::from(self.selection.is_selective()),
        }
    }
}

/// All ways of requests, as one plan has them.
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

    /// The way to the pipeline of an account.
    pub(crate) fn to(&self, pipeline: &PipelineId) -> Option<&Route> {
        self.routes.iter().find(|route| route.pipeline.account.id == *pipeline)
    }

    fn of(&self, signal: Signal) -> impl Iterator<Item = &Route> {
        self.routes.iter().filter(move |route| route.pipeline.signal() == signal)
    }

    /// What requests of the signal that needs most of them need.
    pub(crate) fn copies(&self) -> Copies {
        let of = |signal| Copies {
            noise: self.keeps_noise(signal),
            rules: self.of(signal).any(|route| route.rules.is_some()),
            own: self.of(signal).map(Route::copies).sum(),
        };
        Signal::ALL.map(of).into_iter().max_by_key(|copies| copies.sum()).unwrap_or_default()
    }

    /// What converts to delta, and for which account.
    pub(crate) fn deltas(&self) -> impl Iterator<Item = (&PipelineId, &Delta)> {
        self.routes.iter().filter_map(|route| {
            let delta = route.rules.as_ref()?.delta.as_ref()?;
            Some((&route.pipeline.account.id, delta))
        })
    }

    /// Whether some pipeline wants what others call noise, or has to know whose it is.
    fn keeps_noise(&self, signal: Signal) -> bool {
        let knows = |selection: &Selection| !selection.drop_noise || selection.is_selective();
        self.of(signal).any(|route| route.selection.takes_anything() && knows(&route.selection))
    }
}

/// All pipelines, as requests see them.
#[derive(Debug)]
pub(crate) struct Intake {
    /// Replaced as a whole when the plan changes; each request sees one state of it.
    routes: RwLock<Arc<Routes>>,
    max_request_bytes: AtomicUsize,
    budget: Budget,
    spill_after: Duration,
    /// None: what no backend takes in time is held in memory.
    store: Option<Store>,
    drain_deadline: OnceLock<Instant>,
    turns: Turns,
    /// Items answered OK that no pipeline takes, because of their namespaces.
    pub(crate) unclaimed: BySignal,
}

impl Intake {
    /// Without pipelines as yet: nothing is served.
    pub(crate) fn new(budget: Budget, spill_after: Duration, store: Option<Store>) -> Self {
        let (routes, max_request_bytes) = (RwLock::new(Arc::new(Routes::empty())), AtomicUsize::new(0));
        Self {
            routes,
            max_request_bytes,
            budget,
            spill_after,
            store,
            drain_deadline: OnceLock::new(),
            turns: Turns::new(),
            unclaimed: BySignal::default(),
        }
    }

    /// From now on requests of up to `max_request_bytes` go these ways.
    pub(crate) fn set_routes(&self, routes: Routes, max_request_bytes: usize) {
        self.max_request_bytes.store(max_request_bytes, Ordering::Relaxed);
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
    }

    pub(crate) fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Larger requests are not taken.
    pub(crate) fn max_request_bytes(&self) -> usize {
        self.max_request_bytes.load(Ordering::Relaxed)
    }

    /// Pays for requests.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
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

    /// From now on nothing new is held: a request is delivered by `deadline` or refused.
    pub(crate) fn drain(&self, deadline: Instant) {
        // Only the first call counts.
        let _ = self.drain_deadline.set(deadline);
    }

    /// Whether answers have to be given now or never.
    fn has_ended(&self) -> bool {
        self.drain_deadline.get().is_some_and(|deadline| *deadline + LAST_ANSWERS / 2 <= Instant::now())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drain_deadline.get().is_some()
    }

    /// Whether a small request would be accepted now.
    pub(crate) fn can_accept(&self) -> bool {
        let memory = self.budget.used() < self.budget.capacity() - self.budget.capacity() / 64;
        !self.is_draining()
            && memory
            && self.routes().routes.iter().any(|route| route.pipeline.account.share.has_room_for(READY_BYTES))
            && !self.needs_broken_store()
    }

    /// Nothing can be written, and every pipeline lags: no request would be delivered in time.
    fn needs_broken_store(&self) -> bool {
        self.store.as_ref().is_some_and(Store::has_failed_lately)
            && self.routes().routes.iter().all(|route| route.pipeline.account.lags(self.spill_after))
    }

    /// Whether there is a pipeline that takes this signal from this input.
    pub(crate) fn serves(&self, signal: Signal, input: InputKind) -> bool {
        self.routes().of(signal).any(|route| route.selection.takes_from(input))
    }

    /// Offers a request to every pipeline of its signal that takes it, and waits for the verdict. Dropping the future (the client
    /// went away) decides at once; it changes nothing about what is owed.
    pub(crate) async fn accept(&self, request: Request) -> Verdict {
        let heavy = self.is_heavy(&request);
        let Some(turn) = self.turns.wait(heavy, self.converts(request.signal)).await else {
            return Verdict::Refused(Obstacle::Busy, retry_after());
        };
        let prepared = if heavy {
            // The others have a worker of their own meanwhile.
            tokio::task::block_in_place(|| self.prepare(request))
        } else {
            self.prepare(request)
        };
        drop(turn);
        let receipt = match prepared {
            Ok(receipt) => receipt,
            Err(Unprepared::NoMemory) => return Verdict::NoMemory,
            Err(Unprepared::TooLarge(message)) => return Verdict::TooLarge(message),
        };
        receipt.verdict().await
    }

    /// Whether some pipeline converts requests of this signal to delta.
    fn converts(&self, signal: Signal) -> bool {
        self.routes().of(signal).any(|route| route.rules.as_ref().is_some_and(|rules| rules.delta.is_some()))
    }

    /// Whether work on a request is better done where it keeps no other from being served, if there is such a place.
    fn is_heavy(&self, request: &Request) -> bool {
        request.body.len() > HEAVY_BYTES
            && self.routes().of(request.signal).any(|route| route.rules.is_some())
            && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
    }

    /// Enriches, selects and processes, and offers what comes of it.
    fn prepare(&self, request: Request) -> Result<Receipt<'_>, Unprepared> {
        let (routes, signal, items) = (self.routes(), request.signal, request.items);
        let enriched = Enriched::new(request, &routes.enricher, routes.keeps_noise(signal), &self.budget)?;
        let mut cuts = Cuts::new(signal, &routes, &enriched, &self.budget);
        let mut offers = Vec::new();
        for route in routes.of(signal) {
            let Some(processed) = enriched.select(&route.selection, route.rules.as_deref(), cuts.purse)? else {
                continue;
            };
            // Should this one fail, what was converted before it is taken back as it is dropped.
            offers.push(Prepared::new(route, processed, &mut cuts)?);
        }
        if offers.is_empty() {
            self.unclaimed[signal as usize].fetch_add(items, Ordering::Relaxed);
        }
        let paid = pay(&offers, cuts.purse)?;
        Ok(self.offer(offers, paid))
    }

    fn offer(&self, prepared: Vec<Prepared>, mut paid: Option<Permit>) -> Receipt<'_> {
        let ticket = Arc::new(Ticket::default());
        let offer = |prepared: Prepared| {
            let Prepared { pipeline, pieces, removed, conversion } = prepared;
            let mut pay = || paid.as_mut().and_then(|paid| paid.pay(PIECE_BYTES));
            let for_itself = if pieces.is_empty() { pay() } else { None };
            let claim = |piece| Obligation::paid(piece, pay(), &ticket, &pipeline.account);
            let claims = pieces.into_iter().map(claim).collect();
            Offer { pipeline, claims, removed, conversion, reliance: None, _paid: for_itself }
        };
        let offers: Vec<_> = prepared.into_iter().map(offer).collect();
        // Only now: a pipeline must not finish the first claim while the ticket does not know of the last.
        for Offer { pipeline, claims, .. } in &offers {
            claims.iter().for_each(|claim| pipeline.take(Arc::clone(claim)));
        }
        Receipt { intake: self, ticket, offers, decided: false }
    }
}

/// Pays for what each piece costs in each pipeline beside its bytes. One alone is paid for with its bytes.
fn pay(offers: &[Prepared], purse: Purse<'_>) -> Result<Option<Permit>, Shortage> {
    let pieces: usize = offers.iter().map(|offer| offer.pieces.len().max(1)).sum();
    Ok(if pieces > 1 { Some(purse.take(pieces * PIECE_BYTES - OVERHEAD_BYTES)?) } else { None })
}

/// What a pipeline will be offered.
struct Prepared {
    pipeline: Arc<Pipeline>,
    pieces: Vec<(Bytes, u64)>,
    removed: Vec<Removed>,
    conversion: Option<Conversion>,
}

impl Prepared {
    fn new(route: &Route, processed: Processed, cuts: &mut Cuts<'_>) -> Result<Self, Unprepared> {
        let Processed { body, items, removed, conversion } = processed;
        cuts.purse = cuts.purse.holding(conversion.as_ref().map_or(0, Conversion::bytes));
        let pieces = if items > 0 { cuts.pieces(body, items)? } else { Vec::new() };
        Ok(Self { pipeline: Arc::clone(&route.pipeline), pieces, removed, conversion })
    }
}

/// Requests larger than some backend takes, in pieces; what several pipelines have in common is cut once.
struct Cuts<'a> {
    signal: Signal,
    limit: usize,
    /// What the pipeline with the least room could hold.
    share: usize,
    shared: &'a Enriched,
    /// Knows of what was made of the request so far.
    purse: Purse<'a>,
    done: Vec<(Bytes, Vec<(Bytes, u64)>)>,
}

impl<'a> Cuts<'a> {
    fn new(signal: Signal, routes: &Routes, shared: &'a Enriched, budget: &'a Budget) -> Self {
        let least = |of: fn(&Pipeline) -> usize| routes.of(signal).map(|route| of(&route.pipeline)).min();
        let limit = least(Pipeline::batch_bytes).unwrap_or(usize::MAX);
        let share = least(|pipeline| pipeline.account.share.limit()).unwrap_or(usize::MAX);
        let purse = Purse::new(budget, shared.bytes());
        Self { signal, limit, share, shared, purse, done: Vec::new() }
    }

    fn pieces(&mut self, body: Bytes, items: u64) -> Result<Vec<(Bytes, u64)>, Unprepared> {
        if !self.shared.has(&body) {
            return self.own_pieces(body, items);
        }
        if body.len() <= self.limit {
            return Ok(vec![(body, items)]);
        }
        let same = |(other, _): &&(Bytes, Vec<_>)| other.as_ptr() == body.as_ptr() && other.len() == body.len();
        if let Some((_, pieces)) = self.done.iter().find(same) {
            return Ok(pieces.clone());
        }
        let (pieces, cost) = self.cut(&body, self.purse, |part| part.is_slice())?;
        self.purse = self.purse.holding(cost);
        self.done.push((body, pieces.clone()));
        Ok(pieces)
    }

    /// Of what was made for one pipeline alone. Once it is cut it is of no use: many pipelines together would keep more of
    /// that than there is memory.
    fn own_pieces(&mut self, body: Bytes, items: u64) -> Result<Vec<(Bytes, u64)>, Unprepared> {
        if body.len() <= self.limit {
            self.purse = self.purse.holding(body.len() + OVERHEAD_BYTES);
            return Ok(vec![(body, items)]);
        }
        let (pieces, cost) = self.cut(&body, self.purse.holding(body.len()), |_| false)?;
        self.purse = self.purse.holding(cost);
        Ok(pieces)
    }

    /// Cuts a request, each piece paid for before it is made, but for those that `remain` where they are; and what they cost.
    /// Without room for one of them it is found out whether there would ever be enough for all.
    fn cut(
        &self,
        body: &Bytes,
        purse: Purse<'_>,
        remain: fn(&Part<'_>) -> bool,
    ) -> Result<(Vec<(Bytes, u64)>, usize), Unprepared> {
        let most = self.share.max(body.len() + body.len() / 4).min(purse.most());
        let (mut cost, mut pieces) = (0, Some(Vec::new()));
        for part in weir_otlp::cut(self.signal, body, self.limit) {
            let remains = remain(&part);
            cost += if remains { 0 } else { part.length() + OVERHEAD_BYTES };
            if cost > most {
                return Err(Unprepared::TooLarge(self.too_much(most)));
            }
            if let Some(all) = &mut pieces {
                match if remains { Ok(part.make()) } else { purse.copy(&part) } {
                    Ok(bytes) => all.push((bytes, u64::from(part.items()))),
                    Err(_) => pieces = None,
                }
            }
        }
        Ok((pieces.ok_or(Unprepared::NoMemory)?, cost))
    }

    fn too_much(&self, most: usize) -> String {
        let limit = self.limit;
        format!(
            "cut into requests of at most {limit} bytes, with what stands around their items repeated in each, it takes more than {most} bytes"
        )
    }
}
