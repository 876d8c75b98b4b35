//! The ports for those who run the gateway: who may see what, and that nobody keeps them from it.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_engine::admin::{Asked, Page, Route, Shown};
use weir_engine::settings::{Admin, PortSecurity};
use weir_engine::{Settings, Text};
use weir_plan::Secret;
use weir_testkit::backend::{Backend, Captured, Say};
use weir_testkit::grpc::OK;
use weir_testkit::sink::closed_port;
use weir_testkit::{eventually, http, payload};

use crate::support::{Gateway, pipeline, settings};

fn with_tokens(tokens: &[&str]) -> PortSecurity {
    PortSecurity { tls: None, tokens: (1..).zip(tokens.iter().map(|token| Secret::new(*token))).collect() }
}

/// A request with a token.
fn with_token(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n").into_bytes()
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
        security: with_tokens(&["good"]),
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

    gateway.engine.secure(&PortSecurity::default(), &with_tokens(&["better"])).unwrap();
    assert_eq!(http::exchange(admin, &with_token("/rejected", "good")).await.status, 401);
    assert_eq!(http::exchange(admin, &with_token("/rejected", "better")).await.status, 200);
    let open = gateway.engine.secure(&PortSecurity::default(), &PortSecurity::default()).unwrap_err();
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
    let admin = Admin { port: Some(0), security: with_tokens(&["good"]), routes, ..Admin::default() };
    let gateway = Gateway::with(vec![pipeline("backend", closed_port().await)], Settings { admin, ..settings() }).await;
    let admin = gateway.at.admin;
    assert_eq!(http::get(admin, "/pods/a").await.status, 401);
    let post = b"POST /pods/a HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer good\r\ncontent-length: 0\r\n\r\n";
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

/// A page that makes documents, until it hears something; how often it was asked.
#[derive(Debug)]
struct Documents(Mutex<mpsc::Receiver<()>>, Arc<AtomicU64>);

impl Page for Documents {
    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, _: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let heard = self.0.lock().unwrap().recv_timeout(Duration::from_secs(60)).is_ok();
        write!(body, "{heard}").ok()?;
        Some(Shown::JSON)
    }
}

/// On a runtime with a single thread, as on a single core.
#[tokio::test]
async fn nobody_waits_while_documents_are_made() {
    let (tells, hears) = mpsc::channel();
    let asked = Arc::<AtomicU64>::default();
    let routes = vec![Route::new("/documents", Documents(Mutex::new(hears), Arc::clone(&asked)))];
    let admin = Admin { port: Some(0), routes, ..Admin::default() };
    let gateway = Gateway::with(vec![pipeline("backend", closed_port().await)], Settings { admin, ..settings() }).await;
    let admin = gateway.at.admin;
    let documents = tokio::spawn(async move { http::get(admin, "/documents").await });
    eventually("it is being made", async || asked.load(Ordering::SeqCst) == 1).await;
    assert_eq!(http::get(admin, "/backends").await.status, 200);
    tells.send(()).unwrap();
    assert_eq!(documents.await.unwrap().text(), "true", "others are answered meanwhile");
}

/// A page of four megabytes, and how often it was asked.
#[derive(Debug, Default)]
struct Large(Arc<AtomicU64>);

impl Page for Large {
    fn show(&self, _: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.0.fetch_add(1, Ordering::SeqCst);
        (0..1024).try_for_each(|_| body.write_all(&[b'x'; 4096])).ok()?;
        Some(Shown::JSON)
    }
}

/// Who does not read what he asked for takes no more than a part of the memory, and no metrics from others.
#[tokio::test]
async fn large_pages_that_nobody_reads_take_little() {
    let large = Large::default();
    let asked = Arc::clone(&large.0);
    let admin = Admin { port: Some(0), routes: vec![Route::new("/large", large)], ..Admin::default() };
    let settings = Settings { admin, memory: 256 << 20, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", closed_port().await)], settings).await;
    let at = gateway.at;
    assert_eq!(http::get(at.admin, "/large").await.body.len(), 4 << 20);
    assert_eq!(asked.load(Ordering::SeqCst), 1, "what has no room in the part for pages is not made anew");
    let mut silent = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(at.admin).await.unwrap();
        stream.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        silent.push((stream, first));
    }
    let served = silent.iter().filter(|(_, first)| first == b"HTTP/1.1 200").count();
    assert!((1..20).contains(&served), "{served} of 32 pages of 4 MiB");
    let used = gateway.scrape().await.get("weir_memory_used_bytes");
    assert!(used <= f64::from(256 << 20) / 8.0, "{used}");
}

/// Clients that ask and do not read, and clients that do not even ask.
#[tokio::test]
async fn nobody_keeps_probes_and_scrapers_from_their_answers() {
    let gateway = Gateway::to(closed_port().await).await;
    let at = gateway.at;
    let mut silent = Vec::new();
    for (port, path) in [(at.health, "/"), (at.metrics, "/metrics"), (at.admin, "/rejected")] {
        for request in [format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"), "GET".to_owned()] {
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
