//! Takes a request apart into its items.

use bytes::Bytes;

use super::{Level, Part, is_child, part};
use crate::cursor::Fields;
use crate::signal::{Chain, Signal};

/// Every item of a valid request as a request of its own, with the context of each level around it.
///
/// Each is as large as its item and all of its context. Made all at once, they may take many times the memory of the
/// request; whoever makes them pays for one at a time.
pub fn single(signal: Signal, request: &Bytes) -> impl Iterator<Item = Part<'_>> {
    Single { request, chain: signal.chain(), at: 0, open: Vec::new() }
}

struct Single<'a> {
    request: &'a Bytes,
    chain: Chain,
    /// Where the next field begins.
    at: usize,
    /// The messages that it is in, outermost first.
    open: Vec<Level>,
}

impl<'a> Iterator for Single<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        loop {
            let deeper = &self.chain[self.open.len()..];
            let end = self.open.last().map_or(self.request.len(), |level| level.children.end);
            let child = Fields::starting_at(&self.request[..end], self.at).find(|field| is_child(field, deeper));
            let Some(child) = child else {
                self.at = self.open.pop()?.end;
                continue;
            };
            if deeper.len() == 1 {
                self.at = child.end;
                return Some(part(self.request, self.open.clone(), child.start..child.end, 1));
            }
            match Level::of(self.request, &child, &deeper[1..]) {
                Some(level) => {
                    self.at = level.children.start;
                    self.open.push(level);
                }
                None => self.at = child.end,
            }
        }
    }
}
