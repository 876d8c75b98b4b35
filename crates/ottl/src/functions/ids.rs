//! Converters to ids.

use uuid::{Builder, Uuid};

use super::{Function, Kind, function, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::text::from_hex;
use crate::value::{Failure, Value};

const TARGET: &[super::Parameter] = &[required("target", Kind::Any)];

pub(super) const FUNCTIONS: &[Function] = &[
    function("ProfileID", TARGET, |arguments, scene| id(arguments, scene).map(Value::ProfileId)),
    function("SpanID", TARGET, |arguments, scene| id(arguments, scene).map(Value::SpanId)),
    function("TraceID", TARGET, |arguments, scene| id(arguments, scene).map(Value::TraceId)),
    function("UUID", &[], |_, _| Ok(Value::text(Uuid::new_v4().to_string()))),
    function("UUIDv7", &[], |_, scene| {
        // The random part of version 4 has its version and its variant where version 7 has them.
        let [_, _, _, _, _, _, random @ ..] = Uuid::new_v4().into_bytes();
        let millis = u64::try_from(scene.now / 1_000_000).unwrap_or_default();
        Ok(Value::text(Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()))
    }),
];

/// The id in bytes: as they are, or from hexadecimal digits.
fn from_bytes<const N: usize>(bytes: &[u8]) -> Result<[u8; N], String> {
    if let Ok(id) = <[u8; N]>::try_from(bytes) {
        return Ok(id);
    }
    let digits = from_hex(bytes).and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
    digits.ok_or_else(|| format!("an id must have {N} bytes or {} hexadecimal digits", N * 2))
}

fn id<'a, const N: usize>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<[u8; N], Failure> {
    let bytes = arguments.value(0, scene)?.into_bytes_like()?.unwrap_or_default();
    from_bytes(&bytes).map_err(Failure::new)
}
