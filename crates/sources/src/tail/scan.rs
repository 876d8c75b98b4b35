//! Finds the lines in bytes of a file.
//!
//! The lines depend only on the bytes of the file, and not on how they were cut into chunks: reading again from the
//! beginning of any line or hole finds the same again. The byte before a place says whether a line begins there.

use memchr::memchr2;

#[cfg(test)]
mod tests;

/// So many NUL bytes in a row are a hole in the file, which a file system leaves when a crash took what was written. A
/// line ends at a hole. Fewer are text: programs do write some.
pub(crate) const HOLE: usize = 512;

static NULS: [u8; 4096] = [0; 4096];

/// Some bytes of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where they are in the file: at its beginning, or where [`Lines::offset`] stood.
    pub(crate) offset: u64,
    /// The byte before them; `None` at the beginning of the file.
    pub(crate) before: Option<u8>,
    /// The file ends with them, and nothing will be written to it any more.
    pub(crate) is_last: bool,
}

/// What is in a chunk, without a gap between one and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Text(Text<'a>),
    /// NUL bytes where a line would begin, or go on.
    Nuls {
        from: u64,
        to: u64,
    },
}

impl Found<'_> {
    /// Where it begins, and where the next thing does.
    pub(crate) fn range(&self) -> (u64, u64) {
        match *self {
            Self::Text(Text { from, to, .. }) | Self::Nuls { from, to } => (from, to),
        }
    }
}

/// A line, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub(crate) from: u64,
    /// Where the next one begins, behind the `\n` if there is one.
    pub(crate) to: u64,
    /// Without the `\n`.
    pub(crate) bytes: &'a [u8],
    /// It is not the rest of a longer line.
    pub(crate) starts_line: bool,
    pub(crate) end: End,
}

/// Why a text ends where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Newline,
    /// It is as long as a line may be, and the line goes on.
    Length,
    /// The file has a hole here.
    Hole,
    /// The file ends for ever.
    File,
}

/// Reads a chunk. What is behind the last `\n` stays for a later chunk, as long as it may still become a line.
#[derive(Debug, Clone)]
pub(crate) struct Lines<'a> {
    rest: Chunk<'a>,
    longest: usize,
}

impl<'a> Lines<'a> {
    /// Lines longer than `longest` bytes, with the `\n`, are cut. Chunks must not be smaller, unless the file is.
    pub(crate) fn new(chunk: Chunk<'a>, longest: usize) -> Self {
        Self { rest: chunk, longest: longest.max(1) }
    }

    /// The place behind the last line or hole that was found.
    pub(crate) fn offset(&self) -> u64 {
        self.rest.offset
    }

    /// The length of the text in front, and why it ends there; `None` when its end is not in the chunk.
    fn text(&self) -> Option<(usize, End)> {
        let window = &self.rest.bytes[..self.rest.bytes.len().min(self.longest)];
        let mut searched = 0;
        while let Some(found) = memchr2(b'\n', 0, &window[searched..]) {
            let at = searched + found;
            if window[at] == b'\n' {
                return Some((at, End::Newline));
            }
            let nuls = leading_nuls(&window[at..window.len().min(at + HOLE)]);
            if nuls == HOLE {
                return Some((at, End::Hole));
            }
            searched = at + nuls;
        }
        match window.len() == self.longest {
            true => Some((window.len(), End::Length)),
            false => self.rest.is_last.then_some((window.len(), End::File)),
        }
    }

    /// Goes on behind so many bytes.
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.bytes.split_at(bytes);
        self.rest.offset += bytes as u64;
        self.rest.before = passed.last().copied();
        self.rest.bytes = rest;
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        let Chunk { bytes, offset: from, before, .. } = self.rest;
        if bytes.is_empty() {
            return None;
        }
        if bytes[0] == 0 {
            self.advance(leading_nuls(bytes));
            return Some(Found::Nuls { from, to: self.offset() });
        }
        let (length, end) = self.text()?;
        self.advance(length + usize::from(end == End::Newline));
        let starts_line = matches!(before, None | Some(b'\n' | 0));
        Some(Found::Text(Text { from, to: self.offset(), bytes: &bytes[..length], starts_line, end }))
    }
}

/// How many NUL bytes there are in front. Compares whole pages, which is as fast as memory.
fn leading_nuls(bytes: &[u8]) -> usize {
    let pages = bytes.chunks(NULS.len()).take_while(|page| **page == NULS[..page.len()]).count();
    let whole = (pages * NULS.len()).min(bytes.len());
    whole + bytes[whole..].iter().take_while(|byte| **byte == 0).count()
}
