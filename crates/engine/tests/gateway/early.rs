//! Answers whose head comes before the request was sent: what counts is where they end.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use weir_engine::Settings;
use weir_plan::{Pipeline, Protocol};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{self, OK};
use weir_testkit::{eventually, payload};

use crate::support::{Gateway, on_disk, output, pipeline};

const SPANS: u64 = 1000;

/// How an answer goes on after its head.
#[derive(Debug, Clone, Copy)]
enum End {
    /// With a success, once all of the request was read.
    AfterTheRequest,
    /// With a success at once; the request is not read.
    AtOnce,
    /// Not at all: it is cut off, and the request is not read.
    CutOff,
}

/// Requests that are not read stay open here.
type Unread = Arc<Mutex<Vec<Incoming>>>;

/// A backend that answers each request as soon as it has its head; ends with the set.
async fn backend(end: End) -> (SocketAddr, JoinSet<()>) {
    let socket = TcpSocket::new_v4().unwrap();
    // So that most of a request has not left when its answer begins.
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(64).unwrap();
    let (address, unread) = (listener.local_addr().unwrap(), Unread::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut conversations = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let unread = Arc::clone(&unread);
            conversations.spawn(async move {
                let service =
                    service_fn(move |request| std::future::ready(Ok::<_, io::Error>(answer(request, end, &unread))));
                // Connections end when the gateway does.
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (address, tasks)
}

type Body = http_body_util::combinators::BoxBody<Bytes, io::Error>;

fn answer(request: Request<Incoming>, end: End, unread: &Unread) -> Response<Body> {
    let content_type = request.headers()["content-type"].clone();
    let is_grpc = content_type == "application/grpc";
    let frames: Vec<io::Result<Frame<Bytes>>> = match end {
        End::CutOff => vec![Err(io::Error::other("cut off"))],
        _ if is_grpc => vec![Ok(Frame::data(grpc::frame(&[], false).into())), Ok(Frame::trailers(success()))],
        _ => Vec::new(),
    };
    let request = request.into_body();
    let body = match end {
        End::AfterTheRequest => {
            let read = async { request.collect().await.map(|_| Frame::data(Bytes::new())).map_err(io::Error::other) };
            let frames = stream::iter(frames);
            BodyExt::boxed(StreamBody::new(futures_util::StreamExt::chain(stream::once(read), frames)))
        }
        End::AtOnce | End::CutOff => {
            unread.lock().unwrap().push(request);
            BodyExt::boxed(StreamBody::new(stream::iter(frames)))
        }
    };
    Response::builder().header("content-type", content_type).body(body).unwrap()
}

fn success() -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))])
}

/// A gateway whose backend answers so, and which has a request for it.
async fn gateway(dir: &DataDir, backend: SocketAddr, protocol: Protocol) -> Gateway {
    let settings = Settings { spill_after: Duration::from_millis(20), ..on_disk(dir).await };
    let pipeline = Pipeline { output: output(backend, protocol), ..pipeline("backend", backend) };
    let gateway = Gateway::with(vec![pipeline], settings).await;
    // More than goes out at once.
    let answer = gateway.client().await.export(&payload::encoded(1, SPANS, 3500)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    gateway
}

#[tokio::test]
async fn an_answer_that_ends_after_the_request_was_read_is_believed() {
    let cases = [Protocol::Grpc, Protocol::Http].map(async |protocol| {
        let (dir, (address, _tasks)) = (DataDir::new(), backend(End::AfterTheRequest).await);
        let gateway = gateway(&dir, address, protocol).await;
        gateway.settle().await;
        assert_eq!(gateway.books("backend").delivered, SPANS, "{protocol:?}");
    });
    join_all(cases).await;
}

#[tokio::test]
async fn an_answer_that_ends_before_the_request_was_sent_is_no_success() {
    // Over HTTP/1.1 at once: see `refused.rs`.
    let cases = [
        (Protocol::Grpc, End::AtOnce, "refused"),
        (Protocol::Grpc, End::CutOff, "failing"),
        (Protocol::Http, End::CutOff, "failing"),
    ];
    let cases = cases.map(async |(protocol, end, state)| {
        let (dir, (address, _tasks)) = (DataDir::new(), backend(end).await);
        let gateway = gateway(&dir, address, protocol).await;
        let state = format!("state=\"{state}\"");
        eventually(&format!("{protocol:?} {end:?} is seen"), async || {
            let scrape = gateway.scrape().await;
            let rows = scrape.rows("weir_pipeline_backend_state");
            rows.iter().any(|(labels, value)| labels.contains(&state) && *value == 1.0)
        })
        .await;
        let books = gateway.books("backend");
        assert_eq!((books.delivered, books.pending), (0, SPANS), "{protocol:?} {end:?}");
    });
    join_all(cases).await;
}
