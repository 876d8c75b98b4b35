//! A turn of reading: from the place that is not safe yet, as far as there is room for what comes of it.

use std::io;

use serde::Serialize;
use weir_plan::RecordShape;

use super::container::{Container, Output};
use super::files::Content;
use super::identity::Print;
use super::join::{Entry, Joiner, Position, Spot};
use super::line::{Format, Line};
use super::record::{Attributes, Form, NoRoom, RequestBuilder, Size, Source};
use super::scan::{Chunk, End, Found, Lines};

/// The longest line, with its end; what is longer is cut.
pub(super) const LONGEST: usize = 256 << 10;

/// From the first part of an entry to its last one are at most so many bytes of files.
pub(super) const MOST_APART: usize = 256 << 10;

/// What is read at once: a turn that begins with an entry that is not complete must get on.
pub(super) const WINDOW: usize = LONGEST + MOST_APART + (256 << 10);

/// What a turn may do.
#[derive(Debug)]
pub(super) struct Order {
    /// What pipelines want of the records.
    pub(super) shapes: Vec<RecordShape>,
    /// The largest request.
    pub(super) most_bytes: usize,
    pub(super) now_nanos: u64,
}

/// What a turn gave.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) requests: Vec<(RecordShape, Vec<u8>)>,
    /// Up to where the requests have everything.
    pub(super) position: Position,
    pub(super) guard: Print,
    pub(super) counts: Counts,
    /// Whether there is more to be read at once.
    pub(super) is_more: bool,
}

/// What became of what was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Log records.
    pub records: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Lines that are not what the format of their file says. They became records with all of their text.
    pub malformed: u64,
    /// Texts that look like JSON and are not, or are too deep or too large. They are there as text.
    pub unparsed: u64,
    /// Lines that were cut because they are too long. All parts became records.
    pub cut: u64,
    /// Texts that lost their end, because no request could hold them.
    pub shortened: u64,
    /// NUL bytes that were left out.
    pub nul_bytes: u64,
}

impl Counts {
    /// Records that are not quite what was written, with what is odd about them.
    pub(super) fn odd(&self) -> [(&'static str, u64); 4] {
        let Self { malformed, unparsed, cut, shortened, .. } = *self;
        [("malformed", malformed), ("unparsed", unparsed), ("cut", cut), ("shortened", shortened)]
    }

    /// Adds those of another turn.
    pub(super) fn add(&mut self, other: &Self) {
        let Self { records, bytes, malformed, unparsed, cut, shortened, nul_bytes } = self;
        *records += other.records;
        *bytes += other.bytes;
        *malformed += other.malformed;
        *unparsed += other.unparsed;
        *cut += other.cut;
        *shortened += other.shortened;
        *nul_bytes += other.nul_bytes;
    }
}

/// Why a turn is over.
enum Stop {
    Full,
    Io(io::Error),
}

impl From<NoRoom> for Stop {
    fn from(_: NoRoom) -> Self {
        Self::Full
    }
}

/// One turn.
pub(super) struct Turn<'a> {
    container: &'a Container,
    output: &'a mut Output,
    order: &'a Order,
    joiner: Joiner,
    place: Spot,
    counts: Counts,
    builders: Vec<(RecordShape, RequestBuilder)>,
    attributes: Attributes,
    /// What the requests are of.
    restart: Option<u64>,
    buffer: Vec<u8>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(container: &'a Container, output: &'a mut Output, order: &'a Order) -> Self {
        let joiner = Joiner::new(output.chain.position(), MOST_APART as u64);
        let place = output.place();
        let (builders, attributes, counts) = (Vec::new(), Attributes::default(), Counts::default());
        Self {
            container,
            output,
            order,
            joiner,
            place,
            counts,
            builders,
            attributes,
            restart: None,
            buffer: Vec::new(),
        }
    }

    pub(super) fn read(mut self) -> io::Result<Batch> {
        let is_more = match self.read_files() {
            Ok(is_more) => is_more,
            Err(Stop::Full) => true,
            Err(Stop::Io(error)) if self.builders.iter().all(|(_, builder)| builder.items() == 0) => return Err(error),
            // What was read before is worth sending.
            Err(Stop::Io(_)) => true,
        };
        let position = self.joiner.position();
        self.output.chain.reach(position.done);
        let guard = self.guard(position.done);
        let requests = self.builders.into_iter().filter(|(_, builder)| builder.items() > 0);
        let requests = requests.map(|(shape, builder)| (shape, builder.into_bytes())).collect();
        Ok(Batch { requests, position, guard, counts: self.counts, is_more })
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
            let taken = self.read_file(number, offset, end)?;
            if taken.bytes == 0 && !taken.is_finished {
                return Ok(false);
            }
            read += taken.bytes;
        }
        // The last file is at its end for ever.
        self.flush()?;
        Ok(false)
    }

    /// What is not complete will not be completed.
    fn flush(&mut self) -> Result<(), Stop> {
        let Self { joiner, builders, attributes, counts, order, .. } = self;
        Ok(joiner.finish(&mut |entry: Entry<'_>| push(builders, attributes, counts, &entry, order.now_nanos))?)
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
            restarts: restart,
            path: &path.to_string_lossy(),
        };
        let size = Size { expected: self.order.most_bytes, most: self.order.most_bytes };
        let builder = |shape: &RecordShape| (*shape, RequestBuilder::new(&source, *shape, size));
        self.builders = self.order.shapes.iter().map(builder).collect();
    }

    /// Reads a piece of a file.
    fn read_file(&mut self, number: u64, offset: u64, end: Option<u64>) -> Result<Taken, Stop> {
        let is_final = self.output.chain.is_final(number);
        let Some(content) = self.output.open.get_mut(&number) else { return Ok(Taken::default()) };
        // The byte before tells whether a line begins.
        let first = usize::from(offset > 0);
        let left = end.map_or(WINDOW as u64, |end| end - offset).min(WINDOW as u64);
        let wanted = usize::try_from(left).unwrap_or(WINDOW);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(first + WINDOW, 0);
        let read = content.read(&mut buffer[..first + wanted], offset - first as u64).map_err(Stop::Io)?;
        let format = self.format(number)?;
        let bytes = &buffer[first.min(read)..read];
        let is_last = is_final && (read < first + wanted || end == Some(offset + bytes.len() as u64));
        let before = (first == 1 && read > 0).then(|| buffer[0]);
        let mut lines = Lines::new(Chunk { bytes, offset, before, is_last }, LONGEST);
        let done = loop {
            let Some(found) = lines.next() else { break Ok(()) };
            if let Err(full) = self.find(number, format, found) {
                break Err(full);
            }
        };
        let reached = lines.offset();
        let is_finished = done.is_ok() && is_last && reached == offset + bytes.len() as u64;
        self.buffer = buffer;
        done?;
        if is_finished {
            self.output.chain.finish(number, reached);
            self.container.finished(self.output, number);
        }
        self.place = Spot { file: number, offset: reached };
        Ok(Taken { bytes: usize::try_from(reached - offset).unwrap_or(WINDOW), is_finished })
    }

    fn format(&mut self, number: u64) -> Result<Format, Stop> {
        if let Some(format) = self.output.formats.get(&number) {
            return Ok(*format);
        }
        let Some(content) = self.output.open.get_mut(&number) else { return Ok(Format::Plain) };
        match first_line(content).map_err(Stop::Io)? {
            Some(format) => {
                self.output.formats.insert(number, format);
                Ok(format)
            }
            None => Ok(Format::Plain),
        }
    }

    fn find(&mut self, number: u64, format: Format, found: Found<'_>) -> Result<(), Stop> {
        let Self { joiner, builders, attributes, counts, order, .. } = self;
        let spot = |offset| Spot { file: number, offset };
        let emit = &mut |entry: Entry<'_>| push(builders, attributes, counts, &entry, order.now_nanos);
        match found {
            Found::Nuls { from, to } => {
                let skipped = joiner.skip(spot(from), spot(to), emit)?;
                (counts.nul_bytes, counts.bytes) = (counts.nul_bytes + skipped, counts.bytes + skipped);
            }
            Found::Text(text) => {
                let parsed = text.starts_line.then(|| format.parse(text.bytes)).flatten();
                let is_malformed = parsed.is_none() && text.starts_line;
                let mut line = parsed.unwrap_or_else(|| Line::of_text(text.bytes));
                line.is_cut = text.end != End::Newline;
                if joiner.line(spot(text.from), spot(text.to), line, emit)? {
                    counts.bytes += text.to - text.from;
                    counts.malformed += u64::from(is_malformed);
                }
            }
        }
        Ok(())
    }
}

/// What was read of a file.
#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    is_finished: bool,
}

/// Adds an entry to all requests, or to none.
fn push(
    builders: &mut [(RecordShape, RequestBuilder)],
    attributes: &mut Attributes,
    counts: &mut Counts,
    entry: &Entry<'_>,
    now_nanos: u64,
) -> Result<(), NoRoom> {
    let mut form = Form::Text;
    for place in 0..builders.len() {
        match builders[place].1.push(entry, attributes, now_nanos) {
            // The raw shape is always text.
            Ok(pushed) if pushed != Form::Text => form = pushed,
            Ok(_) => {}
            Err(no_room) => {
                builders[..place].iter_mut().for_each(|(_, builder)| builder.pop());
                return Err(no_room);
            }
        }
    }
    counts.records += 1;
    counts.unparsed += u64::from(form == Form::Unparsed);
    counts.cut += u64::from(entry.is_cut);
    counts.shortened += u64::from(form == Form::Cut);
    Ok(())
}

/// What the first line of a file says of all its lines; `None` when it is not complete.
fn first_line(content: &mut Content) -> io::Result<Option<Format>> {
    let mut buffer = vec![0; FIRST_LINE];
    let read = content.read(&mut buffer, 0)?;
    let text = &buffer[..read];
    let begin = text.iter().position(|byte| *byte != 0).unwrap_or(read);
    let line = &text[begin..];
    Ok(match memchr::memchr(b'\n', line) {
        Some(end) => Some(Format::of(&line[..end])),
        None if read == FIRST_LINE => Some(Format::of(line)),
        None => None,
    })
}

/// No more is looked at to tell a file's format.
const FIRST_LINE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    /// Whichever of them is full first.
    #[test]
    fn an_entry_is_in_all_requests_or_in_none() {
        let source = Source { namespace: "n", pod: "p", uid: "u", container: "c", restarts: 0, path: "0.log" };
        // Escapes make the text longer than what is read of it; names make it shorter.
        for text in
            [br#"{"a":"\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041"}"#, &br#"{"a":1,"b":2}"#[..]]
        {
            let size = Size { expected: 100, most: 4000 };
            let builder = |shape| (shape, RequestBuilder::new(&source, shape, size));
            let mut builders = RecordShape::ALL[1..].iter().copied().map(builder).collect::<Vec<_>>();
            let entry = Entry { stream: None, unix_nanos: 0, text: Cow::Borrowed(text), is_cut: false };
            let mut counts = Counts::default();
            while push(&mut builders, &mut Attributes::default(), &mut counts, &entry, 1).is_ok() {}
            let items: Vec<_> = builders.iter().map(|(_, builder)| u64::from(builder.items())).collect();
            assert!(counts.records > 10 && items == [counts.records; 2], "{items:?}, {counts:?}");
        }
    }
}
