//! Finds containers and their files, and saves how far they were read.

mod schedule;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use weir_engine::Inlet;
use weir_enrich::Pods;
use weir_plan::{ContainerLogs, Plan};

use super::catalogue::Catalogue;
use super::checkpoint::file::{Error, Store};
use super::checkpoint::{Replayed, Saved, encode, is_worn};
use super::files::Descriptors;
use super::hints::Hints;
use super::path::ContainerName;
use super::reader::{Reader, Shared, Totals};
use super::status::{Board, unix_ms};
use super::survey::{Bounds, survey};
use super::tree::Tree;
use super::turn::Counts;
use schedule::{Due, Schedule};

/// How long a look waits for hints, and so how late other work may be.
const TICK: Duration = Duration::from_millis(100);

/// The log says this often what was odd in what was read.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// How all containers are read is found out this often.
const SURVEY_EVERY: Duration = Duration::from_secs(1);

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
    #[error("cannot keep how far container logs are read: {0}")]
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
        let Opened { store, saved, is_first } = open(state.as_deref())?;
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
            allowance: Arc::default(),
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
        let looker = Looker {
            catalogue,
            tree: Tree::new(directory, hints.ok()),
            store,
            live_bytes: 0,
            is_unsaved: false,
            is_rewanted: Arc::clone(&is_rewanted),
            bounds: Bounds { removed_bytes: max_removed_bytes, patience },
        };
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

    /// The uids of the pods of which lines may not be safe yet.
    pub fn pods_in_use(&self) -> HashSet<String> {
        self.shared.board.containers().keys().map(|name| name.uid.clone()).collect()
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

/// What is known from an earlier process.
struct Opened {
    store: Option<Store>,
    saved: BTreeMap<ContainerName, Saved>,
    /// Nothing was ever known.
    is_first: bool,
}

fn open(state: Option<&Path>) -> Result<Opened, StartError> {
    let Some(state) = state else { return Ok(Opened { store: None, saved: BTreeMap::new(), is_first: true }) };
    let fresh = format!("{:x}", unix_ms());
    let (store, replayed) = Store::open(state, &fresh).map_err(|error| StartError::State(error.to_string()))?;
    let Replayed { containers, damage, torn_tail, left_out, store: known, .. } = replayed;
    let is_first = known.is_none() && containers.is_empty() && damage.is_empty();
    for damage in damage {
        let (line, offset, reason) = (damage.line, damage.offset, damage.reason);
        tracing::warn!(line, offset, %reason, "how far container logs were read is damaged; some are read again");
    }
    if left_out > 0 {
        tracing::error!(
            left_out,
            "there is more of how far container logs were read than memory for it; some are read again"
        );
    }
    if let Some(bytes) = torn_tail {
        tracing::info!(?bytes, "the last line of how far container logs were read was not complete");
    }
    if is_first {
        let id = store.id();
        tracing::info!(state = %state.display(), id, "nothing is known of container logs yet; this is a first start");
    }
    Ok(Opened { store: Some(store), saved: containers, is_first })
}

/// The thread that looks.
struct Looker {
    catalogue: Catalogue,
    tree: Tree,
    store: Option<Store>,
    /// What the store had when it was last written anew.
    live_bytes: u64,
    /// Something could not be saved.
    is_unsaved: bool,
    is_rewanted: Arc<AtomicBool>,
    bounds: Bounds,
}

impl Looker {
    fn run(mut self, has_ended: &dyn Fn() -> bool) {
        let (mut reconciled, mut schedule) = (None::<Instant>, Schedule::new(Instant::now()));
        let (mut said, mut said_counts) = (Instant::now(), Counts::default());
        let mut surveyed = None::<Instant>;
        loop {
            let ends = has_ended();
            if let Some(due) = schedule.due(Instant::now(), ends) {
                self.save(due);
            }
            if ends || surveyed.is_none_or(|at| at.elapsed() >= SURVEY_EVERY) {
                survey(&self.catalogue.shared, self.bounds, self.catalogue.without_memory());
                surveyed = Some(Instant::now());
            }
            if said.elapsed() >= SAY_EVERY || ends {
                said = Instant::now();
                say_what_is_odd(&self.catalogue.shared.totals().counts, &mut said_counts);
            }
            if ends {
                return;
            }
            let is_rewanted = self.is_rewanted.swap(false, Ordering::AcqRel);
            if is_rewanted {
                self.tree.forget_lists();
            }
            let pause = self.tree.reconcile_after(self.catalogue.has_links || self.catalogue.has_place_again());
            if is_rewanted || reconciled.is_none_or(|at| at.elapsed() >= pause) {
                self.tree.reconcile(&mut self.catalogue);
                if reconciled.replace(Instant::now()).is_none() {
                    self.catalogue.look_for_missing();
                    self.catalogue.expire();
                    // What comes from now on is new.
                    self.catalogue.starts_at_end = false;
                }
            }
            self.catalogue.look_at_unsettled();
            if let Err(error) = self.tree.wait(TICK, &mut self.catalogue) {
                tracing::warn!(%error, "cannot wait for hints about container logs");
                thread::park_timeout(TICK);
            }
        }
    }

    fn save(&mut self, due: Due) {
        let Due { sync: is_due, renewal: is_renewed } = due;
        if is_renewed {
            self.catalogue.expire();
        }
        let Some(store) = &mut self.store else { return };
        let shared = &self.catalogue.shared;
        let mut news = mem::take(&mut *shared.news.lock().unwrap_or_else(PoisonError::into_inner));
        let mut lines = mem::take(&mut self.catalogue.lines);
        // Where nothing happens, it costs nothing to find that out. What was written before may have to be synced.
        let has_news = !news.is_empty() || !lines.is_empty() || is_renewed || self.is_unsaved;
        if !has_news && (!is_due || store.sync().is_ok()) {
            return;
        }
        let all = || shared.board.containers().values().cloned().collect::<Vec<_>>();
        if is_renewed {
            news = all();
        }
        let now = unix_ms();
        for container in &news {
            container.to_save(now).iter().for_each(|saved| lines.extend(encode(saved)));
        }
        let saved = write(store, &lines, is_due).and_then(|()| {
            if !self.is_unsaved && !is_worn(store.size(), self.live_bytes) {
                return Ok(());
            }
            let kept = self.catalogue.kept.all().map(encode);
            store.compact(all().iter().map(|container| encode(&container.saved(now))).chain(kept))?;
            self.live_bytes = store.size();
            Ok(())
        });
        match saved {
            Ok(()) => self.is_unsaved = false,
            // Then all of it is written anew.
            Err(error) => {
                if !mem::replace(&mut self.is_unsaved, true) {
                    tracing::warn!(%error, "cannot save how far container logs were read; trying again");
                }
            }
        }
    }
}

/// What was not read as it was written, if there is more of it than the log has said.
fn say_what_is_odd(counts: &Counts, said: &mut Counts) {
    let odd = |counts: &Counts| Counts { records: 0, bytes: 0, ..*counts };
    if odd(counts) == odd(said) {
        return;
    }
    *said = *counts;
    let Counts { malformed, unparsed, cut, shortened, nul_bytes, .. } = *counts;
    tracing::warn!(
        malformed,
        unparsed,
        cut,
        shortened,
        nul_bytes,
        "some container logs are not what they should be; the figures are since the start"
    );
}

fn write(store: &mut Store, lines: &[u8], is_due: bool) -> Result<(), Error> {
    if !lines.is_empty() {
        store.append(lines)?;
    }
    if is_due { store.sync() } else { Ok(()) }
}
