//! Faults: what the sink does wrong on purpose.
//!
//! The fault model: a backend may refuse a share of requests with a code (with or without a retry hint), answer late,
//! never answer, reset the stream or connection, be unreachable for a window of time, read slowly, refuse what is too
//! large, or reject a part of a request. Each is drawn independently for each request from one seeded generator;
//! codes exclude each other. Wrong data is not in the model: the sink never acknowledges what it did not record.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use weir_units::parse_size;

use crate::flags::{Interval, Percent, Window};
use crate::grpc::Code;

/// The faults to inject; as flags and as the JSON body of `POST /faults`.
#[derive(Args, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(next_help_heading = "Faults")]
pub struct Faults {
    /// Refuse PCT percent of requests with an HTTP status (translated for gRPC) or `grpc=N`; repeatable
    #[arg(long = "fault", value_name = "CODE:PCT")]
    pub fault: Vec<Refusal>,
    /// Answer PCT percent of requests late by DURATION
    #[arg(long, value_name = "DURATION:PCT")]
    pub delay: Option<Delay>,
    /// Add a retry hint of this many seconds to refusals
    #[arg(long, value_name = "SECONDS")]
    pub retry_after: Option<Interval>,
    /// Never answer PCT percent of requests
    #[arg(long, value_name = "PCT", default_value_t)]
    pub stall: Percent,
    /// Reset the stream (HTTP/2) or close the connection (HTTP/1.1) of PCT percent of requests
    #[arg(long, value_name = "PCT", default_value_t)]
    pub reset: Percent,
    /// Refuse and close all connections in this window, counted from the start or from `POST /faults`; repeatable
    #[arg(long, value_name = "START..END")]
    pub outage: Vec<Window>,
    /// Read each request at this many bytes per second
    #[arg(long, value_name = "BYTES_PER_SECOND", value_parser = parse_size)]
    pub slow_read: Option<u64>,
    /// Refuse requests of more uncompressed bytes: 413 or RESOURCE_EXHAUSTED
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_request_bytes: Option<u64>,
    /// Accept only the second half of the items of PCT percent of requests (partial success)
    #[arg(long, value_name = "PCT", default_value_t)]
    pub partial: Percent,
    /// Seed of the random draws: the same seed and requests give the same faults
    #[arg(long, value_name = "NUMBER", default_value_t)]
    pub seed: u64,
}

/// A share of requests refused with one code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refusal {
    /// The code, as HTTP or gRPC knows it.
    pub code: Code,
    /// The share.
    pub share: Percent,
}

impl FromStr for Refusal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (code, share) =
            text.rsplit_once(':').ok_or_else(|| format!("cannot read fault \"{text}\": use CODE:PCT"))?;
        Ok(Self { code: code.parse()?, share: share.parse()? })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.code, self.share)
    }
}

/// A share of requests answered late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delay {
    /// How late.
    pub by: Interval,
    /// The share.
    pub share: Percent,
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (by, share) =
            text.rsplit_once(':').ok_or_else(|| format!("cannot read delay \"{text}\": use DURATION:PCT, as 1s:70"))?;
        Ok(Self { by: by.parse()?, share: share.parse()? })
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.by, self.share)
    }
}

impl<'de> Deserialize<'de> for Refusal {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::flags::from_json(deserializer)
    }
}

impl Serialize for Refusal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::flags::from_json(deserializer)
    }
}

impl Serialize for Delay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What happens to a request's data and answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Recorded and answered OK.
    Accept,
    /// The second half is recorded, the first is rejected by a partial success.
    Partial,
    /// Answered with an error.
    Refuse(Code),
    /// Never answered.
    Stall,
    /// The stream is reset.
    Reset,
}

/// Everything decided about one request, before its body is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) reaction: Reaction,
    pub(crate) delay: Duration,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) slow_read: Option<u64>,
    pub(crate) max_request_bytes: Option<u64>,
}

/// Draws the fate of each request; the faults can be replaced while requests are served.
#[derive(Debug)]
pub(crate) struct Dice {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    faults: Faults,
    rng: fastrand::Rng,
    since: Instant,
}

impl Dice {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { state: Mutex::new(State::new(faults)), changes: watch::Sender::new(0) }
    }

    /// Replaces the faults; windows of time count from now.
    pub(crate) fn replace(&self, faults: Faults) {
        *self.lock() = State::new(faults);
        self.changes.send_modify(|generation| *generation += 1);
    }

    /// The faults in force.
    pub(crate) fn faults(&self) -> Faults {
        self.lock().faults.clone()
    }

    /// Decides about the next request.
    pub(crate) fn draw(&self) -> Fate {
        let mut state = self.lock();
        let State { faults, rng, since: _ } = &mut *state;
        let delay = faults.delay.filter(|delay| hits(rng, delay.share)).map_or(Duration::ZERO, |delay| delay.by.0);
        Fate {
            reaction: faults.reaction(rng),
            delay,
            retry_after: faults.retry_after.map(|interval| interval.0),
            slow_read: faults.slow_read,
            max_request_bytes: faults.max_request_bytes,
        }
    }

    /// Keeps `outage` true exactly while an outage window is open.
    pub(crate) async fn drive_outages(&self, outage: &watch::Sender<bool>) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let (open, next) = self.lock().outage_now();
            outage.send_if_modified(|current| std::mem::replace(current, open) != open);
            let boundary = async {
                match next {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = boundary => (),
                _ = changes.changed() => (),
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(faults: Faults) -> Self {
        let rng = fastrand::Rng::with_seed(faults.seed);
        Self { faults, rng, since: Instant::now() }
    }

    /// Whether an outage is on, and how long until that may change.
    fn outage_now(&self) -> (bool, Option<Duration>) {
        let now = self.since.elapsed();
        let windows = &self.faults.outage;
        let next = windows.iter().flat_map(|window| [window.start, window.end]).filter(|&at| at > now).min();
        (windows.iter().any(|window| window.contains(now)), next.map(|at| at - now))
    }
}

impl Faults {
    fn reaction(&self, rng: &mut fastrand::Rng) -> Reaction {
        if hits(rng, self.reset) {
            return Reaction::Reset;
        }
        if hits(rng, self.stall) {
            return Reaction::Stall;
        }
        let mut draw = rng.f64();
        for refusal in &self.fault {
            draw -= refusal.share.fraction();
            if draw < 0.0 {
                return Reaction::Refuse(refusal.code);
            }
        }
        if hits(rng, self.partial) { Reaction::Partial } else { Reaction::Accept }
    }
}

fn hits(rng: &mut fastrand::Rng, share: Percent) -> bool {
    share.fraction() > 0.0 && rng.f64() < share.fraction()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(json: &str) -> Faults {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn json_takes_what_the_flags_take() {
        let faults = faults(r#"{"fault": ["503:60", "grpc=8:10"], "delay": "1s:70", "retry_after": 2, "stall": 1}"#);
        assert_eq!(faults.fault[1].code, Code::Grpc(8));
        assert_eq!(faults.retry_after, Some(Interval(Duration::from_secs(2))));
        let again: Faults = serde_json::from_str(&serde_json::to_string(&faults).unwrap()).unwrap();
        assert_eq!(again, faults);
        assert!(serde_json::from_str::<Faults>(r#"{"stal": 1}"#).is_err());
        assert!(serde_json::from_str::<Faults>(r#"{"fault": ["503"]}"#).is_err());
    }

    #[test]
    fn shares_are_honoured_and_a_seed_repeats() {
        let json = r#"{"fault": ["503:50", "429:20"], "seed": 42}"#;
        let draw = || {
            let dice = Dice::new(faults(json));
            (0..10_000).map(|_| dice.draw().reaction).collect::<Vec<_>>()
        };
        let reactions = draw();
        let count = |wanted| reactions.iter().filter(|&&reaction| reaction == wanted).count();
        assert!((4800..5200).contains(&count(Reaction::Refuse(Code::Http(503)))));
        assert!((1850..2150).contains(&count(Reaction::Refuse(Code::Http(429)))));
        assert!((2800..3200).contains(&count(Reaction::Accept)));
        assert_eq!(reactions, draw());
    }

    #[test]
    fn outage_windows_open_and_close() {
        let mut state = State::new(faults(r#"{"outage": ["0s..100s", "200s..300s"]}"#));
        assert!(state.outage_now().0);
        state.since -= Duration::from_secs(150);
        let (open, next) = state.outage_now();
        assert!(!open);
        assert!(next.is_some_and(|wait| wait <= Duration::from_secs(50)));
        state.since -= Duration::from_secs(300);
        assert_eq!(state.outage_now(), (false, None));
    }
}
