//! What recovery makes of bytes: the format to the byte, and every kind of damage at every place.

#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

mod counts;
mod crowd;
mod damage;
mod fixture;
mod format;
mod looking;
mod reading;
