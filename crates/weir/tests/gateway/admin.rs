//! The ports for those who run the gateway: who may see what, and that nobody keeps them from it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use weir_engine::admin::{Asked, Page, Route, Shown};
use weir_engine::settings::Admin;
use weir_engine::{Settings, Text};
use weir_plan::Secret;

use crate::support::backend::{Backend, Captured, Say};
use crate::support::gateway::{Gateway, closed_port, pipeline, settings, sink};
use crate::support::grpc::{Grpc, OK};
use crate::support::process::{Weir, manifest, run};
use crate::support::{eventually, http, in_time, payload};

/// Of Linux: an end of a pipe is opened only if there is the other.
const O_NONBLOCK: i32 = 0o4000;

/// A request with a token.
fn with_token(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn telemetry_is_shown_on_the_admin_port_alone_and_to_those_with_a_token() {
    let bad = |request: &Captured| payload::ids(&request.message).contains(&13);
    let backend = Backend::scripted(move |_, request: &Captured| match bad(request) {
        true => Say::Code(3, "a bad span", None),
        false => Say::Ok,
    });
    let backend = backend.await;
    let admin = Admin {
        listen: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        port: Some(0),
        tokens: vec![Secret::new("good")],
        routes: Vec::new(),
    };
    let settings = Settings { admin, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", backend.address)], settings).await;
    // It is believed because it takes everything else.
    for first in [1, 21, 41] {
        assert_eq!(gateway.client().await.export(&payload::encoded(first, 20, 10)).await.code, OK);
    }
    gateway.settle().await;
    for port in [gateway.at.metrics, gateway.at.health, gateway.at.grpc, gateway.at.http] {
        let page = http::get(port, "/rejected").await;
        assert!(!page.text().contains("otlp\""), "{port}: {page:?}");
    }
    let admin = (Ipv4Addr::LOCALHOST, gateway.at.admin.port()).into();
    let refused = http::get(admin, "/rejected").await;
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"), "{refused:?}");
    assert_eq!(http::exchange(admin, &with_token("/rejected", "bad")).await.status, 401);
    let page = http::exchange(admin, &with_token("/rejected", "good")).await;
    let refused: serde_json::Value = serde_json::from_slice(&page.body).unwrap();
    assert_eq!((&refused[0]["items"], &refused[0]["pipeline"]), (&1.into(), &"traces/backend".into()), "{refused}");
    assert_eq!(http::exchange(admin, &with_token("/", "good")).await.status, 404);

    gateway.engine.secure_admin(&[Secret::new("better")]).unwrap();
    assert_eq!(http::exchange(admin, &with_token("/rejected", "good")).await.status, 401);
    assert_eq!(http::exchange(admin, &with_token("/rejected", "better")).await.status, 200);
    let open = gateway.engine.secure_admin(&[]).unwrap_err();
    assert!(open.contains("without a token"), "{open}");
    eventually("the page is paid for until it is read", async || {
        gateway.scrape().await.get("weir_memory_used_bytes") == 0.0
    })
    .await;
}

/// A page from outside, and how often it was asked.
#[derive(Debug, Default)]
struct Counting(Arc<AtomicU64>);

impl Page for Counting {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let snapshot = asked.view.snapshot()?;
        let pipeline = &snapshot.pipelines[0].id;
        writeln!(body, "{} {} {pipeline}", asked.path, asked.query.unwrap_or("nothing")).ok()?;
        Some(Shown { status: StatusCode::IM_A_TEAPOT, content_type: "text/tea" })
    }
}

/// A page for which there is never room.
#[derive(Debug)]
struct Endless;

impl Page for Endless {
    fn show(&self, _: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        while body.write_all(&[b'x'; 4096]).is_ok() {}
        None
    }
}

#[tokio::test]
async fn pages_from_outside_are_served_to_those_who_may_see_them() {
    let asked = Arc::<AtomicU64>::default();
    let routes = vec![
        Route::new("/pods/", Counting(Arc::clone(&asked))),
        Route::new("/endless", Endless),
        Route::new("/backends", Counting(Arc::clone(&asked))),
    ];
    let admin = Admin { port: Some(0), tokens: vec![Secret::new("good")], routes, ..Admin::default() };
    let gateway = Gateway::with(vec![pipeline("backend", closed_port().await)], Settings { admin, ..settings() }).await;
    let admin = gateway.at.admin;
    assert_eq!(http::get(admin, "/pods/a").await.status, 401);
    let post = b"POST /pods/a HTTP/1.1\r\nhost: test\r\nauthorization: Bearer good\r\ncontent-length: 0\r\n\r\n";
    let refused = http::exchange(admin, post).await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD"), "{refused:?}");
    assert_eq!(http::exchange(admin, &with_token("/pods", "good")).await.status, 404);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let page = http::exchange(admin, &with_token("/pods/a?all", "good")).await;
    assert_eq!((page.status, page.header("content-type")), (418, "text/tea"), "{page:?}");
    assert_eq!(page.text(), "/pods/a all traces/backend\n");
    let own = http::exchange(admin, &with_token("/backends", "good")).await;
    let own: serde_json::Value = serde_json::from_slice(&own.body).unwrap();
    assert_eq!((&own[0]["pipeline"], &own[0]["signal"]), (&"traces/backend".into(), &"traces".into()), "{own}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let refused = http::exchange(admin, &with_token("/endless", "good")).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert_eq!(gateway.scrape().await.get("weir_memory_used_bytes"), 0.0, "it has given back what it took");
    for port in [gateway.at.metrics, gateway.at.health] {
        assert!(!http::get(port, "/pods/a").await.text().contains("traces/backend"), "only on the admin port");
    }
}

/// Clients that ask and do not read, and clients that do not even ask.
#[tokio::test]
async fn nobody_keeps_probes_and_scrapers_from_their_answers() {
    let gateway = Gateway::to(closed_port().await).await;
    let at = gateway.at;
    let mut silent = Vec::new();
    for (port, path) in [(at.health, "/"), (at.metrics, "/metrics"), (at.admin, "/rejected")] {
        for request in [format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n"), "GET".to_owned()] {
            for _ in 0..100 {
                let mut stream = TcpStream::connect(port).await.unwrap();
                // It may have made place already.
                let _ = stream.write_all(request.as_bytes()).await;
                silent.push(stream);
            }
        }
    }
    for (port, path) in [(at.health, "/"), (at.metrics, "/metrics"), (at.admin, "/rejected")] {
        for _ in 0..10 {
            assert_eq!(http::get(port, path).await.status, 200, "{path}");
        }
    }
    drop(silent);
}

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
