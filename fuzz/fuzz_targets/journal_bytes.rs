//! Arbitrary bytes in the files of two segments, with checksums made right or left as they are.
//!
//! The input: a byte, odd when checksums are to be made right; the lengths of the first segment and of its completions,
//! 16 bits little endian each; then these two files, and what is left is the second segment.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::journal::{Files, reseal, use_journal};

fuzz_target!(|input: &[u8]| {
    let Some((&[flags, first_low, first_high, acks_low, acks_high], rest)) = input.split_first_chunk() else { return };
    let length = |low, high| usize::from(u16::from_le_bytes([low, high]));
    let (first, rest) = rest.split_at(length(first_low, first_high).min(rest.len()));
    let (acks, second) = rest.split_at(length(acks_low, acks_high).min(rest.len()));
    let mut files = Files::new();
    for (name, bytes) in
        [("0000000000000001.seg", first), ("0000000000000001.ack", acks), ("0000000000000002.seg", second)]
    {
        if !bytes.is_empty() {
            files.insert(name.to_owned(), bytes.to_vec());
        }
    }
    if flags % 2 == 1 {
        reseal(&mut files);
    }
    use_journal(&files);
});
