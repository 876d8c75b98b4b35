//! How much structure one request may have. Sizes in bytes are the receiver's business, not ours.

use crate::error::Problem;
use crate::schema::Role;

/// Deepest message nesting that any accepted request may have.
///
/// The protobuf runtimes of backends (C++, Java, prost) refuse what is nested deeper than 100 messages.
pub(crate) const DEPTH_CEILING: u32 = 99;

/// Caps on the structure of one request (WIRE-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nested messages below the request: a span or log record is at 3, a data point at 5, the value of an attribute
    /// two below its item, and an array or a map inside a value adds two or three. Default 64; values above 99 count as
    /// 99, because backends refuse more.
    pub max_depth: u32,
    /// Items (spans, data points, log records) in one request; resources and scopes are held to the same number, each
    /// on their own. Default 1,048,576: sixteen bytes each in a request of 16 MiB, less than the smallest useful item.
    pub max_items: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_depth: 64, max_items: 1 << 20 }
    }
}

/// What a valid request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Spans, data points or log records.
    pub items: u32,
    /// `ResourceSpans`, `ResourceMetrics` or `ResourceLogs` messages.
    pub resources: u32,
    /// `ScopeSpans`, `ScopeMetrics` or `ScopeLogs` messages.
    pub scopes: u32,
}

/// Holds one request to its limits while it is walked.
#[derive(Debug)]
pub(crate) struct Tally {
    limits: Limits,
    pub(crate) counts: Counts,
}

impl Tally {
    pub(crate) fn new(limits: &Limits) -> Self {
        let limits = Limits { max_depth: limits.max_depth.min(DEPTH_CEILING), ..*limits };
        Self { limits, counts: Counts::default() }
    }

    /// Whether `levels` more may be nested in a message at `depth`.
    #[inline]
    pub(crate) fn allows(&self, depth: u32, levels: u32) -> bool {
        depth + levels <= self.limits.max_depth
    }

    /// Counts a message inside a message at `depth`.
    #[inline]
    pub(crate) fn enter(&mut self, role: Role, depth: u32) -> Result<(), Problem> {
        if !self.allows(depth, 1) {
            return Err(Problem::Depth(self.limits.max_depth));
        }
        let count = match role {
            Role::Part | Role::Attribute => return Ok(()),
            Role::Resource => &mut self.counts.resources,
            Role::Scope => &mut self.counts.scopes,
            Role::Item => &mut self.counts.items,
        };
        if *count >= self.limits.max_items {
            return Err(Problem::Items(self.limits.max_items));
        }
        *count += 1;
        Ok(())
    }
}
