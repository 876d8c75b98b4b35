//! Configuration: Kubernetes documents (pipelines, `Telemetry`, `Secret`, and objects of a cluster) to a
//! [`weir_plan::Plan`] and facts about the cluster, or everything that is wrong with them.
//!
//! A text passes three stages: a tree with positions (`document`, which knows no kind), checked objects (`kinds`, which
//! know no YAML), and the plan (`load`, which takes files through all of it). What may be written is told to API servers
//! by [`schema`]. This crate must not know a Kubernetes client, the engine, sockets or the clock; the only I/O is
//! [`Files::read`] and [`stamp`].
//!
//! Invariants:
//! - **RES-1** All errors are reported at once; a document that is wrong does not hide what is wrong in another.
//! - **RES-2** Every diagnostic names a file, and a line and a column in it if the file can be read.
//! - **RES-3** No secret value (from a `Secret`, a header, a credential, a key) appears in a diagnostic, in its
//!   rendering, or in any `Debug` output of this crate.
//! - **RES-4** Nothing given is ignored in silence: an unknown field is an error. A field without effect, or without effect
//!   yet, gets a warning, and so does an object of a kind that means nothing here. Fields of a cluster's objects, which
//!   are somebody else's, are the exception.
//! - **RES-5** Any input ends in a plan or a report, in time and memory proportional to its size: depth, aliases, file
//!   size and the number of diagnostics are bounded.

#![forbid(unsafe_code)]

mod diagnostic;
mod document;
mod kinds;
mod load;
pub mod schema;

pub use diagnostic::{Diagnostic, Reason, Report, Severity};
pub use document::{Version, table};
pub use kinds::{
    ConversionError, KINDS, Kind, LogOutputs, Role, certificate_expires, convert, is_convertible, with_defaults,
};
pub use load::{
    Files, Foreign, Loaded, MAX_BYTES, Observed, Options, Source, Stamp, errors, findings, load, observe, stamp,
};
