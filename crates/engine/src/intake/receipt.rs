//! One request, from the moment all pipelines have it until its client is answered (promise P1, ENGINE-4).
//!
//! A client gets OK when each pipeline has delivered its data or, after `spill_after`, has it in the journal. Without a
//! journal, it is enough that the pipeline holds the data in its share of the memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Intake;
use super::offer::{Offer, Place};
use crate::budget::ROOM_CHECK;
use crate::inlet::{Obstacle, Secured, Verdict, retry_after};
use crate::obligation::Ticket;
use crate::pipeline::Pipeline;
use crate::store::Store;
use tokio::time::Instant;
use weir_plan::Signal;

/// When no pipeline is well and one is full, a client waits this much longer for room before it is refused.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);
/// A client that repeats points of an undecided request waits this much longer than `spill_after` for the decision.
const OTHERS_PATIENCE: Duration = Duration::from_secs(1);

/// How often a client that waits for the disk looks whether that answers.
const HANG_CHECK: Duration = Duration::from_millis(100);

/// One part in so many of the memory for payloads may wait for the disk.
const OF_MEMORY_FOR_DISK: usize = 2;

/// The least part of `spill_after` that a client waits: it gives a backend that has just come back its chance.
const LEAST_PATIENCE: f64 = 0.1;

/// What stands between a request and its answer: it waits for the obligations, hands them to the journal, and says what
/// the client is told. The state that it waits for is in the ticket.
pub(super) struct Receipt<'a> {
    pub(super) intake: &'a Intake,
    pub(super) ticket: Arc<Ticket>,
    pub(super) offers: Vec<Offer>,
    /// How many of its items no pipeline takes: counted when the client has its OK.
    pub(super) unclaimed: (Signal, u64),
    /// Gets the pipelines that have a request which is refused, or whose source stops waiting. `None` for a source that
    /// does not keep that in mind.
    pub(super) secured: Option<&'a mut Secured>,
    /// What becomes of the obligations does not depend on this any more; only the answer may be missing.
    pub(super) is_concluded: bool,
}

impl<'a> Receipt<'a> {
    /// Pipelines that have the request are added to `secured`, if the source keeps that in mind.
    pub(super) async fn verdict(mut self, secured: Option<&'a mut Secured>) -> Verdict {
        self.secured = secured;
        let deadline = Instant::now() + self.intake.spill_after + OTHERS_PATIENCE;
        let obstacle = self.secure().await;
        // Now, so that requests that rely on it need not wait for requests that it relies on.
        self.offers.iter_mut().for_each(Offer::keep_conversion);
        let withdrawn = self.ticket.was_withdrawn();
        let refused = withdrawn || !self.others_are_accepted(deadline).await;
        self.answer(refused);
        let (signal, items) = self.unclaimed;
        if !refused && items > 0 {
            self.intake.unclaimed[signal as usize].fetch_add(items, Ordering::Relaxed);
        }
        match refused {
            true => Verdict::Refused(if withdrawn { obstacle } else { Obstacle::Repeated }, retry_after()),
            false => Verdict::Secured,
        }
    }

    /// The source has its answer. Pipelines that it does not offer a refused request again are done with it.
    fn answer(&mut self, refused: bool) {
        let mut secured = self.secured.take();
        for offer in &mut self.offers {
            let is_done = match &mut secured {
                Some(secured) if refused && offer.is_secured() => {
                    secured.add(&offer.pipeline.account.id);
                    true
                }
                _ => !refused,
            };
            offer.answered(!is_done);
        }
    }

    /// Waits until it is known what becomes of all obligations. Returns what stands in the way if any of them is
    /// withdrawn.
    async fn secure(&mut self) -> Obstacle {
        self.spill_for_those_behind();
        self.wait_until(Instant::now() + self.patience()).await;
        let store = self.intake.store.as_ref().filter(|store| store.is_working());
        if let Some(store) = store.filter(|_| !self.ticket.is_decided())
            && self.finds_room_with(store, Instant::now() + ROOM_PATIENCE).await
        {
            self.is_concluded = true;
            if !self.put(store, |_| true) {
                self.withdraw();
                return Obstacle::Full;
            }
            // The writer withdraws what it cannot put on disk, unless the disk hangs.
            self.wait_for_writer(store).await;
            let obstacle = self.obstacle();
            if !self.ticket.is_decided() {
                self.withdraw();
            }
            return obstacle;
        }
        self.wait_for_room(Instant::now() + ROOM_PATIENCE).await;
        if let Some(deadline) = self.intake.drain_deadline.get() {
            self.wait_until(*deadline).await;
        }
        self.hold_or_withdraw()
    }

    /// How long to wait for delivery. When every pipeline is behind, hardly anything is gained by waiting. It only
    /// slows clients down, the more the fuller the backlogs are.
    fn patience(&self) -> Duration {
        let spill_after = self.intake.spill_after;
        if self.intake.store.is_none() || !self.pipelines().all(|pipeline| pipeline.account.is_behind(spill_after)) {
            return spill_after;
        }
        let pressure = self.pipelines().map(|pipeline| pipeline.account.pressure()).fold(0.0, f64::max);
        spill_after.mul_f64(pressure.max(LEAST_PATIENCE))
    }

    /// Waits until nothing is open, or the only open pipelines are known to be behind, or the deadline.
    async fn wait_until(&self, deadline: Instant) {
        let timeout = tokio::time::sleep_until(deadline);
        tokio::pin!(timeout);
        while !self.ticket.is_decided() && !self.only_those_behind_left() {
            tokio::select! {
                biased;
                () = self.ticket.changed.notified() => {}
                () = &mut timeout => return,
            }
        }
    }

    /// Data for pipelines that are behind goes to the journal while the others deliver, so the client waits once and
    /// not twice. When all pipelines are behind, the client waits first, which slows it down.
    fn spill_for_those_behind(&self) {
        let is_behind = |pipeline: &Pipeline| pipeline.account.is_behind(self.intake.spill_after);
        let (all, behind) = (self.pipelines().count(), self.pipelines().filter(|pipeline| is_behind(pipeline)).count());
        if (1..all).contains(&behind)
            && let Some(store) = self.intake.store.as_ref().filter(|store| store.is_working() && self.may_put(store))
        {
            // If there is no room for all of it, there may be some when the others have delivered.
            self.put(store, |offer| is_behind(&offer.pipeline));
        }
    }

    /// Whether the journal's writer has room for more.
    fn may_put(&self, store: &Store) -> bool {
        store.has_room(self.intake.budget.capacity() / OF_MEMORY_FOR_DISK)
    }

    /// Waits until the writer may have it. False when it may not, or when that is not needed any more.
    async fn finds_room_with(&self, store: &Store, deadline: Instant) -> bool {
        while !self.ticket.is_decided() && store.is_working() {
            if self.may_put(store) || self.offers.iter().all(|offer| offer.open_cost() == 0) {
                return true;
            }
            if Instant::now() >= deadline {
                break;
            }
            // Ends early when a pipeline is done with the request. What the writer is done with shows only when
            // somebody looks.
            let _ = tokio::time::timeout(ROOM_CHECK, self.ticket.changed.notified()).await;
        }
        false
    }

    /// Waits for the writer's answer, but not for a disk that hangs, and not beyond the end of the process.
    async fn wait_for_writer(&self, store: &Store) {
        while !self.ticket.is_decided() && !store.hangs() && !self.intake.has_ended() {
            let _ = tokio::time::timeout(HANG_CHECK, self.ticket.changed.notified()).await;
        }
    }

    /// Why a request cannot be taken.
    fn obstacle(&self) -> Obstacle {
        match &self.intake.store {
            Some(store) if store.hangs() => {
                store.report_hang(self.pipelines().map(|pipeline| &pipeline.account.id));
                Obstacle::DiskHangs
            }
            Some(store) if store.has_failed() => Obstacle::DiskFails,
            _ => Obstacle::Full,
        }
    }

    /// A pipeline that is behind must not slow the clients of one that is not (P2). Once somebody has delivered, there
    /// is no point in waiting for pipelines that will not deliver within `spill_after`.
    fn only_those_behind_left(&self) -> bool {
        !self.waits_for_drain()
            && self.ticket.any_done()
            && self
                .offers
                .iter()
                .all(|offer| offer.open_cost() == 0 || offer.pipeline.account.is_behind(self.intake.spill_after))
    }

    /// Without a journal, what is not delivered before the process ends is lost. So while it drains, there is no hurry
    /// to answer.
    fn waits_for_drain(&self) -> bool {
        self.intake.store.is_none() && self.intake.is_draining()
    }

    /// Hands what is open of `these` to the journal; false when it may not: some backlog is full and nothing may be given
    /// up for new data.
    fn put(&self, store: &Store, these: impl Fn(&Offer) -> bool) -> bool {
        let offers: Vec<&Offer> = self.offers.iter().filter(|offer| these(offer)).collect();
        let rooms = offers.iter().map(|offer| {
            let open = offer.open_cost();
            offer.pipeline.account.room_for(open, open == 0 || self.may_drop(&offer.pipeline))
        });
        let Some(_rooms) = rooms.collect::<Option<Vec<_>>>() else { return false };
        let mut deposits = Vec::new();
        let pieces = offers.iter().map(|offer| offer.obligations.len()).max().unwrap_or_default();
        // Piece by piece, so that the obligations for the same bytes follow each other.
        for piece in 0..pieces {
            let obligations = offers.iter().filter_map(|offer| offer.obligations.get(piece));
            obligations.for_each(|obligation| obligation.deposit(&mut deposits));
        }
        if !deposits.is_empty() {
            store.put(deposits);
        }
        true
    }

    /// Slows the client down as long as taking its data would cost older data and no pipeline needs more.
    async fn wait_for_room(&self, deadline: Instant) {
        while !self.ticket.is_decided() && !self.intake.is_draining() && self.lacks_room() && Instant::now() < deadline
        {
            // Ends early when a pipeline is done with the request. Room made by others shows only when somebody looks.
            let _ = tokio::time::timeout(ROOM_CHECK, self.ticket.changed.notified()).await;
        }
    }

    /// Whether some pipeline has no room for what is open although its backend takes data, and no other pipeline needs
    /// more. A journal that cannot be written to counts as no room.
    fn lacks_room(&self) -> bool {
        if self.intake.store.is_some() {
            return true;
        }
        let waits = |offer: &Offer| {
            let (open, share) = (offer.open_cost(), &offer.pipeline.account.share);
            open > 0 && !share.is_stalled() && !share.has_room_for(open) && !self.another_is_well(&offer.pipeline)
        };
        self.offers.iter().any(waits)
    }

    fn another_is_well(&self, than: &Arc<Pipeline>) -> bool {
        self.pipelines().any(|pipeline| !Arc::ptr_eq(pipeline, than) && pipeline.account.is_well())
    }

    /// Whether a full pipeline may lose its oldest data for new data. Its user has to allow it, and either its backend
    /// takes nothing anyway or refusing the client would hurt another pipeline, which is well.
    fn may_drop(&self, pipeline: &Arc<Pipeline>) -> bool {
        let account = &pipeline.account;
        account.may_drop_oldest() && (account.share.is_stalled() || self.another_is_well(pipeline))
    }

    /// Answers now, from memory: holds what is open where there is room. Where there is none, a pipeline's own oldest
    /// data makes room if its backend takes nothing anyway, or if another pipeline would otherwise go without. In all
    /// other cases the client is refused and nothing is lost.
    fn hold_or_withdraw(&mut self) -> Obstacle {
        self.is_concluded = true;
        let obstacle = self.obstacle();
        if self.ticket.is_decided() {
            return obstacle;
        }
        if self.intake.is_draining() || self.intake.store.is_some() {
            self.withdraw();
            return obstacle;
        }
        let places: Vec<Place<'_>> =
            self.offers.iter().filter(|offer| !offer.obligations.is_empty()).map(Place::find).collect();
        let taken = places.iter().any(|place| place.reserved);
        if taken && places.iter().all(|place| place.reserved || self.may_drop(&place.offer.pipeline)) {
            places.iter().for_each(Place::hold);
        } else {
            places.iter().for_each(Place::release);
            self.withdraw();
        }
        obstacle
    }

    /// Gives everything that is still open back to the client.
    fn withdraw(&mut self) {
        self.is_concluded = true;
        self.offers.iter().flat_map(|offer| &offer.obligations).for_each(|obligation| obligation.withdraw());
    }

    /// The same of what the journal's writer does not have. What it has will be on disk although nobody waits for it,
    /// unless the writer withdraws it.
    fn withdraw_rest(&self) {
        let obligations = self.offers.iter().flat_map(|offer| &offer.obligations);
        obligations.filter(|obligation| obligation.waiting_cost() > 0).for_each(|obligation| obligation.withdraw());
    }

    /// Whether the requests were accepted on whose account points were left out of this one. Waits for that until
    /// `deadline`.
    async fn others_are_accepted(&self, deadline: Instant) -> bool {
        let reliances = || self.offers.iter().filter_map(|offer| offer.reliance.as_ref());
        while reliances().any(|reliance| reliance.holds().is_none())
            && Instant::now() < deadline
            && !self.intake.has_ended()
        {
            tokio::time::sleep(ROOM_CHECK).await;
        }
        reliances().all(|reliance| reliance.holds() == Some(true))
    }

    /// The pipelines that take something of the request. A pipeline whose rules left nothing of it has no say.
    fn pipelines(&self) -> impl Iterator<Item = &Arc<Pipeline>> {
        self.offers.iter().filter(|offer| !offer.obligations.is_empty()).map(|offer| &offer.pipeline)
    }

    /// The client went away unanswered. What it sent is kept all the same where that costs nothing.
    fn conclude(&mut self) {
        self.is_concluded = true;
        let Some(store) = &self.intake.store else {
            self.hold_or_withdraw();
            return;
        };
        let may_put = store.is_working() && self.may_put(store) && !self.ticket.is_decided();
        // The writer says what becomes of it.
        if !(may_put && self.put(store, |_| true)) {
            self.withdraw_rest();
        }
    }
}

impl Drop for Receipt<'_> {
    fn drop(&mut self) {
        if !self.is_concluded {
            self.conclude();
        }
        let mut offers = std::mem::take(&mut self.offers);
        let secured = self.secured.take();
        let is_kept_in_mind = secured.is_some();
        if let Some(secured) = secured {
            // Delivered, held, or on its way to the disk.
            let have_it = offers.iter().filter(|offer| offer.is_secured());
            have_it.for_each(|offer| secured.add(&offer.pipeline.account.id));
        }
        // Without an answer, the books do not yet have what rules did.
        if offers.iter().any(Offer::waits_for_answer) {
            self.ticket.when_decided(Box::new(move |refused| {
                for offer in &mut offers {
                    offer.keep_conversion();
                    let is_done = !refused || (is_kept_in_mind && offer.is_secured());
                    offer.answered(!is_done);
                }
            }));
        }
    }
}
