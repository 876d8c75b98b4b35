//! Walks over a segment's frames by their heads: it skips payloads, and finds the way again behind damage.
//!
//! Nothing stops it. What is no frame becomes a [`Gap`] up to the next frame, and every step moves on. It does not know
//! what entries mean or who has completed them.

use std::io;

use crate::format::{FILE_HEAD, FRAME_HEAD, FrameHead, Kind, Seal, owed_numbers, starts_frame};
use crate::fs::{File, read_full};
use crate::model::{Entry, Position};

/// Read at first and after a hop over a payload.
const SMALL: usize = 4 << 10;
/// Read at once when frames are small: the window doubles up to this.
const LARGE: usize = 256 << 10;
/// A disk that fails this often in a row is not asked for the rest of the file.
const MAX_FAILURES: u32 = 16;

/// What a step meets.
#[derive(Debug)]
pub(crate) enum Step {
    /// An entry; [`Walk::owed`] has its queues.
    Entry(Found),
    /// The name of a queue.
    Queue { number: u16, name: String },
    /// No frames.
    Gap(Gap),
}

/// An entry's head and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) head: FrameHead,
    pub(crate) offset: u64,
}

impl Found {
    pub(crate) fn payload_offset(&self) -> u64 {
        self.offset + self.head.payload_at()
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.head.frame_bytes()
    }

    /// Items of the segment up to this entry.
    pub(crate) fn items_behind(&self) -> u64 {
        self.head.items_before.saturating_add(u64::from(self.head.items))
    }

    /// The entry, of segment `segment`; none if its place cannot be expressed.
    pub(crate) fn entry(&self, segment: u64) -> Option<Entry> {
        let offset = u32::try_from(self.offset).ok()?;
        let FrameHead { payload_bytes, index, items, written_ms, .. } = self.head;
        Some(Entry { position: Position { segment, index, offset }, payload_bytes, items, written_ms })
    }
}

/// A stretch without frames.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Entries and items that were in it; none at the end, where no frame follows to tell.
    pub(crate) lost: Option<(u32, u64)>,
    /// Behind its last byte that is not 0: `from` when all are 0.
    pub(crate) content_end: u64,
    /// Some of it could not be read at all.
    pub(crate) unreadable: Option<io::Error>,
}

/// Where to begin and what to expect there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) index: u32,
    /// Items of all entries before; none where it is not known.
    pub(crate) items: Option<u64>,
}

impl Place {
    /// Where the first frame of a segment is.
    pub(crate) const START: Self = Self { offset: FILE_HEAD as u64, index: 0, items: Some(0) };
}

/// A walk.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    file: &'a dyn File,
    seal: Seal,
    place: Place,
    end: u64,
    window: Window,
    owed: Vec<u16>,
    durable_end: u64,
    unreadable: Option<io::Error>,
}

impl<'a> Walk<'a> {
    /// A walk from `place` to `end`.
    pub(crate) fn new(file: &'a dyn File, seal: Seal, place: Place, end: u64) -> Self {
        let window = Window { reach: SMALL, ..Window::default() };
        Self { file, seal, place, end, window, owed: Vec::new(), durable_end: 0, unreadable: None }
    }

    /// Where it is, and which entry it expects next.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The queues that are owed the entry of the last step, by number.
    pub(crate) fn owed(&self) -> &[u16] {
        &self.owed
    }

    /// How far the segment was once durable. Any head that was met says this, whatever became of the rest of its frame.
    pub(crate) fn durable_end(&self) -> u64 {
        self.durable_end
    }

    /// The next step; none at the end.
    pub(crate) fn step(&mut self) -> Option<Step> {
        if self.place.offset >= self.end {
            return None;
        }
        let head = self.frame(self.place.offset);
        let expected = |head: &FrameHead| {
            head.index == self.place.index && self.place.items.is_none_or(|items| items == head.items_before)
        };
        Some(match head.filter(expected) {
            Some(head) => self.accept(head),
            None => Step::Gap(self.search()),
        })
    }

    /// Whether the entry's payload is what was written.
    pub(crate) fn is_sound(&mut self, found: &Found) -> io::Result<bool> {
        let (mut at, mut left) = (found.payload_offset(), found.head.payload_bytes as usize);
        let mut sum = self.seal.sum(&[]);
        while left > 0 {
            let part = self.window.get(self.file, at, left.min(LARGE), self.end)?;
            if part.is_empty() {
                return Ok(false);
            }
            sum = crc32c::crc32c_append(sum, part);
            at += part.len() as u64;
            left -= part.len();
        }
        Ok(sum == found.head.payload_sum)
    }

    /// The head of a frame at `offset`, if there is a plausible one.
    fn frame(&mut self, offset: u64) -> Option<FrameHead> {
        let seal = self.seal;
        let head = FrameHead::decode(self.view(offset, FRAME_HEAD)?, seal)?;
        self.durable_end = self.durable_end.max(u64::from(head.durable_end));
        let fits = offset + head.frame_bytes() <= self.end;
        // Each entry takes at least its head, so a greater index cannot be.
        let possible = u64::from(head.index) <= offset / FRAME_HEAD as u64;
        let later = head.index >= self.place.index && self.place.items.is_none_or(|items| head.items_before >= items);
        (fits && possible && later).then_some(head)
    }

    fn view(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        match self.window.get(self.file, offset, length, self.end) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.unreadable = Some(error);
                None
            }
        }
    }

    fn accept(&mut self, head: FrameHead) -> Step {
        let offset = self.place.offset;
        let step = match head.kind {
            Kind::Queue(number) => self.queue_name(&head).map(|name| Step::Queue { number, name }),
            Kind::Entry(owed) => self.read_owed(&head, owed).then_some(Step::Entry(Found { head, offset })),
        };
        let (entries, items) = match head.kind {
            Kind::Queue(_) => (0, 0),
            Kind::Entry(_) => (1, u64::from(head.items)),
        };
        let next = offset + head.frame_bytes();
        self.place =
            Place { offset: next, index: head.index + entries, items: Some(head.items_before.saturating_add(items)) };
        step.unwrap_or_else(|| {
            let unreadable = self.unreadable.take();
            Step::Gap(Gap { from: offset, to: next, lost: Some((entries, items)), content_end: next, unreadable })
        })
    }

    fn queue_name(&mut self, head: &FrameHead) -> Option<String> {
        let seal = self.seal;
        let name = self.view(self.place.offset + head.payload_at(), head.payload_bytes as usize)?;
        (seal.sum(name) == head.payload_sum).then(|| String::from_utf8_lossy(name).into_owned())
    }

    fn read_owed(&mut self, head: &FrameHead, owed: u16) -> bool {
        let mut numbers = std::mem::take(&mut self.owed);
        numbers.clear();
        let seal = self.seal;
        let list = self.view(self.place.offset + FRAME_HEAD as u64, usize::from(owed) * 2);
        let sound = list.is_some_and(|list| {
            numbers.extend(owed_numbers(list));
            seal.sum(list) == head.owed_sum
        });
        self.owed = numbers;
        sound
    }

    /// Goes on to the next frame, or to the end.
    fn search(&mut self) -> Gap {
        let from = self.place.offset;
        let mut gap = Gap { from, content_end: from, unreadable: self.unreadable.take(), ..Gap::default() };
        let (mut at, mut failures) = (from, 0);
        while at < self.end && failures < MAX_FAILURES {
            match self.search_window(&mut at, &mut gap.content_end) {
                Ok(None) => failures = 0,
                Ok(Some(head)) => {
                    gap.lost = Some((head.index - self.place.index, self.items_lost(&head)));
                    gap.to = at;
                    gap.content_end = gap.content_end.max(at);
                    self.place = Place { offset: at, index: head.index, items: Some(head.items_before) };
                    return gap;
                }
                Err(error) => {
                    gap.unreadable = Some(error);
                    failures += 1;
                    // On to the next block of the disk.
                    at = (at + 1).next_multiple_of(SMALL as u64).min(self.end);
                    gap.content_end = at;
                }
            }
        }
        gap.to = self.end;
        self.place.offset = self.end;
        gap
    }

    fn items_lost(&self, next: &FrameHead) -> u64 {
        self.place.items.map_or(0, |items| next.items_before - items)
    }

    /// Looks for a frame in one window's worth of bytes from `at` on, which moves to the frame or behind the window.
    fn search_window(&mut self, at: &mut u64, content_end: &mut u64) -> io::Result<Option<FrameHead>> {
        let bytes = self.window.ahead(self.file, *at, self.end)?;
        let mut candidate = None;
        for (number, word) in bytes.chunks(8).enumerate() {
            if word.iter().all(|byte| *byte == 0) {
                continue;
            }
            if starts_frame(word) {
                candidate = Some(number * 8);
                break;
            }
            *content_end = *at + (number * 8 + word.len()) as u64;
        }
        let Some(skipped) = candidate else {
            *at = if bytes.is_empty() { self.end } else { *at + bytes.len() as u64 };
            return Ok(None);
        };
        *at += skipped as u64;
        let head = self.frame(*at);
        if let Some(error) = self.unreadable.take() {
            return Err(error);
        }
        if head.is_none() {
            *at += 8;
            *content_end = *at;
        }
        Ok(head)
    }
}

/// A part of the file in memory.
#[derive(Debug, Default)]
pub(crate) struct Window {
    bytes: Vec<u8>,
    at: u64,
    filled: usize,
    reach: usize,
}

impl Window {
    /// `length` bytes from `offset` on; fewer where the file, or the part of it up to `end`, ends.
    pub(crate) fn get(&mut self, file: &dyn File, offset: u64, length: usize, end: u64) -> io::Result<&[u8]> {
        let length = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(length);
        if self.cached(offset) < length {
            self.load(file, offset, length, end)?;
        }
        let available = self.cached(offset).min(length);
        if available == 0 {
            return Ok(&[]);
        }
        let from = usize::try_from(offset - self.at).unwrap_or(0);
        Ok(&self.bytes[from..from + available])
    }

    /// As many bytes from `offset` on as are at hand, in whole words but for the end.
    fn ahead(&mut self, file: &dyn File, offset: u64, end: u64) -> io::Result<&[u8]> {
        let words = self.cached(offset) & !7;
        self.get(file, offset, if words > 0 { words } else { SMALL }, end)
    }

    /// How many bytes from `offset` on are in memory.
    fn cached(&self, offset: u64) -> usize {
        let past = offset.checked_sub(self.at).and_then(|past| usize::try_from(past).ok());
        past.map_or(0, |past| self.filled.saturating_sub(past))
    }

    fn load(&mut self, file: &dyn File, offset: u64, length: usize, end: u64) -> io::Result<()> {
        let goes_on = offset >= self.at && offset <= self.at + self.filled as u64;
        self.reach = if goes_on { (self.reach * 2).min(LARGE) } else { SMALL };
        let room = usize::try_from(end - offset).unwrap_or(usize::MAX);
        let least = length.max(SMALL).min(room);
        let wish = least.max(self.reach.min(room));
        if self.bytes.len() < wish {
            self.bytes.resize(wish, 0);
        }
        (self.at, self.filled) = (offset, 0);
        self.filled = match read_full(file, &mut self.bytes[..wish], offset) {
            // What is asked for may be readable, and only something farther on not.
            Err(_) if wish > least => {
                self.reach = SMALL;
                read_full(file, &mut self.bytes[..least], offset)?
            }
            read => read?,
        };
        Ok(())
    }
}

/// Whether this can be the beginning of a segment in which nothing was ever acknowledged: no bytes behind the head.
pub(crate) fn is_blank(file: &dyn File, length: u64) -> io::Result<bool> {
    let (mut window, mut at) = (Window { reach: LARGE, ..Window::default() }, FILE_HEAD as u64);
    while at < length {
        let bytes = window.ahead(file, at, length)?;
        if bytes.is_empty() {
            break;
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += bytes.len() as u64;
    }
    Ok(true)
}
