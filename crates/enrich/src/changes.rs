//! The changes to a request as they are gathered, held to the room that was given for them (ENRICH-4).

use std::ops::AddAssign;

use weir_otlp::common::Message;
use weir_otlp::splice::Edit;

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
/// this; one of very many resources with next to nothing in them is not.
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
    /// Whether there were items, and none is left. A message that came without any is no concern of ours.
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

    /// Adds an edit with `added` bytes of new fields.
    pub(crate) fn push(&mut self, edit: Edit<'a>, added: usize) -> Result<(), NoRoom> {
        let taken = size_of::<Edit<'_>>() + added;
        self.room = self.room.checked_sub(taken).ok_or(NoRoom { max_bytes: self.max_bytes })?;
        self.edits.push(edit);
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
