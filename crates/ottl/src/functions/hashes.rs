//! Converters to checksums.

use std::hash::Hasher as _;

use fnv::FnvHasher;
use md5::Md5;
use murmur3::{murmur3_32, murmur3_x64_128};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use twox_hash::{XxHash3_64, XxHash3_128};

use super::{Function, STRING, function, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::text::to_hex;
use crate::value::{Failure, Value};

const TARGET: &[super::Parameter] = &[required("target", STRING)];

pub(super) const FUNCTIONS: &[Function] = &[
    function("FNV", TARGET, |arguments, scene| {
        let mut hasher = FnvHasher::default();
        hasher.write(arguments.text(0, scene)?.as_bytes());
        Ok(Value::Int(hasher.finish().cast_signed()))
    }),
    function("MD5", TARGET, digest::<Md5>),
    function("Murmur3Hash", TARGET, |arguments, scene| {
        let text = arguments.text(0, scene)?;
        let hash = murmur3_32(&mut text.as_bytes(), 0).map_err(|error| Failure::new(error.to_string()))?;
        Ok(Value::text(to_hex(&hash.to_le_bytes())))
    }),
    function("Murmur3Hash128", TARGET, |arguments, scene| {
        let text = arguments.text(0, scene)?;
        let hash = murmur3_x64_128(&mut text.as_bytes(), 0).map_err(|error| Failure::new(error.to_string()))?;
        Ok(Value::text(to_hex(&hash.to_le_bytes())))
    }),
    function("SHA1", TARGET, digest::<Sha1>),
    function("SHA256", TARGET, digest::<Sha256>),
    function("SHA512", TARGET, digest::<Sha512>),
    function("XXH128", TARGET, |arguments, scene| {
        let text = arguments.text(0, scene)?;
        Ok(Value::text(to_hex(&XxHash3_128::oneshot(text.as_bytes()).to_be_bytes())))
    }),
    function("XXH3", TARGET, |arguments, scene| {
        let text = arguments.text(0, scene)?;
        Ok(Value::text(to_hex(&XxHash3_64::oneshot(text.as_bytes()).to_be_bytes())))
    }),
];

fn digest<'a, D: Digest>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0, scene)?;
    Ok(Value::text(to_hex(&D::digest(text.as_bytes()))))
}
