//! What both systems do to the data on its way, defined once: the rules are the same text in both configurations.
//!
//! The names of rules and attributes are the generator's: items have `key0`, `key1` ..., and `load.drop` when some are
//! marked.

use anyhow::ensure;
use clap::ValueEnum;

use crate::load::payload::{Items, Pair, Shape, ShapeArgs};
use crate::marked;
use crate::signal::Signal;

/// What is done to the data between receiving and sending it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Processing {
    /// Nothing
    #[default]
    None,
    /// Metadata of the pod, its node and the cluster become attributes of the resource
    Enrich,
    /// A filter drops 97 of 100 items
    Filter97,
    /// One attribute is inserted
    Insert,
    /// Four attributes get other names
    Rename4,
}

/// So many of each hundred items are dropped.
const DROPPED_PERCENT: u8 = 97;
/// So many attributes get other names.
const RENAMED: u32 = 4;
/// The attribute that is inserted.
const INSERTED: &str = "load.inserted";
/// The pod that telemetry says it comes from.
pub(crate) const POD_UID: &str = "0f4b1d3c-8a57-4d5e-9c36-2f1f5a4c7e10";

/// What the metadata of that pod, its node and its cluster comes to.
pub(crate) const ENRICHED: [(&str, &str); 10] = [
    ("k8s.pod.name", "load-test-6d4cf56db6-x7k2p"),
    ("k8s.node.name", "node-1"),
    ("k8s.deployment.name", "load-test"),
    ("k8s.pod.label.app", "load-test"),
    ("cloud.region", "europe-west1"),
    ("cloud.availability_zone", "europe-west1-b"),
    ("host.type", "n1-standard-4"),
    ("host.arch", "amd64"),
    ("k8s.cluster.name", "load-test-cluster"),
    ("k8s.cluster.uid", "8a3f2c55-61b7-4f0c-9d0e-7f5b0f2f9a01"),
];

impl Processing {
    /// Statements that change items.
    pub(crate) fn statements(self, signal: Signal) -> Vec<String> {
        let item = context(signal);
        match self {
            Self::None | Self::Enrich | Self::Filter97 => Vec::new(),
            Self::Insert => vec![format!(r#"set({item}.attributes["{INSERTED}"], "by the gateway")"#)],
            Self::Rename4 => (0..RENAMED).flat_map(|number| rename(item, number)).collect(),
        }
    }

    /// The condition under which items are dropped.
    pub(crate) fn condition(self, signal: Signal) -> Option<String> {
        let (item, key) = (context(signal), marked::KEY);
        (self == Self::Filter97).then(|| format!(r#"{item}.attributes["{key}"] == "{}""#, char::from(marked::DROP)))
    }

    /// What the generator has to send for the rules to have something to do.
    pub(crate) fn prepare(self, shape: &mut ShapeArgs) {
        match self {
            Self::Filter97 => shape.marked = Some(DROPPED_PERCENT),
            Self::Enrich => {
                shape.resource_attributes.push(Pair { key: "k8s.pod.uid".to_owned(), value: POD_UID.to_owned() });
            }
            Self::None | Self::Insert | Self::Rename4 => {}
        }
    }

    /// Whether items of this shape have what the rules are about; the judge would miss what they write.
    ///
    /// # Errors
    /// They do not.
    pub(crate) fn check(self, shape: &Shape) -> anyhow::Result<()> {
        if self == Self::Rename4 {
            let only_roots = matches!(shape.items, Items::Spans { per_trace } if per_trace.min(shape.batch) < 2);
            ensure!(!only_roots, "cannot rename attributes of root spans: they have none");
            ensure!(shape.attributes >= RENAMED, "cannot rename {RENAMED} attributes of {}", shape.attributes);
        }
        Ok(())
    }

    /// An attribute that is in every request when it was done.
    pub(crate) fn evidence(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Filter97 => None,
            // Of all metadata the furthest from the pod.
            Self::Enrich => Some("k8s.deployment.name"),
            Self::Insert => Some(INSERTED),
            Self::Rename4 => Some("renamed3"),
        }
    }

    /// In words, for the heading of a result.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Enrich => "enrichment with the metadata of a pod",
            Self::Filter97 => "a filter that drops 97 of 100",
            Self::Insert => "one attribute inserted",
            Self::Rename4 => "four attributes renamed",
        }
    }
}

/// How rules call an item.
fn context(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "span",
        Signal::Metrics => "datapoint",
        Signal::Logs => "log",
    }
}

/// As users write it: the language has no rename for items.
fn rename(item: &str, number: u32) -> [String; 2] {
    let (old, new) = (format!("key{number}"), format!("renamed{number}"));
    [
        format!(r#"set({item}.attributes["{new}"], {item}.attributes["{old}"])"#),
        format!(r#"delete_key({item}.attributes, "{old}")"#),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_the_items_of_their_signal() {
        assert_eq!(Processing::Filter97.condition(Signal::Logs).unwrap(), r#"log.attributes["load.drop"] == "1""#);
        assert_eq!(Processing::Insert.condition(Signal::Logs), None);
        let rename = Processing::Rename4.statements(Signal::Metrics);
        assert_eq!(rename.len(), 8);
        assert_eq!(rename[7], r#"delete_key(datapoint.attributes, "key3")"#);
    }

    #[test]
    fn what_was_done_can_be_seen() {
        assert!(ENRICHED.iter().any(|(key, _)| Processing::Enrich.evidence() == Some(key)));
        for processing in [Processing::Insert, Processing::Rename4] {
            let evidence = processing.evidence().unwrap();
            assert!(processing.statements(Signal::Traces).iter().any(|statement| statement.contains(evidence)));
        }
    }

    #[test]
    fn the_generator_sends_what_the_rules_are_about() {
        let shape = |processing: Processing| {
            let mut shape = ShapeArgs::default();
            processing.prepare(&mut shape);
            shape.resolve(Signal::Traces, 512).unwrap()
        };
        assert_eq!(shape(Processing::Filter97).marked.map(marked::Marked::percent), Some(97));
        assert_eq!(shape(Processing::Enrich).resource_attributes[0].key, "k8s.pod.uid");
        assert_eq!(shape(Processing::Insert), shape(Processing::None));
        assert!(Processing::Rename4.check(&shape(Processing::Rename4)).is_ok());
        for (attributes, batch) in [(3, 512), (40, 1)] {
            let shape = Shape { attributes, batch, ..shape(Processing::Rename4) };
            assert!(Processing::Rename4.check(&shape).is_err() && Processing::Insert.check(&shape).is_ok());
        }
    }
}
