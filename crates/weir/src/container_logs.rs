//! Container logs as a source of the gateway.

use std::collections::HashSet;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use weir_engine::Inlet;
use weir_enrich::{PodList, Pods};
use weir_plan::Plan;
use weir_sources::tail::{Board, Checkpoints, Settings, StartAt, Tail, Wanted};

use crate::cli::{LogsStartAt, ProcessArgs, Role};
use crate::downward::{self, node_name};
use crate::explain;

/// Where the kubelet has them.
pub(crate) const DIRECTORY: &str = "/var/log/pods";

/// Reads what containers print as soon as some pipeline wants it. From then on it goes on, and reads nothing while no
/// pipeline wants anything.
pub(crate) struct LogAgent {
    args: Arc<ProcessArgs>,
    /// The directory of checkpoints; `None` keeps positions in memory.
    state: Option<PathBuf>,
    /// Shows how containers are read.
    board: Board,
    /// What it is about to begin with.
    ready: Option<(PathBuf, Checkpoints)>,
    tail: Option<Tail>,
    /// The log says why nothing is read.
    has_said_why_not: bool,
    /// Whether what this process prints is read, too.
    reads_own: bool,
}

impl LogAgent {
    /// Checks what the command line says of container logs.
    pub(crate) fn new(args: Arc<ProcessArgs>, board: Board) -> anyhow::Result<Self> {
        if !args.allows(Role::Logs) && args.pod_logs.is_some() {
            bail!("cannot read what --pod-logs names: --roles leaves out logs");
        }
        if must_read(&args) {
            find(&args)?;
        }
        Ok(Self { args, state: None, board, ready: None, tail: None, has_said_why_not: false, reads_own: false })
    }

    /// Whether what this process prints is read, too, from now on.
    pub(crate) fn read_own(&mut self, reads: bool) {
        self.reads_own = reads;
        if let Some(tail) = &self.tail {
            tail.read_own(reads);
        }
    }

    /// Keeps checkpoints in this directory.
    pub(crate) fn keep_in(&mut self, state: PathBuf) {
        self.state = Some(state);
    }

    /// Finds out whether it can read what the pipelines of this plan want. Call this before anything begins with the
    /// plan.
    pub(crate) fn prepare(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let wants = plan.pipelines.iter().any(|pipeline| pipeline.input.container_logs.is_some());
        if !wants || self.tail.is_some() || self.ready.is_some() || !self.args.allows(Role::Logs) {
            return Ok(());
        }
        self.ready = match find(&self.args) {
            Ok(directory) => Some((directory, Checkpoints::open(self.state.as_deref())?)),
            Err(error) if must_read(&self.args) => return Err(error),
            Err(error) => {
                self.say_why_not(&error);
                None
            }
        };
        Ok(())
    }

    /// The usual directory may be missing, or be there for somebody else.
    fn say_why_not(&mut self, error: &anyhow::Error) {
        if mem::replace(&mut self.has_said_why_not, true) {
            return;
        }
        if Path::new(DIRECTORY).exists() {
            tracing::warn!(
                advice = "look whether the directory of --pod-logs is mounted, and who may read it",
                "container logs are not read: {}",
                explain(error)
            );
        } else {
            tracing::info!("container logs are not read: there is no {DIRECTORY}; --pod-logs names another directory");
        }
    }

    /// Reads for the pipelines of this plan from now on. Returns what was wanted before.
    pub(crate) fn read_for(&mut self, plan: &Plan, inlet: Inlet, pods: &Arc<PodList>) -> anyhow::Result<Wanted> {
        if let Some(tail) = &self.tail {
            return Ok(tail.reload(plan));
        }
        if let Some((directory, checkpoints)) = self.ready.take() {
            let settings = self.settings(directory);
            let pods = Arc::clone(pods) as Arc<dyn Pods>;
            self.tail = Some(Tail::start_from(checkpoints, settings, plan, inlet, pods)?);
        }
        Ok(Wanted::default())
    }

    /// Goes back to what was wanted before.
    pub(crate) fn restore(&self, wanted: Wanted) {
        if let Some(tail) = &self.tail {
            tail.restore(wanted);
        }
    }

    fn settings(&self, directory: PathBuf) -> Settings {
        if self.state.is_none() {
            tracing::warn!(
                advice = "name a directory with --data-dir",
                "container logs are read from their beginning at each start, because there is no data directory"
            );
        }
        tracing::info!(pod_logs = %directory.display(), "container logs are read for pipelines with runtime input");
        let start_at = match self.args.logs_start_at {
            LogsStartAt::Beginning => StartAt::Beginning,
            LogsStartAt::End => StartAt::End,
        };
        Settings {
            state: self.state.clone(),
            own_pod: downward::pod_name(),
            reads_own: self.reads_own,
            node_name: node_name(&self.args),
            start_at,
            max_removed_bytes: self.args.max_removed_logs as u64,
            board: self.board.clone(),
            ..Settings::new(directory)
        }
    }

    /// The uids of the pods of which lines may not be safe yet.
    pub(crate) fn pods_in_use(&self) -> HashSet<String> {
        self.tail.as_ref().map(Tail::pods_in_use).unwrap_or_default()
    }

    /// Ends in good order.
    pub(crate) async fn stop(&mut self) {
        if let Some(tail) = self.tail.take() {
            tail.stop().await;
        }
    }
}

/// Whether it is a mistake if there is nothing to read: somebody named the directory, or the process is for nothing else.
fn must_read(args: &ProcessArgs) -> bool {
    args.pod_logs.is_some() || (args.names(Role::Logs) && !args.names(Role::Gateway))
}

/// The directory that the command line names, or the usual one, if it can be listed.
fn find(args: &ProcessArgs) -> anyhow::Result<PathBuf> {
    let directory = args.pod_logs.as_deref().unwrap_or(Path::new(DIRECTORY));
    let cannot = || format!("cannot read container logs in {}: name a directory with --pod-logs", directory.display());
    fs::read_dir(directory).with_context(cannot)?;
    std::path::absolute(directory).context("cannot find out what the current directory is")
}
