//! Text for pages, paid for while it is written.

use std::{fmt, io};

use bytes::Bytes;

use super::{Budget, Funds, Permit, charge};

/// A text that is paid for as it is written, from the first budget that has room for all of it. Writing fails when none
/// has room for more.
#[derive(Debug)]
pub struct Text {
    bytes: Vec<u8>,
    permit: Permit,
    /// Asked when the budget that pays has no room for more.
    last: Budget,
}

impl Text {
    /// An empty one; `None` when there is no room for even that.
    pub(crate) fn new(funds: &Funds) -> Option<Self> {
        let permit = funds.find(|budget| budget.try_take(0))?;
        let Funds([_, last]) = funds;
        Some(Self { bytes: Vec::new(), permit, last: last.clone() })
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        charge(self.bytes, self.permit)
    }

    /// Makes room for so many more bytes, as far as is known. False when there is no room, and then nothing changed.
    pub fn reserve(&mut self, more: usize) -> bool {
        let (before, length) = (self.bytes.capacity(), self.bytes.len() + more);
        if length > before {
            // Both exist while one is copied.
            if self.permit.grow(length) {
                self.bytes.reserve_exact(more);
                self.permit.give_back(before);
            } else {
                let Some(permit) = self.last.try_take(length) else { return false };
                self.bytes.reserve_exact(more);
                self.permit = permit;
            }
        }
        true
    }

    /// False when there is no room, and then nothing changed.
    fn push(&mut self, more: &[u8]) -> bool {
        let free = self.bytes.capacity() - self.bytes.len();
        // Twice as long as it was, so that it is not copied too often.
        let ahead = more.len().max(2 * self.bytes.capacity() - self.bytes.len()).max(1024);
        if more.len() > free && !self.reserve(ahead) {
            return false;
        }
        self.bytes.extend_from_slice(more);
        true
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.push(bytes) { Ok(bytes.len()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::OVERHEAD_BYTES;
    use super::*;

    #[test]
    fn a_text_is_paid_for_as_it_grows_and_ends_where_the_room_does() {
        use std::fmt::Write;
        let budget = Budget::new(20_000);
        let mut text = Text::new(&Funds([Budget::new(0), budget.clone()])).unwrap();
        let mut written = 0_usize;
        while text.write_str("0123456789").is_ok() {
            written += 10;
            assert!(budget.used() >= text.bytes.capacity() + OVERHEAD_BYTES);
        }
        assert!(written > 5_000, "{written}");
        let shared = text.into_bytes();
        assert!(shared.len() == written && budget.used() <= OVERHEAD_BYTES + written / 8 * 9, "{}", budget.used());
        drop(shared);
        assert_eq!(budget.used(), 0);
    }

    /// What was written stays as it is.
    #[test]
    fn a_text_without_room_goes_on_where_there_is_some() {
        use std::fmt::Write;
        let (first, last) = (Budget::new(10_000), Budget::new(50_000));
        let mut text = Text::new(&Funds([first.clone(), last.clone()])).unwrap();
        let (mut written, mut first_of_last) = (String::new(), None);
        while text.write_str("0123456789").is_ok() {
            written.push_str("0123456789");
            assert!(first.used() == 0 || last.used() == 0, "it is paid for once");
            if last.used() > 0 {
                first_of_last.get_or_insert(written.len());
            }
        }
        assert!(first_of_last.is_some_and(|at| at > 1_000) && written.len() > 10_000, "{first_of_last:?}");
        assert_eq!(text.into_bytes(), written);
        assert_eq!((first.used(), last.used()), (0, 0));
    }
}
