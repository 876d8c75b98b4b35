//! Memory for what is made of a request, asked for before it is taken.

use std::fmt;

/// How much is asked for at once, so that not every small thing has to ask.
const STEP: usize = 16 << 10;

/// Memory for what is made of a request, from whoever keeps account of it.
pub struct Room<'p> {
    pay: &'p mut dyn FnMut(usize) -> bool,
    /// Asked for, and not taken yet.
    ahead: usize,
}

/// There is not so much memory for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory for what is made of the request")]
pub struct NoRoom;

impl<'p> Room<'p> {
    /// Room that `pay` gives, so many bytes more each time; it says false when there are none.
    pub fn new(pay: &'p mut dyn FnMut(usize) -> bool) -> Self {
        Self { pay, ahead: 0 }
    }

    /// Takes room for so many bytes.
    ///
    /// # Errors
    /// When there is none.
    pub fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if bytes > self.ahead {
            let step = (bytes - self.ahead).max(STEP);
            if !(self.pay)(step) {
                return Err(NoRoom);
            }
            self.ahead += step;
        }
        self.ahead -= bytes;
        Ok(())
    }

    /// Makes place for so many more in a list. One that has to grow is there twice for a moment.
    ///
    /// # Errors
    /// When there is no room for them.
    pub fn reserve<T>(&mut self, list: &mut Vec<T>, more: usize) -> Result<(), NoRoom> {
        if list.capacity() - list.len() < more {
            let more = list.len().max(16).max(more);
            self.take((list.len() + more) * size_of::<T>())?;
            list.reserve_exact(more);
        }
        Ok(())
    }
}

impl fmt::Debug for Room<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}
