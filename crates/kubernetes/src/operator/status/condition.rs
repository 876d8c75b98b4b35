//! Conditions, as every object of Kubernetes has them.

use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::operator::object::{ObjectKey, generation, text};

/// What the API server takes of a message.
const MAX_MESSAGE_BYTES: usize = 32_768;
/// What the message of a condition says of a Secret whose last known values are used. The condition keeps its reason,
/// so this tells whether it was said before.
pub(crate) const UNREADABLE: &str = "cannot be read since ";
/// The reason of the event that tells of it.
const SECRET_UNREADABLE: &str = "ReferencedSecretUnreadable";
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

    /// Whether it says that a Secret must not be read any more. A Telemetry only repeats its pipelines.
    fn says_unreadable(&self) -> bool {
        self.kind == "ConfigurationGenerated" && self.message.contains(UNREADABLE)
    }
}

/// A condition that has changed, or says something new. Its message is in the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The type of the condition.
    pub(crate) condition: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) is_warning: bool,
}

/// An event about an object: a condition that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) about: ObjectKey,
    pub(crate) uid: String,
    pub(crate) change: Change,
    pub(crate) note: String,
}

/// A status to write. It is kept as text: as values, those of a thousand pipelines take four times the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) object: ObjectKey,
    uid: String,
    text: String,
    changes: Vec<Change>,
}

impl Status {
    /// The status of an object that has these conditions from now on.
    pub(crate) fn new(key: ObjectKey, object: &Value, conditions: &[Condition], status: &Value) -> Self {
        let uid = text(object, "/metadata/uid").unwrap_or_default().to_owned();
        Self { object: key, uid, text: status.to_string(), changes: changes(object, conditions) }
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// What to tell of it once it is written.
    pub(crate) fn events(&self) -> Vec<Event> {
        let status = self.value();
        let message = |change: &Change| text(condition(&status, change.condition)?, "/message");
        let event = |change: &Change| Event {
            about: self.object.clone(),
            uid: self.uid.clone(),
            change: change.clone(),
            note: shortened(message(change).unwrap_or_default().to_owned(), MAX_NOTE_BYTES),
        };
        self.changes.iter().map(event).collect()
    }
}

/// The conditions as a status has them, for an object with the conditions that it has now. Times of transitions stay
/// where the status of a condition does. Of the kinds `kept`, those that are not among these stay as they are.
pub(crate) fn written(object: &Value, conditions: &[Condition], kept: &[&str], now: SystemTime) -> Value {
    let now = time(now);
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

/// What has changed. That a new object is well is no event for each of its conditions.
fn changes(object: &Value, conditions: &[Condition]) -> Vec<Change> {
    let changed = conditions.iter().filter(|condition| match found(object, condition.kind) {
        Some(before) => text(before, "/reason") != Some(condition.reason),
        None => condition.met == Met::False || condition.kind == "ConfigurationGenerated",
    });
    let change = |condition: &Condition| Change {
        condition: condition.kind,
        reason: condition.reason,
        is_warning: condition.met == Met::False || condition.reason == "TLSCertificateAboutToExpire",
    };
    let warning =
        |condition: &Condition| Change { condition: condition.kind, reason: SECRET_UNREADABLE, is_warning: true };
    let is_said = |condition: &Condition| message(object, condition.kind).is_some_and(|it| it.contains(UNREADABLE));
    let begins = conditions.iter().filter(|condition| condition.says_unreadable() && !is_said(condition));
    changed.map(change).chain(begins.map(warning)).collect()
}

/// A time as conditions have it.
pub(crate) fn time(time: SystemTime) -> String {
    Timestamp::try_from(time).map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default()
}

/// The message of a condition that an object has.
pub(crate) fn message<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    text(found(object, kind)?, "/message")
}

/// The reason of a condition that an object has.
pub(crate) fn reason<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    text(found(object, kind)?, "/reason")
}

fn found<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    condition(object.get("status")?, kind)
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = status.get("conditions")?.as_array()?;
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
