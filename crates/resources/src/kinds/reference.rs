//! References to values in Secrets: `valueFrom.secretKeyRef`.

use crate::diagnostic::{Diagnostic, Place, Reason};
use crate::document::{Located, Node};
use crate::kinds::object;

/// The fields of a reference, all of which it needs.
const REFERENCE: [&str; 3] = ["name", "namespace", "key"];

/// A reference to a value in a Secret, with its place.
#[derive(Debug, Clone)]
pub(crate) struct SecretKeyRef {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) place: Place,
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
