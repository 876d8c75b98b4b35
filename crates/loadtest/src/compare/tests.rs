//! Comparisons of made-up runs.

use std::slice;

use serde_json::{Value, json};

use super::*;
use crate::report::Environment;
use crate::report::environment::Machine;

fn run(rows: Value) -> Run {
    let rows = rows.as_array().unwrap().iter().map(|row| row.as_object().cloned().unwrap()).collect();
    Run { source: "made up".to_owned(), rows, ..Run::default() }
}

fn traces(accepted_per_s: f64, memory: f64) -> Run {
    run(json!([{"system": "weir", "scenario": "traces", "accepted_per_s": accepted_per_s, "memory_mb_peak": memory,
        "cpu_cores": 1.0, "lost": 0}]))
}

fn verdicts(base: &[Run], new: &[Run]) -> Vec<(String, Verdict)> {
    compare(base, new, 0.1).rows.into_iter().map(|row| (row.figure, row.verdict)).collect()
}

#[test]
fn better_and_worse_depend_on_the_figure() {
    let verdicts = verdicts(&[traces(1000.0, 100.0)], &[traces(1500.0, 130.0)]);
    let expected = [
        ("accepted_per_s", Verdict::Better),
        ("cpu_cores", Verdict::Noise),
        ("memory_mb_peak", Verdict::Worse),
        ("lost", Verdict::Noise),
    ];
    assert_eq!(verdicts, expected.map(|(figure, verdict)| (figure.to_owned(), verdict)));
}

#[test]
fn repeated_runs_say_what_is_noise() {
    let steady = [traces(1000.0, 100.0), traces(1001.0, 100.0), traces(999.0, 100.0)];
    let slower = [traces(970.0, 100.0), traces(971.0, 100.0), traces(969.0, 100.0)];
    assert_eq!(verdicts(&steady, &slower)[0].1, Verdict::Worse, "three percent, and steadily so");
    assert_eq!(verdicts(&steady[..1], &slower[..1])[0].1, Verdict::Noise, "of one run nobody knows");
    let comparison = compare(&steady, &slower, 0.1);
    assert!(!present::text(&comparison, 10).contains("taken for noise"));
    assert!(present::text(&compare(&steady[..1], &slower[..1], 0.1), 10).contains("10 % are taken for noise"));
}

#[test]
fn systems_and_parts_are_compared_with_themselves() {
    let matrix = |rate: f64| {
        run(json!([
            {"system": "weir", "scenario": "logs-otel-matrix", "part": "1 x 1", "accepted_per_s": rate},
            {"system": "weir", "scenario": "logs-otel-matrix", "part": "5 x 1", "accepted_per_s": 5.0 * rate},
        ]))
    };
    let other = run(json!([{"system": "otelcol", "scenario": "traces", "accepted_per_s": 1.0}]));
    let comparison = compare(&[matrix(10.0), other], &[matrix(20.0)], 0.1);
    let seen: Vec<(&str, f64)> =
        comparison.rows.iter().map(|row| (row.system.as_str(), row.ratio.value.round())).collect();
    assert_eq!(seen, [("weir, 1 x 1", 2.0), ("weir, 5 x 1", 2.0)]);
    assert_eq!(comparison.only_in_base, ["traces, otelcol"]);
}

#[test]
fn different_machines_and_loads_are_doubts() {
    let on = |cpu: &str| {
        let machine = Machine { cpu: cpu.to_owned(), ..Machine::default() };
        Run { environment: Some(Environment { machine, ..Environment::default() }), ..traces(1.0, 1.0) }
    };
    assert_eq!(compare(&[on("fast")], &[on("fast")], 0.1).doubts, Vec::<String>::new());
    assert!(compare(&[on("fast")], &[on("slow")], 0.1).doubts[0].contains("fast"));
    let of = |load: &str| Run {
        environment: Some(Environment { load: load.to_owned(), ..Environment::default() }),
        ..traces(1.0, 1.0)
    };
    let another = |run: Run| Run { source: "another".to_owned(), ..run };
    let mismatches = |base: Run, new: Run| compare(&[base], &[new], 0.1).mismatches;
    assert_eq!(mismatches(of("1/s"), another(of("1/s"))), Vec::<String>::new());
    assert_eq!(mismatches(of("1/s"), of("2/s")), ["traces was measured with different loads: 1/s / 2/s"]);
    assert_eq!(mismatches(of("1/s"), of("1/s")), ["made up is on both sides"]);
    let lasts = |seconds: f64| run(json!([{"system": "weir", "scenario": "traces", "duration_s": seconds}]));
    assert_eq!(mismatches(lasts(60.0), lasts(61.0)), Vec::<String>::new());
    assert_eq!(mismatches(lasts(5.0), lasts(60.0)), ["traces was measured for 5.0 s here and 60.0 s there"]);
    let text = present::text(&compare(&[of("1/s")], &[of("2/s")], 0.1), 10);
    assert!(text.contains("doubt: not the same test: ") && text.contains("lost"), "{text}");
}

/// How long a log agent is measured is what it takes; and a peer may take longer than Weir.
#[test]
fn a_test_that_took_longer_by_itself_is_the_same() {
    let took = |scenario: &str, asked: Option<f64>, weir: f64| {
        let row = |system: &str, seconds: f64| {
            let mut row = json!({"system": system, "scenario": scenario, "duration_s": seconds});
            if scenario == "logagent" {
                row["input_mb"] = json!(400.0);
            }
            row
        };
        let environment = Environment { asked_duration_s: asked, ..Environment::default() };
        let source = format!("{scenario} of {weir} s");
        Run { source, environment: Some(environment), ..run(json!([row("weir", weir), row("otelcol", 10.0 * weir)])) }
    };
    let mismatches = |base: Run, new: Run| compare(&[base], &[new], 0.1).mismatches;
    for asked in [Some(60.0), None] {
        let mismatches = mismatches(took("logagent", asked, 2.0), took("logagent", asked, 1.0));
        assert_eq!(mismatches, Vec::<String>::new(), "{asked:?}");
    }
    let asked = mismatches(took("logagent", Some(5.0), 2.0), took("logagent", Some(60.0), 2.1));
    assert_eq!(asked, ["logagent was measured for 5.0 s here and 60.0 s there"]);
    let of_weir = mismatches(took("traces", None, 60.0), took("traces", Some(61.0), 60.1));
    assert_eq!(of_weir, Vec::<String>::new(), "what does not say it was measured for 60 s, and its peer for longer");
}

#[test]
fn a_run_that_did_not_pass_is_a_doubt_and_closes_the_gate() {
    let failed = Run { failure: Some("3 lost".to_owned()), ..traces(1.0, 1.0) };
    let passed = Run { source: "another".to_owned(), ..traces(1.0, 1.0) };
    let mut comparison = compare(slice::from_ref(&passed), slice::from_ref(&failed), 0.1);
    assert_eq!(comparison.failures, ["made up did not pass: 3 lost"]);
    assert!(present::text(&comparison, 10).contains("\ndoubt: made up did not pass: 3 lost\n"));
    comparison.gate = Some(GateResult { passed: false, violations: Vec::new() });
    assert!(present::text(&comparison, 10).contains("\nFAILED: made up did not pass: 3 lost\n"));
    let comparison = compare(&[failed], &[passed], 0.1);
    assert_eq!((comparison.failures.len(), comparison.doubts), (0, vec!["made up did not pass: 3 lost".to_owned()]));
}

#[test]
fn json_has_no_infinity() {
    let lossy = run(json!([{"system": "weir", "scenario": "traces", "lost": 3}]));
    let value = serde_json::to_value(compare(&[traces(1.0, 1.0)], &[lossy], 0.1)).unwrap();
    let row = &value["rows"][0];
    assert_eq!((&row["figure"], &row["ratio"], &row["verdict"]), (&json!("lost"), &Value::Null, &json!("worse")));
    assert_eq!(row["new"], json!({"mean": 3.0, "runs": [3.0]}));
}

#[test]
fn of_harm_nothing_is_noise() {
    let lost = |count: u64| run(json!([{"system": "weir", "scenario": "crash", "lost": count, "refused": count}]));
    let base = [lost(1), lost(1), lost(1)];
    let new = [lost(1), lost(1), lost(1_000_000)];
    let expected = [("lost", Verdict::Worse), ("refused", Verdict::Noise)];
    assert_eq!(verdicts(&base, &new), expected.map(|(figure, verdict)| (figure.to_owned(), verdict)));
    let base = [lost(0), lost(0), lost(0)];
    let new = [lost(0), lost(0), lost(1)];
    assert_eq!(verdicts(&base, &new), expected.map(|(figure, verdict)| (figure.to_owned(), verdict)), "of nothing");
}

#[test]
fn what_a_side_has_measured_is_known_by_its_numbers() {
    let runs = [run(json!([{"system": "weir", "scenario": "crash", "lost": 0, "leaked": null}]))];
    let names: Vec<_> = measured(&runs).iter().map(|one| one.figure).collect();
    assert_eq!(names, ["lost"]);
}
