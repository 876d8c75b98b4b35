//! Whose output is read.

use std::fs;

use weir_plan::{ContainerLogs, RecordShape, Selector};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};

/// The files below a directory that this process has open.
fn open_below(directory: &std::path::Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).filter(|target| target.starts_with(directory)).count()
}

/// LOG-24, LOG-29: what nobody wants is not even opened; who wants it later gets all of it, and nobody gets it again.
#[tokio::test]
async fn only_what_is_wanted_is_read() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let [wanted, system] = ["shop", "kube-system"].map(|namespace| disk.container(namespace, "cart"));
    let own = disk.container("shop", "own");
    for directory in [&wanted, &system, &own] {
        append(&directory.join("0.log"), line("stdout", 'F', "one"));
    }
    let of = |namespaces| plan(vec![pipeline("backend", backend.address, ContainerLogs { namespaces, ..all() })]);
    let mut agent = Agent::start(&disk, &of(Selector::without_system())).await;
    eventually("one arrives", async || agent.tail.totals().counts.records == 1).await;
    assert_eq!((open_below(&system), open_below(&own), open_below(&wanted)), (0, 0, 1));

    agent.reload(&of(Selector::Only(vec!["kube-system".into()])));
    eventually("the other arrives", async || agent.tail.totals().counts.records == 2).await;
    eventually("the first is closed", async || open_below(&wanted) == 0).await;
    append(&wanted.join("0.log"), line("stdout", 'F', "two"));
    agent.reload(&of(Selector::All));
    eventually("what was written meanwhile arrives", async || agent.tail.totals().counts.records == 3).await;
    assert_eq!(agent.stop().await[0].delivered, 3, "each once");
}

/// LOG-27: a file is read once for all, each pipeline gets what it wants.
#[tokio::test]
async fn pipelines_share_what_is_read() {
    let (disk, [kept, left]) = (Disk::new(), [Backend::start().await, Backend::start().await]);
    let raw = Backend::start().await;
    append(&disk.container("shop", "cart").join("0.log"), line("stdout", 'F', r#"{"a":"b"}"#));
    append(&disk.container("shop", "proxy").join("0.log"), line("stdout", 'F', "noise"));
    let without = ContainerLogs {
        shape: RecordShape::Parsed { keep_original_body: false },
        containers: Selector::Except(vec!["proxy".into()]),
        ..all()
    };
    let as_written = ContainerLogs { shape: RecordShape::Raw, ..all() };
    let pipelines = [("kept", &kept, all()), ("left", &left, without), ("raw", &raw, as_written)];
    let all = plan(pipelines.map(|(name, backend, logs)| pipeline(name, backend.address, logs)).to_vec());
    let agent = Agent::start(&disk, &all).await;
    eventually("both are read", async || agent.tail.totals().counts.records == 2).await;
    let books = agent.stop().await;
    assert_eq!(books.iter().map(|books| books.delivered).collect::<Vec<_>>(), [2, 1, 2], "{books:?}");
    let holds = |backend: &Backend, text: &[u8]| {
        let plain: Vec<u8> = backend.captured().iter().flat_map(|captured| captured.plain.to_vec()).collect();
        weir_testkit::data_dir::find(&plain, text).is_some()
    };
    assert!(holds(&kept, b"log.original") && !holds(&left, b"log.original") && !holds(&raw, b"log.original"));
    assert!(holds(&raw, br#"{"a":"b"}"#) && !holds(&left, br#"{"a":"b"}"#));
}

/// As if all positions had been saved two days ago.
fn age(disk: &Disk) {
    const DAYS: u64 = 2 * 24 * 60 * 60 * 1_000;
    let path = disk.state().join("positions");
    let text = fs::read_to_string(&path).unwrap();
    let aged = |line: &str| {
        let mut said: serde_json::Value = serde_json::from_str(&line[9..]).unwrap();
        if let Some(time) = said.pointer_mut("/saved/seen_at_ms") {
            *time = (time.as_u64().unwrap() - DAYS).into();
        }
        format!("{:08x} {said}\n", crc32c::crc32c(said.to_string().as_bytes()))
    };
    fs::write(&path, text.lines().map(aged).collect::<String>()).unwrap();
}

/// LOG-24: who was away for long goes on where it was; only what nobody wants is forgotten after a day.
#[tokio::test]
async fn only_what_nobody_wants_is_forgotten() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let [wanted, other] = ["shop", "market"].map(|namespace| disk.container(namespace, "cart").join("0.log"));
    append(&wanted, line("stdout", 'F', "one"));
    append(&other, line("stdout", 'F', "one"));
    let of = |namespaces| plan(vec![pipeline("backend", backend.address, ContainerLogs { namespaces, ..all() })]);
    let agent = Agent::start(&disk, &of(Selector::All)).await;
    eventually("both are read", async || agent.tail.totals().counts.records == 2).await;
    agent.stop().await;
    age(&disk);
    append(&wanted, line("stdout", 'F', "two"));
    let agent = Agent::start(&disk, &of(Selector::Only(vec!["shop".into()]))).await;
    eventually("it is read on", async || agent.tail.totals().counts.records == 1).await;
    assert_eq!(agent.stop().await[0].delivered, 1, "not from its beginning");
    let agent = Agent::start(&disk, &of(Selector::All)).await;
    eventually("the other one is new", async || agent.tail.totals().counts.records == 1).await;
    assert_eq!(agent.stop().await[0].delivered, 1);
}
