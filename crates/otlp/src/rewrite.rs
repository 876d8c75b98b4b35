//! Writes a request again in one pass, in the order of its bytes. Changes are written, everything else is copied, and
//! the lengths of the messages around a change are adjusted. Nothing is kept for a change.
//!
//! Changes that are not known in order are for [`crate::splice`].

use std::ops::Range;

use crate::build::Encoder;
use crate::common::Message;
use crate::room::{NoRoom, Room};

/// More than lengths take that become longer.
const LENGTHS: usize = 512;

/// A request on its way to another one.
#[derive(Debug)]
pub struct Rewriter<'a> {
    request: &'a [u8],
    out: Encoder,
    /// Up to here the request is written or replaced.
    done: usize,
}

/// By how many bytes a field grew; `None` when nothing is left in it and it is to be removed.
pub type Grown = Option<isize>;

/// Whoever goes through a request, message by message, and writes some of them again.
pub trait Pass<'a, 'room> {
    /// What is written, and what pays for it.
    fn output(&mut self) -> (&mut Rewriter<'a>, &mut Room<'room>);

    /// Works on the messages in a field of another one, and removes those of which nothing is left.
    ///
    /// # Errors
    /// When there is no room for what is written.
    fn inside(
        &mut self,
        holder: Message<'a>,
        number: u32,
        mut each: impl FnMut(&mut Self, Message<'a>) -> Result<Grown, NoRoom>,
    ) -> Result<Grown, NoRoom> {
        let (mut all, mut left, mut grown) = (0, 0, 0);
        for message in holder.messages(number) {
            let mark = self.output().0.mark();
            all += 1;
            if let Some(inside) = each(self, message)? {
                left += 1;
                grown += inside;
                continue;
            }
            let (rewriter, room) = self.output();
            rewriter.back_to(mark);
            let field = message.field_range();
            rewriter.reserve(rewriter.gap_before(field.start), room)?;
            grown -= field.len().cast_signed();
            rewriter.replace(field);
        }
        Ok((all == 0 || left > 0).then(|| self.output().0.leave(holder, grown)))
    }
}

/// How far a [`Rewriter`] was.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    written: usize,
    done: usize,
}

impl<'a> Rewriter<'a> {
    /// Begins with a request of which nothing is changed yet.
    pub fn new(request: &'a [u8]) -> Self {
        Self { request, out: Encoder::default(), done: 0 }
    }

    /// How far it is.
    pub fn mark(&self) -> Mark {
        Mark { written: self.out.len(), done: self.done }
    }

    /// Takes back every change since.
    pub fn back_to(&mut self, mark: Mark) {
        self.out.truncate(mark.written);
        self.done = mark.done;
    }

    /// Bytes from the last change to `start`.
    pub fn gap_before(&self, start: usize) -> usize {
        start.saturating_sub(self.done)
    }

    /// Makes place for so many bytes more.
    ///
    /// # Errors
    /// When there is no room for them.
    pub fn reserve(&mut self, bytes: usize, room: &mut Room<'_>) -> Result<(), NoRoom> {
        let needed = self.out.len() + bytes + LENGTHS;
        if needed > self.out.capacity() {
            // Hardly any request becomes more than this much longer.
            let expected = self.request.len() + self.request.len() / 8 + LENGTHS;
            let capacity = needed.max(expected).max(self.out.capacity() / 2 * 3);
            // What has to grow is there twice for a moment.
            room.take(capacity)?;
            self.out.reserve_exact(capacity - self.out.len());
        }
        Ok(())
    }

    /// Writes more of what takes the place of the fields that were [replaced](Self::replace) last.
    pub fn out(&mut self) -> &mut Encoder {
        &mut self.out
    }

    /// Replaces whole fields, which come after everything that was changed so far, with what is written to the encoder.
    pub fn replace(&mut self, fields: Range<usize>) -> &mut Encoder {
        self.out.raw(&self.request[self.done.min(fields.start)..fields.start]);
        self.done = fields.end;
        &mut self.out
    }

    /// Leaves a message in which something may have changed; its body grew by so many bytes. Returns by how many bytes
    /// the field that holds it grew.
    pub fn leave(&mut self, message: Message<'_>, grown: isize) -> isize {
        let (body, field) = (message.range(), message.field_range());
        if grown == 0 || field.start == body.start {
            return grown;
        }
        let key = self.request[field.start..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
        let width = body.start - field.start - key;
        let length = body.len().saturating_add_signed(grown) as u64;
        // Everything from its first byte on is written, as far as it is done.
        let written = (self.done - body.start).saturating_add_signed(grown);
        grown + self.out.set_length(self.out.len() - written - width, width, length)
    }

    /// Whether anything changed.
    pub fn is_changed(&self) -> bool {
        self.done > 0
    }

    /// The request with all changes.
    ///
    /// # Errors
    /// When there is no room for what is left to copy.
    pub fn finish(mut self, room: &mut Room<'_>) -> Result<Vec<u8>, NoRoom> {
        self.reserve(self.request.len() - self.done, room)?;
        self.out.raw(&self.request[self.done..]);
        Ok(self.out.into_bytes())
    }
}
