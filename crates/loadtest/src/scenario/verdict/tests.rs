//! Loss, duplication and doubts, judged from made-up trials.

use std::time::Duration;

use tokio::time::Instant;

use super::super::metrics::SelfView;
use super::super::trial::{Samples, Snapshot};
use super::super::{SystemKind, Variant};
use super::*;
use crate::codec::Compression;
use crate::cpu::{CoreTime, Layout};
use crate::load::payload::Shape;
use crate::load::{LoadIds, LoadReport};

const FIRST: u64 = MEASURED_FIRST_ID;

fn system() -> System {
    System { name: "weir".to_owned(), kind: SystemKind::Weir, program: "weir".into() }
}

fn settings(variant: Variant) -> Settings {
    Settings {
        variant,
        duration: Duration::from_secs(10),
        warmup: Duration::ZERO,
        concurrency: 1,
        rate: None,
        shape: Shape { batch: 512, attributes: 1, attribute_bytes: 1, spans_per_trace: 1 },
        compression: Compression::None,
        memory_bytes: 1 << 29,
        judge: "judge".into(),
        layout: Layout { gateway: vec![0], judge: vec![1] },
        directory: ".".into(),
    }
}

fn load(acked: &[(u64, u64)]) -> LoadReport {
    let spans = acked.iter().map(|(first, last)| last - first + 1).sum();
    let ids = LoadIds { acked: acked.to_vec(), unknown: Vec::new() };
    LoadReport { seconds: 10.0, acked_spans: spans, acked_per_s: 100.0, ids, ..LoadReport::default() }
}

fn sink(ids: &[(u64, u64)]) -> SinkReport {
    let unique = ids.iter().map(|(first, last)| last - first + 1).sum();
    SinkReport { received: unique, unique, ids: Some(ids.to_vec()), ..SinkReport::default() }
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
        exported: 0,
    };
    let after = Snapshot {
        at: at + Duration::from_secs(10),
        gateway_cpu_seconds: 9.0,
        sinks_cpu_seconds: 5.0,
        own_cpu_seconds: 0.0,
        gateway_cores: CoreTime { busy: 800, interrupts: 0, total: 1000 },
        judge_cores: CoreTime { busy: 500, interrupts: 0, total: 1000 },
        exported: 900,
    };
    let memory_bytes = vec![100 << 20, 200 << 20];
    Trial {
        warmup: LoadReport::default(),
        load: load(acked),
        sinks,
        before,
        after,
        drained_cpu_seconds: 11.0,
        samples: Samples { memory_bytes, memory_peak_bytes: 300 << 20, queue_size: vec![1.0, 3.0] },
        self_view: SelfView::default(),
        at_stop: None,
        stop_error: None,
    }
}

fn judged(variant: Variant, trial: &Trial) -> Verdict {
    judge(&system(), &settings(variant), trial)
}

#[test]
fn a_complete_delivery_has_no_loss_and_no_doubt() {
    let acked = [(FIRST, FIRST + 999)];
    let verdict = judged(Variant::default(), &trial(&acked, vec![sink(&acked)]));
    let kpis = &verdict.kpis;
    assert_eq!((kpis.accepted, kpis.exported, kpis.lost, kpis.duplicated), (1000, 1000, 0, 0));
    assert_eq!((kpis.memory_mb_avg, kpis.memory_mb_peak, kpis.queue_size), (150.0, 300.0, 2.0));
    assert_eq!((kpis.cpu_cores, kpis.exported_per_s, kpis.cpu_s_per_million), (0.8, 90.0, 10_000.0));
    assert_eq!(verdict.warnings, Vec::<String>::new());
}

#[test]
fn loss_is_counted_per_sink_and_warm_up_counts() {
    let acked = [(FIRST, FIRST + 999)];
    let mut trial = trial(&acked, vec![sink(&acked), sink(&[(FIRST, FIRST + 899)]), sink(&[(1, 10)])]);
    trial.warmup = load(&[(1, 10)]);
    let verdict = judged(Variant { multi: true, backpressure: false }, &trial);
    // Sinks lack: the warm-up; the warm-up and 100; all 1000.
    assert_eq!(verdict.kpis.lost, 10 + 110 + 1000);
    assert_eq!(verdict.kpis.exported, 1900, "the warm-up is not exported in the measured run");
}

#[test]
fn what_was_held_at_the_stop_is_pending_not_lost_and_what_was_not_is_lost() {
    let acked = [(FIRST, FIRST + 999)];
    let mut trial = trial(&acked, vec![sink(&[(FIRST, FIRST + 599)])]);
    let sick = Variant { multi: false, backpressure: true };
    let mut judge = |at_stop| {
        trial.at_stop = at_stop;
        let verdict = judged(sick, &trial);
        (verdict.kpis.lost, verdict.pending)
    };
    assert_eq!(judge(None), (400, 0), "without back-pressure all that is missing is lost");
    let at = |missing, pending| Some(AtStop { missing, pending });
    // All held; 500 of 900 delivered while it shut down.
    assert_eq!(judge(at(900, 900.0)), (0, 400));
    // 150 were gone before the stop.
    assert_eq!(judge(at(900, 750.0)), (150, 250));
    // A system that claims more than is missing, or nonsense, gains nothing by it.
    assert_eq!(judge(at(900, 5000.0)), (0, 400));
    assert_eq!(judge(at(900, f64::NAN)), (400, 0));
    assert_eq!(judge(at(900, -1.0)), (400, 0));
}

#[test]
fn doubts_are_named() {
    let acked = [(FIRST, FIRST + 999)];
    let doubts = |change: &dyn Fn(&mut Trial)| {
        let mut trial = trial(&acked, vec![sink(&acked)]);
        change(&mut trial);
        judged(Variant::default(), &trial).warnings.join("\n")
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
    let counts = doubts(&|trial| trial.self_view.accepted = Some(990.0));
    assert!(counts.contains("accepted 990 spans, the judge counted 1000"), "{counts}");
    let exported = doubts(&|trial| trial.self_view.sent = Some(1001.0));
    assert!(exported.contains("exported 1001 spans, the judge counted 1000"), "{exported}");
    let hints = doubts(&|trial| trial.load.refused_without_hint = 3);
    assert!(hints.contains("3 refused requests had no retry hint"), "{hints}");
    let generator = doubts(&|trial| trial.load.bottleneck = Some("the generator was slow".to_owned()));
    assert_eq!(generator, "the generator was slow");
    let stop = doubts(&|trial| trial.stop_error = Some("killed".to_owned()));
    assert_eq!(stop, "killed");
}
