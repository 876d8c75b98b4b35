//! What all parts of the tailer share: what pipelines want, where containers are, and the totals.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use weir_engine::{EarlyLoss, Inlet};
use weir_enrich::Pods;
use weir_legible::{LeftOut, Seldom, Warnings, names};
use weir_plan::{ContainerLogs, PipelineId};

use super::allowance::Allowance;
use super::container::Container;
use super::files::Descriptors;
use super::odd::{Line, Odd, is_odd};
use super::path::ContainerName;
use super::reading::Counts;
use super::requests::Want;
use super::status::{Board, Losses};

/// What all parts of the tailer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) inlet: Inlet,
    pub(super) pods: Arc<dyn Pods>,
    /// What each pipeline wants.
    pub(super) wanted: RwLock<Vec<(PipelineId, ContainerLogs)>>,
    pub(super) own_pod: Option<String>,
    /// Whether what the own pod prints is read all the same.
    pub(super) reads_own: AtomicBool,
    pub(super) node_name: Option<String>,
    /// The first lines of a pod wait so long for facts about it.
    pub(super) metadata_waits: Duration,
    /// A file that cannot be read is tried again after this.
    pub(super) retry_after: Duration,
    pub(super) board: Board,
    pub(super) ready: mpsc::UnboundedSender<Arc<Container>>,
    pub(super) totals: Mutex<Totals>,
    /// Containers whose checkpoints may be out of date.
    pub(super) news: Mutex<Vec<Arc<Container>>>,
    /// What the log says of containers, of which many may be in the same trouble.
    pub(super) warnings: Warnings,
    /// What it says of output that was not read as it was written.
    pub(super) odd: Mutex<Odd>,
    /// When it was said that a request is too large.
    pub(super) too_large: Mutex<Seldom>,
    pub(super) allowance: Arc<Allowance>,
    pub(super) descriptors: Arc<Descriptors>,
}

/// The figures of all containers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Containers whose output is read.
    pub containers: u64,
    /// Of the output that is safe.
    pub counts: Counts,
    /// Bytes of files that could not be read.
    pub lost: Losses,
    /// Files that were rotated while they were known.
    pub rotations: u64,
}

impl Shared {
    /// Whether any pipeline takes a container's records.
    pub(super) fn is_wanted(&self, name: &ContainerName) -> bool {
        let wanted = self.wanted.read().unwrap_or_else(PoisonError::into_inner);
        wanted.iter().any(|(_, logs)| self.takes(logs, name))
    }

    /// The pipelines that take a container's records, for the log.
    pub(super) fn pipelines_of(&self, name: &ContainerName) -> String {
        names(self.takers_of(name))
    }

    /// The same, for those who count.
    fn takers_of(&self, name: &ContainerName) -> Vec<PipelineId> {
        let wanted = self.wanted.read().unwrap_or_else(PoisonError::into_inner);
        wanted.iter().filter(|(_, logs)| self.takes(logs, name)).map(|(pipeline, _)| pipeline.clone()).collect()
    }

    /// The name of this node, unless the pod's facts have one.
    pub(super) fn node_of(&self, name: &ContainerName) -> Option<String> {
        self.node_name.clone().filter(|_| self.pods.now().node(&name.uid).is_none())
    }

    /// What the pipelines want of a container's records; nothing when none takes them. The pod's multiline setting
    /// wins.
    pub(super) fn wants(&self, name: &ContainerName) -> Vec<Want> {
        let of_pod = self.pods.now().multiline(&name.uid);
        let wanted = self.wanted.read().unwrap_or_else(PoisonError::into_inner);
        let mut wants: Vec<Want> = Vec::new();
        for logs in wanted.iter().map(|(_, logs)| logs).filter(|logs| self.takes(logs, name)) {
            let (shape, asked) = (logs.shape, logs.multiline);
            let want = Want { shape, asked, multiline: of_pod.unwrap_or(asked) };
            if !wants.contains(&want) {
                wants.push(want);
            }
        }
        wants
    }

    fn takes(&self, logs: &ContainerLogs, name: &ContainerName) -> bool {
        let is_own = self.own_pod.as_ref() == Some(&name.pod) && !self.reads_own.load(Ordering::Relaxed);
        !is_own && logs.namespaces.takes(&name.namespace) && logs.containers.takes(&name.container)
    }

    /// Notes that the checkpoint of a container may be out of date.
    pub(super) fn note(&self, container: &Arc<Container>) {
        if container.take_note() {
            self.news.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(container));
        }
    }

    /// Takes the containers that are noted and due.
    pub(super) fn take_news(&self, is_due: impl Fn(&Container) -> bool) -> Vec<Arc<Container>> {
        let news = || self.news.lock().unwrap_or_else(PoisonError::into_inner);
        // Who is being read is waited for, and nobody waits for that.
        let noted = mem::take(&mut *news());
        let (due, later): (Vec<_>, Vec<_>) = noted.into_iter().partition(|container| is_due(container));
        news().extend(later);
        due
    }

    /// A container may have unread output.
    pub(super) fn hint(&self, container: &Arc<Container>) {
        if container.take_hint() {
            // The reader is gone when the process ends.
            let _ = self.ready.send(Arc::clone(container));
        }
    }

    pub(super) fn totals(&self) -> Totals {
        let containers = self.board.containers().len() as u64;
        Totals { containers, ..*self.totals.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    pub(super) fn add(&self, add: impl FnOnce(&mut Totals)) {
        add(&mut self.totals.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds to the totals what of a container's output is safe now.
    pub(super) fn count(&self, name: &ContainerName, counts: &Counts) {
        self.add(|totals| totals.counts.add(counts));
        if is_odd(counts) {
            self.odd.lock().unwrap_or_else(PoisonError::into_inner).add(name, counts);
        }
    }

    /// Logs now and then, and when the process `ends`, what was not read as it was written.
    pub(super) fn say_what_is_odd(&self, ends: bool) {
        // Turns do not wait while it is written.
        let line = self.odd.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now(), ends);
        line.iter().for_each(Line::say);
    }

    /// Whether the log may name one more container for this reason. It is about so many bytes.
    pub(super) fn may_say(&self, reason: &'static str, bytes: u64) -> bool {
        self.warnings.may_say(reason, bytes, Instant::now())
    }

    /// Whether the log is told that a request is too large; if so, how many were since the last that it was told of.
    pub(super) fn too_large_due(&self) -> Option<u64> {
        self.too_large.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now())
    }

    /// Logs of how many containers there was more to say: once a minute, and when the process `ends`.
    pub(super) fn say_left_out(&self, ends: bool) {
        let left_out = if ends { self.warnings.all_left_out() } else { self.warnings.left_out(Instant::now()) };
        for LeftOut { reason, messages, amount } in left_out {
            tracing::warn!(
                reason,
                left_out = messages,
                bytes = amount,
                advice = "look at /logs on the admin port, which has all containers that there are",
                "more was to be said of containers than the log takes in a minute"
            );
        }
    }

    /// Adds a container's losses and rotations since the last report to the totals, and logs the losses.
    pub(super) fn report_losses(&self, container: &Container) {
        let mut progress = container.progress();
        let (lost, rotations) =
            (progress.lost.since(&progress.reported), mem::take(&mut progress.unreported_rotations));
        let begun_anew = mem::take(&mut progress.begun_anew);
        progress.reported = progress.lost;
        let counts = progress.counts;
        drop(progress);
        if lost != Losses::default() || rotations > 0 {
            self.add(|totals| {
                totals.lost.add(&lost);
                totals.rotations += rotations;
            });
        }
        self.tell_pipelines(container, &counts, &lost);
        for (reason, bytes) in lost.by_reason().into_iter().filter(|(_, bytes)| *bytes > 0) {
            if self.may_say(reason, bytes) {
                let (name, advice) = (&container.name, advice_on(reason));
                let pipelines = self.pipelines_of(name);
                tracing::error!(pipelines, container = %name, reason, bytes, advice, "container logs are lost");
            }
        }
        // Otherwise that is said already.
        if begun_anew > 0 && lost.overwritten == 0 && self.may_say("begun_anew", 0) {
            tracing::warn!(
                container = %container.name,
                files = begun_anew,
                advice = RENAME,
                "a log file was cut off or overwritten when all that was seen of it had been read; it is read from its beginning"
            );
        }
    }

    /// Counts for each pipeline that takes a container's records about how many it does not get. How many records there
    /// were in bytes that nobody has read is not known, so it is as many as there were in those that were read: of the
    /// container, or else of all of them.
    fn tell_pipelines(&self, container: &Container, counts: &Counts, lost: &Losses) {
        let Losses { removed, overwritten, unreadable, over_limit } = *lost;
        let lost = [
            (removed, EarlyLoss::Removed),
            (overwritten, EarlyLoss::Overwritten),
            (unreadable, EarlyLoss::Unreadable),
            (over_limit, EarlyLoss::OverLimit),
        ];
        if lost.iter().all(|(bytes, _)| *bytes == 0) {
            return;
        }
        let all = self.totals.lock().unwrap_or_else(PoisonError::into_inner).counts;
        let takers = self.takers_of(&container.name);
        for (bytes, why) in lost.into_iter().filter(|(bytes, _)| *bytes > 0) {
            let records = counts.records_in(bytes).or_else(|| all.records_in(bytes)).unwrap_or(bytes / LINE_BYTES);
            self.inlet.lost_early(&takers, records.max(1), why);
        }
    }
}

/// What is taken for the length of a line where none was read that tells better: a long one, so that rather too few are
/// told to be lost.
const LINE_BYTES: u64 = 512;

/// What helps against files that are cut off or overwritten.
const RENAME: &str = "rotate log files by renaming them, not by copying and cutting";

/// What to do about a loss, by its reason.
fn advice_on(reason: &str) -> &'static str {
    match reason {
        "overwritten" => RENAME,
        "unreadable" => "look at the disk, and at the kernel's log",
        "over_limit" => "mend the backend, give the pipeline a larger backlog, or raise --max-removed-logs",
        _ => {
            "mend the backend, give the pipeline a larger backlog, or let the kubelet keep more (containerLogMaxSize, containerLogMaxFiles)"
        }
    }
}
