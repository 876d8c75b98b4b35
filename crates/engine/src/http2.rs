//! Follows what the other side of an HTTP/2 connection sends, to know how much of it the library keeps: the library
//! does not say.

mod fields;
mod frames;

pub(crate) use fields::{Fields, TEXT_BUFFER_BYTES};
pub(crate) use frames::{Fragment, Frames};
