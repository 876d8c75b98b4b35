//! Watches: each tells of changes of some objects, for ever.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::client::{retry_after, words};
use crate::operator::object::kinds;

/// Between two attempts, the first and the longest. Nodes are many.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(20));

/// Objects in one answer.
const PAGE: u32 = 250;

/// What a watch saw.
#[derive(Debug)]
pub(super) enum Change<T> {
    /// Everything there is.
    All(Vec<T>),
    /// It is new, or another.
    Set(T),
    /// It is gone.
    Gone(T),
}

/// What is watched.
#[derive(Debug, Clone)]
pub(super) struct What {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespace: Option<String>,
    /// A field selector; empty for all objects.
    pub(super) fields: String,
}

impl What {
    pub(super) const fn new(api_version: &'static str, kind: &'static str) -> Self {
        Self { api_version, kind, namespace: None, fields: String::new() }
    }

    pub(super) fn all((api_version, kind): (&'static str, &'static str)) -> Self {
        Self::new(api_version, kind)
    }

    pub(super) fn within(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    pub(super) fn with(self, fields: String) -> Self {
        Self { fields, ..self }
    }
}

/// How a watch goes.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) events: AtomicU64,
    pub(super) lists: AtomicU64,
    pub(super) errors: AtomicU64,
    heard: Mutex<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        let [events, lists, errors] = [const { AtomicU64::new(0) }; 3];
        Self { events, lists, errors, heard: Mutex::new(Instant::now()) }
    }
}

impl Progress {
    pub(super) fn silence(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn hear(&self, count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// Follows objects for ever. What was seen last stays true until something else is seen: a list that fails changes
/// nothing. `trim`: what is kept of each, before there are many of them.
pub(super) async fn follow<T>(
    client: Client,
    what: What,
    progress: Arc<Progress>,
    trim: impl Fn(Value) -> T,
    mut take: impl FnMut(Change<T>),
) {
    let trim = |object| trim(json(object));
    let (group, version) = what.api_version.rsplit_once('/').unwrap_or(("", what.api_version));
    let kind = GroupVersionKind::gvk(group, version, what.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &kinds::plural(what.kind));
    // Others are a part of every cluster, and a page that says 404 for them comes from a proxy.
    let is_ours = kinds::OURS.contains(&(what.api_version, what.kind));
    let api: Api<DynamicObject> = match &what.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut config = watcher::Config::default().page_size(PAGE);
    if !what.fields.is_empty() {
        config = config.fields(&what.fields);
    }
    let mut events = pin!(watcher(api, config));
    let (mut listed, mut failures) = (Vec::new(), Failures { what: what.kind, pause: RETRY.0, is_told: false });
    while let Some(event) = events.next().await {
        match event {
            // The API server was not asked yet.
            Ok(Event::Init) => listed = Vec::new(),
            Ok(Event::InitApply(object)) => listed.push(trim(object)),
            Ok(event) => {
                failures.end();
                let is_list = matches!(event, Event::InitDone);
                progress.hear(if is_list { &progress.lists } else { &progress.events });
                match event {
                    Event::Apply(object) => take(Change::Set(trim(object))),
                    Event::Delete(object) => take(Change::Gone(trim(object))),
                    _ => take(Change::All(std::mem::take(&mut listed))),
                }
            }
            Err(error) => {
                progress.errors.fetch_add(1, Ordering::Relaxed);
                if is_ours && is_unknown(&error) {
                    take(Change::All(Vec::new()));
                }
                sleep(failures.note(&error)).await;
            }
        }
    }
}

/// Whether the API server knows no such kind: there are no objects then.
fn is_unknown(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

fn json(object: DynamicObject) -> Value {
    let DynamicObject { metadata, mut data, .. } = object;
    let metadata = serde_json::to_value(metadata).unwrap_or_default();
    if let Some(fields) = data.as_object_mut() {
        fields.insert("metadata".to_owned(), metadata);
        return data;
    }
    serde_json::json!({ "metadata": metadata })
}

/// Failures of a watch. One alone is usual, a version that is too old for example, and not told.
struct Failures {
    what: &'static str,
    pause: Duration,
    is_told: bool,
}

impl Failures {
    /// How long to wait.
    fn note(&mut self, error: &watcher::Error) -> Duration {
        let pause = self.pause;
        if pause > RETRY.0 && !std::mem::replace(&mut self.is_told, true) {
            let error = said(error);
            tracing::warn!(watched = self.what, error, "cannot watch; trying on, with what was seen last");
        }
        self.pause = (2 * pause).min(RETRY.1);
        let pause = pause.max(asked(error).unwrap_or_default());
        // Many that failed together do not come together again.
        pause.mul_f64(1.0 + fastrand::f64() / 2.0)
    }

    fn end(&mut self) {
        self.pause = RETRY.0;
        if std::mem::take(&mut self.is_told) {
            tracing::info!(watched = self.what, "watching again");
        }
    }
}

/// How long the API server wants to be left alone.
fn asked(error: &watcher::Error) -> Option<Duration> {
    use watcher::Error as Of;
    match error {
        Of::InitialListFailed(error) | Of::WatchStartFailed(error) | Of::WatchFailed(error) => retry_after(error),
        Of::WatchError(_) | Of::NoResourceVersion => None,
    }
}

/// What the API server said, without what the library adds.
fn said(error: &watcher::Error) -> String {
    use watcher::Error as Of;
    match error {
        Of::InitialListFailed(error) | Of::WatchStartFailed(error) | Of::WatchFailed(error) => words(error),
        Of::WatchError(status) => format!("{} ({})", status.message, status.code),
        Of::NoResourceVersion => "the API server names no resourceVersion".to_owned(),
    }
}
