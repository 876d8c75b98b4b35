//! The self monitor: whether data flows, and if not, how much is affected, since when, why, and what to do.
//!
//! Every few seconds, whoever has the figures of an engine hands the [`Monitor`] a [`Look`] at each pipeline, with the
//! time. It answers with a [`Verdict`] for each, and with those that are others than before. Verdicts are small: a node
//! tells them to whoever sums up a cluster.
//!
//! It is pure: it reads no clock, and knows neither the engine nor sockets, nor what a verdict is called elsewhere (the
//! conditions of Kubernetes have names of their own).
//!
//! Invariants:
//! - **OBSERVE-1** A trouble that lasts is told within six looks, and its end within nine, but for OBSERVE-2: 30 s and 45 s.
//!   Looks count from the first item that is in trouble, and data comes between all of them.
//! - **OBSERVE-2** A trouble that was told stays for five looks at least, so nothing flaps faster than that. One whose
//!   end was told, and that is true again within sixty looks, was not over: it is told from then on until it has stayed away
//!   for twice as long as it had, or for sixty looks, or, where nothing was delivered, until something is.
//! - **OBSERVE-3** A trouble has a share and an amount: single items are none, however few or many there are.
//! - **OBSERVE-4** Amounts are differences of the books, so they never say more than the books do. What was lost
//!   before it came into any books is beside them: a difference of what is counted or estimated so.
//! - **OBSERVE-5** What is remembered of a pipeline has a fixed size.

#![forbid(unsafe_code)]

mod history;
mod look;
mod monitor;
mod pipeline;
mod say;
#[cfg(test)]
mod tests;
mod verdict;

pub use history::{History, Point, Totals};
pub use look::{Backend, BeforeBooks, Clients, Disk, EarlyLoss, Input, Inputs, Look, Moment, TurnedAway, Waiting};
pub use monitor::{Change, Monitor};
pub use pipeline::Rhythm;
pub use say::{amount, message};
pub use verdict::{Amounts, Kept, Roles, State, Trouble, Verdict};
