//! One container: its chain of files, those that are open, and a turn of reading them.

mod costs;
mod look;
mod standing;
mod stock;
mod stretch;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_engine::Permit;

use super::allowance::Room;
use super::chain::{Chain, Link, State};
use super::changed::Changed;
use super::checkpoint::{KEPT_MS, Saved};
use super::files::{Content, Descriptors};
use super::identity::{PRINT_BYTES, Print};
use super::join::{Position, Spot};
use super::line::Format;
use super::path::ContainerName;
use super::reader::MOST_REQUEST_BYTES;
use super::status::Losses;
use super::turn::{Batch, Counts, MOST_APART, Order, Turn};
pub(super) use costs::CONTAINER_BYTES;
pub(super) use standing::{Standing, Wait};
pub(super) use stock::Removed;
use stretch::Stretch;

/// A file that could not be read so many times in a row, a second apart, is given up.
const MOST_FAILURES: u32 = 30;

/// A container whose output is read.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: ContainerName,
    directory: PathBuf,
    descriptors: Arc<Descriptors>,
    output: Mutex<Output>,
    stage: Mutex<Stage>,
    standing: Mutex<Standing>,
    /// It is to be looked whether what is saved of it is out of date.
    is_noted: AtomicBool,
    found: Instant,
}

/// What is to be done for a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing, until a hint comes.
    Idle,
    /// Its turn will come.
    Queued,
    /// It has its turn.
    Reading,
    /// It has its turn, and there was a hint meanwhile.
    ReadingHinted,
}

/// What a container wrote.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) chain: Chain,
    /// By the number of their link.
    pub(super) open: BTreeMap<u64, Content>,
    pub(super) formats: BTreeMap<u64, Format>,
    /// A request that is larger was refused.
    pub(super) most_bytes: Option<usize>,
    /// What was kept for more lines of a stack trace when it was last read.
    pub(super) stretch: Stretch,
    /// Pays for what it takes to inflate.
    decoder: Option<Room>,
    /// Removed files that are to be given up.
    condemned: BTreeSet<u64>,
    /// How often a file could not be read, one time after the other.
    failures: BTreeMap<u64, u32>,
    /// Whether what is saved is out of date.
    is_changed: bool,
    /// When it was last saved, in milliseconds since the Unix epoch.
    saved_ms: u64,
    /// Whether there was a look since the last file vanished.
    vanished: Vec<u64>,
    /// When the directory had changed last at the last look, if nothing else has to be looked at.
    listed: Option<Changed>,
    /// For what is known of it.
    paid: Option<Permit>,
}

impl Container {
    /// `pods`: the directory of all pods. `paid`: for what is known of the container.
    pub(super) fn new(
        name: ContainerName,
        pods: &Path,
        chain: Chain,
        paid: Option<Permit>,
        descriptors: Arc<Descriptors>,
    ) -> Self {
        let output = Output {
            chain,
            open: BTreeMap::new(),
            formats: BTreeMap::new(),
            most_bytes: None,
            stretch: Stretch::default(),
            decoder: None,
            condemned: BTreeSet::new(),
            failures: BTreeMap::new(),
            is_changed: false,
            saved_ms: 0,
            vanished: Vec::new(),
            listed: None,
            paid,
        };
        let stage = Mutex::new(Stage::Idle);
        let directory = pods.join(name.to_string());
        let (output, standing) = (Mutex::new(output), Mutex::default());
        let is_noted = AtomicBool::new(false);
        Self { name, directory, descriptors, output, stage, standing, is_noted, found: Instant::now() }
    }

    pub(super) fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands in the way of reading it now.
    pub(super) fn waits_for(&self, wait: Wait) {
        self.standing().wait = wait;
    }

    /// Whether there is something that is not safe, as far as is known.
    pub(super) fn is_behind(&self) -> bool {
        !self.is_idle() || self.standing().lag.bytes_behind > 0
    }

    pub(super) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something may be there to be read. Returns whether the container has to be queued for that.
    pub(super) fn take_hint(&self) -> bool {
        let mut stage = self.stage();
        let before = *stage;
        *stage = match before {
            Stage::Idle | Stage::Queued => Stage::Queued,
            Stage::Reading | Stage::ReadingHinted => Stage::ReadingHinted,
        };
        if before == Stage::Idle {
            self.standing().begins_to_wait();
        }
        before == Stage::Idle
    }

    /// Its turn begins.
    pub(super) fn begin_turn(&self) {
        *self.stage() = Stage::Reading;
    }

    /// Its turn is over: there is more, or all that there was is read. Returns whether it has to be queued again.
    pub(super) fn end_turn(&self, is_more: bool) -> bool {
        let mut stage = self.stage();
        let is_hinted = *stage == Stage::ReadingHinted;
        *stage = if is_more || is_hinted { Stage::Queued } else { Stage::Idle };
        if !is_more {
            let mut standing = self.standing();
            standing.waits_since = None;
            if is_hinted {
                standing.begins_to_wait();
            }
        }
        is_more || is_hinted
    }

    /// For how long it is known.
    pub(super) fn age(&self) -> Duration {
        self.found.elapsed()
    }

    /// Whether it neither has a turn nor waits for one.
    pub(super) fn is_idle(&self) -> bool {
        *self.stage() == Stage::Idle
    }

    /// Whether it is read now.
    fn has_turn(&self) -> bool {
        matches!(*self.stage(), Stage::Reading | Stage::ReadingHinted)
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
        output.open.insert(number, content);
        Ok(true)
    }

    /// A file was read to its end. It is needed again only if that was in vain.
    pub(super) fn finished(&self, output: &mut Output, number: u64) {
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

    /// Between turns, what it takes to go on with a compressed file stays only where there is `room` for it.
    pub(super) fn rest(&self, room: Option<Room>) {
        let mut output = self.output();
        let is_inflating = output.open.values().any(Content::is_inflating);
        output.decoder = room.filter(|_| is_inflating);
        if output.decoder.is_none() {
            output.open.values_mut().for_each(Content::end_inflating);
        }
    }

    /// Begins a file anew, if what is before the position is not what was read there. Returns whether it did.
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
        tracing::warn!(container = %self.name, "a log file was cut off or overwritten; it is read from its beginning");
        for event in output.chain.overwritten(done.file, size) {
            self.follow(output, event)?;
        }
        let lost = output.chain.lost(done.file, None).bytes;
        self.standing().lost.overwritten += lost;
        output.is_changed = true;
        Ok(true)
    }

    /// The file at the place where reading begins cannot be read. When that goes on, or when it is gone, the rest of it is
    /// given up, so that others do not wait for it. Returns how much that is, and whether it is the first failure.
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
        self.standing().lost.unreadable += bytes;
        (is_first, Some(bytes))
    }

    /// Reads what comes next, as much as the order allows.
    pub(super) fn read(&self, order: &Order) -> io::Result<Batch> {
        let mut output = self.output();
        self.close_condemned(&mut output);
        while self.begin_anew_if_overwritten(&mut output)? {}
        let batch = self.read_on(&mut output, order);
        self.spare_descriptors(&mut output);
        let batch = batch?;
        output.failures.clear();
        Ok(batch)
    }

    /// A turn that gets on. Where requests are small, they may have no room for all that lies between the beginning and
    /// the end of a stack trace. Then it is cut earlier, and at last nothing is joined.
    fn read_on(&self, output: &mut Output, order: &Order) -> io::Result<Batch> {
        let ways = order.wants.iter().filter(|want| !want.multiline.is_off()).count() as u64;
        // All that is open together takes no more, in however many ways lines are joined; and no trace loses its end.
        let mut most_open = (MOST_APART.min(order.most_bytes / 4) as u64).checked_div(ways).unwrap_or(0);
        loop {
            let batch = Turn::new(self, output, order, most_open).read()?;
            let gets_on = !batch.is_more || batch.position != output.chain.position();
            if gets_on || most_open == 0 {
                return Ok(batch);
            }
            most_open /= 4;
        }
    }

    /// What was read up to this position is safe.
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
        let mut standing = self.standing();
        standing.counts.add(counts);
        standing.open_files = output.open.len() as u64;
        standing.lag.bytes_behind = unread;
        if is_progress {
            standing.has_read();
        }
    }

    /// What is saved of it may be out of date. Returns whether that is news.
    pub(super) fn take_note(&self) -> bool {
        !self.is_noted.swap(true, Ordering::AcqRel)
    }

    /// What is to be saved, if that changed, or if it was saved long ago: what is old is forgotten.
    pub(super) fn to_save(&self, now_ms: u64) -> Option<Saved> {
        self.is_noted.store(false, Ordering::Release);
        let mut output = self.output();
        let is_old = now_ms.saturating_sub(output.saved_ms) >= KEPT_MS / 8;
        if !std::mem::take(&mut output.is_changed) && !is_old {
            return None;
        }
        output.saved_ms = now_ms;
        Some(Saved::of(self.name.clone(), &output.chain, now_ms))
    }

    /// The same, whether it changed or not.
    pub(super) fn saved(&self, now_ms: u64) -> Saved {
        Saved::of(self.name.clone(), &self.output().chain, now_ms)
    }

    pub(super) fn directory(&self) -> &std::path::Path {
        &self.directory
    }
}

impl Output {
    /// Files that grew have longer heads.
    fn renew_heads(&mut self) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        open.into_iter().for_each(|number| self.renew_head(number));
    }

    fn renew_head(&mut self, number: u64) {
        let is_short = |link: &&Link| usize::from(link.head.length) < PRINT_BYTES;
        if self.chain.link(number).filter(is_short).is_some()
            && let Some(content) = self.open.get_mut(&number)
            && let Ok(head) = content.head()
        {
            self.chain.set_head(number, head);
        }
    }

    /// Closes files that are read to their end, and those that are no part of the chain any more.
    fn forget_closed(&mut self) {
        let Self { chain, open, formats, .. } = self;
        let done = chain.earliest().file;
        let is_wanted = |number: &u64| {
            chain.link(*number).is_some_and(|link| *number >= done && !(link.end.is_some() && chain.is_read(link)))
        };
        open.retain(|number, _| is_wanted(number));
        formats.retain(|number, _| chain.link(*number).is_some());
    }

    /// Bytes of files that are gone before they were opened, and so are lost. One look is not enough: a file that is
    /// renamed may be missed.
    fn give_up(&mut self) -> Losses {
        let is_gone = |link: &&Link| link.state != State::Present && !self.open.contains_key(&link.number);
        // Even of one that was read as far as it was seen, the end has to be known before the next one is read.
        let is_left = |link: &&Link| !self.chain.is_read(link);
        let gone: Vec<u64> =
            self.chain.links().iter().filter(is_gone).filter(is_left).map(|link| link.number).collect();
        let mut losses = Losses::default();
        for number in gone.iter().filter(|number| self.vanished.contains(number)) {
            let is_overwritten = self.chain.link(*number).is_some_and(|link| link.state == State::Overwritten);
            let bytes = self.chain.lost(*number, None).bytes;
            *(if is_overwritten { &mut losses.overwritten } else { &mut losses.removed }) += bytes;
            self.is_changed = true;
        }
        self.vanished = gone;
        losses
    }

    /// The file that is read next.
    fn next(&self) -> Option<&Link> {
        let first = self.place().file;
        self.chain.links().iter().find(|link| link.number >= first && !self.chain.is_read(link))
    }

    /// Whether there is more in a file, as far as is known, or its end has to be found.
    fn is_unread(&self, link: &Link) -> bool {
        let is_ahead = link.number >= self.chain.position().done.file && link.end.is_none();
        let has_end = link.name.is_compressed || self.chain.is_final(link.number);
        self.chain.unread(link.number) > 0 || is_ahead && has_end
    }

    /// Where the container's output begins that is not safe.
    pub(super) fn place(&self) -> Spot {
        self.chain.earliest()
    }
}
