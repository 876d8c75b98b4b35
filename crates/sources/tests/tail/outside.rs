//! What the page and the metrics show: unread output, losses and stuck containers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use jiff::Timestamp;
use weir_sources::tail::{self, ContainerStatus};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};

/// The begin of a line that was written a while ago.
fn half_a_line(seconds_ago: i64) -> String {
    let time = Timestamp::from_second(Timestamp::now().as_second() - seconds_ago).unwrap();
    format!("{time} stdout F half")
}

fn inspected(disk: &Disk) -> ContainerStatus {
    let mut all = tail::inspect(&disk.state(), &disk.pods()).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// LOG-28: bytes and seconds behind, open files and rotations, in the process and without it.
#[tokio::test]
async fn it_is_measured_how_far_a_container_is_behind() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let (live, rotated) = (directory.join("0.log"), directory.join("0.log.20261123-120000"));
    append(&live, line("stdout", 'F', "one") + &line("stdout", 'F', "two"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let agent = Agent::start(&disk, &plan).await;
    eventually("it is read", async || agent.tail.totals().counts.records == 2).await;
    fs::rename(&live, &rotated).unwrap();
    let half = half_a_line(100);
    append(&live, line("stdout", 'F', "three") + &half);
    eventually("what is whole is read", async || agent.tail.totals().counts.records == 3).await;
    eventually("the rest is behind", async || {
        let status = agent.status();
        status.bytes_behind == half.len() as u64 && status.seconds_behind >= 100.0
    })
    .await;
    eventually("the rotated file is closed", async || agent.status().activity.unwrap().open_files == 1).await;
    let status = agent.status();
    let activity = status.activity.unwrap();
    assert!(status.known && status.seconds_behind < 160.0 && status.files == 2, "{}", status.seconds_behind);
    assert_eq!((activity.rotations, activity.read.records, activity.stuck), (1, 3, None));
    let (current, inode) = (activity.current_file.unwrap(), fs::metadata(&live).unwrap().ino());
    assert_eq!((current.name.as_str(), current.inode), ("0.log", inode));
    eventually("the metrics say so, too", async || {
        let figures = agent.figures();
        figures.bytes_behind == half.len() as u64
            && figures.most_behind >= Duration::from_secs(100)
            && (figures.containers, figures.open_files, figures.rotations, figures.records) == (1, 1, 1, 3)
    })
    .await;
    assert_eq!(inspected(&disk).bytes_behind, half.len() as u64, "while it runs");
    agent.stop().await;

    append(&live, " a line\n".to_owned() + &line("stdout", 'F', "four"));
    let size = fs::metadata(&live).unwrap().len();
    let first = line("stdout", 'F', "three").len() as u64;
    let status = inspected(&disk);
    assert_eq!((status.bytes_behind, status.missing_bytes, status.known), (size - first, 0, true), "{status:?}");
    fs::remove_file(&live).unwrap();
    let status = inspected(&disk);
    assert_eq!((status.bytes_behind, status.missing_bytes), (0, half.len() as u64), "as much as was seen: {status:?}");
    let agent = Agent::start(&disk, &plan).await;
    eventually("what is lost is counted", async || agent.tail.totals().lost.removed == half.len() as u64).await;
    agent.stop().await;
}

/// What no position is known of was never read.
#[test]
fn what_was_never_read_is_all_behind() {
    let disk = Disk::new();
    append(&disk.container("shop", "cart").join("0.log"), line("stdout", 'F', "one"));
    fs::create_dir_all(disk.pods().join("lost+found/0")).unwrap();
    let status = inspected(&disk);
    assert_eq!((status.known, status.bytes_behind), (false, line("stdout", 'F', "one").len() as u64));
    assert!(tail::inspect(&disk.state(), &disk.pods().join("none")).is_err());
}

/// LOG-28: a stuck container is reported with the reason, and so is the end of that.
#[tokio::test]
async fn a_stuck_container_is_reported() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let damaged = directory.join("0.log.20261123-110000.gz");
    fs::write(&damaged, b"no gzip").unwrap();
    append(&directory.join("0.log"), line("stdout", 'F', "live"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let patience = Duration::from_secs(1);
    let agent = Agent::with(&disk, &plan, |settings| tail::Settings { patience, ..settings }).await;
    eventually("it is stuck", async || agent.figures().stuck == 1).await;
    // It is tried again each second, and waits for the disk then.
    let reason = || agent.status().activity.unwrap().stuck.map(|stuck| stuck.waits_for);
    eventually("the reason is reported", async || reason().is_some_and(|reason| reason.contains("cannot be read")))
        .await;
    fs::remove_file(&damaged).unwrap();
    eventually("it is read again", async || agent.figures().stuck == 0).await;
    assert_eq!((agent.status().activity.unwrap().stuck, agent.tail.totals().counts.records), (None, 1));
    agent.stop().await;
}
