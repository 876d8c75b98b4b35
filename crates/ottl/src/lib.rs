//! The OpenTelemetry Transformation Language (OTTL): parsed, checked, compiled once, evaluated on OTLP bytes.
//!
//! A [`Transform`] executes statements, a [`Filter`] drops what its conditions hold for. Both work on the bytes of a
//! request: fields are read when a path asks for them, and only what changed is written again.
//!
//! The reference implementation is `pkg/ottl` of opentelemetry-collector-contrib 0.158. Where this crate is stricter,
//! it refuses a statement at compile time that the reference would let fail for every item.
//!
//! This crate must not know pipelines, async code, sockets, files or clocks.
//!
//! Invariants, cited in code and tests:
//! - **OTTL-1** no text makes the compiler panic, overflow the stack or take more than linear time and memory.
//! - **OTTL-2** unknown functions, paths, enums and contexts, wrong counts and forms of arguments, and invalid literal
//!   patterns are refused with their place in the text; they never reach an item.
//! - **OTTL-3** whatever no statement changes and no condition drops keeps its bytes, unknown fields included; a
//!   request without any change is not copied.
//! - **OTTL-4** patterns match in linear time, their compiled size is limited, statements add at most
//!   [`Limits::max_growth`] bytes to a request, and what is calculated takes at most about [`Limits::max_scratch`]
//!   bytes.
//! - **OTTL-5** a statement that fails for an item is counted and has changed nothing, and the statements after it go
//!   on.

#![forbid(unsafe_code)]

mod ast;
mod compile;
mod context;
mod draft;
mod error;
mod filter;
mod functions;
mod group;
mod infer;
mod lexer;
mod parser;
mod patch;
mod paths;
mod pattern;
mod program;
mod scene;
mod strptime;
mod transform;
mod value;
mod walk;

pub use context::Context;
pub use error::{Error, Origin};
pub use filter::{Filter, Filtered};
pub use functions::{Signature, signatures};
pub use group::{Limits, Options, Tally};
pub use pattern::max_pattern_bytes;
pub use transform::{Transform, Transformed};
pub use weir_otlp::Signal;
