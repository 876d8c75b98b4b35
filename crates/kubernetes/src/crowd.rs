//! Connections that are open at once. Anybody may open some and say nothing: the one that has been quiet for the longest
//! gives way to a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// All connections of a port.
#[derive(Clone)]
pub(crate) struct Crowd {
    most: usize,
    members: Arc<Mutex<Members>>,
}

#[derive(Default)]
struct Members {
    next: u64,
    all: BTreeMap<u64, Member>,
}

struct Member {
    quiet_since: Instant,
    requests: usize,
    leave: Arc<Notify>,
}

/// The place of one connection. It is free again when this is dropped.
pub(crate) struct Place {
    crowd: Crowd,
    id: u64,
    leave: Arc<Notify>,
}

/// A request that is being answered: its connection does not give way meanwhile.
pub(crate) struct Busy(Arc<Place>);

impl Crowd {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, members: Arc::default() }
    }

    /// A place, if there is one or somebody is quiet.
    pub(crate) fn enter(&self) -> Option<Place> {
        let mut members = self.lock();
        if members.all.len() >= self.most {
            let quiet = members.all.iter().filter(|(_, member)| member.requests == 0);
            let longest = *quiet.min_by_key(|(_, member)| member.quiet_since)?.0;
            members.all.remove(&longest)?.leave.notify_one();
        }
        let (id, leave) = (members.next, Arc::new(Notify::new()));
        members.next += 1;
        members.all.insert(id, Member { quiet_since: Instant::now(), requests: 0, leave: Arc::clone(&leave) });
        Some(Place { crowd: self.clone(), id, leave })
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Resolves when the connection has to give way.
    pub(crate) async fn has_to_leave(&self) {
        self.leave.notified().await;
    }

    /// Makes the connection leave, as soon as it can.
    pub(crate) fn leave(&self) {
        self.leave.notify_one();
    }

    /// A request has come.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        if let Some(member) = self.crowd.lock().all.get_mut(&self.id) {
            member.requests += 1;
        }
        Busy(Arc::clone(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.lock().all.remove(&self.id);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(member) = self.0.crowd.lock().all.get_mut(&self.0.id) {
            member.requests -= 1;
            member.quiet_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn who_is_quiet_for_the_longest_makes_place_and_nobody_with_a_request() {
        let crowd = Crowd::new(2);
        let (first, second) = (Arc::new(crowd.enter().unwrap()), Arc::new(crowd.enter().unwrap()));
        let busy = first.busy();
        let third = Arc::new(crowd.enter().unwrap());
        assert!(second.has_to_leave().now_or_never().is_some());
        assert!(first.has_to_leave().now_or_never().is_none());
        let also_busy = third.busy();
        assert!(crowd.enter().is_none(), "all are busy");
        drop(busy);
        assert!(crowd.enter().is_some());
        assert!(first.has_to_leave().now_or_never().is_some());
        drop((second, also_busy, third));
        assert!(crowd.enter().is_some());
    }
}
