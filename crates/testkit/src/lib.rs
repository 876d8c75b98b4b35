//! Doubles, oracles and peers for tests; only ever a dev-dependency. It knows the journal's file system and nothing
//! else of the journal, OTLP's definitions, and of a gateway what its users see.

mod counting;
pub mod fields;
mod sim_fs;
#[cfg(feature = "sockets")]
mod sockets;
mod watched;

use std::io::{self, Write as _};

pub use counting::Counting;
pub use sim_fs::{Faults, Operation, SimFs};
#[cfg(feature = "sockets")]
pub use sockets::*;
pub use watched::{Call, Watched};

/// Says that something could not be tested here. The test harness does not capture it, because it must not go
/// unnoticed.
pub fn warn(what: &str) {
    io::stderr().write_all(format!("\nwarning: {what}\n").as_bytes()).expect("standard error is open");
}

/// The seed of a run of generated cases. It is the same each time, because a run that proves a change must not fail for
/// something that only chance has found. It is another one if the environment's `variable` names one, or says `random`.
pub fn seed(variable: &str) -> u64 {
    const DEFAULT: u64 = 1;
    #[expect(clippy::disallowed_methods, reason = "a developer repeats a run with the seed it printed")]
    let wish = std::env::var(variable);
    match wish.as_deref() {
        Err(_) => DEFAULT,
        Ok("random") => fastrand::u64(..),
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("{variable} is neither a number nor random")),
    }
}
