//! Where facts about pods come from.

use std::collections::HashMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use weir_plan::{Enrichment, Metadata};

use crate::facts::PodFacts;

/// A source of facts about pods. It is asked for every resource of every request, so it answers from memory.
pub trait Pods: Send + Sync + Debug {
    /// The pod with this address, an IPv4 address never in IPv6 clothes.
    fn by_ip(&self, ip: IpAddr) -> Option<Arc<PodFacts>>;

    /// The pod with this `metadata.uid`.
    fn by_uid(&self, uid: &str) -> Option<Arc<PodFacts>>;

    /// What is known of a node ([`PodFacts::of_node`]).
    fn by_node(&self, name: &str) -> Option<Arc<PodFacts>>;
}

/// Pods that do not change: those of a plan.
#[derive(Debug, Default)]
pub struct StaticPods {
    by_ip: HashMap<IpAddr, Arc<PodFacts>>,
    by_uid: HashMap<String, Arc<PodFacts>>,
    by_node: HashMap<String, Arc<PodFacts>>,
}

impl StaticPods {
    /// The facts about all pods in `metadata` and their nodes. Of pods with the same address or uid the last one counts.
    pub fn new(metadata: &Metadata, enrichment: &Enrichment) -> Self {
        let mut pods = Self::default();
        for pod in &metadata.pods {
            let facts = Arc::new(PodFacts::new(pod, enrichment));
            for ip in &pod.ips {
                pods.by_ip.insert(ip.to_canonical(), Arc::clone(&facts));
            }
            if let Some(node) = &pod.node {
                let facts = || Arc::new(PodFacts::of_node(&pod.node_labels, enrichment));
                pods.by_node.entry(node.clone()).or_insert_with(facts);
            }
            if !pod.uid.is_empty() {
                pods.by_uid.insert(pod.uid.clone(), facts);
            }
        }
        pods
    }
}

impl Pods for StaticPods {
    fn by_ip(&self, ip: IpAddr) -> Option<Arc<PodFacts>> {
        self.by_ip.get(&ip).cloned()
    }

    fn by_uid(&self, uid: &str) -> Option<Arc<PodFacts>> {
        self.by_uid.get(uid).cloned()
    }

    fn by_node(&self, name: &str) -> Option<Arc<PodFacts>> {
        self.by_node.get(name).cloned()
    }
}
