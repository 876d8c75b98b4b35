//! Which workloads there are, what each of them does, and when one that is not needed any more may go.
//!
//! There is one way to run everything in a pod on each node, and there are others: the roles in DaemonSets of their own, and
//! the gateway as replicas. Changing between them moves work from one workload to another, and what a workload has in its
//! data directories stays its own: it stays without a role until it owes nothing (docs/decisions/023-scale-modes.md).

use std::collections::{BTreeMap, BTreeSet};

use weir_plan::Signal;

use super::names;
use super::object::kinds::{self, Kind};
use super::options::Scale;
use super::picture::{Answer, Picture};
use super::verdict::Needs;
use crate::node::Roles;

/// A workload that may be there. Its name is the label of its pods, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workload {
    /// A pod on each node: the gateway, and whatever has no workload of its own.
    #[default]
    Node,
    LogAgent,
    MetricAgent,
    /// Both agents.
    Agents,
    /// Replicas of the gateway whose data directories outlive their pods.
    Stateful,
    /// Replicas whose data directories go with their pods.
    Stateless,
}

impl Workload {
    pub(crate) const ALL: [Self; 6] =
        [Self::Node, Self::LogAgent, Self::MetricAgent, Self::Agents, Self::Stateful, Self::Stateless];
    /// Those that clients may be served by.
    const GATEWAYS: [Self; 3] = [Self::Node, Self::Stateful, Self::Stateless];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Node => names::NODE,
            Self::LogAgent => names::LOG_AGENT,
            Self::MetricAgent => names::METRIC_AGENT,
            Self::Agents => names::AGENTS,
            Self::Stateful => names::STATEFUL,
            Self::Stateless => names::STATELESS,
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Stateful => kinds::STATEFUL_SET,
            Self::Stateless => kinds::DEPLOYMENT,
            _ => kinds::DAEMON_SET,
        }
    }

    pub(crate) fn component(self) -> &'static str {
        if Self::GATEWAYS.contains(&self) { "gateway" } else { "agent" }
    }

    /// Of the directory on a node, the part for this workload alone; the whole of it has that of which there is one a node.
    pub(crate) fn directory(self) -> Option<&'static str> {
        match self {
            Self::LogAgent => Some("log-agent"),
            Self::MetricAgent => Some("metric-agent"),
            Self::Agents => Some("agent"),
            Self::Node | Self::Stateful | Self::Stateless => None,
        }
    }

    pub(crate) fn is_replicated(self) -> bool {
        matches!(self, Self::Stateful | Self::Stateless)
    }
}

const NONE: Roles = Roles { gateway: false, logs: false, metrics: false };
const GATEWAY: Roles = Roles { gateway: true, ..NONE };

/// Which workloads there have to be, and which of them play which part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// With what they do. One without a role only delivers what it has, and goes then.
    pub(crate) workloads: BTreeMap<Workload, Roles>,
    /// Replicas that are not needed any more, which stay as they are until they owe nothing: what they were made from
    /// may be known no more, and without a volume what they owe goes with their pods.
    pub(crate) left: BTreeSet<Workload>,
    /// Whom the Services lead to. It is the one before until the new one is there. Where no pipeline takes what clients
    /// push, it is whoever would serve them, there or not.
    pub(crate) serving: Workload,
    pub(crate) gateway: Workload,
    pub(crate) log_agent: Workload,
    pub(crate) metric_agent: Workload,
}

impl Layout {
    /// `revision`: of the configuration that nodes have to run; who runs another does not know what it owes.
    pub(crate) fn of(
        scale: &Scale,
        (needs, signals): (Needs, &BTreeSet<Signal>),
        picture: &Picture,
        revision: &str,
    ) -> Self {
        let mut layout = Self::wanted(scale, needs, signals);
        // Where no pipeline takes what clients push, nobody has to serve them.
        let served_by = needs.otlp.then(|| layout.served_by(picture));
        layout.serving = served_by.unwrap_or(layout.gateway);
        let others: Vec<_> = picture.workloads.keys().filter(|seen| !layout.workloads.contains_key(seen)).collect();
        for &workload in others {
            let serves = served_by == Some(workload);
            if !serves && picture.owes_nothing(workload, needs, revision) {
                continue;
            }
            if workload.is_replicated() {
                layout.left.insert(workload);
            } else {
                layout.workloads.insert(workload, if serves { GATEWAY } else { NONE });
            }
        }
        layout
    }

    /// All that are there.
    pub(crate) fn all(&self) -> impl Iterator<Item = Workload> {
        self.workloads.keys().chain(&self.left).copied()
    }

    /// Whether it is one of these.
    pub(crate) fn has(&self, workload: Workload) -> bool {
        self.all().any(|one| one == workload)
    }

    /// Clients go to the new workload when all of it is there, and to the one before until then.
    fn served_by(&self, picture: &Picture) -> Workload {
        let new = self.gateway;
        if picture.is_ready(new) {
            return new;
        }
        let has_begun = picture.has_ready_pods(new);
        let is_before = |before: &Workload| {
            // A process that says nothing yet may have begun to leave; that matters only if somebody else is there.
            *before != new && picture.has_ready_pods(*before) && picture.serves(*before).unwrap_or(!has_begun)
        };
        Workload::GATEWAYS.into_iter().find(is_before).unwrap_or(new)
    }

    /// What there would be if nothing had been before.
    fn wanted(scale: &Scale, needs: Needs, signals: &BTreeSet<Signal>) -> Self {
        // The status of pipelines is a metric of every MetricPipeline.
        let (logs, metrics) = (needs.container_logs, signals.contains(&Signal::Metrics));
        let gateway = match &scale.gateway {
            None => Workload::Node,
            Some(replicas) if replicas.storage.is_some() => Workload::Stateful,
            Some(_) => Workload::Stateless,
        };
        let (log_agent, metric_agent) = match (scale.split_roles, gateway) {
            (true, _) => (Workload::LogAgent, Workload::MetricAgent),
            (false, Workload::Node) => (Workload::Node, Workload::Node),
            (false, _) => (Workload::Agents, Workload::Agents),
        };
        let mut workloads: BTreeMap<Workload, Roles> = BTreeMap::new();
        if log_agent == Workload::Node {
            // Whatever pipelines ask for: another one changes no pod.
            workloads.insert(Workload::Node, Roles { gateway: true, logs: true, metrics: true });
        } else {
            let agents = [(log_agent, Roles { logs, ..NONE }), (metric_agent, Roles { metrics, ..NONE })];
            let gateway = (gateway, Roles { gateway: needs.otlp, ..NONE });
            for (workload, roles) in agents.into_iter().chain([gateway]).filter(|(_, roles)| *roles != NONE) {
                let all = workloads.entry(workload).or_insert(NONE);
                *all = all.and(roles);
            }
        }
        let left = BTreeSet::new();
        Self { workloads, left, serving: gateway, gateway, log_agent, metric_agent }
    }
}

impl Picture {
    /// All of its pods are there and well.
    fn is_ready(&self, workload: Workload) -> bool {
        self.workloads.get(&workload).is_some_and(|status| status.is_ready())
    }

    fn has_ready_pods(&self, workload: Workload) -> bool {
        self.workloads.get(&workload).is_some_and(|status| status.ready > 0)
    }

    /// Whether any of its pods takes what clients push, if any has said what it does.
    fn serves(&self, workload: Workload) -> Option<bool> {
        let mut answers = self.answers_of(workload).flatten().peekable();
        answers.peek()?;
        Some(answers.any(Answer::is_gateway))
    }

    /// Every pod said so, and said that nothing more will come. `needs`: of the pipelines of this revision.
    fn owes_nothing(&self, workload: Workload, needs: Needs, revision: &str) -> bool {
        let Some(status) = self.workloads.get(&workload) else { return true };
        let is_done = |answer: Option<&Answer>| {
            answer.is_some_and(|answer| {
                let is_of_now = answer.revision.as_deref() == Some(revision);
                // Replicas keep their role. They take nothing if no pipeline takes what clients push. Otherwise they
                // have no clients when no Service leads to them and connections are old.
                let takes_nothing = workload.is_replicated() && !(needs.otlp && answer.has_clients);
                is_of_now && !answer.owes && (answer.has_no_role() || takes_nothing)
            })
        };
        status.is_settled() && self.answers_of(workload).all(is_done)
    }

    fn answers_of(&self, workload: Workload) -> impl Iterator<Item = Option<&Answer>> {
        let pods = self.pods.iter().filter(move |pod| pod.workload == workload);
        pods.map(|pod| self.answers.get(&pod.name))
    }
}
