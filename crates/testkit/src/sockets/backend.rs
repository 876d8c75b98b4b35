//! A backend that keeps every request it gets and answers as a script says.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use base64::Engine as _;
use bytes::{Buf, Bytes};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use weir_loadtest::grpc::RpcStatus;

use super::{grpc, payload};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Captured {
    /// The service and method, or the path of HTTP.
    pub path: String,
    /// All header fields.
    pub headers: HeaderMap,
    /// The body as it was sent, without a gRPC prefix.
    pub body: Bytes,
    /// The body, decompressed.
    pub plain: Bytes,
    /// The body as spans, decompressed.
    pub message: ExportTraceServiceRequest,
    /// When it had arrived as a whole.
    pub at: Instant,
    /// The backend said that it took it.
    pub taken: bool,
}

/// What a backend says.
#[derive(Debug, Clone)]
pub enum Say {
    /// It is taken.
    Ok,
    /// A gRPC status, or an HTTP status when it is above 99.
    Code(u16, &'static str, Option<Duration>),
    /// This many spans were rejected.
    Partial(i64),
    /// Not OTLP: a JSON document.
    Json(String),
    /// Not OTLP: a page for people.
    Html(&'static str),
    /// A success of this type with these bytes, whatever they are.
    Raw(&'static str, &'static [u8]),
    /// In gRPC a head with the status of a success, a message, and these trailers, if any.
    Early(Option<&'static str>),
    /// A success in gRPC with a message of 4 GiB, sent as far as it is taken. Counts its bytes.
    Endless(Arc<AtomicU64>),
    /// Nothing, for ever.
    Nothing,
}

type Script = dyn Fn(usize, &Captured) -> Say + Send + Sync;

/// A listening backend; stops with the value.
pub struct Backend {
    /// Where it listens.
    pub address: SocketAddr,
    captured: Arc<Mutex<Vec<Captured>>>,
    answers: watch::Sender<bool>,
    connections: Arc<AtomicUsize>,
    /// Each connection has one more of it.
    open: Weak<()>,
    tls: Tls,
    task: JoinHandle<()>,
}

/// How the next connection is secured.
type Tls = Arc<Mutex<Option<TlsAcceptor>>>;

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Backend {
    /// Takes everything.
    pub async fn start() -> Self {
        Self::scripted(|_, _| Say::Ok).await
    }

    /// Answers request number n (from 0) as `script` says.
    pub async fn scripted(script: impl Fn(usize, &Captured) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, None, Arc::new(script))
    }

    /// Reads every request and takes it, but answers only from [`Backend::answer`] on.
    pub async fn holding() -> Self {
        let backend = Self::start().await;
        backend.hold();
        backend
    }

    /// Does so from now on.
    pub fn hold(&self) {
        self.answers.send_replace(false);
    }

    /// Answers everything that was asked so far, and from now on at once.
    pub fn answer(&self) {
        self.answers.send_replace(true);
    }

    /// Takes everything, over TLS.
    pub async fn with_tls(acceptor: TlsAcceptor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, Some(acceptor), Arc::new(|_, _| Say::Ok))
    }

    /// The same over TLS.
    pub async fn scripted_with_tls(
        acceptor: TlsAcceptor,
        script: impl Fn(usize, &Captured) -> Say + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, Some(acceptor), Arc::new(script))
    }

    fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, script: Arc<Script>) -> Self {
        let address = listener.local_addr().unwrap();
        let captured = Arc::new(Mutex::new(Vec::new()));
        let (answers, may_answer) = watch::channel(true);
        let desk = Desk { captured: Arc::clone(&captured), may_answer, script };
        let (connections, tls) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(tls)));
        let (counter, security) = (Arc::clone(&connections), Arc::clone(&tls));
        let open = Arc::new(());
        let still_open = Arc::downgrade(&open);
        let task = tokio::spawn(async move {
            let mut conversations = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let open = Arc::clone(&open);
                let (desk, tls) = (desk.clone(), security.lock().unwrap().clone());
                conversations.spawn(async move {
                    match tls {
                        None => desk.converse(stream).await,
                        Some(tls) => desk.converse_over(tls, stream).await,
                    }
                    drop(open);
                });
            }
        });
        Self { address, captured, answers, connections, open: still_open, tls, task }
    }

    /// How many connections were ever made to it.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// How many of them there are now.
    pub fn open_connections(&self) -> usize {
        self.open.strong_count() - 1
    }

    /// Has another certificate, or asks for other ones, on connections made from now on.
    pub fn renew(&self, acceptor: TlsAcceptor) {
        *self.tls.lock().unwrap() = Some(acceptor);
    }

    /// Everything that arrived, refused requests included.
    pub fn captured(&self) -> Vec<Captured> {
        self.captured.lock().unwrap().clone()
    }

    /// The numbers of all spans that arrived, sorted.
    pub fn ids(&self) -> Vec<u64> {
        sorted_ids(self.captured().iter())
    }

    /// The numbers of all spans that it took, sorted.
    pub fn taken_ids(&self) -> Vec<u64> {
        sorted_ids(self.captured().iter().filter(|request| request.taken))
    }
}

fn sorted_ids<'a>(requests: impl Iterator<Item = &'a Captured>) -> Vec<u64> {
    let mut ids: Vec<_> = requests.flat_map(|request| payload::ids(&request.message)).collect();
    ids.sort_unstable();
    ids
}

#[derive(Clone)]
struct Desk {
    captured: Arc<Mutex<Vec<Captured>>>,
    may_answer: watch::Receiver<bool>,
    script: Arc<Script>,
}

impl Desk {
    async fn converse_over(self, tls: TlsAcceptor, stream: TcpStream) {
        // A failed handshake is what some tests are about.
        if let Ok(stream) = tls.accept(stream).await {
            self.converse(stream).await;
        }
    }

    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request| self.clone().answer(request));
        // Connections end when the gateway does.
        let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(mut self, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let is_grpc = head.headers["content-type"] == "application/grpc";
        let (body, plain) = plain(&head.headers, body, is_grpc);
        let message = ExportTraceServiceRequest::decode(plain.as_slice()).unwrap_or_default();
        let path = head.uri.path().to_owned();
        let plain = plain.into();
        let captured = Captured { path, headers: head.headers, body, plain, message, at: Instant::now(), taken: false };
        let number = {
            let mut all = self.captured.lock().unwrap();
            all.push(captured.clone());
            all.len() - 1
        };
        let said = (self.script)(number, &captured);
        if matches!(said, Say::Nothing) {
            std::future::pending::<()>().await;
        }
        // Fails when the backend is gone, and the connection with it.
        let _ = self.may_answer.wait_for(|answers| *answers).await;
        self.captured.lock().unwrap()[number].taken = matches!(said, Say::Ok | Say::Partial(_) | Say::Json(_));
        Ok(if is_grpc { say_grpc(&said) } else { say_http(said) })
    }
}

/// The body without its gRPC prefix, and the same without its compression.
fn plain(headers: &HeaderMap, mut body: Bytes, is_grpc: bool) -> (Bytes, Vec<u8>) {
    let field = if is_grpc { "grpc-encoding" } else { "content-encoding" };
    let mut encoding = headers.get(field).map_or("identity", |value| value.to_str().unwrap());
    if is_grpc {
        let flag = body.get_u8();
        assert_eq!(body.get_u32() as usize, body.len(), "one whole message");
        if flag == 0 {
            encoding = "identity";
        }
    }
    let plain = payload::inflate(encoding, &body);
    (body, plain)
}

type Body = BoxBody<Bytes, Infallible>;

fn partial(rejected: i64) -> Vec<u8> {
    use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
    let partial = ExportTracePartialSuccess { rejected_spans: rejected, error_message: "some were bad".into() };
    ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
}

fn say_grpc(said: &Say) -> Response<Body> {
    let response = Response::builder().header("content-type", "application/grpc");
    match said {
        Say::Code(status, _, _) if *status > 99 => response.status(*status).body(BoxBody::default()).unwrap(),
        Say::Code(code, message, hint) => {
            let details = RpcStatus::new(u32::from(*code), message, *hint).encode_to_vec();
            let details = base64::engine::general_purpose::STANDARD_NO_PAD.encode(details);
            let response = response.header("grpc-status", *code).header("grpc-message", *message);
            response.header("grpc-status-details-bin", details).body(BoxBody::default()).unwrap()
        }
        Say::Ok | Say::Json(_) | Say::Nothing => response.body(message_and_status(&grpc::frame(&[], false))).unwrap(),
        Say::Html(page) => {
            let page = Full::new(Bytes::from(*page)).boxed();
            Response::builder().header("content-type", "text/html").body(page).unwrap()
        }
        Say::Raw(name, bytes) => {
            let response = Response::builder().header("content-type", *name);
            response.body(message_and_status(bytes)).unwrap()
        }
        Say::Early(status) => {
            let response = response.header("grpc-status", "0");
            response.body(message_and_trailers(&grpc::frame(&[], false), *status)).unwrap()
        }
        Say::Endless(sent) => response.body(endless(Arc::clone(sent))).unwrap(),
        Say::Partial(rejected) => response.body(message_and_status(&grpc::frame(&partial(*rejected), false))).unwrap(),
    }
}

/// The longest message that gRPC can announce.
fn endless(sent: Arc<AtomicU64>) -> Body {
    let prefix = Bytes::from_static(b"\0\xff\xff\xff\xff");
    let rest = std::iter::repeat_n(Bytes::from_static(&[0; 16 * 1024]), (1 << 32) / (16 * 1024));
    let frames = std::iter::once(prefix).chain(rest).map(move |bytes| {
        sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        Ok::<_, Infallible>(Frame::data(bytes))
    });
    BodyExt::boxed(http_body_util::StreamBody::new(futures_util::stream::iter(frames)))
}

fn message_and_status(body: &[u8]) -> Body {
    message_and_trailers(body, Some("0"))
}

fn message_and_trailers(body: &[u8], status: Option<&'static str>) -> Body {
    let trailers = status.map(|status| {
        let status = hyper::header::HeaderValue::from_static(status);
        Frame::trailers(HeaderMap::from_iter([(hyper::header::HeaderName::from_static("grpc-status"), status)]))
    });
    let frames = std::iter::once(Frame::data(Bytes::copy_from_slice(body))).chain(trailers);
    let frames = futures_util::stream::iter(frames.map(Ok::<_, Infallible>));
    BodyExt::boxed(http_body_util::StreamBody::new(frames))
}

fn say_http(said: Say) -> Response<Body> {
    let full = |bytes: Vec<u8>| Full::new(Bytes::from(bytes)).boxed();
    let response = Response::builder().header("content-type", "application/x-protobuf");
    match said {
        Say::Ok | Say::Nothing | Say::Early(_) | Say::Endless(_) => response.body(full(Vec::new())).unwrap(),
        Say::Partial(rejected) => response.body(full(partial(rejected))).unwrap(),
        Say::Json(text) => {
            Response::builder().header("content-type", "application/json").body(full(text.into_bytes())).unwrap()
        }
        Say::Html(page) => Response::builder().header("content-type", "text/html").body(full(page.into())).unwrap(),
        Say::Raw(name, bytes) => Response::builder().header("content-type", name).body(full(bytes.to_vec())).unwrap(),
        Say::Code(status, message, hint) => {
            let mut response = Response::builder().status(status);
            if let Some(hint) = hint {
                response = response.header("retry-after", hint.as_secs());
            }
            response.body(full(message.as_bytes().to_vec())).unwrap()
        }
    }
}
