//! Metrics of nodes and workloads: what a kubelet measures, what the objects of a cluster say of themselves, and the
//! status of the resources that configure telemetry.
//!
//! The core is pure: `kubelet` makes metrics of the pages of a kubelet, `cluster` of the state of a cluster's objects, and
//! `resource_status` of the status of resources. `draft` encodes them, and knows which metrics are wanted.
//!
//! Around it: `client` gets the pages of a kubelet, and `agent` does all of it again and again. It makes requests of their
//! own for all pipelines that want the same metrics, so that nothing has to be taken out of requests later.

mod agent;
mod client;
mod cluster;
mod draft;
mod kubelet;
mod resource_status;
#[cfg(test)]
mod test_lines;

pub use agent::{RuntimeAgent, Settings, Speaks};
pub use client::Kubelet;
