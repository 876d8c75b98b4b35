//! Work that rests now and then, as a writer does whose disk takes its time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

/// Of the times that the work has nothing to do, one in so many is followed by a rest.
const RESTS: u8 = 6;

pub(super) struct Sluggish<F> {
    work: Pin<Box<F>>,
    rest: Option<Pin<Box<Sleep>>>,
    dice: fastrand::Rng,
}

impl<F> Sluggish<F> {
    pub(super) fn new(work: F, seed: u64) -> Self {
        Self { work: Box::pin(work), rest: None, dice: fastrand::Rng::with_seed(seed) }
    }
}

impl<F: Future> Future for Sluggish<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        loop {
            if let Some(rest) = &mut self.rest {
                ready!(rest.as_mut().poll(cx));
                self.rest = None;
            }
            if let Poll::Ready(output) = self.work.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            if self.dice.u8(..RESTS) > 0 {
                return Poll::Pending;
            }
            let rest = Duration::from_millis(self.dice.u64(1..700));
            self.rest = Some(Box::pin(tokio::time::sleep(rest)));
        }
    }
}
