//! Container logs, read by the program: `kill -9` while containers write, few hints of the kernel, and what is to be seen.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Child;
use weir_loadtest::load::log_files::{LinesJudgement, Manifest, judge};
use weir_loadtest::sink::Sink;
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::data_dir::DataDir;
use weir_testkit::metrics::Scrape;
use weir_testkit::signals::{resources, text};
use weir_testkit::sink::{faults, sink};
use weir_testkit::{eventually, http, in_time};

use crate::destinations::top;
use crate::process::{Weir, command};

/// A LogPipeline for what containers print.
fn pipeline(backend: SocketAddr) -> String {
    format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: LogPipeline\nmetadata:\n  name: backend\nspec:\n  \
         output:\n    otlp:\n      endpoint:\n        value: http://{backend}\n"
    )
}

/// The directory of a container.
fn container(pods: &Path, name: &str) -> PathBuf {
    let directory = pods.join(format!("shop_{name}_11111111-2222-3333-4444-555555555555/app"));
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn append(file: &Path, text: &str) {
    let line = format!("2026-11-23T12:00:00.123456789Z stdout F {text}\n");
    OpenOptions::new().create(true).append(true).open(file).unwrap().write_all(line.as_bytes()).unwrap();
}

fn admin(weir: &Weir) -> SocketAddr {
    weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap()
}

/// A fake kubelet.
struct Kubelet {
    child: Child,
    directory: TempDir,
}

impl Kubelet {
    fn start(pods: &Path, options: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let manifest = directory.path().join("manifest.json");
        let mut command = command(&["load", "log-files", pods.to_str().unwrap(), "--manifest"]);
        let child = command.arg(manifest).args(options.split_whitespace()).spawn().unwrap();
        Self { child, directory }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it wrote.
    fn manifest(&self) -> Manifest {
        serde_json::from_slice(&fs::read(self.directory.path().join("manifest.json")).unwrap()).unwrap()
    }
}

fn judgement(manifest: &Manifest, sink: &Sink) -> LinesJudgement {
    judge(manifest, &sink.report(true).log_lines.unwrap())
}

/// LOG-1: no line that is on the disk is lost, however often the process is killed; those that were under way, and those
/// since positions were last saved, arrive again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_after_kill_no_line_is_lost() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink(r#"{"fault": ["503:20"]}"#).await);
    let options = "--containers 3 --rate 2000 --duration 12s --rotate-every 500ms --keep 1000 --partial 20 --stderr 30";
    let mut kubelet = Kubelet::start(pods.path(), options);
    let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.path().to_str().unwrap(), "--spill-after", "20ms"];
    let mut kills = 0_u64;
    while !kubelet.has_ended() {
        let weir = Weir::start(&pipeline(sink.grpc), &arguments).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..900))).await;
        weir.kill().await;
        kills += 1;
    }
    let manifest = kubelet.manifest();
    sink.set_faults(faults("{}"));
    let mut weir = Weir::start(&pipeline(sink.grpc), &arguments).await;
    eventually("every line arrives", async || {
        let LinesJudgement { written, arrived, .. } = judgement(&manifest, &sink);
        written == arrived
    })
    .await;
    let judgement = judgement(&manifest, &sink);
    println!("{kills} kills, {} lines, {} again", judgement.written, judgement.duplicated);
    assert!(kills >= 5 && judgement.passes(), "{kills} kills, seed {seed}: {judgement:?}");
    // A turn of each container, and what was read since the positions were saved.
    let most = 3 * (768 * 1024 / 200 + 2000) * kills;
    assert!(judgement.duplicated <= most, "{} duplicates", judgement.duplicated);
    assert_eq!(Scrape::of(weir.metrics).await.get("weir_container_logs_lost_bytes_total{reason=\"removed\"}"), 0.0);
    weir.signal(rustix::process::Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
}

/// A rotated file is complete a second after the next one came, also when no process lives that long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_killed_twice_a_second_gets_on() {
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    let directory = container(pods.path(), "cart");
    for second in 10..14 {
        append(&directory.join(format!("0.log.20261123-1200{second}")), &second.to_string());
    }
    append(&directory.join("0.log"), "last");
    let file = directory.join("0.log.20261123-120012");
    // Only whoever knows that nothing comes any more reads half a line.
    fs::write(&file, "2026-11-23T12:00:00.123456789Z stdout F half").unwrap();
    let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.path().to_str().unwrap(), "--spill-after", "20ms"];
    let records = || sink.report(false).log_lines.map_or(0, |lines| lines.unmarked);
    let mut kills = 0;
    while records() < 5 {
        assert!(kills < 60, "{} of 5 lines after {kills} kills", records());
        let weir = Weir::start(&pipeline(sink.grpc), &arguments).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        weir.kill().await;
        kills += 1;
    }
}

/// What file systems, the runtime and other tools do to files: nothing is lost that could be read, and nothing comes
/// twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_becomes_of_files_each_line_comes_once() {
    let all = [
        "--rotate-every 300ms --keep 3 --reuse-inodes",
        "--rotate-every 300ms --keep 100 --unterminated --partial 30",
        "--rotate-every 700ms --copy-truncate --format plain",
        "--rotate-every 700ms --copy-truncate",
        "--rotate-every 700ms --keep 100 --holes 5",
        "--restart-every 700ms --keep 100 --holes 5 --unterminated",
    ];
    // All at once, because each of them waits more than it computes.
    join_all(all.map(each_line_comes_once)).await;
}

async fn each_line_comes_once(options: &str) {
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.path().to_str().unwrap()];
    let weir = Weir::start(&pipeline(sink.grpc), &arguments).await;
    let mut kubelet = Kubelet::start(pods.path(), &format!("--containers 3 --rate 500 --duration 4s {options}"));
    in_time("the end of writing", kubelet.child.wait()).await.unwrap();
    let manifest = kubelet.manifest();
    eventually("every line arrives that is there", async || {
        let judgement = judgement(&manifest, &sink);
        // For whoever has to find out why it does not.
        println!("{options}: {} lost, {} deleted, {} damaged", judgement.lost, judgement.deleted, judgement.damaged);
        judgement.passes()
    })
    .await;
    let judgement = judgement(&manifest, &sink);
    // Who cuts files off may be faster than whoever reads them; where files stay, nothing may be missing.
    let may_miss = options.contains("--copy-truncate") || options.contains("--keep 3");
    assert!(judgement.arrived > 0 && (may_miss || judgement.arrived == judgement.written), "{options}: {judgement:?}");
    assert_eq!(judgement.duplicated, 0, "{options}: {judgement:?}");
    assert_eq!((judgement.unmarked, judgement.foreign), (0, 0), "{options}: {judgement:?}");
    weir.kill().await;
}

/// A pod, as the list of pods has it.
fn pod(node: &str) -> String {
    let metadata = "{name: cart, namespace: shop, uid: 11111111-2222-3333-4444-555555555555}";
    format!("---\napiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {{nodeName: {node}}}\n")
}

/// Where the list of pods does not say on which node a pod runs, the program does.
#[tokio::test]
async fn records_say_on_which_node_they_were_written() {
    let [environment, older] = [&["env", "NODE_NAME=one", "MY_NODE_NAME=other"][..], &["env", "MY_NODE_NAME=other"]];
    let given = &["--node-name", "given"][..];
    for (environment, arguments, pod, expected) in [
        (environment, given, String::new(), Some("given")),
        (environment, &[][..], String::new(), Some("one")),
        (older, &[], String::new(), Some("other")),
        (&["env", "NODE_NAME="], &[], String::new(), None),
        (environment, given, pod("known"), Some("known")),
    ] {
        let (pods, backend) = (TempDir::new().unwrap(), Backend::start().await);
        append(&container(pods.path(), "cart").join("0.log"), "line");
        let arguments = [&["--pod-logs", pods.path().to_str().unwrap()][..], arguments].concat();
        let weir = Weir::start_under(environment, &(pipeline(backend.address) + &pod), &arguments).await;
        eventually("it arrives", async || !backend.captured().is_empty()).await;
        let resource = &resources(Signal::Logs, &backend.captured()[0].plain)[0];
        assert_eq!(text(&resource.attributes, "k8s.node.name"), expected, "{environment:?} {arguments:?}");
        weir.kill().await;
    }
}

/// The facts about a pod that is gone are kept as long as lines of it may come.
#[tokio::test]
async fn the_last_lines_of_a_pod_have_its_attributes() {
    let (pods, backend) = (TempDir::new().unwrap(), Backend::start().await);
    let file = container(pods.path(), "cart").join("0.log");
    append(&file, "first");
    let other = pod("other").replace("cart", "till").replace("1111-2222", "1111-2223");
    let (with, without) = (pod("known") + &other, other);
    let arguments = ["--pod-logs", pods.path().to_str().unwrap()];
    let weir = Weir::start(&(pipeline(backend.address) + &with), &arguments).await;
    eventually("the first line arrives", async || backend.captured().len() == 1).await;
    weir.edit(&(pipeline(backend.address) + &without));
    eventually("it is taken up", async || weir.logged("configuration reloaded").is_some()).await;
    append(&file, "last");
    eventually("the last line arrives", async || backend.captured().len() == 2).await;
    for captured in backend.captured() {
        let resource = &resources(Signal::Logs, &captured.plain)[0];
        assert_eq!(text(&resource.attributes, "k8s.node.name"), Some("known"));
    }
}

/// LOG-9: the kernel watches only so many directories for a user, or none; everything is found all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_hints_of_the_kernel_are_enough() {
    for limit in ["max_inotify_watches", "max_inotify_instances"] {
        let few = if limit == "max_inotify_watches" { 8 } else { 0 };
        let script = format!("echo {few} > /proc/sys/user/{limit} && exec \"$@\"");
        let wrapper = ["unshare", "--user", "--map-root-user", "sh", "-c", &script, "sh"];
        let can = crate::process::under(&wrapper, command(&["completions", "bash"])).output().await;
        if !can.is_ok_and(|output| output.status.success()) {
            weir_testkit::warn("no user namespaces here: not tested with few hints of the kernel");
            return;
        }
        let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
        let kubelet = async |options: &str| {
            let mut kubelet = Kubelet::start(pods.path(), options);
            in_time("the end of writing", kubelet.child.wait()).await.unwrap();
            kubelet.manifest()
        };
        let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.path().to_str().unwrap()];
        let weir = Weir::start_under(&wrapper, &pipeline(sink.grpc), &arguments).await;
        let options = "--containers 20 --rate 50 --duration 3s --rotate-every 500ms --keep 100";
        let manifest = kubelet(options).await;
        eventually("every line arrives", async || {
            let LinesJudgement { written, arrived, .. } = judgement(&manifest, &sink);
            written == arrived
        })
        .await;
        let judgement = judgement(&manifest, &sink);
        assert!(judgement.passes() && judgement.duplicated == 0, "{limit}: {judgement:?}");
        weir.kill().await;
    }
}

async fn status(data: &Path, pods: &Path, more: &[&str]) -> Output {
    let (data, pods) = (data.to_str().unwrap(), pods.to_str().unwrap());
    let arguments = [&["logs", "status", data, "--pod-logs", pods], more].concat();
    in_time("the status", command(&arguments).output()).await.unwrap()
}

/// LOG-28: on the admin port while it runs, and from the files whether it runs or not.
#[tokio::test]
async fn it_is_to_be_seen_how_containers_are_read() {
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    let file = container(pods.path(), "cart").join("0.log");
    append(&file, "one");
    let size = fs::metadata(&file).unwrap().len();
    let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.path().to_str().unwrap(), "--logs-start-at", "end"];
    let mut weir = Weir::start(&pipeline(sink.grpc), &arguments).await;
    let admin = admin(&weir);
    let page = async || -> Value { serde_json::from_slice(&http::get(admin, "/logs").await.body).unwrap() };
    eventually("the container is known", async || page().await[0]["container"] == "app").await;
    append(&file, "two");
    eventually("a line is read", async || page().await[0]["read"]["records"] == 1).await;
    let shown = page().await;
    assert_eq!((&shown[0]["pod"], &shown[0]["bytes_behind"]), (&"cart".into(), &0.into()), "{shown}");
    assert_eq!(http::get(weir.metrics, "/logs").await.status, 404, "not where everybody looks");
    let (code, text) = top(&weir, &["--logs"]).await;
    assert!(code == Some(0) && text.starts_with("1 container, 0 B not safe yet, 0 stuck\n"), "{text}");
    assert!(text.contains("shop/cart/app"), "{text}");
    let (_, rows) = top(&weir, &["--logs", "--format", "json"]).await;
    let rows: Value = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows[0]["read"], shown[0]["read"], "{rows}");
    eventually("its position is saved", async || {
        let output = status(dir.path(), pods.path(), &["--format", "json"]).await;
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        shown[0]["bytes_behind"] == 0 && shown[0]["known"] == true
    })
    .await;
    weir.signal(rustix::process::Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    append(&file, "two");
    let output = status(dir.path(), pods.path(), &[]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("shop/cart/app"), "{text}");
    assert!(text.starts_with(&format!("1 container, {size} B not safe yet\n")), "{text}");
    append(&container(pods.path(), "till").join("0.log"), "two");
    let output = status(dir.path(), pods.path(), &[]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let sum = format!("2 containers, {size} B not safe yet; {size} B more in 1 container without a checkpoint\n");
    assert!(text.starts_with(&sum), "what nobody has read is apart: {text}");
    let wrong = status(&dir.path().join("none"), pods.path(), &[]).await;
    let text = String::from_utf8(wrong.stderr).unwrap();
    assert!(!wrong.status.success() && text.contains("cannot find the data directory"), "{text}");
    let wrong = status(dir.path(), &pods.path().join("none"), &[]).await;
    let text = String::from_utf8(wrong.stderr).unwrap();
    assert!(!wrong.status.success() && text.contains("cannot read the directory of container logs"), "{text}");
}

/// Whoever shows a beginning of many containers need not ask for all: the answer has sums of those that are not in it.
#[tokio::test]
async fn the_containers_that_are_furthest_behind_can_be_asked_for_alone() {
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    // Without an end it is seen, and not read.
    let half = |name: &str| {
        let text = format!("2026-11-23T12:00:00.123456789Z stdout F {name}");
        fs::write(container(pods.path(), name).join("0.log"), &text).unwrap();
        text.len()
    };
    let bytes: usize = ["cart", "till", "warehouse"].map(half).into_iter().sum();
    let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.path().to_str().unwrap()];
    let weir = Weir::start(&pipeline(sink.grpc), &arguments).await;
    let admin = admin(&weir);
    let ask = async |path: &str| -> Value { serde_json::from_slice(&http::get(admin, path).await.body).unwrap() };
    let total = json!({"containers": 3, "files": 3, "bytes_behind": bytes, "stuck": 0});
    eventually("all are seen", async || ask("/logs?first=0").await == json!({"total": total, "containers": []})).await;
    let pods_of = |rows: &Value| {
        rows.as_array().unwrap().iter().map(|row| row["pod"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (first, expected) in [
        ("1", "warehouse"),
        ("2", "warehouse cart"),
        ("3", "warehouse cart till"),
        ("18446744073709551615", "warehouse cart till"),
    ] {
        let page = ask(&format!("/logs?first={first}")).await;
        assert_eq!((&page["total"], &*pods_of(&page["containers"])), (&total, expected), "{page}");
    }
    assert_eq!(pods_of(&ask("/logs").await), "cart till warehouse", "without a query it is as it was");
    let without_age = |row: &Value| {
        let mut row = row.clone();
        row.as_object_mut().unwrap().remove("seconds_behind").unwrap();
        row
    };
    eventually("each is told in the same way", async || {
        let (all, page) = (ask("/logs").await, ask("/logs?first=1").await);
        without_age(&page["containers"][0]) == without_age(&all[2])
    })
    .await;
    for (query, words) in [
        ("first=-1", r#"first must be a whole number, not "-1""#),
        ("first=", r#"first must be a whole number, not """#),
        ("first=all", r#"first must be a whole number, not "all""#),
        ("last=2", r#"there is no parameter "last": this path takes first"#),
    ] {
        let answer = http::get(admin, &format!("/logs?{query}")).await;
        let error: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, &error["error"]), (400, &words.into()), "{query}");
    }
}

/// What was not read as it was written is in the log with whose it was and how much, at the end at the latest.
#[tokio::test]
async fn the_log_says_what_is_not_read_as_it_was_written() {
    const SAID: &str = "container logs are malformed or had to be changed, those of this container first; the figures are \
                        of all containers, since the last such line";
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    let file = container(pods.path(), "cart").join("0.log");
    append(&file, "fine");
    let mut open = OpenOptions::new().append(true).open(&file).unwrap();
    open.write_all(b"no CRI at all\n2026-11-23T12:00:00.123456789Z stdout F caf\xe9\n").unwrap();
    let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.path().to_str().unwrap()];
    let mut weir = Weir::start(&pipeline(sink.grpc), &arguments).await;
    let admin = admin(&weir);
    eventually("all is read", async || {
        let page: Value = serde_json::from_slice(&http::get(admin, "/logs").await.body).unwrap();
        page[0]["read"]["records"] == 3
    })
    .await;
    weir.signal(rustix::process::Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    let said = weir.all_logged(SAID);
    let [line] = &*said else { panic!("{said:?}") };
    assert_eq!(line["container"], "shop_cart_11111111-2222-3333-4444-555555555555/app", "{line}");
    assert_eq!([&line["malformed"], &line["not_utf8"], &line["cut"], &line["left_out"]], [1_u64, 1, 0, 0], "{line}");
}

/// A process that has just lost what so many containers wrote, which nobody has read, and how many bytes of each.
async fn loser(pods: &Path, dir: &DataDir, sink: SocketAddr, containers: usize) -> (Weir, usize) {
    let file = |number: usize| container(pods, &format!("cart-{number:02}")).join("0.log");
    // Without an end it is seen, and not read.
    let text = |number: usize| format!("2026-11-23T12:00:00.123456789Z stdout F half of {number:02}");
    (0..containers).for_each(|number| fs::write(file(number), text(number)).unwrap());
    let bytes = text(0).len();
    let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.to_str().unwrap()];
    let mut weir = Weir::start(&pipeline(sink), &arguments).await;
    let admin = admin(&weir);
    eventually("all are seen", async || {
        let page: Vec<Value> = serde_json::from_slice(&http::get(admin, "/logs").await.body).unwrap();
        page.iter().filter(|container| container["bytes_behind"] == bytes).count() == containers
    })
    .await;
    weir.signal(rustix::process::Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));

    (0..containers).for_each(|number| fs::remove_file(file(number)).unwrap());
    let weir = Weir::start(&pipeline(sink), &arguments).await;
    let metrics = weir.metrics;
    eventually("all is lost", async || {
        Scrape::of(metrics).await.sum("weir_container_logs_lost_bytes_total", "removed") == (containers * bytes) as f64
    })
    .await;
    (weir, bytes)
}

/// What was lost before it came into any books is told by what the page asks, and nobody says that all is well.
#[tokio::test]
async fn what_is_in_no_books_is_told_beside_them() {
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    let (weir, bytes) = loser(pods.path(), &dir, sink.grpc, 1).await;
    let page: Value = serde_json::from_slice(&http::get(weir.metrics, "/api/now").await.body).unwrap();
    let lost = json!([{"what": "container_logs", "job": null, "reason": "removed", "amount": bytes, "unit": "bytes"}]);
    assert_eq!(page["before_books"], lost);
    // How fast it grows is said as long as it does.
    let said = format!("Lost before it came into any books: {bytes} B of container logs (removed");
    let url = format!("http://{}", admin(&weir));
    let output = in_time("the command", command(&["why", "logs/backend", "--url", &url]).output()).await.unwrap();
    let why = String::from_utf8(output.stdout).unwrap();
    assert!(
        why.contains(&said) && why.contains("Nothing is wrong in its books.") && !why.contains("All is well"),
        "{why}"
    );
    let (code, top) = top(&weir, &[]).await;
    assert!(code == Some(0) && top.contains(&said), "{top}");
    eventually("it has a rate, and grows no more", async || {
        let past: Value = serde_json::from_slice(&http::get(weir.metrics, "/api/history").await.body).unwrap();
        let now = json!({"what": "container_logs", "job": null, "reason": "removed", "amount_per_second": 0.0});
        past["before_books"] == json!([now])
    })
    .await;
}

/// What is deleted unread was for a pipeline to deliver, so it changes that pipeline's state.
#[tokio::test]
async fn what_is_deleted_unread_is_told_of_the_pipeline_that_would_have_got_it() {
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    let (weir, _) = loser(pods.path(), &dir, sink.grpc, 5).await;
    let mut said = Value::Null;
    eventually("all of it is told", async || {
        let page: Value = serde_json::from_str(&http::get(weir.health, "/health/pipelines").await.text()).unwrap();
        said = page[0].clone();
        said["amounts"]["before_books"]["items"] == 5
    })
    .await;
    // Nothing else is delivered, so it is all after a while.
    assert!(said["state"] == "some_dropped" || said["state"] == "all_dropped", "{said}");
    assert_eq!((&said["pipeline"], &said["roles"]["agent"]), (&json!("logs/backend"), &json!(true)), "{said}");
    assert_eq!(said["amounts"]["before_books"]["last"], "removed", "a record of each container: {said}");
    let message = said["message"].as_str().unwrap();
    let expected = "At least 5 log records by estimate were lost before they came into any books, the last of them because \
                    files were deleted unread.";
    assert!(message.contains(expected), "{message}");
    Scrape::of(weir.metrics).await.books("backend");
}

/// Of many containers that lose something at once, the log names fifty, and says how many more there were and how much
/// they lost.
#[tokio::test]
async fn the_log_names_only_so_many_containers_that_lose_something() {
    const ALL: usize = 60;
    const NAMED: usize = 50;
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    let (mut weir, bytes) = loser(pods.path(), &dir, sink.grpc, ALL).await;
    weir.signal(rustix::process::Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    let named = weir.all_logged("container logs are lost");
    assert_eq!(named.len(), NAMED, "{named:?}");
    let is_whole =
        |line: &Value| line["pipelines"] == "logs/backend" && line["reason"] == "removed" && line["bytes"] == bytes;
    assert!(named.iter().all(is_whole), "{named:?}");
    let rest = weir.all_logged("more was to be said of containers than the log takes in a minute");
    let [line] = &*rest else { panic!("{rest:?}") };
    assert_eq!((&line["reason"], &line["left_out"]), (&"removed".into(), &(ALL - NAMED).into()), "{line}");
    assert_eq!(line["bytes"], (ALL - NAMED) * bytes, "{line}");
}
