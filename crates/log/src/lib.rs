//! How often the log says the same.
//!
//! Whoever reads a log wants to know what is wrong, and how much it is about; not the same line a thousand times. A
//! condition that lasts has a line now and then: [`Seldom`]. Of many things that are in the same trouble so many are
//! named: [`Warnings`]. It must not know what is said, nor any other crate, and it reads no clock: all that writes to the
//! log uses it, in a process that moves data as well as in an operator.
//!
//! Invariants:
//! - **SAY-1** However often something comes, there is no more than one line of it in half a minute ([`Seldom`]), or
//!   fifty in a period of a minute for each reason ([`Warnings`]).
//! - **SAY-2** What had no line is counted, and the count is handed out once.

#![forbid(unsafe_code)]

mod seldom;
mod warnings;

pub use seldom::Seldom;
pub use warnings::{LeftOut, Warnings};
