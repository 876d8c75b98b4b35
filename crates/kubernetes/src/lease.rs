//! Leader election by a Lease: who leads, and until when.
//!
//! [`Election`] decides and is pure; [`campaign`] talks to the API server. Clocks of other machines are not trusted:
//! another leader is taken for gone when its Lease did not change for as long as it lasts, by the clock here. A leader
//! stops leading well before anybody can take its place, so two never lead at once.

mod campaign;

use std::time::Duration;

use tokio::time::Instant;

pub use campaign::{Campaign, Leadership, campaign};

/// How long a Lease lasts, and how often it is looked at. The names are those of client-go's leader election.
#[derive(Debug, Clone, Copy)]
pub struct Timings {
    /// Nobody else takes a Lease that changed within this time.
    pub lease_duration: Duration,
    /// A leader whose last renewal began longer ago than this leads no more. Less than `lease_duration`: the difference is for
    /// work that is under way, and for clocks of different speed.
    pub renew_deadline: Duration,
    /// Between two renewals, and before a request that failed is made again.
    pub retry_period: Duration,
    /// Between two looks while another leads.
    pub look_period: Duration,
}

impl Default for Timings {
    /// Those that controllers usually have: a new leader within 20 s of the end of the old one.
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period, look_period] = [15, 10, 2, 2].map(Duration::from_secs);
        Self { lease_duration, renew_deadline, retry_period, look_period }
    }
}

impl Timings {
    /// For an election with thousands that take part, all of which ask the API server.
    pub fn of_many() -> Self {
        let [lease_duration, renew_deadline, retry_period, look_period] = [60, 45, 15, 30].map(Duration::from_secs);
        Self { lease_duration, renew_deadline, retry_period, look_period }
    }
}

/// A Lease as the API server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its `resourceVersion`.
    pub version: String,
    /// Who leads; empty when it was given back.
    pub holder: String,
    /// How long it lasts.
    pub lasts: Duration,
    /// How often it went from one to another.
    pub transitions: i32,
}

/// What to do about a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Somebody else has it.
    Wait,
    /// Take it: create it without a version, else replace that version and no other.
    Acquire {
        /// What to replace.
        version: Option<String>,
        /// How often it went from one to another, with this.
        transitions: i32,
    },
    /// Keep it: replace this version and no other.
    Renew {
        /// What to replace.
        version: String,
    },
}

/// One that takes part in an election.
#[derive(Debug)]
pub struct Election {
    identity: String,
    timings: Timings,
    /// The version of another's Lease, and when it was first seen.
    seen: Option<(String, Instant)>,
    leads_until: Option<Instant>,
}

impl Election {
    /// `identity`: unique among all that take part, and never used again.
    pub fn new(identity: String, timings: Timings) -> Self {
        Self { identity, timings, seen: None, leads_until: None }
    }

    /// What to do now, if the API server has this.
    pub fn step(&mut self, now: Instant, found: Option<&Found>) -> Step {
        let Some(found) = found else { return Step::Acquire { version: None, transitions: 0 } };
        if found.holder == self.identity {
            return Step::Renew { version: found.version.clone() };
        }
        self.leads_until = None;
        let since = match &self.seen {
            Some((version, since)) if *version == found.version => *since,
            _ => {
                self.seen = Some((found.version.clone(), now));
                now
            }
        };
        if found.holder.is_empty() || now.duration_since(since) >= found.lasts {
            let transitions = found.transitions.saturating_add(1);
            return Step::Acquire { version: Some(found.version.clone()), transitions };
        }
        Step::Wait
    }

    /// The API server took what [`step`](Self::step) said. `began`: before the request was sent.
    pub fn written(&mut self, began: Instant) {
        self.seen = None;
        self.leads_until = Some(began + self.timings.renew_deadline);
    }

    /// The end of the leadership unless it is renewed; nothing for one that does not lead.
    pub fn leads_until(&self, now: Instant) -> Option<Instant> {
        self.leads_until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: u32, holder: &str) -> Found {
        Found {
            version: version.to_string(),
            holder: holder.to_owned(),
            lasts: Duration::from_secs(15),
            transitions: 3,
        }
    }

    fn election() -> (Election, Instant, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        (Election::new("me".to_owned(), Timings::default()), start, move |s| start + Duration::from_secs(s))
    }

    #[tokio::test]
    async fn what_nobody_has_is_taken_at_once() {
        let (mut election, now, _) = election();
        assert_eq!(election.step(now, None), Step::Acquire { version: None, transitions: 0 });
        let given_back = found(7, "");
        let taken = Step::Acquire { version: Some("7".to_owned()), transitions: 4 };
        assert_eq!(election.step(now, Some(&given_back)), taken);
        assert_eq!(election.leads_until(now), None, "not before the API server says so");
    }

    #[tokio::test]
    async fn the_lease_of_another_is_taken_when_it_rested_for_as_long_as_it_lasts() {
        let (mut election, now, at) = election();
        assert_eq!(election.step(now, Some(&found(1, "other"))), Step::Wait);
        assert_eq!(election.step(at(14), Some(&found(2, "other"))), Step::Wait, "renewed");
        assert_eq!(election.step(at(28), Some(&found(2, "other"))), Step::Wait);
        let taken = Step::Acquire { version: Some("2".to_owned()), transitions: 4 };
        assert_eq!(election.step(at(29), Some(&found(2, "other"))), taken);
    }

    #[tokio::test]
    async fn a_leader_renews_and_stops_to_lead_before_others_may() {
        let (mut election, now, at) = election();
        election.written(now);
        assert_eq!(election.leads_until(at(9)), Some(at(10)));
        assert_eq!(election.step(at(2), Some(&found(2, "me"))), Step::Renew { version: "2".to_owned() });
        election.written(at(2));
        assert_eq!(election.leads_until(at(11)), Some(at(12)));
        assert_eq!(election.leads_until(at(12)), None, "3 s before another takes it");
        for timings in [Timings::default(), Timings::of_many()] {
            assert!(timings.renew_deadline < timings.lease_duration);
            assert!(2 * timings.retry_period < timings.renew_deadline, "one renewal may fail");
        }
    }

    #[tokio::test]
    async fn whoever_sees_another_leader_leads_no_more() {
        let (mut election, now, at) = election();
        election.written(now);
        assert_eq!(election.step(at(1), Some(&found(9, "other"))), Step::Wait);
        assert_eq!(election.leads_until(at(1)), None);
    }
}
