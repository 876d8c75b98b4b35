//! OTLP receivers: gRPC and HTTP, on either port, within limits.
//!
//! A request passes `admit -> inflate -> validate and count -> inlet`; each step can refuse it, and a refusal says
//! what was wrong and, when it is worth trying again, when. What happens to accepted data is not known here.

mod body;
mod crowd;
mod gate;
mod grpc;
mod heads;
mod http;
mod large_reads;
mod load;
mod refusal;
mod reply;
mod server;
mod streams;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::{HeaderMap, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::Instant;
use weir_legible::Seldom;
use weir_otlp::Limits;
use weir_plan::Signal;

use body::BodyReader;
pub(crate) use gate::{ADMIN, Admitted, Gate, OTLP_PORTS};
pub(crate) use load::Load;
pub use refusal::Lack;
pub(crate) use refusal::{REASONS, Reason, Refusal};
use reply::Reply;
pub(crate) use server::{Server, ServerLimits};
use streams::Stream;

use crate::budget::{Budget, Funds, Permit};
use crate::buffer::Buffer;
use crate::clock::millis;
use crate::codec::{self, Encoding, InflateLimits};
use crate::counters::BySignal;
use crate::histogram::Histogram;
use crate::inlet::{Inlet, InputKind, Origin, Request, Verdict};

/// What a request costs until it is answered, whatever its body: its stream, its task, its place in line.
pub(crate) const REQUEST_BYTES: usize = 6 * 1024;

/// A body may become this many times larger when it is decompressed. The load test's repeated attributes reach 50 to
/// 200, depending on the compressor. Anything beyond 500 is a bomb.
const MAX_RATIO: usize = 500;

/// The two ways in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Grpc,
    Http,
}

/// What receivers count, per transport.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Items answered OK.
    pub(crate) accepted: BySignal,
    /// Items answered with a request to send them again.
    pub(crate) refused: BySignal,
    /// Requests answered OK that were not empty, but had no item of their signal.
    pub(crate) itemless: BySignal,
    /// Requests refused, by [`REASONS`].
    pub(crate) refusals: [AtomicU64; REASONS.len()],
    /// Of these, those that are to come again because there was no room, in the order of [`Lack::ALL`].
    pub(crate) turned_away: [BySignal; Lack::ALL.len()],
    /// From a request's head to its answer, for each signal.
    pub(crate) answers: [Histogram; Signal::ALL.len()],
}

/// Both transports' counters, and the connections'.
#[derive(Debug, Default)]
pub(crate) struct ReceiverStats {
    pub(crate) grpc: Counters,
    pub(crate) http: Counters,
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    /// Told to go away because they were old, or because some who could connect when they came may not do so any more.
    pub(crate) connections_retired: AtomicU64,
    /// TLS handshakes that failed.
    pub(crate) handshakes_failed: AtomicU64,
    itemless_reported: Mutex<Seldom>,
    crowd_reported: Mutex<Seldom>,
}

impl ReceiverStats {
    pub(crate) fn of(&self, transport: Transport) -> &Counters {
        match transport {
            Transport::Grpc => &self.grpc,
            Transport::Http => &self.http,
        }
    }
}

/// The encoding of a request's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Protobuf,
    Json,
}

/// A request, as far as its head tells. The head itself is not kept, because it may be large.
#[derive(Debug, Clone, Copy)]
struct Call {
    signal: Signal,
    peer: IpAddr,
    encoding: Encoding,
    format: Format,
    /// The length of the body, where the head tells it.
    declared: Option<usize>,
}

impl Call {
    /// Whether its message goes on as the bytes that arrive. Otherwise another body is made of them.
    fn stays(&self) -> bool {
        self.encoding == Encoding::Identity && self.format == Format::Protobuf
    }
}

/// The work on a request, which ends with its answer; boxed, because the future is large and tasks are moved several
/// times on their way.
type Answering = Pin<Box<dyn Future<Output = Result<Response<Reply>, Infallible>> + Send>>;

/// Takes requests of both transports.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) inlet: Inlet,
    /// Pays for large reads of connections.
    pub(crate) budget: Budget,
    /// What pays for streams.
    pub(crate) funds: Funds,
    pub(crate) gate: Gate,
    pub(crate) stats: Arc<ReceiverStats>,
    pub(crate) body_timeout: Duration,
    /// Where connections live shorter the busier the process is.
    pub(crate) load: Option<Load>,
}

impl Receiver {
    /// Answers one request. It never fails: a refusal is an answer, too. The head is read and dropped before this
    /// returns, because a client may send very many of them at once.
    fn handle(self: &Arc<Self>, request: ::http::Request<Incoming>, peer: IpAddr, stream: Stream) -> Answering {
        let (receiver, started) = (Arc::clone(self), Instant::now());
        let (head, body) = request.into_parts();
        let (transport, format) = (transport(&head.headers), http::format(&head.headers));
        let call = match transport {
            Transport::Grpc => grpc::call(self, &head, peer),
            Transport::Http => http::call(self, &head, format, peer),
        };
        Box::pin(async move {
            let signal = call.as_ref().map(|call| call.signal).ok();
            let result = match call {
                Ok(call) => receiver.admit(transport, call, body, &stream).await,
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) = &result {
                receiver.count_refusal(transport, refusal.reason);
                tracing::debug!(
                    %peer,
                    signal = signal.map(Signal::name),
                    reason = refusal.reason.as_str(),
                    code = refusal.code_over(transport),
                    cause = refusal.own_words(),
                    took_ms = millis(started.elapsed()),
                    "a request of a client is refused"
                );
            }
            if let Some(signal) = signal {
                let counters = receiver.stats.of(transport);
                counters.answers[signal as usize].observe(started.elapsed());
                if let Some(lack) = result.as_ref().err().and_then(|refusal| refusal.reason.lack()) {
                    counters.turned_away[lack as usize][signal as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
            let response = match transport {
                Transport::Grpc => grpc::response(result),
                // Errors before the content type is known are answered in protobuf, the default encoding of OTLP/HTTP.
                Transport::Http => http::response(result, format.unwrap_or(Format::Protobuf)),
            };
            Ok(reply::keep_open(response, stream))
        })
    }

    /// A request whose stream nothing pays for. Its connection ends at once.
    fn abandon(&self, request: &::http::Request<Incoming>) -> Answering {
        self.count_refusal(transport(request.headers()), Reason::NoMemory);
        Box::pin(std::future::pending())
    }

    /// From the head of a request to the verdict about its data.
    async fn admit(
        &self,
        transport: Transport,
        call: Call,
        body: Incoming,
        stream: &Stream,
    ) -> Result<Signal, Refusal> {
        let paid = match self.inlet.try_reserve(REQUEST_BYTES) {
            Some(paid) => Some(paid),
            None => stream.unread_while(self.inlet.reserve(REQUEST_BYTES)).await,
        };
        let paid = paid.ok_or_else(Refusal::no_memory)?;
        // What is kept on the rest of the way is a part of this: none of it is there before.
        Box::pin(self.read_body(transport, call, body, stream, paid)).await
    }

    async fn read_body(
        &self,
        transport: Transport,
        mut call: Call,
        body: Incoming,
        stream: &Stream,
        mut paid: Permit,
    ) -> Result<Signal, Refusal> {
        let permit = paid.part(0).ok_or_else(Refusal::no_memory)?;
        let body = BodyReader::new(body, stream, self.body_timeout, permit);
        let body = match transport {
            Transport::Grpc => grpc::read(self, &mut call, body).await?,
            Transport::Http => http::read(self, &call, body).await?,
        };
        self.decode_and_offer(call, body, transport).await?;
        Ok(call.signal)
    }

    /// Refuses, before any of it is read, a request that may not be sent or that no pipeline is there for. A client
    /// that is told so can tell its user.
    fn check(&self, signal: Signal, headers: &HeaderMap) -> Result<(), Refusal> {
        self.gate.check(headers)?;
        if self.inlet.is_open(signal, InputKind::Otlp) {
            return Ok(());
        }
        Err(not_served(signal))
    }

    fn max_request_bytes(&self) -> usize {
        self.inlet.max_request_bytes()
    }

    fn check_length(&self, declared: usize) -> Result<(), Refusal> {
        let limit = self.max_request_bytes();
        if declared > limit { Err(Refusal::too_large(declared, limit)) } else { Ok(()) }
    }

    /// From a body that was read to the verdict about its data.
    async fn decode_and_offer(&self, call: Call, body: Buffer, transport: Transport) -> Result<(), Refusal> {
        let (signal, request) = (call.signal, self.decode(call, body, transport)?);
        let (items, counters) = (request.items(), self.stats.of(transport));
        match self.inlet.offer(request).await {
            Verdict::Secured => {
                counters.accepted[signal as usize].fetch_add(items, Ordering::Relaxed);
                Ok(())
            }
            // The signal had a pipeline when the request began, and has none now.
            Verdict::NotServed => Err(not_served(signal)),
            Verdict::NoMemory => {
                counters.refused[signal as usize].fetch_add(items, Ordering::Relaxed);
                Err(Refusal::no_memory())
            }
            Verdict::TooLarge(message) => Err(Refusal::too_large_to_process(message)),
            Verdict::Refused(obstacle, retry_after) => {
                counters.refused[signal as usize].fetch_add(items, Ordering::Relaxed);
                let draining = self.inlet.is_draining();
                Err(if draining { Refusal::draining(retry_after) } else { Refusal::obstructed(obstacle, retry_after) })
            }
        }
    }

    /// The valid request that a body stands for.
    fn decode(&self, call: Call, mut body: Buffer, transport: Transport) -> Result<Request, Refusal> {
        let Call { signal, peer, encoding, format, .. } = call;
        if encoding != Encoding::Identity {
            let limits = InflateLimits { bytes: self.max_request_bytes(), ratio: MAX_RATIO };
            body = body.becomes(|body, permit| codec::inflate(encoding, body, limits, permit))?;
        }
        let is_empty = match format {
            Format::Protobuf => body.is_empty(),
            // An object without a quote has no names, so it is empty.
            Format::Json => !body.contains(&b'"'),
        };
        if format == Format::Json {
            body = body.becomes(|body, permit| self.read_json(signal, body, permit))?;
        }
        let request = Request::check(signal, body, Origin::client(peer))?;
        if request.items() == 0 && !is_empty {
            self.count_itemless(transport, signal);
        }
        Ok(request)
    }

    fn read_json(&self, signal: Signal, body: &[u8], permit: &mut Permit) -> Result<Vec<u8>, Refusal> {
        // Every field costs its name in JSON. Protobuf is shorter, except for some negative enum values.
        let room = body.len().saturating_add(body.len() / 4).min(self.max_request_bytes());
        // A string with escapes exists once more while it is read.
        let escaped = if body.contains(&b'\\') { body.len() } else { 0 };
        if !permit.grow(room.saturating_add(escaped)) {
            return Err(Refusal::no_memory());
        }
        Ok(weir_otlp::from_json(signal, body, &Limits::default(), room)?)
    }

    /// OTLP wants OK for unknown fields and for resources without items. Their sender may have meant something else.
    fn count_itemless(&self, transport: Transport, signal: Signal) {
        self.stats.of(transport).itemless[signal as usize].fetch_add(1, Ordering::Relaxed);
        let due = self.stats.itemless_reported.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now());
        if let Some(left_out) = due {
            let path = match transport {
                Transport::Grpc => signal.grpc_method(),
                Transport::Http => signal.http_path(),
            };
            tracing::warn!(
                path,
                left_out,
                advice = "look at the path that its client is set to",
                "a request that is not empty has no items that belong here: perhaps they are of another signal, or of OTLP \
                 before 1.0; it is answered OK, and counted in weir_receiver_itemless_requests_total"
            );
        }
    }

    fn count_refusal(&self, transport: Transport, reason: Reason) {
        self.stats.of(transport).refusals[reason as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn not_served(signal: Signal) -> Refusal {
    Refusal::unsupported(StatusCode::NOT_FOUND, format!("no pipeline for {} is configured", signal.name()))
}

fn transport(headers: &HeaderMap) -> Transport {
    let content_type = headers.get(::http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    // application/grpc-web is another protocol.
    match content_type.and_then(|value| value.strip_prefix("application/grpc")) {
        Some(rest) if rest.is_empty() || rest.starts_with(['+', ';']) => Transport::Grpc,
        _ => Transport::Http,
    }
}
