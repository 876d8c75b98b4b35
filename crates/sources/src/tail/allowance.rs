//! The part of the memory that container logs may take, so that clients find room as well.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// What of it is taken.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    used: Mutex<usize>,
    freed: Notify,
}

/// Bytes of it, given back with the value.
#[derive(Debug)]
pub(super) struct Taken {
    allowance: Arc<Allowance>,
    bytes: usize,
}

impl Allowance {
    /// Takes `bytes` as soon as no more than `most` are taken with them, or when nothing else is.
    pub(super) async fn take(self: &Arc<Self>, bytes: usize, most: usize) -> Taken {
        loop {
            let freed = self.freed.notified();
            if self.try_take(bytes, most) {
                return Taken { allowance: Arc::clone(self), bytes };
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

impl Taken {
    /// Gives back all but `bytes`.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.bytes -= excess;
        *self.allowance.used.lock().unwrap_or_else(PoisonError::into_inner) -= excess;
        self.allowance.freed.notify_waiters();
    }
}

impl Drop for Taken {
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
