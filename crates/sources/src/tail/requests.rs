//! The requests of a turn: one for each kind of records that pipelines want.

use weir_plan::{Multiline, RecordShape};

use super::join::Entry;
use super::reading::Counts;
use super::record::{Attributes, Form, NoRoom, RequestBuilder, Size, Source};
use super::traces::Traces;

/// What some pipelines want of the records of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) shape: RecordShape,
    /// As the pipelines have it.
    pub(super) asked: Multiline,
    /// As the pod has it, or else the pipelines.
    pub(super) multiline: Multiline,
}

/// Requests that grow together.
///
/// While a stack trace is open, some requests have records that others do not have yet. So there is always a place to
/// go back to: the *mark*, which is before the first line of any open trace.
#[derive(Debug)]
pub(super) struct Requests {
    groups: Vec<Group>,
    maker: Maker,
    marked: Counts,
    line: LineStage,
    /// Lines that went to open traces since the mark.
    kept: u64,
}

/// What was done for the line that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineStage {
    /// Nothing came of it yet.
    Begun,
    /// The mark is before it.
    Marked,
    /// It is in what is open.
    Taken,
}

/// Those whose lines are joined in the same way.
#[derive(Debug)]
struct Group {
    traces: Traces,
    builders: Builders,
}

/// Requests with the same records in different forms.
#[derive(Debug)]
struct Builders {
    all: Vec<(Want, RequestBuilder)>,
    /// Whether these records are counted: others are the same lines once more.
    are_counted: bool,
}

/// What records are made with, and what became of them.
#[derive(Debug)]
struct Maker {
    attributes: Attributes,
    now_nanos: u64,
    counts: Counts,
}

impl Requests {
    /// Without a place for anything, until it is known where records are from.
    pub(super) fn new(now_nanos: u64) -> Self {
        let maker = Maker { attributes: Attributes::default(), now_nanos, counts: Counts::default() };
        Self { groups: Vec::new(), maker, marked: Counts::default(), line: LineStage::Taken, kept: 0 }
    }

    /// Begins requests. `joins`: otherwise, no traces are joined, whatever is wanted.
    pub(super) fn begin(&mut self, source: &Source<'_>, wants: &[Want], size: Size, joins: bool) {
        for want in wants {
            let multiline = if joins { want.multiline } else { Multiline::default() };
            let builder = (*want, RequestBuilder::new(source, want.shape, size));
            let is_same = |group: &&mut Group| group.traces.multiline() == multiline;
            match self.groups.iter_mut().find(is_same) {
                Some(group) => group.builders.all.push(builder),
                None => {
                    let builders = Builders { all: vec![builder], are_counted: self.groups.is_empty() };
                    self.groups.push(Group { traces: Traces::new(multiline), builders });
                }
            }
        }
    }

    pub(super) fn counts(&mut self) -> &mut Counts {
        &mut self.maker.counts
    }

    /// Whether there is nothing in them.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.builders.all).all(|(_, builder)| builder.items() == 0)
    }

    /// Whether a trace is open.
    pub(super) fn is_open(&self) -> bool {
        self.groups.iter().any(|group| group.traces.is_open())
    }

    /// Lines that are in open traces, or were in ones that are closed since the mark.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Before the entries of a line.
    pub(super) fn begin_line(&mut self) {
        self.line = LineStage::Begun;
    }

    /// Whether the mark is before the line that came last.
    pub(super) fn is_marked(&self) -> bool {
        self.line == LineStage::Marked
    }

    /// Adds an entry to all requests, or to none. Without room, open traces stay as they were; if none is open, the
    /// requests are as before the entry, except that a trace that it ended may have been added.
    pub(super) fn push(&mut self, entry: &Entry<'_>) -> Result<(), NoRoom> {
        let Self { groups, maker, .. } = self;
        for Group { traces, builders } in groups {
            traces.close(entry, &mut |entry| builders.push(entry, maker))?;
        }
        let is_open = self.is_open();
        if self.line == LineStage::Begun && !is_open {
            self.mark();
        }
        if self.line == LineStage::Begun {
            self.line = if is_open { LineStage::Taken } else { LineStage::Marked };
        }
        if is_open {
            return self.take(entry);
        }
        let counts = self.maker.counts;
        self.builders().for_each(RequestBuilder::begin_entry);
        self.take(entry).inspect_err(|NoRoom| {
            self.builders().for_each(RequestBuilder::undo_entry);
            self.groups.iter_mut().for_each(|group| group.traces.clear());
            self.maker.counts = counts;
        })
    }

    fn take(&mut self, entry: &Entry<'_>) -> Result<(), NoRoom> {
        let Self { groups, maker, kept, .. } = self;
        let mut is_kept = false;
        for Group { traces, builders } in groups {
            is_kept |= traces.take(entry, &mut |entry| builders.push(entry, maker))?;
        }
        *kept += u64::from(is_kept);
        Ok(())
    }

    /// Adds what is open. `is_cut`: because it would become too large.
    pub(super) fn finish(&mut self, is_cut: bool) -> Result<(), NoRoom> {
        let Self { groups, maker, .. } = self;
        for Group { traces, builders } in groups {
            traces.finish(is_cut, &mut |entry| builders.push(entry, maker))?;
        }
        Ok(())
    }

    /// Remembers how it is now. Nothing may be open.
    fn mark(&mut self) {
        self.builders().for_each(RequestBuilder::mark);
        (self.marked, self.kept) = (self.maker.counts, 0);
    }

    /// Goes back to the mark.
    pub(super) fn reset(&mut self) {
        self.builders().for_each(RequestBuilder::reset);
        self.groups.iter_mut().for_each(|group| group.traces.clear());
        (self.maker.counts, self.kept) = (self.marked, 0);
    }

    /// The requests with records.
    pub(super) fn into_bytes(self) -> Vec<(Want, Vec<u8>)> {
        let builders = self.groups.into_iter().flat_map(|group| group.builders.all);
        let filled = builders.filter(|(_, builder)| builder.items() > 0);
        filled.map(|(want, builder)| (want, builder.into_bytes())).collect()
    }

    fn builders(&mut self) -> impl Iterator<Item = &mut RequestBuilder> {
        self.groups.iter_mut().flat_map(|group| &mut group.builders.all).map(|(_, builder)| builder)
    }
}

impl Builders {
    /// Adds an entry to all. When one has no room, others may have it.
    fn push(&mut self, entry: &Entry<'_>, maker: &mut Maker) -> Result<(), NoRoom> {
        let Maker { attributes, now_nanos, counts } = maker;
        let mut form = Form::Text;
        for (_, builder) in &mut self.all {
            // The raw shape is always text.
            match builder.push(entry, attributes, *now_nanos)? {
                Form::Text => {}
                pushed => form = pushed,
            }
        }
        counts.records += u64::from(self.are_counted);
        counts.unparsed += u64::from(form == Form::Unparsed);
        counts.cut += u64::from(entry.is_cut);
        counts.shortened += u64::from(form == Form::Cut);
        // Nearly all text is ASCII, which is seen sooner.
        counts.not_utf8 += u64::from(!entry.text.is_ascii() && str::from_utf8(&entry.text).is_err());
        Ok(())
    }
}
