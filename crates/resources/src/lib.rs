//! Configuration: Kubernetes documents (`TracePipeline`, `Secret`) to a [`weir_plan::Plan`], or everything that is
//! wrong with them.
//!
//! A text passes three stages: a tree with positions (`yaml`), checked documents (`trace_pipeline`, `otlp_output`,
//! `secret`), and the plan. It must not know a Kubernetes client, the engine, sockets or the clock; the only I/O is
//! [`read`].
//!
//! Invariants:
//! - **R1** All errors are reported at once; a document that is wrong does not hide what is wrong in another.
//! - **R2** Every diagnostic names a file, a line and a column.
//! - **R3** No secret value (from a `Secret`, a header, a credential, a key) appears in a diagnostic, in its
//!   rendering, or in any `Debug` output of this crate.
//! - **R4** Nothing given is ignored: an unknown or unsupported field is an error, one without effect a warning.
//! - **R5** Any input ends in a plan or a report, in time and memory proportional to its size: depth, aliases, file
//!   size and the number of diagnostics are bounded.

#![forbid(unsafe_code)]

mod backlog;
mod diagnostic;
mod endpoint;
mod load;
mod node;
mod object;
mod otlp_output;
mod pem;
mod quantity;
mod secret;
mod source;
mod suggest;
mod trace_pipeline;
mod value;
mod yaml;

pub use diagnostic::{Diagnostic, Report, Severity};
pub(crate) use load::Version;
pub use load::{Loaded, load};
pub use source::{MAX_FILE_BYTES, Source, Stamp, read, stamp};
