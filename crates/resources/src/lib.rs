//! Configuration: Kubernetes documents (pipelines, `Telemetry`, `Secret`, and objects of a cluster) to a
//! [`weir_plan::Plan`] and what is known of the cluster, or everything that is wrong with them.
//!
//! A text passes three stages: a tree with positions (`yaml`), checked documents (`pipeline`, `telemetry`, `secret`,
//! `cluster`), and the plan. It must not know a Kubernetes client, the engine, sockets or the clock; the only I/O is
//! [`read`].
//!
//! Invariants:
//! - **R1** All errors are reported at once; a document that is wrong does not hide what is wrong in another.
//! - **R2** Every diagnostic names a file, and a line and a column in it if it can be read.
//! - **R3** No secret value (from a `Secret`, a header, a credential, a key) appears in a diagnostic, in its
//!   rendering, or in any `Debug` output of this crate.
//! - **R4** Nothing given is ignored: an unknown field is an error, one without effect (or none yet) a warning, and so are
//!   objects of kinds that mean nothing here. Fields of a cluster's objects, which are somebody else's, are the exception.
//! - **R5** Any input ends in a plan or a report, in time and memory proportional to its size: depth, aliases, file
//!   size and the number of diagnostics are bounded.

#![forbid(unsafe_code)]

mod backlog;
mod certificate;
mod change;
mod cluster;
mod convert;
mod diagnostic;
mod endpoint;
mod fluent_bit;
mod input;
mod json;
mod kind;
mod load;
mod log_pipeline;
mod metric_pipeline;
mod node;
mod object;
mod otlp_output;
mod pipeline;
pub mod quantity;
mod removed;
mod rules;
mod runtime_metrics;
mod secret;
mod selector;
mod source;
mod suggest;
mod telemetry;
mod tls;
mod trace_pipeline;
mod value;
mod yaml;

pub use change::LogOutputs;
pub use convert::{ConversionError, convert, is_convertible};
pub use diagnostic::{Diagnostic, Reason, Report, Severity};
pub use json::documents;
pub use load::{Foreign, Loaded, Version, errors, load, load_with};
pub use source::{MAX_BYTES, Source, Stamp, read, stamp};
