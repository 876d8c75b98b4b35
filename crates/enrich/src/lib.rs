//! What is added to, or left out of, every request before pipelines see it: facts about the cluster and the pod that
//! sent it, service attributes, the noise that telemetry itself causes in an Istio mesh, and the form of Istio's
//! access logs.
//!
//! Bytes in, edits out: in one pass, [`Enricher::edits`] looks at a validated request and says what
//! [`weir_otlp::splice::splice`] is to change. Facts about the cluster and its pods come through the trait
//! [`Pods`], and may change between one request and the next.
//!
//! This crate must not know async code, sockets, files, the clock, Kubernetes clients, or pipelines.
//!
//! Invariants, cited in code and tests:
//! - **ENRICH-1** what a resource says of itself is never changed, except for internal `kyma.*` attributes, an unknown
//!   service name, and what Istio says of the service.
//! - **ENRICH-2** enriching twice is enriching once.
//! - **ENRICH-3** a request with nothing to change gives no edits.
//! - **ENRICH-4** edits take no more memory than the room that was given for them.

#![forbid(unsafe_code)]

mod access_log;
mod attributes;
mod changes;
mod enricher;
mod facts;
mod istio;
mod known;
mod metric_noise;
mod pods;
mod raw;
mod resource;
mod service;
mod workloads;

pub use changes::{Changes, NoRoom};
pub use enricher::{Arrival, Enricher, Noise};
pub use pods::{PodIndex, PodList, Pods};
