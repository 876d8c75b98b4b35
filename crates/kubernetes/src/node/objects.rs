//! Documents about a cluster, as files would have them, and what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::Value;
use weir_resources::{Observed, Source};

use crate::operator::object::{name, text};

/// Documents by their kind, namespace and name.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<Key, Box<str>>);

/// What names an object.
pub(super) type Key = (&'static str, String, String);

/// What names a document of a kind.
pub(super) fn key(kind: &'static str, document: &Value) -> Key {
    let namespace = text(document, "/metadata/namespace").unwrap_or_default();
    (kind, namespace.to_owned(), name(document).to_owned())
}

impl Objects {
    /// Whether anything is another than before.
    pub(super) fn set(&mut self, kind: &'static str, document: &Value) -> bool {
        self.put(key(kind, document), document.to_string().into())
    }

    /// The same with its text.
    pub(super) fn put(&mut self, key: Key, text: Box<str>) -> bool {
        let known = self.0.entry(key).or_default();
        let differs = *known != text;
        *known = text;
        differs
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.0.remove(key).is_some()
    }

    /// All there are of a kind. Whether anything is another than before.
    pub(super) fn replace(&mut self, kind: &'static str, documents: &[Value]) -> bool {
        self.replace_all(
            kind,
            documents.iter().map(|document| (key(kind, document), document.to_string().into())).collect(),
        )
    }

    /// The same with their texts.
    pub(super) fn replace_all(&mut self, kind: &'static str, documents: Vec<(Key, Box<str>)>) -> bool {
        let keys: BTreeSet<&Key> = documents.iter().map(|(key, _)| key).collect();
        let before = self.0.len();
        self.0.retain(|known, _| known.0 != kind || keys.contains(known));
        let left = self.0.len() < before;
        documents.into_iter().fold(left, |differs, (key, text)| self.put(key, text) | differs)
    }

    /// How many there are of a kind.
    pub(super) fn count(&self, kind: &str) -> usize {
        self.0.keys().filter(|key| key.0 == kind).count()
    }

    /// The text that a file with all of them would have.
    pub(super) fn text(&self) -> String {
        list(self.0.values().map(AsRef::as_ref))
    }
}

/// A list of documents.
pub(super) fn list<'a>(documents: impl Iterator<Item = &'a str>) -> String {
    let mut list = String::from(r#"{"apiVersion":"v1","kind":"List","items":["#);
    let mut separator = "";
    for document in documents {
        // A string takes everything.
        let _ = write!(list, "{separator}{document}");
        separator = ",";
    }
    list + "]}"
}

/// Reads a text of [`list`].
pub(super) fn observe(text: String) -> Observed {
    weir_resources::observe(&[Source { name: "cluster".to_owned(), text }])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_a_change() {
        let namespace = |name: &str, phase: &str| {
            json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": phase},
            })
        };
        let mut objects = Objects::default();
        let (a, b) = (namespace("a", "Active"), namespace("b", "Active"));
        assert!(objects.set("Namespace", &a));
        assert!(!objects.set("Namespace", &a));
        assert!(objects.set("Namespace", &namespace("a", "Terminating")) && objects.set("Namespace", &a));
        assert!(!objects.replace("Namespace", std::slice::from_ref(&a)));
        assert!(objects.replace("Namespace", &[a.clone(), b.clone()]));
        assert_eq!(objects.count("Namespace"), 2);
        assert!(objects.remove(&key("Namespace", &a)));
        assert!(!objects.remove(&key("Namespace", &a)));
        assert!(objects.replace("Namespace", &[]) && !objects.replace("Namespace", &[]));
        assert_eq!(observe(objects.text()), Observed::default());
    }
}
