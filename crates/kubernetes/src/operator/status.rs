//! What statuses say: conditions of pipelines and of the Telemetry, and what changed in them.

pub(crate) mod condition;
pub(crate) mod pipeline;
pub(crate) mod telemetry;
