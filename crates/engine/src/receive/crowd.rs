//! The open connections, and which of them gives way to another when there are too many. Without that, a crowd of
//! idle clients could keep everybody else out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A connection that has been idle for less than this gives way only if no other can.
const IDLE_ENOUGH: Duration = Duration::from_secs(1);

/// All open connections.
#[derive(Debug)]
pub(super) struct Crowd {
    members: Mutex<Members>,
    began: Instant,
}

/// By number, in the order of arrival.
#[derive(Debug, Default)]
struct Members {
    next: u64,
    /// Those that never had a request.
    newcomers: BTreeMap<u64, Arc<Activity>>,
    others: BTreeMap<u64, Arc<Activity>>,
}

impl Crowd {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { members: Mutex::default(), began: Instant::now() })
    }

    /// One more connection, until the member is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Member {
        let activity = Arc::new(Activity { idle_since: AtomicU64::new(self.now()), ..Activity::default() });
        let mut members = self.members();
        let number = members.next;
        members.next += 1;
        members.newcomers.insert(number, Arc::clone(&activity));
        Member { crowd: Arc::clone(self), number, activity }
    }

    /// Tells an idle connection to give way: the oldest that never had a request, then the one that has had none for
    /// the longest, and only then one that has just come. False when all are busy.
    pub(super) fn dismiss(&self) -> bool {
        let since = self.now().saturating_sub(u64::try_from(IDLE_ENOUGH.as_millis()).unwrap_or(u64::MAX));
        let mut members = self.members();
        let Members { newcomers, others, .. } = &mut *members;
        let oldest = newcomers.first_key_value().filter(|(_, activity)| activity.is_idle_since(since));
        let oldest = oldest.map(|(number, _)| *number);
        let longest = || {
            let idle = others.iter().filter(|(_, activity)| activity.is_idle_since(since));
            idle.min_by_key(|(_, activity)| activity.idle_since.load(Ordering::Relaxed)).map(|(number, _)| *number)
        };
        let chosen = match oldest {
            Some(number) => newcomers.remove(&number),
            None => match longest() {
                Some(number) => others.remove(&number),
                None => newcomers.pop_first().map(|(_, activity)| activity),
            },
        };
        chosen.inspect(|activity| activity.dismissed.notify_one()).is_some()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In milliseconds since the beginning.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Whether a connection is used.
#[derive(Debug, Default)]
struct Activity {
    active: AtomicU64,
    finished: AtomicU64,
    had_request: AtomicBool,
    /// When the last request ended, or when it came.
    idle_since: AtomicU64,
    /// Told to give way to another connection.
    dismissed: Notify,
}

impl Activity {
    fn is_idle_since(&self, time: u64) -> bool {
        self.active.load(Ordering::Relaxed) == 0 && self.idle_since.load(Ordering::Relaxed) <= time
    }
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Member {
    crowd: Arc<Crowd>,
    number: u64,
    activity: Arc<Activity>,
}

impl Member {
    /// Counts a request as active until the guard is dropped, even when its client goes away.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.activity.active.fetch_add(1, Ordering::Relaxed);
        if !self.activity.had_request.swap(true, Ordering::Relaxed) {
            let mut members = self.crowd.members();
            // A member that was dismissed in this moment is not there any more.
            if let Some(activity) = members.newcomers.remove(&self.number) {
                members.others.insert(self.number, activity);
            }
        }
        Busy(Arc::clone(self))
    }

    /// Whether a request is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.activity.active.load(Ordering::Relaxed) > 0
    }

    /// How many requests have been answered, or were given up.
    pub(super) fn finished(&self) -> u64 {
        self.activity.finished.load(Ordering::Relaxed)
    }

    /// Resolves when it has to give way to another connection.
    pub(super) async fn dismissed(&self) {
        self.activity.dismissed.notified().await;
    }

    /// Resolves when no request was seen for `first`, or for `next` after the first one.
    pub(super) async fn idle(&self, first: Duration, next: Duration) {
        let mut seen = None;
        loop {
            let now = self.activity.finished.load(Ordering::Relaxed);
            if !self.is_busy() && seen == Some(now) {
                return;
            }
            seen = Some(now);
            tokio::time::sleep(if now == 0 { first } else { next }).await;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut members = self.crowd.members();
        members.newcomers.remove(&self.number);
        members.others.remove(&self.number);
    }
}

/// A request under way.
pub(super) struct Busy(Arc<Member>);

impl Drop for Busy {
    fn drop(&mut self) {
        let Member { crowd, activity, .. } = &*self.0;
        activity.idle_since.store(crowd.now(), Ordering::Relaxed);
        activity.active.fetch_sub(1, Ordering::Relaxed);
        activity.finished.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    async fn is_dismissed(member: &Member) -> bool {
        timeout(Duration::ZERO, member.dismissed()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_silent_go_first_then_the_longest_idle_and_never_the_busy() {
        let crowd = Crowd::new();
        let enter = || Arc::new(crowd.enter());
        let (busy, idle, longer, silent, fresh) = (enter(), enter(), enter(), enter(), enter());
        let _busy = busy.begin();
        drop(longer.begin());
        advance(IDLE_ENOUGH).await;
        drop(idle.begin());
        advance(IDLE_ENOUGH).await;
        let newest = enter();
        for next in [&silent, &fresh, &longer, &idle, &newest] {
            assert!(!is_dismissed(next).await && crowd.dismiss() && is_dismissed(next).await);
        }
        assert!(!crowd.dismiss() && !is_dismissed(&busy).await);
    }

    #[test]
    fn those_who_leave_are_forgotten_however_long_the_first_one_stays() {
        let crowd = Crowd::new();
        let first = crowd.enter();
        for _ in 0..100 {
            let member = Arc::new(crowd.enter());
            drop(member.begin());
            drop((member, crowd.enter()));
        }
        let members = crowd.members();
        assert_eq!((members.newcomers.len(), members.others.len()), (1, 0));
        drop(members);
        drop(first);
    }
}
