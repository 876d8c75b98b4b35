//! Conditions, as every object of Kubernetes has them.

use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::operator::object::{ObjectKey, generation, text};

/// What the API server takes of a message.
const MAX_MESSAGE_BYTES: usize = 32_768;
/// What it takes of the note of an event.
const MAX_NOTE_BYTES: usize = 1024;

/// Whether a condition is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    True,
    False,
    Unknown,
}

impl Met {
    fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) kind: &'static str,
    pub(crate) met: Met,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Condition {
    pub(crate) fn new(kind: &'static str, met: Met, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, met, reason, message: shortened(message.into(), MAX_MESSAGE_BYTES) }
    }
}

/// An event about an object: a condition that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) about: ObjectKey,
    pub(crate) uid: String,
    pub(crate) is_warning: bool,
    /// The type of the condition.
    pub(crate) action: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) note: String,
}

/// The conditions as a status has them, for an object with the conditions that it has now. Times of transitions stay
/// where the status of a condition does. Of the kinds `kept`, those that are not among these stay as they are.
pub(crate) fn written(object: &Value, conditions: &[Condition], kept: &[&str], now: SystemTime) -> Value {
    let now = Timestamp::try_from(now).map(|now| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default();
    let write = |condition: &Condition| {
        let before = found(object, condition.kind);
        let same = before.filter(|before| text(before, "/status") == Some(condition.met.name()));
        let since = same.and_then(|before| text(before, "/lastTransitionTime")).unwrap_or(&now);
        json!({
            "type": condition.kind,
            "status": condition.met.name(),
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": generation(object),
            "lastTransitionTime": since,
        })
    };
    let of = |kind: &&str| match conditions.iter().find(|condition| condition.kind == *kind) {
        Some(condition) => Some(write(condition)),
        None => found(object, kind).cloned(),
    };
    if kept.is_empty() { conditions.iter().map(write).collect() } else { kept.iter().filter_map(of).collect() }
}

/// Events about what has changed. That a new object is well is no event for each of its conditions.
pub(crate) fn events(about: &ObjectKey, object: &Value, conditions: &[Condition]) -> Vec<Event> {
    let changed = conditions.iter().filter(|condition| match found(object, condition.kind) {
        Some(before) => text(before, "/reason") != Some(condition.reason),
        None => condition.met == Met::False || condition.kind == "ConfigurationGenerated",
    });
    let event = |condition: &Condition| Event {
        about: about.clone(),
        uid: text(object, "/metadata/uid").unwrap_or_default().to_owned(),
        is_warning: condition.met == Met::False || condition.reason == "TLSCertificateAboutToExpire",
        action: condition.kind,
        reason: condition.reason,
        note: shortened(condition.message.clone(), MAX_NOTE_BYTES),
    };
    changed.map(event).collect()
}

/// The reason of a condition that an object has.
pub(crate) fn reason<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    text(found(object, kind)?, "/reason")
}

fn found<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| text(condition, "/type") == Some(kind))
}

fn shortened(mut message: String, max: usize) -> String {
    const MORE: &str = " ...";
    if message.len() > max {
        let fits = |end: &usize| message.is_char_boundary(*end);
        let end = (0..=max - MORE.len()).rev().find(fits).unwrap_or_default();
        message.truncate(end);
        message.push_str(MORE);
    }
    message
}
