//! Doubles for tests of crates that use the journal; only ever a dev-dependency.

#![forbid(unsafe_code)]
