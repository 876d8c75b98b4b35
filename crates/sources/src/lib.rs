//! Sources of telemetry that run in the same process as the engine. Each is a client of the engine's inlet: it reserves
//! memory, makes a request, offers it, and goes on only when it is told that the data is safe.
//!
//! This crate must not know exporters, the journal, or custom resources.

#![forbid(unsafe_code)]

pub mod tail;
