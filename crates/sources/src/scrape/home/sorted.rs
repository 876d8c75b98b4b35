//! Metrics by their homes, for a request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use weir_otlp::build::Encoder;
use weir_otlp::common::{KeyValue, Message, Resource};
use weir_otlp::field::{resource, scope_data};

use super::{attribute, field, marked, part};
use crate::scrape::previous::ByHash;

/// Metrics by their homes.
#[derive(Debug, Default)]
pub(in crate::scrape) struct Homes<'m> {
    /// In the order of the text.
    pub(in crate::scrape) resources: Vec<ResourceHome<'m>>,
    /// Where they are, by their jobs and instances.
    indexes: HashMap<Names<'m>, usize>,
    /// Homes by their ids.
    known: ByHash<Message<'m>>,
    /// Where the metrics of an id go: an index of a resource, and one of its scopes.
    places: ByHash<(usize, usize)>,
    infos: HashMap<Names<'m>, Vec<Message<'m>>>,
}

/// A job and an instance, which are empty when they are those of the target.
type Names<'m> = (&'m [u8], &'m [u8]);

/// The homes of one resource.
#[derive(Debug)]
pub(in crate::scrape) struct ResourceHome<'m> {
    names: Names<'m>,
    pub(in crate::scrape) scopes: Vec<ScopeHome<'m>>,
}

/// One home, and where its metrics are.
#[derive(Debug)]
pub(in crate::scrape) struct ScopeHome<'m> {
    /// `None`: Weir's own.
    pub(in crate::scrape) scope: Option<&'m [u8]>,
    pub(in crate::scrape) schema_url: &'m [u8],
    pub(in crate::scrape) metrics: Vec<Range<usize>>,
}

impl<'m> Homes<'m> {
    /// Sorts metrics.
    pub(in crate::scrape) fn of(metrics: &'m [u8]) -> Self {
        let mut homes = Self::default();
        let (mut id, mut start) = (0, 0);
        let all = Message::request(metrics);
        for field in all.fields().filter(|field| field.number != scope_data::ITEMS) {
            homes.add(id, start..field.start);
            start = field.end;
            id = marked(&field).unwrap_or(id);
            match all.inner(&field) {
                Some(info) if field.number == field::INFO => homes.infos.entry(names(info)).or_default().push(info),
                Some(home) => _ = homes.known.entry(home.fixed64(part::ID)).or_insert(home),
                None => {}
            }
        }
        homes.add(id, start..metrics.len());
        homes
    }

    fn add(&mut self, id: u64, metrics: Range<usize>) {
        if metrics.is_empty() {
            return;
        }
        let (resource, scope) = match self.places.get(&id) {
            Some(place) => *place,
            None => self.place(id),
        };
        self.resources[resource].scopes[scope].metrics.push(metrics);
    }

    /// Makes a place for the metrics of a home.
    fn place(&mut self, id: u64) -> (usize, usize) {
        let home = self.known.get(&id).copied();
        let names = home.map_or((&b""[..], &b""[..]), names);
        let index = *self.indexes.entry(names).or_insert(self.resources.len());
        if index == self.resources.len() {
            self.resources.push(ResourceHome { names, scopes: Vec::new() });
        }
        let scope = home.and_then(|home| home.message(part::SCOPE)).map(Message::body);
        let schema_url = home.map_or(&b""[..], |home| home.bytes_field(part::SCHEMA_URL));
        let scopes = &mut self.resources[index].scopes;
        scopes.push(ScopeHome { scope, schema_url, metrics: Vec::new() });
        self.places.insert(id, (index, scopes.len() - 1));
        (index, scopes.len() - 1)
    }

    /// The fields of a resource, made of those of the target. What a cluster says of the target's place, no page changes:
    /// pipelines choose by it. The name of its service is found by enrichment, as for everything else in a cluster.
    pub(in crate::scrape) fn resource<'r>(&self, own: &'r [u8], home: &ResourceHome<'_>) -> Cow<'r, [u8]> {
        let (job, instance) = home.names;
        let named = [("service.name", job), ("service.instance.id", instance)];
        let mut set: Vec<(&str, &[u8])> = named.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let is_placed = has_place(own);
        for info in self.infos.get(&home.names).into_iter().flatten() {
            for attribute in Resource(*info).attributes() {
                let holder = attribute.0.message(weir_otlp::field::key_value::VALUE);
                let value =
                    holder.map_or(&b""[..], |value| value.bytes_field(weir_otlp::field::any_value::STRING_VALUE));
                if !(is_placed && is_for_cluster(attribute.key())) {
                    set.push((attribute.key(), value));
                }
            }
        }
        if set.is_empty() {
            return Cow::Borrowed(own);
        }
        // Of several values for one name, the last one counts.
        let last: HashMap<&str, &[u8]> = set.iter().copied().collect();
        let mut out = Encoder::with_capacity(2 * own.len());
        for attribute in Message::request(own).messages(resource::ATTRIBUTES) {
            if !last.contains_key(KeyValue(attribute).key()) {
                out.raw(&own[attribute.field_range()]);
            }
        }
        let mut left = last;
        for (name, _) in set {
            if let Some(value) = left.remove(name) {
                attribute(&mut out, resource::ATTRIBUTES, name.as_bytes(), value);
            }
        }
        Cow::Owned(out.into_bytes())
    }
}

/// Attributes that say where in a cluster something is.
const PLACE_PREFIX: &str = "k8s.";

/// Whether what a cluster says of an attribute counts, and nothing that a page says.
fn is_for_cluster(name: &str) -> bool {
    name.starts_with(PLACE_PREFIX) || name == "service.name"
}

/// Whether a resource says where in a cluster it is.
fn has_place(resource: &[u8]) -> bool {
    let mut attributes = Message::request(resource).messages(resource::ATTRIBUTES);
    attributes.any(|attribute| KeyValue(attribute).key().starts_with(PLACE_PREFIX))
}

/// The job and the instance in a home or in labels of a sample `target_info`.
fn names(home: Message<'_>) -> Names<'_> {
    (home.bytes_field(part::JOB), home.bytes_field(part::INSTANCE))
}
