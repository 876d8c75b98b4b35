//! A node: what the operator tells it, and what it has to know of the cluster.
//!
//! `configuration` reads the Secret of the operator, `keep` cuts objects down to what is used, `objects` has their
//! documents, `local` makes facts of what is around the node, and `cluster` states of what is in the cluster; `wants`
//! says what is watched at all. All of them are pure, but for the texts that pods share in `local`. `watch` talks to the
//! API server, and `tasks` runs the watches. `page` is what a node says of itself.
//!
//! Invariants:
//! - **NODE-1** What was seen last stays true until something else is seen: without the API server, a node goes on.
//! - **NODE-2** Of Secrets, only the operator's own is read.
//! - **NODE-3** Only the node that holds the Lease speaks for the cluster, and it stops before another may begin.

mod cluster;
mod configuration;
mod keep;
mod local;
mod objects;
pub(crate) mod page;
mod tasks;
mod wants;
mod watch;

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::{Notify, watch as cell};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use weir_plan::{ClusterFacts, ClusterState};

pub use configuration::{Configuration, Settings};
pub use page::{BackendOfPage, NodePage, PAGE, PipelineOfPage, most_frequent, most_page_bytes};
pub use wants::Wants;

pub use crate::changed_by::{Manager, Origin};
pub use crate::operator::names::CONFIGURATION;

use crate::lease::Leadership;
use cluster::Cluster;
use local::Local;
use watch::Progress;

/// A Lease is given back within this time, or ends by itself.
const FAREWELL: Duration = Duration::from_secs(2);

/// Who watches.
#[derive(Debug, Clone)]
pub struct Options {
    /// The namespace of the operator and of the nodes.
    pub namespace: String,
    /// The name of this node.
    pub node_name: String,
    /// Of this process, among those that may speak for the cluster; a random number is added.
    pub identity: String,
    /// Whether it serves clients of all nodes, and so has to know the pods of all nodes.
    pub all_pods: bool,
}

/// What a process does, which says what it has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Takes what clients push.
    pub gateway: bool,
    /// Reads what containers print.
    pub logs: bool,
    /// Scrapes targets, and collects metrics of nodes and workloads.
    pub metrics: bool,
}

impl Roles {
    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            gateway: self.gateway || other.gateway,
            logs: self.logs || other.logs,
            metrics: self.metrics || other.metrics,
        }
    }

    /// As they are typed, and as the operator reads them.
    pub fn names(self) -> Vec<&'static str> {
        let all = [(self.gateway, "gateway"), (self.logs, "logs"), (self.metrics, "metrics")];
        all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
    }
}

/// What is known of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Of pods of this node, and of the cluster.
    pub facts: ClusterFacts,
    /// What metrics tell: of this node, or of the whole cluster where this node speaks for it.
    pub state: Arc<ClusterState>,
}

/// Something new.
#[derive(Debug)]
pub enum Seen {
    /// What the operator says; an error if nobody understands it.
    Configuration(Result<Arc<Configuration>, String>),
    /// What is known of the cluster.
    Facts(Facts),
}

/// For whom something is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// For this node.
    Node,
    /// For the whole cluster, by the one that speaks for it.
    Cluster,
}

/// How something is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchFigures {
    /// The kind.
    pub watched: &'static str,
    /// For whom.
    pub scope: Scope,
    /// Objects that are known.
    pub objects: u64,
    /// Changes that were seen.
    pub events: u64,
    /// How often all were listed.
    pub lists: u64,
    /// Failures.
    pub errors: u64,
    /// Since the last change or list.
    pub silence: Duration,
}

/// Watches, until it is dropped or stopped.
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    configuration: cell::Receiver<Told>,
    facts: cell::Receiver<Facts>,
    wants: cell::Sender<Wants>,
    stop: cell::Sender<bool>,
    campaign: JoinHandle<()>,
    _tasks: JoinSet<()>,
}

/// What the Secret says, or what is wrong with it; nothing before it was seen.
type Told = Option<Result<Arc<Configuration>, String>>;

/// What all tasks share.
#[derive(Debug)]
struct Shared {
    local: Mutex<Local>,
    cluster: Mutex<Cluster>,
    /// Of the local objects, or of the cluster's.
    changed: [Notify; 2],
    /// All pods of this node were seen.
    has_listed_pods: AtomicBool,
    /// And facts were made of them.
    has_pods: cell::Sender<bool>,
    /// All that is wanted of the cluster is known.
    is_complete: AtomicBool,
    leadership: Leadership,
    progress: Mutex<BTreeMap<(Scope, &'static str), Arc<Progress>>>,
}

impl Node {
    /// Begins to watch. Needs a tokio runtime. The API server may be away.
    pub fn start(client: &Client, options: Options) -> Self {
        tasks::start(client, options)
    }

    /// What the operator says next; an error if nobody understands it. May be dropped and called again.
    pub async fn configuration(&mut self) -> Result<Arc<Configuration>, String> {
        loop {
            if self.configuration.changed().await.is_err() {
                pending::<()>().await;
            }
            if let Some(told) = &*self.configuration.borrow_and_update() {
                return told.clone();
            }
        }
    }

    /// What is new: facts, or what the operator says unless that has to wait. Changes of facts that follow each other
    /// closely come together. May be dropped and called again.
    pub async fn news(&mut self, configuration_waits: bool) -> Seen {
        let changed = tokio::select! {
            changed = self.configuration.changed(), if !configuration_waits => changed.map(|()| true),
            changed = self.facts.changed() => changed.map(|()| false),
        };
        match (changed, self.configuration.borrow().clone()) {
            (Ok(true), Some(told)) => Seen::Configuration(told),
            (Ok(_), _) => Seen::Facts(self.facts.borrow_and_update().clone()),
            (Err(_), _) => pending().await,
        }
    }

    /// What is known now.
    pub fn known(&mut self) -> Facts {
        self.facts.borrow_and_update().clone()
    }

    /// Waits until the pods that are wanted are known, but not for long.
    pub async fn settle(&mut self, patience: Duration) {
        if !self.wants.borrow().pods {
            return;
        }
        let mut has_pods = self.shared.has_pods.subscribe();
        // Nobody needs to be told: the log says that the API server is away.
        let _ = timeout(patience, has_pods.wait_for(|has| *has)).await;
    }

    /// Watches this from now on.
    pub fn want(&self, wants: Wants) {
        self.wants.send_if_modified(|known| {
            let differs = *known != wants;
            *known = wants;
            differs
        });
    }

    /// What says whether this process speaks for the cluster at a moment.
    pub fn speaks(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.speaks()
    }

    /// What gives figures, whoever asks.
    pub fn figures(&self) -> impl Fn() -> Figures + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.figures()
    }

    /// Ends, and gives back the Lease.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // If the API server does not answer, the Lease ends by itself.
        let _ = timeout(FAREWELL, &mut self.campaign).await;
        self.campaign.abort();
    }
}

/// How all watches are, and whether this process leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// By what is watched.
    pub watches: Vec<WatchFigures>,
    /// Whether it speaks for the cluster.
    pub leads: bool,
}

impl Shared {
    /// NODE-3.
    fn speaks(&self) -> bool {
        self.is_complete.load(Ordering::Acquire) && self.leadership.leads()
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts of what is watched, since the start.
    fn progress(&self, scope: Scope, watched: &'static str) -> Arc<Progress> {
        let mut all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry((scope, watched)).or_default())
    }

    fn figures(&self) -> Figures {
        let all: Vec<_> = self
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(which, progress)| (*which, Arc::clone(progress)))
            .collect();
        let watches = all.into_iter().map(|((scope, watched), progress)| WatchFigures {
            watched,
            scope,
            objects: match scope {
                Scope::Cluster => self.cluster().count(watched) as u64,
                Scope::Node => self.local().count(watched) as u64,
            },
            events: progress.events.load(Ordering::Relaxed),
            lists: progress.lists.load(Ordering::Relaxed),
            errors: progress.errors.load(Ordering::Relaxed),
            silence: progress.silence(),
        });
        Figures { watches: watches.collect(), leads: self.speaks() }
    }
}
