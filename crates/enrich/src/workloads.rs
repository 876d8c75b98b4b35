//! The owners of a pod, also those that are known only from names.
//!
//! Source: the Collector's `k8s_attributes` processor, which reads names when the objects themselves are not at hand.

use weir_plan::{Pod, WorkloadKind};

/// The label with the part of a ReplicaSet's name that its Deployment added.
const HASH_LABEL: &str = "pod-template-hash";

/// The minutes since the Unix epoch that a CronJob may have added to the name of a Job: 2017 to 2046. Dates such as
/// `20260407` are not in this range.
const CRON_MINUTES: std::ops::Range<u32> = 25_000_000..40_000_000;

/// Owners of a pod: kinds and names. Known owners come before derived ones.
pub(crate) struct Workloads<'a>(Vec<(WorkloadKind, &'a str)>);

impl<'a> Workloads<'a> {
    pub(crate) fn of(pod: &'a Pod) -> Self {
        let mut all: Vec<_> = pod.workloads.iter().map(|owner| (owner.kind, &*owner.name)).collect();
        let derived = pod.workloads.iter().filter_map(|owner| match owner.kind {
            WorkloadKind::ReplicaSet => Some((WorkloadKind::Deployment, deployment(&owner.name, pod)?)),
            WorkloadKind::Job => Some((WorkloadKind::CronJob, cron_job(&owner.name)?)),
            _ => None,
        });
        all.extend(derived);
        Self(all)
    }

    /// The name of the owner of this kind.
    pub(crate) fn name(&self, kind: WorkloadKind) -> Option<&'a str> {
        self.0.iter().find(|(other, _)| *other == kind).map(|(_, name)| *name)
    }
}

/// The Deployment that a ReplicaSet is named after.
fn deployment<'a>(replica_set: &'a str, pod: &Pod) -> Option<&'a str> {
    let hash = pod.labels.get(HASH_LABEL).filter(|hash| !hash.is_empty())?;
    replica_set.strip_suffix(hash)?.strip_suffix('-')
}

/// The CronJob that a Job is named after.
fn cron_job(job: &str) -> Option<&str> {
    let (name, minutes) = job.rsplit_once('-')?;
    let digits = minutes.len() == 8 && minutes.bytes().all(|byte| byte.is_ascii_digit());
    let plausible = digits && minutes.parse().is_ok_and(|minutes| CRON_MINUTES.contains(&minutes));
    plausible.then_some(name)
}
