//! Scenarios as data: how many backends, what each does wrong, and what happens to whom while the load runs.
//!
//! It knows neither processes nor sockets. Faults are written as a user would post them to a sink's control port.

use std::time::Duration;

use super::config::{Annotation, Overlay};
use super::pages::ScrapeLoad;
use super::writer::Writer;
use super::{Settings, Test};
use crate::load::Offered;

/// Which of the published scenarios.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) multi: bool,
    pub(crate) backpressure: Option<Backpressure>,
    /// Which setup of the log gateway's test; all others have one.
    pub(crate) overlay: Option<Overlay>,
}

/// Back-pressure of the published kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backpressure {
    /// How many of a hundred requests are refused, and how many are delayed.
    pub(crate) percent: u8,
    /// Whether that many were when the test was published.
    pub(crate) is_published: bool,
}

/// How a backend is away during an outage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Absence {
    /// Its port is closed: connections are refused
    #[default]
    Refused,
    /// It takes requests and answers none
    Silent,
}

/// One scenario, ready to be run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    /// As `result.json` names it.
    pub(crate) name: String,
    /// What sets this run apart from another of the same scenario in the same table.
    pub(crate) part: Option<String>,
    /// The faults of each backend from the start.
    pub(crate) backends: Vec<String>,
    /// What is done to all backends during the measured time, in order.
    pub(crate) deeds: Vec<Deed>,
    /// How the gateway is killed during the measured time.
    pub(crate) kills: Option<KillPlan>,
    /// Clients, each with a connection and the whole rate; otherwise all share the connections and the rate of the test.
    pub(crate) clients: Option<u16>,
    /// Whether the generator sends again what was not acknowledged.
    pub(crate) retry: bool,
    /// Whether backends turn healthy when the load has ended.
    pub(crate) mended: bool,
    /// The backend that rates and latencies are about; all of them when there is none.
    pub(crate) subject: Option<usize>,
    /// What the pipelines are told beside their backends.
    pub(crate) annotations: Vec<Annotation>,
    /// The published scenario it repeats.
    pub(crate) published: Option<Variant>,
    /// How files come about, when no client pushes anything.
    pub(crate) writer: Option<Writer>,
    /// What is scraped, when no client pushes anything.
    pub(crate) pages: Option<ScrapeLoad>,
}

/// Faults that replace those of all backends at a time counted from the start of the measured time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Deed {
    pub(crate) at: Duration,
    pub(crate) faults: String,
}

/// The gateway is killed this often on average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KillPlan {
    pub(crate) every: Duration,
    pub(crate) seed: u64,
    pub(crate) ending: Ending,
}

/// How a process is ended before the next one starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By SIGKILL.
    #[default]
    Crash,
    /// By SIGTERM, and the time it needs.
    Restart,
}

impl Ending {
    /// What was done to the process.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Crash => "killed",
            Self::Restart => "restarted",
        }
    }
}

/// What the generator does in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) connections: u16,
    pub(crate) offered: Offered,
}

impl Script {
    /// How many connections offer how much.
    pub(crate) fn load(&self, settings: &Settings) -> Load {
        match self.clients {
            Some(clients) => Load { connections: clients, offered: settings.offered.times(clients) },
            None => Load { connections: settings.concurrency, offered: settings.offered },
        }
    }

    /// Which setup of the log gateway's published test it repeats.
    pub(crate) fn overlay(&self) -> Option<Overlay> {
        self.published.and_then(|variant| variant.overlay)
    }

    /// From when to when its backends are away, in seconds of the measured time.
    pub(crate) fn away(&self) -> Option<(f64, f64)> {
        let [gone, back] = self.deeds.as_slice() else { return None };
        Some((gone.at.as_secs_f64(), back.at.as_secs_f64()))
    }
}

/// No faults.
pub(crate) const HEALTHY: &str = "{}";

/// Longer than any test.
const FOR_EVER: &str = "0s..1000h";

/// A backend that clients should not hear of when its backlog is full of acknowledged data: with the default, old data is
/// dropped as documented, which a judge could not tell from loss.
fn refuse_when_full() -> Vec<Annotation> {
    vec![Annotation::new("weir.dev/backlog-overflow", "refuse")]
}

/// One of the scenarios of the KPI kit.
pub(crate) fn published(test: Test, variant: Variant) -> Script {
    let Variant { multi, backpressure, overlay } = variant;
    let mut suffix = if overlay == Some(Overlay::Batch) { "-batch" } else { "" }.to_owned();
    suffix.push_str(if multi { "-multi" } else { "" });
    let Some(Backpressure { percent, is_published }) = backpressure else {
        return Script { published: Some(variant), ..plain(test, &suffix, backends(multi, |_| HEALTHY.to_owned())) };
    };
    suffix.push_str("-backpressure");
    if !is_published {
        suffix.push_str(&format!("-{percent}"));
    }
    // The faults of the load-test kit, drawn differently by each backend.
    let backends =
        backends(multi, |seed| format!(r#"{{"fault": ["503:{percent}"], "delay": "1s:{percent}", "seed": {seed}}}"#));
    // Where nothing is taken, everything is held until the backend is well.
    let mended = percent == 100;
    Script { published: Some(variant), annotations: refuse_when_full(), mended, ..plain(test, &suffix, backends) }
}

/// The backends are gone for the middle half of the measured time.
pub(crate) fn outage(test: Test, absence: Absence, multi: bool, duration: Duration) -> Script {
    let (suffix, gone) = match absence {
        Absence::Refused => ("-outage", format!(r#"{{"outage": ["{FOR_EVER}"]}}"#)),
        Absence::Silent => ("-outage-silent", r#"{"stall": 100}"#.to_owned()),
    };
    let deeds =
        vec![Deed { at: duration / 4, faults: gone }, Deed { at: duration / 4 * 3, faults: HEALTHY.to_owned() }];
    let backends = backends(multi, |_| HEALTHY.to_owned());
    Script { deeds, annotations: refuse_when_full(), ..plain(test, suffix, backends) }
}

/// A healthy pipeline by itself, and then beside one whose backend refuses everything and one whose backend takes 5 s.
pub(crate) fn sick_neighbour(test: Test) -> [Script; 2] {
    let healthy = HEALTHY.to_owned();
    let refusing = r#"{"fault": ["503:100"]}"#.to_owned();
    let slow = r#"{"delay": "5s:100"}"#.to_owned();
    let alone = plain(test, "-sick-neighbour-alone", vec![healthy.clone()]);
    let together = plain(test, "-sick-neighbour", vec![healthy, refusing, slow]);
    [
        Script { part: Some("alone".to_owned()), subject: Some(0), ..alone },
        Script { part: Some("beside two sick".to_owned()), subject: Some(0), mended: true, ..together },
    ]
}

/// The gateway is killed again and again; the backends are unreliable enough for it to hold something when it is.
pub(crate) fn crash(test: Test, plan: KillPlan, multi: bool) -> Script {
    let backends = backends(multi, |index| {
        let seed = plan.seed.wrapping_add(index);
        format!(r#"{{"fault": ["503:20"], "delay": "500ms:20", "reset": 2, "seed": {seed}}}"#)
    });
    Script { kills: Some(plan), retry: true, ..plain(test, "-crash", backends) }
}

/// An agent is stopped and started again and again.
pub(crate) fn restart(test: Test, plan: KillPlan, multi: bool) -> Script {
    Script { kills: Some(plan), ..plain(test, "-restart", backends(multi, |_| HEALTHY.to_owned())) }
}

/// Files are rotated all the time, also while the backends are gone for the middle half of it.
pub(crate) fn rotation(test: Test, absence: Absence, multi: bool, duration: Duration) -> Script {
    Script { name: format!("{}-rotation", test.name()), ..outage(test, absence, multi, duration) }
}

/// Pods come and go.
pub(crate) fn short_pods(test: Test, multi: bool) -> Script {
    plain(test, "-short-pods", backends(multi, |_| HEALTHY.to_owned()))
}

/// Workers of each replica, and replicas, of the generators in the log gateway's published trial.
const MATRIX: [u16; 3] = [1, 5, 10];

/// Not worse, but more of it.
pub(crate) fn scale(test: Test, multi: bool) -> Script {
    plain(test, "-scale", backends(multi, |_| HEALTHY.to_owned()))
}

/// From one client to a hundred, each of which offers the whole rate. On one machine a worker of one replica is like one
/// of another: a connection with one request in flight.
pub(crate) fn matrix(test: Test) -> Vec<Script> {
    let cell = |replicas: u16, workers: u16| Script {
        part: Some(format!("{workers} x {replicas}")),
        clients: Some(workers * replicas),
        ..plain(test, "-matrix", vec![HEALTHY.to_owned()])
    };
    MATRIX.into_iter().flat_map(|replicas| MATRIX.map(|workers| cell(replicas, workers))).collect()
}

fn plain(test: Test, suffix: &str, backends: Vec<String>) -> Script {
    Script {
        name: format!("{}{suffix}", test.name()),
        part: None,
        backends,
        deeds: Vec::new(),
        kills: None,
        clients: None,
        retry: false,
        mended: false,
        subject: None,
        annotations: Vec::new(),
        published: None,
        writer: None,
        pages: None,
    }
}

fn backends(multi: bool, faults: impl Fn(u64) -> String) -> Vec<String> {
    (0..if multi { 3 } else { 1 }).map(faults).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::faults::Faults;

    fn all() -> Vec<Script> {
        let minute = Duration::from_secs(60);
        let test = Test::Traces;
        let mut scripts = Vec::from(sick_neighbour(test));
        scripts.extend(matrix(test));
        for multi in [false, true] {
            let all = [None, Some(70), Some(100)];
            scripts.extend(all.map(|percent| published(test, variant(multi, percent.map(refusing)))));
            scripts.extend([Absence::Refused, Absence::Silent].map(|absence| outage(test, absence, multi, minute)));
            scripts.push(rotation(test, Absence::Silent, multi, minute));
            scripts.push(crash(test, KillPlan { every: minute, seed: u64::MAX, ending: Ending::Crash }, multi));
        }
        scripts
    }

    fn refusing(percent: u8) -> Backpressure {
        Backpressure { percent, is_published: true }
    }

    fn variant(multi: bool, backpressure: Option<Backpressure>) -> Variant {
        Variant { multi, backpressure, overlay: None }
    }

    #[test]
    fn a_sink_understands_every_fault() {
        for script in all() {
            let faults = script.backends.iter().chain(script.deeds.iter().map(|deed| &deed.faults));
            for faults in faults {
                assert!(serde_json::from_str::<Faults>(faults).is_ok(), "{}: {faults}", script.name);
            }
        }
        assert_eq!(serde_json::from_str::<Faults>(HEALTHY).unwrap(), Faults::default());
    }

    #[test]
    fn an_outage_is_the_middle_half_and_ends() {
        let script = outage(Test::LogsOtel, Absence::Refused, false, Duration::from_secs(600));
        assert_eq!(script.name, "logs-otel-outage");
        let at: Vec<u64> = script.deeds.iter().map(|deed| deed.at.as_secs()).collect();
        assert_eq!(at, [150, 450]);
        assert_eq!(script.deeds[1].faults, HEALTHY);
        assert_eq!(script.away(), Some((150.0, 450.0)));
        assert_eq!(published(Test::Traces, Variant::default()).away(), None);
    }

    #[test]
    fn three_backends_draw_their_faults_differently() {
        let script = published(Test::Metrics, variant(true, Some(refusing(70))));
        assert_eq!(script.backends.len(), 3);
        assert!(script.backends[0] != script.backends[1] && script.backends[1] != script.backends[2]);
    }

    #[test]
    fn a_backend_that_takes_nothing_turns_healthy_afterwards() {
        let script = |backpressure| published(Test::Metricagent, variant(false, backpressure));
        let some = script(Some(refusing(70)));
        assert_eq!(some.backends, [r#"{"fault": ["503:70"], "delay": "1s:70", "seed": 0}"#]);
        let all = script(Some(refusing(100)));
        assert_eq!(all.backends, [r#"{"fault": ["503:100"], "delay": "1s:100", "seed": 0}"#]);
        assert!(all.mended && !some.mended && !script(None).mended);
        assert_eq!((all.annotations, script(None).annotations), (refuse_when_full(), vec![]));
    }

    #[test]
    fn the_subject_is_the_healthy_one_in_both_runs() {
        for script in sick_neighbour(Test::Traces) {
            assert_eq!(script.subject.map(|index| script.backends[index].as_str()), Some(HEALTHY));
        }
    }

    #[test]
    fn the_matrix_goes_from_one_client_to_a_hundred() {
        let scripts = matrix(Test::LogsOtel);
        let clients: Vec<u16> = scripts.iter().filter_map(|script| script.clients).collect();
        assert_eq!(clients, [1, 5, 10, 5, 25, 50, 10, 50, 100]);
        assert_eq!(scripts[3].part.as_deref(), Some("1 x 5"));
    }
}
