//! Weir in a cluster: what the operator makes of custom resources, what it tells nodes, and what nodes watch.
//!
//! It alone names a Kubernetes client. Whatever decides is a function from values to values, and tested without a
//! cluster; whatever talks to the API server is thin. It must not know the engine, sources, the wire format or the
//! command line.

#![forbid(unsafe_code)]

pub mod admission;
pub mod certificates;
mod changed_by;
mod client;
mod crowd;
pub mod doctor;
pub mod lease;
pub mod node;
pub mod operator;
mod packed;
mod watch;
pub mod webhook;

pub use client::{ClientError, client, client_of_user};
pub use kube::Client;
