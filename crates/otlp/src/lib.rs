//! OTLP as bytes: validate, count, cut, edit and translate telemetry without decoding it into objects.
//!
//! The three OTLP export requests share one shape, so almost everything a pipeline does is a walk over tags and
//! lengths. Merging requests is concatenation; [`cut`] takes them apart again; [`splice`] edits them in place,
//! [`rewrite`] in one pass; [`validate`] decides in one walk whether bytes may enter a queue at all.
//!
//! This crate must not know async code, sockets, files or a protobuf library (prost is the oracle in its tests).
//!
//! Invariants, cited in code and tests:
//! - **WIRE-1** views and cursors never panic and never allocate, whatever the bytes.
//! - **WIRE-2** a splice without edits returns identical bytes.
//! - **WIRE-3** unknown fields survive every operation; a translation to JSON, which has no names for them, counts them.
//! - **WIRE-4** what we accept, prost accepts with equal values (UTF-8 and last-one-wins included).
//! - **WIRE-5** depth and item counts are capped by [`Limits`]; a length is checked before it is used.

#![forbid(unsafe_code)]

pub mod build;
pub mod common;
pub mod conventions;
pub mod cursor;
mod cut;
mod error;
pub mod field;
mod json;
mod limits;
pub mod logs;
pub mod metrics;
mod response;
pub mod rewrite;
mod room;
mod schema;
mod signal;
pub mod splice;
pub mod status;
pub mod traces;
mod validate;

pub use cut::{Part, count, cut, halve, single};
pub use error::{Error, Fault, Problem};
pub use json::{Json, from_json, to_json};
pub use limits::{Counts, Limits};
pub use response::{PartialSuccess, partial_success, partial_success_from_json, response, response_to_json};
pub use room::{NoRoom, Room};
pub use signal::Signal;
pub use validate::validate;
