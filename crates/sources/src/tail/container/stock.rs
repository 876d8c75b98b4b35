//! Measures the unread output of a container, and the removed files that it keeps on the disk.

use std::io;
use std::sync::TryLockError;

use super::{Container, Output};
use crate::tail::chain::{Link, State};
use crate::tail::files::{self, Content};
use crate::tail::line::Format;
use crate::tail::status::Lag;

/// So much of a line is read to see how old it is. A line of CRI says so at its beginning.
const LINE_BYTES: usize = 4 << 10;

/// A file that was removed and is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tail) struct Removed {
    /// When it was seen to be gone; nothing is lost with one that is there compressed, so these come first.
    pub(in crate::tail) since_ms: u64,
    pub(in crate::tail) number: u64,
    pub(in crate::tail) bytes: u64,
}

impl Container {
    /// Measures the unread output, unless it is being read right now.
    pub(in crate::tail) fn measure(&self) {
        match self.output.try_lock() {
            Ok(mut output) => self.take_stock(&mut output),
            Err(TryLockError::Poisoned(poisoned)) => self.take_stock(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    pub(super) fn take_stock(&self, output: &mut Output) {
        output.see_growth();
        let mut lag = self.lag(output);
        if lag.bytes_behind > 0 {
            lag.oldest_ms = self.oldest_ms(output).unwrap_or(None);
        }
        let removed_open_bytes = output.removed().iter().map(|removed| removed.bytes).sum();
        let current = output.next().or(output.chain.links().last()).map(|link| (link.name, link.id));
        let mut progress = self.progress();
        (progress.lag, progress.current) = (lag, current);
        progress.open_files = output.open.len() as u64;
        progress.removed_open_bytes = removed_open_bytes;
    }

    fn lag(&self, output: &Output) -> Lag {
        let mut lag = Lag::default();
        for link in output.chain.links() {
            let is_there = link.state == State::Present || output.open.contains_key(&link.number);
            let unread = output.chain.unread(link.number);
            match is_there {
                true => lag.bytes_behind += if unread > 0 { unread } else { self.compressed(output, link) },
                false => lag.missing_bytes += unread,
            }
            lag.files += u64::from(is_there);
        }
        lag
    }

    /// The size of an unread compressed file on the disk; 0 for all others.
    pub(super) fn compressed(&self, output: &Output, link: &Link) -> u64 {
        let is_unread = link.end.is_none() && link.number >= output.place().file;
        if !link.name.is_compressed || !is_unread {
            return 0;
        }
        files::size(&self.directory.join(link.name.to_string())).unwrap_or(0)
    }

    /// When the first unread line was written; for lines without a time, when its file was last written to.
    fn oldest_ms(&self, output: &mut Output) -> io::Result<Option<u64>> {
        let first = output.place();
        let Some((number, begin)) = output.next().map(|link| (link.number, link.begin)) else { return Ok(None) };
        if !self.open(output, number)? {
            return Ok(None);
        }
        let Some(content) = output.open.get_mut(&number) else { return Ok(None) };
        let offset = if number == first.file { first.offset.max(begin) } else { begin };
        if content.is_compressed() {
            return content.written_ms();
        }
        let mut line = [0; LINE_BYTES];
        let read = content.read(&mut line, offset)?;
        let line = line[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let nanos = Format::told_by(line).and_then(|format| format.parse(line)).map_or(0, |line| line.unix_nanos);
        if nanos > 0 { Ok(Some(nanos / 1_000_000)) } else { content.written_ms() }
    }

    /// The files that were removed and are open, unless it is being read right now.
    pub(in crate::tail) fn removed(&self) -> Vec<Removed> {
        self.output.try_lock().map(|output| output.removed()).unwrap_or_default()
    }

    /// Gives up a removed file; at once, or after the turn that is under way.
    pub(in crate::tail) fn give_up_removed(&self, number: u64) {
        let mut output = self.output();
        output.condemned.insert(number);
        if !self.has_turn() {
            self.close_condemned(&mut output);
        }
    }

    pub(super) fn close_condemned(&self, output: &mut Output) {
        for number in std::mem::take(&mut output.condemned) {
            let Some(content) = output.open.remove(&number) else { continue };
            // What is there compressed is read from there.
            if output.chain.link(number).is_some_and(|link| link.state == State::Present) {
                continue;
            }
            let loss = output.chain.lost(number, content.size().ok());
            self.progress().lost.over_limit += loss.bytes;
            output.is_changed = true;
        }
    }
}

impl Output {
    /// Files may have grown since they were listed.
    pub(super) fn see_growth(&mut self) {
        let Self { chain, open, .. } = self;
        for (number, content) in open.iter().filter(|(_, content)| !content.is_compressed()) {
            if let Ok(size) = content.size() {
                chain.grew(*number, size);
            }
        }
    }

    fn removed(&self) -> Vec<Removed> {
        let removed = |(number, content): (&u64, &Content)| {
            let bytes = content.removed_size()?;
            let since_ms = match self.chain.link(*number)?.state {
                State::Gone { since_ms } => since_ms.max(1),
                State::Present | State::Overwritten => 0,
            };
            Some(Removed { since_ms, number: *number, bytes })
        };
        self.open.iter().filter_map(removed).collect()
    }
}
