//! Ways to damage bytes.

use proptest::collection::vec;
use proptest::prelude::*;

/// One way to damage bytes; positions are taken modulo the length.
#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u8),
    Set(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Truncate(usize),
    Repeat(usize, usize),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match self {
            Self::Flip(at, bit) => bytes[at % len] ^= 1 << (bit % 8),
            Self::Set(at, byte) => bytes[at % len] = *byte,
            Self::Remove(at, count) => drop(bytes.drain(at % len..(at % len + count).min(len))),
            Self::Insert(at, new) => drop(bytes.splice(at % len..at % len, new.iter().copied())),
            Self::Truncate(at) => bytes.truncate(at % len),
            Self::Repeat(at, count) => {
                let copy = bytes[at % len..(at % len + count).min(len)].to_vec();
                drop(bytes.splice(at % len..at % len, copy));
            }
        }
    }
}

/// Some damage to some bytes.
pub(crate) fn damaged(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let at = any::<usize>();
    // Bytes that mean something: keys, lengths, continuation bits, group markers.
    let byte = prop_oneof![any::<u8>(), prop::sample::select(vec![0, 1, 2, 0x0a, 0x12, 0x13, 0x14, 0x7f, 0x80, 0xff])];
    let damage = prop_oneof![
        (at, any::<u8>()).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (at, byte.clone()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at, 1..4usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (at, vec(byte, 1..4)).prop_map(|(at, new)| Damage::Insert(at, new)),
        at.prop_map(Damage::Truncate),
        (at, 1..40usize).prop_map(|(at, count)| Damage::Repeat(at, count)),
    ];
    (bytes, vec(damage, 1..4)).prop_map(|(mut bytes, damages)| {
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        bytes
    })
}
