//! Doubles for tests; only ever a dev-dependency. It knows of the journal nothing but its file system.

#![forbid(unsafe_code)]

mod sim_fs;
mod watched;

pub use sim_fs::{Faults, Operation, SimFs};
pub use watched::{Call, Watched};
