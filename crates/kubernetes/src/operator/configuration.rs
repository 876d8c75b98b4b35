//! The configuration of the nodes: the documents that a file would have, in one Secret.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::names;
use super::object::{ObjectKey, kinds, name, text as at};
use super::picture::SecretName;
use super::references;
use crate::changed_by::{self, Origins};
use crate::packed::{pack, unpack};

/// The key of the Secret that has the documents.
pub(crate) const KEY: &str = "configuration.json.gz";
/// The key of the Secret that has what is no document.
pub(crate) const SETTINGS: &str = "settings.json";

/// A Secret may have 1 MiB; the rest is for its name, labels and settings.
const MAX_PACKED: usize = (1 << 20) - (16 << 10);
/// What is said of who changed pipelines may take a part of that rest, and what the documents leave.
const MAX_DATA: usize = MAX_PACKED + (8 << 10);
/// Of the text. Nodes and the operator need some fifty times as much to read it.
const MAX_BYTES: usize = 4 << 20;

/// Documents of one pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) pipeline: Value,
    /// Secrets with the keys that it refers to.
    pub(crate) secrets: Vec<Value>,
    /// Whether it is as nodes have it, and the cluster may have other values of the Secrets by now.
    pub(crate) is_old: bool,
}

/// The same, while all pipelines are decided on: those of a thousand as values are the most that the operator ever has.
#[derive(Debug, Clone)]
pub(crate) struct PartText {
    /// Kind and name, by which the text of a configuration is sorted.
    id: (String, String),
    pipeline: String,
    pub(crate) secrets: Vec<Value>,
    pub(crate) is_old: bool,
    /// What it refers to, if it is old: the pipeline as it is now may refer to others.
    pub(crate) references: BTreeSet<SecretName>,
}

impl From<Part> for PartText {
    fn from(Part { pipeline, secrets, is_old }: Part) -> Self {
        let id = (at(&pipeline, "/kind").unwrap_or_default().to_owned(), name(&pipeline).to_owned());
        let references = if is_old { references::of(&pipeline).into_keys().collect() } else { BTreeSet::new() };
        Self { id, pipeline: pipeline.to_string(), secrets, is_old, references }
    }
}

/// A configuration as nodes get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// The first 16 hexadecimal digits of the SHA-256 of the text.
    pub(crate) revision: String,
    /// The text, compressed.
    pub(crate) packed: Vec<u8>,
    /// How many documents it has.
    pub(crate) documents: usize,
    /// Who changed its pipelines. It is no part of the text: it makes no other configuration.
    pub(crate) changed_by: Arc<Origins>,
}

impl Configuration {
    /// Of a Telemetry and the parts for which there is room, the first ones first. The second result is how many these are.
    pub(crate) fn new(telemetry: Option<&Value>, parts: &[&PartText]) -> (Self, usize) {
        let pack = |count: usize| Self::of(telemetry, parts.iter().take(count).copied());
        if let Some(configuration) = pack(parts.len()) {
            return (configuration, parts.len());
        }
        let (mut fit, mut too_many) = (0, parts.len());
        while too_many - fit > 1 {
            let middle = fit.midpoint(too_many);
            if pack(middle).is_some() { fit = middle } else { too_many = middle }
        }
        let nothing = || Self::of_text(&text(None, std::iter::empty()).0, 0);
        (pack(fit).unwrap_or_else(nothing), fit)
    }

    /// Nothing if there is no room for it.
    fn of<'a>(telemetry: Option<&Value>, parts: impl Iterator<Item = &'a PartText>) -> Option<Self> {
        let (text, documents) = text(telemetry, parts);
        let made = (text.len() <= MAX_BYTES).then(|| Self::of_text(&text, documents));
        made.filter(|configuration| configuration.packed.len() <= MAX_PACKED)
    }

    fn of_text(text: &str, documents: usize) -> Self {
        let revision = Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { revision, packed: pack(text.as_bytes()), documents, changed_by: Arc::default() }
    }

    /// The Secret.
    pub(crate) fn manifest(&self, namespace: &str, settings: &Value, labels: Value) -> Value {
        let mut secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": names::CONFIGURATION,
                "namespace": namespace,
                "labels": labels,
                "annotations": { names::REVISION: self.revision },
            },
            "data": {
                KEY: BASE64_STANDARD.encode(&self.packed),
                SETTINGS: BASE64_STANDARD.encode(settings.to_string()),
            },
        });
        let changed_by = changed_by::packed(&self.changed_by);
        if self.packed.len() + changed_by.len() <= MAX_DATA {
            secret["data"][changed_by::KEY] = BASE64_STANDARD.encode(changed_by).into();
        }
        secret
    }
}

/// The Secret's name.
pub(crate) fn key(namespace: &str) -> ObjectKey {
    ObjectKey::cluster(kinds::SECRET, names::CONFIGURATION).within(namespace)
}

/// The text with all documents in one order, and how many they are. A Secret that several pipelines refer to is there
/// once, with all their keys, as the cluster has them if anybody knows that.
fn text<'a>(telemetry: Option<&Value>, parts: impl Iterator<Item = &'a PartText>) -> (String, usize) {
    let mut parts: Vec<_> = parts.collect();
    parts.sort_by_key(|part| part.is_old);
    let mut secrets: BTreeMap<(&str, &str), Cow<'_, Value>> = BTreeMap::new();
    for part in &parts {
        for secret in &part.secrets {
            let id = (at(secret, "/metadata/namespace").unwrap_or_default(), name(secret));
            match secrets.get_mut(&id) {
                Some(known) => merge(known, secret),
                None => drop(secrets.insert(id, Cow::Borrowed(secret))),
            }
        }
    }
    parts.sort_by_key(|part| &part.id);
    // As `kubectl get -o json` prints several documents.
    let (mut text, mut documents) = (String::from(r#"{"apiVersion":"v1","items":["#), 0);
    let mut add = |document: &str| {
        text.push_str(if documents > 0 { "," } else { "" });
        text.push_str(document);
        documents += 1;
    };
    telemetry.into_iter().for_each(|telemetry| add(&telemetry.to_string()));
    parts.iter().for_each(|part| add(&part.pipeline));
    secrets.values().for_each(|secret| add(&secret.to_string()));
    text.push_str(r#"],"kind":"List"}"#);
    (text, documents)
}

/// What is known stays.
fn merge(known: &mut Cow<'_, Value>, secret: &Value) {
    let Some(more) = secret["data"].as_object() else { return };
    if more.keys().all(|key| known["data"].get(key).is_some()) {
        return;
    }
    let Some(known) = known.to_mut()["data"].as_object_mut() else { return };
    for (key, value) in more {
        known.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// What is packed in a Secret as it was written, whoever wrote it.
pub(crate) fn packed_of(secret: &Value) -> Option<Vec<u8>> {
    value_of(secret, KEY)
}

/// Who changed pipelines, as a Secret says; nothing if it does not.
pub(crate) fn changed_by_of(secret: &Value) -> Option<Origins> {
    changed_by::unpacked(&value_of(secret, changed_by::KEY)?)
}

fn value_of(secret: &Value, key: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(secret.get("data")?.get(key)?.as_str()?).ok()
}

/// The documents that nodes have. They are unpacked when they are asked for, which is seldom.
pub(crate) struct Previous<'a> {
    packed: &'a [u8],
    items: OnceCell<Vec<Value>>,
}

impl<'a> Previous<'a> {
    pub(crate) fn new(packed: &'a [u8]) -> Self {
        Self { packed, items: OnceCell::new() }
    }

    /// None if it cannot be read.
    pub(crate) fn items(&self) -> &[Value] {
        self.items.get_or_init(|| items_of(self.packed).unwrap_or_default())
    }

    /// The part of a pipeline, with all the Secrets that it refers to there. Nothing of one of the same name that was deleted.
    pub(crate) fn part(&self, kind: &str, object: &Value) -> Option<Part> {
        let uid = |of: &Value| at(of, "/metadata/uid").map(str::to_owned);
        let is_same = |item: &Value| uid(item).is_none() || uid(item) == uid(object);
        let is_it = |item: &&Value| at(item, "/kind") == Some(kind) && name(item) == name(object) && is_same(item);
        let pipeline = self.items().iter().find(is_it)?.clone();
        let references = references::of(&pipeline);
        let is_wanted = |item: &&Value| {
            let namespace = at(item, "/metadata/namespace").unwrap_or_default().to_owned();
            at(item, "/kind") == Some("Secret")
                && references.contains_key(&SecretName { namespace, name: name(item).to_owned() })
        };
        let secrets = self.items().iter().filter(is_wanted).cloned().collect();
        Some(Part { pipeline, secrets, is_old: true })
    }

    /// Whether nodes have a pipeline, whatever it says.
    pub(crate) fn has(&self, kind: &str, pipeline: &str) -> bool {
        self.items().iter().any(|item| at(item, "/kind") == Some(kind) && name(item) == pipeline)
    }

    /// Whether nothing is known of what nodes have.
    pub(crate) fn is_unknown(&self) -> bool {
        self.items().is_empty()
    }

    /// The values of a Secret.
    pub(crate) fn secret(&self, namespace: &str, secret: &str) -> Option<BTreeMap<String, String>> {
        let is_it = |item: &&Value| {
            at(item, "/kind") == Some("Secret")
                && name(item) == secret
                && at(item, "/metadata/namespace") == Some(namespace)
        };
        let values = self.items().iter().find(is_it)?.get("data")?.as_object()?.iter();
        Some(values.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect())
    }

    pub(crate) fn telemetry(&self) -> Option<Value> {
        self.items().iter().find(|item| at(item, "/kind") == Some("Telemetry")).cloned()
    }
}

/// The documents of a configuration.
fn items_of(packed: &[u8]) -> Option<Vec<Value>> {
    let text = unpack(packed, MAX_BYTES as u64).ok()?;
    match serde_json::from_slice::<Value>(&text).ok()?.get_mut("items")?.take() {
        Value::Array(items) => Some(items),
        _ => None,
    }
}
