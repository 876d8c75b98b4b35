//! The files of a container, in the order in which they were written.
//!
//! Each listing of the directory is matched with the chain ([`Chain::reconcile`]): files keep their numbers when they
//! are renamed or compressed, new ones get higher numbers, and vanished files stay until their reader has all of them,
//! or cannot get the rest. The chain opens and reads nothing itself.
//!
//! What the reader must do:
//! - open a file when it is new (and compare its id), give its head ([`Chain::set_head`]), again before each look while
//!   that is short, and keep it open until it is finished;
//! - compare `head` when it opens a known file, and `guard` before it reads on, and call [`Chain::overwritten`] when
//!   they do not match, or when the file is shorter than the part that was read;
//! - report how far it has read ([`Chain::reach`]), what is safe ([`Chain::commit`]), and the end of a file that is
//!   final ([`Chain::finish`]) before it reads the next;
//! - commit nothing between taking a listing and giving it to `reconcile`, and list again when the directory changed
//!   while it was listed.

mod reconcile;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::identity::{FileId, Print};
use super::join::{Position, Spot};
use super::path::{LogName, RotationTime};

/// A runtime may write to a file for so long after the next one exists.
pub(crate) const GRACE_MS: u64 = 1_000;

/// A vanished file is remembered for so long: a listing may miss a file that is renamed meanwhile.
pub(crate) const MISSED_MS: u64 = 10_000;

/// A file that a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) name: LogName,
    pub(crate) id: FileId,
    /// Its size on the disk.
    pub(crate) size: u64,
}

/// A file, or a part of one, at its place in the order of writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) number: u64,
    pub(crate) name: LogName,
    pub(crate) id: FileId,
    /// Of the beginning of the file.
    pub(crate) head: Print,
    /// The link begins at this offset of its file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) begin: u64,
    /// The link ends at this offset; `None` while it may grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<u64>,
    /// The bytes that it was seen to have, uncompressed.
    pub(crate) size: u64,
    /// Whether nothing was written after `size` was seen.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_size_final: bool,
    #[serde(skip)]
    pub(crate) state: State,
    /// Since when no runtime should write to it any more. An earlier process may have seen that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled_ms: Option<u64>,
    /// Whether the file was known by this process, or its content compared since.
    #[serde(skip)]
    is_verified: bool,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// Where the content of a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// In the file of its name, compressed or not.
    #[default]
    Present,
    /// In no file that has a name, but where it is open.
    Gone { since_ms: u64 },
    /// Nowhere: its file was cut off and has other content now.
    Overwritten,
}

/// What a look changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// To be opened at once.
    New {
        number: u64,
    },
    Renamed {
        number: u64,
    },
    /// Its content is in a compressed file now. One that is open has it, too.
    Compressed {
        number: u64,
    },
    /// It has no name any more.
    Gone {
        number: u64,
    },
    /// It was only missed.
    Returned {
        number: u64,
    },
    /// Its content was replaced.
    Overwritten {
        number: u64,
    },
    /// Nothing of it was read, and it now comes after files that were found late.
    Moved {
        from: u64,
        to: u64,
    },
    /// From `at` on, what was in link `number` is in link `rest`: more was written after its end, or files were found
    /// late that come between.
    Split {
        number: u64,
        at: u64,
        rest: u64,
    },
}

/// What must be compared before a file counts as a known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check<'a> {
    /// The file; if compressed, its content is meant.
    pub(crate) seen: &'a Seen,
    /// The link that it would be.
    pub(crate) number: u64,
    pub(crate) head: Print,
    /// An offset, and the print of what is before it.
    pub(crate) guard: Option<(u64, Print)>,
}

/// What a comparison showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Same,
    Other,
    /// It cannot be read now, or it is not there any more.
    Unreadable,
}

/// Output that cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) bytes: u64,
    /// If false, more may have been lost.
    pub(crate) is_exact: bool,
}

/// The files of one container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    /// In the order of their numbers.
    links: Vec<Link>,
    /// What is safe.
    position: Position,
    /// Of what is before `position.done`.
    guard: Print,
    /// The furthest place that was read; it may not be safe yet.
    reached: Spot,
    /// The number of the next link.
    next: u64,
    /// When the last look was.
    looked_ms: u64,
}

impl Chain {
    /// The chain of a checkpoint. Nothing in it is trusted before `reconcile` has compared it with the files.
    pub(crate) fn restore(mut links: Vec<Link>, position: Position, guard: Print) -> Self {
        links.sort_by_key(|link| link.number);
        links.dedup_by_key(|link| link.number);
        for link in &mut links {
            (link.state, link.is_verified) = (State::Present, false);
        }
        let last = links.last().map_or(0, |link| link.number).max(position.done.file);
        Self { links, position, guard, reached: position.done, next: last.saturating_add(1), looked_ms: 0 }
    }

    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    pub(crate) fn position(&self) -> Position {
        self.position
    }

    pub(crate) fn guard(&self) -> Print {
        self.guard
    }

    pub(crate) fn link(&self, number: u64) -> Option<&Link> {
        let index = self.index(number);
        self.links.get(index).filter(|link| link.number == number)
    }

    /// The numbers of the files that were not rotated when they were last seen.
    pub(crate) fn live(&self) -> Vec<u64> {
        self.links.iter().filter(|link| link.name.rotated.is_none()).map(|link| link.number).collect()
    }

    /// The link and the offset of what is at `spot`, or of what comes next.
    pub(crate) fn at(&self, spot: Spot) -> Option<(&Link, u64)> {
        let link = self.links.get(self.index(spot.file))?;
        let offset = if link.number == spot.file { spot.offset.max(link.begin) } else { link.begin };
        Some((link, offset))
    }

    /// Whether nothing will be written to a link any more, so that its end is the end of its last line. Time alone is
    /// not enough: a later look must have shown the same.
    pub(crate) fn is_final(&self, number: u64) -> bool {
        self.link(number).is_some_and(|link| link.end.is_some() || link.is_settled(self.looked_ms))
    }

    /// How many links were settled at the last look.
    pub(crate) fn settled(&self) -> usize {
        self.links.iter().filter(|link| link.settled_ms.is_some()).count()
    }

    /// Remembers what a file begins with. One that grew since has a longer print.
    pub(crate) fn set_head(&mut self, number: u64, head: Print) {
        if let Some(link) = self.link_mut(number).filter(|link| link.head.length <= head.length) {
            link.head = head;
        }
    }

    /// Everything before `spot`, the begin of a line, was read.
    pub(crate) fn reach(&mut self, spot: Spot) {
        self.reached = self.reached.max(spot);
    }

    /// Everything up to a position is safe; `guard` is of what is before `position.done`.
    pub(crate) fn commit(&mut self, position: Position, guard: Print) {
        self.position = position;
        self.guard = guard;
        self.reach(position.done);
        if let Some(link) = self.link_mut(position.done.file) {
            link.size = link.size.max(position.done.offset);
        }
    }

    /// A file has this size now.
    pub(crate) fn grew(&mut self, number: u64, size: u64) {
        if let Some(link) = self.link_mut(number).filter(|link| link.end.is_none()) {
            link.size = link.size.max(size);
        }
    }

    /// A file was read to its end, `end`, after it became final.
    pub(crate) fn finish(&mut self, number: u64, end: u64) {
        if let Some(link) = self.link_mut(number).filter(|link| link.end.is_none()) {
            link.size = link.size.max(end);
            link.end = Some(end);
        }
    }

    /// A link cannot be read any further than what is safe. `size` is what its file had at last, where that is known.
    pub(crate) fn lost(&mut self, number: u64, size: Option<u64>) -> Loss {
        let Position { done, open } = self.position;
        let index = self.index(number);
        let Some(link) = self.links.get_mut(index).filter(|link| link.number == number) else {
            return Loss { bytes: 0, is_exact: true };
        };
        let end = link.end.unwrap_or(size.unwrap_or(link.size).max(link.size));
        let is_exact = link.id != FileId::default() && (link.end.is_some() || size.is_some() || link.is_size_final);
        // Parts of lines that are not complete cannot be read again. Others between them may have been read.
        let is_here = |spot: &Spot| spot.file == number;
        let first = open.into_iter().flatten().filter(is_here).min();
        self.position.open = open.map(|spot| spot.filter(|spot| !is_here(spot)));
        if done.file > number {
            let bytes = first.map_or(0, |spot| end.saturating_sub(spot.offset));
            return Loss { bytes, is_exact: bytes == 0 };
        }
        let from = if done.file == number { done.offset.max(link.begin) } else { link.begin };
        link.end = Some(from);
        let lost_from = first.map_or(from, |spot| spot.offset.min(from));
        Loss { bytes: end.saturating_sub(lost_from), is_exact: is_exact && lost_from == from }
    }

    /// The content of a link's file was replaced: the new content gets a link of its own.
    pub(crate) fn overwritten(&mut self, number: u64, size: u64) -> Vec<Event> {
        let next = self.next;
        let Some(link) = self.link_mut(number).filter(|link| link.state != State::Overwritten) else {
            return Vec::new();
        };
        let seen = Seen { name: link.name, id: link.id, size };
        link.overwrite();
        self.links.push(Link::new(next, &seen));
        self.next = next.saturating_add(1);
        vec![Event::Overwritten { number }, Event::New { number: next }]
    }

    /// Bytes of a link that were seen and are not safe.
    pub(crate) fn unread(&self, number: u64) -> u64 {
        let done = self.position.done;
        let Some(link) = self.link(number).filter(|_| number >= done.file) else { return 0 };
        let from = if number == done.file { done.offset.max(link.begin) } else { link.begin };
        link.end.unwrap_or(link.size).saturating_sub(from)
    }

    /// Whether all of a link that has an end is safe.
    pub(crate) fn is_read(&self, link: &Link) -> bool {
        let first = self.earliest();
        link.end.is_some_and(|end| first.file > link.number || first.file == link.number && first.offset >= end)
    }

    /// Where reading begins: before the first line that is not safe, or not complete.
    pub(crate) fn earliest(&self) -> Spot {
        self.position.start()
    }

    /// The index of the first link that has this number or a higher one.
    fn index(&self, number: u64) -> usize {
        self.links.partition_point(|link| link.number < number)
    }

    fn link_mut(&mut self, number: u64) -> Option<&mut Link> {
        let index = self.index(number);
        self.links.get_mut(index).filter(|link| link.number == number)
    }
}

impl Link {
    fn new(number: u64, seen: &Seen) -> Self {
        Self {
            number,
            name: seen.name,
            id: seen.id,
            head: Print::default(),
            begin: 0,
            end: None,
            size: if seen.name.is_compressed { 0 } else { seen.size },
            is_size_final: false,
            state: State::Present,
            settled_ms: None,
            is_verified: true,
        }
    }

    fn is_settled(&self, now_ms: u64) -> bool {
        self.settled_ms.is_some_and(|since| now_ms.saturating_sub(since) >= GRACE_MS)
    }

    /// The file has other content now: it must not be found by its id again, also after a restart.
    fn overwrite(&mut self) {
        self.state = State::Overwritten;
        self.id = FileId::default();
    }
}
