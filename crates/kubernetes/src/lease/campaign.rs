//! The election as the API server sees it: one task that looks at the Lease every few seconds.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use weir_legible::Seldom;

use super::{Election, Found, Step, Timings};
use crate::client::words;

/// No Lease of another is waited for longer, whatever it says.
const MAX_LASTS: Duration = Duration::from_secs(300);

/// Whether this process leads.
#[derive(Debug, Clone)]
pub struct Leadership(watch::Receiver<Option<Instant>>);

impl Leadership {
    /// Whether it leads at this moment.
    pub fn leads(&self) -> bool {
        self.until().is_some()
    }

    /// Until when it leads if nothing is heard of the API server.
    pub fn until(&self) -> Option<Instant> {
        self.0.borrow().filter(|until| Instant::now() < *until)
    }

    /// Resolves when it begins or ends. May be dropped and called again.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The task of one that takes part in an election.
pub struct Campaign {
    api: Api<Lease>,
    name: String,
    identity: String,
    timings: Timings,
    leads: watch::Sender<Option<Instant>>,
    /// What was written last: whoever leads knows what the API server has.
    written: Option<Lease>,
}

/// Takes part in the election for a Lease of a namespace. `identity`: unique, and never used again.
pub fn campaign(
    client: Client,
    namespace: &str,
    name: &str,
    identity: String,
    timings: Timings,
) -> (Leadership, Campaign) {
    let (leads, receiver) = watch::channel(None);
    let (api, name) = (Api::namespaced(client, namespace), name.to_owned());
    (Leadership(receiver), Campaign { api, name, identity, timings, leads, written: None })
}

impl Campaign {
    /// Runs until `stop` resolves, and gives the Lease back then, so that another need not wait for its end. May be run
    /// again.
    pub async fn run(&mut self, stop: impl Future<Output = ()>) {
        let mut election = Election::new(self.identity.clone(), self.timings);
        let mut said = Said::default();
        let mut stop = std::pin::pin!(stop);
        loop {
            let patience = self.timings.renew_deadline / 2;
            let turn = timeout(patience, self.turn(&mut election));
            let result = tokio::select! {
                () = &mut stop => break,
                result = turn => result.unwrap_or(Err(Failure::Timeout)),
            };
            let until = election.leads_until(Instant::now());
            self.tell(until);
            let pause =
                if until.is_none() && result.is_ok() { self.timings.look_period } else { self.timings.retry_period };
            said.say(&self.name, until.is_some(), result.err());
            tokio::select! {
                () = &mut stop => break,
                () = sleep(jittered(pause)) => {}
            }
        }
        if self.leads.send_replace(None).is_some_and(|until| Instant::now() < until) {
            tracing::debug!(lease = self.name.as_str(), "giving the Lease back");
            // If this fails, the others wait until it ends.
            drop(timeout(self.timings.retry_period, self.give_back()).await);
        }
        self.written = None;
    }

    async fn turn(&mut self, election: &mut Election) -> Result<(), Failure> {
        let began = Instant::now();
        // If another has it by now, the API server refuses what is written, and the next turn looks.
        let lease = match self.written.take() {
            Some(lease) => Some(lease),
            None => self.api.get_opt(&self.name).await?,
        };
        let found = lease.as_ref().map(|lease| self.found(lease));
        let old = lease.and_then(|lease| lease.spec).unwrap_or_default();
        let create = PostParams::default();
        let written = match election.step(Instant::now(), found.as_ref()) {
            Step::Wait => {
                let holder = found.as_ref().map(|found| found.holder.as_str());
                tracing::debug!(lease = self.name.as_str(), holder, "waiting for the Lease");
                return Ok(());
            }
            Step::Acquire { version: None, transitions } => {
                let lease = self.lease(LeaseSpec::default(), None, Some(transitions));
                self.api.create(&create, &lease).await?
            }
            Step::Acquire { version, transitions } => {
                let lease = self.lease(LeaseSpec::default(), version, Some(transitions));
                self.api.replace(&self.name, &create, &lease).await?
            }
            Step::Renew { version } => {
                self.api.replace(&self.name, &create, &self.lease(old, Some(version), None)).await?
            }
        };
        election.written(began);
        self.written = Some(written);
        Ok(())
    }

    /// Wakes whoever waits for a change, which a renewal is not.
    fn tell(&self, until: Option<Instant>) {
        self.leads.send_if_modified(|known| {
            let changes = known.is_some() != until.is_some();
            *known = until;
            changes
        });
    }

    fn found(&self, lease: &Lease) -> Found {
        let spec = lease.spec.clone().unwrap_or_default();
        let lasts = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Found {
            version: lease.metadata.resource_version.clone().unwrap_or_default(),
            holder: spec.holder_identity.unwrap_or_default(),
            // Whoever may write the Lease must not keep it for ever.
            lasts: lasts.map_or(self.timings.lease_duration, Duration::from_secs).min(MAX_LASTS),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// The Lease to write. With a number of transitions, it is taken now.
    fn lease(&self, old: LeaseSpec, version: Option<String>, transitions: Option<i32>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let taken = transitions.map(|_| now.clone());
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.timings.lease_duration.as_secs()).ok(),
            acquire_time: taken.or(old.acquire_time),
            renew_time: Some(now),
            lease_transitions: transitions.or(old.lease_transitions),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta { name: Some(self.name.clone()), resource_version: version, ..ObjectMeta::default() };
        Lease { metadata, spec: Some(spec) }
    }

    async fn give_back(&self) -> Result<(), Failure> {
        let Some(mut lease) = self.api.get_opt(&self.name).await? else { return Ok(()) };
        let Some(spec) = &mut lease.spec else { return Ok(()) };
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            spec.holder_identity = Some(String::new());
            self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}

/// A fifth more at most, so that many do not ask at the same moment.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + fastrand::f64() / 5.0)
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the API server did not answer in time")]
    Timeout,
    #[error("{}", words(.0))]
    Api(#[from] kube::Error),
}

impl Failure {
    /// Another was faster.
    fn is_race(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 409)
    }
}

/// What the log was told, so that it is told changes.
#[derive(Default)]
struct Said {
    leads: bool,
    is_told: bool,
    failure_reported: Seldom,
}

impl Said {
    fn say(&mut self, lease: &str, leads: bool, failure: Option<Failure>) {
        if leads != self.leads {
            tracing::info!(lease, leads, "leadership changed");
        }
        let failure = failure.filter(|failure| !failure.is_race());
        if let (Some(error), false) = (&failure, self.is_told)
            && let Some(left_out) = self.failure_reported.due(Instant::now())
        {
            tracing::warn!(
                lease,
                %error,
                left_out,
                advice = "look whether the API server answers, and at the rights of this ServiceAccount",
                "cannot read or write the Lease; trying on"
            );
            self.is_told = true;
        }
        (self.leads, self.is_told) = (leads, self.is_told && failure.is_some());
    }
}
