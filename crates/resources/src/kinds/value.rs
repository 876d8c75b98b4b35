//! `ValueType`: a text given in place (`value`) or by reference (`valueFrom.secretKeyRef`).
//!
//! It knows where a value comes from, not what it is for.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use crate::diagnostic::{Diagnostic, Findings, Place};
use crate::document::{Fields, Located, Node};
use crate::kinds::reference::{SecretKeyRef, secret_key_ref};
use crate::kinds::secret::Secrets;

/// A value before its reference is followed.
#[derive(Clone)]
pub(crate) enum Value {
    /// Written in place.
    Inline(Located<String>),
    /// Kept in a Secret.
    Reference(SecretKeyRef),
    /// Neither; the place is that of the mapping.
    Missing(Place),
    /// Wrong, and already reported.
    Invalid,
}

/// A value with its text.
pub(crate) struct Resolved {
    pub(crate) text: String,
    pub(crate) place: Place,
    /// Whether it came from a Secret.
    pub(crate) from_secret: bool,
}

impl Value {
    /// Reads a mapping with nothing but a value.
    pub(crate) fn decode(node: &Node<'_>) -> Self {
        let Some(mut fields) = node.fields() else { return Self::Invalid };
        let value = Self::take(&mut fields);
        fields.finish();
        value
    }

    /// Takes `value` and `valueFrom` from a mapping that may have more fields.
    pub(crate) fn take(fields: &mut Fields<'_>) -> Self {
        let value = fields.optional("value");
        let value_from = fields.optional("valueFrom");
        let inline = value.as_ref().and_then(Node::string);
        let reference = value_from.as_ref().and_then(secret_key_ref);

        let is_given = value.is_some() || value_from.is_some();
        if is_given && !fields.are_together() {
            return Self::Invalid;
        }
        match (inline, reference) {
            (_, Some(reference)) => Self::Reference(reference),
            (Some(inline), None) if value_from.is_none() => Self::Inline(inline),
            _ if !is_given => Self::Missing(fields.node().place().hidden()),
            _ => Self::Invalid,
        }
    }

    /// Whether nothing is given, or an empty text, which stands for nothing where a value is optional.
    pub(crate) fn is_unset(&self) -> bool {
        match self {
            Self::Missing(_) => true,
            Self::Inline(text) => text.value.is_empty(),
            Self::Reference(_) | Self::Invalid => false,
        }
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        match self {
            Self::Inline(text) => Some(&text.place),
            Self::Reference(reference) => Some(&reference.place),
            Self::Missing(place) => Some(place),
            Self::Invalid => None,
        }
    }
}

/// What references are followed with.
#[derive(Clone, Copy)]
pub(crate) struct Resolver<'a> {
    pub(crate) secrets: &'a Secrets,
    /// The time at which certificates are judged.
    pub(crate) now: SystemTime,
    pub(crate) findings: &'a Findings,
    /// Texts of certificates so far, each once: bundles are large, and most pipelines have the same.
    pub(crate) bundles: &'a RefCell<HashSet<Arc<str>>>,
}

impl Resolver<'_> {
    /// The text of a value. `None` has been reported: a missing Secret or key, a text that is empty in place or not
    /// UTF-8 in a Secret.
    pub(crate) fn resolve(&self, value: &Value) -> Option<Resolved> {
        match value {
            Value::Missing(_) | Value::Invalid => None,
            Value::Inline(Located { value, place }) if value.is_empty() => {
                let message = "failed to resolve value: it is empty";
                let expected = "a text with at least 1 character";
                self.findings.push(Diagnostic::error(place, message).value(value).expected(expected));
                None
            }
            Value::Inline(Located { value, place }) => {
                Some(Resolved { text: value.clone(), place: place.clone(), from_secret: false })
            }
            Value::Reference(reference) => self.follow(reference),
        }
    }

    fn follow(&self, reference: &SecretKeyRef) -> Option<Resolved> {
        let bytes = self.secrets.get(reference, self.findings)?;
        let SecretKeyRef { namespace, name, key, place } = reference;
        let Ok(text) = str::from_utf8(bytes) else {
            let message = format!("the value of key '{key}' in Secret {namespace}/{name} is not UTF-8 text");
            self.findings.push(Diagnostic::error(place, message));
            return None;
        };
        Some(Resolved { text: text.to_owned(), place: place.clone(), from_secret: true })
    }
}
