//! The conditions of a pipeline.

use weir_observe::{State, amount, message};
use weir_plan::Signal;

use super::condition::{self, Condition, Met, UNREADABLE};
use crate::operator::flow::{Flow, Found, Probing};
use crate::operator::picture::{SecretName, Stale, items_of, kind_of};
use crate::operator::verdict::{Finding, Needs};
use crate::operator::workload::{Health, Standing};

pub(crate) const CONFIGURATION: &str = "ConfigurationGenerated";
pub(crate) const GATEWAY: &str = "GatewayHealthy";
pub(crate) const AGENT: &str = "AgentHealthy";
pub(crate) const FLOW: &str = "TelemetryFlowHealthy";

/// In the order in which a status has them.
pub(crate) const KINDS: [&str; 4] = [CONFIGURATION, GATEWAY, AGENT, FLOW];

/// Why no data flows of a pipeline that nodes do not have.
const NOT_CONFIGURED: &str = "ConfigurationNotGenerated";

/// Everything that is known of a pipeline.
pub(crate) struct Standings<'a> {
    pub(crate) signal: Signal,
    pub(crate) needs: Needs,
    /// Whether the nodes have it, as it is or as it was when it was right.
    pub(crate) runs: bool,
    /// Whether it is right as it is.
    pub(crate) is_right: bool,
    /// Whether what nodes are to have could be written.
    pub(crate) is_written: bool,
    pub(crate) finding: Option<&'a Finding>,
    /// Secrets whose last known values are used.
    pub(crate) stale: &'a [Stale],
    pub(crate) gateway: &'a Health,
    pub(crate) agent: &'a Health,
    /// What is wrong with how data flows, if anything is.
    pub(crate) flow: Option<&'a Flow>,
    /// Whether a node delivers something of it.
    pub(crate) delivers: bool,
    /// Which pods say how they are, of the gateway and of the agent.
    pub(crate) probing: [Probing; 2],
    /// The reason that the status has for how data flows. Whoever leads anew has asked nobody yet: what nodes said stays
    /// true meanwhile.
    pub(crate) flow_before: Option<&'a str>,
    /// The message that the status has for the configuration.
    pub(crate) configuration_before: Option<&'a str>,
}

impl Standings<'_> {
    /// All conditions, the most important first.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let mut conditions = Vec::new();
        // What was said of the generation before is still true.
        if self.is_written || self.finding.is_some() {
            conditions.push(self.configuration());
        }
        if !self.needs.fluent_bit {
            conditions.push(self.gateway());
        }
        if self.signal != Signal::Traces {
            conditions.push(self.agent());
        }
        conditions.extend(self.flow());
        conditions
    }

    fn kind(&self) -> &'static str {
        kind_of(self.signal).1
    }

    fn configuration(&self) -> Condition {
        let (kind, stale) = (self.kind(), self.stale());
        match self.finding {
            Some(Finding { reason, message }) => {
                let met = if self.is_of_later() { Met::True } else { Met::False };
                let goes_on = match (self.runs, self.is_right) {
                    (true, false) => "; the nodes go on with the last specification that was right",
                    _ => "",
                };
                Condition::new(CONFIGURATION, met, reason, format!("{message}{goes_on}{stale}"))
            }
            None => {
                let (reason, part) = if self.needs.fluent_bit {
                    ("AgentConfigured", "Log Agent")
                } else {
                    ("GatewayConfigured", "OTLP Gateway")
                };
                let message =
                    format!("{kind} specification is successfully applied to the configuration of {part}{stale}");
                Condition::new(CONFIGURATION, Met::True, reason, message)
            }
        }
    }

    /// What to say of Secrets whose last known values are used.
    fn stale(&self) -> String {
        let each: Vec<_> = self.stale.iter().map(|stale| self.unreadable(stale)).collect();
        if each.is_empty() {
            return String::new();
        }
        format!(
            ". {}: the values that were read last are used, and changes are not followed. Let the operator get, list \
             and watch Secrets again",
            each.join(", ")
        )
    }

    /// Whoever leads anew is refused later than the leader before, so an earlier time in the status counts.
    fn unreadable(&self, Stale { secret: SecretName { namespace, name }, since }: &Stale) -> String {
        let (said, seen) = (format!("Secret {namespace}/{name} {UNREADABLE}"), condition::time(*since));
        let before = self.configuration_before.and_then(|before| before.split_once(&said)?.1.get(..seen.len()));
        let since = before.filter(|before| *before < seen.as_str()).unwrap_or(&seen);
        format!("{said}{since}")
    }

    fn gateway(&self) -> Condition {
        if !self.runs {
            let message = format!(
                "This {}'s specification is not applied to the configuration of the OTLP gateway. Check the \
                 'ConfigurationGenerated' condition for more details",
                self.kind()
            );
            return Condition::new(GATEWAY, Met::False, "GatewayConfigurationNotGenerated", message);
        }
        self.pods(GATEWAY, ["GatewayReady", "GatewayNotReady"], self.gateway, "OTLP Gateway")
    }

    fn agent(&self) -> Condition {
        let part = if self.signal == Signal::Logs { "Log Agent" } else { "Metric Agent" };
        if !self.needs.agent() {
            let message = format!("No input of this {} needs the {part} {}", self.kind(), self.agent.kind);
            return Condition::new(AGENT, Met::True, "AgentNotRequired", message);
        }
        self.pods(AGENT, ["AgentReady", "AgentNotReady"], self.agent, part)
    }

    fn pods(
        &self,
        condition: &'static str,
        [ready, not_ready]: [&'static str; 2],
        health: &Health,
        part: &str,
    ) -> Condition {
        let (met, reason, state) = match health.standing {
            Standing::Ready => (Met::True, ready, "is ready"),
            Standing::Rolling => (Met::True, "RolloutInProgress", "is ready"),
            Standing::NotReady => (Met::False, not_ready, "is not ready"),
            // The published reasons have no other for it.
            Standing::NotNeeded => (Met::True, ready, "is not there, because no pipeline needs it"),
        };
        let message = health.message.clone().unwrap_or_else(|| format!("{part} {} {state}", health.kind));
        Condition::new(condition, met, reason, message)
    }

    fn is_of_later(&self) -> bool {
        self.finding.is_some_and(Finding::is_of_later)
    }

    /// Nothing if what was said before stays.
    fn flow(&self) -> Option<Condition> {
        let (items, kind) = (items_of(self.signal), self.kind());
        let (of_agent, part) = self.part();
        let by_part = |of_gateway, reason| if of_agent { reason } else { of_gateway };
        if !self.runs {
            let message = format!(
                "No {items} delivered to backend because {kind} specification is not applied to the \
                 configuration of {part}. Check the 'ConfigurationGenerated' condition for more details"
            );
            return Some(Condition::new(FLOW, Met::False, NOT_CONFIGURED, message));
        }
        // A certificate that has expired, which may matter to the backend or not.
        if let Some(finding) = self.finding.filter(|_| self.is_right && !self.is_of_later() && !self.delivers) {
            let message = format!("No {items} delivered to backend: {}", finding.message);
            return Some(Condition::new(FLOW, Met::False, NOT_CONFIGURED, message));
        }
        if let Some((found, of_agent)) = self.flow.and_then(|flow| self.first(flow)) {
            return Some(self.trouble(found, of_agent));
        }
        let [of_gateway, of_collector] = self.probing;
        let Probing { answer, silent } = if of_agent { of_collector } else { of_gateway };
        let all = answer + silent;
        // It takes nothing, from clients or from nodes: nobody has to be asked how that goes.
        let asks_nobody = !of_agent && self.gateway.standing == Standing::NotNeeded;
        if all == 0 && !asks_nobody && self.flow_before.is_some_and(|reason| reason != NOT_CONFIGURED) {
            return None;
        }
        if silent >= answer && !asks_nobody {
            let reason = by_part("GatewayProbingFailed", "AgentProbingFailed");
            let who = match all {
                0 => "no Pod has answered yet".to_owned(),
                all => format!("{silent} of {all} Pods do not answer"),
            };
            let message = format!("Could not determine the health of the telemetry flow because {who}");
            return Some(Condition::new(FLOW, Met::Unknown, reason, message));
        }
        let but = match silent {
            0 => String::new(),
            silent => format!("; {silent} of {all} Pods do not answer"),
        };
        let message = format!("No problems detected in the telemetry flow{but}");
        Some(Condition::new(FLOW, Met::True, "FlowHealthy", message))
    }

    /// The trouble that counts, as the published order has it, and whether it is the agent's.
    fn first<'b>(&self, flow: &'b Flow) -> Option<(&'b Found, bool)> {
        let of_gateway = flow.gateway.as_ref().map(|found| (found, false));
        let of_agent = flow.agent.as_ref().map(|found| (found, true));
        match (self.signal, of_gateway, of_agent) {
            // Of logs, the worse counts, and of two alike the agent's.
            (Signal::Logs, Some(gateway), Some(agent)) if gateway.0.state > agent.0.state => Some(gateway),
            (Signal::Logs, gateway, agent) => agent.or(gateway),
            (Signal::Traces | Signal::Metrics, gateway, agent) => gateway.or(agent),
        }
    }

    fn trouble(&self, found: &Found, of_agent: bool) -> Condition {
        let (reason, about) = self.reason(found, of_agent);
        let message = message(&found.trouble, items_of(self.signal));
        let on = place(found);
        Condition::new(FLOW, Met::False, reason, format!("{about} {message}{on}"))
    }

    /// The published reason of a trouble, and what it says: alerts of users name it.
    fn reason(&self, Found { state, trouble, .. }: &Found, of_agent: bool) -> (&'static str, String) {
        let (items, fluent_bit) = (items_of(self.signal), self.needs.fluent_bit);
        // Of a server that answers, it is published for some minutes that it takes too little, though it takes nothing.
        let may_fill = trouble.may_be_slow || *state == State::BufferFilling;
        let by_part = |of_gateway, reason| if of_agent { reason } else { of_gateway };
        let all = by_part("GatewayAllTelemetryDataDropped", "AgentAllTelemetryDataDropped");
        let some = by_part("GatewaySomeTelemetryDataDropped", "AgentSomeTelemetryDataDropped");
        let not_taken = || format!("Backend is not reachable or rejecting {items}.");
        match state {
            State::Healthy => ("FlowHealthy", String::new()),
            State::AllDropped => (all, not_taken()),
            State::BufferFilling | State::NothingDelivered if fluent_bit && may_fill => {
                ("AgentBufferFillingUp", "Incoming log rate exceeds export rate.".to_owned())
            }
            State::NothingDelivered if fluent_bit => ("AgentNoLogsDelivered", not_taken()),
            State::NothingDelivered => (all, not_taken()),
            State::SomeDropped => (some, format!("Backend is reachable, but rejecting {items}.")),
            State::Throttling => {
                ("GatewayThrottling", format!("OTLP Gateway is unable to receive {items} at current rate."))
            }
            State::BufferFilling => {
                (some, format!("Backend takes {items} slower than they arrive, or not on all nodes."))
            }
        }
    }

    /// Which part of the nodes the data passes first, as the published reasons have it: whether the agent, and its name.
    fn part(&self) -> (bool, &'static str) {
        match self.signal {
            Signal::Logs if self.needs.container_logs => (true, "Log Agent"),
            Signal::Metrics if !self.needs.otlp => (true, "Metric Agent"),
            Signal::Logs | Signal::Metrics | Signal::Traces => (false, "OTLP Gateway"),
        }
    }
}

/// Where the trouble is. How many pods are not named is said roughly: one more of hundreds is no news.
fn place(Found { nodes, of, pods, .. }: &Found) -> String {
    let named = pods.join(", ");
    match nodes.saturating_sub(pods.len()) {
        _ if *of == 1 => String::new(),
        _ if nodes == of => " On all nodes.".to_owned(),
        0 if pods.len() == 1 => format!(" On Pod {named}."),
        0 => format!(" On Pods {named}."),
        more => format!(" On Pods {named} and {} more.", amount(more as u64)),
    }
}
