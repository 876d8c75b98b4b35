//! Joins the parts of a container's line, stream by stream, and knows where reading may begin again.

use std::borrow::Cow;

use super::line::{Line, Stream};

#[cfg(test)]
mod tests;

/// A place in the output of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Spot {
    /// The number of the file in its chain. Later files have higher numbers.
    pub(crate) file: u64,
    /// Bytes from the beginning of the file.
    pub(crate) offset: u64,
}

/// How far a container's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// Every line before it was read.
    pub(crate) done: Spot,
    /// The first part of each incomplete entry: of stdout, of stderr, and of lines without a stream.
    pub(crate) open: [Option<Spot>; 3],
}

impl Position {
    /// Where reading begins again.
    pub(crate) fn start(&self) -> Spot {
        self.open.iter().flatten().fold(self.done, |start, open| start.min(*open))
    }
}

/// What a container wrote as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) stream: Option<Stream>,
    /// Of its first part.
    pub(crate) unix_nanos: u64,
    pub(crate) text: Cow<'a, [u8]>,
    /// Its end is missing: it was too long, or far apart, and then the rest is in the next entry of the stream, or the
    /// output ended before its end came.
    pub(crate) is_cut: bool,
}

/// Makes entries of lines. All lines from [`Position::start`] on pass through it, in order, and everything between
/// them.
///
/// Emitted entries are in the position at once. When an entry is refused, the position is before the line that was to
/// be read, but after the entries that were emitted for it before.
#[derive(Debug)]
pub(crate) struct Joiner {
    done: Spot,
    open: [Option<Open>; STREAMS.len()],
    /// Bytes of files that passed.
    passed: u64,
    most: u64,
}

/// An incomplete entry.
#[derive(Debug)]
struct Open {
    from: Spot,
    /// `None` before the first part was read again.
    parts: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    /// Bytes of files that had passed before the first part.
    passed: u64,
    unix_nanos: u64,
    text: Vec<u8>,
}

/// In the order of [`Position::open`].
pub(super) const STREAMS: [Option<Stream>; 3] = [Some(Stream::Stdout), Some(Stream::Stderr), None];

pub(super) fn index(stream: Option<Stream>) -> usize {
    match stream {
        Some(Stream::Stdout) => 0,
        Some(Stream::Stderr) => 1,
        None => 2,
    }
}

impl Joiner {
    /// From the beginning of the first part to the end of the last one there are never more than `most` bytes of files:
    /// what would be longer is cut between two parts. So no entry of several parts is larger, and
    /// [`Position::start`] is never farther behind [`Position::done`]. A turn that reads `most` bytes and the longest
    /// line gets on.
    pub(crate) fn new(position: Position, most: u64) -> Self {
        let open = position.open.map(|from| Some(Open { from: from?, parts: None }));
        Self { done: position.done, open, passed: 0, most }
    }

    /// Where reading stands after the lines so far.
    pub(crate) fn position(&self) -> Position {
        let [stdout, stderr, unknown] = &self.open;
        let open = [stdout, stderr, unknown].map(|open| Some(open.as_ref()?.from));
        Position { done: self.done, open }
    }

    /// Reads the line between two places of a file. Returns whether it is read for the first time, and so is to be
    /// counted.
    pub(crate) fn line<E>(
        &mut self,
        from: Spot,
        to: Spot,
        line: Line<'_>,
        emit: &mut impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let is_new = self.come_to(from, to, emit)?;
        let is_part = |open: &Open| from >= open.from;
        if is_new || self.open[index(line.stream)].as_ref().is_some_and(is_part) {
            self.take(from, to, line, emit)?;
        }
        self.pass(from, to);
        Ok(is_new)
    }

    /// Passes over bytes that are no line. Returns how many of them are passed for the first time.
    pub(crate) fn skip<E>(
        &mut self,
        from: Spot,
        to: Spot,
        emit: &mut impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let is_new = self.come_to(from, to, emit)?;
        let new = if is_new { bytes_between(from.max(self.done), to) } else { 0 };
        self.pass(from, to);
        Ok(new)
    }

    /// Emits what is still open, when the output has ended for ever.
    pub(crate) fn finish<E>(&mut self, emit: &mut impl FnMut(Entry<'_>) -> Result<(), E>) -> Result<(), E> {
        for index in self.oldest_first() {
            if let Some(Open { parts: Some(parts), .. }) = &self.open[index] {
                emit(parts.cut(STREAMS[index]))?;
            }
            self.open[index] = None;
        }
        Ok(())
    }

    /// The streams in the order in which what is open began, which is the order in which it becomes too long.
    fn oldest_first(&self) -> [usize; STREAMS.len()] {
        let mut indexes = [0, 1, 2];
        indexes.sort_by_key(|&index| self.open[index].as_ref().map(|open| open.from));
        indexes
    }

    /// Before what is between two places: emits what becomes too long with it. Returns whether it is new.
    fn come_to<E>(
        &mut self,
        from: Spot,
        to: Spot,
        emit: &mut impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let is_new = to > self.done;
        if self.open.iter().all(Option::is_none) {
            return Ok(is_new);
        }
        let passed = self.passed + bytes_between(from, to);
        for index in self.oldest_first() {
            let open = &mut self.open[index];
            match open {
                None => {}
                // Its parts should have been read again by now. Their file is gone.
                Some(Open { parts: None, .. }) if is_new => *open = None,
                Some(Open { parts: Some(parts), .. }) if passed - parts.passed > self.most => {
                    emit(parts.cut(STREAMS[index]))?;
                    // The position was made with a larger limit, so more was open: the lines from here on, which are read
                    // again, are parts of that.
                    *open = (!is_new).then_some(Open { from, parts: None });
                }
                Some(_) => {}
            }
        }
        Ok(is_new)
    }

    /// Takes a line that belongs to what is open in its stream, or begins something.
    fn take<E>(
        &mut self,
        from: Spot,
        to: Spot,
        line: Line<'_>,
        emit: &mut impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Line { stream, unix_nanos, text, is_partial, is_cut } = line;
        let open = &mut self.open[index(stream)];
        let goes_on = is_partial && !is_cut && bytes_between(from, to) <= self.most;
        let is_cut = is_cut || is_partial;
        // What is left to be read again of the parts there were, if this was not the last one.
        let left = (to < self.done).then_some(Open { from: to, parts: None });
        if let Some(Open { parts: Some(parts), .. }) = open {
            let before = parts.text.len();
            parts.text.extend_from_slice(&text);
            if goes_on {
                return Ok(());
            }
            let entry = Entry { is_cut, ..parts.cut(stream) };
            if let Err(refusal) = emit(entry) {
                parts.text.truncate(before);
                return Err(refusal);
            }
            *open = left;
            return Ok(());
        }
        if goes_on {
            let parts = Parts { passed: self.passed, unix_nanos, text: text.into_owned() };
            *open = Some(Open { from, parts: Some(parts) });
            return Ok(());
        }
        emit(Entry { stream, unix_nanos, text, is_cut })?;
        *open = left;
        Ok(())
    }

    fn pass(&mut self, from: Spot, to: Spot) {
        self.passed += bytes_between(from, to);
        self.done = self.done.max(to);
    }
}

impl Parts {
    /// An entry of the parts so far.
    fn cut(&self, stream: Option<Stream>) -> Entry<'_> {
        Entry { stream, unix_nanos: self.unix_nanos, text: Cow::Borrowed(&self.text), is_cut: true }
    }
}

/// Bytes from one place of a file to another.
fn bytes_between(from: Spot, to: Spot) -> u64 {
    to.offset.saturating_sub(from.offset)
}
