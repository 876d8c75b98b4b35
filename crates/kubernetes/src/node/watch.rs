//! Watches of a node: what is watched, and how that goes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::Instant;
use weir_legible::Seldom;

use crate::operator::object::kinds;
use crate::watch::{self, Change, Failure, News};

/// Between two attempts, the first and the longest. Nodes are many.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(20));

/// What is watched.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespace: Option<String>,
    /// A field selector; empty for all objects.
    pub(super) fields: String,
}

impl Watched {
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

/// What the log was told of a watch that fails.
#[derive(Default)]
struct Said {
    is_told: bool,
    reported: Seldom,
}

impl Said {
    fn tell(&mut self, watched: &str, failure: &Failure) {
        tracing::debug!(watched, error = failure.words(), "a watch ended; it begins anew");
        if failure.is_usual || self.is_told {
            return;
        }
        let Some(left_out) = self.reported.due(Instant::now()) else { return };
        self.is_told = true;
        tracing::warn!(
            watched,
            error = failure.words(),
            left_out,
            advice = "look whether the API server answers, and at the rights of this ServiceAccount",
            "cannot watch; trying on, with what was seen last"
        );
    }

    fn ends(&mut self, watched: &str) {
        if std::mem::take(&mut self.is_told) {
            tracing::info!(watched, "watching again");
        }
    }
}

/// Follows objects for ever, and says in `progress` how that goes. `trim`: what is kept of each.
pub(super) async fn follow<T>(
    client: Client,
    what: Watched,
    progress: Arc<Progress>,
    trim: impl Fn(Value) -> T,
    mut take: impl FnMut(Change<T>),
) {
    let (group, version) = what.api_version.rsplit_once('/').unwrap_or(("", what.api_version));
    let kind = GroupVersionKind::gvk(group, version, what.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &kinds::plural(what.kind));
    // Others are a part of every cluster, and a page that says 404 for them comes from a proxy.
    let is_ours = kinds::OURS.contains(&(what.api_version, what.kind));
    let api: Api<DynamicObject> = match &what.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut config = watch::config();
    if !what.fields.is_empty() {
        config = config.fields(&what.fields);
    }
    let mut said = Said::default();
    watch::follow(
        watch::events(api, config),
        RETRY,
        |object| trim(json(object)),
        |news| match news {
            News::Change(change) => {
                progress.hear(if matches!(change, Change::All(_)) { &progress.lists } else { &progress.events });
                if let Change::All(objects) = &change {
                    tracing::debug!(watched = what.kind, objects = objects.len(), "all objects were listed");
                }
                take(change);
            }
            News::Failure(failure) => {
                progress.errors.fetch_add(1, Ordering::Relaxed);
                said.tell(what.kind, &failure);
                // The API server knows no such kind: there are no objects then.
                if is_ours && failure.code() == Some(404) {
                    take(Change::All(Vec::new()));
                }
            }
            News::Recovery => said.ends(what.kind),
        },
    )
    .await;
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
