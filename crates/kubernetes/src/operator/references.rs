//! Which keys of which Secrets a pipeline refers to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::object::text;
use super::picture::SecretName;

/// The annotation that refers to a Secret as `NAMESPACE/NAME/KEY`.
const OAUTH2_CA: &str = "/metadata/annotations/weir.dev~1oauth2-ca";

/// The keys by the Secrets that they are in.
pub(crate) type References = BTreeMap<SecretName, BTreeSet<String>>;

/// All references of a pipeline. What is not complete is none, nor what can be no name; compiling says so.
pub(crate) fn of(pipeline: &Value) -> References {
    let mut found = References::new();
    if let Some(spec) = pipeline.get("spec") {
        collect(spec, &mut found);
    }
    if let Some(reference) = text(pipeline, OAUTH2_CA)
        && let [namespace, name, key] = reference.split('/').collect::<Vec<_>>()[..]
    {
        add(&mut found, [namespace, name, key]);
    }
    found
}

/// The API server bounds how deep an object is.
fn collect(value: &Value, found: &mut References) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => {
            if let Some(reference) = fields.get("secretKeyRef") {
                let part = |key| reference.get(key).and_then(Value::as_str).unwrap_or_default();
                add(found, ["namespace", "name", "key"].map(part));
            }
            fields.values().for_each(|field| collect(field, found));
        }
        _ => {}
    }
}

fn add(found: &mut References, parts: [&str; 3]) {
    let [namespace, name, key] = parts.map(str::to_owned);
    if is_name(&namespace) && is_name(&name) {
        found.entry(SecretName { namespace, name }).or_default().insert(key);
    }
}

/// Whether a namespace or a Secret can have this name. Others would be selectors and paths of their own.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_part) && !name.starts_with(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_more_than_a_name() {
        for name in ["backend", "a.b-c9", "0"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a,metadata.name=b", "../secrets", ".", "..", "A", "a b", "a%2fb", &"a".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
