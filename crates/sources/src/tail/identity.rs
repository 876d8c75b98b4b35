//! Which file is which.
//!
//! An inode alone is no identity, because new files get the inodes of removed ones; the content alone is none, because
//! many logs begin with the same lines. A file is a known one if the numbers of the file system match and the bytes
//! that were read are still in it. Files of any length have an identity, even empty ones.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// The most bytes that a print is of.
pub(crate) const PRINT_BYTES: usize = 1024;

/// What the file system says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// When it was created, in nanoseconds since the Unix epoch; 0 where the file system does not say.
    pub(crate) born: u64,
}

impl FileId {
    /// What finds it among others. Inodes are used again, so this decides nothing.
    pub(crate) fn place(self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether the times of creation can tell the two files apart.
    pub(crate) fn is_certain(self, other: Self) -> bool {
        self.born != 0 && other.born != 0
    }
}

/// A hash of some bytes of a file, by which they are recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Print {
    /// Of how many bytes; a print of none says nothing.
    pub(crate) length: u16,
    pub(crate) hash: u64,
}

impl Print {
    /// Of the beginning of a file. `bytes` are at least its first `PRINT_BYTES`, or all that it has.
    pub(crate) fn of_head(bytes: &[u8]) -> Self {
        Self::of(&bytes[..bytes.len().min(PRINT_BYTES)])
    }

    /// Of the bytes before an offset. `bytes` end there, and are at least `PRINT_BYTES`, or all that there are.
    pub(crate) fn of_tail(bytes: &[u8]) -> Self {
        Self::of(&bytes[bytes.len().saturating_sub(PRINT_BYTES)..])
    }

    /// Whether a file that begins with `bytes` may be the one that the print is of; it may have grown since.
    pub(crate) fn is_head_of(self, bytes: &[u8]) -> bool {
        bytes.get(..usize::from(self.length)).is_some_and(|head| Self::of(head) == self)
    }

    /// Whether the bytes before the offset are those that the print is of. `bytes` end at the offset.
    pub(crate) fn is_tail_of(self, bytes: &[u8]) -> bool {
        let begin = bytes.len().checked_sub(usize::from(self.length));
        begin.is_some_and(|begin| Self::of(&bytes[begin..]) == self)
    }

    fn of(bytes: &[u8]) -> Self {
        match u16::try_from(bytes.len()) {
            Ok(0) | Err(_) => Self::default(),
            Ok(length) => Self { length, hash: XxHash3_64::oneshot(bytes) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-5: three bytes are enough, and none at all are no reason to wait.
    #[test]
    fn a_file_that_grew_is_known_by_what_it_had() {
        let grown = [b"abc".as_slice(), &[b'x'; 5000]].concat();
        for length in [0, 1, 3, 1000, 1023, 1024, 1025, 5003] {
            let print = Print::of_head(&grown[..length]);
            assert_eq!(usize::from(print.length), length.min(PRINT_BYTES), "{length}");
            assert!(print.is_head_of(&grown), "{length}");
            assert!(print.is_head_of(&grown[..length]), "{length}");
            if length > 0 {
                assert!(!print.is_head_of(&grown[..length.min(PRINT_BYTES) - 1]), "{length}: it shrank");
                let mut other = grown.clone();
                other[length.min(PRINT_BYTES) - 1] ^= 1;
                assert!(!print.is_head_of(&other), "{length}: its last byte changed");
            }
        }
    }

    #[test]
    fn what_is_before_an_offset_is_known_by_its_end() {
        let bytes: Vec<u8> = (0..3000u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
        for offset in [0, 1, 3, 1023, 1024, 1025, 3000] {
            let print = Print::of_tail(&bytes[..offset]);
            assert_eq!(usize::from(print.length), offset.min(PRINT_BYTES), "{offset}");
            assert!(print.is_tail_of(&bytes[..offset]), "{offset}");
            assert!(print.is_tail_of(&bytes[offset.saturating_sub(PRINT_BYTES)..offset]), "{offset}");
            if offset > 0 {
                assert!(!print.is_tail_of(&bytes[offset.saturating_sub(PRINT_BYTES) + 1..offset]), "{offset}: too few");
                let mut other = bytes[..offset].to_vec();
                other[offset - 1] ^= 1;
                assert!(!print.is_tail_of(&other), "{offset}: the last byte changed");
            }
        }
    }
}
