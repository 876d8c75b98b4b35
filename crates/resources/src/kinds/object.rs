//! What every Kubernetes object has: `apiVersion`, `kind` and `metadata`.
//!
//! It knows the rules of Kubernetes for names and which annotations are ours, and nothing of what the kinds contain.

use crate::diagnostic::{Diagnostic, Findings};
use crate::document::{Fields, Located, Node};

/// Longest object name (RFC 1123 subdomain), in bytes.
const MAX_NAME_BYTES: usize = 253;

/// Longest name of a namespace (RFC 1123 label), in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// What our annotations start with. All others belong to somebody else.
const OUR_ANNOTATIONS: &str = "weir.dev/";

/// The part of the metadata that means something here.
#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    pub(crate) name: Located<String>,
    pub(crate) namespace: Option<Located<String>>,
}

/// Takes `metadata` from a document. `annotated` takes the annotations that mean something for its kind.
pub(crate) fn metadata(document: &mut Fields<'_>, annotated: impl FnOnce(&mut Fields<'_>)) -> Option<Metadata> {
    let mut fields = document.required("metadata")?.fields()?;
    let name = fields.required("name").and_then(|node| name(&node));
    let namespace = fields.text("namespace").and_then(|text| checked(text, fields.node().findings()));
    let mut annotations = fields.mapping("annotations");
    annotated(&mut annotations);
    annotations.finish_ours(OUR_ANNOTATIONS);
    fields.finish();
    Some(Metadata { name: name?, namespace })
}

/// The name of an object or a namespace.
pub(crate) fn name(node: &Node<'_>) -> Option<Located<String>> {
    checked(node.string()?, node.findings())
}

fn checked(name: Located<String>, findings: &Findings) -> Option<Located<String>> {
    if is_subdomain(&name.value) {
        return Some(name);
    }
    findings.push(
        Diagnostic::error(&name.place, format!("{} is not a valid name", name.place.shown(&name.value)))
            .value(&name.value)
            .expected("at most 253 lower case letters, digits, '-' or '.', starting and ending with a letter or digit"),
    );
    None
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && name.split('.').all(is_part)
}

/// Whether a text can be the name of a namespace.
pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL_BYTES && is_part(text)
}

fn is_part(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}
