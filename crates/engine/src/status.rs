//! gRPC status codes, by name.

use std::fmt;

/// A gRPC status code (names as in the gRPC specification).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(u32);

impl Code {
    pub(crate) const OK: Self = Self(0);
    pub(crate) const CANCELLED: Self = Self(1);
    pub(crate) const UNKNOWN: Self = Self(2);
    pub(crate) const INVALID_ARGUMENT: Self = Self(3);
    pub(crate) const DEADLINE_EXCEEDED: Self = Self(4);
    pub(crate) const NOT_FOUND: Self = Self(5);
    pub(crate) const PERMISSION_DENIED: Self = Self(7);
    pub(crate) const RESOURCE_EXHAUSTED: Self = Self(8);
    pub(crate) const FAILED_PRECONDITION: Self = Self(9);
    pub(crate) const ABORTED: Self = Self(10);
    pub(crate) const OUT_OF_RANGE: Self = Self(11);
    pub(crate) const UNIMPLEMENTED: Self = Self(12);
    pub(crate) const INTERNAL: Self = Self(13);
    pub(crate) const UNAVAILABLE: Self = Self(14);
    pub(crate) const DATA_LOSS: Self = Self(15);
    pub(crate) const UNAUTHENTICATED: Self = Self(16);

    /// The number on the wire.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Where its name is. What no specification knows is UNKNOWN, as gRPC libraries treat it.
    pub(crate) fn index(self) -> usize {
        let index = self.0 as usize;
        if index < NAMES.len() { index } else { Self::UNKNOWN.0 as usize }
    }
}

/// Names by number.
pub(crate) const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl From<u32> for Code {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES[self.index()])
    }
}
