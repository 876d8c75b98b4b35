//! A connection to an OTLP endpoint and what its answers mean.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::codec::Compression;
use crate::grpc::{self, Code, ExportResponse};
use crate::signal::Signal;

/// Nothing at all may come back from an address that is just given to another pod. Linux would wait for two minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where requests go and how.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) signal: Signal,
    pub(crate) authority: String,
    pub(crate) http: bool,
    pub(crate) compression: Compression,
}

/// How one request ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// OK; `rejected` items of it were named as rejected by a partial success.
    Acked { rejected: u64 },
    /// An error answer: HTTP status or `grpc=N`, and the retry hint.
    Refused { code: Code, hint: Option<Duration> },
    /// No whole answer: what became of the data is not known.
    Unknown(String),
}

/// One open connection.
pub(crate) struct Connection {
    sender: Sender,
    driver: JoinHandle<()>,
}

/// HTTP/2 goes through `h2` itself: it lets headers and data leave in one write, which small requests need.
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(h2::client::SendRequest<Bytes>),
}

/// A whole answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Target {
    /// Understands `host:port` and `http://host:port`.
    pub(crate) fn new(signal: Signal, endpoint: &str, http: bool, compression: Compression) -> anyhow::Result<Self> {
        let authority = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
        if !authority.contains(':') || authority.contains('/') {
            bail!("cannot use endpoint \"{endpoint}\": use host:port");
        }
        Ok(Self { signal, authority: authority.to_owned(), http, compression })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let connects = timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.authority));
        let stream = connects
            .await
            .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
            .with_context(|| format!("cannot connect to {}", self.authority))?;
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        if self.http {
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("cannot start HTTP/1.1")?;
            let driver = tokio::spawn(async move { drop(connection.await) });
            return Ok(Connection { sender: Sender::Http1(sender), driver });
        }
        let (sender, connection) = h2::client::handshake(stream).await.context("cannot start HTTP/2")?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender: Sender::Http2(sender), driver })
    }

    fn request(&self) -> anyhow::Result<Request<()>> {
        let path = if self.http { self.signal.http_path() } else { self.signal.grpc_path() };
        let uri = Uri::builder().scheme("http").authority(self.authority.as_str()).path_and_query(path).build()?;
        let mut request = Request::post(uri).body(())?;
        let headers = request.headers_mut();
        if self.http {
            headers.insert(http::header::HOST, HeaderValue::from_str(&self.authority)?);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        } else {
            headers.insert(TE, HeaderValue::from_static("trailers"));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        }
        if let Some(name) = self.compression.name() {
            let header = if self.http { CONTENT_ENCODING } else { HeaderName::from_static("grpc-encoding") };
            headers.insert(header, HeaderValue::from_static(name));
        }
        Ok(request)
    }
}

impl Connection {
    /// Whether another request can be sent: not when the connection ended, nor when the server said that it will
    /// (GOAWAY).
    pub(crate) async fn is_open(&mut self) -> bool {
        let ready = match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.clone().ready().await.is_ok(),
        };
        ready && !self.driver.is_finished()
    }

    /// Sends one body and reads the whole answer.
    pub(crate) async fn send(&mut self, target: &Target, body: Bytes) -> Outcome {
        let outcome = match self.exchange(target, body).await {
            Ok(answer) if target.http => Ok(read_http(&answer)),
            Ok(answer) => read_grpc(&answer),
            Err(err) => Err(err),
        };
        outcome.unwrap_or_else(|err| Outcome::Unknown(format!("{err:#}")))
    }

    async fn exchange(&mut self, target: &Target, body: Bytes) -> anyhow::Result<Answer> {
        let request = target.request()?;
        match &mut self.sender {
            Sender::Http1(sender) => exchange_http1(sender, request.map(|()| Full::new(body))).await,
            Sender::Http2(sender) => exchange_http2(sender.clone(), request, body).await,
        }
    }
}

async fn exchange_http1(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    sender.ready().await.context("connection closed")?;
    let response = sender.send_request(request).await.context("no answer")?;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.context("answer broke off")?.to_bytes();
    Ok(Answer { status: parts.status, headers: parts.headers, body, trailers: None })
}

async fn exchange_http2(
    sender: h2::client::SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
) -> anyhow::Result<Answer> {
    let mut sender = sender.ready().await.context("connection closed")?;
    let (response, mut stream) = sender.send_request(request, false).context("cannot send")?;
    // Queued whole: flow control holds back what the other side has no room for.
    stream.send_data(body, true).context("cannot send")?;
    let (parts, mut incoming) = response.await.context("no answer")?.into_parts();
    let mut body = BytesMut::new();
    while let Some(chunk) = incoming.data().await {
        let chunk = chunk.context("answer broke off")?;
        incoming.flow_control().release_capacity(chunk.len()).context("answer broke off")?;
        body.extend_from_slice(&chunk);
    }
    let trailers = incoming.trailers().await.context("answer broke off")?;
    Ok(Answer { status: parts.status, headers: parts.headers, body: body.freeze(), trailers })
}

fn read_http(answer: &Answer) -> Outcome {
    if answer.status.is_success() {
        return Outcome::Acked { rejected: rejected_items(&answer.body) };
    }
    Outcome::Refused { code: Code::Http(answer.status.as_u16()), hint: grpc::retry_hint(&answer.headers) }
}

fn read_grpc(answer: &Answer) -> anyhow::Result<Outcome> {
    if !answer.status.is_success() {
        return Ok(Outcome::Refused { code: Code::Http(answer.status.as_u16()), hint: None });
    }
    let headers = match &answer.trailers {
        Some(trailers) if trailers.contains_key("grpc-status") => trailers,
        _ => &answer.headers,
    };
    Ok(match grpc_status(headers)? {
        grpc::status::OK => {
            Outcome::Acked { rejected: rejected_items(answer.body.get(grpc::PREFIX_BYTES..).unwrap_or_default()) }
        }
        code => Outcome::Refused { code: Code::Grpc(code), hint: grpc::retry_hint(headers) },
    })
}

fn grpc_status(headers: &HeaderMap) -> anyhow::Result<u32> {
    let value = headers.get("grpc-status").context("answer has no grpc-status")?;
    value.to_str().ok().and_then(|text| text.parse().ok()).with_context(|| format!("cannot read grpc-status {value:?}"))
}

/// Rejected items of an export response; 0 when there is no partial success.
fn rejected_items(response: &[u8]) -> u64 {
    let response = ExportResponse::decode(response).unwrap_or_default();
    response.partial_success.map_or(0, |partial| u64::try_from(partial.rejected_items).unwrap_or(0))
}
