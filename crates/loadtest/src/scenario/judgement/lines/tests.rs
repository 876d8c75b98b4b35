//! What is lost, and what is only counted, judged from a made-up trial.

use serde_json::json;

use super::super::super::script::{self, Variant};
use super::super::super::{System, Test};
use super::super::tests::settings;
use super::*;
use crate::scenario::course::Window;
use crate::scenario::readings::Readings;
use crate::scenario::trial::Settled;
use crate::sink::SinkReport;

/// One container that wrote ten lines to its standard output, of which the first two are in no file any more; `seen`
/// arrived.
fn judged(seen: &[(u64, u64)], held: f64) -> Judgement {
    judged_without(2, seen, held)
}

/// The same when more lines are in no file any more.
fn judged_without(deleted: u64, seen: &[(u64, u64)], held: f64) -> Judgement {
    let stream = |name: &str, lines: u64, ranges: serde_json::Value| json!({"stream": name, "lines": lines, "split_lines": 0, "deleted_lines": deleted, "deleted": ranges});
    let manifest = json!({
        "seconds": 1.0, "format": "cri", "shape": "plain", "line_bytes": 200, "seed": 0, "lines": 10, "bytes": 2_000_000,
        "cpu_seconds": 0.0, "bottleneck": null, "containers": [{
            "number": 0, "namespace": "n", "pod": "p", "uid": "u", "container": "c", "bytes": 2_000_000, "restarts": 0,
            "rotations": 1, "files": 2, "files_deleted": 1, "inodes_reused": 0,
            "streams": [stream("stdout", 10, json!([[1, deleted]])), stream("stderr", 0, json!([]))],
        }],
    });
    let received: u64 = seen.iter().map(|(first, last)| last - first + 1).sum();
    let lines = json!({"received": received, "duplicates": 0, "reordered": 0, "damaged": 0, "unmarked": 0, "streams": [
        {"container": 0, "stream": "stdout", "received": received, "duplicates": 0, "reordered": 0, "seen": seen},
    ]});
    let trial = AgentTrial {
        manifest: serde_json::from_value(manifest).unwrap(),
        sinks: vec![SinkReport { log_lines: Some(serde_json::from_value(lines).unwrap()), ..SinkReport::default() }],
        window: Window::default(),
        measured: Measured {
            seconds: 2.0,
            arrived: received,
            cpu_seconds: 0.5,
            sinks_cpu_seconds: held,
            ..Measured::default()
        },
        settled: Settled { gateway_cpu_seconds: 1.0, held, ..Settled::default() },
        readings: Readings::default(),
        kills: None,
        stop_error: None,
    };
    let system = System { name: "weir".to_owned(), kind: SystemKind::Weir, program: "weir".into() };
    let script = script::published(Test::Logagent, Variant::default());
    judge(&Part { system: &system, script: &script, directory: ".".into() }, &settings(), &trial)
}

#[test]
fn sinks_that_were_the_limit_are_named() {
    assert_eq!(judged(&[(1, 10)], 1.0).warnings, Vec::<String>::new());
    let limited = judged(&[(1, 10)], 1.5).warnings;
    assert_eq!(limited, ["the sinks were the limit, or close to it: they used 0.75 of 1 cores, the agent 0.25"]);
}

#[test]
fn a_few_lines_that_were_deleted_unread_fail_nothing_and_others_do() {
    let whole = judged(&[(1, 10)], 0.0);
    assert!(whole.failures.is_empty(), "{:?}", whole.failures);
    assert_eq!((whole.kpis.accepted, whole.kpis.exported, whole.kpis.accepted_per_s), (10, 10, 5.0));
    assert_eq!(whole.kpis.lines.as_ref().unwrap().input_mb_per_cpu_s, 2.0);

    let unread = judged(&[(3, 10)], 0.0);
    assert!(unread.failures.is_empty(), "{:?}", unread.failures);
    assert_eq!((unread.kpis.lost, unread.kpis.lines.unwrap().deleted_unread), (0, 2));

    let most_unread = judged_without(6, &[(7, 10)], 0.0);
    assert_eq!(most_unread.failures, ["6 of 10 lines were deleted unread: more than half"]);

    let lost = judged(&[(1, 4), (8, 10)], 0.0);
    assert_eq!((lost.kpis.lost, lost.failures.len()), (3, 1));
    assert!(lost.failures[0].ends_with("for example 5 to 7 of n_p_u/c stdout"), "{:?}", lost.failures);
}

#[test]
fn what_the_agent_said_it_held_is_pending_and_fails_too() {
    let judgement = judged(&[(1, 8)], 1.0);
    assert_eq!((judgement.kpis.lost, judgement.kpis.pending, judgement.failures.len()), (1, 1, 2));
}
