//! Disks and clocks that do what they should not.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use weir_sources::tail;
use weir_testkit::backend::Backend;
use weir_testkit::{eventually, in_time};

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};
use crate::records::bodies;

/// A file that cannot be read holds up its own container, which is reported, and no other one.
async fn holds_up_itself_alone(make: impl FnOnce(&Path), words: &str) {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let first = directory.join("0.log");
    make(&first);
    append(&directory.join("1.log"), line("stdout", 'F', "after it"));
    append(&disk.container("shop", "till").join("0.log"), line("stdout", 'F', "other"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let patience = Duration::from_secs(1);
    let agent = Agent::with(&disk, &plan, |settings| tail::Settings { patience, ..settings }).await;
    eventually("the other container is read", async || bodies(&backend) == ["other"]).await;
    let stuck = |status: tail::ContainerStatus| status.activity.unwrap().stuck;
    eventually("it is reported", async || {
        let waits: Vec<_> = agent.board.containers_now().filter_map(stuck).map(|stuck| stuck.waits_for).collect();
        waits.len() == 1 && waits[0].contains(words)
    })
    .await;
    assert_eq!(agent.figures().containers, 2);
    fs::remove_file(&first).unwrap();
    eventually("what comes after it is read", async || bodies(&backend).len() == 2).await;
    agent.stop().await;
}

/// LOG-30: EIO, as from a disk that is broken.
#[tokio::test]
async fn a_file_that_fails_holds_up_nobody_else() {
    // What is at the beginning of a process's memory cannot be read.
    holds_up_itself_alone(|path| symlink("/proc/self/mem", path).unwrap(), "os error 5").await;
}

/// Runs a test as a user who may read only what he is allowed to. Only root may, and root may read everything.
async fn as_nobody(test: &str) {
    const NOBODY: u32 = 65_534;
    let directory = tempfile::tempdir().unwrap();
    chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // Where it was built may be shut, too.
    let program = directory.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = tokio::process::Command::new(&program);
    command.args(["--exact", test, "--nocapture"]).current_dir(directory.path()).env("TMPDIR", directory.path());
    let output = in_time("the test", command.uid(NOBODY).gid(NOBODY).output()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// LOG-30: EACCES.
#[tokio::test]
async fn a_file_that_may_not_be_read_holds_up_nobody_else() {
    let shut = |path: &Path| {
        append(path, line("stdout", 'F', "secret"));
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    };
    let probe = tempfile::NamedTempFile::new().unwrap();
    shut(probe.path());
    if File::open(probe.path()).is_ok() {
        return as_nobody("hostile::a_file_that_may_not_be_read_holds_up_nobody_else").await;
    }
    holds_up_itself_alone(shut, "os error 13").await;
}

/// Times of lines are records' times, whatever they are; nothing that Weir does depends on them.
#[tokio::test]
async fn clocks_may_jump() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let file = disk.container("shop", "cart").join("0.log");
    let years = ["2026", "1970", "2262", "0001", "9999", "2025"];
    for year in years {
        append(&file, format!("{year}-01-01T00:00:00Z stdout F {year}\n"));
    }
    append(&file, "2200-01-01T00:00:00Z stdout F half");
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let agent = Agent::start(&disk, &plan).await;
    eventually("all of it is read", async || bodies(&backend).len() == years.len()).await;
    let rest = "2200-01-01T00:00:00Z stdout F half".len() as u64;
    eventually("the rest is behind, and not old, as it is not written yet", async || {
        let status = agent.status();
        (status.bytes_behind, status.seconds_behind.to_bits()) == (rest, 0)
    })
    .await;
    agent.stop().await;
    append(&file, " a line\n");
    let agent = Agent::start(&disk, &plan).await;
    eventually("and the rest", async || bodies(&backend).last().is_some_and(|body| body == "half a line")).await;
    assert_eq!(agent.stop().await[0].delivered, 1, "nothing is read again");
}

/// Whatever is left of the positions, no line is missed, and what is read again is at most everything.
#[tokio::test]
async fn positions_that_are_torn_cost_no_line() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let file = disk.container("shop", "cart").join("0.log");
    append(&file, line("stdout", 'F', "0"));
    let agent = Agent::start(&disk, &plan).await;
    eventually("it is read", async || bodies(&backend).len() == 1).await;
    agent.stop().await;
    let positions = disk.state().join("positions");
    let whole = fs::read(&positions).unwrap();
    let step = whole.len() / 12;
    for (number, length) in (0..whole.len()).step_by(step.max(1)).enumerate() {
        fs::write(&positions, &whole[..length]).unwrap();
        let last = format!("{}", number + 1);
        append(&file, line("stdout", 'F', &last));
        let agent = Agent::start(&disk, &plan).await;
        eventually("the new line arrives", async || bodies(&backend).contains(&last)).await;
        assert_eq!(agent.tail.totals().lost.bytes(), 0, "cut after {length} bytes");
        agent.stop().await;
    }
    let bodies = bodies(&backend);
    assert!((0..12).all(|number| bodies.contains(&number.to_string())), "{bodies:?}");
}
