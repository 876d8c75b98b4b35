//! OTLP receivers: gRPC and HTTP, on either port, within limits.
//!
//! A request passes `admit -> inflate -> validate and count -> intake`; each step can refuse it, and a refusal says
//! what was wrong and, when it is worth trying again, when. What happens to accepted data is the intake's business.

mod body;
mod gate;
mod grpc;
mod http;
mod large_reads;
mod refusal;
mod reply;
mod server;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use weir_otlp::Limits;
use weir_plan::Signal;

pub(crate) use gate::Gate;
pub(crate) use refusal::{REASONS, Reason, Refusal};
use reply::Reply;
pub(crate) use server::{Server, ServerLimits};

use crate::budget::{Budget, Permit};
use crate::buffer::{self, Buffer};
use crate::codec::{self, Encoding, InflateLimits};
use crate::intake::{Arrived, Intake, Verdict};

/// How long a request may wait for room in the memory budget before it is refused.
const ADMIT_PATIENCE: Duration = Duration::from_millis(250);

/// A body may become this many times larger when it is decompressed. The load test's repeated attributes reach 50 to
/// 200, depending on the compressor; what is beyond 500 is a bomb.
const MAX_RATIO: usize = 500;

/// The two ways in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Grpc,
    Http,
}

/// A counter for each signal, in the order of [`Signal::ALL`].
pub(crate) type BySignal = [AtomicU64; Signal::ALL.len()];

/// What receivers count, per transport.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Items answered OK.
    pub(crate) accepted: BySignal,
    /// Items answered with a request to send them again.
    pub(crate) refused: BySignal,
    /// Requests refused, by [`REASONS`].
    pub(crate) refusals: [AtomicU64; REASONS.len()],
}

/// Both transports' counters, and the connections'.
#[derive(Debug, Default)]
pub(crate) struct ReceiverStats {
    pub(crate) grpc: Counters,
    pub(crate) http: Counters,
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    /// TLS handshakes that failed.
    pub(crate) handshakes_failed: AtomicU64,
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

/// A message as it was read: what it is, and the permit that pays for it.
struct Received {
    signal: Signal,
    peer: Option<IpAddr>,
    bytes: Vec<u8>,
    /// So many bytes are before the first one; none but of plain protobuf.
    front: usize,
    permit: Permit,
    encoding: Encoding,
    format: Format,
}

/// Takes requests of both transports.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) intake: Arc<Intake>,
    pub(crate) budget: Budget,
    pub(crate) gate: Gate,
    pub(crate) stats: Arc<ReceiverStats>,
    pub(crate) body_timeout: Duration,
}

impl Receiver {
    /// Answers one request; never fails, a refusal is an answer too.
    async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Option<IpAddr>,
    ) -> Result<Response<Reply>, Infallible> {
        Ok(match transport(request.headers()) {
            Transport::Grpc => grpc::answer(&self, request, peer).await,
            Transport::Http => http::answer(&self, request, peer).await,
        })
    }

    /// Refuses, before any of it is read, what may not be sent or what no pipeline is there for: a client that is told so
    /// can tell its user.
    fn check(&self, signal: Signal, headers: &HeaderMap) -> Result<(), Refusal> {
        self.gate.check(headers)?;
        if self.intake.serves(signal) {
            return Ok(());
        }
        let message = format!("no pipeline for {} is configured", signal.name());
        Err(Refusal::unsupported(StatusCode::NOT_FOUND, message))
    }

    fn max_request_bytes(&self) -> usize {
        self.intake.max_request_bytes()
    }

    /// Takes room for a body of `declared` bytes before any of it is buffered.
    async fn admit(&self, declared: usize) -> Result<Permit, Refusal> {
        let limit = self.max_request_bytes();
        if declared > limit {
            return Err(Refusal::too_large(declared, limit));
        }
        self.budget.take(declared, ADMIT_PATIENCE).await.ok_or_else(Refusal::no_memory)
    }

    /// Room in front of a body of `declared` bytes, paid for by `permit`: of what is inflated or converted first, another
    /// body is made.
    fn front(declared: usize, encoding: Encoding, format: Format, permit: &mut Permit) -> usize {
        let stays = encoding == Encoding::Identity && format == Format::Protobuf;
        if stays { buffer::front_for(declared, permit) } else { 0 }
    }

    /// From a received message to the verdict about its data.
    async fn ingest(&self, received: Received, transport: Transport) -> Result<(), Refusal> {
        let (signal, peer) = (received.signal, received.peer);
        let (body, items) = self.decode(received)?;
        if items == 0 {
            return Ok(());
        }
        let counters = self.stats.of(transport);
        let arrived = Arrived::now(signal, body, items, peer);
        match self.intake.accept(arrived).await {
            Verdict::Secured => {
                counters.accepted[signal as usize].fetch_add(items, Ordering::Relaxed);
                Ok(())
            }
            Verdict::NoMemory => {
                counters.refused[signal as usize].fetch_add(items, Ordering::Relaxed);
                Err(Refusal::no_memory())
            }
            Verdict::TooLarge(message) => Err(Refusal::too_large_to_process(message)),
            Verdict::Refused(retry_after) => {
                counters.refused[signal as usize].fetch_add(items, Ordering::Relaxed);
                let draining = self.intake.is_draining();
                Err(if draining { Refusal::draining(retry_after) } else { Refusal::full(retry_after) })
            }
        }
    }

    /// Valid protobuf bytes that carry their own permit, and how many items are in them.
    fn decode(&self, received: Received) -> Result<(Buffer, u64), Refusal> {
        let Received { signal, mut bytes, front, mut permit, encoding, format, peer: _ } = received;
        if encoding != Encoding::Identity {
            let limits = InflateLimits { bytes: self.max_request_bytes(), ratio: MAX_RATIO };
            bytes = codec::inflate(encoding, &bytes, limits, &mut permit)?;
            permit.shrink_to(bytes.capacity());
        }
        let limits = Limits::default();
        if format == Format::Json {
            // Every field costs its name in JSON: protobuf is shorter, but for some negative enum values.
            let room = bytes.len().saturating_add(bytes.len() / 4).min(self.max_request_bytes());
            if !permit.grow(room) {
                return Err(Refusal::no_memory());
            }
            bytes = weir_otlp::from_json(signal, &bytes, &limits, room).map_err(Refusal::malformed)?;
        }
        let body = Buffer::new(bytes, front, permit);
        let counts = weir_otlp::validate(signal, &body, &limits).map_err(Refusal::malformed)?;
        Ok((body, u64::from(counts.items)))
    }

    fn count_refusal(&self, transport: Transport, reason: Reason) {
        self.stats.of(transport).refusals[reason as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn transport(headers: &HeaderMap) -> Transport {
    let content_type = headers.get(::http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    // application/grpc-web is another protocol.
    match content_type.and_then(|value| value.strip_prefix("application/grpc")) {
        Some(rest) if rest.is_empty() || rest.starts_with(['+', ';']) => Transport::Grpc,
        _ => Transport::Http,
    }
}
