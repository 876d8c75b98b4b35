//! Changed bytes of a request, and the request put together with them.
//!
//! A walk leaves a message after everything in it, so it knows by how much the message grew. The new length is one more
//! patch, and no second walk is needed. Bytes that no patch covers are copied as they are, unknown fields and overlong
//! lengths included.

use std::ops::Range;

use weir_otlp::build::{Encoder, varint_len};
use weir_otlp::{NoRoom, Room};

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

/// The place of a change whose place is not known yet.
const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

/// Where the new length of a message goes in the list of changes.
#[derive(Debug)]
pub(crate) struct Mark(usize);

/// Changes to one request, or to a part of it.
#[derive(Debug, Default)]
pub(crate) struct Patches<'p> {
    list: Vec<Patch>,
    arena: Encoder,
    /// What their memory comes from. The patches of one item are small and need none.
    room: Option<Room<'p>>,
    /// There was not enough memory: some changes are missing.
    lacks_room: bool,
}

/// Room for new lengths in the arena, which the list pays for: as much for each change.
const LENGTH_BYTES: usize = 16;

/// For a request larger than this, the arena never has to grow. To grow would take twice its memory for a moment.
const LARGE: usize = 64 << 10;

impl<'p> Patches<'p> {
    /// Changes to a request that write hardly more than lengths.
    pub(crate) fn within(room: Room<'p>) -> Self {
        Self { room: Some(room), ..Self::default() }
    }

    /// Room for changes to most items of a request of so many bytes, so that little has to be moved as they become
    /// more, and for everything that is written for a request of at most `most` bytes.
    ///
    /// # Errors
    /// When there is not that much room.
    pub(crate) fn rewriting(request: usize, most: usize, mut room: Room<'p>) -> Result<Self, NoRoom> {
        let mut list = Vec::new();
        room.reserve(&mut list, request / 128)?;
        room.take(most)?;
        let is_large = (LARGE..=4 * request).contains(&most);
        let arena = Encoder::with_capacity(if is_large { most } else { request / 4 });
        Ok(Self { list, arena, room: Some(room), lacks_room: false })
    }

    /// Whether there is not enough memory for all changes.
    pub(crate) fn lack_room(&self) -> bool {
        self.lacks_room
    }

    fn push(&mut self, patch: Patch) {
        if let Some(room) = &mut self.room
            && self.list.len() == self.list.capacity()
        {
            let lengths = self.list.len().max(16) * LENGTH_BYTES;
            self.lacks_room |= room.take(lengths).and_then(|()| room.reserve(&mut self.list, 1)).is_err();
        }
        if !self.lacks_room {
            self.list.push(patch);
        }
    }

    /// Replaces bytes of the request with what is written. Returns by how much that is longer.
    pub(crate) fn replace(&mut self, old: Range<usize>, write: impl FnOnce(&mut Encoder)) -> isize {
        let start = self.arena.len();
        write(&mut self.arena);
        let new = start..self.arena.len();
        let grown = new.len().cast_signed() - old.len().cast_signed();
        if !(old.is_empty() && new.is_empty()) {
            self.push(Patch { old, new });
        }
        grown
    }

    /// Removes bytes of the request. Returns by how much it is longer, which is less than 0.
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

    /// Makes room for the new length of a message that is about to be changed. Changes that are made in order need no
    /// sorting.
    pub(crate) fn enter(&mut self) -> Mark {
        self.push(Patch { old: NOWHERE, new: 0..0 });
        Mark(self.list.len().saturating_sub(1))
    }

    /// Writes the length of a message whose body grew since it was [entered](Self::enter); returns by how much the
    /// whole field grew.
    pub(crate) fn leave(&mut self, mark: Mark, request: &[u8], place: Place, grown: isize) -> isize {
        if self.lacks_room {
            return 0;
        }
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

    /// Writes the new length of a message whose body grew; returns by how much the whole field grew.
    pub(crate) fn resize(&mut self, request: &[u8], place: Place, grown: isize) -> isize {
        if grown == 0 {
            return 0;
        }
        let (length, longer) = self.length(request, place, grown);
        self.push(length);
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

    /// The request with all changes; none when there are none.
    ///
    /// # Errors
    /// When there is not enough room for it, or was not for the changes.
    pub(crate) fn made(mut self, request: &[u8]) -> Result<Option<Vec<u8>>, NoRoom> {
        if self.lacks_room {
            return Err(NoRoom);
        }
        if self.list.is_empty() {
            return Ok(None);
        }
        let length = self.length_of(request.len());
        self.room.as_mut().map_or(Ok(()), |room| room.take(length))?;
        Ok(Some(self.apply_within(request, 0..request.len())))
    }

    /// Most bytes of so many with all changes.
    fn length_of(&self, part: usize) -> usize {
        let removed = self.list.iter().map(|patch| patch.old.len()).sum();
        (part + self.arena.len()).saturating_sub(removed)
    }

    /// A part of the request with all changes, which lie in that part.
    pub(crate) fn apply_within(mut self, request: &[u8], part: Range<usize>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.length_of(part.len()));
        // Nearly all are in order already. Those at one place stay in the order in which they were written.
        let order = |patch: &Patch| (patch.old.start, patch.old.end, patch.new.start);
        if !self.list.is_sorted_by_key(order) {
            self.list.sort_unstable_by_key(order);
        }
        let arena = self.arena.into_bytes();
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
