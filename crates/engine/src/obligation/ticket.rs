//! A ticket: the state that all obligations of one request share with whoever waits for its answer. What the client is
//! told follows from it (`intake/receipt.rs`).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// What is to be done when the request is answered, or would be if its client still waited. It is told whether the
/// client has to send again.
type Afterwards = Box<dyn FnOnce(bool) + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct Ticket {
    /// Obligations whose client is not answered for.
    open: AtomicU32,
    /// Obligations that some pipeline has finished.
    pub(super) done: AtomicU32,
    /// Some obligation was withdrawn: the client must send again.
    pub(super) withdrawn: AtomicBool,
    /// Told after each change of the others.
    pub(crate) changed: Notify,
    /// Of a client that did not wait for its answer.
    afterwards: Mutex<Option<Afterwards>>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("open", &self.open).field("done", &self.done).finish_non_exhaustive()
    }
}

impl Ticket {
    /// Whether it is known what becomes of all obligations, delivered or withdrawn.
    pub(crate) fn is_decided(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Whether the client still has to keep the data.
    pub(crate) fn was_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }

    pub(crate) fn any_done(&self) -> bool {
        self.done.load(Ordering::Acquire) > 0
    }

    pub(super) fn opened(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_one();
        self.do_afterwards();
    }

    /// Nobody waits for the answer: `afterwards` is called once there is one.
    pub(crate) fn when_decided(&self, afterwards: Afterwards) {
        *self.afterwards.lock().unwrap_or_else(PoisonError::into_inner) = Some(afterwards);
        self.do_afterwards();
    }

    fn do_afterwards(&self) {
        if !self.is_decided() {
            return;
        }
        let afterwards = self.afterwards.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(afterwards) = afterwards {
            afterwards(self.was_withdrawn());
        }
    }
}
