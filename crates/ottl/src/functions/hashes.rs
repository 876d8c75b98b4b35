//! Converters to checksums and encodings.

use sha2::{Digest as _, Sha256};

use super::{Function, STRING, function, required};
use crate::value::Value;
use crate::value::text::to_hex;

pub(super) const FUNCTIONS: &[Function] = &[function("SHA256", &[required("target", STRING)], |arguments, scene| {
    let text = arguments.text(0, scene)?;
    Ok(Value::text(to_hex(&Sha256::digest(text.as_bytes()))))
})];
