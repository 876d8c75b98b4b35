//! How a workload is, in the words of a condition.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::layout::Workload;
use super::names;
use super::picture::{Answer, Picture, PodState, Refused, WorkloadStatus};

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
    /// It is not there, and nothing is missing.
    NotNeeded,
}

/// A node takes seconds to run what was written, and says so in one of the next rounds. A controller makes pods at once.
const LATE: Duration = Duration::from_secs(30);
/// Pods that come up one after the other change the numbers more often, unless one cannot.
const STALLED: Duration = Duration::from_secs(300);

/// What the API server refuses for a moment only is no matter.
const REFUSED: Duration = Duration::from_secs(10);

/// When something becomes late that is not yet.
pub(crate) fn look_again(picture: &Picture, now: SystemTime) -> Option<SystemTime> {
    let written = picture.written.as_ref().map(|written| written.since + LATE);
    let unsettled = picture.workloads.values().filter(|status| !status.is_ready()).filter_map(|status| status.since);
    let refused = picture.refused.values().map(|refused| refused.since + REFUSED);
    let times = unsettled.flat_map(|since| [since + LATE, since + STALLED]).chain(written).chain(refused);
    times.filter(|at| *at > now).min()
}

/// Judges a workload by what could be written, by its numbers, by what is wrong with its pods, and by what they say.
/// `belongs`: whether there has to be one.
pub(crate) fn health(workload: Workload, belongs: bool, picture: &Picture, now: SystemTime) -> Health {
    let kind = workload.kind().1;
    let lasting = || picture.refused.iter().filter(|(_, refused)| now >= refused.since + REFUSED);
    if let Some((object, Refused { error, .. })) = lasting().next() {
        let more = match lasting().count() - 1 {
            0 => String::new(),
            more => format!(" ({more} more objects)"),
        };
        let message = format!("Cannot write {object}, everything else goes on as it is: {error}{more}");
        return Health { kind, standing: Standing::NotReady, message: Some(message) };
    }
    if !belongs {
        return Health { kind, standing: Standing::NotNeeded, message: None };
    }
    let pods: Vec<_> = picture.pods.iter().filter(|pod| pod.workload == workload).collect();
    let late = picture.written.as_ref().filter(|written| now >= written.since + LATE);
    let revision = late.map(|written| written.revision.as_str());
    judge(kind, picture.workloads.get(&workload).copied(), &pods, (&picture.answers, revision), now)
}

fn judge(
    kind: &'static str,
    status: Option<WorkloadStatus>,
    pods: &[&PodState],
    (answers, revision): (&BTreeMap<String, Answer>, Option<&str>),
    now: SystemTime,
) -> Health {
    let not_ready = |message: String| Health { kind, standing: Standing::NotReady, message: Some(message) };
    let Some(status) = status else { return not_ready(format!("{kind} is not yet created")) };
    let said = refusal(pods, answers).or_else(|| revision.and_then(|revision| lag(pods, answers, revision)));
    if let Some(said) = said {
        return not_ready(said);
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
    let WorkloadStatus { desired, updated, ready, since, .. } = status;
    let stands = since.and_then(|since| now.duration_since(since).ok()).unwrap_or_default();
    if status.is_current && pods.is_empty() && stands >= LATE {
        return not_ready(format!("No Pods deployed: the events of the {kind} say what keeps it from making them"));
    }
    if stands >= STALLED {
        let of = pods.iter().find(|pod| !pod.ready).map_or_else(String::new, |pod| {
            format!(": Pod {} on node {} is not ready, its events and its log say why", pod.name, pod.node)
        });
        return not_ready(format!("{ready} of {desired} Pods are ready, {updated} up to date, for minutes{of}"));
    }
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
    use super::super::picture::Written;
    use super::*;

    fn status(desired: i64, updated: i64, ready: i64) -> Option<WorkloadStatus> {
        Some(WorkloadStatus { is_current: true, desired, updated, ready, since: Some(SystemTime::UNIX_EPOCH) })
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
            let pods: Vec<_> = pods.iter().collect();
            let Health { standing, message, .. } = judge("DaemonSet", status, &pods, (&none, Some("ab")), at(1));
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
        let found = judge("DaemonSet", status(1, 1, 1), &[&pod("a", None)], (&answers, None), at(1));
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
        let judge = |late| judge("DaemonSet", status(3, 3, 3), &[&a, &b, &silent], (&answers, late), at(1));
        assert_eq!(judge(None).standing, Standing::Ready);
        let Health { standing, message, .. } = judge(Some("new"));
        assert_eq!(standing, Standing::NotReady);
        assert!(message.unwrap().starts_with("Pod b on node n1 goes on with an older configuration"));
    }

    /// A DaemonSet that cannot make pods (a quota, a policy), and one whose pods do not become ready.
    #[test]
    fn what_does_not_come_up_is_told_after_a_while() {
        let none = BTreeMap::new();
        let judge = |pods: &[&PodState], seconds| judge("DaemonSet", status(2, 2, 1), pods, (&none, None), at(seconds));
        assert_eq!(judge(&[], 29).standing, Standing::Rolling);
        let Health { standing, message, .. } = judge(&[], 30);
        assert_eq!(standing, Standing::NotReady);
        assert!(message.unwrap().starts_with("No Pods deployed: "));
        let (slow, well) = (pod("a", None), PodState { ready: true, ..pod("b", None) });
        assert_eq!(judge(&[&well, &slow], 299).standing, Standing::Rolling);
        let Health { standing, message, .. } = judge(&[&well, &slow], 300);
        assert_eq!(standing, Standing::NotReady);
        let expected = "1 of 2 Pods are ready, 2 up to date, for minutes: Pod a on node n1 is not ready";
        assert!(message.unwrap().starts_with(expected));
    }

    #[test]
    fn it_is_looked_again_when_something_becomes_late() {
        let workloads = BTreeMap::from([(Workload::Node, status(2, 2, 1).unwrap())]);
        let written = Some(Written { revision: "ab".to_owned(), since: at(10), changed_by: None });
        let picture = Picture { workloads, written, ..Picture::default() };
        let looks: Vec<_> = [0, 30, 40, 300].map(|now| look_again(&picture, at(now))).into();
        assert_eq!(looks, [Some(at(30)), Some(at(40)), Some(at(300)), None]);
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        let key =
            super::super::object::ObjectKey::cluster(("v1", "Secret"), names::CONFIGURATION).within("kyma-system");
        let refused = BTreeMap::from([(key, Refused { error: "forbidden (403)".to_owned(), since: at(0) })]);
        let workloads = BTreeMap::from([(Workload::Node, status(1, 1, 1).unwrap())]);
        let picture = Picture { workloads, refused, ..Picture::default() };
        assert_eq!(health(Workload::Node, true, &picture, at(9)).standing, Standing::Ready, "it may be a moment");
        assert_eq!(health(Workload::Stateful, false, &picture, at(9)).standing, Standing::NotNeeded);
        for (workload, belongs) in [(Workload::Node, true), (Workload::Stateful, false)] {
            let Health { standing, message, .. } = health(workload, belongs, &picture, at(10));
            assert_eq!(standing, Standing::NotReady);
            assert!(message.unwrap().contains("telemetry-node, everything else goes on as it is: forbidden (403)"));
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }
}
