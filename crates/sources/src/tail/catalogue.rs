//! The known containers: they are taken up when they appear, looked at when something changed, and forgotten.

mod kept;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::MemoryPart;
use weir_legible::Seldom;

use super::chain::Chain;
use super::checkpoint::{Saved, encode_removal};
use super::container::{CONTAINER_BYTES, Container};
use super::path::ContainerName;
use super::saver::checkpoint;
use super::shared::Shared;
use super::status::unix_ms;
use super::tree::Audience;
pub(super) use kept::Kept;

/// Something may change with time alone, such as a file that becomes final. It is looked at again after this.
const SETTLES_AFTER: Duration = Duration::from_millis(1_100);

/// The state of all containers and their files takes at most one part in so many of the memory, so that there is some to
/// read with.
const PART_FOR_CONTAINERS: usize = 2;

/// At most so many containers wait for memory: each takes some 2 KiB, which is not paid for. Others are looked at when
/// one of these has got memory.
const MOST_WAITING: usize = 1000;

/// All containers that are known.
pub(super) struct Catalogue {
    pub(super) shared: Arc<Shared>,
    directory: PathBuf,
    /// For the state of containers.
    memory: MemoryPart,
    /// Checkpoints of containers that are not read now.
    pub(super) kept: Kept,
    /// Lines for the checkpoint file, of containers that are not read any more.
    pub(super) lines: Vec<u8>,
    /// The kernel gives no hints of some files.
    pub(super) has_links: bool,
    /// Whether new containers are read from the end of their files.
    pub(super) starts_at_end: bool,
    /// Containers for which there is no memory.
    untaken: HashSet<ContainerName>,
    /// How many more the last look at all directories found.
    passed_over: u64,
    /// When to look again.
    unsettled: HashMap<ContainerName, Instant>,
    started: Instant,
    started_ms: u64,
    reported: Reported,
}

/// What the log is told now and then, each for itself.
#[derive(Debug, Default)]
struct Reported {
    /// Something could not be looked at.
    failure: Seldom,
    /// Containers wait for memory.
    waiting: Seldom,
    /// Too many of them do.
    passed_over: Seldom,
    /// One was gone before there was any.
    missed: Seldom,
    /// There was none for how far one was read.
    forgotten: Seldom,
}

impl Catalogue {
    pub(super) fn new(shared: Arc<Shared>, directory: PathBuf, saved: BTreeMap<ContainerName, Saved>) -> Self {
        let kept = Kept::new(saved, &shared.inlet);
        let memory = shared.inlet.memory_part(shared.inlet.memory() / PART_FOR_CONTAINERS);
        Self {
            shared,
            directory,
            memory,
            kept,
            lines: Vec::new(),
            has_links: false,
            starts_at_end: false,
            untaken: HashSet::new(),
            passed_over: 0,
            unsettled: HashMap::new(),
            started: Instant::now(),
            started_ms: unix_ms(),
            reported: Reported::default(),
        }
    }

    /// How many containers there is no memory for.
    pub(super) fn without_memory(&self) -> u64 {
        self.untaken.len() as u64 + self.passed_over
    }

    /// Whether one that was passed over may wait for memory now.
    pub(super) fn has_place_again(&self) -> bool {
        self.passed_over > 0 && self.untaken.len() < MOST_WAITING
    }

    /// Whether a container is known, or may wait until it can be.
    fn has_place(&mut self, name: &ContainerName) -> bool {
        let is_known = self.untaken.contains(name) || self.shared.board.containers().contains_key(name);
        if is_known || self.untaken.len() < MOST_WAITING {
            return true;
        }
        self.passed_over += 1;
        if self.passed_over == 1
            && let Some(left_out) = self.reported.passed_over.due(Instant::now())
        {
            tracing::error!(
                container = %name,
                waiting = MOST_WAITING,
                left_out,
                advice = "give weir more --memory",
                "more containers than may wait for memory are passed over"
            );
        }
        false
    }

    /// Containers that are gone since an earlier process saved their checkpoints were not read to their end.
    pub(super) fn look_for_missing(&mut self) {
        let is_gone = |name: &&ContainerName| !self.directory.join(name.to_string()).exists();
        let missing: Vec<ContainerName> =
            self.kept.all().map(|saved| &saved.container).filter(is_gone).cloned().collect();
        missing.iter().for_each(|name| self.changed(name));
    }

    /// How far containers were read that nobody wanted for long is not kept any longer.
    pub(super) fn expire(&mut self) {
        let Self { kept, shared, lines, .. } = self;
        let expired = kept.expire(unix_ms(), |name| shared.is_wanted(name));
        expired.iter().for_each(|name| lines.extend(encode_removal(name)));
    }

    pub(super) fn look_at_unsettled(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.unsettled.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.unsettled.remove(&name);
            self.changed(&name);
        }
    }

    /// No pipeline wants its output any more. Its checkpoint is kept, in case a pipeline wants it again.
    fn retire(&mut self, name: &ContainerName) {
        let Some(container) = self.shared.board.containers().get(name).cloned() else { return };
        if !container.is_idle() {
            self.unsettled.insert(name.clone(), Instant::now() + SETTLES_AFTER);
            return;
        }
        let (saved, bytes) = (container.saved(unix_ms()), container.progress().counts.bytes);
        self.lines.extend(checkpoint(&saved).into_iter().flatten());
        self.shared.board.containers().remove(name);
        drop(container);
        if !self.kept.keep(saved) {
            if let Some(left_out) = self.reported.forgotten.due(Instant::now()) {
                tracing::warn!(
                    container = %name,
                    bytes,
                    left_out,
                    advice = "give weir more --memory",
                    "there is no memory for how far its logs were read; they are read again"
                );
            }
            self.lines.extend(encode_removal(name));
        }
    }

    /// Milliseconds since the Unix epoch, by the clock of the start: these never go back.
    fn now_ms(&self) -> u64 {
        self.started_ms.saturating_add(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// A container that is new to this process; `None` when there is no memory for it.
    fn take_up(&mut self, name: &ContainerName) -> Option<Arc<Container>> {
        let Some(paid) = self.memory.try_reserve(CONTAINER_BYTES) else {
            self.unsettled.insert(name.clone(), Instant::now() + SETTLES_AFTER);
            if self.untaken.insert(name.clone())
                && self.untaken.len() == 1
                && let Some(left_out) = self.reported.waiting.due(Instant::now())
            {
                tracing::error!(
                    container = %name,
                    waiting = self.without_memory(),
                    memory = self.memory.memory(),
                    left_out,
                    advice = "give weir more --memory",
                    "there is no memory to read the logs of more containers; they wait"
                );
            }
            return None;
        };
        self.untaken.remove(name);
        let saved = self.kept.take(name);
        let is_first = saved.is_none();
        let chain = saved.map_or_else(Chain::default, Saved::into_chain);
        let container = Arc::new(Container::new(
            name.clone(),
            &self.directory,
            chain,
            Some(paid),
            Arc::clone(&self.shared.descriptors),
        ));
        if self.starts_at_end && is_first {
            container.leave_out_what_is_there(self.now_ms());
        }
        self.shared.note(&container);
        self.shared.board.containers().insert(name.clone(), Arc::clone(&container));
        Some(container)
    }

    fn look(&mut self, container: &Arc<Container>) {
        let name = &container.name;
        let look = match container.look(self.now_ms()) {
            Ok(look) => look,
            Err(error) => {
                self.unsettled.insert(name.clone(), Instant::now() + SETTLES_AFTER);
                if container.cannot_look(&error) {
                    self.failed(&self.directory.join(name.to_string()), &error);
                }
                return;
            }
        };
        if !look.is_unchanged {
            self.shared.note(container);
            self.shared.report_losses(container);
        }
        self.has_links |= look.has_links;
        if look.is_over {
            self.shared.board.containers().remove(name);
            self.lines.extend(encode_removal(name));
            return;
        }
        if look.is_unsettled {
            self.unsettled.insert(name.clone(), Instant::now() + SETTLES_AFTER);
        }
        if look.is_unread {
            self.shared.hint(container);
        }
    }
}

impl Audience for Catalogue {
    fn begins(&mut self) {
        self.passed_over = 0;
    }

    fn wants(&mut self, name: &ContainerName) -> bool {
        self.shared.is_wanted(name) && self.has_place(name)
    }

    fn changed(&mut self, name: &ContainerName) {
        if !self.shared.is_wanted(name) {
            return self.retire(name);
        }
        let known = self.shared.board.containers().get(name).cloned();
        if let Some(container) = known.or_else(|| self.take_up(name)) {
            self.look(&container);
        }
    }

    fn written(&mut self, name: &ContainerName) {
        let known = self.shared.board.containers().get(name).cloned();
        known.iter().for_each(|container| self.shared.hint(container));
    }

    /// A turn reads no file that has an end: only a look finds what was added to it. One look is for all that is written
    /// until then.
    fn written_late(&mut self, name: &ContainerName) {
        self.written(name);
        self.unsettled.entry(name.clone()).or_insert_with(|| Instant::now() + SETTLES_AFTER);
    }

    fn gone(&mut self, name: &ContainerName) {
        if self.untaken.remove(name)
            && let Some(left_out) = self.reported.missed.due(Instant::now())
        {
            // Nobody knows how much they had written.
            tracing::error!(
                pipelines = self.shared.pipelines_of(name),
                container = %name,
                containers = left_out + 1,
                waiting = self.without_memory(),
                left_out,
                advice = "give weir more --memory",
                "a container is gone before there was memory to read its logs"
            );
        }
        if !self.shared.is_wanted(name) {
            return self.retire(name);
        }
        let known = self.shared.board.containers().get(name).cloned();
        known.iter().for_each(|container| self.look(container));
    }

    fn failed(&mut self, path: &Path, error: &io::Error) {
        let Some(left_out) = self.reported.failure.due(Instant::now()) else { return };
        tracing::warn!(
            path = %path.display(),
            %error,
            left_out,
            advice = "look whether the directory is mounted, and who may read it",
            "cannot look for container logs"
        );
    }
}
