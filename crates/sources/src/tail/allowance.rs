//! The part of the memory that container logs may take, so that clients find room as well.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use weir_engine::{Inlet, Permit};

/// Container logs take at most this part of the memory for requests.
const PART_OF_MEMORY: usize = 4;

/// How much of that part is in use.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    used: Mutex<usize>,
    freed: Notify,
    /// First come, first served: otherwise, a turn that needs more would wait for ever while smaller ones pass.
    first: tokio::sync::Mutex<()>,
}

/// Memory that is paid for, and counted in the allowance.
#[derive(Debug)]
pub(super) struct TurnPermit {
    permit: Permit,
    reserved: Reserved,
}

/// Bytes of the allowance, given back with the value.
#[derive(Debug)]
struct Reserved {
    allowance: Arc<Allowance>,
    bytes: usize,
}

impl TurnPermit {
    /// Makes it as large as these, each with a permit of its own.
    pub(super) fn shrink_to(&mut self, parts: impl Iterator<Item = usize>) {
        let bytes = parts.map(|bytes| bytes + Permit::OVERHEAD_BYTES).sum();
        self.reserved.shrink_to(bytes);
        self.permit.shrink_to(bytes);
    }

    /// A permit of its own for `bytes` of it.
    pub(super) fn part(&mut self, bytes: usize) -> Option<Permit> {
        self.permit.part(bytes)
    }

    /// Keeps `bytes` of it until the next turn, if that leaves room for a turn of `turn` bytes: otherwise there might
    /// never be one.
    pub(super) fn keep(mut self, bytes: usize, turn: usize, inlet: &Inlet) -> Option<Self> {
        self.shrink_to(std::iter::once(bytes));
        let used = *self.reserved.allowance.used.lock().unwrap_or_else(PoisonError::into_inner);
        (used + turn <= inlet.memory() / PART_OF_MEMORY).then_some(self)
    }
}

impl Allowance {
    /// Reserves all that a turn needs at once: turns that wait for each other's memory would get nowhere. `None` when
    /// the memory is taken by others.
    pub(super) async fn reserve(self: &Arc<Self>, inlet: &Inlet, bytes: usize) -> Option<TurnPermit> {
        let reserved = self.take(bytes, inlet.memory() / PART_OF_MEMORY).await;
        Some(TurnPermit { permit: inlet.reserve(bytes).await?, reserved })
    }

    /// Takes `bytes` as soon as no more than `most` are taken with them, or when nothing else is.
    async fn take(self: &Arc<Self>, bytes: usize, most: usize) -> Reserved {
        let _first = self.first.lock().await;
        loop {
            let freed = self.freed.notified();
            if self.try_take(bytes, most) {
                return Reserved { allowance: Arc::clone(self), bytes };
            }
            freed.await;
        }
    }

    fn try_take(&self, bytes: usize, most: usize) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = *used == 0 || *used + bytes <= most;
        *used += if fits { bytes } else { 0 };
        fits
    }
}

impl Reserved {
    /// Gives back all but `bytes`.
    fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.bytes -= excess;
        *self.allowance.used.lock().unwrap_or_else(PoisonError::into_inner) -= excess;
        self.allowance.freed.notify_waiters();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_fit_waits_for_what_others_give_back() {
        let allowance = Arc::<Allowance>::default();
        let fits = async |bytes| {
            let taken = tokio::time::timeout(Duration::from_secs(1), allowance.take(bytes, 10));
            taken.await.ok()
        };
        let mut first = fits(100).await.unwrap();
        assert!(fits(1).await.is_none(), "what is larger than all there is is alone");
        first.shrink_to(6);
        let second = fits(4).await.unwrap();
        let third = allowance.take(5, 10);
        let (third, ()) = tokio::join!(third, async { drop(first) });
        assert!(fits(2).await.is_none());
        drop((second, third));
        assert_eq!(*allowance.used.lock().unwrap(), 0);
    }
}
