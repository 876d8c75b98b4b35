//! Watches: each tells of changes of some objects, for ever.

use std::fmt::Debug;
use std::mem;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::client::{BEGIN, retry_after, words};

/// Objects in one answer.
const PAGE: u32 = 250;

/// A watch that has failed, and does not fail again within this time, works: one that nobody answers fails sooner.
const CALM: Duration = BEGIN.saturating_add(Duration::from_secs(5));

/// What is told of a watch.
#[derive(Debug)]
pub(crate) enum News<T> {
    /// It saw something.
    Change(Change<T>),
    /// It has failed.
    Failure(Failure),
    /// It works again.
    Recovery,
}

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
        code(&self.error)
    }
}

fn code(error: &watcher::Error) -> Option<u16> {
    match of_request(error) {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
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

/// Watches. Whoever is refused lists everything anew: a watch that only goes on says nothing while nothing changes, so
/// nobody would know that it may go on. An API server that is away, or has too much to do, is not asked for lists
/// afterwards: watches go on where they were.
pub(crate) fn events<K>(api: Api<K>, of: watcher::Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    anew_when_refused(move || watcher::watcher(api.clone(), of.clone()))
}

fn anew_when_refused<K, S>(begin: impl Fn() -> S) -> impl Stream<Item = watcher::Result<Event<K>>>
where
    S: Stream<Item = watcher::Result<Event<K>>>,
{
    unfold((begin, None::<Pin<Box<S>>>), |(begin, events)| async move {
        let mut events = events.unwrap_or_else(|| Box::pin(begin()));
        let event = events.next().await?;
        let is_refused = event.as_ref().is_err_and(is_refusal);
        Some((event, (begin, (!is_refused).then_some(events))))
    })
}

/// Whether the API server has answered that it will not, and not that it cannot now.
fn is_refusal(error: &watcher::Error) -> bool {
    code(error).is_some_and(|code| (400..500).contains(&code) && code != 429)
}

/// How a watch goes.
#[derive(PartialEq, Eq)]
enum Health {
    Works,
    Fails,
    /// It fails before it has begun.
    DoesNotBegin,
}

/// Follows objects for ever. NODE-1: what was seen last stays true until something else is seen; a list that fails changes
/// nothing. `retry`: between two attempts, the first and the longest. `trim`: what is kept of each object, before there are
/// many of them.
pub(crate) async fn follow<K, T>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
    retry: (Duration, Duration),
    trim: impl Fn(K) -> T,
    mut take: impl FnMut(News<T>),
) {
    let mut events = pin!(events);
    let (mut listed, mut pause, mut health) = (None::<Vec<T>>, retry.0, Health::Works);
    loop {
        // A list may take longer, and says when it is done.
        let is_in_doubt = health != Health::Works && listed.is_none();
        let patience = if is_in_doubt { CALM } else { Duration::MAX };
        let event = match timeout(patience, events.next()).await {
            Ok(Some(event)) => event.map(Some),
            Ok(None) => return,
            Err(_) => Ok(None),
        };
        let change = match event {
            // The API server was not asked yet.
            Ok(Some(Event::Init)) => {
                listed = Some(Vec::new());
                continue;
            }
            Ok(Some(Event::InitApply(object))) => {
                listed.get_or_insert_default().push(trim(object));
                continue;
            }
            Ok(Some(Event::InitDone)) => Some(Change::All(listed.take().unwrap_or_default())),
            Ok(Some(Event::Apply(object))) => Some(Change::Set(trim(object))),
            Ok(Some(Event::Delete(object))) => Some(Change::Gone(trim(object))),
            Ok(None) => None,
            Err(error) => {
                listed = None;
                let has_begun = !matches!(error, watcher::Error::WatchStartFailed(_));
                health = if has_begun { Health::Fails } else { Health::DoesNotBegin };
                let asked = of_request(&error).and_then(retry_after).unwrap_or_default();
                take(News::Failure(Failure { error, is_usual: pause == retry.0 }));
                // Many that failed together do not come together again.
                sleep(asked.max(pause).mul_f64(1.0 + fastrand::f64() / 2.0)).await;
                pause = (2 * pause).min(retry.1);
                continue;
            }
        };
        // A list is no sign that the watch begins: whoever may list and not watch would list without a pause.
        if health != Health::DoesNotBegin || !matches!(change, Some(Change::All(_))) {
            pause = retry.0;
            if mem::replace(&mut health, Health::Works) != Health::Works {
                take(News::Recovery);
            }
        }
        if let Some(change) = change {
            take(News::Change(change));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::stream;
    use kube::core::Status;

    use super::*;

    const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

    /// Events, each with the seconds that it takes to come.
    type Events = Vec<(u64, watcher::Result<Event<()>>)>;

    /// What is told of them.
    async fn told(events: Events) -> Vec<&'static str> {
        let events = stream::iter(events).then(async |(seconds, event)| {
            sleep(Duration::from_secs(seconds)).await;
            event
        });
        let mut told = Vec::new();
        let take = |news: News<()>| {
            told.push(match news {
                News::Change(Change::All(_)) => "all",
                News::Change(Change::Set(())) => "set",
                News::Change(Change::Gone(())) => "gone",
                News::Failure(failure) if failure.is_usual => "usual failure",
                News::Failure(_) => "failure",
                News::Recovery => "recovery",
            });
        };
        follow(events, RETRY, |()| (), take).await;
        told
    }

    fn answer(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("unwell", "Unwell").with_code(code)))
    }

    /// A watch that the API server does not let begin.
    fn refused() -> watcher::Result<Event<()>> {
        Err(watcher::Error::WatchStartFailed(answer(403)))
    }

    /// An attempt that fails.
    fn failed() -> watcher::Result<Event<()>> {
        Err(watcher::Error::WatchStartFailed(answer(503)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_works_again_is_told_although_nothing_changes() {
        let told = told(vec![(0, failed()), (0, failed()), (100, failed()), (0, failed()), (0, Ok(Event::Apply(())))]);
        let expected = ["usual failure", "failure", "recovery", "usual failure", "failure", "recovery", "set"];
        assert_eq!(told.await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_not_answered_does_not_work() {
        let hangs = || (BEGIN.as_secs(), failed());
        assert_eq!(told(vec![hangs(), hangs(), hangs()]).await, ["usual failure", "failure", "failure"]);
        let list_hangs = vec![(0, failed()), (0, Ok(Event::Init)), (100, failed())];
        assert_eq!(told(list_hangs).await, ["usual failure", "failure"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_says_nothing_of_a_watch_that_does_not_begin() {
        let list = || -> Events { vec![(0, Ok(Event::Init)), (0, Ok(Event::InitDone))] };
        let mut only_listed = list();
        for _ in 0..2 {
            only_listed.push((0, refused()));
            only_listed.extend(list());
        }
        only_listed.push((100, Ok(Event::Delete(()))));
        let expected = ["all", "usual failure", "all", "failure", "all", "recovery", "gone"];
        assert_eq!(told(only_listed).await, expected);

        let mut not_listed = vec![(0, Err(watcher::Error::InitialListFailed(answer(403))))];
        not_listed.extend(list());
        assert_eq!(told(not_listed).await, ["usual failure", "recovery", "all"]);
    }

    #[tokio::test]
    async fn only_whoever_is_refused_lists_anew() {
        for (code, is_refusal) in
            [(401, true), (403, true), (404, true), (410, true), (429, false), (500, false), (503, false)]
        {
            let begun = Cell::new(0);
            let begin = || {
                begun.set(begun.get() + 1);
                stream::iter([Err(watcher::Error::WatchStartFailed(answer(code))), Ok(Event::<()>::Init)])
            };
            assert_eq!(anew_when_refused(begin).take(2).count().await, 2);
            assert_eq!(begun.get(), if is_refusal { 2 } else { 1 }, "{code}");
        }
    }
}
