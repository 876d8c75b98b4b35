//! Where there is something to be read, and where reading begins.

use std::fs;
use std::os::unix::fs::symlink;

use weir_sources::tail::{self, StartAt};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};
use crate::records::bodies;

/// LOG-23: what was there before a first start is left out if that is wanted; what comes later never is.
#[tokio::test]
async fn a_first_start_may_begin_at_the_end() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    append(&directory.join("0.log.20261123-110000"), line("stdout", 'F', "rotated"));
    append(&directory.join("0.log"), line("stdout", 'F', "before"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let at_end = |settings| tail::Settings { start_at: StartAt::End, ..settings };
    let agent = Agent::with(&disk, &plan, at_end).await;
    eventually("it is known", async || agent.tail.totals().containers == 1).await;
    append(&directory.join("0.log"), line("stdout", 'F', "after"));
    eventually("what comes is read", async || bodies(&backend) == ["after"]).await;
    append(&disk.container("shop", "till").join("0.log"), line("stdout", 'F', "new"));
    eventually("new containers are", async || bodies(&backend) == ["after", "new"]).await;
    agent.stop().await;
    append(&directory.join("0.log"), line("stdout", 'F', "meanwhile"));
    append(&disk.container("shop", "desk").join("0.log"), line("stdout", 'F', "other"));
    let agent = Agent::with(&disk, &plan, at_end).await;
    eventually("and what came meanwhile", async || bodies(&backend).len() == 4).await;
    assert_eq!(agent.tail.totals().lost.bytes(), 0);
    agent.stop().await;
}

/// LOG-22: a file that is there twice is read once, and links that lead in a circle lead nowhere.
#[tokio::test]
async fn links_are_followed_to_files_alone() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let elsewhere = tempfile::tempdir().unwrap();
    let directory = disk.container("shop", "cart");
    append(&elsewhere.path().join("container.log"), line("stdout", 'F', "linked"));
    symlink(elsewhere.path().join("container.log"), directory.join("0.log")).unwrap();
    // The same file under another name, circles, and links to directories.
    symlink(directory.join("0.log"), directory.join("1.log")).unwrap();
    symlink(directory.join("2.log"), directory.join("2.log")).unwrap();
    let pod = directory.parent().unwrap();
    symlink(pod, pod.join("loop")).unwrap();
    symlink(disk.pods(), disk.pods().join("shop_loop_11111111-2222-3333-4444-555555555555")).unwrap();
    symlink(&directory, pod.join("twice")).unwrap();
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("it is read", async || bodies(&backend) == ["linked"]).await;
    append(&elsewhere.path().join("container.log"), line("stdout", 'F', "more"));
    eventually("it is read on", async || bodies(&backend).len() == 2).await;
    assert_eq!((agent.stop().await[0].delivered, bodies(&backend)), (2, vec!["linked".into(), "more".into()]));
}

/// What is no pod's is passed over, and keeps nobody from what is.
#[tokio::test]
async fn names_that_are_no_pods_are_passed_over() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    for name in ["lost+found", "a_b", "a_b_c_d", "_b_c", ".hidden_b_c", "a_b_c"] {
        let directory = disk.pods().join(name).join("..app");
        fs::create_dir_all(&directory).unwrap();
        append(&directory.join("0.log"), line("stdout", 'F', "no container"));
    }
    fs::write(disk.pods().join("shop_file_1"), "no directory").unwrap();
    let directory = disk.container("shop", "cart");
    for name in ["00.log", "0.log.tmp", "0.log.20261123-120000.gz.tmp", "app.log", "0.txt"] {
        append(&directory.join(name), line("stdout", 'F', "no log"));
    }
    fs::create_dir(directory.join("7.log")).unwrap();
    append(&directory.join("0.log"), line("stdout", 'F', "log"));
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    eventually("the log is read", async || bodies(&backend) == ["log"]).await;
    assert_eq!(agent.stop().await[0].delivered, 1);
}

/// Positions of another node say nothing of the files here, even if they have the same names and begin alike; and
/// without positions, everything is read.
#[tokio::test]
async fn positions_that_are_copied_or_lost_cost_no_line() {
    let (disk, copy, backend) = (Disk::new(), Disk::new(), Backend::start().await);
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let text = |last: &str| line("stdout", 'F', "the same").repeat(3) + &line("stdout", 'F', last);
    append(&disk.container("shop", "cart").join("0.log"), text("here"));
    append(&copy.container("shop", "cart").join("0.log"), text("there"));
    let agent = Agent::start(&disk, &plan).await;
    eventually("it is read", async || bodies(&backend).len() == 4).await;
    agent.stop().await;
    fs::create_dir_all(copy.state()).unwrap();
    fs::copy(disk.state().join("positions"), copy.state().join("positions")).unwrap();
    let agent = Agent::start(&copy, &plan).await;
    eventually("what is there is read", async || bodies(&backend).last().is_some_and(|body| body == "there")).await;
    agent.stop().await;
    assert_eq!(bodies(&backend).len(), 8, "from its beginning");
    fs::remove_dir_all(copy.state()).unwrap();
    let agent = Agent::start(&copy, &plan).await;
    eventually("all of it is read again", async || bodies(&backend).len() == 12).await;
    agent.stop().await;
}

/// LOG-1, LOG-2: however many files a container has, they are not read again after a restart.
#[tokio::test]
async fn many_files_have_a_checkpoint() {
    const FILES: usize = 5000;
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let directory = disk.container("shop", "cart");
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    for number in 0..FILES {
        let (minute, second) = (number / 60 % 60, number % 60);
        let name = format!("0.log.20261123-{:02}{minute:02}{second:02}", number / 3600);
        append(&directory.join(name), line("stdout", 'F', &number.to_string()));
    }
    let agent = Agent::start(&disk, &plan).await;
    eventually("all are read", async || agent.tail.totals().counts.records == FILES as u64).await;
    agent.stop().await;
    append(&directory.join("0.log"), line("stdout", 'F', "new"));
    let agent = Agent::start(&disk, &plan).await;
    eventually("what is new is read", async || bodies(&backend).last().is_some_and(|body| body == "new")).await;
    assert_eq!(agent.stop().await[0].delivered, 1);
}

/// LOG-11: a file that has less in it than was read of it.
#[tokio::test]
async fn a_file_that_shrinks_is_read_from_its_beginning() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let file = disk.container("shop", "cart").join("0.log");
    let agent = Agent::start(&disk, &plan(vec![pipeline("backend", backend.address, all())])).await;
    let mut expected = Vec::new();
    for round in 0..5 {
        let lines: Vec<String> = (0..10 - round).map(|number| format!("{round} {number}")).collect();
        let text: String = lines.iter().map(|text| line("stdout", 'F', text)).collect();
        fs::write(&file, text).unwrap();
        expected.extend(lines);
        eventually("it is read", async || bodies(&backend) == expected).await;
    }
    agent.stop().await;
}
