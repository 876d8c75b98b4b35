//! The rules of conversion, told by requests that prost writes and reads.

mod buckets;
mod model;
mod passing;
mod reliance;
mod rules;
mod snapshot;
mod undo;
