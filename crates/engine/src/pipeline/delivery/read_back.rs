//! Room to read back what is in the journal.
//!
//! Each pipeline has its own part, which holds the largest request. A larger entry was written when there were fewer
//! pipelines, or more memory. It is paid for as requests are, from a part of their memory that all such entries share,
//! and waits there for its turn, first come, first served. An entry that is larger than this shared part takes all of
//! it.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::budget::{Budget, OVERHEAD_BYTES, Permit};

/// A turn that nobody has asked for in this time is not needed any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);

/// See the module.
pub(in crate::pipeline) struct ReadBack {
    own: Budget,
    oversized: Budget,
    /// The turn that an entry waits for that is too large for the pipeline's own part.
    turn: Option<Turn>,
}

struct Turn {
    bytes: usize,
    /// How much there was in all when the turn was asked for. With less now, it would wait for ever.
    all: usize,
    asked: Instant,
    permit: Pin<Box<dyn Future<Output = Option<Permit>> + Send>>,
}

impl ReadBack {
    /// A part of what `all` pipelines have.
    pub(in crate::pipeline) fn new(all: &Budget, part: usize, oversized: Budget) -> Self {
        Self { own: all.within(part), oversized, turn: None }
    }

    pub(super) fn resize(&self, part: usize) {
        self.own.resize(part);
    }

    /// Room for so many bytes, or for all that there ever are, if that is less. `None` when there is none now.
    pub(super) fn take(&mut self, bytes: usize, now: Instant) -> Option<Permit> {
        if bytes.saturating_add(OVERHEAD_BYTES) <= self.own.capacity() {
            return self.own.try_take(bytes);
        }
        let all = self.oversized.capacity();
        let mut turn = match self.turn.take() {
            Some(turn) if turn.bytes >= bytes && turn.all <= all => turn,
            _ => Turn { bytes, all, asked: now, permit: Box::pin(self.oversized.clone().take_in_turn(bytes)) },
        };
        turn.asked = now;
        // Whoever asks looks again soon.
        match turn.permit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => permit,
            Poll::Pending => {
                self.turn = Some(turn);
                None
            }
        }
    }

    /// Whether a turn is waited for. A turn that is not needed any more is given up, because it would keep others
    /// waiting.
    pub(super) fn waits(&mut self, now: Instant) -> bool {
        self.turn.take_if(|turn| now.duration_since(turn.asked) > FORGOTTEN_AFTER);
        self.turn.is_some()
    }
}
