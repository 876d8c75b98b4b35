//! Texts in the operator's Secret, compressed with gzip.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Without a time, so that equal texts are packed to equal bytes.
pub(crate) fn pack(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(text).and_then(|()| encoder.finish());
    written.expect("a vector takes everything")
}

/// The text, whoever packed it.
///
/// # Errors
/// When it is not packed, or has more than `limit` bytes. The message follows the name of what is packed, and has nothing of
/// the text.
pub(crate) fn unpack(packed: &[u8], limit: u64) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let read = GzDecoder::new(packed).take(limit.saturating_add(1)).read_to_end(&mut text);
    read.map_err(|error| format!("cannot be unpacked: {error}"))?;
    if text.len() as u64 > limit {
        return Err(format!("has more than {limit} bytes of text"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_limit_is_unpacked_and_a_longer_one_is_not() {
        let packed = pack(b"four");
        assert_eq!(packed, pack(b"four"));
        assert_eq!(unpack(&packed, 4).unwrap(), b"four");
        assert_eq!(unpack(&packed, 3).unwrap_err(), "has more than 3 bytes of text");
        assert!(unpack(b"hunter2", 100).unwrap_err().starts_with("cannot be unpacked: "));
    }
}
