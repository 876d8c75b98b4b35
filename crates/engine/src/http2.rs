//! What the other side of a connection over HTTP/2 says, as far as the library keeps it: nobody else tells what that is.

mod fields;
mod frames;

pub(crate) use fields::{Fields, TEXT_BUFFER_BYTES};
pub(crate) use frames::{Frames, Piece};
