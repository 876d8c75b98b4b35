//! Reviews of conversion: objects of one version as those of the other.

use serde::Deserialize;
use serde_json::{Value, json};
use weir_resources::Version;

use super::Malformed;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    objects: Vec<Value>,
}

/// Answers a ConversionReview (`apiextensions.k8s.io/v1`). If one of the objects cannot be converted, none is.
///
/// # Errors
/// When the body is no such review.
pub fn convert(body: &[u8]) -> Result<Value, Malformed> {
    const EXPECTED: &str = "ConversionReview of apiextensions.k8s.io/v1";
    let review = serde_json::from_slice(body).map_err(|error| Malformed::Unreadable("ConversionReview", error))?;
    let Review { api_version, kind, request: Request { uid, desired_api_version, objects } } = review;
    if (api_version.as_str(), kind.as_str()) != ("apiextensions.k8s.io/v1", "ConversionReview") {
        return Err(Malformed::Unknown { api_version, kind, expected: EXPECTED });
    }
    let converted: Result<Vec<_>, _> = objects.into_iter().map(|object| one(object, &desired_api_version)).collect();
    let response = match converted {
        Ok(objects) => json!({"uid": uid, "result": {"status": "Success"}, "convertedObjects": objects}),
        Err(message) => json!({"uid": uid, "result": {"status": "Failure", "message": message}}),
    };
    Ok(json!({"apiVersion": api_version, "kind": kind, "response": response}))
}

fn one(object: Value, desired: &str) -> Result<Value, String> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let versions = [Version::V1Beta1, Version::V1Alpha1];
    let to = versions.into_iter().find(|version| desired.rsplit_once('/').is_some_and(|(_, to)| to == version.name()));
    let to = to.ok_or_else(|| format!("cannot convert {name:?} to {desired:?}: expected v1alpha1 or v1beta1"))?;
    let converted = weir_resources::convert(object, to).map_err(|error| format!("{name:?}: {error}"))?;
    if converted.get("apiVersion").and_then(Value::as_str) == Some(desired) {
        return Ok(converted);
    }
    let is = &converted["apiVersion"];
    Err(format!("cannot convert {name:?} to {desired:?}: the kind is of another group ({is})"))
}
