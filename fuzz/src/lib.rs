//! What the targets share.

pub mod journal;
pub mod requests;
