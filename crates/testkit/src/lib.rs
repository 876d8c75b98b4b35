//! Doubles and oracles for tests; only ever a dev-dependency. It knows of the journal nothing but its file system, and
//! of OTLP its definitions.

#![forbid(unsafe_code)]

pub mod fields;
mod sim_fs;
mod watched;

pub use sim_fs::{Faults, Operation, SimFs};
pub use watched::{Call, Watched};
