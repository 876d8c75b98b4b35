//! What is wrong with an installation, and what to do about it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{CertificateSeen, ConditionSeen, Examination, Finding, Part, PodSeen, Resource, Totals};
use crate::node::CONFIGURATION;
use crate::operator::status::condition::UNREADABLE;
use crate::operator::status::pipeline;

/// A certificate that ends sooner is told of, as in the conditions.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Containers that were started again more often are told of.
const MANY_RESTARTS: i64 = 3;

/// A limit may be too low for a cluster. Figures are those of docs/operations.md and docs/node.md.
const NODE_OUT_OF_MEMORY: &str = "raise its limit (nodes.resources, gateway.resources) if that leaves less than 32 MiB \
                                  beside --memory, or less than a large cluster takes: 166 MB at most in the node that \
                                  speaks for one of 11,000 pods, 117 MiB in a replica of the gateway that knows \
                                  10,000 of them (docs/operations.md#what-a-cluster-costs). Otherwise this is a bug in \
                                  weir: report it";
const OPERATOR_OUT_OF_MEMORY: &str = "raise its limit (operator.resources) if there are thousands of pipelines or \
                                      nodes (docs/operations.md#what-a-cluster-costs has what it takes). Otherwise \
                                      this is a bug in weir: report it";

/// What is told of a backend begins with its state. This one is not asked.
const FAILS_HERE: &str = "unsent";
const LOOK_HERE: &str =
    "the backend is not asked, so look at that cause: the token server, the credentials, or the memory of the node";

/// Who takes a right away does it by a role of the chart, or of their own.
const RIGHT_TO_SECRETS: &str = "let the ServiceAccount of the operator get, list and watch Secrets in every namespace: \
                                `helm upgrade` with the same values restores the ClusterRole of the chart";
const WEBHOOKS_MISSING: &str = "`helm upgrade` with the same values makes it again: an operator of the chart has no \
                                right to (docs/kubernetes.md#webhooks). Then look at pipelines that were changed \
                                meanwhile: those that are wrong say so in their status";

/// Pods and nodes that are named in one finding.
const MOST_NAMED: usize = 3;

pub(super) fn of(seen: &Examination) -> Vec<Finding> {
    let mut findings = Vec::new();
    operator(seen, &mut findings);
    webhooks(seen, &mut findings);
    seen.resources.iter().for_each(|resource| conditions(resource, &mut findings));
    seen.pods.iter().for_each(|pod| self::pod(pod, &mut findings));
    revisions(seen, &mut findings);
    seen.totals().iter().for_each(|(pipeline, totals)| books(pipeline, totals, &mut findings));
    certificates(seen, &mut findings);
    findings
}

pub(super) fn notes(seen: &Examination) -> Vec<Finding> {
    let mut notes = Vec::new();
    for (pipeline, _) in seen.totals().iter().filter(|(_, totals)| totals.is_backend_unknown()) {
        let what = format!(
            "no request to the backend of {pipeline}, as it is configured now, has ended yet, so nobody knows whether it takes data"
        );
        let advice = "send something, unless a request is under way, and look again; on the page of a node, Destinations shows \
                      how the backend answers";
        tell(&mut notes, what, advice);
    }
    notes
}

fn operator(seen: &Examination, findings: &mut Vec<Finding>) {
    let mut operators = seen.pods.iter().filter(|pod| pod.part == Part::Operator).peekable();
    if operators.peek().is_none() {
        let what = format!("no operator runs in the namespace {}", seen.namespace);
        tell(findings, what, "install the chart, or name another namespace with --namespace");
    } else if !operators.any(|pod| pod.ready) {
        tell(findings, "no operator is ready", "look at its pods below; nodes go on with what they have meanwhile");
    } else if seen.leader.is_none() {
        tell(findings, "no operator leads", "look at the log of the operator: it may not be able to write its Lease");
    }
}

fn conditions(resource: &Resource, findings: &mut Vec<Finding>) {
    let Resource { kind, name, generation, conditions, .. } = resource;
    if conditions.is_empty() {
        let what = format!("{kind} {name} has no status");
        tell(findings, what, "the operator has not seen it: see whether one runs, and what its log says");
    }
    if let Some(old) = conditions.iter().find(|condition| condition.observed_generation < *generation) {
        let seen = old.observed_generation;
        let what =
            format!("the status of {kind} {name} is about generation {seen}, and it has generation {generation}");
        tell(findings, what, "the operator is behind, or the part is paused in telemetry-overrides");
    }
    // A Telemetry repeats what its pipelines say.
    let own = conditions.iter().filter(|_| kind != "Telemetry");
    for ConditionSeen { kind: condition, status, reason, message, .. } in own.filter(|own| own.status != "True") {
        let what = format!("{kind} {name}: {condition} is {status}, {reason}: {message}");
        tell(findings, what, "docs/kubernetes.md, section Conditions, says what to do for each reason");
    }
    let is_stale = |own: &&ConditionSeen| own.kind == pipeline::CONFIGURATION && own.message.contains(UNREADABLE);
    for ConditionSeen { message, .. } in conditions.iter().filter(is_stale).filter(|own| own.status == "True") {
        let what = format!("{kind} {name} goes on with old values of a Secret: {message}");
        tell(findings, what, RIGHT_TO_SECRETS);
    }
}

/// Who changes pipelines meanwhile is not told what is wrong with them.
fn webhooks(seen: &Examination, findings: &mut Vec<Finding>) {
    for missing in &seen.missing_webhooks {
        let what = format!("the {missing} is missing, so pipelines are stored without what its webhook does");
        tell(findings, what, WEBHOOKS_MISSING);
    }
}

fn pod(pod: &PodSeen, findings: &mut Vec<Finding>) {
    let PodSeen { name, part, node, fault, restarts, last_end, .. } = pod;
    if let Some(fault) = fault {
        tell(findings, format!("pod {name} on node {node}: {fault}"), "see its events and its log below");
    }
    match last_end.as_deref() {
        Some("OOMKilled") => {
            let what = format!("pod {name} on node {node} was killed because it took more memory than its limit");
            let is_operator = *part == Part::Operator;
            tell(findings, what, if is_operator { OPERATOR_OUT_OF_MEMORY } else { NODE_OUT_OF_MEMORY });
        }
        Some(end) if *restarts > MANY_RESTARTS => {
            let what =
                format!("pod {name} on node {node} was started again {restarts} times, the last time after {end}");
            tell(findings, what, "see its log: kubectl logs --previous has what it said at its end");
        }
        _ => {}
    }
}

/// Nodes that run another configuration than the one that they are told.
fn revisions(seen: &Examination, findings: &mut Vec<Finding>) {
    let nodes: Vec<_> = seen.pods.iter().filter(|pod| pod.part == Part::Node).collect();
    let silent = nodes
        .iter()
        .filter(|pod| pod.page.is_none() && pod.ready && !pod.ending)
        .map(|pod| pod.name.as_str())
        .collect();
    if let Some(names) = named(silent) {
        let what = format!("pods that do not answer on port 8888: {names}");
        tell(findings, what, "look at their logs, and at NetworkPolicies");
    }
    for pod in &nodes {
        if let Some(error) = pod.page.as_ref().and_then(|page| page["error"].as_str()) {
            let what = format!("pod {} on node {} refuses the newest configuration: {error}", pod.name, pod.node);
            tell(
                findings,
                what,
                "it goes on with the last one; the operator and the node may be of different versions",
            );
        }
    }
    let Some(revision) = &seen.revision else { return };
    let is_behind = |pod: &&&PodSeen| pod.page.as_ref().is_some_and(|page| page["revision"] != revision.as_str());
    let behind = nodes.iter().filter(is_behind).map(|pod| pod.name.as_str()).collect();
    if let Some(names) = named(behind) {
        let what = format!("pods that do not run revision {revision} of the configuration yet: {names}");
        let hint = format!("it takes seconds; if it stays so, see whether they can watch the Secret {CONFIGURATION}");
        tell(findings, what, &hint);
    }
}

fn books(pipeline: &str, totals: &Totals, findings: &mut Vec<Finding>) {
    let Totals { pending, dropped, rejected, sick, .. } = totals;
    let sum =
        |by_reason: &BTreeMap<String, u64>| by_reason.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
    if sum(dropped) > 0 {
        let what = format!("{pipeline} has dropped {}", amounts(dropped));
        tell(findings, what, "docs/guarantees.md says what each reason means; a larger backlog holds out for longer");
    }
    if sum(rejected) > 0 {
        let what = format!("the backend of {pipeline} has refused {}", amounts(rejected));
        tell(findings, what, "the page /rejected of a node, on its admin port, shows samples with the backend's words");
    }
    if let Some((node, words)) = sick.first_key_value() {
        let others = sick.len() - 1;
        let others = if others == 0 { String::new() } else { format!(", and {others} more nodes see the like") };
        let what = format!("the backend of {pipeline} is not well, as node {node} sees it: {words}{others}");
        let helps = if words.starts_with(FAILS_HERE) { LOOK_HERE } else { "mend the backend or the pipeline" };
        tell(findings, what, &format!("{pending} items wait for it and are not lost; {helps}"));
    }
}

fn certificates(seen: &Examination, findings: &mut Vec<Finding>) {
    for CertificateSeen { what, ends, late_below, .. } in &seen.certificates {
        let (soon, advice) = match late_below {
            Some(late) => (*late, "the operator renews it: see whether one runs, and what its log says"),
            None => (SOON, "replace it"),
        };
        match ends.duration_since(seen.now) {
            Err(_) => tell(findings, format!("the certificate of {what} has expired"), advice),
            Ok(left) if left < soon => {
                let days = left.as_secs() / (24 * 3600);
                tell(findings, format!("the certificate of {what} expires in {days} days"), advice);
            }
            Ok(_) => {}
        }
    }
}

fn tell(findings: &mut Vec<Finding>, what: impl Into<String>, advice: &str) {
    findings.push(Finding { what: what.into(), advice: advice.to_owned() });
}

/// `12 (backlog_age 5, backlog_full 7)`.
pub(super) fn amounts(by_reason: &BTreeMap<String, u64>) -> String {
    let sum = by_reason.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
    let each: Vec<_> = by_reason.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if each.is_empty() { sum.to_string() } else { format!("{sum} ({})", each.join(", ")) }
}

/// The first names, and how many more there are.
fn named(mut names: Vec<&str>) -> Option<String> {
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let all = names.join(", ");
    (!names.is_empty()).then(|| if more == 0 { all } else { format!("{all}, and {more} more") })
}
