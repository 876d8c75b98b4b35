//! Container logs: what the containers of a node write, read from the files that the kubelet and the runtime keep.
//!
//! A container's output is a chain of files (`chain`): those that were rotated away, oldest first, then the one that is
//! written now. Bytes become lines (`line`), lines entries (`join`), the entries of a stack trace one (`multiline`,
//! `traces`), and entries log records (`record`), in as many requests as pipelines want different ones (`requests`).
//! Reading has no state but a position (`join::Position`): each turn begins where the position says, and the position
//! moves when the engine says that the records are safe. The positions of all containers are in the checkpoints
//! (`checkpoint`).
//!
//! How all that goes is on a board (`status`), which others read, too; once a second it is surveyed (`survey`).
//!
//! One thread looks (`looker`): it lists the directories (`tree`), when the kernel hints at a change (`hints`) and from
//! time to time, and brings what is there together with what is known of each container (`container`, `catalogue`). One task reads
//! (`reader`): container after container has its turn (`turn`), whose requests go to the engine's inlet.

mod allowance;
mod catalogue;
mod chain;
mod changed;
mod checkpoint;
mod container;
mod files;
mod hints;
mod identity;
mod join;
mod line;
mod looker;
mod multiline;
mod offer;
mod path;
mod reader;
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

use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use weir_engine::Inlet;
use weir_enrich::Pods;
use weir_plan::{ContainerLogs, Plan};

use allowance::Allowance;
use catalogue::Catalogue;
use files::Descriptors;
use hints::Hints;
use looker::Looker;
use reader::Reader;
use saver::Opened;
use shared::Shared;
use survey::Bounds;
use tree::Tree;

pub use shared::Totals;
pub use status::{Activity, Board, ContainerStatus, Losses, Stuck, inspect};
pub use turn::Counts;

/// What to read, and with what.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of all pods, usually `/var/log/pods`.
    pub directory: PathBuf,
    /// Where it is kept how far was read; `None` keeps it in memory, and a new process reads everything again.
    pub state: Option<PathBuf>,
    /// The name of the pod that this process runs in. Its output is not read, because reading it makes more of it.
    pub own_pod: Option<String>,
    /// The name of the node, for pods of which it is not known otherwise.
    pub node_name: Option<String>,
    /// What is read on a first start.
    pub start_at: StartAt,
    /// Removed files that are open take no more of the disk than this; then the oldest are given up.
    pub max_removed_bytes: u64,
    /// It is told when nothing of a container was read for so long although there is something.
    pub patience: Duration,
    /// Where it is to be seen how containers are read.
    pub board: Board,
}

/// Where reading begins when nothing is known of any container. What comes later is always read from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// All that is there is read.
    Beginning,
    /// What was written before is left out.
    End,
}

impl Settings {
    /// With the usual bounds: everything is read.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            state: None,
            own_pod: None,
            node_name: None,
            start_at: StartAt::Beginning,
            max_removed_bytes: MAX_REMOVED_BYTES,
            patience: PATIENCE,
            board: Board::default(),
        }
    }
}

/// The usual limit of what removed files take of the disk, in bytes: it holds some minutes of a busy node's output while no
/// backend takes anything, and no disk is filled by it.
pub const MAX_REMOVED_BYTES: u64 = 1 << 30;

/// Pipelines answer within seconds, also when they refuse. Who waits longer than this needs help.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why reading did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be kept how far was read.
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

/// Reads what containers write, until it is stopped.
#[derive(Debug)]
pub struct Tail {
    shared: Arc<Shared>,
    is_rewanted: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    reader: JoinHandle<()>,
    looker: Option<thread::JoinHandle<()>>,
}

impl Tail {
    /// Starts to read for the pipelines of a plan. Needs a tokio runtime.
    ///
    /// # Errors
    /// When how far was read cannot be kept, for example because another process keeps it there.
    pub fn start(settings: Settings, plan: &Plan, inlet: Inlet, pods: Arc<dyn Pods>) -> Result<Self, StartError> {
        let Settings { directory, state, own_pod, node_name, start_at, max_removed_bytes, patience, board } = settings;
        let Opened { saver, saved, is_first } = saver::open(state.as_deref())?;
        let (ready, queue) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            inlet,
            pods,
            wanted: RwLock::new(wanted(plan)),
            own_pod,
            node_name,
            board,
            ready,
            totals: Mutex::default(),
            news: Mutex::default(),
            allowance: Arc::<Allowance>::default(),
            descriptors: Arc::new(Descriptors::of_process()),
        });
        let hints = Hints::new().inspect_err(|error| {
            tracing::warn!(%error, "the kernel gives no hints about container logs; they are looked for every second");
        });
        let (stop, stopped) = watch::channel(false);
        let reader = tokio::spawn(Reader::new(Arc::clone(&shared), queue).run(stopped));
        let is_rewanted = Arc::new(AtomicBool::new(false));
        let mut catalogue = Catalogue::new(Arc::clone(&shared), directory.clone(), saved);
        catalogue.starts_at_end = is_first && start_at == StartAt::End;
        let bounds = Bounds { removed_bytes: max_removed_bytes, patience };
        let tree = Tree::new(directory, hints.ok());
        let looker = Looker::new(catalogue, tree, saver, bounds, Arc::clone(&is_rewanted));
        let ends = reader.abort_handle();
        let run = move || looker.run(&|| ends.is_finished());
        let looker = thread::Builder::new().name("container logs".into()).spawn(run).map_err(StartError::Thread)?;
        Ok(Self { shared, is_rewanted, stop, reader, looker: Some(looker) })
    }

    /// Reads for the pipelines of this plan from now on. Whatever is still wanted goes on where it is. To be called before
    /// the engine runs the plan: lines that it does not take yet are read again, and none is missed. Returns what was
    /// wanted before.
    pub fn reload(&self, plan: &Plan) -> Wanted {
        self.want(wanted(plan))
    }

    /// Reads what was wanted before, because the engine does not run the plan.
    pub fn restore(&self, before: Wanted) {
        let Wanted(_) = self.want(before.0);
    }

    fn want(&self, wanted: Vec<ContainerLogs>) -> Wanted {
        let before = mem::replace(&mut *self.shared.wanted.write().unwrap_or_else(PoisonError::into_inner), wanted);
        self.is_rewanted.store(true, Ordering::Release);
        Wanted(before)
    }

    /// What was read so far.
    pub fn totals(&self) -> Totals {
        self.shared.totals()
    }

    /// Stops reading, waits until what was read is safe or refused, and saves how far that is.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = (&mut self.reader).await;
        if let Some(looker) = self.looker.take() {
            let _ = tokio::task::spawn_blocking(move || looker.join()).await;
        }
    }
}

/// What pipelines wanted at some time.
#[derive(Debug)]
#[must_use = "it is needed if the engine does not run the plan"]
pub struct Wanted(Vec<ContainerLogs>);

/// What pipelines want of what containers write.
fn wanted(plan: &Plan) -> Vec<ContainerLogs> {
    plan.pipelines.iter().filter_map(|pipeline| pipeline.input.container_logs.clone()).collect()
}
