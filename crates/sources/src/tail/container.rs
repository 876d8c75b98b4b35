//! One container: what is known of its output (`output`), and what looks and turns do with it. Each locks the output for
//! as long as it works on files, and never across an await.

mod costs;
mod kept_back;
mod look;
mod output;
mod progress;
mod stock;
#[cfg(test)]
mod tests;
mod turn_state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_engine::Permit;

use super::allowance::TurnPermit;
use super::chain::{Chain, State};
use super::checkpoint::{KEPT_MS, Saved};
use super::files::{Content, Descriptors};
use super::identity::Print;
use super::join::Position;
use super::path::ContainerName;
use super::reading::{Counts, MOST_APART, Order, Reader, Reading};
use super::turn::MOST_REQUEST_BYTES;
pub(super) use costs::CONTAINER_BYTES;
pub(super) use output::Output;
pub(super) use progress::{Progress, Wait};
pub(super) use stock::Removed;
use turn_state::TurnState;

/// A file that could not be read so many times in a row is given up.
const MOST_FAILURES: u32 = 30;

/// Between two checkpoints of a container lies so much time for each of its files, in milliseconds. A file has some 240
/// bytes of a checkpoint: so a container writes no more than half a megabyte a second, with what is written anew.
const MS_PER_FILE: u64 = 1;

/// A container whose output is read.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: ContainerName,
    directory: PathBuf,
    descriptors: Arc<Descriptors>,
    output: Mutex<Output>,
    turn_state: Mutex<TurnState>,
    progress: Mutex<Progress>,
    /// Its checkpoint may be out of date.
    is_noted: AtomicBool,
    found: Instant,
}

impl Container {
    /// `pods`: the directory of all pods. `paid`: for the state of the container.
    pub(super) fn new(
        name: ContainerName,
        pods: &Path,
        chain: Chain,
        paid: Option<Permit>,
        descriptors: Arc<Descriptors>,
    ) -> Self {
        let output = Output::new(chain, paid);
        let turn_state = Mutex::new(TurnState::Idle);
        let directory = pods.join(name.to_string());
        let (output, progress) = (Mutex::new(output), Mutex::default());
        let is_noted = AtomicBool::new(false);
        Self { name, directory, descriptors, output, turn_state, progress, is_noted, found: Instant::now() }
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what it waits for.
    pub(super) fn waits_for(&self, wait: Wait) {
        self.progress().wait = wait;
    }

    /// Whether it has unread output, as far as is known.
    pub(super) fn is_behind(&self) -> bool {
        !self.is_idle() || self.progress().lag.bytes_behind > 0
    }

    pub(super) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long it is known.
    pub(super) fn age(&self) -> Duration {
        self.found.elapsed()
    }

    /// Opens the file of a link, if it is still the one that was seen. False when there is none to open.
    pub(super) fn open(&self, output: &mut Output, number: u64) -> io::Result<bool> {
        if output.open.contains_key(&number) {
            return Ok(true);
        }
        let Some(link) = output.chain.link(number).filter(|link| link.state == State::Present) else {
            return Ok(false);
        };
        let content = Content::open(&self.directory, link.name, &self.descriptors)?;
        let Some(content) = content.filter(|content| content.id() == link.id) else {
            return Ok(false);
        };
        let (file, bytes) = (link.name, link.size);
        tracing::debug!(container = %self.name, %file, bytes, "a log file is opened");
        output.open.insert(number, content);
        Ok(true)
    }

    /// A file was read to its end. It is needed again only if that was in vain.
    pub(super) fn finished(&self, output: &mut Output, number: u64) {
        tracing::debug!(
            container = %self.name,
            file = output.chain.link(number).map(|link| tracing::field::display(link.name)),
            "a log file was read to its end"
        );
        if let Some(content) = output.open.get_mut(&number) {
            content.end_inflating();
        }
        self.spare_descriptors(output);
    }

    /// Closes what can be opened again, when there are too many open files.
    fn spare_descriptors(&self, output: &mut Output) {
        if self.descriptors.are_scarce() {
            let Output { chain, open, .. } = output;
            let is_there = |number| chain.link(number).is_some_and(|link| link.state == State::Present);
            open.retain(|number, content| content.is_inflating() || !is_there(*number));
        }
    }

    /// Between turns, the decoder of a compressed file stays only if `permit` pays for it.
    pub(super) fn keep_inflating(&self, permit: Option<TurnPermit>) {
        let mut output = self.output();
        let is_inflating = output.open.values().any(Content::is_inflating);
        output.decoder = permit.filter(|_| is_inflating);
        if output.decoder.is_none() {
            output.open.values_mut().for_each(Content::end_inflating);
        }
    }

    /// Begins a file anew, if the bytes before the position are not those that were read. Returns whether it did.
    fn begin_anew_if_overwritten(&self, output: &mut Output) -> io::Result<bool> {
        let (done, guard) = (output.chain.position().done, output.chain.guard());
        if !self.open(output, done.file)? {
            return Ok(false);
        }
        let Some(content) = output.open.get_mut(&done.file) else { return Ok(false) };
        if content.has_guard(done.offset, guard)? {
            return Ok(false);
        }
        let size = content.size()?;
        for event in output.chain.overwritten(done.file, size) {
            self.follow(output, event)?;
        }
        let lost = output.chain.lost(done.file, None).bytes;
        let mut progress = self.progress();
        progress.lost.overwritten += lost;
        progress.begun_anew += 1;
        output.is_changed = true;
        Ok(true)
    }

    /// The file that comes next cannot be read. After some failures, or if the file is gone, the rest of it is given
    /// up, so that later files do not wait for it. Returns whether this is the first failure, and the bytes given up.
    pub(super) fn failed(&self) -> (bool, Option<u64>) {
        let mut output = self.output();
        let Some((number, state)) = output.next().map(|link| (link.number, link.state)) else {
            return (true, None);
        };
        let failures = output.failures.entry(number).or_default();
        *failures += 1;
        let (is_first, is_over) = (*failures == 1, *failures >= MOST_FAILURES || state != State::Present);
        if !is_over {
            return (is_first, None);
        }
        output.failures.remove(&number);
        output.open.remove(&number);
        output.is_changed = true;
        // Nobody knows what was in a compressed file. It was at least as much as there is.
        let compressed = output.chain.link(number).map_or(0, |link| self.compressed(&output, link));
        let bytes = output.chain.lost(number, None).bytes.max(compressed);
        self.progress().lost.unreadable += bytes;
        (is_first, Some(bytes))
    }

    /// Reads what comes next, as much as the order allows.
    pub(super) fn read(&self, order: &Order) -> io::Result<Reading> {
        let mut output = self.output();
        self.close_condemned(&mut output);
        while self.begin_anew_if_overwritten(&mut output)? {}
        let reading = self.read_on(&mut output, order);
        self.spare_descriptors(&mut output);
        let reading = reading?;
        output.failures.clear();
        Ok(reading)
    }

    /// A turn that makes progress. Small requests may have no room for all that lies between the beginning and the end
    /// of a stack trace. Then the trace is cut earlier, and in the end nothing is joined.
    fn read_on(&self, output: &mut Output, order: &Order) -> io::Result<Reading> {
        let ways = order.wants.iter().filter(|want| !want.multiline.is_off()).count() as u64;
        // All that is open together takes no more, in however many ways lines are joined; and no trace loses its end.
        let mut most_open = (MOST_APART.min(order.most_bytes / 4) as u64).checked_div(ways).unwrap_or(0);
        loop {
            let reading = Reader::new(self, output, order, most_open).read()?;
            let gets_on = !reading.is_more || reading.position != output.chain.position();
            if gets_on || most_open == 0 {
                return Ok(reading);
            }
            most_open /= 4;
        }
    }

    /// The output up to this position is safe.
    pub(super) fn commit(&self, position: Position, guard: Print, counts: &Counts) {
        let mut output = self.output();
        let is_progress = output.chain.position() != position;
        output.is_changed |= is_progress;
        output.chain.commit(position, guard);
        output.most_bytes = output.most_bytes.map(|bytes| bytes * 2).filter(|bytes| *bytes < MOST_REQUEST_BYTES);
        if let Some(content) = output.open.get_mut(&position.done.file) {
            content.let_go(position.start().offset);
        }
        output.forget_closed();
        let unread = output.chain.links().iter().map(|link| output.chain.unread(link.number)).sum();
        let mut progress = self.progress();
        progress.counts.add(counts);
        progress.open_files = output.open.len() as u64;
        progress.lag.bytes_behind = unread;
        if is_progress {
            progress.has_read();
        }
    }

    /// Notes that its checkpoint may be out of date. Returns whether that is news.
    pub(super) fn take_note(&self) -> bool {
        !self.is_noted.swap(true, Ordering::AcqRel)
    }

    /// Whether its checkpoint may be saved again. One of many files is large, and is saved less often.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let output = self.output();
        now_ms.abs_diff(output.saved_ms) >= output.chain.links().len() as u64 * MS_PER_FILE
    }

    /// The checkpoint to save, if it changed, or was saved long ago: old checkpoints are forgotten.
    pub(super) fn to_save(&self, now_ms: u64) -> Option<Saved> {
        self.is_noted.store(false, Ordering::Release);
        let mut output = self.output();
        let is_old = now_ms.saturating_sub(output.saved_ms) >= KEPT_MS / 8;
        if !std::mem::take(&mut output.is_changed) && !is_old {
            return None;
        }
        output.saved_ms = now_ms;
        self.complete_heads(&mut output);
        Some(Saved::of(self.name.clone(), &output.chain, now_ms))
    }

    /// The checkpoint, changed or not.
    pub(super) fn saved(&self, now_ms: u64) -> Saved {
        let mut output = self.output();
        self.complete_heads(&mut output);
        Saved::of(self.name.clone(), &output.chain, now_ms)
    }

    pub(super) fn directory(&self) -> &std::path::Path {
        &self.directory
    }
}
