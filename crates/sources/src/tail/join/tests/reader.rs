//! Reads files in turns, as the tailer does, with all that may come between.

use super::super::*;
use crate::tail::line::Format;
use crate::tail::scan::{Chunk, End, Found, Lines};

/// The output of a container, file by file.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) files: Vec<Vec<u8>>,
    pub(super) longest: usize,
    pub(super) most: usize,
}

/// A turn of reading.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    /// Bytes that the container writes before it.
    pub(super) written: usize,
    /// Bytes of a chunk beyond the longest line.
    pub(super) chunk: usize,
    /// Finds after which it stops.
    pub(super) finds: usize,
    /// Entries after which no more are taken.
    pub(super) entries: usize,
    /// What it did is safe. Otherwise it never happened.
    pub(super) is_committed: bool,
}

impl Turn {
    /// Reads all that there is.
    const LAST: Self =
        Self { written: usize::MAX, chunk: 0, finds: usize::MAX, entries: usize::MAX, is_committed: true };
}

/// An entry that outlives its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) stream: Option<Stream>,
    pub(super) unix_nanos: u64,
    pub(super) text: Vec<u8>,
    pub(super) is_cut: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) entries: Vec<Owned>,
    /// Bytes of lines and holes when they were read for the first time.
    pub(super) bytes: u64,
}

struct Full;

/// Reads in these turns, and then the rest. Checks the position between the turns.
pub(super) fn read(output: &Output, turns: &[Turn]) -> Done {
    let (mut position, mut all, mut written) = (Position::default(), Done::default(), 0_usize);
    for turn in turns.iter().chain([&Turn::LAST]) {
        written = written.saturating_add(turn.written);
        let (done, next) = output.turn(position, written, turn);
        if !turn.is_committed {
            continue;
        }
        assert!(next.done >= position.done);
        assert!(output.before(next.done) - output.before(next.start()) <= output.most as u64, "{next:?}");
        all.entries.extend(done.entries);
        all.bytes += done.bytes;
        position = next;
    }
    assert_eq!(position.open, [None; 3]);
    all
}

impl Output {
    /// Bytes of all files before a place.
    fn before(&self, spot: Spot) -> u64 {
        let files = &self.files[..usize::try_from(spot.file).unwrap()];
        files.iter().map(|file| file.len() as u64).sum::<u64>() + spot.offset
    }

    fn total(&self) -> usize {
        self.files.iter().map(Vec::len).sum()
    }

    /// The files that exist when so many bytes are written, as far as they are written.
    fn visible(&self, mut written: usize) -> Vec<&[u8]> {
        let mut visible: Vec<&[u8]> = Vec::new();
        for file in &self.files {
            visible.push(&file[..written.min(file.len())]);
            if written <= file.len() {
                break;
            }
            written -= file.len();
        }
        visible
    }

    /// Reads a line, which ends before `to`.
    fn parse<'a>(&self, file: usize, line: &'a [u8], to: u64) -> Option<Line<'a>> {
        Format::told_in(&self.files[file][..usize::try_from(to).unwrap()])?.parse(line)
    }

    fn turn(&self, position: Position, written: usize, turn: &Turn) -> (Done, Position) {
        let mut joiner = Joiner::new(position, self.most as u64);
        let mut done = Done::default();
        let start = position.start();
        let read = self.read(&mut joiner, start, written, turn, &mut done);
        if read.is_ok() && turn.finds == usize::MAX && written >= self.total() {
            let _ = joiner.finish(&mut |entry| take(&mut done.entries, turn.entries, entry));
        }
        (done, joiner.position())
    }

    fn read(
        &self,
        joiner: &mut Joiner,
        mut place: Spot,
        written: usize,
        turn: &Turn,
        done: &mut Done,
    ) -> Result<(), Full> {
        let files = self.visible(written);
        let mut finds = 0;
        loop {
            let (file, offset) = (usize::try_from(place.file).unwrap(), usize::try_from(place.offset).unwrap());
            let is_complete = file + 1 < files.len() || written >= self.total();
            let end = files[file].len().min(offset + self.longest + turn.chunk);
            let chunk = Chunk {
                bytes: &files[file][offset..end],
                offset: place.offset,
                before: offset.checked_sub(1).map(|before| files[file][before]),
                is_last: is_complete && end == files[file].len(),
            };
            let mut lines = Lines::new(chunk, self.longest);
            while let Some(found) = (finds < turn.finds).then(|| lines.next()).flatten() {
                finds += 1;
                place.offset = self.find(joiner, file, found, turn, done)?;
            }
            let is_file_read = lines.offset() == files[file].len() as u64;
            match lines.offset() == offset as u64 {
                true if is_file_read && file + 1 < files.len() => place = Spot { file: place.file + 1, offset: 0 },
                true => return Ok(()),
                false => {}
            }
        }
    }

    fn find(
        &self,
        joiner: &mut Joiner,
        file: usize,
        found: Found<'_>,
        turn: &Turn,
        done: &mut Done,
    ) -> Result<u64, Full> {
        let emit = &mut |entry: Entry<'_>| take(&mut done.entries, turn.entries, entry);
        let spot = |offset| Spot { file: file as u64, offset };
        match found {
            Found::Nuls { from, to } => {
                done.bytes += joiner.skip(spot(from), spot(to), emit)?;
                Ok(to)
            }
            Found::Text(text) => {
                let parsed = text.starts_line.then(|| self.parse(file, text.bytes, text.to)).flatten();
                let mut line = parsed.unwrap_or_else(|| Line::of_text(text.bytes));
                line.is_cut = text.end != End::Newline;
                let is_new = joiner.line(spot(text.from), spot(text.to), line, emit)?;
                done.bytes += if is_new { text.to - text.from } else { 0 };
                Ok(text.to)
            }
        }
    }
}

fn take(entries: &mut Vec<Owned>, most: usize, entry: Entry<'_>) -> Result<(), Full> {
    if entries.len() >= most {
        return Err(Full);
    }
    let Entry { stream, unix_nanos, text, is_cut } = entry;
    entries.push(Owned { stream, unix_nanos, text: text.into_owned(), is_cut });
    Ok(())
}
