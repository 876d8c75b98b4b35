//! The body of a request while nobody else shares it.
//!
//! A large request has room in front of it. What enrichment adds to the first resource goes there, so that the rest
//! stays where it is: copying the rest would cost more than everything else that enrichment does.

use std::ops::Deref;

use bytes::Bytes;

use crate::budget::{self, Budget, Permit};

/// Room in front of a large request. The metadata of a pod, its node and its cluster, labels included, is about 1 KiB.
const FRONT: usize = 4 << 10;

/// Shorter requests have no such room: copying them costs less.
const LARGE: usize = 32 << 10;

/// The body of a request, paid for as it arrives, and the room in front of it.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Where the request begins.
    start: usize,
    permit: Permit,
}

/// The body of a request.
#[derive(Debug)]
pub(crate) enum Body {
    /// Nobody else's.
    Own(Buffer),
    /// Whoever made the request keeps it, to offer it again. It cannot be changed.
    Shared(Bytes),
}

/// How much room a request of `length` bytes is to have in front, which `permit` pays for from now on.
pub(crate) fn front_for(length: usize, permit: &mut Permit) -> usize {
    if length >= LARGE && permit.grow(FRONT) { FRONT } else { 0 }
}

impl Buffer {
    /// Nothing as yet.
    pub(crate) fn empty(permit: Permit) -> Self {
        Self { bytes: Vec::new(), start: 0, permit }
    }

    /// A request that is there already.
    pub(crate) fn new(bytes: Vec<u8>, permit: Permit) -> Self {
        Self { bytes, start: 0, permit }.fitting()
    }

    /// Gives back room that was not needed.
    pub(crate) fn fitting(mut self) -> Self {
        budget::fit(&mut self.bytes, &mut self.permit);
        self
    }

    /// What pays for it.
    pub(crate) fn permit(&mut self) -> &mut Permit {
        &mut self.permit
    }

    /// Bytes that there is room for behind those that are there.
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// Moves to a larger place, with so much room in front and for so many bytes. The permit has paid for it beside the
    /// old place.
    pub(crate) fn enlarge(&mut self, front: usize, room: usize) {
        let before = self.bytes.capacity();
        let mut bytes = Vec::with_capacity(front + room);
        bytes.resize(front, 0);
        bytes.extend_from_slice(self);
        (self.bytes, self.start) = (bytes, front);
        self.permit.give_back(before);
    }

    /// Adds bytes that there is room for.
    pub(crate) fn push(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
    }

    /// What `make` makes of it, and pays for.
    pub(crate) fn becomes<E>(self, make: impl FnOnce(&[u8], &mut Permit) -> Result<Vec<u8>, E>) -> Result<Self, E> {
        let Self { bytes, start, mut permit } = self;
        let made = make(&bytes[start..], &mut permit)?;
        drop(bytes);
        Ok(Self::new(made, permit))
    }

    /// Puts `front` in the place of the first `until` bytes. False, and nothing changed, when there is no room, or when
    /// so much would go away that most of the buffer would be kept for nothing.
    pub(crate) fn replace_front(&mut self, until: usize, front: &[u8]) -> bool {
        let (end, most) = (self.start + until, self.bytes.len() / 8);
        let start = end.checked_sub(front.len()).filter(|start| end <= self.bytes.len() && *start <= most);
        let Some(start) = start else { return false };
        self.bytes[start..end].copy_from_slice(front);
        self.start = start;
        true
    }

    /// From now on it cannot be changed, and anybody may share it.
    pub(crate) fn into_bytes(self) -> Bytes {
        budget::charge_from(self.bytes, self.start, self.permit)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Body {
    /// See [`Buffer::replace_front`].
    pub(crate) fn replace_front(&mut self, until: usize, front: &[u8]) -> bool {
        match self {
            Self::Own(buffer) => buffer.replace_front(until, front),
            Self::Shared(_) => false,
        }
    }

    /// Bytes that stay as they are now: a copy where it can be changed, which `budget` pays for. `None` without room.
    pub(crate) fn share(&self, budget: &Budget) -> Option<Bytes> {
        match self {
            Self::Own(buffer) => budget.try_take(buffer.len()).map(|permit| budget::charge(buffer.to_vec(), permit)),
            Self::Shared(bytes) => Some(bytes.clone()),
        }
    }

    /// See [`Buffer::into_bytes`].
    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Own(buffer) => buffer.into_bytes(),
            Self::Shared(bytes) => bytes,
        }
    }
}

impl From<Buffer> for Body {
    fn from(buffer: Buffer) -> Self {
        Self::Own(buffer)
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(buffer) => buffer,
            Self::Shared(bytes) => bytes,
        }
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
        let mut buffer = Buffer { bytes: vec![0; start], start, permit };
        buffer.bytes.resize(start + LARGE, 7);
        let rest = buffer[3..].as_ptr();
        assert!(buffer.replace_front(3, b"longer"));
        assert_eq!((&buffer[..7], buffer.len(), buffer[6..].as_ptr()), (&b"longer\x07"[..], LARGE + 3, rest));
        assert!(buffer.replace_front(6, b"s"));
        assert!(!buffer.replace_front(1, &[1; FRONT + 10]), "there is not that much room");
        assert!(!buffer.replace_front(LARGE / 4, b""), "there is too much of it");
        let shared = buffer.into_bytes();
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
        assert!(!Buffer::new(vec![1, 2], permit).replace_front(1, &[1, 2]));
    }
}
