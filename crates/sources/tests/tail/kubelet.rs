//! Files as the kubelet treats them: rotated, compressed, removed. Each line is known by its container, its stream and
//! its number.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use weir_loadtest::load::log_files::{LinesJudgement, LogFilesArgs, Manifest, Stop, judge, write};
use weir_loadtest::sink::Sink;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;
use weir_testkit::sink::sink;

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};
use crate::records::bodies;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    args: LogFilesArgs,
}

/// Writes files on a thread of its own, until all is written.
async fn written(disk: &Disk, options: &str) -> Manifest {
    let directory = disk.pods();
    let options = options.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let args = [vec!["log-files".to_owned(), directory.to_str().unwrap().to_owned()], options].concat();
    let Args { args } = Args::parse_from(args);
    tokio::task::spawn_blocking(move || write(&args, &Stop::new()).unwrap()).await.unwrap()
}

fn judgement(manifest: &Manifest, sink: &Sink) -> LinesJudgement {
    judge(manifest, &sink.report(true).log_lines.unwrap())
}

async fn all_arrives(manifest: &Manifest, sink: &Sink) -> LinesJudgement {
    eventually("every line arrives", async || {
        let LinesJudgement { written, arrived, .. } = judgement(manifest, sink);
        written == arrived
    })
    .await;
    judgement(manifest, sink)
}

/// LOG-6, LOG-7, LOG-14, LOG-18: each line once and in order, however often files are rotated, compressed, or begun anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_costs_nothing() {
    let (disk, sink) = (Disk::new(), sink("{}").await);
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", sink.grpc, all())])).await;
    let options = "--containers 3 --rate 5000 --duration 3s --rotate-every 100ms --keep 100 --partial 20 --stderr 30 \
                   --restart-every 1s --tear 5ms";
    let manifest = written(&disk, options).await;
    let judgement = all_arrives(&manifest, &sink).await;
    assert!(judgement.passes() && (judgement.duplicated, judgement.reordered) == (0, 0), "{judgement:?}");
    assert_eq!(agent.tail.totals().lost.bytes(), 0);
    agent.stop().await;
}

/// LOG-1, LOG-8: what was read is not read again, and what was written meanwhile is found, rotated and compressed or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on_where_it_was() {
    let (disk, sink) = (Disk::new(), sink("{}").await);
    let plan = plan(vec![pipeline("backend", sink.grpc, all())]);
    let is_written = AtomicBool::new(false);
    let writing = async {
        let options = "--containers 2 --rate 4000 --duration 4s --rotate-every 300ms --keep 100 --partial 20";
        let manifest = written(&disk, options).await;
        is_written.store(true, Ordering::SeqCst);
        manifest
    };
    let restarting = async {
        let mut agent = Agent::start(&disk, &plan).await;
        while !is_written.load(Ordering::SeqCst) {
            let has_read = async || agent.tail.totals().counts.records > 1000 || is_written.load(Ordering::SeqCst);
            eventually("it reads", has_read).await;
            agent.stop().await;
            agent = Agent::start(&disk, &plan).await;
        }
        agent
    };
    let (manifest, agent) = tokio::join!(writing, restarting);
    let judgement = all_arrives(&manifest, &sink).await;
    assert!(judgement.passes() && judgement.duplicated == 0, "{judgement:?}");
    agent.stop().await;
}

/// LOG-21: pods that are gone when somebody looks every second. A busy machine may let nobody look for as long as their
/// files are there; whoever looks every second misses some each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_lived_pods_are_read() {
    let mut missed = Vec::new();
    while missed.len() < 5 {
        let judgement = of_short_lived_pods().await;
        if judgement.passes() && (judgement.arrived, judgement.deleted) == (judgement.written, 0) {
            return;
        }
        missed.push(judgement);
    }
    panic!("{missed:#?}");
}

async fn of_short_lived_pods() -> LinesJudgement {
    let (disk, sink) = (Disk::new(), sink("{}").await);
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", sink.grpc, all())])).await;
    let manifest =
        written(&disk, "--containers 5 --rate 100 --duration 3s --pods-live 200ms --removed-after 500ms").await;
    eventually("what is gone is forgotten", async || agent.tail.totals().containers == 0).await;
    // Whatever was read arrives before the end.
    agent.stop().await;
    judgement(&manifest, &sink)
}

/// A backend that refuses half of all requests, and one that is away for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_backend_refuses_arrives_later() {
    for faults in [r#"{"fault": ["503:50"]}"#, r#"{"outage": ["0s..2s"]}"#] {
        let (disk, sink) = (Disk::new(), sink(faults).await);
        let agent = Agent::start(&disk, &plan(vec![pipeline("backend", sink.grpc, all())])).await;
        let manifest = written(&disk, "--containers 3 --rate 2000 --duration 2s --rotate-every 500ms --keep 100").await;
        assert!(all_arrives(&manifest, &sink).await.passes());
        agent.stop().await;
    }
}

/// LOG-6: a runtime that writes to a rotated file whose end was read already. The look at everything comes much later.
#[tokio::test]
async fn late_lines_of_a_rotated_file_arrive_soon() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let (file, rotated) = (directory.join("0.log"), directory.join("0.log.20261123-120000"));
    append(&file, line("stdout", 'F', "before"));
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("the first line arrives", async || bodies(&backend) == ["before"]).await;
    fs::rename(&file, &rotated).unwrap();
    append(&file, line("stdout", 'F', "after"));
    eventually("the rotated file has an end", async || bodies(&backend) == ["before", "after"]).await;
    // More than one, because a look may be due anyway after the rotation.
    let started = Instant::now();
    for late in 1..=3 {
        append(&rotated, line("stdout", 'F', &format!("late {late}")));
        eventually("a late line arrives", async || bodies(&backend).len() == 2 + late).await;
    }
    // Looks at everything are half a minute apart, so that three lines would take a minute.
    assert!(started.elapsed() < Duration::from_secs(50), "{:?}", started.elapsed());
    agent.stop().await;
}
