//! Joins the lines of stack traces, stream by stream.

use std::borrow::Cow;

use weir_plan::Multiline;

use super::join::{Entry, STREAMS, index};
use super::line::Stream;
use super::multiline::States;

#[cfg(test)]
mod tests;

/// What one kind of pipelines joins. With nothing to join, entries pass as they are.
///
/// An entry is given twice: first [`Traces::close`] emits the trace that it ends, then [`Traces::take`] takes it. So a
/// request without room for the entry has no part of it.
#[derive(Debug)]
pub(super) struct Traces {
    multiline: Multiline,
    open: [Option<Trace>; STREAMS.len()],
}

/// A trace to which more may come.
#[derive(Debug)]
struct Trace {
    /// After the last line; of the next one, once it was looked at.
    states: States,
    unix_nanos: u64,
    text: Vec<u8>,
}

impl Traces {
    pub(super) fn new(multiline: Multiline) -> Self {
        Self { multiline, open: [None, None, None] }
    }

    pub(super) fn multiline(&self) -> Multiline {
        self.multiline
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.iter().any(Option::is_some)
    }

    /// Before an entry: emits the trace that it does not go on with.
    pub(super) fn close<E>(
        &mut self,
        entry: &Entry<'_>,
        emit: &mut impl FnMut(&Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let open = &mut self.open[index(entry.stream)];
        let Some(trace) = open else { return Ok(()) };
        let states = trace.states.after(self.multiline, &entry.text);
        // A piece of a line may say anything.
        if states.is_none() || entry.is_cut {
            emit(&trace.entry(entry.stream, false))?;
            *open = None;
        } else {
            trace.states = states;
        }
        Ok(())
    }

    /// Takes an entry: it goes on with a trace, begins one, or is emitted. Returns whether it is kept.
    pub(super) fn take<E>(
        &mut self,
        entry: &Entry<'_>,
        emit: &mut impl FnMut(&Entry<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let open = &mut self.open[index(entry.stream)];
        if let Some(trace) = open {
            trace.text.push(b'\n');
            trace.text.extend_from_slice(&entry.text);
            return Ok(true);
        }
        if !self.multiline.is_off() && !entry.is_cut {
            let states = States::begin(self.multiline, &entry.text);
            if !states.is_none() {
                *open = Some(Trace { states, unix_nanos: entry.unix_nanos, text: entry.text.to_vec() });
                return Ok(true);
            }
        }
        emit(entry).map(|()| false)
    }

    /// Emits what is open. `is_cut`: because it would become too large.
    pub(super) fn finish<E>(
        &mut self,
        is_cut: bool,
        emit: &mut impl FnMut(&Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (open, stream) in self.open.iter_mut().zip(STREAMS) {
            if let Some(trace) = open {
                emit(&trace.entry(stream, is_cut))?;
                *open = None;
            }
        }
        Ok(())
    }

    /// Forgets what is open.
    pub(super) fn clear(&mut self) {
        self.open = [None, None, None];
    }
}

impl Trace {
    fn entry(&self, stream: Option<Stream>, is_cut: bool) -> Entry<'_> {
        Entry { stream, unix_nanos: self.unix_nanos, text: Cow::Borrowed(&self.text), is_cut }
    }
}
