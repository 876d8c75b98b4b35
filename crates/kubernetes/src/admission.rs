//! Reviews of an API server: whether an object may be stored, what is written into it, and what it is in another
//! version.
//!
//! The texts are those of `weir check`. What the reconciliation of a pipeline reports as a condition (an endpoint, a
//! Secret, a certificate) does not keep it from being stored, because it can become right without a change of the
//! pipeline; it is a warning here. A pipeline whose `spec` stays as it is stays as right or wrong as it was: whoever
//! sets a label or takes a finalizer away is not bothered with it.

mod conversion;
mod patch;

use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use weir_resources::{Diagnostic, Foreign, Options, Reason, Severity, Source, findings, is_convertible, with_defaults};

use crate::operator::limits::{self, MAX_SPEC_BYTES};
use crate::operator::object::is_our_annotation;

pub use conversion::convert;

/// Findings that are written into one answer.
const MAX_SHOWN: usize = 20;

/// A review that is none, so that there is nobody to answer.
#[derive(Debug, Error)]
pub enum Malformed {
    /// Not JSON, or not of the form of a review.
    #[error("the body is no {0} that can be read: {1}")]
    Unreadable(&'static str, serde_json::Error),
    /// Of another version.
    #[error("the body is a {kind:?} of {api_version:?}; expected {expected}")]
    Unknown {
        /// What it says it is.
        api_version: String,
        /// What it says it is.
        kind: String,
        /// What can be answered.
        expected: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

/// What an API server asks about one object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    /// Nothing of an object that is deleted.
    #[serde(default)]
    object: Option<Value>,
    /// What it was before.
    #[serde(default)]
    old_object: Option<Value>,
}

/// Answers an AdmissionReview (`admission.k8s.io/v1`): whether the object may be stored. Certificates are judged at
/// `now`.
///
/// # Errors
/// When the body is no such review.
pub fn validate(body: &[u8], now: SystemTime) -> Result<Value, Malformed> {
    let request = read(body)?;
    Ok(answer(&request.uid, judge(&request, now)))
}

/// Answers an AdmissionReview (`admission.k8s.io/v1`) with the defaults that are to be written into the object.
///
/// # Errors
/// When the body is no such review.
pub fn mutate(body: &[u8]) -> Result<Value, Malformed> {
    let request = read(body)?;
    Ok(answer(&request.uid, fill(&request)))
}

fn read(body: &[u8]) -> Result<Request, Malformed> {
    const EXPECTED: &str = "AdmissionReview of admission.k8s.io/v1";
    let review: Review =
        serde_json::from_slice(body).map_err(|error| Malformed::Unreadable("AdmissionReview", error))?;
    let Review { api_version, kind, request } = review;
    if (api_version.as_str(), kind.as_str()) != ("admission.k8s.io/v1", "AdmissionReview") {
        return Err(Malformed::Unknown { api_version, kind, expected: EXPECTED });
    }
    Ok(request)
}

fn answer(uid: &str, mut response: Value) -> Value {
    response["uid"] = uid.into();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

fn judge(request: &Request, now: SystemTime) -> Value {
    let object = match object_of(request) {
        Ok(Some(object)) => object,
        Ok(None) => return json!({"allowed": true}),
        Err(refusal) => return refusal,
    };
    let bytes = object.get("spec").map_or(0, |spec| spec.to_string().len());
    if bytes > MAX_SPEC_BYTES {
        return failure(413, "RequestEntityTooLarge", &limits::too_large(u64::try_from(bytes).unwrap_or(u64::MAX)));
    }
    let source = Source { name: "object".to_owned(), text: object.to_string() };
    let options = Options { foreign: Foreign::Refuse, ..Options::at(now) };
    let (refused, warned): (Vec<_>, Vec<_>) = findings(&source, &options).into_iter().partition(is_refused);
    let warnings: Vec<_> = warned.iter().take(MAX_SHOWN).map(warning).chain(more(warned.len())).collect();
    let mut response = if refused.is_empty() { json!({"allowed": true}) } else { refusal(object, &refused) };
    if !warnings.is_empty() {
        response["warnings"] = warnings.into();
    }
    response
}

fn fill(request: &Request) -> Value {
    let object = match object_of(request) {
        Ok(Some(object)) => object,
        Ok(None) => return json!({"allowed": true}),
        Err(refusal) => return refusal,
    };
    let patch = patch::additions(object, &with_defaults(object.clone()));
    if patch.is_empty() {
        return json!({"allowed": true});
    }
    let patch = BASE64_STANDARD.encode(Value::from(patch).to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

/// The object, if there is something to say about it; otherwise nothing, or the refusal of one that is not ours.
fn object_of(request: &Request) -> Result<Option<&Value>, Value> {
    let Some(object) = request.object.as_ref().filter(|object| !object.is_null()) else { return Ok(None) };
    if !is_convertible(object) {
        let shown = |key| object.get(key).and_then(Value::as_str).unwrap_or_default().escape_debug().to_string();
        let message =
            format!("cannot judge {:?} of {:?}: it is no pipeline or Telemetry", shown("kind"), shown("apiVersion"));
        return Err(failure(400, "BadRequest", &message));
    }
    let is_settled = is_deleted(object) || request.old_object.as_ref().is_some_and(|old| says_the_same(old, object));
    Ok((!is_settled).then_some(object))
}

fn is_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
}

/// Whether an object says what it said before.
fn says_the_same(old: &Value, new: &Value) -> bool {
    let ours = |object: &Value| {
        let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
        let ours = annotations.into_iter().flatten().filter(|(key, _)| is_our_annotation(key));
        ours.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    old.get("apiVersion") == new.get("apiVersion") && old.get("spec") == new.get("spec") && ours(old) == ours(new)
}

/// Whether a finding keeps an object from being stored.
fn is_refused(finding: &Diagnostic) -> bool {
    let at_once = [None, Some(Reason::OttlSpecInvalid), Some(Reason::RuntimeAdditionalMetricInvalid)];
    finding.severity == Severity::Error && at_once.contains(&finding.reason)
}

/// As `weir check` says it, without a place in a file.
fn text(finding: &Diagnostic) -> String {
    let Diagnostic { field, message, expected, .. } = finding;
    let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
    let expected = if expected.is_empty() { String::new() } else { format!("; expected {expected}") };
    format!("{field}{message}{expected}")
}

/// With the reason that a condition will give.
fn warning(finding: &Diagnostic) -> String {
    let reason = finding.reason.map(|reason| format!("{}: ", reason.name())).unwrap_or_default();
    reason + &text(finding)
}

fn more(count: usize) -> Option<String> {
    (count > MAX_SHOWN).then(|| format!("{} more are not shown", count - MAX_SHOWN))
}

/// All that keeps an object from being stored, in one message, and for programs one by one.
fn refusal(object: &Value, refused: &[Diagnostic]) -> Value {
    let shown = || refused.iter().take(MAX_SHOWN);
    let message: Vec<_> = shown().map(text).chain(more(refused.len())).collect();
    let mut response = failure(422, "Invalid", &message.join("\n"));
    let causes =
        shown().map(|finding| json!({"reason": "FieldValueInvalid", "field": finding.field, "message": text(finding)}));
    let of = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    response["status"]["details"] =
        json!({"name": of("/metadata/name"), "kind": of("/kind"), "causes": causes.collect::<Vec<_>>()});
    response
}

fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({"allowed": false, "status": {"status": "Failure", "code": code, "reason": reason, "message": message}})
}

#[cfg(test)]
mod tests;
