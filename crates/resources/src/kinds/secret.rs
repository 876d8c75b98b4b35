//! `Secret` documents (v1) and the look-up of what `secretKeyRef` names.
//!
//! It never puts a value into a message. Values are bytes here; whoever asks for one knows what it must be.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::diagnostic::{Diagnostic, Findings, Place, Reason};
use crate::document::suggest;
use crate::document::{Fields, Located, Node};
use crate::kinds::object;

/// The namespace of a Secret that names none, as for `kubectl apply`.
const DEFAULT_NAMESPACE: &str = "default";

/// The fields of a reference, all of which it needs.
const REFERENCE: [&str; 3] = ["name", "namespace", "key"];

/// All Secrets of a configuration. It has no `Debug`: everything in it is secret.
pub(crate) struct Secrets {
    /// Other Secrets may be where nobody can look, so a missing one is no error.
    partial: bool,
    by_name: BTreeMap<(String, String), Entry>,
}

struct Entry {
    place: Place,
    data: BTreeMap<String, Option<Vec<u8>>>,
}

/// A reference to a value in a Secret, with its place.
#[derive(Debug, Clone)]
pub(crate) struct SecretKeyRef {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) place: Place,
}

impl Secrets {
    pub(crate) fn new(partial: bool) -> Self {
        Self { partial, by_name: BTreeMap::new() }
    }

    /// Reads a document of kind `Secret`.
    pub(crate) fn add(&mut self, mut document: Fields<'_>) {
        let metadata = object::metadata(&mut document, |_| {});
        let mut data = BTreeMap::new();
        for (key, value) in entries(&mut document, "data") {
            // A value that cannot be decoded is reported once, here, and not again as missing.
            data.insert(key.to_owned(), decoded(&value));
        }
        for (key, value) in entries(&mut document, "stringData") {
            data.insert(key.to_owned(), value.string().map(|text| text.value.into_bytes()));
        }
        let findings = document.node().findings();
        document.finish();

        let Some(metadata) = metadata else { return };
        let namespace = metadata.namespace.map_or_else(|| DEFAULT_NAMESPACE.to_owned(), |located| located.value);
        let (name, place) = (metadata.name.value, metadata.name.place);
        if let Some(first) = self.by_name.get(&(namespace.clone(), name.clone())) {
            let message = format!("Secret {namespace}/{name} is defined twice, first at {}", first.place.position());
            findings.push(Diagnostic::error(&place, message).value(&name));
            return;
        }
        self.by_name.insert((namespace, name), Entry { place, data });
    }

    /// The value a reference names. `None` has been reported: at the reference when there is no such Secret or key,
    /// at the value when it cannot be decoded. A Secret that may be elsewhere is none, and not reported.
    pub(crate) fn get(&self, reference: &SecretKeyRef, findings: &Findings) -> Option<&[u8]> {
        let SecretKeyRef { namespace, name, key, place } = reference;
        let Some(secret) = self.by_name.get(&(namespace.clone(), name.clone())) else {
            if self.partial {
                return None;
            }
            let message =
                format!("One or more referenced Secrets are missing: Secret '{name}' of Namespace '{namespace}'");
            let diagnostic = Diagnostic::error(place, message).reason(Reason::ReferencedSecretMissing);
            findings.push(diagnostic.expected(format!("a Secret document with the key '{key}' in the given files")));
            return None;
        };
        if let Some(value) = secret.data.get(key) {
            return value.as_deref();
        }
        let message = format!(
            "One or more keys in a referenced Secret are missing: Key '{key}' in Secret '{name}' of Namespace '{namespace}'"
        );
        let keys: Vec<&str> = secret.data.keys().map(String::as_str).collect();
        let expected = match keys.as_slice() {
            [] => "a key of the Secret, which has none".to_owned(),
            keys => suggest::one_of(keys, key),
        };
        findings.push(Diagnostic::error(place, message).reason(Reason::ReferencedSecretMissing).expected(expected));
        None
    }
}

fn entries<'a>(document: &mut Fields<'a>, key: &'static str) -> Vec<(&'a str, Node<'a>)> {
    document.optional(key).map(|node| node.map()).unwrap_or_default()
}

fn decoded(value: &Node<'_>) -> Option<Vec<u8>> {
    let text = value.string()?.value;
    // Long values are wrapped by some tools.
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = BASE64_STANDARD.decode(packed);
    if bytes.is_err() {
        let message = "the value is not valid base64 (not shown)";
        value.findings().push(value.error(message).expected("base64 in 'data'; plain text belongs in 'stringData'"));
    }
    bytes.ok()
}

/// Takes `secretKeyRef` from a `valueFrom` node.
pub(crate) fn secret_key_ref(value_from: &Node<'_>) -> Option<SecretKeyRef> {
    let mut fields = value_from.fields()?;
    let reference = fields.required("secretKeyRef").and_then(|node| {
        let mut fields = node.fields()?;
        let [name, namespace, key] = REFERENCE.map(|field| fields.optional(field).filter(|node| !node.is_empty()));
        fields.finish();
        report_missing(&node, [&name, &namespace, &key]);
        let name = name.and_then(|node| object::name(&node));
        let namespace = namespace.and_then(|node| object::name(&node));
        let key = key.and_then(|node| data_key(&node));
        let (name, namespace, key) = (name?.value, namespace?.value, key?.value);
        Some(SecretKeyRef { namespace, name, key, place: node.place() })
    });
    fields.finish();
    reference
}

/// Reports those of the fields of [`REFERENCE`] that are not given, or empty.
fn report_missing(reference: &Node<'_>, given: [&Option<Node<'_>>; 3]) {
    let missing = REFERENCE.iter().zip(given).filter(|(_, node)| node.is_none()).map(|(field, _)| *field);
    let missing = missing.collect::<Vec<_>>().join(", ");
    if !missing.is_empty() {
        let message = format!("Secret reference is missing field/s: {missing}");
        reference.findings().push(reference.error(message).reason(Reason::ReferencedSecretMissing));
    }
}

/// A key as Kubernetes allows them in a Secret.
fn data_key(node: &Node<'_>) -> Option<Located<String>> {
    let key = node.string()?;
    let valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if key.value.bytes().all(valid) {
        return Some(key);
    }
    let message = format!("{} is not a key of a Secret", key.place.shown(&key.value));
    let expected = "letters, digits, '-', '_' or '.'";
    node.findings().push(Diagnostic::error(&key.place, message).value(&key.value).expected(expected));
    None
}
