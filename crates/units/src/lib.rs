//! Sizes and durations as people type them, in documents and on the command line.
//!
//! `quantity` is exact arithmetic on text; whoever reads documents says with a position what is wrong. `option` reads
//! what an option of a command holds, and says in words what is wrong with it. It must not know which options or fields
//! there are, nor any other crate: the judge uses it as well as the gateway.
//!
//! Invariants:
//! - **UNITS-1** A text means one quantity or none. What cannot be represented is refused, never cut off or wrapped.
//! - **UNITS-2** All commands take the same texts, and what [`typed_size`] writes is read as the same size.

#![forbid(unsafe_code)]

mod option;
pub mod quantity;

pub use option::{parse_duration, parse_positive_duration, parse_positive_size, parse_size, typed_size};
