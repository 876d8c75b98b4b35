//! The tailer in an engine, with real files and real backends.

#![expect(clippy::unwrap_used, reason = "what fails here is to fail the test")]

mod agent;
mod bounds;
mod hostile;
mod kubelet;
mod outside;
mod places;
mod pods;
mod records;
mod selection;
mod traces;
