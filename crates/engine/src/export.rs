//! Sends batches to a backend over OTLP/gRPC, OTLP/HTTP, or as Fluent Bit does over HTTP, and reads what the backend says.
//!
//! An exporter turns bodies into one request, and an answer into an [`Outcome`]. It keeps no data and decides no retry.

mod answer;
mod answer_heads;
mod body;
mod coalesce;
mod codes;
mod connections;
mod credentials;
mod dial;
mod ends;
mod fluent_bit;
mod grpc;
mod http;
mod local;
mod oauth2;
mod outcome;
mod proxy;
mod resolve;
mod tls;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use bytes::Bytes;
use tokio::time::Instant;
use weir_plan::{Body, Compression, Endpoint, Output, Pipeline, PipelineId, Protocol, Signal};

use crate::budget::{Budget, Permit};
use crate::division::Division;
use crate::{codec, settings, unix_nanos};
use answer::Answer;
use body::Chunks;
pub use codes::CodeFigures;
use codes::Codes;
use connections::Connections;
use credentials::LastCredentials;
pub use credentials::{ClientCertificate, CredentialFigures};
use dial::Dial;
use local::Local;
pub(crate) use outcome::{About, BackendRefusal, Outcome, RetryKind, TOO_LARGE};
use proxy::Proxy;
pub use tls::client_config;
use words::LastWords;

/// A request that has no answer after this long is tried again. Long, because a slow backend that does take the data
/// makes every early retry a duplicate.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// HTTP/2 pings find dead connections within this and [`PING_TIMEOUT`].
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies below this are copied together: writing each of them by itself would cost more than the copy.
const COPY_BELOW_BYTES: usize = 16 * 1024;
/// Larger bodies are not compressed on the async workers.
const INLINE_COMPRESS_BYTES: usize = 64 * 1024;

/// Something that takes batches.
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    /// Sends the concatenation of `bodies` as one request.
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>>;

    /// When its certificate and the token for it end, as far as there are any.
    fn expiry(&self) -> Expiry {
        Expiry::default()
    }

    /// The credentials that it is sent, and since when; `None` if there are none.
    fn credentials(&self) -> Option<CredentialFigures> {
        None
    }

    /// How requests were answered, since the pipeline began. There are none where no backend is.
    fn codes(&self) -> CodeFigures {
        CodeFigures::default()
    }

    /// Since when the oldest request that may have left is not answered; `None` if there is none, as others wait for a
    /// token, or for memory. Where that is not known, since they were handed over.
    fn asked_since(&self, handed_over: Instant) -> Option<Instant> {
        Some(handed_over)
    }

    /// Whether a request has ended, with an answer or without. Before that, nothing is known of the backend.
    fn was_tried(&self) -> bool {
        false
    }
}

/// When what a connection to a backend relies on ends. Weir replaces tokens; certificates are for their owners to replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expiry {
    /// That of the certificate that the backend showed last, in seconds since the Unix epoch.
    pub certificate_unix_seconds: Option<u64>,
    /// How long the token for it is valid. It is replaced before that.
    pub token: Option<Duration>,
}

/// A backend, or what happens on the way to it, cannot be set up as planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot set up pipeline {pipeline}: {cause}")]
pub struct SetupError {
    /// Which pipeline.
    pub pipeline: PipelineId,
    /// What is wrong.
    pub cause: String,
}

/// A backend that cannot be set up. The reason has nothing to do with the data, so the data waits.
#[derive(Debug)]
pub(crate) struct Unusable(pub(crate) String);

impl Backend for Unusable {
    fn send(&self, _: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(std::future::ready(Outcome::unsent(self.0.clone())))
    }
}

/// Prepares what takes the batches of a pipeline.
pub(crate) fn backend(
    pipeline: &Pipeline,
    limits: &BackendLimits,
    encoders: Budget,
    proxy: &settings::Proxy,
) -> Result<Arc<dyn Backend>, SetupError> {
    if let (Body::FluentBit(settings), false) = (&pipeline.output.body, pipeline.output.is_remote()) {
        // Nobody is sent credentials. If those of before come back, they were not used meanwhile.
        limits.take_up_credentials(&pipeline.output);
        return Ok(Arc::new(Local { settings: settings.clone(), encode: limits.encode.clone() }));
    }
    Ok(Arc::new(Exporter::new(pipeline, limits, encoders, proxy)?))
}

/// How much memory and how many connections the backend of a pipeline may have, and what is known of it. Its exporters
/// pass it on.
#[derive(Debug, Clone)]
pub(crate) struct BackendLimits {
    /// Pays for what is encoded.
    encode: Budget,
    /// How many connections there may be.
    connections: Arc<AtomicUsize>,
    /// That of the last exporter.
    known: Arc<Mutex<Option<KnownEndpoint>>>,
    credentials: Arc<Mutex<LastCredentials>>,
    /// How requests were answered.
    codes: Arc<Codes>,
}

/// An endpoint, and whether it answered the last request.
#[derive(Debug)]
struct KnownEndpoint {
    endpoint: Endpoint,
    answers: Arc<AtomicBool>,
}

impl BackendLimits {
    pub(crate) fn new(encode: Budget, connections: usize) -> Self {
        let connections = Arc::new(AtomicUsize::new(connections));
        Self { encode, connections, known: Arc::default(), credentials: Arc::default(), codes: Arc::default() }
    }

    /// Those of an output, and since when: an earlier exporter may have had the same.
    fn take_up_credentials(&self, output: &Output) -> Option<CredentialFigures> {
        let mut last = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_up(output, unix_nanos() / 1_000_000)
    }

    /// Whether an endpoint answers: what an earlier exporter has seen of it. Nobody knows that of another one as yet.
    fn answers(&self, endpoint: &Endpoint) -> Arc<AtomicBool> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.endpoint == *endpoint) {
            return Arc::clone(&known.answers);
        }
        let answers = Arc::<AtomicBool>::default();
        *known = Some(KnownEndpoint { endpoint: endpoint.clone(), answers: Arc::clone(&answers) });
        answers
    }

    pub(crate) fn resize(&self, division: Division) {
        self.encode.resize(division.encode);
        self.connections.store(division.backend_connections, Ordering::Relaxed);
    }
}

/// Where requests go. A Secret may be part of its path, which is never printed.
struct Target(Uri);

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.0.authority().map_or("", |authority| authority.as_str());
        f.debug_tuple("Target").field(&at.rsplit('@').next()).finish()
    }
}

/// A backend that is sent to.
#[derive(Debug)]
pub(crate) struct Exporter {
    connections: Connections,
    protocol: Protocol,
    body: Body,
    compression: Compression,
    target: Target,
    headers: HeaderMap,
    oauth2: Option<oauth2::Tokens>,
    credentials: Option<CredentialFigures>,
    /// Pays for copies and compressed bodies. It is apart from the payloads' budget: sending is what frees that budget,
    /// so it must never wait for it.
    encode: Budget,
    /// Pays for the memory that compressors of all pipelines need for themselves. Requests wait for it, but not for
    /// each other's backends: a compressor at work waits for nobody.
    encoders: Budget,
    /// Whether the backend answered the last request.
    answers: Arc<AtomicBool>,
    /// How it answered all of them.
    codes: Arc<Codes>,
    asked: Unanswered,
    last_words: LastWords,
    /// Whether a request has ended. A successor may lead elsewhere or have other credentials, so it begins anew.
    was_tried: AtomicBool,
}

impl Exporter {
    /// Prepares a backend; connects when there is something to send.
    pub(crate) fn new(
        pipeline: &Pipeline,
        limits: &BackendLimits,
        encoders: Budget,
        proxy: &settings::Proxy,
    ) -> Result<Self, SetupError> {
        let output = &pipeline.output;
        let fail = |cause: String| SetupError { pipeline: pipeline.id.clone(), cause };
        let uri = uri(pipeline.id.signal, output).map_err(fail)?;
        let mut headers = headers(output).map_err(fail)?;
        let tokens = |settings| oauth2::Tokens::new(pipeline.id.clone(), settings, proxy);
        let oauth2 = output.oauth2.as_ref().map(tokens).transpose().map_err(fail)?;
        let proxy = Proxy::find(proxy, &uri, output.protocol).map_err(fail)?;
        if let Some(authorization) = proxy.as_ref().and_then(Proxy::request_header) {
            headers.insert(::http::header::PROXY_AUTHORIZATION, authorization.clone());
        }
        let connections = connections(output, &uri, proxy, limits).map_err(fail)?;
        let (protocol, compression, encode) = (output.protocol, output.compression, limits.encode.clone());
        let body = output.body.clone();
        let (answers, codes) = (limits.answers(&output.endpoint), Arc::clone(&limits.codes));
        let (target, asked, was_tried) = (Target(uri), Unanswered::default(), AtomicBool::default());
        // Nothing can fail any more: from now on they are used.
        let credentials = limits.take_up_credentials(output);
        Ok(Self {
            connections,
            protocol,
            body,
            compression,
            target,
            headers,
            oauth2,
            credentials,
            encode,
            encoders,
            answers,
            codes,
            asked,
            last_words: LastWords::default(),
            was_tried,
        })
    }

    async fn attempt(&self, bodies: Vec<Bytes>) -> Outcome {
        let encoded = match &self.body {
            Body::Otlp => self.encode(bodies).await.map_err(Outcome::unsent),
            Body::FluentBit(settings) => self.convert(settings, bodies).await,
        };
        let (body, _permit) = match encoded {
            Ok(encoded) => encoded,
            Err(outcome) => return outcome,
        };
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, async {
            match self.request(body).await {
                Ok(request) => {
                    let _asked = self.asked.begin();
                    self.exchange(request).await
                }
                Err(message) => Outcome::unsent(message),
            }
        });
        let silence = |_| Outcome::silence(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()));
        let outcome = answered.await.unwrap_or_else(silence);
        self.answers.store(outcome.is_answer(), Ordering::Relaxed);
        self.was_tried.store(true, Ordering::Relaxed);
        outcome
    }

    /// The body as it goes over the wire, and what pays for it where it was copied. Where there is no room to compress or
    /// copy it, it goes as it is.
    async fn encode(&self, bodies: Vec<Bytes>) -> Result<(Chunks, Option<Permit>), String> {
        let room = self.encode.capacity() / 4 * 3;
        let wanted = match self.compression {
            Compression::None => Some(body::small_bytes(&bodies)).filter(|bytes| (1..=room).contains(bytes)),
            _ => Some(codec::most_deflated(self.compression, &bodies).min(room)),
        };
        let Some(wanted) = wanted else { return Ok((self.frame(bodies, false), None)) };
        let Some(permit) = self.encode.take(wanted, ANSWER_TIMEOUT).await else {
            return Err("no room to encode the request".into());
        };
        match self.compression {
            Compression::None => Ok((self.frame(body::join_small(bodies), false), Some(permit))),
            _ => self.compress(bodies, wanted, permit).await,
        }
    }

    /// Compresses a body into `room` bytes, which `permit` pays for.
    async fn compress(
        &self,
        bodies: Vec<Bytes>,
        room: usize,
        permit: Permit,
    ) -> Result<(Chunks, Option<Permit>), String> {
        let (compression, protocol) = (self.compression, self.protocol);
        let total: usize = bodies.iter().map(Bytes::len).sum();
        let encoder = codec::encoder_bytes(compression, total).min(self.encoders.capacity() / 2);
        let Some(encoder) = self.encoders.take(encoder, ANSWER_TIMEOUT).await else {
            return Err("no room to compress the request".into());
        };
        // Whoever waits may be gone before this has ended: what pays for it is in it.
        let deflate = move || {
            let deflated = codec::deflate(compression, protocol, &bodies, room);
            drop(encoder);
            (bodies, deflated, permit)
        };
        let (bodies, deflated, mut permit) = if total <= INLINE_COMPRESS_BYTES {
            deflate()
        } else {
            tokio::task::spawn_blocking(deflate).await.map_err(|error| format!("cannot compress: {error}"))?
        };
        match deflated {
            Ok(chunks) => {
                permit.shrink_to(chunks.iter().map(Bytes::len).sum());
                Ok((self.frame(chunks, true), Some(permit)))
            }
            Err(error) if error.kind() == std::io::ErrorKind::OutOfMemory => Ok((self.frame(bodies, false), None)),
            Err(error) => Err(format!("cannot compress the request: {error}")),
        }
    }

    fn frame(&self, chunks: Vec<Bytes>, is_compressed: bool) -> Chunks {
        match self.protocol {
            Protocol::Grpc => Chunks::grpc(chunks, is_compressed),
            Protocol::Http => Chunks::plain(chunks, is_compressed),
        }
    }

    async fn request(&self, body: Chunks) -> Result<Request<Chunks>, String> {
        let is_compressed = body.is_compressed();
        let mut request = Request::post(self.target.0.clone())
            .body(body)
            .map_err(|error| format!("cannot make a request: {error}"))?;
        *request.headers_mut() = self.headers.clone();
        if self.protocol == Protocol::Http && !is_compressed {
            request.headers_mut().remove(::http::header::CONTENT_ENCODING);
        }
        if let Some(tokens) = &self.oauth2 {
            let token = tokens.bearer().await?;
            request.headers_mut().insert(::http::header::AUTHORIZATION, token);
        }
        Ok(request)
    }

    async fn exchange(&self, request: Request<Chunks>) -> Outcome {
        let used = request.headers().get(::http::header::AUTHORIZATION).cloned();
        let progress = request.body().progress();
        let mut counted = self.codes.sent();
        let (response, passage) = match self.connections.request(request).await {
            Ok(answering) => answering,
            Err(outcome) => return outcome,
        };
        let answer = match Answer::read(response, &self.encode).await {
            Ok(answer) => answer,
            Err(message) => return Outcome::retry(message),
        };
        let was_sent = progress.is_sent();
        passage.answered();
        counted.answered(self.protocol, &answer);
        if let (Some(tokens), Some(used)) = (&self.oauth2, used)
            && answer.is_unauthenticated()
        {
            tokens.forget(&used);
        }
        let outcome = match (self.protocol, &self.body) {
            (Protocol::Grpc, _) => grpc::outcome(&answer, &self.encode),
            (Protocol::Http, Body::Otlp) => http::outcome(&answer, &self.encode),
            (Protocol::Http, Body::FluentBit(_)) => http::plain_outcome(&answer),
        };
        match outcome {
            // The head of an answer may come while the request goes out; its end may not.
            Outcome::Delivered { .. } if !was_sent => answer::too_early(&self.body),
            outcome => outcome,
        }
    }
}

impl Backend for Exporter {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(async { self.attempt(bodies).await.hiding(&self.last_words).legible() })
    }

    fn expiry(&self) -> Expiry {
        Expiry {
            certificate_unix_seconds: self.connections.certificate_ends(),
            token: self.oauth2.as_ref().and_then(oauth2::Tokens::left),
        }
    }

    fn credentials(&self) -> Option<CredentialFigures> {
        self.credentials.clone()
    }

    fn codes(&self) -> CodeFigures {
        self.codes.figures()
    }

    fn asked_since(&self, _: Instant) -> Option<Instant> {
        self.asked.oldest()
    }

    fn was_tried(&self) -> bool {
        self.was_tried.load(Ordering::Relaxed)
    }
}

/// When requests left, of those that may have and are not answered. The oldest has the lowest number.
#[derive(Debug, Default)]
struct Unanswered(Mutex<BTreeMap<u64, Instant>>);

impl Unanswered {
    fn begin(&self) -> Asked<'_> {
        let mut all = self.lock();
        let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
        all.insert(number, Instant::now());
        Asked { all: self, number }
    }

    fn oldest(&self) -> Option<Instant> {
        self.lock().first_key_value().map(|(_, left)| *left)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that may have left, as long as somebody waits for its answer.
struct Asked<'a> {
    all: &'a Unanswered,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.number);
    }
}

fn connections(
    output: &Output,
    uri: &Uri,
    proxy: Option<Proxy>,
    limits: &BackendLimits,
) -> Result<Connections, String> {
    let mut config = tls::client_config(output.tls.as_ref())?;
    config.alpn_protocols = match output.protocol {
        Protocol::Grpc => vec![b"h2".to_vec()],
        Protocol::Http => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    let dial = Dial::new(uri, Box::new(resolve::System::new()), config, proxy).paid_by(limits.encode.clone());
    Ok(Connections::new(dial, output.protocol, Arc::clone(&limits.connections)))
}

fn uri(signal: Signal, output: &Output) -> Result<Uri, String> {
    let Endpoint { host, port, path } = &output.endpoint;
    let scheme = if output.tls.is_some() { "https" } else { "http" };
    let path = match output.protocol {
        Protocol::Grpc => signal.grpc_method(),
        Protocol::Http => path,
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let uri = format!("{scheme}://{host}:{port}{path}");
    uri.parse().map_err(|error| format!("cannot send to {host}:{port}: {error}"))
}

fn headers(output: &Output) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let encoding = codec::header_value(output.compression);
    let standard = match output.protocol {
        Protocol::Grpc => {
            vec![("content-type", Some("application/grpc")), ("te", Some("trailers")), ("grpc-encoding", encoding)]
        }
        Protocol::Http => {
            let content_type = match &output.body {
                Body::Otlp => "application/x-protobuf",
                Body::FluentBit(settings) => weir_fluent_bit::content_type(settings.format),
            };
            vec![("content-type", Some(content_type)), ("content-encoding", encoding)]
        }
    };
    for (name, value) in standard {
        if let Some(value) = value {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    headers.insert(::http::header::USER_AGENT, HeaderValue::from_static(weir_plan::names::USER_AGENT));
    for header in &output.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes())
            .map_err(|_| format!("{:?} is not a header name", header.name))?;
        let mut value = HeaderValue::from_str(header.value.reveal())
            .map_err(|_| format!("the value of header {name} has characters that HTTP does not allow"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;

    fn exporter(protocol: Protocol, compression: Compression) -> Exporter {
        let endpoint = Endpoint { host: "localhost".into(), port: 4317, path: "/v1/traces".into() };
        let output =
            Output { protocol, body: Body::Otlp, endpoint, compression, headers: Vec::new(), oauth2: None, tls: None };
        let (encode, encoders) = (Budget::for_encoding(1 << 20), Budget::for_encoding(3 << 20));
        let pipeline = Pipeline::new(Signal::Traces, "backend", output);
        Exporter::new(&pipeline, &BackendLimits::new(encode, 1), encoders, &settings::Proxy::default()).unwrap()
    }

    /// Whatever the size of a request is, and whether it can be compressed or not.
    #[tokio::test]
    async fn what_is_made_of_a_request_is_paid_for() {
        let noise = |bytes| std::iter::repeat_with(|| fastrand::u8(..)).take(bytes).collect::<Bytes>();
        let large = noise(4 << 20);
        let requests =
            [(vec![large.clone()], false), (vec![vec![7; 4 << 20].into()], true), (vec![noise(100_000)], true)];
        for (bodies, is_small) in requests {
            for compression in [Compression::Gzip, Compression::Zstd, Compression::Snappy] {
                let exporter = exporter(Protocol::Http, compression);
                let (body, permit) = exporter.encode(bodies.clone()).await.unwrap();
                let (made, is_compressed) = (body.remaining(), body.is_compressed());
                assert!(!is_compressed || exporter.encode.used() >= made, "{compression:?}: {made} bytes");
                assert_eq!(is_compressed, is_small, "{compression:?}");
                assert_eq!(exporter.encoders.used(), 0);
                drop((body, permit));
                assert_eq!(exporter.encode.used(), 0);
            }
        }
        let exporter = exporter(Protocol::Grpc, Compression::None);
        let pieces: Vec<_> = (0..400).map(|_| noise(10_000)).collect();
        let (body, _permit) = exporter.encode(pieces.clone()).await.unwrap();
        assert_eq!((body.pieces(), exporter.encode.used()), (1 + pieces.len(), 0), "there is no room to join them");
    }
}
