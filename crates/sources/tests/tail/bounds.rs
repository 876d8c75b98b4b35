//! What reading takes of the memory, of the disk and of others' time.

use std::fs::{self, File};
use std::io::IoSliceMut;
use std::time::Duration;

use rustix::io::{Errno, ReadWriteFlags, preadv2};
use weir_sources::tail;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};
use crate::records::bodies;

/// LOG-12: removed files that are not read take only so much of the disk; the oldest are given up, and that is counted.
#[tokio::test]
async fn removed_files_have_a_limit() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let path = |name: &str| directory.join(name);
    // Nothing is read after it as long as it is there.
    fs::write(path("0.log.20261123-110000.gz"), b"no gzip").unwrap();
    let lines = |text: &str| line("stdout", 'F', &text.repeat(1000)).repeat(100);
    append(&path("0.log.20261123-120000"), lines("old"));
    append(&path("0.log.20261123-130000"), lines("new"));
    append(&path("0.log"), line("stdout", 'F', "live"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let max_removed_bytes = lines("new").len() as u64;
    let agent = Agent::with(&disk, &plan, |settings| tail::Settings { max_removed_bytes, ..settings }).await;
    eventually("all are open", async || agent.figures().open_files == 4).await;
    fs::remove_file(path("0.log.20261123-120000")).unwrap();
    let removed = async || agent.figures().removed_open_bytes;
    eventually("one is removed", async || removed().await == lines("old").len() as u64).await;
    assert_eq!(agent.tail.totals().lost.bytes(), 0);
    fs::remove_file(path("0.log.20261123-130000")).unwrap();
    eventually("the older one is given up", async || agent.tail.totals().lost.over_limit == lines("old").len() as u64)
        .await;
    eventually("the other one stays", async || removed().await == max_removed_bytes).await;
    fs::remove_file(path("0.log.20261123-110000.gz")).unwrap();
    eventually("the rest is read", async || bodies(&backend).last().is_some_and(|body| body == "live")).await;
    let bodies = bodies(&backend);
    assert_eq!((bodies.len(), bodies.iter().filter(|body| body.starts_with("new")).count()), (101, 100));
    agent.stop().await;
}

/// All the memory that there is.
fn all_memory(agent: &Agent) -> Vec<weir_engine::Permit> {
    let mut held = Vec::new();
    let memory = agent.engine.inlet().memory_part(agent.engine.inlet().memory());
    for bytes in [1 << 20, 1 << 16, 1 << 12, 1] {
        while let Some(permit) = memory.try_reserve(bytes) {
            held.push(permit);
        }
    }
    held
}

/// The directories that one of the watchers of this process watches.
fn most_watches() -> usize {
    let watchers = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts = watchers.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.map(|text| text.lines().filter(|line| line.starts_with("inotify ")).count()).max().unwrap_or(0)
}

/// What waits for memory takes some, too: so only so many containers wait, and others are found again later.
#[tokio::test]
async fn only_so_many_containers_wait_for_memory() {
    const ALL: usize = 1030;
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    let held = all_memory(&agent);
    for number in 0..ALL {
        append(&disk.container("shop", &format!("cart-{number}")).join("0.log"), line("stdout", 'F', "line"));
    }
    eventually("most of them wait", async || agent.figures().without_memory >= 1000).await;
    assert_eq!(agent.tail.totals().containers, 0);
    // The directory of all pods, those of the pods, and those of the containers that wait.
    eventually("these are watched", async || most_watches() == 1 + ALL + 1000).await;
    drop(held);
    eventually("all are read", async || bodies(&backend).len() == ALL).await;
    eventually("nobody waits", async || agent.figures().without_memory == 0).await;
    agent.stop().await;
}

/// LOG-20: without memory, nothing is read, and nothing is lost.
#[tokio::test]
async fn nothing_is_read_without_memory() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let first = disk.container("shop", "cart");
    append(&first.join("0.log"), line("stdout", 'F', "one"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let patience = Duration::from_secs(1);
    let agent = Agent::with(&disk, &plan, |settings| tail::Settings { patience, ..settings }).await;
    eventually("the first line arrives", async || bodies(&backend) == ["one"]).await;
    let mut held = all_memory(&agent);
    append(&first.join("0.log"), line("stdout", 'F', "two"));
    eventually("it is stuck", async || agent.figures().stuck == 1).await;
    let stuck = |status: tail::ContainerStatus| status.activity.unwrap().stuck;
    let waits: Vec<_> = agent.board.containers_now().filter_map(stuck).map(|stuck| stuck.waits_for).collect();
    assert_eq!(waits, ["memory"]);
    // The turn that was under way has given back what it had.
    held.extend(all_memory(&agent));
    // Nor is there memory for what has to be known of one more container.
    append(&disk.container("shop", "till").join("0.log"), line("stdout", 'F', "three"));
    eventually("it is counted", async || agent.figures().without_memory == 1).await;
    assert_eq!((agent.tail.totals().containers, bodies(&backend).len()), (1, 1));
    drop(held);
    eventually("all is read", async || bodies(&backend).len() == 3).await;
    eventually("nobody is stuck", async || (agent.figures().stuck, agent.figures().without_memory) == (0, 0)).await;
    agent.stop().await;
}

/// The state of files is paid for before it is made, however many files a container has.
#[tokio::test]
async fn many_files_of_a_container_wait_for_memory() {
    const FILES: usize = 200;
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    append(&directory.join("0.log"), line("stdout", 'F', "first"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let patience = Duration::from_secs(1);
    let agent = Agent::with(&disk, &plan, |settings| tail::Settings { patience, ..settings }).await;
    eventually("the first line arrives", async || bodies(&backend) == ["first"]).await;
    eventually("it is safe", async || agent.status().activity.unwrap().read.records == 1).await;
    let used = || agent.engine.view().snapshot().unwrap().memory.payloads().1;
    let before = used();
    let held = all_memory(&agent);
    for restart in 1..=FILES {
        append(&directory.join(format!("{restart}.log")), line("stdout", 'F', &restart.to_string()));
    }
    let waits = || agent.status().activity.unwrap().stuck.map(|stuck| stuck.waits_for).unwrap_or_default();
    eventually("it is told", async || waits().contains("no memory for the state of")).await;
    drop(held);
    eventually("all are read", async || bodies(&backend).len() == 1 + FILES).await;
    eventually("they are paid for", async || used() >= before + (FILES - 8) * 512).await;
    (1..FILES).for_each(|restart| fs::remove_file(directory.join(format!("{restart}.log"))).unwrap());
    fs::remove_file(directory.join("0.log")).unwrap();
    eventually("and not any longer when they are gone", async || {
        // Everything is looked at at once, and not half a minute later.
        let _ = agent.tail.reload(&plan);
        used() <= before
    })
    .await;
    agent.stop().await;
}

/// LOG-19: who writes a little does not wait for who has written much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_container_does_not_wait_for_a_loud_one() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let loud = disk.container("shop", "loud");
    let text = line("stdout", 'F', &"loud ".repeat(40)).repeat(1000);
    for _ in 0..200 {
        append(&loud.join("0.log"), &text);
    }
    let quiet = disk.container("shop", "quiet");
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("it is read", async || agent.tail.totals().counts.records > 0).await;
    append(&quiet.join("0.log"), line("stdout", 'F', "quiet"));
    let arrived = async || bodies(&backend).iter().any(|body| body == "quiet");
    eventually("the quiet line arrives", arrived).await;
    let read = agent.tail.totals().counts.records;
    assert!(read < 200_000, "the loud one is not read to its end: {read}");
    agent.stop().await;
}

/// Whether the kernel has what a file begins with in memory.
fn is_cached(file: &File) -> bool {
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT) {
        Ok(_) => true,
        Err(Errno::AGAIN) => false,
        Err(error) => panic!("{error}"),
    }
}

/// LOG-31: what was read does not stay in the memory of the kernel; what is not read yet does.
#[tokio::test]
async fn what_was_read_leaves_the_page_cache() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let path = disk.container("shop", "cart").join("0.log");
    append(&path, line("stdout", 'F', &"text ".repeat(40)).repeat(20_000));
    let file = File::open(&path).unwrap();
    // Only what is on the disk can leave the memory.
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    if is_cached(&file) {
        weir_testkit::warn("this file system has everything in memory: nothing to be seen of the page cache");
        return;
    }
    std::io::copy(&mut File::open(&path).unwrap(), &mut std::io::sink()).unwrap();
    assert!(is_cached(&file));
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("it is read", async || agent.tail.totals().counts.records == 20_000).await;
    eventually("it is not cached", async || !is_cached(&file)).await;
    agent.stop().await;
}
