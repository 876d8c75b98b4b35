//! Stack traces that are one record each, and what the pod says of itself.

use std::path::Path;
use std::sync::Arc;

use weir_plan::{ClusterFacts, ContainerLogs, Language, Multiline, Pod, RecordShape};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};
use crate::records::{arrived, bodies};

const JAVA: Multiline = Multiline::of(Language::Java);

fn joined(multiline: Multiline) -> ContainerLogs {
    ContainerLogs { multiline, ..all() }
}

fn write(file: &Path, stream: &str, lines: &[&str]) {
    append(file, lines.iter().map(|text| line(stream, 'F', text)).collect::<String>());
}

/// Each pipeline gets what it asks for, of each stream, and nobody waits for what does not come.
#[tokio::test]
async fn a_trace_is_one_record() {
    let (disk, [whole, lines, raw]) =
        (Disk::new(), [Backend::start().await, Backend::start().await, Backend::start().await]);
    let file = disk.container("shop", "cart").join("0.log");
    let as_written = ContainerLogs { shape: RecordShape::Raw, ..joined(JAVA) };
    let pipelines = [("whole", &whole, joined(JAVA)), ("lines", &lines, all()), ("raw", &raw, as_written)];
    let plan = plan(pipelines.map(|(name, backend, logs)| pipeline(name, backend.address, logs)).to_vec());
    let agent = Agent::start(&disk, &plan).await;
    // All at once: what comes later is late for some machine.
    let text = [
        line("stderr", 'F', "ready"),
        line("stderr", 'F', "a.BException: 1"),
        line("stderr", 'F', "\tat a.B.c(B.java:1)"),
        line("stdout", 'F', "between"),
        line("stderr", 'P', "Caused by: a."),
        line("stderr", 'F', "DError"),
        line("stderr", 'F', "\t... 1 more"),
    ];
    append(&file, text.concat());
    let trace = "a.BException: 1\n\tat a.B.c(B.java:1)\nCaused by: a.DError\n\t... 1 more";
    eventually("a trace ends after a while", async || {
        bodies(&whole) == ["ready", "between", trace] && bodies(&raw) == ["ready", "between", trace]
    })
    .await;
    assert!(arrived(&whole)[2].attributes.contains("log.iostream=stderr"));
    eventually("who joins nothing gets each line", async || bodies(&lines).len() == 6).await;
    assert_eq!(agent.tail.totals().counts.cut, 0);
    let delivered: Vec<_> = agent.stop().await.iter().map(|books| books.delivered).collect();
    assert_eq!(delivered, [3, 6, 3], "each once");
}

/// LOG-1: what is open is not safe; so it is read again after a restart, and nothing else is.
#[tokio::test]
async fn a_trace_goes_on_after_a_restart() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let file = disk.container("shop", "cart").join("0.log");
    let plan = plan(vec![pipeline("backend", backend.address, joined(JAVA))]);
    write(&file, "stdout", &["ready", "a.BException: 1"]);
    let agent = Agent::start(&disk, &plan).await;
    eventually("what comes before it is read", async || agent.tail.totals().counts.records >= 1).await;
    let is_open = agent.stop().await[0].delivered == 1;
    write(&file, "stdout", &["\tat a.B.c(B.java:1)"]);
    std::fs::rename(&file, file.with_extension("log.20261123-120000")).unwrap();
    write(&file, "stdout", &["\tat a.B.d(B.java:2)", "done"]);
    let agent = Agent::start(&disk, &plan).await;
    let lines = ["a.BException: 1", "\tat a.B.c(B.java:1)", "\tat a.B.d(B.java:2)"];
    // A machine that takes more than a second to stop has taken the trace for complete.
    let trace = if is_open { vec![lines.join("\n")] } else { lines.map(str::to_owned).to_vec() };
    let expected = [vec!["ready".to_owned()], trace, vec!["done".to_owned()]].concat();
    eventually("all of it arrives", async || bodies(&backend) == expected).await;
    let before = if is_open { 1 } else { 2 };
    assert_eq!(agent.stop().await[0].delivered, expected.len() as u64 - before, "nothing is read again");
}

/// The pod knows best what runs in it, and where it runs.
#[tokio::test]
async fn a_pod_says_it_of_itself() {
    let node = |name: &str| Some(name.into());
    let pod =
        |multiline, node| Pod { uid: "11111111-2222-3333-4444-555555555555".into(), multiline, node, ..Pod::default() };
    let none = Multiline::default();
    for (known, asked, expected, on) in [
        (pod(None, None), JAVA, 1, "this"),
        (pod(Some(none), node("other")), JAVA, 2, "other"),
        (pod(Some(JAVA), node("")), none, 1, "this"),
        (pod(Some(Multiline::of(Language::Go)), None), JAVA, 2, "this"),
    ] {
        let (disk, backend) = (Disk::new(), Backend::start().await);
        write(
            &disk.container("shop", "cart").join("0.log"),
            "stdout",
            &["a.BException: 1", "\tat a.B.c(B.java:1)", "end"],
        );
        let facts = ClusterFacts { pods: vec![Arc::new(known)], ..ClusterFacts::default() };
        let plan = plan(vec![pipeline("backend", backend.address, joined(asked))]);
        let settings = |settings| weir_sources::tail::Settings { node_name: Some("this".into()), ..settings };
        let agent = Agent::knowing(facts, &disk, &plan, settings).await;
        eventually("all of it arrives", async || bodies(&backend).last().is_some_and(|body| body == "end")).await;
        let records = arrived(&backend);
        assert_eq!(records.len(), expected + 1, "{asked}");
        assert!(records[0].resource.contains(&format!("k8s.node.name={on}")), "{}", records[0].resource);
        assert_eq!(records[0].resource.matches("k8s.node.name").count(), 1);
        agent.stop().await;
    }
}
