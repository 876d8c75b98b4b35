//! Watches of Secrets: one for each that a pipeline refers to, and none for any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::trim;
use super::watch::{Failures, RETRY, one};
use super::world::World;
use crate::operator::picture::{SecretName, SecretState};
use crate::watch::{self, News, config};

/// Secrets that are looked up at the same time, when a process begins with many.
const AT_ONCE: usize = 16;

/// The watches.
pub(super) struct Secrets {
    client: Client,
    world: Arc<World>,
    watched: BTreeMap<SecretName, Watch>,
    turns: Arc<Semaphore>,
}

/// A watch that ends when it is dropped.
struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Secrets {
    pub(super) fn new(client: Client, world: Arc<World>) -> Self {
        Self { client, world, watched: BTreeMap::new(), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Watches these, and no others any more.
    pub(super) fn watch(&mut self, wanted: &BTreeSet<SecretName>) {
        if self.watched.keys().eq(wanted) {
            return;
        }
        self.watched.retain(|secret, _| wanted.contains(secret));
        self.world.look(|seen| Arc::make_mut(&mut seen.secrets).retain(|secret, _| wanted.contains(secret)));
        for secret in wanted {
            if !self.watched.contains_key(secret) {
                let (world, turns) = (Arc::clone(&self.world), Arc::clone(&self.turns));
                let task = follow(self.client.clone(), secret.clone(), world, turns);
                self.watched.insert(secret.clone(), Watch(tokio::spawn(task).abort_handle()));
            }
        }
    }
}

async fn follow(client: Client, secret: SecretName, world: Arc<World>, turns: Arc<Semaphore>) {
    let SecretName { namespace, name } = &secret;
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let only = config().fields(&format!("metadata.name={name}"));
    // Until the first answer.
    let mut turn = turns.acquire().await.ok();
    let (mut found, mut failures) = (SecretState::Missing(None), Failures::new("Secret", &world));
    let trim = |object: Secret| {
        let resource_version = object.metadata.resource_version.clone();
        SecretState::Present { values: Arc::new(trim::values(object)), resource_version, unreadable_since: None }
    };
    watch::follow(watch::events(api, only), RETRY, trim, |news| {
        drop(turn.take());
        match news {
            News::Change(change) => {
                found = one(change).unwrap_or_else(|| gone(&found));
                set(&world, &secret, found.clone());
            }
            News::Failure(failure) => {
                failures.note(&failure);
                // Until the next list: whoever is refused begins with one.
                if matches!(failure.code(), Some(401 | 403)) {
                    unreadable(&world, &secret, failure.words());
                }
            }
            News::Recovery => failures.end(),
        }
    })
    .await;
}

/// A Secret that is not there, or not any more.
fn gone(before: &SecretState) -> SecretState {
    match before {
        SecretState::Missing(since) => SecretState::Missing(*since),
        SecretState::Unreadable { .. } => SecretState::Missing(None),
        SecretState::Present { .. } => SecretState::Missing(Some(SystemTime::now())),
    }
}

fn set(world: &World, secret: &SecretName, state: SecretState) {
    world.see(|seen| drop(Arc::make_mut(&mut seen.secrets).insert(secret.clone(), state)));
}

/// Nobody is woken by a refusal that is known.
fn unreadable(world: &World, secret: &SecretName, reason: String) {
    world.see_whether(|seen| {
        let before = seen.secrets.get(secret);
        let after = SecretState::refused(before, reason, SystemTime::now());
        let is_news = before != Some(&after);
        if is_news {
            Arc::make_mut(&mut seen.secrets).insert(secret.clone(), after);
        }
        is_news
    });
}
