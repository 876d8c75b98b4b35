//! Reports of `weir loadtest`, comparisons of them, and all tests at once, as their users see them.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::time::timeout;

use crate::process::command;

/// As short and as gentle as it can be.
const SHORT: [&str; 11] = ["-t", "traces", "-d", "2", "--warmup", "0", "--batch", "50", "-r", "1000", "-c"];

/// Names that nothing of a page may take for markup.
const NAME: &str = "<b>a & \"b\"</b>";

/// A peer that passes on what clients push, and does not read files.
const PEER: &str = concat!("otelcol=", env!("CARGO_MANIFEST_DIR"), "/tests/program/collector.sh");

async fn weir(arguments: &[&str]) -> (bool, String) {
    let Output { status, stdout, stderr } = command(arguments).output().await.unwrap();
    (status.success(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

/// How `weir loadtest compare` ends, and what it says.
async fn compared(arguments: &[&str]) -> (Option<i32>, String) {
    let ended = command(&[&["loadtest", "compare"], arguments].concat()).output().await.unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

fn lines(path: &Path) -> Vec<Value> {
    text(path).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a test whose results go into `directory`.
async fn tested(directory: &Path, more: &[&str]) -> String {
    let output = directory.display().to_string();
    let all = [&["loadtest"], &SHORT[..], &["4", "-o", &output, "-n", NAME], more].concat();
    let (passed, text) = weir(&all).await;
    assert!(passed, "{text}");
    text
}

#[tokio::test]
async fn a_report_stands_for_itself_and_the_history_grows() {
    let directory = TempDir::new().unwrap();
    let run = |name: &str| directory.path().join(name);
    let said = tested(&run("one"), &["--weir-arg=--look-every=7s", "-m"]).await;
    assert!(said.contains("one/report.html") && said.contains("history.jsonl"), "{said}");
    tested(&run("two"), &["-m"]).await;

    let report = text(&run("two").join("report.html"));
    assert!(report.len() < 1_000_000, "{}", report.len());
    for foreign in ["<script", "<link", "<img", "src=", "@import", "url(", "<b>a &"] {
        assert!(!report.contains(foreign), "{foreign}");
    }
    assert!(report.contains("&lt;b&gt;a &amp; &quot;b&quot;&lt;/b&gt;: traces-multi"));
    for figure in ["Rate, spans/s", "Memory, MB", "CPU, cores", "Pending, spans", "Delivery latency, ms"] {
        assert!(report.contains(&format!("<figcaption>{figure}</figcaption>")), "{figure}");
    }
    for said in ["weir delivered", "published: Collector", "every acknowledged span arrives", "Linux ", "passed</span>"]
    {
        assert!(report.contains(said), "{said}");
    }

    let series: Value = serde_json::from_str(&text(&run("two").join("series.json"))).unwrap();
    let delivered = series["weir"]["delivered_per_s"].as_array().unwrap();
    assert!(delivered.iter().any(|point| point[1].as_f64() > Some(1000.0)), "{series}");

    let history = lines(&directory.path().join("history.jsonl"));
    assert_eq!(history.len(), 2);
    for entry in &history {
        assert_eq!((&entry["schema"], &entry["name"], &entry["passed"]), (&json!(1), &json!(NAME), &json!(true)));
        assert_eq!(entry["scenario"], "traces-multi");
        assert!(entry["rows"][0]["accepted_per_s"].as_f64() > Some(500.0), "{entry}");
        assert!(entry["machine"]["cores"].as_u64() > Some(0) && entry["seconds"].as_f64() > Some(2.0), "{entry}");
    }
}

/// A result whose figures are known.
fn result(directory: &Path, name: &str, accepted_per_s: f64, memory_mb_peak: f64) -> String {
    let row = json!({"system": "weir", "scenario": "traces", "accepted_per_s": accepted_per_s,
        "memory_mb_peak": memory_mb_peak, "lost": 0});
    std::fs::create_dir_all(directory.join(name)).unwrap();
    std::fs::write(directory.join(name).join("result.json"), json!([row]).to_string()).unwrap();
    directory.join(name).display().to_string()
}

#[tokio::test]
async fn two_results_are_compared_and_a_gate_closes() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let before = [1000.0, 1010.0, 990.0].map(|rate| result(path, &format!("before/{rate}"), rate, 100.0));
    let after = [800.0, 808.0, 792.0].map(|rate| result(path, &format!("after/{rate}"), rate, 101.0));
    let [before, after] = [&before, &after].map(|runs| runs.iter().map(String::as_str).collect::<Vec<_>>());

    let (passed, said) = weir(&[&["loadtest", "compare"], &before[..], &["--with"], &after].concat()).await;
    assert!(passed && said.contains("traces, weir: 3 runs and 3 runs"), "{said}");
    let row = said.lines().find(|line| line.contains("accepted_per_s")).unwrap();
    assert!(row.contains("0.800") && row.contains("WORSE"), "{said}");

    let gate = path.join("gate.txt");
    std::fs::write(&gate, "# no more than this\ntraces* accepted_per_s >= 0.9\n* memory_mb_peak <= 1.1\n").unwrap();
    let gate = gate.display().to_string();
    let gated = ["loadtest", "compare", before[0], after[0], "--gate", &gate];
    let (passed, said) = weir(&gated).await;
    let violation =
        "gate.txt:2: traces, weir: accepted_per_s is 800.000, 0.800 times the baseline's 1000.000; allowed is >= 0.9";
    assert!(!passed && said.contains(violation) && !said.contains("gate.txt:3"), "{said}");

    let (passed, said) = weir(&[&gated[..], &["--format", "json"]].concat()).await;
    let document: Value = serde_json::from_str(&said).unwrap();
    assert!(!passed, "{said}");
    assert_eq!(document["gate"]["violations"][0]["figure"], "accepted_per_s", "{said}");
    assert_eq!(document["rows"][0]["verdict"], "worse", "{said}");

    let (passed, said) = weir(&["loadtest", "compare", before[0], before[1], "--gate", &gate]).await;
    assert!(passed && said.contains("lost"), "a hundredth is allowed, and what was lost is said: {said}");

    let (passed, said) = weir(&["loadtest", "compare", before[0], before[0], "--gate", &gate]).await;
    assert!(!passed && said.contains("FAILED: not the same test: ") && said.contains("on both sides"), "{said}");
}

/// Whoever gates a release tells from the code what is worse from what could not be compared.
#[tokio::test]
async fn a_closed_gate_has_an_exit_code_of_its_own() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let run = |name: &str, accepted_per_s: f64| result(path, name, accepted_per_s, 100.0);
    let (before, same) = (run("before", 1000.0), run("same", 1000.0));
    let (slower, failed) = (run("slower", 800.0), run("failed", 1000.0));
    let environment = json!({"started": "", "seconds": 1.0, "load": "", "version": "0.1.0", "commit": null, "peers": [],
        "command": [], "machine": {"cpu": "", "cores": 2, "memory_mb": 1, "kernel": ""}, "passed": false,
        "failures": ["3 acknowledged spans are lost"]});
    std::fs::write(path.join("failed/environment.json"), environment.to_string()).unwrap();
    let gate = path.join("gate.txt").display().to_string();
    std::fs::write(&gate, "* accepted_per_s >= 0.9\n").unwrap();
    for (new, code, expected) in [
        (&same, 0, "the gate is passed"),
        (&slower, 3, "FAILED: "),
        (&before, 3, "FAILED: not the same test: "),
        (&failed, 3, "did not pass: 3 acknowledged spans are lost"),
    ] {
        let (ended, said) = compared(&[&before, new, "--gate", &gate]).await;
        assert!(ended == Some(code) && said.contains(expected), "{new}: {ended:?}: {said}");
        let (ended, said) = compared(&[&before, new]).await;
        assert_eq!(ended, Some(0), "without a gate, {new}: {said}");
    }
}

#[tokio::test]
async fn what_cannot_be_compared_is_named() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let run = result(path, "run", 1.0, 1.0);
    let gate = path.join("gate.txt").display().to_string();
    std::fs::write(&gate, "traces speed >= 0.9\n").unwrap();
    for (arguments, expected) in [
        (&[run.as_str(), &run, "--gate", &gate][..], "gate.txt:1: figure: there is no \"speed\""),
        (&[&run, "0.0.9"], "cannot find \"0.0.9\""),
        (&[&run], "cannot compare 1 runs"),
    ] {
        let (ended, said) = compared(arguments).await;
        assert!(ended == Some(1) && said.contains(expected), "{ended:?}: {said}");
    }
}

/// The second time no Weir starts: the first failure does not keep the other test from being run.
#[tokio::test]
async fn all_tests_are_run_although_one_fails() {
    let directory = TempDir::new().unwrap();
    let results = directory.path().join("all");
    let output = results.display().to_string();
    let tests = ["--only", "logs-otel*", "--only", "metrics", "-d", "1", "--warmup", "0", "-o", &output];
    let (passed, said) = weir(&[&["loadtest", "all"], &tests[..]].concat()).await;
    assert!(passed && said.contains("[1/3] metrics: passed") && said.contains("3 of 3 tests passed"), "{said}");
    let report = text(&results.join("report.html"));
    for said in ["All tests", "metrics, version against version", "logs-otel, version against version", ", now</th>"] {
        assert!(report.contains(said), "{said}");
    }
    for said in ["one pipeline, batch", "offered: maximum over 80 connections;", "<td>0, generator 1</td>"] {
        assert!(report.contains(said), "{said}");
    }
    let restarts = report.matches("<th scope=\"col\">restarts</th>").count();
    assert_eq!(restarts, 3, "metrics, and the log gateway in both setups");
    for foreign in ["<script", "<link", "<img", "src=", "url("] {
        assert!(!report.contains(foreign), "{foreign}");
    }
    assert!(results.join("metrics/report.html").is_file() && results.join("logs-otel/result.json").is_file());
    let history = lines(&directory.path().join("history.jsonl"));
    let rate = |scenario: &str| {
        let entry = history.iter().find(|entry| entry["scenario"] == scenario);
        entry.and_then(|entry| entry["rows"][0]["accepted_per_s"].as_f64())
    };
    assert_eq!(history.len(), 3);
    assert!(rate("logs-otel") > Some(0.0) && rate("logs-otel-batch") > Some(0.0), "{history:?}");

    let broken = [&["loadtest", "all", "--weir-arg=--no-such-flag"], &tests[..]].concat();
    let (passed, said) = weir(&broken).await;
    assert!(!passed && said.contains("0 of 3 tests passed, 3 failed"), "{said}");
    assert!(text(&results.join("report.html")).contains("failed</span>"));
    for test in ["metrics", "logs-otel", "logs-otel-batch"] {
        for file in ["result.json", "series.json", "environment.json", "report.html"] {
            assert!(!results.join(test).join(file).exists(), "{file} of {test} is of the run before");
        }
    }
}

/// Runs a load test with a peer whose results go into `directory`.
async fn tested_with_peer(directory: &Path, arguments: &[&str]) {
    let output = directory.display().to_string();
    let all = [&["loadtest"], arguments, &["--warmup", "0", "--peer", PEER, "-o", &output]].concat();
    let ended = command(&all).env("WEIR", env!("CARGO_BIN_EXE_weir")).output().await.unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[tokio::test]
async fn a_peer_has_its_place_in_all_reports() {
    let directory = TempDir::new().unwrap();
    let results = directory.path().join("all");
    tested_with_peer(&results, &["all", "--only", "metrics", "-d", "1"]).await;
    let report = text(&results.join("report.html"));
    for said in [">metrics, otelcol</th>", ">otelcol, now</th>", "otelcol: stand-in 1.0"] {
        assert!(report.contains(said), "{said}");
    }
    assert!(text(&results.join("metrics/report.html")).contains(">weir / otelcol</th>"));
    let history = lines(&directory.path().join("history.jsonl"));
    let systems: Vec<&Value> = history[0]["rows"].as_array().unwrap().iter().map(|row| &row["system"]).collect();
    assert_eq!(systems, ["weir", "otelcol"]);
    let accepted = |row: usize| history[0]["rows"][row]["accepted_per_s"].as_f64();
    assert!(accepted(0) > Some(0.0) && accepted(1) > Some(0.0), "{history:?}");
}

/// Weir has read all files long before the time is over, and the peer never does: each is measured for as long as that takes.
#[tokio::test]
async fn a_gate_is_open_for_log_agents_that_take_a_time_of_their_own() {
    let directory = TempDir::new().unwrap();
    let [one, two] = ["one", "two"].map(|name| directory.path().join(name));
    tested_with_peer(&one, &["-t", "logagent", "--backlog", "200000", "-d", "4", "--settle", "4"]).await;
    std::fs::create_dir(&two).unwrap();
    for file in ["result.json", "environment.json"] {
        std::fs::copy(one.join(file), two.join(file)).unwrap();
    }
    let gate = directory.path().join("gate.txt");
    std::fs::write(&gate, "logagent accepted_per_s >= 0.9\n").unwrap();
    let [one, two, gate] = [one, two, gate].map(|path| path.display().to_string());
    let (ended, said) = compared(&[&one, &two, "--gate", &gate]).await;
    assert!(ended == Some(0) && said.contains("the gate is passed"), "{ended:?}: {said}");
    assert!(said.contains("logagent, otelcol: 1 run and 1 run"), "{said}");
}

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

#[tokio::test]
async fn an_interrupt_leaves_what_there_is() {
    let directory = TempDir::new().unwrap();
    let results = directory.path().join("all");
    let output = results.display().to_string();
    let tests = ["loadtest", "all", "--only", "logs-otel", "--only", "traces-multi", "--only", "traces"];
    let mut all = command(&[&tests[..], &["-d", "3", "--warmup", "0", "-o", &output]].concat()).spawn().unwrap();
    let mut said = BufReader::new(all.stdout.take().unwrap()).lines();
    let limit = Duration::from_secs(120);
    let mut everything = String::new();
    while let Some(line) = timeout(limit, said.next_line()).await.unwrap().unwrap() {
        if line.starts_with("[1/3] traces: ") {
            interrupt(&all);
        }
        everything += &format!("{line}\n");
    }
    let status = timeout(limit, all.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(1), "{everything}");
    assert!(everything.contains("interrupted: 2 of 3 tests were not run to the end; 1 of 3"), "{everything}");
    assert!(text(&results.join("report.html")).contains("traces"));
}
