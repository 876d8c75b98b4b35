//! What pays for the heads that the library keeps.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::budget::{Funds, Permit};

/// A client that has one path for each signal and one authority never keeps more than this.
const KEPT_WITH_REASON: usize = 128 * 1024;
/// Memory for heads is paid for in steps of this size, so that there are few of them.
const PAID_AT_ONCE: usize = 4 * 1024;

/// What the library keeps of the heads that it has read.
#[derive(Debug, Default)]
pub(in crate::receive) struct Kept {
    paid: Mutex<Paid>,
    first: Notify,
}

impl Kept {
    /// Resolves when there is something to pay for.
    pub(in crate::receive) async fn begins(&self) {
        self.first.notified().await;
    }

    /// Whether it is no more than a client can have a reason for.
    pub(in crate::receive) fn is_little(&self) -> bool {
        self.paid().bytes <= KEPT_WITH_REASON
    }

    /// Pays for so many bytes; false when there is no room.
    pub(super) fn pay(&self, bytes: usize, funds: &Funds) -> bool {
        let is_paid = self.paid().pay(bytes, funds);
        if bytes > 0 {
            self.first.notify_one();
        }
        is_paid
    }

    fn paid(&self) -> MutexGuard<'_, Paid> {
        self.paid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The payment for something that grows, and may become smaller.
#[derive(Debug, Default)]
pub(super) struct Paid {
    bytes: usize,
    permits: Vec<(usize, Permit)>,
}

impl Paid {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// From now on it takes so many bytes. False when there is no room for them.
    pub(super) fn pay(&mut self, bytes: usize, funds: &Funds) -> bool {
        let bytes = bytes.next_multiple_of(PAID_AT_ONCE);
        // Permits are not divided: the last ones go first.
        while let Some((last, _)) = self.permits.last().filter(|(last, _)| self.bytes - last >= bytes) {
            self.bytes -= last;
            self.permits.pop();
        }
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            let Some(permit) = funds.find(|budget| budget.try_take(more)) else { return false };
            self.bytes += more;
            self.permits.push((more, permit));
        }
        true
    }
}
