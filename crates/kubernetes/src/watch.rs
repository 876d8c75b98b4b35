//! Watches: each tells of changes of some objects, for ever.

use std::pin::pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use tokio::time::{Instant, sleep};

use crate::client::{retry_after, words};

/// Objects in one answer.
const PAGE: u32 = 250;

/// What a watch saw.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// Everything there is.
    All(Vec<T>),
    /// It is new, or another.
    Set(T),
    /// It is gone.
    Gone(T),
}

/// A watch has failed, and tries again by itself.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: watcher::Error,
    /// It worked until now: a version that is too old, or a connection that ended. It begins anew, and that is all.
    pub(crate) is_usual: bool,
}

impl Failure {
    /// What the API server said, without what the library adds.
    pub(crate) fn words(&self) -> String {
        match (&self.error, of_request(&self.error)) {
            (_, Some(error)) => words(error),
            (watcher::Error::WatchError(status), _) => format!("{} ({})", status.message, status.code),
            _ => "the API server names no resourceVersion".to_owned(),
        }
    }

    /// The status of the answer, if there was one.
    pub(crate) fn code(&self) -> Option<u16> {
        match of_request(&self.error) {
            Some(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}

fn of_request(error: &watcher::Error) -> Option<&kube::Error> {
    use watcher::Error as Of;
    match error {
        Of::InitialListFailed(error) | Of::WatchStartFailed(error) | Of::WatchFailed(error) => Some(error),
        Of::WatchError(_) | Of::NoResourceVersion => None,
    }
}

/// What is watched, in pages.
pub(crate) fn config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

/// Follows objects for ever. NODE-1: what was seen last stays true until something else is seen; a list that fails changes
/// nothing. `retry`: between two attempts, the first and the longest. `trim`: what is kept of each object, before there are
/// many of them.
pub(crate) async fn follow<K, T>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
    retry: (Duration, Duration),
    trim: impl Fn(K) -> T,
    mut take: impl FnMut(Result<Change<T>, Failure>),
) {
    let mut events = pin!(events);
    let (mut listed, mut pause, mut failed) = (Vec::new(), retry.0, None::<Instant>);
    while let Some(event) = events.next().await {
        let change = match event {
            // The API server was not asked yet.
            Ok(Event::Init) => {
                listed = Vec::new();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.push(trim(object));
                continue;
            }
            Ok(Event::InitDone) => Change::All(std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => Change::Set(trim(object)),
            Ok(Event::Delete(object)) => Change::Gone(trim(object)),
            Err(error) => {
                // One that works says nothing while nothing changes.
                if failed.is_some_and(|failed| failed.elapsed() > 3 * retry.1) {
                    pause = retry.0;
                }
                let asked = of_request(&error).and_then(retry_after).unwrap_or_default();
                take(Err(Failure { error, is_usual: pause == retry.0 }));
                // Many that failed together do not come together again.
                sleep(asked.max(pause).mul_f64(1.0 + fastrand::f64() / 2.0)).await;
                pause = (2 * pause).min(retry.1);
                failed = Some(Instant::now());
                continue;
            }
        };
        pause = retry.0;
        take(Ok(change));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_after_a_calm_is_usual_again() {
        let seconds = [0, 0, 0, 100];
        let events = stream::iter(seconds).then(async |seconds| {
            sleep(Duration::from_secs(seconds)).await;
            Err::<Event<()>, _>(watcher::Error::NoResourceVersion)
        });
        let mut usual = Vec::new();
        let retry = (Duration::from_secs(1), Duration::from_secs(20));
        follow(events, retry, |()| (), |seen| usual.push(seen.unwrap_err().is_usual)).await;
        assert_eq!(usual, [true, false, false, true]);
    }
}
