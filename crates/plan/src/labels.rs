//! Labels and annotations.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Texts;

/// Labels or annotations of an object, in the order of their keys, which are unique. Copies share them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Labels(pub(crate) Texts);

impl Labels {
    /// The value of this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let index = self.0.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
        self.0.get(index).map(|(_, value)| &**value)
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Of values with the same key the last one counts.
impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let sorted: BTreeMap<Arc<str>, Arc<str>> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self(sorted.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_their_keys_in_whatever_order_they_came() {
        let labels: Labels = [("team", "red"), ("app", "cart"), ("zone", ""), ("team", "blue")].into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("app", "cart"), ("team", "blue"), ("zone", "")]);
        let found = ["app", "team", "zone", "", "a", "teams", "zones"].map(|key| labels.get(key));
        assert_eq!(found, [Some("cart"), Some("blue"), Some(""), None, None, None, None]);
        assert_eq!(labels, [("zone", ""), ("team", "blue"), ("app", "cart")].into_iter().collect());
        assert_eq!(Labels::default().get("app"), None);
    }
}
