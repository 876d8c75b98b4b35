//! `Secret` documents (v1), and the values that references (`reference.rs`) name.
//!
//! It never puts a value into a message. Values are bytes here; whoever asks for one knows what it must be.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::diagnostic::{Diagnostic, Findings, Place, Reason};
use crate::document::suggest;
use crate::document::{Fields, Located, Node};
use crate::kinds::object::{self, Metadata};
use crate::kinds::reference::SecretKeyRef;

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

        let Some(Metadata { name: Located { value: name, place }, namespace: Some(namespace) }) = metadata else {
            return;
        };
        let namespace = namespace.value;
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
