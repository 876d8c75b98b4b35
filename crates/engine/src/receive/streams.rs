//! The streams of a connection: what pays for them, and when nothing more is read.
//!
//! The HTTP/2 library keeps a stream until the last frame of its answer was sent, which is when the client likes. It
//! keeps the room for as many streams as there ever were until the connection ends. So a connection pays for the most
//! streams that it had at once, those with answers that nobody reads included. Refusing a request takes nothing more.
//!
//! While a request waits for room in the budget, nothing is read from its connection. The library would keep what
//! comes. Of each frame of a body it would keep the whole buffer that the frame was read into, which may be a thousand
//! times as much.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use crate::budget::{Funds, Permit};

/// The number of streams that the memory set aside for each connection includes.
const SET_ASIDE: usize = 4;

/// What a stream costs until its answer was sent, beside what its request pays for. Measured with 250 on each of 60
/// connections, all with answers that nobody reads: 1.5 KiB where an answer is only a head, 2.3 KiB where a body
/// follows.
const STREAM_BYTES: usize = 3 * 1024;

/// The streams of a connection.
#[derive(Debug)]
pub(super) struct Streams {
    funds: Funds,
    state: Mutex<State>,
    overdrawn: Notify,
}

#[derive(Debug)]
struct State {
    open: usize,
    /// Answers that were sent to the end, or never will be.
    ended: u64,
    /// Streams that are paid for.
    paid: usize,
    permits: Vec<Permit>,
    /// Requests that wait for room.
    waiting: usize,
    /// Who reads when none does any more.
    reader: Option<Waker>,
}

impl Streams {
    pub(super) fn new(funds: Funds) -> Arc<Self> {
        let state = State { open: 0, ended: 0, paid: SET_ASIDE, permits: Vec::new(), waiting: 0, reader: None };
        Arc::new(Self { funds, state: Mutex::new(state), overdrawn: Notify::new() })
    }

    /// One more stream, until it is dropped. `None` when nothing pays for it: the connection has to end.
    pub(super) fn open(self: &Arc<Self>) -> Option<Stream> {
        let mut state = self.state();
        // The library's room grows in the same steps.
        let more = (state.open + 1).next_power_of_two().saturating_sub(state.paid);
        if more > 0 {
            let Some(permit) = self.funds.find(|budget| budget.try_take(more * STREAM_BYTES)) else {
                self.overdrawn.notify_one();
                return None;
            };
            state.paid += more;
            state.permits.push(permit);
        }
        state.open += 1;
        Some(Stream(Arc::clone(self)))
    }

    /// Resolves when nothing paid for a stream.
    pub(super) async fn overdrawn(&self) {
        self.overdrawn.notified().await;
    }

    /// How many have ended.
    pub(super) fn ended(&self) -> u64 {
        self.state().ended
    }

    /// Whether it pays for streams and has none.
    pub(super) fn pays_for_nothing(&self) -> bool {
        let state = self.state();
        state.open == 0 && !state.permits.is_empty()
    }

    /// Ready when the connection may be read.
    pub(super) fn poll_may_read(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.waiting == 0 {
            return Poll::Ready(());
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open stream, and the right to be open.
#[derive(Debug)]
pub(super) struct Stream(Arc<Streams>);

impl Stream {
    /// Waits for room; nothing is read from the connection meanwhile.
    pub(super) async fn unread_while<T>(&self, wait: impl Future<Output = T>) -> T {
        self.0.state().waiting += 1;
        let _waiting = Waiting(&self.0);
        wait.await
    }
}

struct Waiting<'a>(&'a Streams);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting -= 1;
        if state.waiting == 0
            && let Some(reader) = state.reader.take()
        {
            reader.wake();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.ended += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn a_connection_pays_for_the_most_streams_it_had_until_it_ends() {
        let (payloads, aside) = (Budget::new(20_000), Budget::new(20_000));
        let streams = Streams::new(Funds([payloads.clone(), aside.clone()]));
        let mut open: Vec<_> = (0..4).map(|_| streams.open().unwrap()).collect();
        assert_eq!(payloads.used() + aside.used(), 0);
        open.extend(streams.open());
        let four = payloads.used();
        assert!(four > 4 * 3000 && aside.used() == 0);
        open.extend((0..3).filter_map(|_| streams.open()));
        assert_eq!((open.len(), payloads.used(), aside.used()), (8, four, 0));
        assert!(streams.open().is_none(), "eight more do not fit");
        drop(open);
        assert_eq!(payloads.used(), four);
        drop(streams);
        assert_eq!(payloads.used() + aside.used(), 0);
    }
}
