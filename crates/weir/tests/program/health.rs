//! What `/health/pipelines` says of pipelines whose backends fail in the ways in which backends do: the states that become
//! `TelemetryFlowHealthy` on a cluster, and that nothing is told of pipelines that are well.
//!
//! Looks are twice a second here, ten times as often as usual, so everything is told ten times as fast. With LOOK_EVERY=5s
//! they are as usual, and what is printed are the times of docs/self-monitor.md.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use weir_loadtest::sink::Sink;
use weir_plan::Signal;
use weir_testkit::backend::{Backend, Say};
use weir_testkit::data_dir::DataDir;
use weir_testkit::http::{self, PROTOBUF};
use weir_testkit::manifests::{pipeline, plain, with_spec};
use weir_testkit::metrics::Scrape;
use weir_testkit::signals::numbered;
use weir_testkit::sink::{closed_port, faults, sink};
use weir_testkit::{eventually, payload};
use weir_units::parse_duration;

use crate::destinations::top;
use crate::fluent_bit::{Node, pod};
use crate::process::Weir;
use crate::scraping::{Target, every, scraping};

static LOOKS: LazyLock<[&str; 2]> = LazyLock::new(looks);

#[expect(clippy::disallowed_methods, reason = "whoever measures says how often")]
fn looks() -> [&'static str; 2] {
    ["--look-every", std::env::var("LOOK_EVERY").map_or("500ms", |every| every.leak())]
}
/// Items in a request, and the pause after each.
const ITEMS: u64 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// Something that goes on until it is dropped.
struct Load(Vec<JoinHandle<()>>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Load {
    /// Clients push a signal; what they are answered is not the point.
    fn push(weir: &Weir, signal: Signal) -> Self {
        let (address, path) = (weir.http, signal.http_path());
        Self(vec![tokio::spawn(async move {
            for number in 0.. {
                let body = numbered(signal, number * ITEMS..(number + 1) * ITEMS);
                drop(http::post_to(address, path, PROTOBUF, &body).await);
                sleep(PAUSE).await;
            }
        })])
    }

    /// A container prints.
    fn print(node: &Arc<Node>) -> Self {
        let node = Arc::clone(node);
        Self(vec![tokio::spawn(async move {
            let lines = vec!["a line that somebody has printed"; 100];
            loop {
                node.writes(&lines);
                sleep(PAUSE).await;
            }
        })])
    }

    /// No load at all: notes for how many milliseconds this process stood still at most, and its sinks with it.
    fn note_pauses(longest: &Arc<AtomicU64>) -> Self {
        let longest = Arc::clone(longest);
        Self(vec![tokio::spawn(async move {
            loop {
                let began = Instant::now();
                sleep(PAUSE).await;
                longest.fetch_max(u64::try_from(began.elapsed().as_millis()).unwrap(), Ordering::SeqCst);
            }
        })])
    }
}

/// What is said of the only pipeline.
async fn said(weir: &Weir) -> Value {
    let page = http::get(weir.health, "/health/pipelines").await;
    assert_eq!((page.status, page.header("content-type")), (200, "application/json"));
    let page: Value = serde_json::from_str(&page.text()).unwrap();
    page.get(0).cloned().unwrap_or_default()
}

/// What changed, the oldest first.
async fn changes(weir: &Weir) -> Vec<Value> {
    serde_json::from_str(&http::get(weir.health, "/health/changes").await.text()).unwrap()
}

async fn becomes(weir: &Weir, state: &str) -> Value {
    becomes_one_of(weir, &[state]).await
}

/// Prints how long it took.
async fn becomes_one_of(weir: &Weir, states: &[&str]) -> Value {
    let (mut last, began) = (Value::Null, Instant::now());
    eventually(&format!("it is {}", states.join(" or ")), async || {
        last = said(weir).await;
        states.iter().any(|state| last["state"] == *state)
    })
    .await;
    println!(
        "{}: {} after {:.1} s",
        std::thread::current().name().unwrap_or_default(),
        last["state"],
        began.elapsed().as_secs_f64()
    );
    last
}

/// Changes of the state, as they were logged.
fn logged(weir: &Weir) -> Vec<Value> {
    let begins = weir.all_logged("data does not flow as it should").into_iter();
    begins.map(|line| line["state"].clone()).collect()
}

/// The states that may be passed on the way to another.
fn passed_only(weir: &Weir, states: &[&str]) {
    let logged = logged(weir);
    assert!(logged.iter().all(|state| states.contains(&state.as_str().unwrap())), "{logged:?}");
}

fn output(signal: Signal, sink: &Sink) -> String {
    pipeline(signal, "backend", &plain("grpc", sink.grpc))
}

/// A pipeline of each signal, to which clients push and containers print; one that scrapes, and one as Fluent Bit has it.
fn of_each_kind(sink: &Sink, urls: &[String]) -> String {
    let scraping = scraping("scraped", sink.grpc, urls).replace("{prometheus", "{otlp: {enabled: false}, prometheus");
    let pushed = Signal::ALL.map(|signal| output(signal, sink)).concat();
    [pushed, scraping, every("1s"), "---\n".to_owned(), http_pipeline(sink.http)].concat()
}

/// Everything is well for 36 looks, which are three minutes by default: what clients push, what containers print, and what
/// is scraped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_pipelines_that_are_well_nothing_is_told() {
    for _ in 0..3 {
        if nothing_is_told_unless_the_sink_stands_still().await {
            return;
        }
    }
    weir_testkit::warn(
        "this machine is too busy for sinks that always answer: of pipelines that are well nothing is known",
    );
}

/// False, and nothing is known, if this process stood still for so long that the sink was like one that is ill.
async fn nothing_is_told_unless_the_sink_stands_still() -> bool {
    let (look, longest_pause) = (parse_duration(LOOKS[1]).unwrap(), Arc::default());
    let _pauses = Load::note_pauses(&longest_pause);
    let (dir, sink, node) = (DataDir::new(), sink("{}").await, Arc::new(Node::new()));
    let (_target, urls) = targets().await;
    let arguments = [&LOOKS[..], &["--data-dir", dir.arg(), "--pod-logs", node.pods()]].concat();
    let weir = Weir::start(&of_each_kind(&sink, &urls), &arguments).await;
    let mut load: Vec<_> = Signal::ALL.iter().map(|signal| Load::push(&weir, *signal)).collect();
    load.push(Load::print(&node));
    let expected = ["traces/backend", "metrics/backend", "metrics/scraped", "logs/backend", "logs/http"];
    eventually("all of them deliver", async || {
        let scrape = Scrape::of(weir.metrics).await;
        expected.iter().all(|id| {
            let (signal, name) = id.split_once('/').unwrap();
            scrape.sum("weir_pipeline_delivered_items_total", &format!("pipeline=\"{name}\",signal=\"{signal}\"")) > 0.0
        })
    })
    .await;
    sleep(look * 36).await;
    let page = http::get(weir.health, "/health/pipelines").await;
    let page: Vec<Value> = serde_json::from_str(&page.text()).unwrap();
    let (logged, changes) = (logged(&weir), changes(&weir).await);
    if u128::from(longest_pause.load(Ordering::SeqCst)) > 2 * look.as_millis() {
        return false;
    }
    let states: Vec<_> =
        page.iter().map(|of| (of["pipeline"].as_str().unwrap(), of["state"].as_str().unwrap())).collect();
    assert_eq!(states, expected.map(|id| (id, "healthy")));
    let roles = |gateway: bool, agent: bool| json!({"gateway": gateway, "agent": agent});
    let said: Vec<_> = page.iter().map(|of| of["roles"].clone()).collect();
    let [traces, _, scraped, logs, fluent_bit] = &said[..] else { panic!("{said:?}") };
    assert_eq!([traces, scraped], [&roles(true, false), &roles(false, true)]);
    assert_eq!([logs, fluent_bit], [&roles(true, true), &roles(false, true)]);
    assert_eq!((logged, changes), (Vec::<Value>::new(), Vec::new()));
    true
}

/// Of many pipelines with one backend that is away, the log names fifty, and says how many more there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_names_only_so_many_pipelines_whose_data_does_not_flow() {
    const ALL: usize = 60;
    const NAMED: usize = 50;
    let (dir, away) = (DataDir::new(), closed_port().await);
    let of = |number: usize| pipeline(Signal::Traces, &format!("p{number}"), &plain("grpc", away));
    let manifests: String = (0..ALL).map(of).collect();
    let options = ["--data-dir", dir.arg(), "--memory", "256MiB", "--spill-after", "10ms", "--drain-timeout", "100ms"];
    let mut weir = Weir::start(&manifests, &[&LOOKS[..], &options].concat()).await;
    let body = numbered(Signal::Traces, 0..ITEMS);
    assert_eq!(http::post_to(weir.http, Signal::Traces.http_path(), PROTOBUF, &body).await.status, 200);
    eventually("nothing is delivered", async || {
        let page = http::get(weir.health, "/health/pipelines").await;
        let page: Vec<Value> = serde_json::from_str(&page.text()).unwrap();
        page.iter().filter(|of| of["state"] == "nothing_delivered").count() == ALL
    })
    .await;
    weir.signal(rustix::process::Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    assert_eq!(logged(&weir), vec![json!("nothing_delivered"); NAMED]);
    assert_eq!(weir.all_logged("backend cannot be reached; data is kept and tried again").len(), NAMED);
    let rest = weir.all_logged("more was to be said of pipelines than the log takes in a minute");
    for reason in ["nothing_delivered", "unreachable"] {
        let of = rest.iter().filter(|line| line["reason"] == reason);
        assert_eq!(of.map(|line| line["left_out"].clone()).collect::<Vec<_>>(), [json!(ALL - NAMED)], "{rest:?}");
    }
}

/// A backend that refuses three of ten requests with 400, and then none.
async fn refuses_some(signal: Signal, weir: &Weir, sink: &Sink) -> Value {
    becomes(weir, "healthy").await;
    sink.set_faults(faults(r#"{"fault": ["400:30"]}"#));
    let said = becomes(weir, "some_dropped").await;
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("2026-") || message.contains("since 20"), "{message}");
    assert!(message.contains("refuses") && !said["backend"].as_str().unwrap().is_empty(), "{said}");
    assert_eq!(said["pipeline"], format!("{}/backend", signal.name()));
    sink.set_faults(faults("{}"));
    becomes(weir, "healthy").await;
    assert_eq!(weir.all_logged("data flows again").len(), 1);
    passed_only(weir, &["some_dropped"]);
    let changes = changes(weir).await;
    let states: Vec<_> = changes.iter().map(|change| [change["before"].clone(), change["state"].clone()]).collect();
    assert_eq!(json!(states), json!([["healthy", "some_dropped"], ["some_dropped", "healthy"]]));
    assert!(changes[0]["message"].as_str().unwrap().contains("refuses") && changes[1].get("message").is_none());
    let (code, rows) = top(weir, &["--changes", "--format", "json"]).await;
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    assert_eq!((code, rows), (Some(0), changes.into_iter().rev().collect::<Vec<_>>()), "the newest first");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_refuses_some_of_what_clients_push() {
    for signal in Signal::ALL {
        let (dir, sink) = (DataDir::new(), sink("{}").await);
        let arguments = [&LOOKS[..], &["--data-dir", dir.arg(), "--roles", "gateway"]].concat();
        let weir = Weir::start(&output(signal, &sink), &arguments).await;
        let _load = Load::push(&weir, signal);
        let said = refuses_some(signal, &weir, &sink).await;
        assert_eq!(said["roles"], json!({"gateway": true, "agent": false}));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_refuses_some_of_what_containers_print() {
    let (dir, sink, node) = (DataDir::new(), sink("{}").await, Arc::new(Node::new()));
    let arguments = [&LOOKS[..], &["--data-dir", dir.arg(), "--pod-logs", node.pods()]].concat();
    let weir = Weir::start(&(output(Signal::Logs, &sink) + &pod()), &arguments).await;
    let _load = Load::print(&node);
    let said = refuses_some(Signal::Logs, &weir, &sink).await;
    assert_eq!(said["roles"], json!({"gateway": false, "agent": true}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_refuses_all_that_containers_print() {
    let (dir, sink, node) = (DataDir::new(), sink(r#"{"fault": ["400:100"]}"#).await, Arc::new(Node::new()));
    let arguments = [&LOOKS[..], &["--data-dir", dir.arg(), "--pod-logs", node.pods()]].concat();
    let weir = Weir::start(&(output(Signal::Logs, &sink) + &pod()), &arguments).await;
    let _load = Load::print(&node);
    let said = becomes(&weir, "all_dropped").await;
    assert_eq!(said["roles"], json!({"gateway": false, "agent": true}));
    sink.set_faults(faults("{}"));
    becomes(&weir, "healthy").await;
    passed_only(&weir, &["some_dropped", "nothing_delivered", "all_dropped"]);
}

/// Ten targets that change all the time: where they are, and their URLs.
async fn targets() -> (Target, Vec<String>) {
    let page = |number: usize| {
        let lines = (0..300).map(|series| format!("things{{series=\"{series}\"}} {}\n", number + series));
        format!("# TYPE things gauge\n{}", lines.collect::<String>())
    };
    let target = Target::start(None, page).await;
    let urls = (0..10).map(|number| format!("{}?n={number}", target.url("http"))).collect();
    (target, urls)
}

/// A pipeline for which they are scraped once a second.
async fn scraped(sink: &Sink) -> (Weir, DataDir, Target) {
    let (dir, (target, urls)) = (DataDir::new(), targets().await);
    let manifests = scraping("backend", sink.grpc, &urls) + &every("1s");
    let arguments = [&LOOKS[..], &["--data-dir", dir.arg()]].concat();
    (Weir::start(&manifests, &arguments).await, dir, target)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_refuses_some_of_what_is_scraped() {
    let sink = sink("{}").await;
    let (weir, _dir, _target) = scraped(&sink).await;
    let said = refuses_some(Signal::Metrics, &weir, &sink).await;
    assert_eq!(said["roles"], json!({"gateway": false, "agent": true}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_refuses_all_that_is_scraped() {
    let sink = sink(r#"{"fault": ["grpc=3:100"]}"#).await;
    let (weir, _dir, _target) = scraped(&sink).await;
    let said = becomes(&weir, "all_dropped").await;
    assert_eq!(said["roles"], json!({"gateway": false, "agent": true}));
    sink.set_faults(faults("{}"));
    becomes(&weir, "healthy").await;
}

/// A target whose page is too large for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_too_large() {
    let page = |number: usize| {
        let series = if (10..30).contains(&number) { 50_001 } else { 300 };
        let lines = (0..series).map(|series| format!("things{{series=\"{series}\"}} {}\n", number + series));
        format!("# TYPE things gauge\n{}", lines.collect::<String>())
    };
    let (dir, sink, target) = (DataDir::new(), sink("{}").await, Target::start(None, page).await);
    let manifests = scraping("backend", sink.grpc, &[target.url("http")]) + &every("1s");
    let weir = Weir::start(&manifests, &[&LOOKS[..], &["--data-dir", dir.arg()]].concat()).await;
    let said = becomes_one_of(&weir, &["some_dropped", "all_dropped"]).await;
    assert_eq!(said["amounts"]["before_books"]["last"], "too_large", "{said}");
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("data points by estimate were lost before they came into any books"), "{message}");
    becomes(&weir, "healthy").await;
}

/// A backend that refuses everything from the first request on, and then nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_refuses_everything() {
    for signal in Signal::ALL {
        let (dir, sink) = (DataDir::new(), sink(r#"{"fault": ["400:100"]}"#).await);
        let arguments = [&LOOKS[..], &["--data-dir", dir.arg(), "--spill-after", "10ms"]].concat();
        let weir = Weir::start(&output(signal, &sink), &arguments).await;
        let _load = Load::push(&weir, signal);
        let said = becomes(&weir, "all_dropped").await;
        let message = said["message"].as_str().unwrap();
        assert!(message.contains("Nothing is lost") && message.contains("are kept until they are 10 GiB"), "{message}");
        assert!(message.contains("The backend: INVALID_ARGUMENT") || message.contains("400"), "{message}");
        assert!(said["kept"]["items"].as_u64() > Some(0) && said["amounts"]["delivered"] == 0, "{said}");
        sink.set_faults(faults("{}"));
        becomes(&weir, "healthy").await;
        // The first look may see little, and the last ones both.
        passed_only(&weir, &["nothing_delivered", "some_dropped", "all_dropped"]);
    }
}

/// An outage loses nothing, and says how long it may last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_is_away() {
    let (dir, sink) = (DataDir::new(), sink("{}").await);
    let arguments = [&LOOKS[..], &["--data-dir", dir.arg(), "--spill-after", "10ms"]].concat();
    let weir = Weir::start(&output(Signal::Traces, &sink), &arguments).await;
    let _load = Load::push(&weir, Signal::Traces);
    becomes(&weir, "healthy").await;
    sink.set_faults(faults(r#"{"outage": ["0s..1000s"]}"#));
    let said = becomes(&weir, "nothing_delivered").await;
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("at this rate in") && message.contains("Mend the backend"), "{message}");
    sink.set_faults(faults("{}"));
    becomes(&weir, "healthy").await;
    passed_only(&weir, &["some_dropped", "buffer_filling", "nothing_delivered"]);
}

/// It answers, and takes nothing: the same, in time, though it asks for another attempt each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_asks_for_another_attempt_each_time() {
    for fault in ["503:100", "429:100", "grpc=14:100"] {
        let (dir, sink) = (DataDir::new(), sink("{}").await);
        let arguments = [&LOOKS[..], &["--data-dir", dir.arg(), "--spill-after", "10ms"]].concat();
        let weir = Weir::start(&output(Signal::Traces, &sink), &arguments).await;
        let _load = Load::push(&weir, Signal::Traces);
        becomes(&weir, "healthy").await;
        eventually("something is taken", async || delivered(&weir).await > 0.0).await;
        sink.set_faults(faults(&format!(r#"{{"fault": ["{fault}"]}}"#)));
        let said = becomes(&weir, "nothing_delivered").await;
        let message = said["message"].as_str().unwrap();
        assert!(message.starts_with("No spans were delivered since"), "{fault}: {message}");
        assert!(message.contains("it answers, and is overloaded or not ready"), "{fault}: {message}");
        assert_eq!(said["may_be_slow"], true, "{fault}: {said}");
        sink.set_faults(faults("{}"));
        becomes(&weir, "healthy").await;
        passed_only(&weir, &["nothing_delivered", "buffer_filling"]);
    }
}

/// Spans that the backend has taken.
async fn delivered(weir: &Weir) -> f64 {
    Scrape::of(weir.metrics).await.sum("weir_pipeline_delivered_items_total", "pipeline=\"backend\",signal=\"traces\"")
}

/// A pipeline to an HTTP server, as Fluent Bit has it.
fn http_pipeline(server: SocketAddr) -> String {
    let server = json!({
        "host": {"value": server.ip().to_string()}, "port": server.port().to_string(), "tls": {"insecure": true},
    });
    with_spec(Signal::Logs, "http", &json!({"output": {"http": server}})) + &pod()
}

async fn with_http(server: SocketAddr) -> (Weir, Load, DataDir, Arc<Node>) {
    let (dir, node) = (DataDir::new(), Arc::new(Node::new()));
    let arguments =
        [&LOOKS[..], &["--data-dir", dir.arg(), "--spill-after", "10ms", "--pod-logs", node.pods()]].concat();
    let weir = Weir::start(&http_pipeline(server), &arguments).await;
    let load = Load::print(&node);
    (weir, load, dir, node)
}

/// It takes one request of fifty, and asks to wait with the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_hardly_anything() {
    let is_busy = Arc::new(AtomicBool::new(false));
    let busy = Arc::clone(&is_busy);
    let takes = move |number: usize| !busy.load(Ordering::SeqCst) || number % 50 == 49;
    let server =
        Backend::scripted(move |number, _| if takes(number) { Say::Ok } else { Say::Code(429, "too many", None) });
    let server = server.await;
    let (weir, _load, _dir, _node) = with_http(server.address).await;
    becomes(&weir, "healthy").await;
    eventually("something is taken", async || server.captured().iter().any(|request| request.taken)).await;
    is_busy.store(true, Ordering::SeqCst);
    // As long as nobody knows whether it takes anything, the published reason is that the buffer fills up, too.
    let said = becomes_one_of(&weir, &["nothing_delivered", "buffer_filling"]).await;
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("429") && message.contains("Nothing is lost"), "{message}");
    assert!(said["state"] == "buffer_filling" || said["may_be_slow"] == true, "{said}");
    is_busy.store(false, Ordering::SeqCst);
    becomes(&weir, "healthy").await;
    passed_only(&weir, &["buffer_filling", "nothing_delivered"]);
}

/// It refuses three of ten requests, in words that ask for no other attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_some() {
    let is_ill = Arc::new(AtomicBool::new(false));
    let ill = Arc::clone(&is_ill);
    let refuses = move |number: usize| ill.load(Ordering::SeqCst) && number % 10 < 3;
    let server =
        Backend::scripted(move |number, _| if refuses(number) { Say::Code(400, "not this", None) } else { Say::Ok });
    let server = server.await;
    let (weir, _load, _dir, _node) = with_http(server.address).await;
    becomes(&weir, "healthy").await;
    is_ill.store(true, Ordering::SeqCst);
    let said = becomes(&weir, "some_dropped").await;
    assert!(said["backend"].as_str().unwrap().contains("not this"), "{said}");
    assert_eq!(said["roles"], json!({"gateway": false, "agent": true}));
    is_ill.store(false, Ordering::SeqCst);
    becomes(&weir, "healthy").await;
    passed_only(&weir, &["some_dropped"]);
}

/// It closes every connection, and then none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_connections() {
    let (server, is_well) = (Backend::start().await, Arc::new(AtomicBool::new(false)));
    let (behind, well) = (server.address, Arc::clone(&is_well));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _door = Load(vec![tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            if well.load(Ordering::SeqCst) {
                tokio::spawn(pass_on(client, behind));
            }
        }
    })]);
    let (weir, _load, _dir, _node) = with_http(address).await;
    let said = becomes(&weir, "nothing_delivered").await;
    assert_eq!(said["roles"], json!({"gateway": false, "agent": true}));
    passed_only(&weir, &["nothing_delivered"]);
    assert!(server.captured().is_empty());
    is_well.store(true, Ordering::SeqCst);
    becomes(&weir, "healthy").await;
    assert!(server.captured().iter().any(|request| request.taken));
}

/// What comes over a connection goes to a server, and its answers go back.
async fn pass_on(mut client: TcpStream, server: SocketAddr) {
    let mut server = TcpStream::connect(server).await.unwrap();
    // It ends with the process in front of it.
    drop(copy_bidirectional(&mut client, &mut server).await);
}

/// It was well, and then refuses everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_everything() {
    let is_ill = Arc::new(AtomicBool::new(false));
    let ill = Arc::clone(&is_ill);
    let server =
        Backend::scripted(move |_, _| if ill.load(Ordering::SeqCst) { Say::Code(400, "no", None) } else { Say::Ok });
    let server = server.await;
    let (weir, _load, _dir, _node) = with_http(server.address).await;
    eventually("something is taken", async || server.captured().iter().any(|request| request.taken)).await;
    becomes(&weir, "healthy").await;
    is_ill.store(true, Ordering::SeqCst);
    becomes(&weir, "all_dropped").await;
    is_ill.store(false, Ordering::SeqCst);
    becomes(&weir, "healthy").await;
    passed_only(&weir, &["some_dropped", "all_dropped"]);
}

/// Many clients with large requests, a backend that takes its time, and little memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_turned_away() {
    let sink = sink(r#"{"delay": "300ms:100"}"#).await;
    let arguments = [&LOOKS[..], &["--memory", "32MiB"]].concat();
    let weir = Weir::start(&output(Signal::Traces, &sink), &arguments).await;
    let address = weir.http;
    let client = |number: u64| {
        tokio::spawn(async move {
            let body = payload::encoded(1 + number * ITEMS, ITEMS, 20_000);
            loop {
                drop(http::post(address, PROTOBUF, None, &body).await);
            }
        })
    };
    let load = Load((0..24).map(client).collect());
    let said = becomes(&weir, "throttling").await;
    assert!(said["amounts"]["turned_away"].as_u64() > Some(0), "{said}");
    let by_reason = said["amounts"]["turned_away_for"].as_object().unwrap();
    let all: u64 = by_reason.values().filter_map(Value::as_u64).sum();
    assert_eq!(said["amounts"]["turned_away"], all, "{said}");
    let why = match by_reason.iter().max_by_key(|(_, requests)| requests.as_u64()).unwrap().0.as_str() {
        "no_memory" => "for lack of memory",
        "pipelines_full" => "because a pipeline has no room for more",
        other => panic!("{other}: {said}"),
    };
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("asked to come again") && message.contains(why), "{message}");
    drop(load);
    becomes(&weir, "healthy").await;
}
