//! A connection to an OTLP endpoint and what its answers mean.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::codec::Compression;
use crate::grpc;

/// Where requests go and how.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) authority: String,
    pub(crate) http: bool,
    pub(crate) compression: Compression,
}

/// How one request ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// OK; `rejected` spans of it were named as rejected by a partial success.
    Acked { rejected: u64 },
    /// An error answer: HTTP status or `grpc=N`, and the retry hint.
    Refused { code: grpc::Code, hint: Option<Duration> },
    /// No whole answer: what became of the data is not known.
    Unknown(String),
}

/// One open connection.
pub(crate) struct Connection {
    sender: Sender,
    driver: JoinHandle<()>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Target {
    /// Understands `host:port` and `http://host:port`.
    pub(crate) fn new(endpoint: &str, http: bool, compression: Compression) -> anyhow::Result<Self> {
        let authority = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
        if !authority.contains(':') || authority.contains('/') {
            bail!("cannot use endpoint \"{endpoint}\": use host:port");
        }
        Ok(Self { authority: authority.to_owned(), http, compression })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.authority)
            .await
            .with_context(|| format!("cannot connect to {}", self.authority))?;
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        let io = TokioIo::new(stream);
        if self.http {
            let (sender, connection) = http1::handshake(io).await.context("cannot start HTTP/1.1")?;
            let driver = tokio::spawn(async move { drop(connection.await) });
            return Ok(Connection { sender: Sender::Http1(sender), driver });
        }
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake(io)
            .await
            .context("cannot start HTTP/2")?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender: Sender::Http2(sender), driver })
    }

    fn request(&self, body: Bytes) -> anyhow::Result<Request<Full<Bytes>>> {
        let path = if self.http { "/v1/traces" } else { grpc::EXPORT_TRACES };
        let uri = Uri::builder().scheme("http").authority(self.authority.as_str()).path_and_query(path).build()?;
        let mut request = Request::post(uri).body(Full::new(body))?;
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
    /// Whether no further request can be sent.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// Sends one body and reads the whole answer.
    pub(crate) async fn send(&mut self, target: &Target, body: Bytes) -> Outcome {
        match self.exchange(target, body).await {
            Ok(outcome) => outcome,
            Err(err) => Outcome::Unknown(format!("{err:#}")),
        }
    }

    async fn exchange(&mut self, target: &Target, body: Bytes) -> anyhow::Result<Outcome> {
        let request = target.request(body)?;
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.context("connection closed")?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await.context("connection closed")?;
                sender.send_request(request).await
            }
        }
        .context("no answer")?;
        if target.http { read_http(response).await } else { read_grpc(response).await }
    }
}

async fn read_http(response: Response<Incoming>) -> anyhow::Result<Outcome> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.context("answer broke off")?.to_bytes();
    if parts.status.is_success() {
        return Ok(Outcome::Acked { rejected: rejected_spans(&body) });
    }
    Ok(Outcome::Refused { code: grpc::Code::Http(parts.status.as_u16()), hint: grpc::retry_hint(&parts.headers) })
}

async fn read_grpc(response: Response<Incoming>) -> anyhow::Result<Outcome> {
    let (parts, body) = response.into_parts();
    if !parts.status.is_success() {
        return Ok(Outcome::Refused { code: grpc::Code::Http(parts.status.as_u16()), hint: None });
    }
    let body = body.collect().await.context("answer broke off")?;
    let trailers = body.trailers().cloned();
    let headers = trailers.filter(|trailers| trailers.contains_key("grpc-status")).unwrap_or(parts.headers);
    match grpc_status(&headers)? {
        grpc::status::OK => {
            let message = body.to_bytes();
            Ok(Outcome::Acked { rejected: rejected_spans(message.get(grpc::PREFIX_BYTES..).unwrap_or_default()) })
        }
        code => Ok(Outcome::Refused { code: grpc::Code::Grpc(code), hint: grpc::retry_hint(&headers) }),
    }
}

fn grpc_status(headers: &HeaderMap) -> anyhow::Result<u32> {
    let value = headers.get("grpc-status").context("answer has no grpc-status")?;
    value.to_str().ok().and_then(|text| text.parse().ok()).with_context(|| format!("cannot read grpc-status {value:?}"))
}

/// `rejected_spans` of an `ExportTraceServiceResponse`; 0 when there is no partial success.
fn rejected_spans(response: &[u8]) -> u64 {
    let response = <crate::grpc::ExportResponse as prost::Message>::decode(response).unwrap_or_default();
    response.partial_success.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or(0))
}
