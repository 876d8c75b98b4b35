//! One process may do everything, or a part of it: what pipelines ask for, unless the command line says it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;
use weir_loadtest::ports::free_ports;
use weir_testkit::backend::Backend;
use weir_testkit::data_dir::find;
use weir_testkit::grpc::{Grpc, OK, UNIMPLEMENTED};
use weir_testkit::sink::closed_port;
use weir_testkit::{eventually, in_time, payload};

use crate::process::{Weir, command, manifest};

const LINE: &str = "2026-11-23T12:00:00.123456789Z stdout F a line\n";

/// A directory with a line of one container.
fn pods() -> TempDir {
    let pods = TempDir::new().unwrap();
    fs::create_dir_all(file(&pods).parent().unwrap()).unwrap();
    fs::write(file(&pods), LINE).unwrap();
    pods
}

/// The file of the container.
fn file(pods: &TempDir) -> PathBuf {
    pods.path().join("shop_cart-0_11111111-2222-3333-4444-555555555555/app/0.log")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A pipeline for both what containers print and what clients push.
fn logs(backend: SocketAddr) -> String {
    manifest("logs", backend).replace("TracePipeline", "LogPipeline")
}

/// A pipeline that takes nothing that clients push.
fn no_otlp(backend: SocketAddr) -> String {
    logs(backend).replace("spec:\n", "spec:\n  input: {otlp: {enabled: false}}\n")
}

async fn reloaded(weir: &Weir, manifests: &str) {
    let reloads = || weir.all_logged("configuration reloaded").len();
    let before = reloads();
    weir.edit(manifests);
    eventually("it is taken up", async || reloads() > before).await;
}

#[tokio::test]
async fn an_agent_reads_container_logs_and_has_no_otlp_ports() {
    let (backend, pods) = (Backend::start().await, pods());
    let arguments = ["--roles", "logs", "--pod-logs", text(pods.path())];
    let weir = Weir::start(&logs(backend.address), &arguments).await;
    eventually("the line arrives", async || backend.captured().len() == 1).await;
    let ready = weir.logged("ready").unwrap();
    assert!(ready.get("grpc").is_none() && ready.get("http").is_none() && weir.grpc.port() == 0, "{ready}");
    assert!(ready.get("metrics").is_some(), "{ready}");
}

#[tokio::test]
async fn the_otlp_ports_are_open_once_a_pipeline_asks_for_them() {
    let backend = Backend::start().await;
    let (without, traces) = (no_otlp(backend.address), manifest("traces", backend.address));
    let weir = Weir::start(&without, &[]).await;
    assert!(weir.logged("ready").unwrap().get("grpc").is_none());
    reloaded(&weir, &(without.clone() + &traces)).await;
    let open = weir.logged("the OTLP ports are open").unwrap();
    assert!(open["http"].is_string(), "{open}");
    let at = open["grpc"].as_str().unwrap().parse().unwrap();
    let answer = async |id| Grpc::connect(at).await.export(&payload::encoded(id, 1, 0)).await.code;
    assert_eq!(answer(1).await, OK);
    reloaded(&weir, &without).await;
    assert_eq!(answer(2).await, UNIMPLEMENTED, "nobody takes it");
    reloaded(&weir, &(without + &traces)).await;
    assert_eq!(answer(3).await, OK);
    assert_eq!(weir.all_logged("the OTLP ports are open").len(), 1);

    let named = Weir::start(&no_otlp(backend.address), &["--roles", "gateway"]).await;
    assert_ne!(named.grpc.port(), 0, "the command line wins");
}

/// Nothing of a change is taken up if its ports cannot be had.
#[tokio::test]
async fn a_port_that_is_taken_is_no_reason_to_stop() {
    // No connection gets the port when it is free again.
    let port = free_ports(1).unwrap().remove(0);
    let (backend, taken) = (Backend::start().await, TcpListener::bind(("127.0.0.1", port)).unwrap());
    let directory = TempDir::new().unwrap();
    let manifests = directory.path().join("pipelines.yaml");
    fs::write(&manifests, no_otlp(backend.address)).unwrap();
    let mut run = command(&["run", text(&manifests), "--grpc-port", &port.to_string()]);
    run.args(["--http-port", "0", "--metrics-port", "0", "--health-port", "0", "--admin-port", "0"]);
    let weir = Weir::launch(&[], run, directory).await;
    weir.edit(&(no_otlp(backend.address) + &manifest("traces", backend.address)));
    let refused = "the new configuration is not used; the last good one goes on";
    eventually("it is refused", async || weir.logged(refused).is_some()).await;
    let error = weir.logged(refused).unwrap()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("cannot listen on") && error.contains("--grpc-port"), "{error}");
    let page = weir_testkit::metrics::Scrape::of(weir.metrics).await;
    assert_eq!(page.get("weir_config_reloads_total{result=\"failure\"}"), 1.0);
    drop(taken);
    weir.signal(rustix::process::Signal::HUP);
    eventually("it is taken up", async || weir.logged("configuration reloaded").is_some()).await;
}

#[tokio::test]
async fn container_logs_are_read_as_long_as_a_pipeline_wants_them() {
    let (backend, pods) = (Backend::start().await, pods());
    let append = || OpenOptions::new().append(true).open(file(&pods)).unwrap().write_all(LINE.as_bytes()).unwrap();
    let traces = manifest("traces", backend.address);
    let both = traces.clone() + &logs(backend.address);
    let weir = Weir::start(&traces, &["--pod-logs", text(pods.path())]).await;
    let reading = "container logs are read for pipelines with runtime input";
    assert!(weir.logged(reading).is_none());
    reloaded(&weir, &both).await;
    eventually("the line arrives", async || backend.captured().len() == 1).await;
    reloaded(&weir, &traces).await;
    append();
    reloaded(&weir, &both).await;
    eventually("what was written meanwhile arrives", async || backend.captured().len() == 2).await;
    assert_eq!(weir.all_logged(reading).len(), 1);
}

/// Most machines have no such directory: that is said once, and everything else works.
#[tokio::test]
async fn without_a_directory_a_pipeline_for_container_logs_goes_on() {
    if Path::new("/var/log/pods").exists() {
        weir_testkit::warn("there is a /var/log/pods here: not tested without one");
        return;
    }
    let backend = Backend::start().await;
    let (traces, both) =
        (manifest("traces", backend.address), manifest("traces", backend.address) + &logs(backend.address));
    let weir = Weir::start(&traces, &[]).await;
    let said = "container logs are not read: there is no /var/log/pods; --pod-logs names another directory";
    assert!(weir.logged(said).is_none());
    for manifests in [&both, &traces, &both] {
        reloaded(&weir, manifests).await;
        assert_eq!(weir.all_logged(said).len(), 1);
    }
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 1, 0)).await.code, OK);
}

/// `weir run` with manifests that begin nothing; how it ended.
async fn refusal(manifests: &str, arguments: &[&str]) -> Output {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("pipelines.yaml");
    fs::write(&file, manifests).unwrap();
    let mut run = crate::process::run(&file);
    in_time("end of weir", run.args(arguments).output()).await.unwrap()
}

/// One program scrapes another.
#[tokio::test]
async fn what_a_pipeline_names_is_scraped_from_the_first_such_pipeline_on() {
    let (backend, target) = (Backend::start().await, Weir::start(&manifest("traces", closed_port().await), &[]).await);
    let page = format!("http://{}/metrics", target.metrics);
    let interval = "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {name: default}\n\
                    spec: {metric: {prometheus: {collectionInterval: 3s}}}\n";
    let quiet = manifest("scraped", backend.address).replace("TracePipeline", "MetricPipeline");
    let scraping = quiet
        .replace("name: scraped", &format!("name: scraped\n  annotations: {{weir.dev/static-targets: \"{page}\"}}"))
        .replace("spec:\n", "spec:\n  input: {prometheus: {enabled: true}}\n");
    let weir = Weir::start(&format!("{quiet}{interval}"), &[]).await;
    reloaded(&weir, &format!("{scraping}{interval}")).await;
    let arrived = || backend.captured().iter().any(|request| find(&request.plain, b"weir_").is_some());
    eventually("metrics of the other program arrive", async || arrived()).await;
    reloaded(&weir, &format!("{quiet}{interval}")).await;
    assert!(weir.all_logged("cannot scrape a target; trying again").is_empty());
}

/// Pipelines deliver what is on disk as soon as they are started, so all that can be wrong is found before.
#[tokio::test]
async fn whatever_is_wrong_with_container_logs_is_found_before_pipelines_start() {
    let (pods, data) = (pods(), TempDir::new().unwrap());
    fs::create_dir_all(data.path().join("logs/positions")).unwrap();
    let (nowhere, good) = (pods.path().join("none"), text(pods.path()));
    let backend = ([127, 0, 0, 1], 4317).into();
    let none = "cannot read container logs in";
    let cases = [
        (manifest("traces", backend), vec!["--no-data-dir", "--pod-logs", text(&nowhere)], none, 1),
        (logs(backend), vec!["--no-data-dir", "--pod-logs", text(&nowhere)], none, 1),
        (logs(backend), vec!["--no-data-dir", "--roles", "logs", "--pod-logs", "/dev/null"], none, 1),
        (logs(backend), vec!["--data-dir", text(data.path()), "--pod-logs", good], "cannot keep checkpoints", 1),
        (logs(backend), vec!["--roles", "gateway", "--pod-logs", good], "--roles leaves out logs", 1),
        (logs(backend), vec!["--roles", "agent"], "possible values: gateway, logs, metrics, backlog", 2),
    ];
    for (manifests, arguments, expected, code) in cases {
        let ended = refusal(&manifests, &arguments).await;
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(expected) && !said.contains("pipeline started"), "{arguments:?}: {said}");
    }
}
