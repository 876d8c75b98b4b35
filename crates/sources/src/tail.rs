//! Container logs: what the containers of a node write, read from the files that the kubelet and the runtime keep.
//!
//! A container's output is a chain of files (`chain`): those that were rotated away, oldest first, then the one that is
//! written now. Bytes become lines (`line`), lines entries (`join`), the entries of a stack trace one (`multiline`,
//! `traces`), and entries log records (`record`), in as many requests as pipelines want different ones (`requests`).
//! Reading has no state but a position (`join::Position`): each turn begins at the position, and the position moves
//! when the engine answers that the records are safe. Saved positions are checkpoints (`checkpoint`, `checkpoint_file`,
//! `saver`).
//!
//! A board shows the progress of each container (`status`); a survey sums it up once a second (`survey`).
//!
//! One thread looks (`looker`): it lists the directories (`tree`), when the kernel hints at a change (`hints`) and from
//! time to time, and matches the listings with the containers (`container`, `catalogue`). One task gives turns to
//! containers (`turns`). A turn (`turn`) reads (`reading`) and offers requests to the engine's inlet.

mod allowance;
mod catalogue;
mod chain;
mod changed;
mod checkpoint;
mod checkpoint_file;
mod container;
mod files;
mod hints;
mod identity;
mod join;
mod line;
mod looker;
mod multiline;
mod odd;
mod path;
mod reading;
mod record;
mod requests;
mod saver;
mod scan;
mod shared;
mod status;
mod survey;
mod traces;
mod tree;
mod turn;
mod turns;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use weir_engine::Inlet;
use weir_enrich::Pods;
use weir_legible::Warnings;
use weir_plan::{ContainerLogs, Pipeline, PipelineId, Plan};

use allowance::Allowance;
use catalogue::Catalogue;
use files::Descriptors;
use hints::Hints;
use looker::Looker;
use saver::Opened;
use shared::Shared;
use survey::Bounds;
use tree::Tree;
use turns::Turns;

pub use reading::Counts;
pub use shared::Totals;
pub use status::{Activity, Board, ContainerStatus, CurrentFile, FurthestBehind, Losses, Stuck, inspect};

/// What to read, and with what.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of all pods, usually `/var/log/pods`.
    pub directory: PathBuf,
    /// The directory of checkpoints; `None` keeps positions in memory, and a new process reads everything again.
    pub state: Option<PathBuf>,
    /// The name of the pod that this process runs in. Its output is not read, because reading it would produce more.
    pub own_pod: Option<String>,
    /// Its output is read all the same.
    pub reads_own: bool,
    /// The name of this node, for pods without a known node.
    pub node_name: Option<String>,
    /// What is read on a first start.
    pub start_at: StartAt,
    /// Removed files that are open take no more of the disk than this; then the oldest are given up.
    pub max_removed_bytes: u64,
    /// A container with unread output is stuck when nothing of it becomes safe for so long.
    pub patience: Duration,
    /// The first lines of a pod that is not in the list of pods wait so long for it.
    pub metadata_waits: Duration,
    /// A file that cannot be read is tried again after this, thirty times.
    pub retry_after: Duration,
    /// Shows how containers are read.
    pub board: Board,
}

/// Where reading begins when there are no checkpoints. Later files are always read from their beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// At the beginning of all files.
    Beginning,
    /// At the end of all files.
    End,
}

impl Settings {
    /// With the usual bounds: everything is read.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            state: None,
            own_pod: None,
            reads_own: false,
            node_name: None,
            start_at: StartAt::Beginning,
            max_removed_bytes: MAX_REMOVED_BYTES,
            patience: PATIENCE,
            metadata_waits: METADATA_WAITS,
            retry_after: RETRY_AFTER,
            board: Board::default(),
        }
    }
}

/// The usual limit of the disk space of removed files, in bytes. It holds some minutes of a busy node's output while no
/// backend takes anything, and does not fill a disk.
pub const MAX_REMOVED_BYTES: u64 = 1 << 30;

/// Pipelines answer within seconds, even if they refuse. A container that waits longer needs help.
const PATIENCE: Duration = Duration::from_secs(30);

/// The list of pods has a new pod within a second or so.
const METADATA_WAITS: Duration = Duration::from_secs(2);

/// A disk that is busy, or a file that is being replaced, can be read within half a minute.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why reading did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Checkpoints cannot be kept.
    #[error("cannot keep checkpoints of container logs: {0}")]
    State(String),
    /// There is nothing to read.
    #[error("cannot read the directory of container logs {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// No thread.
    #[error("cannot start the thread that looks for container logs: {0}")]
    Thread(io::Error),
}

/// The positions that earlier processes saved. No other process can use them now.
pub struct Checkpoints(Opened);

impl Checkpoints {
    /// Opens those in a directory of state; without one, positions are kept in memory.
    ///
    /// # Errors
    /// When checkpoints cannot be read or kept, for example because another process uses the directory.
    pub fn open(state: Option<&Path>) -> Result<Self, StartError> {
        saver::open(state).map(Self)
    }

    /// Whether another process keeps its positions in this directory now.
    pub fn are_held(state: &Path) -> bool {
        checkpoint_file::is_held(state)
    }
}

impl fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoints").field("containers", &self.0.saved.len()).finish_non_exhaustive()
    }
}

/// Reads what containers write, until it is stopped.
#[derive(Debug)]
pub struct Tail {
    shared: Arc<Shared>,
    is_rewanted: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    turns: JoinHandle<()>,
    looker: Option<thread::JoinHandle<()>>,
}

impl Tail {
    /// Starts to read for the pipelines of a plan. Needs a tokio runtime.
    ///
    /// # Errors
    /// When checkpoints cannot be kept, for example because another process uses the directory.
    pub fn start(settings: Settings, plan: &Plan, inlet: Inlet, pods: Arc<dyn Pods>) -> Result<Self, StartError> {
        let checkpoints = Checkpoints::open(settings.state.as_deref())?;
        Self::start_from(checkpoints, settings, plan, inlet, pods)
    }

    /// The same from checkpoints that are open, those of `settings.state`.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn start_from(
        checkpoints: Checkpoints,
        settings: Settings,
        plan: &Plan,
        inlet: Inlet,
        pods: Arc<dyn Pods>,
    ) -> Result<Self, StartError> {
        let Checkpoints(Opened { saver, saved, is_first }) = checkpoints;
        let (ready, queue) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            inlet,
            pods,
            wanted: RwLock::new(wanted(plan)),
            own_pod: settings.own_pod,
            reads_own: AtomicBool::new(settings.reads_own),
            node_name: settings.node_name,
            metadata_waits: settings.metadata_waits,
            retry_after: settings.retry_after,
            board: settings.board,
            ready,
            totals: Mutex::default(),
            news: Mutex::default(),
            warnings: Warnings::default(),
            odd: Mutex::default(),
            too_large: Mutex::default(),
            allowance: Arc::<Allowance>::default(),
            descriptors: Arc::new(Descriptors::of_process()),
        });
        let hints = Hints::new().inspect_err(|error| {
            tracing::warn!(
                %error,
                advice = "raise the sysctl fs.inotify.max_user_instances",
                "the kernel gives no hints about container logs; they are looked for every second"
            );
        });
        let (stop, stopped) = watch::channel(false);
        let turns = tokio::spawn(Turns::new(Arc::clone(&shared), queue).run(stopped));
        let is_rewanted = Arc::new(AtomicBool::new(false));
        let mut catalogue = Catalogue::new(Arc::clone(&shared), settings.directory.clone(), saved);
        catalogue.starts_at_end = is_first && settings.start_at == StartAt::End;
        let bounds = Bounds { removed_bytes: settings.max_removed_bytes, patience: settings.patience };
        let tree = Tree::new(settings.directory, hints.ok());
        let looker = Looker::new(catalogue, tree, saver, bounds, Arc::clone(&is_rewanted));
        let ends = turns.abort_handle();
        let run = move || looker.run(&|| ends.is_finished());
        let looker = thread::Builder::new().name("container logs".into()).spawn(run).map_err(StartError::Thread)?;
        Ok(Self { shared, is_rewanted, stop, turns, looker: Some(looker) })
    }

    /// Reads for the pipelines of this plan from now on. Containers that are still wanted go on from their positions.
    /// Call this before the engine runs the plan: lines that it does not take yet are read again, and none is missed.
    /// Returns what was wanted before.
    pub fn reload(&self, plan: &Plan) -> Wanted {
        self.want(wanted(plan))
    }

    /// Whether the output of the own pod is read from now on. What it wrote before is read, too.
    pub fn read_own(&self, reads: bool) {
        if self.shared.reads_own.swap(reads, Ordering::Relaxed) != reads {
            self.is_rewanted.store(true, Ordering::Release);
        }
    }

    /// Goes back to what was wanted before, because the engine does not run the plan.
    pub fn restore(&self, before: Wanted) {
        let Wanted(_) = self.want(before.0);
    }

    fn want(&self, wanted: Vec<(PipelineId, ContainerLogs)>) -> Wanted {
        let before = mem::replace(&mut *self.shared.wanted.write().unwrap_or_else(PoisonError::into_inner), wanted);
        self.is_rewanted.store(true, Ordering::Release);
        Wanted(before)
    }

    /// The uids of the pods of which lines may not be safe yet.
    pub fn pods_in_use(&self) -> HashSet<String> {
        self.shared.board.containers().keys().map(|name| name.uid.clone()).collect()
    }

    /// The figures so far.
    pub fn totals(&self) -> Totals {
        self.shared.totals()
    }

    /// Stops reading, waits until turns under way are safe or refused, and saves the positions.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = (&mut self.turns).await;
        if let Some(looker) = self.looker.take() {
            let _ = tokio::task::spawn_blocking(move || looker.join()).await;
        }
    }
}

/// What pipelines wanted at some time; by default nothing.
#[derive(Debug, Default)]
#[must_use = "it is needed if the engine does not run the plan"]
pub struct Wanted(Vec<(PipelineId, ContainerLogs)>);

/// What each pipeline of a plan wants of container logs.
fn wanted(plan: &Plan) -> Vec<(PipelineId, ContainerLogs)> {
    let wanted = |of: &Pipeline| Some((of.id.clone(), of.input.container_logs.clone()?));
    plan.pipelines.iter().filter_map(wanted).collect()
}
