//! A gRPC client that can also send what no gRPC library would.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use weir_loadtest::grpc::{EXPORT_TRACES, RpcStatus};

/// Taken.
pub const OK: u32 = 0;
/// Refused for good.
pub const INVALID_ARGUMENT: u32 = 3;
/// Too late.
pub const DEADLINE_EXCEEDED: u32 = 4;
/// Too large, or too much.
pub const RESOURCE_EXHAUSTED: u32 = 8;
/// Nobody takes such data.
pub const UNIMPLEMENTED: u32 = 12;
/// To be tried again.
pub const UNAVAILABLE: u32 = 14;
/// Not from this client.
pub const UNAUTHENTICATED: u32 = 16;

type Body = BoxBody<Bytes, Infallible>;

/// A connection; ends with the last clone.
#[derive(Clone)]
pub struct Grpc {
    sender: SendRequest<Body>,
    _driver: Arc<Driver>,
    address: SocketAddr,
}

/// The task that runs a connection.
struct Driver(JoinHandle<()>);

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status.
    pub code: u32,
    /// What is said about it, as it is written.
    pub message: String,
    /// When to try again.
    pub retry_after: Option<Duration>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Grpc {
    /// A connection to a server that is there.
    pub async fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).await.unwrap()
    }

    /// The same where the server may be about to die.
    pub async fn try_connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        Self::over(stream, address).await
    }

    /// The same by way of TLS; see [`tls::connect`](super::tls::connect).
    pub async fn connect_tls(address: SocketAddr, config: ClientConfig) -> Option<Self> {
        Self::over(super::tls::connect(address, config).await.ok()?, address).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, address: SocketAddr) -> Option<Self> {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.ok()?;
        let driver = Driver(tokio::spawn(async move { drop(connection.await) }));
        Some(Self { sender, _driver: Arc::new(driver), address })
    }

    /// Whether the server has said that it takes no more calls here.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Exports an uncompressed request.
    pub async fn export(&self, message: &[u8]) -> Answer {
        self.call(EXPORT_TRACES, None, frame(message, false)).await
    }

    /// Exports to a server that may die of it; `None` when there is no whole answer.
    pub async fn try_export(&self, message: &[u8]) -> Option<Answer> {
        self.try_call(EXPORT_TRACES, frame(message, false)).await
    }

    /// The same with any body.
    pub async fn try_call(&self, path: &str, body: Vec<u8>) -> Option<Answer> {
        let body = Full::new(Bytes::from(body)).boxed();
        super::in_time("gRPC call", self.exchange(path, &[], body)).await.ok()
    }

    /// Exports a compressed request.
    pub async fn export_as(&self, encoding: &str, compressed: &[u8]) -> Answer {
        self.call(EXPORT_TRACES, Some(encoding), frame(compressed, true)).await
    }

    /// Any call with any body; fails when there is no whole answer.
    pub async fn call(&self, path: &str, encoding: Option<&str>, body: Vec<u8>) -> Answer {
        let body = Full::new(Bytes::from(body)).boxed();
        let fields: Vec<_> = encoding.map(|encoding| ("grpc-encoding", encoding)).into_iter().collect();
        super::in_time("gRPC call", self.exchange(path, &fields, body)).await.unwrap()
    }

    /// An export whose body is sent piece by piece; it ends with the sender.
    pub async fn stream(&self, pieces: mpsc::Receiver<Bytes>) -> Result<Answer, hyper::Error> {
        self.stream_with(&[], pieces).await
    }

    /// The same with more header fields.
    pub async fn stream_with(
        &self,
        fields: &[(&str, &str)],
        mut pieces: mpsc::Receiver<Bytes>,
    ) -> Result<Answer, hyper::Error> {
        let frames = futures_util::stream::poll_fn(move |context| pieces.poll_recv(context));
        let frames = frames.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
        self.exchange(EXPORT_TRACES, fields, BodyExt::boxed(StreamBody::new(frames))).await
    }

    async fn exchange(&self, path: &str, fields: &[(&str, &str)], body: Body) -> Result<Answer, hyper::Error> {
        let mut request = Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(body).unwrap();
        let response = self.sender.clone().send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        Ok(answer(if head.headers.contains_key("grpc-status") { &head.headers } else { &trailers }))
    }
}

fn answer(fields: &HeaderMap) -> Answer {
    let text = |name| fields.get(name).map(|value| value.to_str().unwrap().to_owned());
    let details = text("grpc-status-details-bin").map(|details| {
        let bytes = base64::engine::general_purpose::STANDARD_NO_PAD.decode(details).unwrap();
        RpcStatus::decode(bytes.as_slice()).unwrap()
    });
    Answer {
        code: text("grpc-status").expect("an answer has a status").parse().unwrap(),
        message: text("grpc-message").unwrap_or_default(),
        retry_after: details.and_then(|status| status.retry_after()),
    }
}

/// A gRPC message: flag, length, bytes.
pub fn frame(message: &[u8], compressed: bool) -> Vec<u8> {
    let mut framed = weir_loadtest::grpc::prefix(message.len(), compressed).unwrap().to_vec();
    framed.extend_from_slice(message);
    framed
}
