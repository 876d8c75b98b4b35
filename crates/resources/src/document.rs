//! Documents: texts as trees with positions, and what can be said of any tree: wrong types, missing and unknown fields,
//! misspelt names, quantities.
//!
//! It knows no kind and no field by name.

mod json;
mod node;
pub(crate) mod suggest;
pub mod table;
pub(crate) mod yaml;

pub(crate) use json::json;
pub(crate) use node::{Fields, Located, Node};
pub use table::Version;
