//! Directories that cannot be used, are used already, or go away.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;
use tokio::process::Command;
use weir_testkit::clients::{ids, is_polite, request, send, send_all};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{DOWN, arrived, closed_port, faults, sink};
use weir_testkit::{eventually, in_time, warn};

use crate::process::{Weir, manifest, run, under};

/// How a start that fails ends: what was logged.
async fn refusal(mut command: Command) -> String {
    let output = in_time("end of the command", command.output()).await.unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    error
}

/// `weir run` with a right configuration.
async fn command(directory: &TempDir) -> Command {
    let file = directory.path().join("pipelines.yaml");
    std::fs::write(&file, manifest("backend", closed_port().await)).unwrap();
    run(&file)
}

async fn is_refused_by_name(dir: &Path) {
    let directory = TempDir::new().unwrap();
    let mut command = command(&directory).await;
    let error = refusal({
        command.arg("--data-dir").arg(dir);
        command
    })
    .await;
    for needed in [dir.to_str().unwrap(), "--data-dir", "--no-data-dir"] {
        assert!(error.contains(needed), "{needed:?} is not in\n{error}");
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_named() {
    let files = TempDir::new().unwrap();
    let file = files.path().join("file");
    std::fs::write(&file, "something").unwrap();
    is_refused_by_name(&file).await;
    is_refused_by_name(&file.join("below")).await;
    // Nobody may write here, not even root.
    is_refused_by_name(Path::new("/sys/weir")).await;
    assert_eq!(std::fs::read(&file).unwrap(), b"something");
}

#[tokio::test]
async fn without_a_place_for_data_there_is_no_start() {
    for state in [None, Some("state"), Some("")] {
        let directory = TempDir::new().unwrap();
        let mut command = command(&directory).await;
        command.env_remove("HOME").env_remove("XDG_STATE_HOME").current_dir(directory.path());
        if let Some(state) = state {
            command.env("XDG_STATE_HOME", state);
        }
        let error = refusal(command).await;
        for needed in ["XDG_STATE_HOME", "HOME", "--data-dir", "--no-data-dir"] {
            assert!(error.contains(needed), "{state:?}: {needed:?} is not in\n{error}");
        }
        assert!(!directory.path().join("state").exists(), "a relative path is no place (XDG base directories)");
    }
}

#[tokio::test]
async fn by_default_data_is_kept_per_user() {
    for (variable, below) in [("HOME", ".local/state/weir"), ("XDG_STATE_HOME", "weir")] {
        let directory = TempDir::new().unwrap();
        let home = TempDir::new().unwrap();
        let mut command = command(&directory).await;
        command.env_remove("XDG_STATE_HOME").env("HOME", "/nowhere").env(variable, home.path());
        let child = command.spawn().unwrap();
        eventually("the directory is there", async || home.path().join(below).join("journal").is_dir()).await;
        drop(child);
    }
}

#[tokio::test]
async fn a_directory_that_others_may_use_is_told_once() {
    let (dir, sink) = (DataDir::new(), sink("{}").await);
    for (mode, others_may) in [(0o700, None), (0o750, Some("read")), (0o777, Some("write to"))] {
        std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        let weir = Weir::start(&manifest("backend", sink.grpc), &["--data-dir", dir.arg()]).await;
        let logs = weir.logs();
        let messages = logs.iter().filter_map(|line| line["message"].as_str());
        let warnings: Vec<&str> = messages.filter(|message| message.contains("other users may")).collect();
        assert_eq!(warnings.len(), usize::from(others_may.is_some()), "{mode:o}: {warnings:?}");
        if let Some(what) = others_may {
            let expected = format!("other users may {what} the data directory {}", dir.arg());
            assert!(warnings[0].starts_with(&expected), "{warnings:?}");
        }
        weir.kill().await;
    }
}

#[tokio::test]
async fn the_second_of_two_instances_says_who_has_the_directory() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = Weir::start(&manifest("backend", sink.grpc), &arguments).await;
    send_all(weir.grpc, 0..5, 100).await;
    let directory = TempDir::new().unwrap();
    let mut second = command(&directory).await;
    second.args(arguments);
    let error = refusal(second).await;
    let pid = weir.pid().as_raw_nonzero().to_string();
    for needed in [dir.arg(), &pid, "--data-dir"] {
        assert!(error.contains(needed), "{needed:?} is not in\n{error}");
    }
    send_all(weir.grpc, 5..10, 100).await;
    sink.set_faults(faults("{}"));
    eventually("the first one delivers", async || arrived(&sink) == ids(0..10)).await;
    dir.becomes_empty().await;
}

/// A command that runs another without the right to override permissions, which only root has; `None`, and said so, where
/// root cannot give it up.
async fn unprivileged() -> Option<Vec<&'static str>> {
    let (guarded, needless) = (TempDir::new().unwrap(), ["env"]);
    std::fs::set_permissions(guarded.path(), Permissions::from_mode(0o500)).unwrap();
    let file = guarded.path().join("file");
    let capabilities = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
    for wrapper in [&needless[..], &capabilities, &["unshare", "--user"]] {
        let run = |program: &str| {
            let mut command = Command::new(wrapper[0]);
            command.args(&wrapper[1..]).arg(program);
            command
        };
        let works = run("true").status().await.is_ok_and(|status| status.success());
        if works && !run("touch").arg(&file).output().await.unwrap().status.success() {
            return Some(wrapper.to_vec());
        }
        let _ = std::fs::remove_file(&file);
    }
    warn("no directory without permission was tested: root cannot give its rights up here");
    None
}

fn allow(dir: &Path, mode: u32) {
    std::fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
}

/// What is not written is not acknowledged; when it can be, it is.
#[tokio::test]
async fn a_directory_that_becomes_read_only_refuses_and_recovers() {
    let Some(wrapper) = unprivileged().await else { return };
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = Weir::start_under(&wrapper, &manifest("backend", sink.grpc), &arguments).await;
    allow(&dir.journal(), 0o500);
    for answer in send(weir.grpc, 0..10, 100).await {
        is_polite(&answer);
    }
    assert_eq!(Scrape::of(weir.metrics).await.get("weir_journal_failed"), 1.0);
    allow(&dir.journal(), 0o700);
    let client = Grpc::connect(weir.grpc).await;
    eventually("it is taken again", async || client.export(&request(10, 100)).await.code == OK).await;
    assert_eq!(Scrape::of(weir.metrics).await.get("weir_journal_failed"), 0.0);
    sink.set_faults(faults("{}"));
    eventually("it arrives", async || ids(10..11).iter().all(|id| arrived(&sink).contains(id))).await;
    Scrape::settled(weir.metrics, "backend").await;
    dir.becomes_empty().await;
}

/// What has been delivered stays until it can be deleted, and somebody is told: after a kill it would arrive again.
#[tokio::test]
async fn what_cannot_be_deleted_is_counted_and_goes_later() {
    let Some(wrapper) = unprivileged().await else { return };
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = Weir::start_under(&wrapper, &manifest("backend", sink.grpc), &arguments).await;
    send_all(weir.grpc, 0..10, 100).await;
    allow(&dir.journal(), 0o500);
    sink.set_faults(faults("{}"));
    Scrape::settled(weir.metrics, "backend").await;
    assert_eq!(arrived(&sink), ids(0..10));
    eventually("the failure is counted", async || {
        Scrape::of(weir.metrics).await.get("weir_journal_tidy_failures_total") >= 3.0
    })
    .await;
    let is_told = |line: &&serde_json::Value| {
        line["level"] == "WARN"
            && line["message"].as_str().is_some_and(|message| message.contains("delivers the data again"))
    };
    assert_eq!(weir.logs().iter().filter(is_told).count(), 1, "not each time");
    assert_eq!(
        Scrape::of(weir.metrics).await.get("weir_journal_failed"),
        0.0,
        "new data can be written for all we know"
    );
    allow(&dir.journal(), 0o700);
    dir.becomes_empty().await;
}

#[tokio::test]
async fn a_read_only_directory_is_refused() {
    let Some(wrapper) = unprivileged().await else { return };
    let (dir, directory) = (DataDir::new(), TempDir::new().unwrap());
    allow(dir.path(), 0o500);
    let mut command = command(&directory).await;
    command.args(["--data-dir", dir.arg()]);
    let error = refusal(under(&wrapper, command)).await;
    for needed in [dir.arg(), "Permission denied", "--data-dir"] {
        assert!(error.contains(needed), "{needed:?} is not in\n{error}");
    }
}

/// From then on OK is said only for what a later start finds.
#[tokio::test]
async fn a_directory_that_was_removed_is_no_place_for_data() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let manifest = manifest("backend", sink.grpc);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = Weir::start(&manifest, &arguments).await;
    send_all(weir.grpc, 0..5, 100).await;
    std::fs::remove_dir_all(dir.journal()).unwrap();
    let mut kept = Vec::new();
    for round in [5..15, 15..25] {
        let answers = send(weir.grpc, round.clone(), 100).await;
        for (number, answer) in round.zip(answers) {
            if answer.code == OK {
                kept.extend(ids(number..number + 1));
            } else {
                is_polite(&answer);
            }
        }
    }
    Scrape::of(weir.metrics).await.books("backend");
    weir.kill().await;

    sink.set_faults(faults("{}"));
    let weir = Weir::start(&manifest, &arguments).await;
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&request(30, 100)).await.code, OK);
    kept.extend(ids(30..31));
    Scrape::settled(weir.metrics, "backend").await;
    let arrived = arrived(&sink);
    let missing: Vec<u64> = kept.into_iter().filter(|id| arrived.binary_search(id).is_err()).collect();
    assert_eq!(missing, Vec::<u64>::new(), "acknowledged and lost");
}

/// Whoever removes files of a running gateway loses what was in them, and it says so; everything else is delivered.
#[tokio::test]
async fn removed_files_are_counted_or_delivered() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let weir = Weir::start(&manifest("backend", sink.grpc), &["--data-dir", dir.arg(), "--spill-after", "10ms"]).await;
    send_all(weir.grpc, 0..20, 100).await;
    dir.files().iter().for_each(|file| std::fs::remove_file(file).unwrap());
    sink.set_faults(faults("{}"));
    Scrape::settled(weir.metrics, "backend").await;
    let books = Scrape::of(weir.metrics).await.books("backend");
    assert_eq!(books.delivered, arrived(&sink).len() as u64, "{books:?}");
    assert_eq!(books.delivered + books.dropped, books.accepted, "{books:?}");
    // What a slow disk is given first goes to the file that is not there any more: who sent it is asked to send it again.
    for number in 20..30 {
        eventually("it is taken", async || {
            let answer = send(weir.grpc, number..number + 1, 100).await.remove(0);
            if answer.code != OK {
                is_polite(&answer);
            }
            answer.code == OK
        })
        .await;
    }
    eventually("what comes later is delivered", async || ids(20..30).iter().all(|id| arrived(&sink).contains(id)))
        .await;
    dir.becomes_empty().await;
}
