//! What a pipeline does to the telemetry it takes: transforms first, then filters, then temporality. A pipeline that
//! sends records of Fluent Bit may have filters of Fluent Bit instead.
//!
//! Rules are kept as the text the user wrote, which has been checked; whoever runs them compiles them again.

use crate::Section;

/// All of it; the default changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processing {
    /// Applied in this order.
    pub transforms: Vec<Transform>,
    /// Applied in this order, after all transforms.
    pub filters: Vec<Filter>,
    /// Filters of Fluent Bit, applied in this order to container logs of [`RecordShape::Raw`](crate::RecordShape::Raw).
    pub sections: Vec<Section>,
    /// Of metrics: which aggregation temporality the backend wants.
    pub temporality: Temporality,
}

/// OTTL statements that run when one of the conditions holds, or always when there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transform {
    /// OTTL conditions.
    pub conditions: Vec<String>,
    /// OTTL statements.
    pub statements: Vec<String>,
}

/// OTTL conditions; items for which one holds are removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// OTTL conditions.
    pub conditions: Vec<String>,
}

/// Aggregation temporality of sums and histograms sent to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Temporality {
    /// As it came.
    #[default]
    Preserve,
    /// Cumulative becomes delta.
    Delta,
}
