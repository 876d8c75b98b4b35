//! Whose records these are: the container, its pod and its cluster, by the attributes of the resource.

use weir_otlp::common::{AnyValue, KeyValue, Resource};
use weir_otlp::conventions;

/// What the resource says of the container.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin<'a> {
    resource: Option<Resource<'a>>,
    pub(crate) pod: &'a str,
    pub(crate) node: &'a str,
    pub(crate) cluster: &'a str,
}

impl<'a> Origin<'a> {
    pub(crate) fn of(resource: Option<Resource<'a>>) -> Self {
        let origin = Self { resource, ..Self::default() };
        let cluster = match origin.text(conventions::CLUSTER_NAME) {
            "" => origin.text(conventions::CLUSTER_UID),
            name => name,
        };
        Self { pod: origin.text(conventions::POD_NAME), node: origin.text(conventions::NODE_NAME), cluster, ..origin }
    }

    fn texts(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        texts(self.resource.into_iter().flat_map(Resource::attributes))
    }

    /// The value of an attribute; empty where there is none.
    pub(crate) fn text(self, wanted: &str) -> &'a str {
        self.texts().find(|(key, _)| *key == wanted).map_or("", |(_, value)| value)
    }

    /// Attributes whose keys begin like this, without that.
    pub(crate) fn below(self, prefix: &'static str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
    }

    /// What the pod's labels call the application.
    pub(crate) fn app(self) -> Option<&'a str> {
        let label = |wanted| self.below(conventions::POD_LABEL).find(|(key, _)| *key == wanted).map(|(_, value)| value);
        label("app.kubernetes.io/name").or_else(|| label("app"))
    }
}

/// The attributes whose values are texts.
pub(crate) fn texts<'a>(attributes: impl Iterator<Item = KeyValue<'a>>) -> impl Iterator<Item = (&'a str, &'a str)> {
    attributes.filter_map(|attribute| match attribute.value() {
        AnyValue::String(value) => Some((attribute.key(), value)),
        _ => None,
    })
}
