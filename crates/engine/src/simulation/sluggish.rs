//! Work that pauses now and then, like a writer whose disk is slow or hangs.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

use crate::store::Store;

/// Of the times that the work has nothing to do, one in so many is followed by a rest.
const RESTS: u8 = 6;
/// Of the rests, one in so many is so long that the disk is said to hang.
const HANGS: u8 = 40;

pub(super) struct Sluggish<F> {
    work: Pin<Box<F>>,
    rest: Option<Pin<Box<Sleep>>>,
    /// As long as it rests, the disk is at work.
    at_work: Option<Box<dyn Send + Sync>>,
    store: Store,
    hangs: Arc<AtomicU64>,
    dice: fastrand::Rng,
}

impl<F> Sluggish<F> {
    /// Counts its long rests in `hangs`.
    pub(super) fn new(work: F, store: Store, hangs: Arc<AtomicU64>, seed: u64) -> Self {
        Self { work: Box::pin(work), rest: None, at_work: None, store, hangs, dice: fastrand::Rng::with_seed(seed) }
    }

    fn rest(&mut self) {
        let hangs = self.dice.u8(..HANGS) == 0;
        self.hangs.fetch_add(u64::from(hangs), Ordering::Relaxed);
        let rest = Duration::from_millis(if hangs { self.dice.u64(2_000..20_000) } else { self.dice.u64(1..700) });
        self.rest = Some(Box::pin(tokio::time::sleep(rest)));
        self.at_work = Some(Box::new(self.store.at_work()));
    }
}

impl<F: Future> Future for Sluggish<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        loop {
            if let Some(rest) = &mut self.rest {
                ready!(rest.as_mut().poll(cx));
                (self.rest, self.at_work) = (None, None);
            }
            if let Poll::Ready(output) = self.work.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            if self.dice.u8(..RESTS) > 0 {
                return Poll::Pending;
            }
            self.rest();
        }
    }
}
