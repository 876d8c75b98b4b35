//! Container logs as a source of the gateway.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use weir_engine::Engine;
use weir_enrich::{PodList, Pods};
use weir_plan::Plan;
use weir_sources::tail::{Board, Settings, StartAt, Tail};

use crate::cli::{LogsStartAt, Role, RunArgs};

/// Where the kubelet has them.
pub(crate) const DIRECTORY: &str = "/var/log/pods";

/// Where a pod finds the name of its node, if whoever runs it wants it to; the second is that of Kyma's agents.
const NODE_NAMES: [&str; 2] = ["NODE_NAME", "MY_NODE_NAME"];

/// Where reading leaves its state.
pub(crate) struct Place {
    /// The directory of checkpoints; `None` keeps positions in memory.
    pub(crate) state: Option<PathBuf>,
    /// Shows how containers are read.
    pub(crate) board: Board,
}

/// Reads the directory that the command line names, or the usual one if it exists.
pub(crate) fn start(
    args: &RunArgs,
    place: Place,
    plan: &Plan,
    engine: &Engine,
    pods: &Arc<PodList>,
) -> anyhow::Result<Option<Tail>> {
    if !args.has(Role::Logs) {
        if args.pod_logs.is_some() {
            bail!("cannot read what --pod-logs names: --roles leaves out logs");
        }
        return Ok(None);
    }
    let is_all = !args.has(Role::Gateway);
    let directory = args.pod_logs.clone().or_else(|| Some(DIRECTORY.into()).filter(|usual: &PathBuf| usual.is_dir()));
    let Some(directory) = directory else {
        if is_all {
            bail!("nothing to do with --roles logs: there is no {DIRECTORY}; --pod-logs names another directory");
        }
        if plan.pipelines.iter().any(|pipeline| pipeline.input.container_logs.is_some()) {
            tracing::info!("container logs are not read: there is no {DIRECTORY}; --pod-logs names another directory");
        }
        return Ok(None);
    };
    if let Err(error) = check(&directory) {
        // The usual directory may be there for somebody else.
        if args.pod_logs.is_some() || is_all {
            return Err(error);
        }
        tracing::warn!("{error:#}");
        return Ok(None);
    }
    let directory = std::path::absolute(&directory).context("cannot find out what the current directory is")?;
    if place.state.is_none() {
        tracing::warn!(
            "container logs are read from their beginning at each start, because there is no data directory"
        );
    }
    tracing::info!(pod_logs = %directory.display(), "container logs are read for pipelines with runtime input");
    let start_at = match args.logs_start_at {
        LogsStartAt::Beginning => StartAt::Beginning,
        LogsStartAt::End => StartAt::End,
    };
    let settings = Settings {
        state: place.state,
        own_pod: variable("HOSTNAME"),
        node_name: args.node_name.clone().or_else(|| NODE_NAMES.into_iter().find_map(variable)),
        start_at,
        max_removed_bytes: args.max_removed_logs as u64,
        board: place.board,
        ..Settings::new(directory)
    };
    Ok(Some(Tail::start(settings, plan, engine.inlet(), Arc::clone(pods) as Arc<dyn Pods>)?))
}

fn variable(name: &str) -> Option<String> {
    env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

fn check(directory: &Path) -> anyhow::Result<()> {
    let named = || format!("cannot read container logs in {}: name a directory with --pod-logs", directory.display());
    std::fs::read_dir(directory).map(drop).with_context(named)
}
