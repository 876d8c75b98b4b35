//! What is shown of backends: with which codes they answer, and how soon they did lately; and the views of `weir top`, which show
//! them in a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};
use weir_plan::Signal;
use weir_testkit::backend::{Backend, Say};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::manifests::{pipeline, plain};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::closed_port;
use weir_testkit::{eventually, http, in_time, payload};

use crate::process::{Weir, command, manifest};

/// Says this to the first request, and takes all others.
async fn recovering(code: u16) -> Backend {
    Backend::scripted(move |number, _| if number == 0 { Say::Code(code, "not now", None) } else { Say::Ok }).await
}

pub(crate) fn admin(weir: &Weir) -> SocketAddr {
    weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap()
}

/// What the page shows of a pipeline.
async fn shown(weir: &Weir, name: &str) -> Value {
    let now: Value = serde_json::from_slice(&http::get(admin(weir), "/api/now").await.body).unwrap();
    let mut lines = now["pipelines"].as_array().unwrap().iter();
    lines.find(|line| line["pipeline"] == name).unwrap().clone()
}

/// `weir top`, once: its exit code, and what it printed.
pub(crate) async fn top(weir: &Weir, arguments: &[&str]) -> (Option<i32>, String) {
    let url = format!("http://{}", admin(weir));
    let arguments = [&["top", "--once", "--interval", "10ms", "--url", &url][..], arguments].concat();
    let output = in_time("the command", command(&arguments).output()).await.unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn answers_are_counted_by_their_codes_and_by_how_soon_they_came() {
    let (http, grpc, gone) = (recovering(503).await, recovering(14).await, closed_port().await);
    let over_http = pipeline(Signal::Traces, "http", &plain("http", http.address));
    let weir = Weir::start(&(over_http + &manifest("grpc", grpc.address) + &manifest("gone", gone)), &[]).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 4, 10)).await.code, OK);
    for (name, codes) in
        [("traces/http", json!({"200": 1, "503": 1})), ("traces/grpc", json!({"OK": 1, "UNAVAILABLE": 1}))]
    {
        eventually("its answers are there", async || shown(&weir, name).await["codes"] == codes).await;
    }
    eventually("both were lately", async || shown(&weir, "traces/http").await["latency_lately"]["requests"] == 2).await;
    eventually("nobody answers", async || shown(&weir, "traces/gone").await["codes"]["none"].as_u64() > Some(0)).await;
    assert_eq!(shown(&weir, "traces/gone").await["codes"].as_object().unwrap().len(), 1);
    eventually("a retry takes a part of its budget", async || {
        let gone = shown(&weir, "traces/gone").await;
        let [left, most] = ["left", "most"].map(|of| gone["retry_budget"][of].as_f64().unwrap());
        let next = gone["next_probe_seconds"].as_f64();
        gone["is_probing"] == true && next.is_some_and(|next| next <= 60.0) && left < most
    })
    .await;
    let answers = shown(&weir, "traces/http").await;
    assert_eq!((&answers["is_probing"], &answers["next_probe_seconds"]), (&json!(false), &Value::Null), "{answers}");
    let scrape = Scrape::of(weir.metrics).await;
    for (name, code) in [("http", "503"), ("http", "200"), ("grpc", "UNAVAILABLE"), ("grpc", "OK")] {
        let labels = format!("pipeline=\"{name}\",signal=\"traces\",code=\"{code}\"");
        assert_eq!(scrape.get(&format!("weir_backend_answers_total{{{labels}}}")), 1.0, "{labels}");
    }
    the_same_is_in_a_terminal(&weir).await;
}

async fn the_same_is_in_a_terminal(weir: &Weir) {
    let (code, text) = top(weir, &["--destinations"]).await;
    assert!(code == Some(0) && text.contains("200 1, 503 1") && text.contains("OK 1, UNAVAILABLE 1"), "{text}");
    let (_, rows) = top(weir, &["--destinations", "--format", "json"]).await;
    let rows: Value = serde_json::from_str(&rows).unwrap();
    assert_eq!((&rows[0]["pipeline"], &rows[0]["backend"]), (&json!("traces/gone"), &json!("unreachable")), "{rows}");
    assert!(rows[0]["is_probing"] == true && rows[0]["next_probe_seconds"].is_number(), "{rows}");
    assert!(rows[0]["retries_left"].as_f64() > Some(100.0), "{rows}");
    let answered = rows.as_array().unwrap().iter().find(|row| row["pipeline"] == "traces/http").unwrap();
    assert_eq!((&answered["codes"]["503"], &answered["answers_lately"]), (&json!(1), &json!(2)), "{rows}");
    assert!(answered["p50_lately_seconds"].as_f64() <= answered["p99_lately_seconds"].as_f64(), "{rows}");

    let (code, text) = top(weir, &["--memory"]).await;
    assert!(
        code == Some(0) && text.contains("payloads") && text.contains("fits now") && text.contains("traces/gone"),
        "{text}"
    );
    let (_, rows) = top(weir, &["--memory", "--format", "json"]).await;
    let rows: Value = serde_json::from_str(&rows).unwrap();
    let admission = &rows[0]["admission"];
    let parts = ["set_aside_bytes", "used_bytes", "free_bytes"].map(|field| admission[field].as_u64().unwrap());
    assert_eq!(
        (parts.iter().sum::<u64>(), &admission["refused"]),
        (rows[0]["total_bytes"].as_u64().unwrap(), &Value::Null)
    );
    let of = |field: &str, name: &str| rows.as_array().unwrap().iter().find(|row| row[field] == name).unwrap().clone();
    assert!(
        of("part", "payloads")["bytes"].as_u64() > of("pipeline", "traces/gone")["memory_bytes"].as_u64(),
        "{rows}"
    );
    assert!(of("pipeline", "traces/gone")["memory_bytes"].as_u64() > Some(0), "{rows}");
    assert_eq!(top(weir, &["--memory", "--destinations"]).await.0, Some(2), "one view at a time");
}

/// A terminal, with what was written to it.
struct Terminal {
    /// The end of who sits before it.
    keyboard: File,
    /// The end of programs.
    side: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn new() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let end = openpt(flags).unwrap();
        unlockpt(&end).unwrap();
        tcsetwinsize(&end, Winsize { ws_row: 40, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let side = ioctl_tiocgptpeer(&end, flags).unwrap();
        let (keyboard, written) = (File::from(end), Arc::<Mutex<Vec<u8>>>::default());
        let (mut screen, sink) = (keyboard.try_clone().unwrap(), Arc::clone(&written));
        // Ends with the last end of programs.
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { keyboard, side, written }
    }

    /// Waits for words that come after those that were waited for before.
    async fn shows(&self, words: &str) {
        eventually(words, async || {
            let mut written = self.written.lock().unwrap();
            let text = String::from_utf8_lossy(&written).into_owned();
            let is_there = text.contains(words);
            if is_there {
                written.clear();
            }
            is_there
        })
        .await;
    }

    fn press(&mut self, key: &[u8]) {
        self.keyboard.write_all(key).unwrap();
    }
}

#[tokio::test]
async fn keys_switch_between_views_and_leave_the_terminal_as_it_was() {
    let backend = Backend::start().await;
    let weir = Weir::start(&manifest("shop", backend.address), &[]).await;
    let mut terminal = Terminal::new();
    let before = tcgetattr(&terminal.side).unwrap().local_modes;
    let url = format!("http://{}", admin(&weir));
    let end = || terminal.side.try_clone().unwrap();
    let mut top = command(&["top", "--interval", "20ms", "--url", &url]);
    let mut child = top.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop(top);
    terminal.shows("OUT B/S").await;
    terminal.shows("q ends").await;
    for (key, words) in [
        (b"d", "99% IN"),
        (b"m", "IN USE"),
        (b"t", "BYTES/ITEM"),
        (b"c", "BEFORE"),
        (b"l", "STUCK FOR"),
        (b"p", "OUT B/S"),
    ] {
        terminal.press(key);
        terminal.shows(words).await;
    }
    terminal.press(b"q");
    assert_eq!(in_time("the end", child.wait()).await.unwrap().code(), Some(0));
    assert_eq!(tcgetattr(&terminal.side).unwrap().local_modes, before);
}
