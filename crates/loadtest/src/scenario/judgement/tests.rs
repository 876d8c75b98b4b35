//! Loss, duplication and doubts, judged from made-up trials.

use std::time::Duration;

use tokio::time::Instant;

use super::super::course::Window;
use super::super::director::Kills;
use super::super::readings::Readings;
use super::super::script::{self, KillPlan, Script, Variant};
use super::super::trial::{Settled, Snapshot};
use super::super::{Output, System, SystemKind};
use super::*;
use crate::codec::Compression;
use crate::cpu::{CoreTime, Layout};
use crate::load::Offered;
use crate::load::payload::ShapeArgs;
use crate::load::{LoadIds, LoadReport};
use crate::scenario::Test;
use crate::scenario::processing::Processing;
use crate::signal::Signal;

const FIRST: u64 = MEASURED_FIRST_ID;

fn system() -> System {
    System { name: "weir".to_owned(), kind: SystemKind::Weir, program: "weir".into() }
}

pub(super) fn settings() -> Settings {
    Settings {
        duration: Duration::from_secs(10),
        warmup: Duration::ZERO,
        settle: Duration::from_secs(60),
        concurrency: 1,
        offered: Offered::Maximum,
        shape: ShapeArgs::default().resolve(Signal::Traces, 512).unwrap(),
        compression: Compression::None,
        processing: Processing::None,
        memory_bytes: 1 << 29,
        annotations: Vec::new(),
        weir_arguments: Vec::new(),
        has_data_directory: true,
        reads_files: false,
        scrapes: false,
        output: Output::Otlp,
        judge: "judge".into(),
        layout: Layout { gateway: vec![0], judge: vec![1] },
        directory: ".".into(),
    }
}

fn load(acked: &[(u64, u64)]) -> LoadReport {
    let spans = acked.iter().map(|(first, last)| last - first + 1).sum();
    let ids = LoadIds { acked: acked.to_vec(), ..LoadIds::default() };
    LoadReport { seconds: 10.0, acked_items: spans, acked_per_s: 100.0, ids, ..LoadReport::default() }
}

fn sink(ids: &[(u64, u64)]) -> SinkReport {
    let unique = ids.iter().map(|(first, last)| last - first + 1).sum();
    SinkReport {
        received: unique,
        wire_bytes: 70 * unique,
        unique,
        ids: Some([(Signal::Traces, ids.to_vec())].into()),
        ..SinkReport::default()
    }
}

/// Ten seconds: the gateway used 8 of them on its core, the judge's core was half busy.
fn trial(acked: &[(u64, u64)], sinks: Vec<SinkReport>) -> Trial {
    let at = Instant::now();
    let before = Snapshot {
        at,
        gateway_cpu_seconds: 1.0,
        sinks_cpu_seconds: 0.0,
        own_cpu_seconds: 0.0,
        gateway_cores: CoreTime { busy: 0, interrupts: 0, total: 0 },
        judge_cores: CoreTime { busy: 0, interrupts: 0, total: 0 },
        arrived: vec![0, 0, 0],
    };
    let after = Snapshot {
        at: at + Duration::from_secs(10),
        gateway_cpu_seconds: 9.0,
        sinks_cpu_seconds: 5.0,
        own_cpu_seconds: 0.0,
        gateway_cores: CoreTime { busy: 800, interrupts: 0, total: 1000 },
        judge_cores: CoreTime { busy: 500, interrupts: 0, total: 1000 },
        arrived: vec![500, 300, 100],
    };
    let memory_bytes = vec![100 << 20, 200 << 20];
    Trial {
        warmup: LoadReport::default(),
        load: load(acked),
        sinks,
        window: Window::default(),
        before,
        after,
        readings: Readings {
            memory_bytes,
            memory_peak_bytes: 300 << 20,
            queue_size: vec![1.0, 3.0],
            disk_peak_bytes: 10 << 20,
            ..Readings::default()
        },
        kills: None,
        settled: Settled { gateway_cpu_seconds: 11.0, written_bytes: 20 << 20, ..Settled::default() },
        missing: 0,
        stop_error: None,
    }
}

fn judged(script: &Script, trial: &Trial) -> Judgement {
    judged_as(&system(), script, trial)
}

fn judged_as(system: &System, script: &Script, trial: &Trial) -> Judgement {
    judge(&Part { system, script, directory: ".".into() }, &settings(), trial)
}

fn healthy() -> Script {
    script::published(Test::Traces, Variant::default())
}

#[test]
fn a_complete_delivery_has_no_loss_and_no_doubt() {
    let acked = [(FIRST, FIRST + 999)];
    let judgement = judged(&healthy(), &trial(&acked, vec![sink(&acked)]));
    let kpis = &judgement.kpis;
    assert_eq!((kpis.accepted, kpis.exported, kpis.lost, kpis.duplicated), (1000, 1000, 0, 0));
    assert_eq!((kpis.memory_mb_avg, kpis.memory_mb_peak, kpis.queue_size), (150.0, 300.0, 2.0));
    assert_eq!((kpis.cpu_cores, kpis.exported_per_s, kpis.cpu_s_per_million), (0.8, 90.0, 10_000.0));
    assert_eq!((kpis.disk_mb_peak, kpis.disk_mb_written, kpis.wire_bytes_per_item), (10.0, 20.0, 70.0));
    assert_eq!((judgement.warnings, judgement.failures), (Vec::new(), Vec::new()));
}

#[test]
fn loss_is_counted_per_sink_and_warm_up_counts() {
    let acked = [(FIRST, FIRST + 999)];
    let mut trial = trial(&acked, vec![sink(&acked), sink(&[(FIRST, FIRST + 899)]), sink(&[(1, 10)])]);
    trial.warmup = load(&[(1, 10)]);
    trial.missing = 1220;
    let judgement = judged(&script::published(Test::Traces, Variant { multi: true, ..Variant::default() }), &trial);
    // Sinks lack: the warm-up; the warm-up and 100; all 1000.
    assert_eq!(judgement.kpis.lost, 10 + 110 + 1000);
    assert_eq!(judgement.kpis.exported, 1900, "the warm-up is not exported in the measured run");
}

#[test]
fn what_was_held_at_the_stop_is_pending_not_lost_and_what_was_not_is_lost() {
    let acked = [(FIRST, FIRST + 999)];
    let mut trial = trial(&acked, vec![sink(&[(FIRST, FIRST + 599)])]);
    let mut judge = |missing, held| {
        (trial.missing, trial.settled.held) = (missing, held);
        let kpis = judged(&healthy(), &trial).kpis;
        (kpis.lost, kpis.pending)
    };
    assert_eq!(judge(400, 0.0), (400, 0), "it held nothing");
    // All held; 500 of 900 delivered while it shut down.
    assert_eq!(judge(900, 900.0), (0, 400));
    // 150 were gone before the stop.
    assert_eq!(judge(900, 750.0), (150, 250));
    // A system that claims more than is missing, or nonsense, gains nothing by it.
    assert_eq!(judge(900, 5000.0), (0, 400));
    assert_eq!(judge(900, f64::NAN), (400, 0));
    assert_eq!(judge(900, -1.0), (400, 0));
}

#[test]
fn weir_fails_with_a_loss_with_the_unproven_and_with_too_much_memory_and_a_peer_does_not() {
    let acked = [(FIRST, FIRST + 999)];
    let failures = |kind, change: &dyn Fn(&mut Trial)| {
        let mut trial = trial(&acked, vec![sink(&[(FIRST, FIRST + 989)])]);
        trial.missing = 10;
        change(&mut trial);
        judged_as(&System { kind, ..system() }, &healthy(), &trial).failures.join("\n")
    };
    let weir = |change: &dyn Fn(&mut Trial)| failures(SystemKind::Weir, change);
    let lost = weir(&|trial| trial.settled.self_view.given_up = Some(7.0));
    assert_eq!(lost, "10 acknowledged spans are lost; it says it gave up 7");
    let held = weir(&|trial| trial.settled.held = 10.0);
    assert!(held.starts_with("10 acknowledged spans were still held when it was stopped, 60 s"), "{held}");
    let complete = |trial: &mut Trial| trial.sinks = vec![sink(&acked)];
    assert_eq!(weir(&complete), "");
    let large = |trial: &mut Trial| {
        complete(trial);
        trial.readings.memory_peak_bytes = (512 + 33) << 20;
    };
    assert_eq!(weir(&large), "it used 545 MB of memory, more than the promised 544");
    let admitted = weir(&|trial| {
        complete(trial);
        trial.readings.mismatches = 2.0;
        trial.readings.damaged_bytes = 3.0;
        trial.readings.rule_errors = 4.0;
    });
    for fault in ["2 entries of its books", "3 bytes of its journal", "its rules failed 4 times"] {
        assert!(admitted.contains(fault), "{admitted}");
    }
    assert_eq!(failures(SystemKind::Otelcol, &large), "");
    assert_eq!(failures(SystemKind::Otelcol, &|_| ()), "");
    let stuck = |trial: &mut Trial| trial.stop_error = Some("killed".to_owned());
    assert_eq!(failures(SystemKind::Otelcol, &stuck), "killed");
}

#[test]
fn beside_sick_neighbours_rates_are_those_of_the_healthy_one_and_losses_those_of_all() {
    let acked = [(FIRST, FIRST + 999)];
    let mut sinks = vec![sink(&acked), sink(&[]), sink(&acked)];
    sinks[0].latency_ms.p99 = 2.0;
    sinks[2].latency_ms.p99 = 5000.0;
    let mut trial = trial(&acked, sinks);
    trial.missing = 1000;
    let [_, beside] = script::sick_neighbour(Test::Traces);
    let judgement = judged(&beside, &trial);
    let kpis = &judgement.kpis;
    assert_eq!((kpis.exported, kpis.exported_per_s, kpis.latency_ms_p99), (1000, 50.0, 2.0));
    assert_eq!((kpis.lost, judgement.label.as_str()), (1000, "weir, beside two sick"));
}

#[test]
fn a_crash_is_told_in_kills_and_recoveries_and_the_gateway_s_own_counts_are_not_asked() {
    let mut trial = trial(&[(FIRST, FIRST + 999)], vec![sink(&[(FIRST, FIRST + 999)])]);
    let recoveries = vec![Duration::from_millis(20), Duration::from_millis(50), Duration::from_millis(30)];
    trial.kills = Some(Kills { count: 4, before_ready: 1, recoveries, ..Kills::default() });
    trial.load.ids.unknown = vec![(FIRST + 900, FIRST + 1099)];
    trial.load.errors.insert("no answer".to_owned(), 3);
    trial.settled.self_view.accepted = Some(1.0);
    let crash = script::crash(
        Test::Traces,
        KillPlan { every: Duration::from_secs(1), seed: 1, ending: script::Ending::Crash },
        false,
    );
    let judgement = judged(&crash, &trial);
    let kpis = &judgement.kpis;
    assert_eq!((kpis.kills, kpis.recovery_ms_p50, kpis.recovery_ms_max), (Some(4), Some(30.0), Some(50.0)));
    assert_eq!(kpis.unanswered, 100, "what was acknowledged on another attempt was answered");
    assert_eq!(kpis.lost, 0, "and what was not is nobody's loss");
    assert!(judgement.facts.join("\n").contains("killed 4 times, 1 of them before"), "{:?}", judgement.facts);
    assert_eq!(judgement.warnings, Vec::<String>::new(), "a new process counts from zero");
}

#[test]
fn a_drain_ends_when_no_more_is_held_than_arrives_in_a_second() {
    let acked = [(FIRST, FIRST + 999)];
    let mut trial = trial(&acked, vec![sink(&acked)]);
    let start = Instant::now();
    for (second, spans) in [(0, 50.0), (1, 5000.0), (2, 6000.0), (3, 101.0), (4, 100.0)] {
        trial.readings.note_backlog(start + Duration::from_secs(second), spans);
    }
    trial.settled.mended_at = Some(start + Duration::from_secs(1));
    let outage = script::outage(Test::Traces, script::Absence::Refused, false, Duration::from_secs(10));
    let kpis = judged(&outage, &trial).kpis;
    assert_eq!((kpis.drain_s, kpis.backlog_peak), (Some(3.0), 6000.0));
    assert_eq!(judged(&healthy(), &Trial { settled: Settled::default(), ..trial }).kpis.drain_s, None);
}

#[test]
fn doubts_are_named() {
    let acked = [(FIRST, FIRST + 999)];
    let doubts = |change: &dyn Fn(&mut Trial)| {
        let mut trial = trial(&acked, vec![sink(&acked)]);
        change(&mut trial);
        judged(&healthy(), &trial).warnings.join("\n")
    };
    let limited = doubts(&|trial| {
        trial.after.judge_cores.busy = 990;
        trial.after.sinks_cpu_seconds = 9.9;
    });
    assert!(limited.contains("the judge was the limit"), "{limited}");
    let network = doubts(&|trial| trial.after.judge_cores = CoreTime { busy: 700, interrupts: 200, total: 1000 });
    assert_eq!(network, "", "nobody is charged for interrupts");
    let strangers = doubts(&|trial| trial.after.judge_cores.busy = 700);
    assert!(strangers.contains("other processes used 0.20 cores"), "{strangers}");
    let counts = doubts(&|trial| trial.settled.self_view.accepted = Some(990.0));
    assert!(counts.contains("accepted 990 spans, the judge counted 1000"), "{counts}");
    let exported = doubts(&|trial| trial.settled.self_view.sent = Some(1001.0));
    assert!(exported.contains("exported 1001 spans, the judge counted 1000"), "{exported}");
    let twice = doubts(&|trial| {
        trial.settled.self_view.sent = Some(1001.0);
        trial.sinks[0].duplicates = 1;
    });
    assert_eq!(twice, "", "a backend that broke off before its answer was sent it twice");
    let hints = doubts(&|trial| trial.load.refused_without_hint = 3);
    assert!(hints.contains("3 refused requests had no retry hint"), "{hints}");
    let generator = doubts(&|trial| trial.load.bottleneck = Some("the generator was slow".to_owned()));
    assert_eq!(generator, "the generator was slow");
}

#[test]
fn work_that_was_not_done_is_a_failure_of_weir_and_a_doubt_about_a_peer() {
    let acked = [(FIRST, FIRST + 999)];
    let mut trial = trial(&acked, vec![sink(&acked)]);
    trial.sinks[0].without_text = 3;
    let judged = |kind, processing| {
        let (system, script) = (System { kind, ..system() }, healthy());
        let settings = Settings { processing, ..settings() };
        let judgement = judge(&Part { system: &system, script: &script, directory: ".".into() }, &settings, &trial);
        (judgement.failures.join("\n"), judgement.warnings.join("\n"))
    };
    let text = "3 requests arrived without load.inserted: it was not done".to_owned();
    assert_eq!(judged(SystemKind::Weir, Processing::Insert), (text.clone(), String::new()));
    assert_eq!(judged(SystemKind::Otelcol, Processing::Insert), (String::new(), text));
    assert_eq!(judged(SystemKind::Weir, Processing::None), (String::new(), String::new()));
}

#[test]
fn a_filter_has_to_drop_what_is_marked_and_nothing_else() {
    let settings = Settings {
        shape: ShapeArgs { marked: Some(97), ..ShapeArgs::default() }.resolve(Signal::Traces, 512).unwrap(),
        ..settings()
    };
    // Ids from a full hundred on, so that the last three of each hundred are to be kept.
    let first = FIRST.next_multiple_of(100);
    let judged = |received: &[(u64, u64)], missing| {
        let mut trial = trial(&[(first, first + 199)], vec![sink(received)]);
        trial.missing = missing;
        let (system, script) = (system(), healthy());
        judge(&Part { system: &system, script: &script, directory: ".".into() }, &settings, &trial)
    };
    let right = judged(&[(first + 97, first + 99), (first + 197, first + 199)], 0);
    assert_eq!((right.kpis.lost, right.kpis.leaked, right.kpis.exported), (0, Some(0), 6));
    assert_eq!(right.failures, Vec::<String>::new());
    let wrong = judged(&[(first + 96, first + 99)], 3);
    assert_eq!((wrong.kpis.lost, wrong.kpis.leaked), (3, Some(1)));
    assert!(wrong.failures.contains(&"1 spans arrived that the filter was to drop".to_owned()), "{:?}", wrong.failures);
    assert_eq!(right.facts[0], "of the spans that the filter was to drop, 0 arrived");
}
