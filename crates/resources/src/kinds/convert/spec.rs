//! The `spec` of a kind, from one version to the other: fields are renamed and turned around, and what the other
//! version has no words for is left out.

use serde_json::{Map, Value, json};
use weir_plan::Selector;

use super::Kind;
use crate::Version;

type Object = Map<String, Value>;

/// Fields of `output.http.tls`, in the older version and in the newer.
const HTTP_TLS: [(&str, &str); 2] = [("disabled", "insecure"), ("skipCertificateValidation", "insecureSkipVerify")];

/// Converts a `spec` to the version `to` from the other one.
pub(super) fn convert(kind: Kind, mut spec: Value, to: Version) -> Value {
    match to {
        Version::V1Beta1 => up(kind, &mut spec),
        Version::V1Alpha1 => down(kind, &mut spec),
    }
    spec
}

/// Takes the compression over from what was kept: the older version has no field for it, so nobody can have edited it.
pub(super) fn restore_compression(spec: &mut Value, kept: &Value) {
    let compression = kept.pointer("/output/otlp/compression");
    if let (Some(compression), Some(otlp)) = (compression, object_at(spec, "/output/otlp")) {
        otlp.entry("compression").or_insert_with(|| compression.clone());
    }
}

fn up(kind: Kind, spec: &mut Value) {
    if kind == Kind::Telemetry {
        return;
    }
    if let Some(output) = spec.get_mut("output") {
        drop_empty_values(output);
    }
    if let Some(otlp) = object_at(spec, "/input/otlp").filter(|_| kind != Kind::TracePipeline) {
        // Given in any case, so that the newer version need not know the default of the older.
        let disabled = otlp.remove("disabled") == Some(Value::Bool(true));
        otlp.insert("enabled".to_owned(), (!disabled).into());
    }
    if kind != Kind::LogPipeline {
        return;
    }
    if let Some(input) = object_at(spec, "/input") {
        rename(input, "application", "runtime");
    }
    if let Some(runtime) = object_at(spec, "/input/runtime") {
        selector_up(runtime);
    }
    if let Some(tls) = object_at(spec, "/output/http/tls") {
        HTTP_TLS.into_iter().for_each(|(older, newer)| rename(tls, older, newer));
    }
}

fn down(kind: Kind, spec: &mut Value) {
    if kind == Kind::Telemetry {
        return;
    }
    if let Some(otlp) = object_at(spec, "/output/otlp") {
        otlp.remove("compression");
    }
    if let Some(otlp) = object_at(spec, "/input/otlp").filter(|_| kind != Kind::TracePipeline)
        && otlp.remove("enabled") == Some(Value::Bool(false))
    {
        otlp.insert("disabled".to_owned(), true.into());
    }
    if kind != Kind::LogPipeline {
        return;
    }
    if let Some(runtime) = object_at(spec, "/input/runtime") {
        selector_down(runtime);
    }
    if let Some(input) = object_at(spec, "/input") {
        rename(input, "runtime", "application");
    }
    if let Some(tls) = object_at(spec, "/output/http/tls") {
        HTTP_TLS.into_iter().for_each(|(older, newer)| rename(tls, newer, older));
    }
}

fn object_at<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Object> {
    value.pointer_mut(pointer)?.as_object_mut()
}

fn rename(object: &mut Object, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}

/// An empty `value` beside a reference means nothing in the older version, and is refused by the newer.
fn drop_empty_values(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.contains_key("valueFrom") && object.get("value").is_some_and(|value| value == "") {
                object.remove("value");
            }
            object.values_mut().for_each(drop_empty_values);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_values),
        _ => {}
    }
}

/// Whether a selector names nothing.
fn is_open(namespaces: &Value) -> bool {
    if !(namespaces.is_object() || namespaces.is_null()) {
        return false;
    }
    let names_nothing = |key| match namespaces.get(key) {
        None | Some(Value::Null) => true,
        Some(names) => names.as_array().is_some_and(Vec::is_empty),
    };
    names_nothing("include") && names_nothing("exclude")
}

fn selector_up(runtime: &mut Object) {
    let namespaces = runtime.entry("namespaces").or_insert(Value::Null);
    let system = namespaces.get("system") == Some(&Value::Bool(true));
    if let Some(namespaces) = namespaces.as_object_mut() {
        namespaces.remove("system");
    }
    if is_open(namespaces) {
        *namespaces = if system { json!({}) } else { json!({"exclude": Selector::SYSTEM}) };
    }
}

fn selector_down(runtime: &mut Object) {
    let open = runtime.get("namespaces").is_some_and(|namespaces| !namespaces.is_null() && is_open(namespaces));
    if open {
        runtime.insert("namespaces".to_owned(), json!({"system": true}));
    }
}
