//! The operator: custom resources in, one Secret for the nodes, manifests and statuses out.
//!
//! `decide` makes all decisions from one `Picture` of the cluster, and is pure. The modules under
//! `shell` watch, apply and ask. Each can be read without the other.
//!
//! Invariants:
//! - **OPERATOR-1** The same picture gives the same decision, to the byte.
//! - **OPERATOR-2** A pipeline that is wrong goes on as it was when it was right, or is left out, and says so; nothing else
//!   changes because of it.
//! - **OPERATOR-3** Nothing is written but by the leader, and only what differs.
//! - **OPERATOR-4** What cannot be read is not taken for absent: nothing is decided from half a picture.
//! - **OPERATOR-5** No value of a Secret is in a message, a status, an event or a log line.

pub(crate) mod configuration;
mod decide;
mod few;
pub(crate) mod flow;
pub(crate) mod layout;
mod leftovers;
pub(crate) mod limits;
mod manifests;
pub(crate) mod names;
pub(crate) mod object;
mod options;
mod overrides;
pub(crate) mod pending;
pub(crate) mod picture;
pub(crate) mod references;
pub(crate) mod shell;
pub(crate) mod status;
mod verdict;
mod workload;

#[cfg(test)]
mod tests;

pub use options::{Autoscaling, Options, Replicas, Scale, SecretKey, SetLogLevel, Storage};
pub use pending::Pending;
pub use shell::{Ports, run};
