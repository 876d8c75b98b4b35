//! The changes to a request as they are gathered, held to the room that was given for them (ENRICH-4).

use std::ops::AddAssign;

use weir_otlp::common::Message;
use weir_otlp::splice::Edit;

/// A list of edits that is shorter may exist twice while it grows.
const SHORT: usize = 64;

/// What changes in a request.
#[derive(Debug)]
pub struct Changes<'a> {
    /// For [`weir_otlp::splice::splice`]; empty when nothing changes.
    pub edits: Vec<Edit<'a>>,
    /// Items (spans, log records, data points) that the edits remove as noise.
    pub noise: u32,
    /// Bytes that the edits may still take.
    room: usize,
    max_bytes: usize,
}

/// The edits of a request would take more memory than there is for them. A request of reasonable items is far from
/// this; one of very many nearly empty resources is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot enrich the request: the changes take more than {max_bytes} bytes")]
pub struct NoRoom {
    /// The room that there was.
    pub max_bytes: usize,
}

/// Items of a message after noise was removed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Left {
    pub(crate) kept: u32,
    pub(crate) gone: u32,
}

impl Left {
    /// Whether there were items and none is left. Messages that came without any do not concern us.
    pub(crate) fn is_emptied(self) -> bool {
        self.kept == 0 && self.gone > 0
    }
}

impl AddAssign for Left {
    fn add_assign(&mut self, other: Self) {
        self.kept += other.kept;
        self.gone += other.gone;
    }
}

impl<'a> Changes<'a> {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { edits: Vec::new(), noise: 0, room: max_bytes, max_bytes }
    }

    /// Bytes that the edits take. The request grows by no more than that.
    pub fn bytes(&self) -> usize {
        self.max_bytes - self.room
    }

    /// Fails when there is no room for so many bytes that are about to be made.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), NoRoom> {
        if bytes > self.room { Err(NoRoom { max_bytes: self.max_bytes }) } else { Ok(()) }
    }

    /// Adds an edit with `added` bytes of new fields.
    pub(crate) fn push(&mut self, edit: Edit<'a>, added: usize) -> Result<(), NoRoom> {
        self.make_place(added)?;
        self.edits.push(edit);
        Ok(())
    }

    /// Adds an edit of `message` before all edits inside it, which were added since there were `since` edits. Edits
    /// that are in order need no sorting, which would take memory.
    pub(crate) fn push_before(&mut self, since: usize, edit: Edit<'a>, added: usize) -> Result<(), NoRoom> {
        self.make_place(added)?;
        let place = since + self.edits[since..].partition_point(|other| other.start() <= edit.start());
        self.edits.insert(place, edit);
        Ok(())
    }

    /// Takes room for one more edit. A long list gets places for as many edits as there is room for, because a list
    /// that grows exists twice for a moment.
    fn make_place(&mut self, added: usize) -> Result<(), NoRoom> {
        let taken = size_of::<Edit<'_>>().saturating_add(added);
        let room = self.room.checked_sub(taken).ok_or(NoRoom { max_bytes: self.max_bytes })?;
        if self.edits.len() == self.edits.capacity() {
            let all = self.room / size_of::<Edit<'_>>();
            self.edits.reserve_exact(if self.edits.len() < SHORT { all.min(self.edits.len().max(4)) } else { all });
        }
        self.room = room;
        Ok(())
    }

    /// Gathers changes inside `message`. If they leave nothing of it, it is removed from its holder instead.
    pub(crate) fn inside(
        &mut self,
        holder: Message<'_>,
        message: Message<'_>,
        gather: impl FnOnce(&mut Self) -> Result<Left, NoRoom>,
    ) -> Result<Left, NoRoom> {
        let (edits, room) = (self.edits.len(), self.room);
        let left = gather(self)?;
        if left.is_emptied() {
            self.edits.truncate(edits);
            self.room = room;
            self.push(Edit::remove(holder, message), 0)?;
        }
        Ok(left)
    }
}
