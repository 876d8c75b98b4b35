//! Answers that are not about the data never cost data: credentials, routes, proxies, throttling, pages for people, and
//! backends that refuse everything in whatever words.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use weir_engine::Settings;
use weir_engine::settings::MEMORY_MIN;
use weir_plan::{Input, Pipeline, Protocol};
use weir_testkit::backend::{Backend, Captured, Say};
use weir_testkit::clients::{SPANS, ids, send_all, send_singly};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::OK;
use weir_testkit::sink::sink;
use weir_testkit::{eventually, http, payload};

use crate::support::{Gateway, on_disk, output, pipeline, settings};

const REQUESTS: u64 = 12;

/// A backend that says this to everything while it is `away`.
async fn refusing(away: &Arc<AtomicBool>, said: Say) -> Backend {
    let away = Arc::clone(away);
    Backend::scripted(move |_, _| if away.load(Ordering::SeqCst) { said.clone() } else { Say::Ok }).await
}

async fn gateway(dir: &DataDir, backend: SocketAddr, protocol: Protocol) -> Gateway {
    let settings = Settings { spill_after: Duration::from_millis(20), ..on_disk(dir).await };
    let pipeline = Pipeline { output: output(backend, protocol), ..pipeline("backend", backend) };
    Gateway::with(vec![pipeline], settings).await
}

/// The state that the metrics show for the backend, and the code beside it.
async fn state(gateway: &Gateway) -> (String, String) {
    let scrape = gateway.scrape().await;
    let rows = scrape.rows("weir_pipeline_backend_state");
    let (labels, _) = rows.into_iter().find(|(_, value)| *value == 1.0).unwrap();
    let label = |name: &str| {
        let start = labels.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
        labels[start..].split('"').next().unwrap().to_owned()
    };
    (label("state"), label("code"))
}

/// While the backend answers everything with `said`, nothing is given up, and it sees few requests; when it takes data
/// again it gets everything.
async fn costs_nothing(protocol: Protocol, said: Say, named: &str, code: String) {
    let (dir, away) = (DataDir::new(), Arc::new(AtomicBool::new(true)));
    let backend = refusing(&away, said.clone()).await;
    let gateway = gateway(&dir, backend.address, protocol).await;
    send_all(gateway.at.grpc, 0..REQUESTS, 100).await;
    let expected = (named.to_owned(), code);
    eventually("it is seen", async || state(&gateway).await == expected).await;
    eventually("it is asked again", async || backend.captured().len() > 4).await;
    let page = http::get(gateway.at.admin, "/backends").await;
    let backends: serde_json::Value = serde_json::from_slice(&page.body).unwrap();
    let shown = [&backends[0]["state"], &backends[0]["code"]].map(|value| value.as_str().unwrap());
    assert_eq!(shown, [expected.0.as_str(), expected.1.as_str()], "{backends}");
    assert_eq!(backends[0]["pending_items"], REQUESTS * SPANS, "{backends}");
    assert_eq!(backends[0]["pipeline"], "traces/backend", "as it is called everywhere");
    let books = gateway.books("backend");
    assert_eq!(books.pending, REQUESTS * SPANS, "{protocol:?} {said:?}: {books:?}");
    assert!(books.rejected.is_empty() && books.dropped.is_empty() && books.delivered == 0, "{said:?}: {books:?}");
    let seen = backend.captured().len();
    assert!(seen <= 60, "{protocol:?} {said:?}: {seen} requests");
    away.store(false, Ordering::SeqCst);
    gateway.settle().await;
    assert_eq!(backend.taken_ids(), ids(0..REQUESTS), "{protocol:?} {said:?}");
    assert_eq!(gateway.books("backend").delivered, REQUESTS * SPANS);
    assert_eq!(state(&gateway).await.0, "ok");
    dir.becomes_empty().await;
}

#[tokio::test]
async fn http_answers_about_access_cost_nothing() {
    let codes = [301, 307, 401, 403, 404, 407, 405, 415];
    join_all(codes.map(|code| costs_nothing(Protocol::Http, Say::Code(code, "no", None), "refused", code.to_string())))
        .await;
}

#[tokio::test]
async fn grpc_answers_about_access_cost_nothing() {
    let names = [(5, "NOT_FOUND"), (7, "PERMISSION_DENIED"), (12, "UNIMPLEMENTED"), (16, "UNAUTHENTICATED")];
    let names = names.map(|(code, name)| (code, name.to_owned()));
    let codes = [301, 400, 401, 403, 404, 407].map(|code: u16| (code, code.to_string()));
    let answers = names.into_iter().chain(codes);
    join_all(answers.map(|(code, name)| costs_nothing(Protocol::Grpc, Say::Code(code, "no", None), "refused", name)))
        .await;
}

#[tokio::test]
async fn refusals_of_everything_cost_nothing() {
    let over_http = [400, 422, 413].map(|code| {
        costs_nothing(Protocol::Http, Say::Code(code, "a header is missing", None), "refused", code.to_string())
    });
    let too_large = "grpc: received message larger than max (5242880 vs. 4194304)";
    let answers = [(3, "a header is missing", "INVALID_ARGUMENT"), (8, too_large, "too_large")];
    let over_grpc = answers.map(|(code, text, name)| {
        costs_nothing(Protocol::Grpc, Say::Code(code, text, None), "refused", name.to_owned())
    });
    join_all(over_http).await;
    join_all(over_grpc).await;
}

#[tokio::test]
async fn failures_of_the_backend_cost_nothing() {
    let over_http = [500, 501, 505].map(|code| (Protocol::Http, code));
    let over_grpc = [2, 6, 9, 13, 99].map(|code| (Protocol::Grpc, code));
    let answers = over_http.into_iter().chain(over_grpc);
    let cases = answers.map(|(protocol, code)| {
        costs_nothing(protocol, Say::Code(code, "out of order", None), "failing", String::new())
    });
    join_all(cases).await;
    // A status of a success that comes before what was found out later.
    let early =
        [Some("14"), None].map(|status| costs_nothing(Protocol::Grpc, Say::Early(status), "failing", String::new()));
    join_all(early).await;
}

#[tokio::test]
async fn throttling_costs_nothing_whatever_its_words() {
    let texts =
        ["request rate is too large, slow down", "message rate too large", "5000 requests are too large a rate"];
    join_all(texts.map(|text| costs_nothing(Protocol::Grpc, Say::Code(8, text, None), "failing", String::new()))).await;
}

#[tokio::test]
async fn successes_that_are_no_answers_of_otlp_cost_nothing() {
    let page = "<html><body>Please log in</body></html>";
    let over_http = [
        Say::Html(page),
        Say::Html(""),
        Say::Raw("text/plain", b"OK"),
        Say::Raw("application/x-protobuf", page.as_bytes()),
        Say::Raw("application/json", page.as_bytes()),
        Say::Raw("application/json", b"[]"),
        Say::Raw("application/json", br#"{"error": "please log in"}"#),
        Say::Raw("application/json", br#"{"code": 16, "message": "unauthenticated"}"#),
        Say::Raw("application/octet-stream", b"Error"),
        Say::Raw("application/grpc", b""),
    ];
    let over_grpc = [
        Say::Html(page),
        Say::Raw("application/grpc", b""),
        Say::Raw("application/grpc", b"\0\0\0\0\x05ab"),
        Say::Raw("application/grpc", b"\0\0\0\0\x03\xff\xff\xff"),
        Say::Raw("text/html", b"\0\0\0\0\0"),
    ];
    let over_http = over_http.into_iter().map(|said| (Protocol::Http, said));
    let answers = over_http.chain(over_grpc.into_iter().map(|said| (Protocol::Grpc, said)));
    join_all(answers.map(|(protocol, said)| costs_nothing(protocol, said, "refused", "not_otlp".to_owned()))).await;
}

/// It speaks OTLP, has read the request, and says that nothing of it is to be sent again: that is believed and shown.
#[tokio::test]
async fn a_success_that_rejects_everything_is_shown() {
    let (dir, away) = (DataDir::new(), Arc::new(AtomicBool::new(true)));
    let backend = refusing(&away, Say::Partial(10)).await;
    let gateway = gateway(&dir, backend.address, Protocol::Grpc).await;
    send_singly(gateway.at.grpc, 0..1, 100).await;
    gateway.settle().await;
    assert_eq!(gateway.books("backend").rejected["partial_success"], SPANS);
    assert_eq!(state(&gateway).await, ("refused".into(), "partial_success".into()));
    away.store(false, Ordering::SeqCst);
    send_singly(gateway.at.grpc, 1..2, 100).await;
    gateway.settle().await;
    assert_eq!(state(&gateway).await.0, "ok");
}

/// What a backend fails at again and again while it takes everything else is found, and the rest is delivered. It is only
/// given up if the answer may mean it.
#[tokio::test]
async fn what_alone_is_refused_again_and_again_does_not_keep_its_neighbours() {
    const BAD: u64 = 57;
    for (protocol, code, rejected) in
        [(Protocol::Http, 500, Some("500")), (Protocol::Grpc, 13, Some("INTERNAL")), (Protocol::Http, 403, None)]
    {
        let script = move |_, request: &Captured| {
            if payload::ids(&request.message).contains(&BAD) { Say::Code(code, "no", None) } else { Say::Ok }
        };
        let (dir, backend) = (DataDir::new(), Backend::scripted(script).await);
        let gateway = gateway(&dir, backend.address, protocol).await;
        let good: Vec<u64> = ids(0..REQUESTS).into_iter().filter(|id| *id != BAD).collect();
        send_all(gateway.at.grpc, 0..REQUESTS, 100).await;
        let mut number = REQUESTS;
        eventually("everything else arrives", async || {
            // Something has to pass for the bad one to be the cause.
            send_all(gateway.at.grpc, number..number + 1, 100).await;
            number += 1;
            let taken = backend.taken_ids();
            good.iter().all(|id| taken.binary_search(id).is_ok())
        })
        .await;
        eventually("the bad one is where it belongs", async || {
            send_all(gateway.at.grpc, number..number + 1, 100).await;
            number += 1;
            let books = gateway.books("backend");
            match rejected {
                Some(code) => books.rejected.get(code) == Some(&1) && books.pending == 0,
                None => books.rejected.is_empty() && books.pending == 1,
            }
        })
        .await;
    }
}

/// More bad items than there are places for what waits: they do not keep the others, although nobody sends anything else.
#[tokio::test]
async fn the_good_arrive_however_many_are_refused() {
    join_all([500, 400].map(the_good_arrive)).await;
}

async fn the_good_arrive(code: u16) {
    /// With so many pipelines each has 64 places.
    const PIPELINES: usize = 32;
    const SENT: u64 = 400;
    let (dir, away) = (DataDir::new(), Arc::new(AtomicBool::new(true)));
    let is_bad = |id: &u64| id.is_multiple_of(5);
    let is_away = Arc::clone(&away);
    let backend =
        Backend::scripted(move |_, request: &Captured| match payload::ids(&request.message).iter().any(is_bad) {
            _ if is_away.load(Ordering::SeqCst) => Say::Code(503, "later", None),
            true => Say::Code(code, "no", None),
            false => Say::Ok,
        });
    let backend = backend.await;
    let idle = |number| {
        let input = Input { otlp: None, ..Input::default() };
        Pipeline { input, ..pipeline(&format!("idle-{number}"), backend.address) }
    };
    let mut pipelines: Vec<_> = (1..PIPELINES).map(idle).collect();
    pipelines
        .push(Pipeline { output: output(backend.address, Protocol::Http), ..pipeline("backend", backend.address) });
    let settings = Settings { memory: MEMORY_MIN, spill_after: Duration::from_millis(1), ..on_disk(&dir).await };
    let gateway = Gateway::with(pipelines, settings).await;
    let client = gateway.client().await;
    for id in 1..=SENT {
        // Each is on disk by itself.
        assert_eq!(client.export(&payload::encoded(id, 1, 10)).await.code, OK);
    }
    away.store(false, Ordering::SeqCst);
    let good: Vec<u64> = (1..=SENT).filter(|id| !is_bad(id)).collect();
    let delivered = async || gateway.books("backend").delivered == good.len() as u64;
    eventually("everything that is good arrives", delivered).await;
    assert_eq!(backend.taken_ids(), good);
    let books = gateway.books("backend");
    let rejected: u64 = books.rejected.values().sum();
    assert_eq!((books.delivered, rejected + books.pending), (good.len() as u64, SENT / 5), "{code}: {books:?}");
    assert!(books.dropped.is_empty(), "{code}: {books:?}");
}

/// What came last does not wait behind all that is refused.
#[tokio::test]
async fn live_data_passes_what_is_refused() {
    join_all([(500, true), (400, true), (400, false)].map(|(code, on_disk)| one_passes(code, on_disk))).await;
}

async fn one_passes(code: u16, has_disk: bool) {
    const BAD: u64 = 60;
    let (dir, good) = (DataDir::new(), BAD + 1);
    let is_bad = |request: &Captured| payload::ids(&request.message).iter().any(|id| *id <= BAD);
    let backend =
        Backend::scripted(move |_, request| if is_bad(request) { Say::Code(code, "no", None) } else { Say::Ok });
    let backend = backend.await;
    let settings = if has_disk { on_disk(&dir).await } else { settings() };
    let settings = Settings { spill_after: Duration::from_millis(20), ..settings };
    let output = output(backend.address, Protocol::Http);
    let pipeline = Pipeline { output, ..pipeline("backend", backend.address) };
    let gateway = Gateway::with(vec![pipeline], settings).await;
    let client = gateway.client().await;
    for id in 1..=BAD {
        // None is sent together with another one.
        assert_eq!(client.export(&payload::encoded(id, 1, 100_000)).await.code, OK);
    }
    eventually("it seems to take nothing", async || state(&gateway).await.0 != "ok").await;
    assert_eq!(client.export(&payload::encoded(good, 1, 10)).await.code, OK);
    eventually("the good one passes", async || backend.taken_ids() == [good]).await;
    assert!(gateway.books("backend").dropped.is_empty());
}

/// However many spans a request has: where nothing passes, the search ends.
#[tokio::test]
async fn a_size_that_never_fits_is_not_searched_to_the_last_span() {
    for (protocol, code) in [(Protocol::Http, 413), (Protocol::Grpc, 8)] {
        let text = "received message larger than max (5242880 vs. 4194304)";
        let backend = Backend::scripted(move |_, _| Say::Code(code, text, None)).await;
        let dir = DataDir::new();
        let gateway = gateway(&dir, backend.address, protocol).await;
        let answer = gateway.client().await.export(&payload::encoded(1, 20_000, 0)).await;
        assert_eq!(answer.code, weir_testkit::grpc::OK, "{answer:?}");
        eventually("it is recognised", async || state(&gateway).await.0 == "refused").await;
        // From then on one at a time, with pauses.
        let seen = backend.captured().len();
        assert!(seen < 60, "{protocol:?}: {seen} requests");
        let books = gateway.books("backend");
        assert_eq!((books.pending, books.rejected.len()), (20_000, 0), "{books:?}");
    }
}

/// Reads what a client sends until its head is complete.
async fn read_head(stream: &mut tokio::net::TcpStream) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// A success that comes before the request has gone out says nothing about it.
#[tokio::test]
async fn a_success_before_the_body_was_sent_is_none() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(64).unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            if read_head(&mut stream).await {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            }
            // Neither read nor closed.
            open.push(stream);
        }
    });
    let dir = DataDir::new();
    let gateway = gateway(&dir, address, Protocol::Http).await;
    let answer = gateway.client().await.export(&payload::encoded(1, 1000, 3500)).await;
    assert_eq!(answer.code, weir_testkit::grpc::OK, "{answer:?}");
    eventually("it is seen", async || state(&gateway).await == ("refused".into(), "not_otlp".into())).await;
    assert_eq!(gateway.books("backend").pending, 1000);
    served.abort();
}

/// An answer without an end; how much of it was taken.
async fn answer_for_ever(mut stream: tokio::net::TcpStream, status: &str) -> u64 {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/x-protobuf\r\n\r\n");
    let mut sent = 0;
    if read_head(&mut stream).await && stream.write_all(head.as_bytes()).await.is_ok() {
        while let Ok(written) = stream.write(&[0; 16 * 1024]).await {
            sent += written as u64;
        }
    }
    sent
}

/// A backend whose answers have no end; counts what it could send of each, and how many are over.
async fn endless(status: &'static str, longest: Arc<AtomicU64>, answers: Arc<AtomicU64>) -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    // What it holds was not read, and is not to hide what was.
    socket.set_send_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(64).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (longest, answers) = (Arc::clone(&longest), Arc::clone(&answers));
            tokio::spawn(async move {
                longest.fetch_max(answer_for_ever(stream, status).await, Ordering::SeqCst);
                answers.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    address
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_to_its_end() {
    for status in ["200 OK", "503 Service Unavailable", "400 Bad Request"] {
        let (longest, answers) = (Arc::default(), Arc::new(AtomicU64::new(0)));
        let address = endless(status, Arc::clone(&longest), Arc::clone(&answers)).await;
        let dir = DataDir::new();
        let gateway = gateway(&dir, address, Protocol::Http).await;
        send_all(gateway.at.grpc, 0..1, 100).await;
        eventually("its connections are closed", async || answers.load(Ordering::SeqCst) >= 2).await;
        // 64 KiB, and what the sockets hold.
        let longest = longest.load(Ordering::SeqCst);
        assert!(longest < 1 << 20, "{status}: {longest} bytes");
        assert_eq!(gateway.books("backend").pending, SPANS);
    }
}

/// The same in gRPC, where the message says how long it will be.
#[tokio::test]
async fn a_message_without_an_end_is_not_read_to_its_end() {
    let sent = Arc::new(AtomicU64::new(0));
    let said = Say::Endless(Arc::clone(&sent));
    let backend = Backend::scripted(move |_, _| said.clone()).await;
    let dir = DataDir::new();
    let gateway = gateway(&dir, backend.address, Protocol::Grpc).await;
    send_all(gateway.at.grpc, 0..1, 100).await;
    eventually("it is no answer", async || state(&gateway).await == ("refused".into(), "not_otlp".into())).await;
    let (sent, answers) = (sent.load(Ordering::SeqCst), backend.captured().len() as u64);
    assert!(sent < answers << 20, "{sent} bytes in {answers} answers");
    assert_eq!(gateway.books("backend").pending, SPANS);
}

/// Not with line breaks of its own, nor with what a terminal obeys, and its code once.
#[tokio::test]
async fn what_a_backend_says_is_shown_in_one_line() {
    let (said, text) = ("boom\n\x1b[31mready", "boom  [31mready");
    for (protocol, said, shown) in [
        (Protocol::Http, Say::Code(500, said, None), format!("500 Internal Server Error: {text}")),
        (Protocol::Http, Say::Code(503, said, None), format!("503 Service Unavailable: {text}")),
        (Protocol::Http, Say::Code(403, said, None), format!("403 Forbidden: {text}")),
        (Protocol::Http, Say::Code(500, "", None), "500 Internal Server Error".to_owned()),
        (Protocol::Grpc, Say::Code(13, "boom%0A%1B[31mready", None), format!("INTERNAL: {text}")),
        (Protocol::Grpc, Say::Code(7, "boom%0A%1B[31mready", None), text.to_owned()),
    ] {
        let (dir, backend) = (DataDir::new(), Backend::scripted(move |_, _| said.clone()).await);
        let gateway = gateway(&dir, backend.address, protocol).await;
        send_all(gateway.at.grpc, 0..1, 100).await;
        eventually("it is shown", async || {
            let page = http::get(gateway.at.admin, "/backends").await;
            let backends: serde_json::Value = serde_json::from_slice(&page.body).unwrap();
            backends[0]["message"] == *shown
        })
        .await;
    }
}

/// Long before its answer is given up.
#[tokio::test]
async fn a_backend_that_does_not_answer_is_named_soon() {
    let dir = DataDir::new();
    let backend = Backend::scripted(|_, _| Say::Nothing).await;
    let gateway = gateway(&dir, backend.address, Protocol::Grpc).await;
    send_all(gateway.at.grpc, 0..1, 100).await;
    eventually("it is named", async || state(&gateway).await.0 == "silent").await;
    assert_eq!(backend.captured().len(), 1, "its one request is still waited for");
    // Something else is told apart from it.
    let other = sink("{}").await;
    assert_eq!(state(&Gateway::to(other.grpc).await).await.0, "ok");
}
