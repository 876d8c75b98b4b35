//! What becomes of lines.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use prost::Message;
use weir_sources::tail::{self, Counts};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};

/// What arrived at a backend: resource attributes, body and attributes of each record.
pub(crate) struct Arrived {
    pub(crate) resource: String,
    body: String,
    pub(crate) attributes: String,
}

pub(crate) fn arrived(backend: &Backend) -> Vec<Arrived> {
    let mut all = Vec::new();
    for captured in backend.captured() {
        for holder in ExportLogsServiceRequest::decode(captured.plain).unwrap().resource_logs {
            let resource = text_of(&holder.resource.unwrap().attributes);
            for record in holder.scope_logs.into_iter().flat_map(|scope| scope.log_records) {
                let body = record.body.as_ref().map(value).unwrap_or_default();
                all.push(Arrived { resource: resource.clone(), body, attributes: text_of(&record.attributes) });
            }
        }
    }
    all
}

fn text_of(attributes: &[KeyValue]) -> String {
    let text =
        |attribute: &KeyValue| format!("{}={}", attribute.key, attribute.value.as_ref().map(value).unwrap_or_default());
    attributes.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn value(value: &AnyValue) -> String {
    match &value.value {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn bodies(backend: &Backend) -> Vec<String> {
    arrived(backend).into_iter().map(|record| record.body).collect()
}

/// LOG-13, LOG-14, LOG-15: parts are joined for each stream, half a line waits for its end.
#[tokio::test]
async fn lines_become_records() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let file = disk.container("shop", "cart").join("0.log");
    append(&file, line("stdout", 'F', "plain") + &line("stdout", 'P', "par") + &line("stderr", 'F', "other"));
    append(&file, line("stdout", 'F', "ted") + r#"2026-11-23T12:00:01Z stdout F {"message":"said","#);
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("what is complete arrives", async || bodies(&backend) == ["plain", "other", "parted"]).await;
    append(&file, "\"level\":\"warn\",\"n\":1}\n");
    eventually("the rest arrives", async || bodies(&backend).len() == 4).await;

    let records = arrived(&backend);
    let resource = "k8s.namespace.name=shop k8s.pod.name=cart-pod k8s.pod.uid=11111111-2222-3333-4444-555555555555 \
                    k8s.container.name=cart k8s.container.restart_count=0";
    for attribute in resource.split_whitespace() {
        assert!(records[0].resource.contains(attribute), "{attribute} in {}", records[0].resource);
    }
    assert!(records[1].attributes.contains("log.iostream=stderr"), "{}", records[1].attributes);
    assert_eq!(records[3].body, "said");
    assert!(records[3].attributes.contains("log.original={\"message\":\"said\""), "{}", records[3].attributes);
    let totals = agent.tail.totals();
    assert_eq!((totals.counts.records, totals.counts.malformed, totals.lost.bytes()), (4, 0, 0), "{totals:?}");
    assert_eq!(agent.stop().await[0].delivered, 4);
}

/// LOG-14: a part may be the last thing in its file, with its line feed or without.
#[tokio::test]
async fn parts_are_joined_across_files() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let file = |name: &str| directory.join(name);
    append(
        &file("0.log.20261123-110000"),
        line("stdout", 'P', "one ") + line("stderr", 'P', "two ").trim_end_matches('\n'),
    );
    append(&file("0.log.20261123-120000"), line("stdout", 'F', "line") + &line("stderr", 'F', "parts"));
    append(&file("0.log"), line("stdout", 'F', "last"));
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("all arrive", async || bodies(&backend) == ["one line", "two parts", "last"]).await;
    assert_eq!(agent.tail.totals().counts.cut, 0);
    agent.stop().await;
}

/// LOG-16, LOG-17: what is no line costs nothing but itself.
#[tokio::test]
async fn a_file_goes_on_after_what_is_no_line() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let file = disk.container("shop", "cart").join("0.log");
    append(&file, line("stdout", 'F', "first") + "no CRI at all\n");
    append(&file, b"2026-11-23T12:00:00.123456789Z stdout F caf\xe9\n");
    append(&file, [&[0; 100_000][..], line("stdout", 'F', &"x".repeat(3 << 20)).as_bytes()].concat());
    append(&file, line("stdout", 'F', "last"));
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("the last line arrives", async || bodies(&backend).last().is_some_and(|body| body == "last")).await;
    let bodies = bodies(&backend);
    assert_eq!(bodies[..3], ["first", "no CRI at all", "caf\u{fffd}"]);
    assert_eq!(bodies[3..bodies.len() - 1].concat().matches('x').count(), 3 << 20, "in pieces");
    let totals = agent.tail.totals();
    let Counts { malformed, nul_bytes, not_utf8, .. } = totals.counts;
    assert_eq!((malformed, nul_bytes, not_utf8), (1, 100_000, 1), "{totals:?}");
    assert!(totals.counts.cut > 1, "{totals:?}");
    agent.stop().await;
}

/// LOG-15: a damaged line costs nothing but itself, even if it is all that there is of a file; what is in no format at all
/// is counted, too.
#[tokio::test]
async fn a_damaged_first_line_costs_no_format() {
    const DAMAGED: &str = "2026-13-23T12:00:00Z stdout F damaged";
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let (cri, docker, plain) = (directory.join("0.log"), directory.join("1.log"), directory.join("2.log"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    append(&cri, format!("{DAMAGED}\n"));
    let agent = Agent::start(&disk, &plan).await;
    eventually("it is a record", async || bodies(&backend) == [DAMAGED]).await;
    append(&cri, line("stderr", 'F', "one") + "no CRI\n");
    eventually("the file has its format", async || bodies(&backend)[1..] == ["one", "no CRI"]).await;
    let counts = || agent.tail.totals().counts;
    eventually("all are safe", async || counts().records == 3).await;
    assert_eq!((counts().plain, counts().malformed), (1, 1));
    agent.stop().await;

    append(&cri, line("stderr", 'F', "two") + DAMAGED + "\n");
    let docker_line =
        |text: &str| format!("{{\"log\":\"{text}\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-23T12:00:00Z\"}}\n");
    append(
        &docker,
        docker_line("torn")[..9].to_owned() + "\n" + &docker_line("three") + &line("stderr", 'F', "no Docker"),
    );
    append(&plain, "{\"log\":\"x\",\"message\":\"of an application\"}\nfour\n");
    let agent = Agent::start(&disk, &plan).await;
    eventually("all arrive", async || bodies(&backend).last().is_some_and(|body| body == "four")).await;
    let records = arrived(&backend).split_off(3);
    let shown: Vec<_> = records
        .iter()
        .map(|record| (record.body.as_str(), record.attributes.contains("log.iostream=stderr")))
        .collect();
    let no_docker = line("stderr", 'F', "no Docker");
    let expected = [
        ("two", true),
        (DAMAGED, false),
        ("{\"log\":\"t", false),
        ("three", true),
        (no_docker.trim_end(), false),
        ("of an application", false),
        ("four", false),
    ];
    assert_eq!(shown, expected);
    eventually("it is counted", async || {
        let odd = agent.figures().odd;
        [("malformed", 3), ("plain", 2)].iter().all(|count| odd.contains(count))
    })
    .await;
    let read = agent.status().activity.unwrap().read;
    assert_eq!((read.malformed, read.plain), (3, 2));
    agent.stop().await;
}

/// LOG-11: a file that is cut off and has more than before when somebody looks.
#[tokio::test]
async fn a_file_that_was_overwritten_is_read_from_its_beginning() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let file = disk.container("shop", "cart").join("0.log");
    append(&file, line("stdout", 'F', "old 1") + &line("stdout", 'F', "old 2"));
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("it is read", async || agent.tail.totals().counts.records == 2).await;
    let new: String = (1..=5).map(|number| line("stdout", 'F', &format!("new {number}"))).collect();
    std::fs::write(&file, new).unwrap();
    let expected = ["old 1", "old 2", "new 1", "new 2", "new 3", "new 4", "new 5"];
    eventually("what is new is read", async || bodies(&backend) == expected).await;
    agent.stop().await;
}

/// LOG-8, LOG-30: a compressed file is read on, and one that is damaged keeps nobody from what comes after it.
#[tokio::test]
async fn a_damaged_file_keeps_nobody_from_the_next() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let compress = |lines: &[String]| {
        let mut whole = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let text: String = lines.iter().map(|text| line("stdout", 'F', text)).collect();
        std::io::Write::write_all(&mut whole, text.as_bytes()).unwrap();
        whole.finish().unwrap()
    };
    let write = |name: &str, bytes: &[u8]| std::fs::write(directory.join(name), bytes).unwrap();
    write("0.log.20261123-110000.gz", &compress(&["compressed".to_owned()]));
    let lines: Vec<String> = (0..2000_u64).map(|number| format!("{number} {:x}", number.wrapping_pow(7))).collect();
    let torn = compress(&lines);
    write("0.log.20261123-120000.gz", &torn[..torn.len() / 2]);
    append(&directory.join("0.log"), line("stdout", 'F', "live"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let retry_after = Duration::from_millis(10);
    let agent = Agent::with(&disk, &plan, |settings| tail::Settings { retry_after, ..settings }).await;
    eventually("what can be read is", async || bodies(&backend).last().is_some_and(|body| body == "live")).await;
    let bodies = bodies(&backend);
    let (before, there) = (&bodies[0], &bodies[1..bodies.len() - 1]);
    assert_eq!(before, "compressed");
    assert!(there.len() > 500 && there == &lines[..there.len()], "{} of 2000 lines", there.len());
    let lost = async || agent.tail.totals().lost.unreadable;
    eventually("the rest is counted", async || lost().await == torn.len() as u64 / 2).await;
    agent.stop().await;
}
