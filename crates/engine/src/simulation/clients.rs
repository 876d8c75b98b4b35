//! The clients, and what they know.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use weir_plan::Signal;

use super::payload;
use super::process::number_of;
use crate::budget::Budget;
use crate::buffer::Buffer;
use crate::inlet::{InputKind, Origin, Request, Verdict};
use crate::intake::Intake;

const CLIENTS: usize = 6;

/// What clients know.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    next_id: AtomicU64,
    /// Ids, and for which pipelines: a bit for each that there was.
    acknowledged: Mutex<Vec<(u64, u8)>>,
    pub(super) refused: AtomicU64,
}

impl Ledger {
    /// Ids that nobody had.
    pub(super) fn draw(&self, count: u64) -> Vec<u64> {
        let first = self.next_id.fetch_add(count, Ordering::Relaxed);
        (first..first + count).collect()
    }

    /// All that were drawn.
    pub(super) fn drawn(&self) -> u64 {
        self.next_id.load(Ordering::Relaxed)
    }

    /// All that were acknowledged so far.
    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// What was acknowledged for a pipeline, from the one with this place on.
    pub(super) fn owed_to(&self, pipeline: usize, from: usize) -> Vec<u64> {
        let acknowledged = self.acknowledged.lock().unwrap();
        let of_pipeline = acknowledged[from..].iter().filter(|(_, pipelines)| pipelines >> pipeline & 1 == 1);
        of_pipeline.map(|(id, _)| *id).collect()
    }

    /// What was acknowledged at these places.
    pub(super) fn at(&self, places: Range<usize>) -> Vec<u64> {
        self.acknowledged.lock().unwrap()[places].iter().map(|(id, _)| *id).collect()
    }

    /// Sends one request, and notes what it was answered.
    pub(super) async fn offer(&self, intake: &Intake, budget: &Budget, ids: Vec<u64>, padding: usize) {
        let (body, items) = (payload::encode(&ids, padding), ids.len() as u64);
        let Some(permit) = budget.try_take(body.len()) else { return };
        let body = Buffer::new(body.into(), permit);
        // Which pipelines there are is seen before anything is waited for.
        let pipelines = intake.pipelines().iter().fold(0, |mask, pipeline| mask | 1 << number_of(&pipeline.account.id));
        let origin = Origin::of(InputKind::Otlp);
        match intake
            .accept(Request { signal: Signal::Traces, body: body.into(), items, origin, unix_nanos: 0 }, None)
            .await
        {
            Verdict::Secured => {
                self.acknowledged.lock().unwrap().extend(ids.into_iter().map(|id| (id, pipelines)));
            }
            Verdict::Refused(..) | Verdict::NotServed | Verdict::NoMemory | Verdict::TooLarge(_) => {
                self.refused.fetch_add(items, Ordering::Relaxed);
            }
        }
    }
}

/// As many clients as there are.
pub(super) fn spawn(
    ledger: &Arc<Ledger>,
    intake: &Arc<Intake>,
    budget: &Budget,
    dice: &mut fastrand::Rng,
) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(client(Arc::clone(ledger), Arc::clone(intake), budget.clone(), dice.u64(..)));
    }
    clients
}

/// Sends requests one after the other; some it does not wait for.
async fn client(ledger: Arc<Ledger>, intake: Arc<Intake>, budget: Budget, seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    while !intake.is_draining() {
        let ids = ledger.draw(dice.u64(1..40));
        // Some do not wait for their answer.
        let patience = Duration::from_millis(if dice.u8(..8) == 0 { dice.u64(1..500) } else { 600_000 });
        let offer = ledger.offer(&intake, &budget, ids, dice.usize(..600));
        let _ = tokio::time::timeout(patience, offer).await;
        tokio::time::sleep(Duration::from_millis(dice.u64(1..400))).await;
    }
}
