//! The ports for those who run the gateway: who may see what, and that nobody keeps them from it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::sink::sink;
use weir_testkit::{eventually, in_time, payload};

use crate::process::{Weir, manifest, run};

/// Of Linux: an end of a pipe is opened only if there is the other.
const O_NONBLOCK: i32 = 0o4000;

/// A file that is never read to its end, as on a file system that hangs.
#[tokio::test]
async fn a_configuration_that_cannot_be_read_keeps_no_signal_from_being_heard() {
    let sink = sink("{}").await;
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &[]).await;
    let pipe = weir.hang();
    // From now on it waits for what is written.
    let writer = opened(&pipe).await;
    let answer = Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 1, 10)).await;
    assert_eq!(answer.code, OK, "requests are served meanwhile: {answer:?}");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    drop(writer);
}

/// The same before there is a gateway: the signal is heard, whatever number the process has.
#[tokio::test]
async fn a_start_that_hangs_is_ended_by_a_signal() {
    let directory = tempfile::TempDir::new().unwrap();
    let pipe = directory.path().join("pipelines.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = run(&pipe).arg("--no-data-dir").spawn().unwrap();
    let writer = opened(&pipe).await;
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(in_time("the end", child.wait()).await.unwrap().code(), Some(0));
    drop(writer);
}

/// The end of a pipe to write to, as soon as somebody reads from it.
async fn opened(pipe: &Path) -> File {
    let mut writer = None;
    eventually("it is read", async || {
        writer = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(pipe).ok();
        writer.is_some()
    })
    .await;
    writer.unwrap()
}
