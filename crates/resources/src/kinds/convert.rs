//! Conversion of documents between the two versions of their APIs, without loss.
//!
//! What a version cannot say is kept in an annotation, in the words of the version that can. So down and up again, or
//! up and down again, gives the very same document. When a document was edited in between, the edit wins, and only what
//! it could not have touched is restored.
//!
//! This module works on plain JSON and converts whatever it is given. It does not check whether a document is valid.

mod spec;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::document::Version;
use crate::kinds::Kind;

/// The annotation: `apiVersion`, `kind` and `spec` in the version that can say all of it, as JSON. Other
/// implementations of the API write the same, with more fields.
const CONVERSION_DATA: &str = "telemetry.kyma-project.io/conversion-data";

/// Why a document cannot be converted.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum ConversionError {
    /// It is not of a kind that has two versions, or of neither of them.
    #[error("cannot convert {kind:?} of {api_version:?}: it is no pipeline or Telemetry in v1alpha1 or v1beta1")]
    Unknown {
        /// `apiVersion`, empty when there is none.
        api_version: String,
        /// `kind`, empty when there is none.
        kind: String,
    },
    /// `metadata`, or its `annotations`, is no object.
    #[error("cannot convert the document: its {0} is not an object")]
    NotAnObject(&'static str),
}

/// What is kept of a document in the version it does not have.
struct Kept {
    api_version: String,
    spec: Value,
}

/// Whether a document is of a kind that has two versions, and of one of them.
pub fn is_convertible(document: &Value) -> bool {
    resource(document).is_ok()
}

/// Converts a document to a version. One that is of this version comes back as it is.
///
/// Of `metadata`, only the annotation `telemetry.kyma-project.io/conversion-data` is changed: it is there when, and
/// only when, the document could not be converted back without it. An empty map of annotations may disappear with it.
///
/// # Errors
/// For a document of any other kind or version, and one without `metadata`.
pub fn convert(mut document: Value, to: Version) -> Result<Value, ConversionError> {
    let (kind, group, from) = resource(&document)?;
    if from == to {
        return Ok(document);
    }
    let (source_version, target_version) = (format!("{group}/{}", from.name()), format!("{group}/{}", to.name()));
    let metadata = document["metadata"].as_object_mut().ok_or(ConversionError::NotAnObject("metadata"))?;
    let kept = take_kept(metadata)?.filter(|kept| kept.api_version == target_version);
    if let Some(source) = document.get("spec").cloned() {
        let target = match kept {
            Some(kept) => restored(kind, &source, kept.spec, from, to),
            None => spec::convert(kind, source.clone(), to),
        };
        if spec::convert(kind, target.clone(), from) != source {
            let data = json!({"apiVersion": source_version, "kind": document["kind"], "spec": source});
            keep(&mut document, &data)?;
        }
        document["spec"] = target;
    }
    document["apiVersion"] = target_version.into();
    Ok(document)
}

/// The kind of a document, its group and its version.
fn resource(document: &Value) -> Result<(&'static Kind, &'static str, Version), ConversionError> {
    let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let found = Kind::versioned(api_version, kind).map(|(kind, version)| (kind, kind.group(), version));
    found.ok_or_else(|| ConversionError::Unknown { api_version: api_version.to_owned(), kind: kind.to_owned() })
}

/// The `spec` in the version `to`: what was kept of it when it still says the same as `source`, which is in the version
/// `from`, and else `source` with what an edit of it cannot have meant.
fn restored(kind: &Kind, source: &Value, kept: Value, from: Version, to: Version) -> Value {
    if spec::convert(kind, kept.clone(), from) == *source {
        return kept;
    }
    let mut target = spec::convert(kind, source.clone(), to);
    if to == Version::V1Beta1 {
        spec::restore_missing(kind, &mut target, &kept);
    }
    target
}

/// Takes the annotation from `metadata`.
fn take_kept(metadata: &mut Map<String, Value>) -> Result<Option<Kept>, ConversionError> {
    let Some(annotations) = metadata.get_mut("annotations").filter(|annotations| !annotations.is_null()) else {
        return Ok(None);
    };
    let annotations = annotations.as_object_mut().ok_or(ConversionError::NotAnObject("metadata.annotations"))?;
    let Some(data) = annotations.remove(CONVERSION_DATA) else { return Ok(None) };
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    // Anybody may have written it. What cannot be read must not keep all objects of a list from being read.
    let Some(mut data) = data.as_str().and_then(|data| serde_json::from_str::<Value>(data).ok()) else {
        return Ok(None);
    };
    let api_version = data.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(data.get_mut("spec").map(|spec| Kept { api_version, spec: spec.take() }))
}

/// Puts the annotation into the metadata of a document.
fn keep(document: &mut Value, data: &Value) -> Result<(), ConversionError> {
    let annotations = &mut document["metadata"]["annotations"];
    if annotations.is_null() {
        *annotations = json!({});
    }
    let annotations = annotations.as_object_mut().ok_or(ConversionError::NotAnObject("metadata.annotations"))?;
    annotations.insert(CONVERSION_DATA.to_owned(), data.to_string().into());
    Ok(())
}
