//! `weir node`: a gateway with its agents on a node of a cluster. What the cluster says is in `weir-kubernetes`; what moves
//! data is shared with `weir run`.

mod page;
mod report;
mod saved;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use weir_engine::admin::Route;
use weir_engine::{Inlet, Probes};
use weir_kubernetes::Client;
use weir_kubernetes::node::{self, Configuration, Facts, Node, Roles, Seen, Settings, Wants};
use weir_plan::{MEMORY_PER_PIPELINE, Plan};
use weir_resources::{Loaded, LogOutputs, Report, Source};
use weir_sources::runtime::Speaks;
use weir_sources::tail::Checkpoints;

use crate::changed_by;
use crate::cli::{LogLevel, ProcessArgs, Role};
use crate::configuration::options;
use crate::data_dir;
use crate::downward::node_name;
use crate::findings;
use crate::gateway::{self, End};
use crate::handover::{self, HandoverSocket, Successor};
use crate::health::Verdicts;
use crate::host::{Host, News, Place, Reading, Trigger, Version};
use crate::limits;
use crate::logging;
use crate::page::Provenance;
use crate::run;
use crate::signals::Signals;
use page::ServedNodePage;
use saved::Saved;

const EXAMPLES: &str = "\
Examples:
  weir node --listen 0.0.0.0 --data-dir /var/lib/weir                       in a pod, as the operator's DaemonSet says
  weir node --kubeconfig ~/.kube/config --node-name n1 --no-data-dir        on your machine, for development

The configuration is in the Secret telemetry-node, which `weir operator` writes. What is needed of the environment is \
in docs/node.md, the rights in the cluster are in docs/kubernetes.md.";

/// The API server may take so long until the configuration of an earlier process is used, or facts are not waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Between two looks whether another process still reads logs.
const LOOK_EVERY: Duration = Duration::from_millis(50);
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NodeArgs {
    /// Where the operator lives
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "kyma-system", value_parser = NonEmptyStringValueParser::new())]
    namespace: String,
    /// How to reach the API server from outside of a cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// What identifies this process among nodes; a random number is added
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "weir-node")]
    pod_name: String,
    /// The pod that this process is in: a newer one takes over the data directory, and an older one does not [default: each
    /// process is one of its own]
    #[arg(long, env = "POD_UID", value_name = "UID", value_parser = NonEmptyStringValueParser::new())]
    pod_uid: Option<String>,
    /// Know the pods of all nodes, not of this one alone: for a gateway that serves clients of the whole cluster
    #[arg(long)]
    all_pods: bool,
    #[command(flatten)]
    process: ProcessArgs,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: NodeArgs) -> anyhow::Result<ExitCode> {
    let NodeArgs { namespace, kubeconfig, pod_name, pod_uid, all_pods, process } = args;
    let process = Arc::new(process);
    let Some(node_name) = node_name(&process) else {
        bail!("cannot watch the pods of this node: name it with --node-name, or in the environment as NODE_NAME");
    };
    // A process that nobody gave an id is one of its own.
    let id = pod_uid.unwrap_or_else(|| format!("{:016x}", fastrand::u64(..)));
    run::block_on(&process, async || {
        let mut signals = Signals::new()?;
        limits::raise_file_limit();
        let client = weir_kubernetes::client(kubeconfig.as_deref()).await?;
        let options = node::Options { namespace, node_name, identity: pod_name, all_pods };
        loop {
            let host = ClusterNode::new(&client, options.clone(), Arc::clone(&process), id.clone());
            match gateway::run(Arc::clone(&process), host, &mut signals).await? {
                End::Stopped(code) => return Ok(code),
                End::HandedOver(successor, code) => {
                    if rest(&process, successor, &mut signals).await {
                        return Ok(code);
                    }
                    tracing::warn!(
                        advice = "look why it ended: its log has the last word",
                        "the process that took over is gone; going on"
                    );
                }
            }
        }
    })
}

/// Nothing is left to do but to be there. True when a signal ends it, and false when the other process is gone.
async fn rest(process: &ProcessArgs, mut successor: Successor, signals: &mut Signals) -> bool {
    let probes = Probes::bind(process.listen, process.health_port, "handed_over").await;
    match &probes {
        Ok(probes) => tracing::info!(health = %probes.address(), "resting until a signal"),
        Err(error) => {
            tracing::warn!(%error, advice = "look who has the port of --health-port", "cannot answer probes any more")
        }
    }
    let ends = tokio::select! {
        () = signals.next() => true,
        () = successor.gone() => false,
    };
    if ends {
        tracing::info!("stopping: clients are asked to go elsewhere");
        successor.farewell().await;
    }
    if let Ok(probes) = probes {
        probes.end().await;
    }
    ends
}

/// A node of a cluster.
struct ClusterNode {
    node: Node,
    process: Arc<ProcessArgs>,
    /// Who this process is, among those that use the data directory.
    id: String,
    handover: Option<HandoverSocket>,
    saved: Saved,
    /// What is told now, which may not run yet.
    told: Option<Arc<Configuration>>,
    loading: Reading<(Trigger, Result<Loaded, Report>)>,
    page: ServedNodePage,
    reporter: Option<JoinHandle<()>>,
}

impl ClusterNode {
    fn new(client: &Client, options: node::Options, process: Arc<ProcessArgs>, id: String) -> Self {
        let node = Node::start(client, options);
        let saved = Saved::of(data_dir::directory(&process).ok().flatten().as_deref());
        let page = ServedNodePage::new(roles(&process));
        let loading = Reading::default();
        Self { node, process, id, handover: None, saved, told: None, loading, page, reporter: None }
    }

    /// Takes up what holds for the process, and says what documents to load.
    fn hear(
        &mut self,
        trigger: Trigger,
        told: Arc<Configuration>,
    ) -> impl FnOnce() -> (Trigger, Result<Loaded, Report>) + Send + 'static {
        let level = told.settings.log_level.as_deref().and_then(|level| LogLevel::from_str(level, true).ok());
        logging::set_level(level);
        tracing::debug!(revision = told.revision.as_str(), bytes = told.text.len(), "the configuration was heard");
        self.told = Some(Arc::clone(&told));
        move || (trigger, load(&told))
    }

    /// What runs first: what the API server says, or what an earlier process had if the API server does not answer.
    async fn begin(&mut self) -> (Trigger, Loaded) {
        let mut saved = self.saved.read();
        let patience = Instant::now() + PATIENCE;
        loop {
            let told = tokio::select! {
                told = self.node.configuration() => told.map(|told| (Trigger::Secret(version(&told)), told)),
                () = sleep_until(patience), if saved.is_some() => {
                    tracing::warn!(
                        waited_s = PATIENCE.as_secs(),
                        advice = "look whether the API server answers and the operator runs",
                        "no configuration that can be used; beginning with the last good one"
                    );
                    saved.take().map(|told| (Trigger::Saved(version(&told)), told)).ok_or_else(String::new)
                }
            };
            let loaded = match told {
                Ok((trigger, told)) => {
                    let (trigger, loaded) = self.hear(trigger, told)();
                    loaded.map(|loaded| (trigger, loaded)).map_err(|report| {
                        findings::log(&report.diagnostics);
                        format!("{} findings", report.diagnostics.len())
                    })
                }
                Err(error) => Err(error),
            };
            let most = gateway::memory(&self.process) / MEMORY_PER_PIPELINE;
            let fits = |first: (Trigger, Loaded)| match first.1.plan.pipelines.len() {
                count if count > most => Err(format!("{count} pipelines; --memory is enough for {most}")),
                _ => Ok(first),
            };
            match loaded.and_then(fits) {
                Ok(first) => return first,
                Err(error) => tracing::error!(
                    error,
                    advice = "look at the conditions of the pipelines, and at the operator's log",
                    "cannot use the configuration; waiting for another one"
                ),
            }
        }
    }

    /// The same documents with what is known of the cluster.
    fn with_facts(&mut self, mut loaded: Loaded) -> Loaded {
        let Facts { facts, state } = self.node.known();
        loaded.cluster = facts;
        loaded.state = Arc::unwrap_or_clone(state);
        loaded
    }
}

impl Host for ClusterNode {
    async fn first(&mut self) -> anyhow::Result<(Trigger, Loaded)> {
        let waiting = Probes::bind(self.process.listen, self.process.health_port, "waiting_for_configuration").await;
        let waiting = waiting.context("cannot answer probes; choose another port with --health-port")?;
        let (trigger, loaded) = self.begin().await;
        self.node.want(Wants::of(&loaded.plan, roles(&self.process)));
        self.node.settle(PATIENCE).await;
        waiting.end().await;
        Ok((trigger, self.with_facts(loaded)))
    }

    async fn news(&mut self) -> News {
        loop {
            tokio::select! {
                seen = self.node.news(!self.loading.is_idle()) => match seen {
                    Seen::Facts(facts) => return News::Facts(facts),
                    Seen::Configuration(Err(error)) => {
                        return News::Unreadable(Trigger::Secret(Version::default()), error);
                    }
                    Seen::Configuration(Ok(told)) => {
                        let load = self.hear(Trigger::Secret(version(&told)), told);
                        self.loading.begin("the configuration", load);
                    }
                },
                (trigger, loaded) = self.loading.done() => {
                    let loaded = loaded.map(|loaded| self.with_facts(loaded));
                    return News::Configuration(trigger, Box::new(loaded));
                }
                successor = HandoverSocket::successor(&mut self.handover) => return News::Successor(successor),
            }
        }
    }

    async fn place(&mut self, args: &ProcessArgs) -> anyhow::Result<Place> {
        let Some(dir) = data_dir::directory(args)? else { return Ok(Place { data_dir: None, predecessor: None }) };
        let shown = dir.display();
        handover::enter(&dir, &self.id).with_context(|| format!("cannot use the data directory {shown}"))?;
        let (data_dir, predecessor) = handover::take(&dir, &self.id, || data_dir::open(args)).await?;
        match HandoverSocket::open(&dir, self.id.clone()) {
            Ok(socket) => self.handover = Some(socket),
            Err(error) => tracing::error!(
                %error,
                data_dir = %shown,
                advice = "make its path shorter than 100 bytes and the directory writable",
                "no other process can take over: end this one by hand before an update"
            ),
        }
        self.saved.keep();
        if args.allows(Role::Logs) {
            until_free(&data_dir::positions(args, &dir)).await;
        }
        Ok(Place { data_dir, predecessor })
    }

    fn runs(&mut self, plan: &Plan, _: LogOutputs, inlet: &Inlet) {
        self.node.want(Wants::of(plan, roles(&self.process)));
        if let Some(told) = &self.told {
            let revision = told.revision.as_str();
            tracing::debug!(revision, pipelines = plan.pipelines.len(), "the configuration is in use");
            self.page.set(&told.revision);
            self.saved.save(Arc::clone(told));
        }
        if self.reporter.is_none() {
            self.reporter = Some(tokio::spawn(report::again_and_again(self.node.figures(), inlet.clone())));
        }
    }

    fn provenance(&self) -> Provenance {
        let told = self.told.as_deref();
        let changers = told.map(changed_by::told).unwrap_or_default();
        Provenance { changers, overrides: told.map(|told| overrides(&told.settings)).unwrap_or_default() }
    }

    fn reads_own(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.settings.collect_agent_logs)
    }

    fn speaks(&self) -> Option<Speaks> {
        Some(Speaks::when(self.node.speaks()))
    }

    fn pages(&self, verdicts: &Verdicts) -> Vec<Route> {
        vec![Route::new(node::PAGE, self.page.showing(verdicts))]
    }

    async fn end(self) {
        let Self { node, handover, saved, reporter, .. } = self;
        drop(handover);
        if let Some(reporter) = reporter {
            reporter.abort();
            // It has what keeps the data directory.
            let _ = reporter.await;
        }
        tokio::join!(node.stop(), saved.end());
    }
}

/// Waits until nobody else reads the logs of this node: another pod may be about to leave that to this one.
async fn until_free(positions: &Path) {
    let mut is_said = false;
    while Checkpoints::are_held(positions) {
        if !std::mem::replace(&mut is_said, true) {
            tracing::info!(positions = %positions.display(), "another process reads the logs of containers; waiting until it ends");
        }
        sleep(LOOK_EVERY).await;
    }
}

/// What the operator overrides, in words.
fn overrides(settings: &Settings) -> Vec<String> {
    let Settings { log_level, collect_agent_logs } = settings;
    let level = log_level.as_ref().map(|level| format!("log level {level}"));
    level.into_iter().chain(collect_agent_logs.then(|| "reads its own logs, too".to_owned())).collect()
}

fn roles(process: &ProcessArgs) -> Roles {
    let [gateway, logs, metrics] = [Role::Gateway, Role::Logs, Role::Metrics].map(|role| process.allows(role));
    Roles { gateway, logs, metrics }
}

fn version(told: &Configuration) -> Version {
    Version { revision: Some(told.revision.clone()), resource_version: told.resource_version.clone() }
}

/// The API server sees to it that the kind of an output does not change. A pipeline that was made anew may have another one.
fn load(told: &Configuration) -> Result<Loaded, Report> {
    let source = Source { name: format!("Secret {}", node::CONFIGURATION), text: told.text.clone() };
    // Without a pipeline there is nothing to do, which is no mistake: the operator decides who runs.
    weir_resources::load(&[source], &options(false))
}
