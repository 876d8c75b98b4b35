//! Counters of what requests bring, for each signal.

use std::sync::atomic::AtomicU64;

use weir_plan::Signal;

/// A counter for each signal, in the order of [`Signal::ALL`].
pub(crate) type BySignal = [AtomicU64; Signal::ALL.len()];
