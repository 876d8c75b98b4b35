//! How a workload is, in the words of a condition.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::layout::Workload;
use super::names;
use super::picture::{Answer, Picture, PodState, WorkloadStatus, Written};

/// The state of a condition about pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    /// Of which kind the workload is.
    pub(crate) kind: &'static str,
    pub(crate) standing: Standing,
    pub(crate) message: Option<String>,
}

/// What the reason says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Ready,
    Rolling,
    NotReady,
}

/// Judges a workload by its numbers, by what is wrong with its pods, and by what they say.
pub(crate) fn health(workload: Workload, picture: &Picture, now: SystemTime) -> Health {
    let pods: Vec<_> = picture.pods.iter().filter(|pod| pod.workload == workload).collect();
    let late = picture.written.as_ref().filter(|written| now >= late_at(written));
    let late = late.map(|written| written.revision.as_str());
    judge(workload.kind().1, picture.workloads.get(&workload).copied(), &pods, (&picture.answers, late))
}

/// A node takes seconds to run what was written, and says so in one of the next rounds.
const LATE: Duration = Duration::from_secs(30);

/// From when on all nodes should run what was written.
pub(crate) fn late_at(written: &Written) -> SystemTime {
    written.since + LATE
}

fn judge(
    kind: &'static str,
    status: Option<WorkloadStatus>,
    pods: &[&PodState],
    (answers, late): (&BTreeMap<String, Answer>, Option<&str>),
) -> Health {
    let not_ready = |message: String| Health { kind, standing: Standing::NotReady, message: Some(message) };
    let Some(status) = status else { return not_ready(format!("{kind} is not yet created")) };
    if let Some(refusal) = refusal(pods, answers) {
        return not_ready(refusal);
    }
    if let Some(lag) = late.and_then(|revision| lag(pods, answers, revision)) {
        return not_ready(lag);
    }
    if status.is_ready() {
        return Health { kind, standing: Standing::Ready, message: None };
    }
    let faults: Vec<_> = pods.iter().filter(|pod| pod.fault.is_some()).collect();
    if let [first, others @ ..] = faults.as_slice() {
        let fault = first.fault.as_deref().unwrap_or_default();
        let more =
            if others.is_empty() { String::new() } else { format!(" ({} more Pods are not well)", others.len()) };
        return not_ready(format!("{fault}{more}"));
    }
    if status.is_current && status.desired == 0 {
        return not_ready("No Pods deployed".to_owned());
    }
    let WorkloadStatus { desired, updated, ready, .. } = status;
    let message = format!("Pods are being started/updated: {updated} of {desired} are up to date, {ready} are ready");
    Health { kind, standing: Standing::Rolling, message: Some(message) }
}

/// Nodes that refused a configuration go on with the one before. That the operator took it for right is a fault of one
/// of the two.
fn refusal(pods: &[&PodState], answers: &BTreeMap<String, Answer>) -> Option<String> {
    let refused = pods.iter().filter_map(|pod| Some((pod, answers.get(&pod.name)?.error.as_ref()?)));
    let refused: Vec<_> = refused.collect();
    let (pod, error) = refused.first()?;
    let more = refused.len() - 1;
    let more = if more == 0 { String::new() } else { format!(" ({more} more nodes refuse one)") };
    Some(format!(
        "Pod {} on node {} refuses the configuration and goes on with the last one: {error}{more}",
        pod.name, pod.node
    ))
}

/// Nodes that go on with an older configuration although there has been another for a while.
fn lag(pods: &[&PodState], answers: &BTreeMap<String, Answer>, revision: &str) -> Option<String> {
    let is_behind = |pod: &&&PodState| {
        let runs = answers.get(&pod.name).and_then(|answer| answer.revision.as_deref());
        pod.ready && runs.is_some_and(|runs| runs != revision)
    };
    let behind: Vec<_> = pods.iter().filter(is_behind).collect();
    let pod = behind.first()?;
    let more = behind.len() - 1;
    let more = if more == 0 { String::new() } else { format!(" ({more} more nodes do so)") };
    Some(format!(
        "Pod {} on node {} goes on with an older configuration: see in its log whether it can watch the Secret {}{more}",
        pod.name,
        pod.node,
        names::CONFIGURATION
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(desired: i64, updated: i64, ready: i64) -> Option<WorkloadStatus> {
        Some(WorkloadStatus { is_current: true, desired, updated, ready })
    }

    fn pod(name: &str, fault: Option<&str>) -> PodState {
        PodState {
            name: name.to_owned(),
            node: "n1".to_owned(),
            fault: fault.map(str::to_owned),
            ..PodState::default()
        }
    }

    #[test]
    fn numbers_and_faults_make_the_standing() {
        let none = BTreeMap::new();
        let judge = |status, pods: &[PodState]| {
            let Health { standing, message, .. } =
                judge("DaemonSet", status, &pods.iter().collect::<Vec<_>>(), (&none, Some("ab")));
            (standing, message.unwrap_or_default())
        };
        let well = [pod("a", None)];
        let ill = [pod("a", None), pod("b", Some("Pod is not scheduled: no room")), pod("c", Some("other"))];
        assert_eq!(judge(None, &well), (Standing::NotReady, "DaemonSet is not yet created".to_owned()));
        assert_eq!(judge(status(0, 0, 0), &[]), (Standing::NotReady, "No Pods deployed".to_owned()));
        assert_eq!(judge(status(2, 2, 2), &well).0, Standing::Ready);
        assert_eq!(judge(status(2, 1, 2), &well).0, Standing::Rolling);
        assert_eq!(judge(status(2, 2, 1), &well).0, Standing::Rolling);
        let stale = WorkloadStatus { is_current: false, ..status(2, 2, 2).unwrap() };
        assert_eq!(judge(Some(stale), &well).0, Standing::Rolling);
        let expected = "Pod is not scheduled: no room (1 more Pods are not well)";
        assert_eq!(judge(status(3, 3, 1), &ill), (Standing::NotReady, expected.to_owned()));
        assert_eq!(judge(status(3, 3, 3), &ill).0, Standing::Ready, "an old fault of a pod that is being replaced");
    }

    #[test]
    fn a_node_that_refuses_the_configuration_is_told() {
        let refused = Answer { error: Some("no such field".to_owned()), ..Answer::default() };
        let answers = BTreeMap::from([("a".to_owned(), refused)]);
        let found = judge("DaemonSet", status(1, 1, 1), &[&pod("a", None)], (&answers, None));
        assert_eq!(found.standing, Standing::NotReady);
        assert!(
            found
                .message
                .unwrap()
                .ends_with("on node n1 refuses the configuration and goes on with the last one: no such field")
        );
    }

    #[test]
    fn a_node_that_stays_behind_is_told_after_a_while() {
        let runs = |revision: &str| Answer { revision: Some(revision.to_owned()), ..Answer::default() };
        let answers = BTreeMap::from([("a".to_owned(), runs("new")), ("b".to_owned(), runs("old"))]);
        let ready = |name: &str| PodState { ready: true, ..pod(name, None) };
        let (a, b, silent) = (ready("a"), ready("b"), ready("c"));
        let judge = |late| judge("DaemonSet", status(3, 3, 3), &[&a, &b, &silent], (&answers, late));
        assert_eq!(judge(None).standing, Standing::Ready);
        let Health { standing, message, .. } = judge(Some("new"));
        assert_eq!(standing, Standing::NotReady);
        assert!(message.unwrap().starts_with("Pod b on node n1 goes on with an older configuration"));
        let written = Written::now("new".to_owned());
        assert!(late_at(&written) > written.since + Duration::from_secs(20), "two rounds of questions");
    }
}
