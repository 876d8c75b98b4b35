//! Reads the journal back, on threads that a hanging disk may hold up. Nobody waits long for such a thread: what it
//! reads stays owed.

use std::collections::BTreeMap;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use weir_legible::Seldom;

use super::HANGS_AFTER;

/// Reads under way at once: a hanging disk may keep so many threads.
const AT_ONCE: usize = 64;
/// After a slow read the next one has twice as much time, so that something is read in the end; but no more than this.
const MOST_PATIENCE: Duration = Duration::from_secs(30);

/// Where reads run.
#[derive(Debug, Clone)]
pub(crate) enum Io {
    /// On threads for blocking work.
    Threads,
    /// In place: a simulation has no threads.
    #[cfg(test)]
    InPlace,
    /// The same, after so many milliseconds of virtual time.
    #[cfg(test)]
    After(Arc<AtomicU64>),
}

impl Io {
    /// Begins work that goes on whether or not anybody waits for it.
    fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        match self {
            Self::Threads => tokio::task::spawn_blocking(work),
            #[cfg(test)]
            Self::InPlace => tokio::spawn(async { work() }),
            #[cfg(test)]
            Self::After(ms) => {
                let rest = Duration::from_millis(ms.load(Ordering::Relaxed));
                tokio::spawn(async move {
                    tokio::time::sleep(rest).await;
                    work()
                })
            }
        }
    }
}

/// All reads of one journal.
#[derive(Debug)]
pub(crate) struct Reads {
    io: Io,
    slots: Arc<Semaphore>,
    pending: Mutex<Pending>,
}

#[derive(Debug)]
struct Pending {
    /// When those under way began, oldest first.
    began: BTreeMap<u64, Instant>,
    next: u64,
    patience: Duration,
    /// The log says that the disk does not answer.
    complained: bool,
    hang_reported: Seldom,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// The disk has answered nothing for some time.
    #[error("the disk does not answer")]
    NoAnswer,
    /// The work panicked, or the process ends.
    #[error("reading was interrupted")]
    Interrupted,
}

impl Reads {
    pub(crate) fn new(io: Io) -> Arc<Self> {
        let (patience, hang_reported) = (HANGS_AFTER, Seldom::default());
        let pending = Pending { began: BTreeMap::new(), next: 0, patience, complained: false, hang_reported };
        Arc::new(Self { io, slots: Arc::new(Semaphore::new(AT_ONCE)), pending: Mutex::new(pending) })
    }

    /// How long the disk has been busy with the oldest read under way.
    pub(crate) fn busy(&self) -> Duration {
        self.lock().busy()
    }

    /// Runs something that reads. When the disk does not answer in time, the work goes on, nobody waits for it any
    /// more, and its result is dropped. Until it ends, nothing else is read.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unread> {
        let patience = {
            let pending = self.lock();
            if pending.busy() > pending.patience {
                return Err(Unread::NoAnswer);
            }
            pending.patience
        };
        let read = async {
            let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| Unread::Interrupted)?;
            let under_way = self.begin();
            let work = move || {
                let _held = (slot, under_way);
                work()
            };
            self.io.spawn(work).await.map_err(|_| Unread::Interrupted)
        };
        timeout(patience, read).await.unwrap_or_else(|_| {
            self.complain();
            Err(Unread::NoAnswer)
        })
    }

    fn begin(self: &Arc<Self>) -> UnderWay {
        let mut pending = self.lock();
        let (number, began) = (pending.next, Instant::now());
        pending.next += 1;
        pending.began.insert(number, began);
        UnderWay { reads: Arc::clone(self), number, began }
    }

    fn complain(&self) {
        let mut pending = self.lock();
        if !pending.complained
            && let Some(left_out) = pending.hang_reported.due(Instant::now())
        {
            pending.complained = true;
            let (seconds, reads) = (pending.busy().as_secs(), pending.began.len());
            tracing::error!(
                seconds,
                reads,
                left_out,
                advice = crate::store::LOOK_AT_THE_DISK,
                "the disk does not answer; what is in the journal is read again when it does"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn busy(&self) -> Duration {
        self.began.first_key_value().map_or(Duration::ZERO, |(_, began)| began.elapsed())
    }
}

/// A read, until the disk has answered.
struct UnderWay {
    reads: Arc<Reads>,
    number: u64,
    began: Instant,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let mut pending = self.reads.lock();
        pending.began.remove(&self.number);
        pending.patience = if took > HANGS_AFTER { (2 * took).min(MOST_PATIENCE) } else { HANGS_AFTER };
        if pending.busy() < HANGS_AFTER && std::mem::take(&mut pending.complained) {
            tracing::info!(seconds = took.as_secs(), "the disk answers again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// What is read late is of no use, but the next read has as much time as this one would have needed.
    #[tokio::test(start_paused = true)]
    async fn a_disk_that_is_slow_is_waited_for_longer() {
        let reads = Reads::new(Io::Threads);
        let (answer, answered) = mpsc::channel::<()>();
        let hung = {
            let reads = Arc::clone(&reads);
            tokio::spawn(async move { reads.run(move || _ = answered.recv()).await })
        };
        tokio::task::yield_now().await;
        tokio::time::advance(HANGS_AFTER + Duration::from_millis(1)).await;
        assert!(matches!(hung.await, Ok(Err(Unread::NoAnswer))));
        assert!(reads.busy() >= HANGS_AFTER);
        assert!(matches!(reads.run(|| ()).await, Err(Unread::NoAnswer)), "nothing else is tried");
        assert_eq!(reads.lock().began.len(), 1, "so that no more threads hang");

        tokio::time::advance(HANGS_AFTER).await;
        drop(answer);
        // Virtual time stands still while the thread ends.
        for _ in 0..1_000_000 {
            if reads.busy() == Duration::ZERO {
                break;
            }
            std::thread::yield_now();
        }
        assert!(reads.lock().patience >= 4 * HANGS_AFTER);
        assert!(reads.run(|| 7).await.is_ok());
        assert_eq!(reads.lock().patience, HANGS_AFTER, "it is fast again");
    }
}
