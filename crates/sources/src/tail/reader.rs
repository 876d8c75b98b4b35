//! Who has a turn of reading, and what becomes of what was read.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{io, mem};

use tokio::sync::{mpsc, watch};
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::Instant;
use weir_engine::{Inlet, InputKind, Obstacle, Origin, Request, Verdict};
use weir_enrich::Pods;
use weir_plan::{ContainerLogs, RecordShape, Signal};

use super::allowance::{Allowance, TurnPermit};
use super::container::{Container, Wait};
use super::files::{DECODER_BYTES, Descriptors};
use super::path::ContainerName;
use super::record::ATTRIBUTES_BYTES;
use super::requests::Want;
use super::status::{Board, Losses};
use super::turn::{Reading, Counts, MOST_APART, Order, WINDOW};

/// Turns that are under way at once. Each holds what it read until that is safe.
const TURNS: usize = 32;

/// The largest request of a turn.
pub(super) const MOST_REQUEST_BYTES: usize = 1 << 20;

/// All requests of a turn: one in each shape.
const MOST_TURN_BYTES: usize = RecordShape::ALL.len() * MOST_REQUEST_BYTES;

/// No request is made smaller than this because one was too large.
const LEAST_REQUEST_BYTES: usize = 16 << 10;

/// Whoever has read all that there is has the next turn after this, so that single lines do not cost a request each.
const REST: Duration = Duration::from_millis(200);

/// Timers are not more exact.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// A turn that failed, or found no memory, is tried again after this.
const PAUSE: Duration = Duration::from_secs(1);

/// The first lines of a pod wait for what is known of it, but not longer.
const METADATA_WAITS: Duration = Duration::from_secs(2);

/// What all parts of the tailer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) inlet: Inlet,
    pub(super) pods: Arc<dyn Pods>,
    pub(super) wanted: RwLock<Vec<ContainerLogs>>,
    pub(super) own_pod: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) board: Board,
    pub(super) ready: mpsc::UnboundedSender<Arc<Container>>,
    pub(super) totals: Mutex<Totals>,
    /// Containers of which what is saved may be out of date.
    pub(super) news: Mutex<Vec<Arc<Container>>>,
    pub(super) allowance: Arc<Allowance>,
    pub(super) descriptors: Arc<Descriptors>,
}

/// What was read so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Containers whose output is read.
    pub containers: u64,
    /// What became of what is safe.
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
        wanted.iter().any(|logs| self.takes(logs, name))
    }

    /// The name of this node, unless it is known of the pod: what is known says it then.
    fn node_of(&self, name: &ContainerName) -> Option<String> {
        self.node_name.clone().filter(|_| self.pods.now().node(&name.uid).is_none())
    }

    /// What the pipelines want of a container's records; nothing when none takes them. Of lines, the pod knows best.
    fn wants(&self, name: &ContainerName) -> Vec<Want> {
        let of_pod = self.pods.now().multiline(&name.uid);
        let wanted = self.wanted.read().unwrap_or_else(PoisonError::into_inner);
        let mut wants: Vec<Want> = Vec::new();
        for logs in wanted.iter().filter(|logs| self.takes(logs, name)) {
            let (shape, asked) = (logs.shape, logs.multiline);
            let want = Want { shape, asked, multiline: of_pod.unwrap_or(asked) };
            if !wants.contains(&want) {
                wants.push(want);
            }
        }
        wants
    }

    fn takes(&self, logs: &ContainerLogs, name: &ContainerName) -> bool {
        let is_own = self.own_pod.as_ref() == Some(&name.pod);
        !is_own && logs.namespaces.takes(&name.namespace) && logs.containers.takes(&name.container)
    }

    /// What is saved of a container may be out of date.
    pub(super) fn note(&self, container: &Arc<Container>) {
        if container.take_note() {
            self.news.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(container));
        }
    }

    /// Something may be there to be read.
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

    fn add(&self, add: impl FnOnce(&mut Totals)) {
        add(&mut self.totals.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds what a container lost since the last time, and how often its files were rotated, and tells the log.
    pub(super) fn tell_losses(&self, container: &Container) {
        let mut progress = container.progress();
        let (lost, rotations) = (progress.lost.since(&progress.told), mem::take(&mut progress.untold_rotations));
        progress.told = progress.lost;
        drop(progress);
        if lost != Losses::default() || rotations > 0 {
            self.add(|totals| {
                totals.lost.add(&lost);
                totals.rotations += rotations;
            });
        }
        for (reason, bytes) in lost.by_reason().into_iter().filter(|(_, bytes)| *bytes > 0) {
            tracing::error!(container = %container.name, reason, bytes, "container logs are lost");
        }
    }
}

/// How a turn ended.
enum End {
    /// There is more.
    More,
    /// There is no more now.
    Idle,
    /// It is to be tried again after this long.
    Again(Duration),
}

/// Gives turns to containers, first come, first served.
pub(super) struct Reader {
    shared: Arc<Shared>,
    ready: mpsc::UnboundedReceiver<Arc<Container>>,
    turns: JoinSet<End>,
    /// The containers whose turns these are.
    active: HashMap<task::Id, Arc<Container>>,
    /// Those that rest, in the order in which they get up.
    resting: VecDeque<(Instant, Arc<Container>)>,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, ready: mpsc::UnboundedReceiver<Arc<Container>>) -> Self {
        Self { shared, ready, turns: JoinSet::new(), active: HashMap::new(), resting: VecDeque::new() }
    }

    /// Runs until it is stopped; then what is under way is finished.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let gets_up = self.resting.front().map(|(at, _)| *at);
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                Some(container) = self.ready.recv(), if self.turns.len() < TURNS => self.begin(container),
                Some(ended) = self.turns.join_next_with_id() => self.end(ended),
                () = until(gets_up) => {
                    if let Some((_, container)) = self.resting.pop_front() {
                        // It is queued already.
                        let _ = self.shared.ready.send(container);
                    }
                }
            }
        }
        while self.turns.join_next().await.is_some() {}
    }

    fn begin(&mut self, container: Arc<Container>) {
        container.begin_turn();
        let (shared, active) = (Arc::clone(&self.shared), Arc::clone(&container));
        let turn = self.turns.spawn(async move { turn(&shared, &active).await });
        self.active.insert(turn.id(), container);
    }

    fn end(&mut self, ended: Result<(task::Id, End), JoinError>) {
        let (id, end) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "a turn of reading panicked: this is a bug in weir");
                (error.id(), End::Again(PAUSE))
            }
        };
        let Some(container) = self.active.remove(&id) else { return };
        match end {
            End::More => {
                container.end_turn(true);
                let _ = self.shared.ready.send(container);
            }
            End::Idle => {
                if container.end_turn(false) {
                    self.rest(container, REST);
                }
            }
            End::Again(pause) => {
                container.end_turn(true);
                self.rest(container, pause);
            }
        }
    }

    fn rest(&mut self, container: Arc<Container>, pause: Duration) {
        let at = Instant::now() + pause;
        let index = self.resting.partition_point(|(earlier, _)| *earlier <= at);
        self.resting.insert(index, (at, container));
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// One turn of a container: reads, offers and, when all of it is safe, moves on.
async fn turn(shared: &Arc<Shared>, container: &Arc<Container>) -> End {
    let wants = shared.wants(&container.name);
    if wants.is_empty() {
        return End::Idle;
    }
    if let Some(pause) = waits_for_metadata(shared, container) {
        container.waits_for(Wait::Metadata);
        return End::Again(pause);
    }
    container.waits_for(Wait::Memory);
    let most = container.output().most_bytes.unwrap_or(MOST_REQUEST_BYTES).min(shared.inlet.max_request_bytes());
    // However many are made, together they are not larger.
    let most = most.min(MOST_TURN_BYTES / wants.len());
    let wanted = turn_bytes(wants.len(), most);
    let largest = turn_bytes(1, MOST_TURN_BYTES);
    let Some(mut permit) = shared.allowance.reserve(&shared.inlet, wanted).await else { return End::Again(PAUSE) };
    container.waits_for(Wait::Disk);
    let order = Order {
        wants: wants.clone(),
        node: shared.node_of(&container.name),
        most_bytes: most,
        now_nanos: unix_nanos(),
    };
    let end = match read(container, order).await {
        Ok(reading) => offer(shared, container, (reading, wants), &mut permit).await,
        Err(error) => failed(shared, container, &error),
    };
    container.keep_inflating(permit.keep(DECODER_BYTES, largest, &shared.inlet));
    end
}

/// What the container wrote cannot be read now.
fn failed(shared: &Shared, container: &Arc<Container>, error: &io::Error) -> End {
    container.waits_for(Wait::Unreadable(error.to_string()));
    let (is_first, given_up) = container.failed();
    shared.note(container);
    let name = &container.name;
    if is_first {
        tracing::warn!(container = %name, %error, "cannot read what the container wrote; trying again");
    }
    if let Some(bytes) = given_up {
        tracing::error!(container = %name, bytes, %error, "the rest of a log file cannot be read and is given up");
    }
    End::Again(PAUSE)
}

/// What a turn takes: the window, parts of lines that are joined, lines of stack traces (which grow as they are joined),
/// text that is made of bytes, what JSON becomes, what it takes to inflate, and the requests.
fn turn_bytes(requests: usize, most: usize) -> usize {
    WINDOW + 4 * MOST_APART + ATTRIBUTES_BYTES + DECODER_BYTES + requests * most
}

/// Until when a pod that is not known keeps its first lines waiting.
fn waits_for_metadata(shared: &Shared, container: &Container) -> Option<Duration> {
    let is_known = shared.pods.now().knows(&container.name.uid).unwrap_or(true);
    let left = METADATA_WAITS.saturating_sub(container.age());
    (!is_known && !left.is_zero()).then_some(left.min(REST))
}

/// Reads on a thread that may wait for the disk.
async fn read(container: &Arc<Container>, order: Order) -> io::Result<Reading> {
    let container = Arc::clone(container);
    task::spawn_blocking(move || container.read(&order)).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn unix_nanos() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// The request was too large: the next one is smaller.
fn smaller(container: &Container, length: usize, cause: &str) -> End {
    let most_bytes = (length / 2).max(LEAST_REQUEST_BYTES);
    if container.output().most_bytes.replace(most_bytes) != Some(most_bytes) {
        tracing::warn!(container = %container.name, length, most_bytes, cause, "a request of log lines is too large");
        return End::Again(REST);
    }
    End::Again(PAUSE)
}

fn words(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Full => "they have no room",
        Obstacle::DiskFails => "backends do not take it, and the data directory cannot be written to",
        Obstacle::DiskHangs => "backends do not take it, and the disk of the data directory does not answer",
        Obstacle::Busy => "they are busy",
        Obstacle::Repeated => "some of it is not decided yet",
    }
}

/// Offers what was read. Only when all of it is safe, the container moves on.
async fn offer(
    shared: &Shared,
    container: &Arc<Container>,
    (reading, wants): (Reading, Vec<Want>),
    turn_permit: &mut TurnPermit,
) -> End {
    let Reading { mut requests, position, guard, counts, is_more, waits } = reading;
    container.waits_for(Wait::Answer);
    requests.iter_mut().for_each(|(_, bytes)| bytes.shrink_to_fit());
    turn_permit.shrink_to(requests.iter().map(|(_, bytes)| bytes.capacity()).chain([DECODER_BYTES]));
    for (want, bytes) in requests {
        let length = bytes.len();
        let Some(permit) = turn_permit.part(bytes.capacity()) else { return End::Again(PAUSE) };
        let input = InputKind::ContainerLogs(want.shape, want.asked);
        let request = match Request::new(Signal::Logs, bytes, permit, Origin::of(input)) {
            Ok(request) => request,
            Err(error) => {
                tracing::error!(container = %container.name, %error, "made a request that is not valid: this is a bug in weir");
                return End::Again(PAUSE);
            }
        };
        match shared.inlet.offer(request).await {
            Verdict::Secured => {}
            // The pipelines change: it is read again for those there will be.
            Verdict::NotServed => return End::Again(REST),
            Verdict::Refused(obstacle, after) => {
                container.waits_for(Wait::Refused(words(obstacle)));
                return End::Again(after);
            }
            Verdict::NoMemory => {
                container.waits_for(Wait::Memory);
                return End::Again(PAUSE);
            }
            Verdict::TooLarge(cause) => return smaller(container, length, &cause),
        }
    }
    if shared.wants(&container.name) != wants {
        // Somebody wants it in another form now. Others get it again.
        return End::Again(REST);
    }
    container.commit(position, guard, &counts);
    shared.note(container);
    shared.add(|totals| totals.counts.add(&counts));
    match waits {
        // What comes meanwhile does not wait longer than if nothing was kept back.
        Some(left) => End::Again(left.clamp(LEAST_WAIT, REST)),
        None if is_more => End::More,
        None => End::Idle,
    }
}
