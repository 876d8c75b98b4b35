//! Metrics of nodes and workloads as a source of the gateway.

use std::env;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_engine::Inlet;
use weir_plan::{ClusterState, Plan};
use weir_sources::runtime::{Kubelet, RuntimeAgent, Settings, Speaks};
use weir_sources::scrape::TargetBoard;

use crate::cli::{ProcessArgs, Role, RuntimeArgs, Switch};
use crate::downward::{node_ip, node_name};

/// Where Kubernetes puts the token of a pod's service account.
const SERVICE_ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The port that kubelets have, unless somebody changes it.
const KUBELET_PORT: u16 = 10250;

/// Makes metrics as soon as some pipeline wants them, or there is a status to tell.
pub(crate) struct RuntimeMetrics {
    args: Arc<ProcessArgs>,
    board: TargetBoard,
    agent: Option<RuntimeAgent>,
    /// The log says that there is no kubelet.
    is_said: bool,
    /// Who speaks for the cluster, if that is decided by an election.
    speaks: Option<Speaks>,
}

impl RuntimeMetrics {
    /// `board`: where it is shown how the kubelet is reached.
    pub(crate) fn new(args: Arc<ProcessArgs>, board: TargetBoard, speaks: Option<Speaks>) -> Self {
        Self { args, board, agent: None, is_said: false, speaks }
    }

    /// Makes metrics for the pipelines of this plan, which the engine runs.
    pub(crate) fn make_for(&mut self, plan: &Plan, state: Arc<ClusterState>, inlet: &Inlet) {
        let asks = plan.pipelines.iter().any(|pipeline| pipeline.input.runtime.is_some());
        if !self.args.allows(Role::Metrics) || (!asks && state.statuses.is_empty() && self.agent.is_none()) {
            return;
        }
        let mut settings = settings(&self.args);
        if self.args.runtime.cluster_metrics.is_none() && self.speaks.is_some() {
            settings.of_cluster.clone_from(&self.speaks);
        }
        if asks && settings.kubelet.is_none() && !mem::replace(&mut self.is_said, true) {
            tracing::warn!(
                advice = "name a kubelet with --kubelet",
                "metrics of pods and their node are not collected: name a kubelet with --kubelet"
            );
        }
        match &self.agent {
            Some(agent) => agent.reload(plan, state),
            None => self.agent = Some(RuntimeAgent::start(settings, (plan, state), inlet, self.board.clone())),
        }
    }

    /// Ends.
    pub(crate) async fn stop(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.stop().await;
        }
    }
}

fn settings(args: &ProcessArgs) -> Settings {
    let RuntimeArgs { kubelet, kubelet_token, kubelet_ca, cluster_metrics } = &args.runtime;
    // Names of nodes are not known to every resolver.
    let node = || node_ip().map(in_url).or_else(|| node_name(args));
    let usual = || format!("https://{}:{KUBELET_PORT}", node()?).parse().ok();
    let kubelet = kubelet.clone().or_else(usual).map(|url| Kubelet {
        url,
        token: kubelet_token.clone().or_else(service_account_token),
        ca: kubelet_ca.clone(),
    });
    let is_pod = env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty());
    let of_cluster = cluster_metrics.map_or(!is_pod, |switch| switch == Switch::On);
    Settings { kubelet, of_cluster: of_cluster.then(|| Speaks::when(|| true)) }
}

/// An address as it is in a URL.
fn in_url(address: String) -> String {
    if address.contains(':') { format!("[{address}]") } else { address }
}

fn service_account_token() -> Option<PathBuf> {
    let token = Path::new(SERVICE_ACCOUNT_TOKEN);
    token.exists().then(|| token.to_owned())
}
