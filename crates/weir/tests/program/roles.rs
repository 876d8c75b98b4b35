//! One process may do everything, or a part of it.

use std::fs;

use tempfile::TempDir;
use weir_testkit::backend::Backend;
use weir_testkit::{eventually, in_time};

use crate::process::{Weir, command, manifest};

/// A directory with a line of one container.
fn pods() -> TempDir {
    let pods = TempDir::new().unwrap();
    let container = pods.path().join("shop_cart-0_11111111-2222-3333-4444-555555555555/app");
    fs::create_dir_all(&container).unwrap();
    fs::write(container.join("0.log"), "2026-11-23T12:00:00.123456789Z stdout F a line\n").unwrap();
    pods
}

#[tokio::test]
async fn an_agent_reads_container_logs_and_has_no_otlp_ports() {
    let (backend, pods) = (Backend::start().await, pods());
    let logs = manifest("backend", backend.address).replace("TracePipeline", "LogPipeline");
    let arguments = ["--roles", "logs", "--pod-logs", pods.path().to_str().unwrap()];
    let weir = Weir::start(&logs, &arguments).await;
    eventually("the line arrives", async || backend.captured().len() == 1).await;
    let ready = weir.logged("ready").unwrap();
    assert!(ready.get("grpc").is_none() && ready.get("http").is_none() && weir.grpc.port() == 0, "{ready}");
    assert!(ready.get("metrics").is_some(), "{ready}");
}

#[tokio::test]
async fn roles_that_leave_nothing_to_do_are_errors() {
    let pods = pods();
    let file = pods.path().join("traces.yaml");
    fs::write(&file, manifest("backend", ([127, 0, 0, 1], 4317).into())).unwrap();
    let file = file.to_str().unwrap();
    let directory = pods.path().to_str().unwrap();
    let cases = [
        (["--roles", "gateway", "--pod-logs", directory], "--roles leaves out logs"),
        (["--roles", "logs", "--pod-logs", file], "cannot read container logs in"),
        (["--roles", "metrics", "--pod-logs", directory], "possible values: gateway, logs"),
    ];
    for (arguments, expected) in cases {
        let ports = ["--grpc-port", "0", "--http-port", "0", "--metrics-port", "0", "--health-port", "0"];
        let run = command(&["run", file, "--no-data-dir", "--admin-port", "0"]).args(ports).args(arguments).output();
        let ended = in_time("end of weir", run).await.unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(expected), "{arguments:?}: {said}");
    }
}
