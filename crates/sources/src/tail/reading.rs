//! Reads a container's files in its turn: from the position on, as far as the requests have room. The steps of a turn are
//! in `turn`.

use std::io;
use std::time::Duration;

use serde::Serialize;

use super::container::{Container, Output};
use super::files::Content;
use super::identity::Print;
use super::join::{Joiner, Position, Spot};
use super::line::{Format, Line};
use super::record::{NoRoom, Size, Source};
use super::requests::{Requests, Want};
use super::scan::{Chunk, End, Found, Lines};

/// The longest line, with its end; what is longer is cut.
pub(super) const LONGEST: usize = 256 << 10;

/// Between the beginning of an entry's first part and the end of its last one lie at most so many bytes of files.
pub(super) const MOST_APART: usize = 256 << 10;

/// What is read at once: enough for progress in a turn that begins with an incomplete entry.
pub(super) const WINDOW: usize = LONGEST + MOST_APART + (256 << 10);

/// What a turn may do.
#[derive(Debug)]
pub(super) struct Order {
    /// What pipelines want of the records.
    pub(super) wants: Vec<Want>,
    /// The name of the node, unless the pod's facts have one.
    pub(super) node: Option<String>,
    /// The largest request.
    pub(super) most_bytes: usize,
    pub(super) now_nanos: u64,
}

/// What a turn read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) requests: Vec<(Want, Vec<u8>)>,
    /// The requests have everything up to here.
    pub(super) position: Position,
    pub(super) guard: Print,
    pub(super) counts: Counts,
    /// Whether there is more to be read at once.
    pub(super) is_more: bool,
    /// After this, a stack trace that was kept back is complete.
    pub(super) waits: Option<Duration>,
}

/// What became of the output that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Log records.
    pub records: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Lines that do not have the format of their file. They became records with all of their text.
    pub malformed: u64,
    /// Lines of files of which no line tells the format. They became records with all of their text.
    pub plain: u64,
    /// Texts that look like JSON and are not, or are too deep or too large. They stayed text.
    pub unparsed: u64,
    /// Lines that were cut because they are too long. All parts became records.
    pub cut: u64,
    /// Texts that lost their end, because no request could hold them.
    pub shortened: u64,
    /// Records with bytes that are not UTF-8, which became U+FFFD.
    pub not_utf8: u64,
    /// NUL bytes that were left out.
    pub nul_bytes: u64,
}

impl Counts {
    /// Records that are not quite what was written, with what is odd about them.
    pub(super) fn odd(&self) -> [(&'static str, u64); 6] {
        let Self { malformed, plain, unparsed, cut, shortened, not_utf8, .. } = *self;
        [
            ("malformed", malformed),
            ("plain", plain),
            ("unparsed", unparsed),
            ("cut", cut),
            ("shortened", shortened),
            ("not_utf8", not_utf8),
        ]
    }

    /// About as many records as so many more bytes would have become; `None` while there is nothing to go by.
    pub(super) fn records_in(&self, bytes: u64) -> Option<u64> {
        let records = (u128::from(bytes) * u128::from(self.records)).checked_div(u128::from(self.bytes))?;
        u64::try_from(records).ok().filter(|_| self.records > 0)
    }

    /// Adds those of another turn.
    pub(super) fn add(&mut self, other: &Self) {
        let Self { records, bytes, malformed, plain, unparsed, cut, shortened, not_utf8, nul_bytes } = self;
        *records += other.records;
        *bytes += other.bytes;
        *malformed += other.malformed;
        *plain += other.plain;
        *unparsed += other.unparsed;
        *cut += other.cut;
        *shortened += other.shortened;
        *not_utf8 += other.not_utf8;
        *nul_bytes += other.nul_bytes;
    }
}

/// Why reading is over.
enum Stop {
    Full,
    Io(io::Error),
}

impl From<NoRoom> for Stop {
    fn from(_: NoRoom) -> Self {
        Self::Full
    }
}

/// Reads in one turn.
pub(super) struct Reader<'a> {
    container: &'a Container,
    output: &'a mut Output,
    order: &'a Order,
    joiner: Joiner,
    place: Spot,
    requests: Requests,
    /// Where no stack trace was open the last time.
    marked: Position,
    /// Bytes of files that passed since then, and how many may.
    passed: u64,
    most_passed: u64,
    /// The run of the container that the requests are of.
    restart: Option<u64>,
    /// The format of the file that is read.
    format: Option<Format>,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// `most_open`: stack traces are cut when so many bytes of files lie between their beginning and their end.
    pub(super) fn new(container: &'a Container, output: &'a mut Output, order: &'a Order, most_open: u64) -> Self {
        let marked = output.chain.position();
        let joiner = Joiner::new(marked, MOST_APART as u64);
        let place = output.place();
        let requests = Requests::new(order.now_nanos);
        Self {
            container,
            output,
            order,
            joiner,
            place,
            requests,
            marked,
            passed: 0,
            most_passed: most_open,
            restart: None,
            format: None,
            buffer: Vec::new(),
        }
    }

    pub(super) fn read(mut self) -> io::Result<Reading> {
        let read = self.read_files().and_then(|is_more| {
            let waits = if is_more { None } else { self.wait_for_lines()? };
            Ok((is_more, waits))
        });
        // Nothing can be joined with what is behind a file that cannot be read, so open stack traces end here. If the
        // requests have no room for them, the next turn reads them first.
        let read = match read {
            Err(Stop::Io(error)) => self.requests.finish(true).map_err(Stop::from).and(Err(Stop::Io(error))),
            read => read,
        };
        if self.requests.is_open() {
            self.requests.reset();
        } else {
            self.marked = self.joiner.position();
        }
        let (is_more, waits) = match read {
            Ok(read) => read,
            Err(Stop::Io(error)) if self.requests.is_empty() => return Err(error),
            // What was read before is worth sending.
            Err(Stop::Full | Stop::Io(_)) => (true, None),
        };
        let position = self.marked;
        self.output.chain.reach(position.done);
        let guard = self.guard(position.done);
        let counts = *self.requests.counts();
        Ok(Reading { requests: self.requests.into_bytes(), position, guard, counts, is_more, waits })
    }

    /// All output was read. Open stack traces wait for the next turn, unless nothing came for long enough. Returns how
    /// long they wait.
    fn wait_for_lines(&mut self) -> Result<Option<Duration>, Stop> {
        if !self.requests.is_open() {
            return Ok(None);
        }
        // The next file is read when this one is complete.
        let is_last = self.output.chain.links().last().is_none_or(|last| last.number <= self.place.file);
        let left = self.output.kept_back.left(self.marked.done, self.requests.kept(), is_last);
        if left.is_zero() {
            self.requests.finish(false)?;
        }
        Ok(Some(left).filter(|left| !left.is_zero()))
    }

    fn guard(&mut self, done: Spot) -> Print {
        // Where descriptors are scarce, it may have been closed.
        let is_open = self.container.open(self.output, done.file).unwrap_or(false);
        let content = self.output.open.get_mut(&done.file).filter(|_| is_open);
        content.and_then(|content| content.guard(done.offset).ok()).unwrap_or_default()
    }

    /// Returns whether there is more.
    fn read_files(&mut self) -> Result<bool, Stop> {
        let mut read = 0;
        while let Some((link, offset)) = self.output.chain.at(self.place) {
            let (number, end, restart) = (link.number, link.end, link.name.restart);
            self.place = Spot { file: number, offset };
            if end.is_some_and(|end| offset >= end) {
                self.place = Spot { file: number + 1, offset: 0 };
                continue;
            }
            if self.restart.is_some_and(|earlier| earlier != restart) {
                self.flush()?;
                return Ok(true);
            }
            if read >= WINDOW {
                return Ok(true);
            }
            if !self.container.open(self.output, number).map_err(Stop::Io)? {
                // It is gone, or was replaced: a look finds out.
                return Ok(false);
            }
            self.begin(restart);
            let part = self.read_file(number, offset, end)?;
            if part.bytes == 0 && !part.is_finished {
                return Ok(false);
            }
            read += part.bytes;
        }
        // The last file is at its end for ever.
        self.flush()?;
        Ok(false)
    }

    /// Ends incomplete entries and open traces, because nothing will complete them.
    fn flush(&mut self) -> Result<(), Stop> {
        let Self { joiner, requests, .. } = self;
        joiner.finish(&mut |entry| requests.push(&entry))?;
        Ok(requests.finish(false)?)
    }

    /// Requests are of one run of the container, because its number is a part of what they say.
    fn begin(&mut self, restart: u64) {
        if self.restart.replace(restart).is_some() {
            return;
        }
        let name = &self.container.name;
        let path = self.container.directory().join(format!("{restart}.log"));
        let source = Source {
            namespace: &name.namespace,
            pod: &name.pod,
            uid: &name.uid,
            container: &name.container,
            node: self.order.node.as_deref(),
            restarts: restart,
            path: &path.to_string_lossy(),
        };
        let size = Size { expected: self.order.most_bytes, most: self.order.most_bytes };
        self.requests.begin(&source, &self.order.wants, size, self.most_passed > 0);
    }

    /// Reads a piece of a file.
    fn read_file(&mut self, number: u64, offset: u64, end: Option<u64>) -> Result<FileRead, Stop> {
        let is_final = self.output.chain.is_final(number);
        let Some(content) = self.output.open.get_mut(&number) else { return Ok(FileRead::default()) };
        // The byte before tells whether a line begins.
        let first = usize::from(offset > 0);
        let left = end.map_or(WINDOW as u64, |end| end - offset).min(WINDOW as u64);
        let wanted = usize::try_from(left).unwrap_or(WINDOW);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(first + WINDOW, 0);
        let read = content.read(&mut buffer[..first + wanted], offset - first as u64).map_err(Stop::Io)?;
        let damage = content.take_damage();
        self.format = self.known_format(number)?;
        let bytes = &buffer[first.min(read)..read];
        let is_last =
            is_final && damage.is_none() && (read < first + wanted || end == Some(offset + bytes.len() as u64));
        let before = (first == 1 && read > 0).then(|| buffer[0]);
        let mut lines = Lines::new(Chunk { bytes, offset, before, is_last }, LONGEST);
        let done = loop {
            let Some(found) = lines.next() else { break Ok(()) };
            if let Err(full) = self.find(number, found) {
                break Err(full);
            }
        };
        let reached = lines.offset();
        let is_finished = done.is_ok() && is_last && reached == offset + bytes.len() as u64;
        self.buffer = buffer;
        done?;
        if let Some(error) = damage.filter(|_| reached == offset) {
            return Err(Stop::Io(error));
        }
        if is_finished {
            self.output.chain.finish(number, reached);
            self.container.finished(self.output, number);
        }
        self.place = Spot { file: number, offset: reached };
        Ok(FileRead { bytes: usize::try_from(reached - offset).unwrap_or(WINDOW), is_finished })
    }

    /// The format of a file, as far as the lines that were read tell it, or those at its beginning.
    fn known_format(&mut self, number: u64) -> Result<Option<Format>, Stop> {
        if let Some(format) = self.output.formats.get(&number) {
            return Ok(*format);
        }
        let Some(content) = self.output.open.get_mut(&number) else { return Ok(None) };
        let format = told_at_beginning(content).map_err(Stop::Io)?;
        self.output.formats.insert(number, format);
        Ok(format)
    }

    /// Reads a line. As long as the format of its file is not known, each line may be the one that tells it.
    fn parse<'b>(&mut self, number: u64, text: &'b [u8]) -> Option<Line<'b>> {
        if self.format.is_none() {
            self.format = Format::told_by(text);
            if self.format.is_some() {
                self.output.formats.insert(number, self.format);
            }
        }
        self.format?.parse(text)
    }

    fn find(&mut self, number: u64, found: Found<'_>) -> Result<(), Stop> {
        let (from, to) = found.range();
        if self.requests.is_open() && self.passed + (to - from) > self.most_passed {
            self.requests.finish(true)?;
        }
        let before = self.joiner.position();
        self.requests.begin_line();
        let taken = self.take(number, found);
        if self.requests.is_marked() {
            (self.marked, self.passed) = (before, 0);
        }
        self.passed += to - from;
        taken
    }

    fn take(&mut self, number: u64, found: Found<'_>) -> Result<(), Stop> {
        let (from, to) = found.range();
        let [from, to] = [from, to].map(|offset| Spot { file: number, offset });
        match found {
            Found::Nuls { .. } => {
                let Self { joiner, requests, .. } = self;
                let skipped = joiner.skip(from, to, &mut |entry| requests.push(&entry))?;
                let counts = requests.counts();
                (counts.nul_bytes, counts.bytes) = (counts.nul_bytes + skipped, counts.bytes + skipped);
            }
            Found::Text(text) => {
                let parsed = text.starts_line.then(|| self.parse(number, text.bytes)).flatten();
                let is_text = parsed.is_none() && text.starts_line;
                let mut line = parsed.unwrap_or_else(|| Line::of_text(text.bytes));
                line.is_cut = match text.end {
                    End::Newline => false,
                    // The other parts are in the next file.
                    End::File => !line.is_partial,
                    End::Length | End::Hole => true,
                };
                let Self { joiner, requests, format, .. } = self;
                if joiner.line(from, to, line, &mut |entry| requests.push(&entry))? {
                    let counts = requests.counts();
                    counts.bytes += text.to - text.from;
                    counts.malformed += u64::from(is_text && format.is_some());
                    counts.plain += u64::from(is_text && format.is_none());
                }
            }
        }
        Ok(())
    }
}

/// What one step read of a file.
#[derive(Debug, Default)]
struct FileRead {
    bytes: usize,
    is_finished: bool,
}

/// What the first lines of a file tell of all its lines: reading may go on behind them.
fn told_at_beginning(content: &mut Content) -> io::Result<Option<Format>> {
    let mut buffer = vec![0; FIRST_LINES];
    let read = content.read(&mut buffer, 0)?;
    let whole = memchr::memrchr(b'\n', &buffer[..read]).unwrap_or(0);
    Ok(Format::told_in(&buffer[..whole]))
}

/// So much of a file is looked at to tell its format. Then each line that is read may tell it.
const FIRST_LINES: usize = 64 << 10;
