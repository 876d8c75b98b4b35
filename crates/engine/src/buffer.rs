//! A request while it belongs to nobody but who works on it. What enrichment adds to the first resource of a large one
//! goes into room left in front of it, so that the rest stays where it is: copying it costs more than all else that
//! enrichment does.

use std::ops::Deref;

use bytes::Bytes;

use crate::budget::{self, Permit};

/// Room in front of a large request. The metadata of a pod, its node and its cluster, labels included, is about 1 KiB.
const FRONT: usize = 4 << 10;

/// Shorter requests have none: they are copied for less than it costs.
const LARGE: usize = 32 << 10;

/// A paid-for request and the room in front of it.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Where the request begins.
    start: usize,
    permit: Permit,
}

/// How much room a request of `length` bytes is to have in front, which `permit` pays for from now on.
pub(crate) fn front_for(length: usize, permit: &mut Permit) -> usize {
    if length >= LARGE && permit.grow(FRONT) { FRONT } else { 0 }
}

impl Buffer {
    /// The request that begins at `start`.
    pub(crate) fn new(mut bytes: Vec<u8>, start: usize, mut permit: Permit) -> Self {
        budget::fit(&mut bytes, &mut permit);
        let start = start.min(bytes.len());
        Self { bytes, start, permit }
    }

    /// Puts `front` in the place of the first `until` bytes; false, and nothing changed, when there is no room, or when so
    /// much goes away that what is left of it would be kept for nothing.
    pub(crate) fn replace_front(&mut self, until: usize, front: &[u8]) -> bool {
        let (end, most) = (self.start + until, self.bytes.len() / 8);
        let start = end.checked_sub(front.len()).filter(|start| end <= self.bytes.len() && *start <= most);
        let Some(start) = start else { return false };
        self.bytes[start..end].copy_from_slice(front);
        self.start = start;
        true
    }

    /// From now on it cannot be changed, and anybody may have it.
    pub(crate) fn share(self) -> Bytes {
        budget::share(self.bytes, self.start, self.permit)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn the_front_changes_and_the_rest_stays() {
        let budget = Budget::new(1 << 20);
        let mut permit = budget.try_take(LARGE).unwrap();
        let start = front_for(LARGE, &mut permit);
        let mut bytes = vec![0; start];
        bytes.resize(start + LARGE, 7);
        let mut buffer = Buffer::new(bytes, start, permit);
        let rest = buffer[3..].as_ptr();
        assert!(buffer.replace_front(3, b"longer"));
        assert_eq!((&buffer[..7], buffer.len(), buffer[6..].as_ptr()), (&b"longer\x07"[..], LARGE + 3, rest));
        assert!(buffer.replace_front(6, b"s"));
        assert!(!buffer.replace_front(1, &[1; FRONT + 10]), "there is not that much room");
        assert!(!buffer.replace_front(LARGE / 4, b""), "there is too much of it");
        let shared = buffer.share();
        assert_eq!((&shared[..3], shared.len(), shared[1..].as_ptr()), (&b"s\x07\x07"[..], LARGE - 2, rest));
        assert!(budget.used() >= LARGE + FRONT, "the room is paid for as long as it is there");
        drop(shared);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn small_requests_and_full_budgets_get_no_room() {
        let budget = Budget::new(LARGE + 2048);
        let mut permit = budget.try_take(LARGE).unwrap();
        assert_eq!(front_for(LARGE, &mut permit), 0);
        permit.shrink_to(10);
        assert_eq!(front_for(LARGE - 1, &mut permit), 0);
        assert_eq!(front_for(LARGE, &mut permit), FRONT);
        assert!(!Buffer::new(vec![1, 2], 0, permit).replace_front(1, &[1, 2]));
    }
}
