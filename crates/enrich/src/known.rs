//! A known sender: its facts, and the attributes that they add.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use weir_plan::{Cluster, Enrichment, Multiline, Pod};

use crate::facts::PodFacts;
use crate::raw::Raw;

/// A pod, or what is known without one: a node, or the cluster alone.
#[derive(Debug, Default)]
pub(crate) struct Known {
    cluster: Arc<Cluster>,
    /// Of the node, where they are known.
    node_labels: Option<Arc<BTreeMap<String, String>>>,
    pod: Arc<Pod>,
    /// What was made when it was last asked for. Until a plan changes what is added, nothing else is needed. Most
    /// pods of a cluster send nothing to this process.
    made: RwLock<Option<Box<Made>>>,
}

/// Facts, and what was to be added when they were made.
#[derive(Debug)]
struct Made {
    enrichment: Arc<Enrichment>,
    facts: Arc<PodFacts>,
}

impl Known {
    pub(crate) fn new(
        cluster: &Arc<Cluster>,
        node_labels: Option<&Arc<BTreeMap<String, String>>>,
        pod: Arc<Pod>,
    ) -> Self {
        Self { cluster: Arc::clone(cluster), node_labels: node_labels.cloned(), pod, made: RwLock::default() }
    }

    /// Whether it is what is known of this pod.
    pub(crate) fn is_of(
        &self,
        cluster: &Cluster,
        node_labels: Option<&Arc<BTreeMap<String, String>>>,
        pod: &Arc<Pod>,
    ) -> bool {
        Arc::ptr_eq(&self.pod, pod) && self.node_labels.as_ref() == node_labels && *self.cluster == *cluster
    }

    /// The node, where it is known.
    pub(crate) fn node(&self) -> Option<&str> {
        self.pod.node.as_deref().filter(|node| !node.is_empty())
    }

    /// How lines are joined, where the pod says it.
    pub(crate) fn multiline(&self) -> Option<Multiline> {
        self.pod.multiline
    }

    /// What telemetry gets of this.
    pub(crate) fn facts(&self, enrichment: &Arc<Enrichment>) -> Arc<PodFacts> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| Arc::ptr_eq(&made.enrichment, enrichment)) {
            return Arc::clone(&made.facts);
        }
        drop(made);
        let facts = Arc::new(PodFacts::new(&self.pod, self.node_labels.as_deref(), &self.cluster, enrichment));
        let made = Box::new(Made { enrichment: Arc::clone(enrichment), facts: Arc::clone(&facts) });
        *self.made.write().unwrap_or_else(PoisonError::into_inner) = Some(made);
        facts
    }

    /// What container logs in their raw shape get of this.
    pub(crate) fn raw<'a>(&'a self, enrichment: &'a Enrichment) -> Raw<'a> {
        Raw { pod: &self.pod, cluster: &self.cluster, enrichment }
    }
}
