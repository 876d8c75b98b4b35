//! Writes: server-side apply of what has to be there, and deletion of what has not. Each only while this process leads
//! (OPERATOR-3).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::api::{RequestError, api_of, request};
use super::trim;
use super::world::{Mark, World};
use crate::lease::Leadership;
use crate::operator::manifests;
use crate::operator::names::{MANAGED_BY, MANAGER};
use crate::operator::object::{ObjectKey, kinds};
use crate::operator::status::condition::{Change, Event, Status};

/// Where events about objects of the whole cluster are kept.
const EVENTS_OF_CLUSTER: &str = "default";

/// A hash of a manifest, and what the object was with it.
#[derive(PartialEq, Eq)]
struct Applied {
    manifest: u64,
    mark: Mark,
}

/// Writes to the API server.
pub(super) struct Writer {
    client: Client,
    leadership: Leadership,
    /// Who reports events.
    instance: String,
    /// What was applied. A manifest that is the same is applied again only if somebody changed the object.
    applied: BTreeMap<ObjectKey, Applied>,
}

impl Writer {
    pub(super) fn new(client: Client, leadership: Leadership, instance: String) -> Self {
        Self { client, leadership, instance, applied: BTreeMap::new() }
    }

    /// Whoever led before may have written anything.
    pub(super) fn forget(&mut self) {
        self.applied.clear();
    }

    /// Nothing is under way any more when another may begin.
    async fn write<T>(&self, asked: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
        let Some(until) = self.leadership.until() else { return Err(RequestError::NotLeading) };
        let given_up = |_| Err(if self.leadership.leads() { RequestError::Timeout } else { RequestError::NotLeading });
        timeout_at(until, request(asked)).await.unwrap_or_else(given_up)
    }

    /// Makes an object what its manifest says. Returns whether it has changed.
    pub(super) async fn apply(&mut self, manifest: &Value, world: &Arc<World>) -> Result<bool, RequestError> {
        let Some(key) = manifests::key(manifest) else { return Ok(false) };
        let wanted = hash(manifest);
        // Objects that nobody watches stay what they were.
        let mut seen = world.look(|seen| seen.made.get(&key).cloned());
        match self.applied.get(&key) {
            Some(Applied { manifest, mark }) if *manifest == wanted && seen.as_ref() == Some(mark) => return Ok(false),
            Some(_) => {}
            None if self.is_of_others(&key).await? => return Ok(false),
            None => seen = self.adopt(&key).await?.or(seen),
        }
        let written = match self.patch(&key, manifest).await {
            Err(failure) if failure.is_immutable() => self.replace(&key, manifest, failure).await?,
            written => written?,
        };
        let mark = trim::mark(&written.metadata);
        self.applied.insert(key.clone(), Applied { manifest: wanted, mark: mark.clone() });
        world.look(|seen| seen.made.insert(key, mark.clone()));
        Ok(seen != Some(mark))
    }

    /// A PriorityClass that somebody else has made is used as it is.
    async fn is_of_others(&self, key: &ObjectKey) -> Result<bool, RequestError> {
        if key.kind != kinds::PRIORITY_CLASS.1 {
            return Ok(false);
        }
        let found = self.write(api_of(&self.client, key).get_opt(&key.name)).await?;
        let labels = found.map(|found| found.metadata.labels.unwrap_or_default());
        Ok(labels.is_some_and(|labels| labels.get(MANAGED_BY).is_none_or(|by| by != MANAGER)))
    }

    async fn patch(&self, key: &ObjectKey, manifest: &Value) -> Result<DynamicObject, RequestError> {
        let force = PatchParams::apply(MANAGER).force();
        self.write(api_of(&self.client, key).patch(&key.name, &force, &Patch::Apply(manifest))).await
    }

    /// Some fields can never change: the object is made anew. What it made stays, and is taken over.
    async fn replace(
        &self,
        key: &ObjectKey,
        manifest: &Value,
        refusal: RequestError,
    ) -> Result<DynamicObject, RequestError> {
        if key.kind == kinds::SECRET.1 || key.kind == kinds::SERVICE.1 {
            return Err(refusal);
        }
        tracing::info!(object = %key, reason = %refusal, "cannot be changed: made anew");
        self.write(api_of(&self.client, key).delete(&key.name, &DeleteParams::orphan())).await?;
        self.patch(key, manifest).await
    }

    /// Fields that an older installation set would stay beside ours. They become ours, so that the next apply removes
    /// those that are not wanted any more, without a moment in which the object is not there.
    /// Returns what the object was, if it was ours already.
    async fn adopt(&self, key: &ObjectKey) -> Result<Option<Mark>, RequestError> {
        let api = api_of(&self.client, key);
        let Some(found) = self.write(api.get_opt(&key.name)).await? else { return Ok(None) };
        let fields = serde_json::to_value(&found.metadata.managed_fields).unwrap_or_default();
        let Some(adopted) = adopted(&fields) else { return Ok(Some(trim::mark(&found.metadata))) };
        tracing::info!(object = %key, "taken over from an older installation");
        let metadata =
            json!({ "metadata": { "managedFields": adopted, "resourceVersion": found.metadata.resource_version } });
        self.write(api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&metadata))).await?;
        Ok(None)
    }

    /// Makes a workload have so many replicas. Who counts them is no field of a manifest: it may be an autoscaler.
    pub(super) async fn scale(&self, key: &ObjectKey, replicas: u32) -> Result<(), RequestError> {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let manager = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.write(api_of(&self.client, key).patch(&key.name, &manager, &patch)).await.map(drop)
    }

    /// Removes an object. Returns whether there was one.
    pub(super) async fn delete(&mut self, key: &ObjectKey) -> Result<bool, RequestError> {
        self.applied.remove(key);
        let background = DeleteParams::background();
        match self.write(api_of(&self.client, key).delete(&key.name, &background)).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_not_found() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Writes a status. An object that is gone has none.
    pub(super) async fn status(&self, status: &Status) -> Result<(), RequestError> {
        let object = &status.object;
        let patch = Patch::Merge(json!({ "status": status.value() }));
        let manager = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.write(api_of(&self.client, object).patch_status(&object.name, &manager, &patch)).await;
        absent_is_fine(written.map(drop))
    }

    /// Writes the finalizers of an object that is as it was seen.
    pub(super) async fn finalizers(
        &self,
        object: &ObjectKey,
        finalizers: &Value,
        version: &str,
    ) -> Result<(), RequestError> {
        let metadata = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": version } });
        let manager = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let written =
            self.write(api_of(&self.client, object).patch(&object.name, &manager, &Patch::Merge(metadata))).await;
        absent_is_fine(written.map(drop))
    }

    /// Tells an event.
    pub(super) async fn event(&self, event: &Event) -> Result<(), RequestError> {
        let Event { about, uid, change: Change { condition, reason, is_warning }, note } = event;
        let namespace = about.namespace.as_deref().unwrap_or(EVENTS_OF_CLUSTER);
        let now = Timestamp::now();
        let name: String = about.name.chars().take(200).collect();
        let name = format!("{}.{:x}", name.trim_end_matches(['.', '-']), now.as_nanosecond());
        let told = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "name": name, "namespace": namespace },
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            "reportingController": MANAGER,
            "reportingInstance": self.instance.chars().take(128).collect::<String>(),
            "type": if *is_warning { "Warning" } else { "Normal" },
            "action": condition,
            "reason": reason,
            "note": note,
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": uid,
            },
        });
        let key = ObjectKey::cluster(("events.k8s.io/v1", "Event"), "").within(namespace);
        let Ok(object) = serde_json::from_value::<DynamicObject>(told) else { return Ok(()) };
        self.write(api_of(&self.client, &key).create(&PostParams::default(), &object)).await.map(drop)
    }
}

fn absent_is_fine(written: Result<(), RequestError>) -> Result<(), RequestError> {
    match written {
        Err(failure) if failure.is_not_found() => Ok(()),
        written => written,
    }
}

fn hash(manifest: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    manifest.to_string().hash(&mut hasher);
    hasher.finish()
}

/// The `managedFields` in which fields of whoever wrote before are ours; nothing if that is so already.
fn adopted(fields: &Value) -> Option<Value> {
    let entries = fields.as_array()?;
    let is_ours =
        |entry: &Value| entry["manager"] == MANAGER && entry["operation"] == "Apply" && entry["subresource"].is_null();
    if entries.iter().any(is_ours) {
        return None;
    }
    let is_before = |entry: &&Value| entry["operation"] == "Update" && entry["subresource"].is_null();
    let mut before = entries.iter().filter(is_before);
    let mut ours = before.next()?.clone();
    ours["manager"] = MANAGER.into();
    ours["operation"] = "Apply".into();
    before.for_each(|entry| unite(&mut ours["fieldsV1"], &entry["fieldsV1"]));
    let others = entries.iter().filter(|entry| !is_before(entry)).cloned();
    Some(others.chain([ours]).collect())
}

/// Sets of fields are trees of keys. The API server bounds how deep they are.
fn unite(known: &mut Value, more: &Value) {
    let (Some(known), Some(more)) = (known.as_object_mut(), more.as_object()) else { return };
    for (key, value) in more {
        match known.get_mut(key) {
            Some(below) => unite(below, value),
            None => drop(known.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_older_installation_become_ours() {
        let before = json!([
            { "manager": "manager", "operation": "Update", "fieldsV1": { "f:spec": { "f:a": {} } } },
            { "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:spec": { "f:b": {} }, "f:data": {} } },
            { "manager": "kcm", "operation": "Update", "subresource": "status", "fieldsV1": { "f:status": {} } },
        ]);
        let after = adopted(&before).unwrap();
        assert_eq!(after[0]["manager"], "kcm");
        let fields = json!({ "f:spec": { "f:a": {}, "f:b": {} }, "f:data": {} });
        assert_eq!(after[1], json!({ "manager": MANAGER, "operation": "Apply", "fieldsV1": fields }));
        assert_eq!(adopted(&after), None, "once");
        assert_eq!(adopted(&json!([])), None);
        assert_eq!(adopted(&Value::Null), None);
    }
}
