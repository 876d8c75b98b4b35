//! A resource merged with the facts about its sender.

use weir_otlp::build::Encoder;
use weir_otlp::common::{AnyValue, KeyValue, Resource};
use weir_otlp::field::resource_data;
use weir_plan::ServiceEnrichment;

use crate::attributes::{OF_RESOURCE, first, is_empty, text};
use crate::changes::NoRoom;
use crate::facts::{Attribute, PodFacts};
use crate::service;

/// The attributes of a resource, and the facts about its sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) request: &'a [u8],
    pub(crate) resource: Option<Resource<'a>>,
    pub(crate) facts: &'a PodFacts,
}

impl<'a> Sender<'a> {
    /// What the resource says itself.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.resource.into_iter().flat_map(Resource::attributes)
    }

    /// What the resource itself says of `key`, if that has a value.
    pub(crate) fn own(&self, key: &str) -> Option<AnyValue<'a>> {
        first(self.resource?.0, OF_RESOURCE, key).filter(|value| !is_empty(*value))
    }

    /// The string that the enriched resource has for `key`; empty when there is none.
    pub(crate) fn text(&self, key: &str) -> &'a str {
        self.own(key).map_or_else(|| self.facts.get(key).unwrap_or_default(), text)
    }
}

/// Whether an attribute is meant for Kyma's own components and does not concern the user.
pub(crate) fn is_internal(key: &str) -> bool {
    key.starts_with("kyma.")
}

/// The enriched resource, as the field of its holder; `None` when nothing changes.
///
/// `mode`: how services are named; `None` leaves `service.*` alone. `proxied` says that Istio's proxy speaks for the service, whose word on `service.*` does not count. `check` is asked
/// whether there is room for so many bytes before they are made.
///
/// # Errors
/// When there is not.
pub(crate) fn enriched(
    sender: &Sender<'_>,
    mode: Option<ServiceEnrichment>,
    proxied: bool,
    check: impl Fn(usize) -> Result<(), NoRoom>,
) -> Result<Option<Vec<u8>>, NoRoom> {
    // What it says of itself may become the value of another attribute, and that one a field.
    check(2 * sender.resource.map_or(0, |resource| resource.0.range().len()))?;
    let extras = mode.map(|mode| service::attributes(sender, mode)).unwrap_or_default();
    let mut merge = Merge::new(sender.facts, &extras, mode, proxied);
    let mut changes = false;
    for attribute in sender.attributes() {
        changes |= merge.note(attribute);
    }
    changes |= merge.wanted.iter().any(Wanted::is_missing);
    changes.then(|| merge.write(sender, check)).transpose()
}

/// What becomes of a resource's own attributes beside those it shall have.
struct Merge<'a> {
    /// In the order of their keys.
    wanted: Vec<Wanted<'a>>,
    mode: Option<ServiceEnrichment>,
    proxied: bool,
}

/// An attribute that a resource shall have.
struct Wanted<'a> {
    attribute: &'a Attribute,
    own: Own,
}

/// What a resource says itself of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Own {
    Nothing,
    Empty,
    Value,
}

impl Wanted<'_> {
    fn is_missing(&self) -> bool {
        self.own == Own::Nothing || self.replaces_empty()
    }

    fn replaces_empty(&self) -> bool {
        self.own == Own::Empty && !self.attribute.value.is_empty()
    }
}

impl<'a> Merge<'a> {
    fn new(facts: &'a PodFacts, extras: &'a [Attribute], mode: Option<ServiceEnrichment>, proxied: bool) -> Self {
        let all = facts.attributes().iter().chain(extras);
        let mut wanted: Vec<_> = all.map(|attribute| Wanted { attribute, own: Own::Nothing }).collect();
        wanted.sort_by(|left, right| left.attribute.key.cmp(&right.attribute.key));
        Self { wanted, mode, proxied }
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.wanted.binary_search_by(|wanted| wanted.attribute.key.as_str().cmp(key)).ok()
    }

    /// Notes an attribute that the resource has. Returns whether it must go.
    fn note(&mut self, attribute: KeyValue<'_>) -> bool {
        let (key, value) = (attribute.key(), attribute.value());
        let index = self.find(key);
        if self.is_overruled(key, value, index) {
            return true;
        }
        if let Some(index) = index {
            let own = &mut self.wanted[index].own;
            *own = (*own).max(if is_empty(value) { Own::Empty } else { Own::Value });
        }
        false
    }

    /// Whether the resource's own value does not count. A value that would be replaced by the same one stays in its
    /// place (ENRICH-2).
    fn is_overruled(&self, key: &str, value: AnyValue<'_>, wanted: Option<usize>) -> bool {
        if is_internal(key) {
            return true;
        }
        let doubtful = key.starts_with("service.")
            && (self.proxied
                || key == "service.name" && self.mode.is_some_and(|mode| service::is_unknown(value, mode)));
        let same = |index: usize| text(value) == self.wanted[index].attribute.value;
        doubtful && !wanted.is_some_and(same)
    }

    /// Whether an attribute stays, once all are known.
    fn keeps(&self, attribute: KeyValue<'_>) -> bool {
        let (key, value) = (attribute.key(), attribute.value());
        let index = self.find(key);
        let replaced = is_empty(value) && index.is_some_and(|index| self.wanted[index].replaces_empty());
        !replaced && !self.is_overruled(key, value, index)
    }

    fn write(&self, sender: &Sender<'_>, check: impl FnOnce(usize) -> Result<(), NoRoom>) -> Result<Vec<u8>, NoRoom> {
        let missing = || self.wanted.iter().filter(|wanted| wanted.is_missing());
        let own = sender.resource.map_or(0, |resource| resource.0.range().len());
        let body = own + missing().map(|wanted| wanted.attribute.field.len()).sum::<usize>();
        check(body + 10)?;
        let mut out = Encoder::with_capacity(body + 10);
        let open = out.open(resource_data::RESOURCE, body);
        if let Some(Resource(message)) = sender.resource {
            for field in message.fields() {
                let attribute = message.inner(&field).filter(|_| field.number == OF_RESOURCE).map(KeyValue);
                if attribute.is_none_or(|attribute| self.keeps(attribute)) {
                    out.raw(&sender.request[field.start..field.end]);
                }
            }
        }
        missing().for_each(|wanted| out.raw(&wanted.attribute.field));
        out.close(open);
        Ok(out.into_bytes())
    }
}
