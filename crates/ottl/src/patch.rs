//! Changed bytes of a request, and the request put together with them.
//!
//! A walk leaves a message after everything in it, so it knows by how much the message grew: the new length is one
//! more patch, and no second walk is needed. What no patch covers is copied as it is, unknown fields and lengths in
//! more bytes than needed included.

use std::ops::Range;

use weir_otlp::build::{Encoder, varint_len};

/// A field of the request that holds a message: key, length and body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Offset of the key.
    pub(crate) key: usize,
    /// Offset of the body.
    pub(crate) start: usize,
    /// Offset of the first byte after the body.
    pub(crate) end: usize,
}

impl Place {
    /// The whole field.
    pub(crate) fn field(self) -> Range<usize> {
        self.key..self.end
    }
}

#[derive(Debug)]
struct Patch {
    /// Bytes of the request that go away.
    old: Range<usize>,
    /// Bytes of the arena that stand there instead.
    new: Range<usize>,
}

/// Where a change stands of which is not yet known where it is.
const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

/// Where the new length of a message goes in the list of changes.
#[derive(Debug)]
pub(crate) struct Mark(usize);

/// Changes to one request.
#[derive(Debug, Default)]
pub(crate) struct Patches {
    list: Vec<Patch>,
    arena: Encoder,
}

impl Patches {
    /// Room for changes to most items of a request of so many bytes, so that little has to be moved as they become more.
    pub(crate) fn with_room(request: usize) -> Self {
        Self { list: Vec::with_capacity(request / 128), arena: Encoder::with_capacity(request / 4) }
    }

    /// Replaces bytes of the request with what is written; returns by how much that is longer.
    pub(crate) fn replace(&mut self, old: Range<usize>, write: impl FnOnce(&mut Encoder)) -> isize {
        let start = self.arena.len();
        write(&mut self.arena);
        let new = start..self.arena.len();
        let grown = new.len().cast_signed() - old.len().cast_signed();
        if !(old.is_empty() && new.is_empty()) {
            self.list.push(Patch { old, new });
        }
        grown
    }

    /// Removes bytes of the request; returns by how much it is longer, which is less than 0.
    pub(crate) fn remove(&mut self, old: Range<usize>) -> isize {
        if let Some(last) = self.list.last_mut()
            && last.new.is_empty()
            && last.old.end == old.start
        {
            last.old.end = old.end;
            return -old.len().cast_signed();
        }
        self.replace(old, |_| {})
    }

    /// Makes room for the new length of a message about to be changed: changes that are made in order need no sorting.
    pub(crate) fn enter(&mut self) -> Mark {
        self.list.push(Patch { old: NOWHERE, new: 0..0 });
        Mark(self.list.len() - 1)
    }

    /// Writes the length of a message whose body grew since it was [entered](Self::enter); returns by how much the whole
    /// field grew.
    pub(crate) fn leave(&mut self, mark: Mark, request: &[u8], place: Place, grown: isize) -> isize {
        if grown != 0 {
            let (length, longer) = self.length(request, place, grown);
            self.list[mark.0] = length;
            return grown + longer;
        }
        if self.list.len() == mark.0 + 1 {
            self.forget(mark);
        } else {
            // As much came as went: the length stays.
            self.list[mark.0].old = place.start..place.start;
        }
        0
    }

    /// Forgets the changes to a message made since it was entered.
    pub(crate) fn forget(&mut self, mark: Mark) {
        self.list.truncate(mark.0);
    }

    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Writes the new length of a message whose body grew; returns by how much the whole field grew.
    pub(crate) fn resize(&mut self, request: &[u8], place: Place, grown: isize) -> isize {
        if grown == 0 {
            return 0;
        }
        let (length, longer) = self.length(request, place, grown);
        self.list.push(length);
        grown + longer
    }

    /// The new length of a message whose body grew, and by how much that is longer than the old one.
    fn length(&mut self, request: &[u8], place: Place, grown: isize) -> (Patch, isize) {
        let length = (place.end - place.start).saturating_add_signed(grown) as u64;
        let key_length = request[place.key..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
        let old = place.key + key_length..place.start;
        let start = self.arena.len();
        raw_varint(length, &mut self.arena);
        let new = start..self.arena.len();
        let longer = new.len().cast_signed() - old.len().cast_signed();
        (Patch { old, new }, longer)
    }

    /// The request with all changes.
    pub(crate) fn apply(self, request: &[u8]) -> Vec<u8> {
        self.apply_within(request, 0..request.len())
    }

    /// A part of the request with all changes, which lie in that part.
    pub(crate) fn apply_within(mut self, request: &[u8], part: Range<usize>) -> Vec<u8> {
        // Nearly all are in order already, those at one place always: the sort is stable.
        self.list.sort_by_key(|patch| (patch.old.start, patch.old.end));
        let arena = self.arena.into_bytes();
        let removed = self.list.iter().map(|patch| patch.old.len()).sum();
        let mut out = Vec::with_capacity((part.len() + arena.len()).saturating_sub(removed));
        let mut done = part.start;
        for Patch { old, new } in self.list {
            out.extend_from_slice(&request[done.min(old.start)..old.start]);
            out.extend_from_slice(&arena[new]);
            done = done.max(old.end);
        }
        out.extend_from_slice(&request[done..part.end]);
        out
    }
}

/// Writes a varint that belongs to no field.
pub(crate) fn raw_varint(mut value: u64, arena: &mut Encoder) {
    let mut bytes = [0; 10];
    let length = varint_len(value);
    for byte in &mut bytes[..length] {
        *byte = (value & 0x7f).to_le_bytes()[0] | 0x80;
        value >>= 7;
    }
    bytes[length - 1] &= 0x7f;
    arena.raw(&bytes[..length]);
}
