//! Watches of Secrets: one for each that a pipeline refers to, and none for any other.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{Event, watcher};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::trim;
use super::watch::{Failures, config};
use super::world::World;
use crate::operator::picture::{SecretName, SecretState};

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
        self.world.look(|seen| seen.secrets.retain(|secret, _| wanted.contains(secret)));
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
    let mut events = pin!(watcher(api, only));
    // Until the first answer.
    let mut turn = turns.acquire().await.ok();
    let (mut found, mut failures) = (SecretState::Missing(None), Failures::new("Secret", &world));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => found = gone(&found),
            Ok(Event::InitApply(object)) => found = SecretState::Present(Arc::new(trim::values(object))),
            Ok(event) => {
                drop(turn.take());
                failures.end();
                found = match event {
                    Event::Apply(object) => SecretState::Present(Arc::new(trim::values(object))),
                    Event::Delete(_) => gone(&found),
                    _ => found,
                };
                set(&world, &secret, found.clone());
            }
            Err(error) => {
                drop(turn.take());
                let reason = trouble_of(&error);
                let pause = failures.note(error);
                if let Some(reason) = reason {
                    unreadable(&world, &secret, reason);
                }
                sleep(pause).await;
            }
        }
    }
}

/// A Secret that is not there, or not any more.
fn gone(before: &SecretState) -> SecretState {
    match before {
        SecretState::Missing(since) => SecretState::Missing(*since),
        SecretState::Unreadable(_) => SecretState::Missing(None),
        SecretState::Present(_) => SecretState::Missing(Some(SystemTime::now())),
    }
}

/// Why it is refused, if it is: other failures pass.
fn trouble_of(error: &kube::runtime::watcher::Error) -> Option<String> {
    use kube::runtime::watcher::Error as Of;
    let (Of::InitialListFailed(kube::Error::Api(status)) | Of::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return None;
    };
    matches!(status.code, 401 | 403).then(|| status.message.clone())
}

fn set(world: &World, secret: &SecretName, state: SecretState) {
    world.see(|seen| drop(seen.secrets.insert(secret.clone(), state)));
}

/// What was read before stays true.
fn unreadable(world: &World, secret: &SecretName, reason: String) {
    let is_known = world.look(|seen| seen.secrets.contains_key(secret));
    if !is_known {
        set(world, secret, SecretState::Unreadable(reason));
    }
}
