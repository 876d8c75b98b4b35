//! Reads a backend's answer as far as an OTLP answer goes, and no further. Only the header fields that mean something
//! here are kept. Answers of token servers are read the same way.
//!
//! Only an answer that can be one of OTLP says that data was taken. The page of a login, of a captive portal or of a
//! proxy is no such answer, whatever its status.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use weir_plan::Body;

use super::connections::HTTP1_BUFFER;
use super::{About, Outcome, grpc};
use crate::budget::{Budget, Permit};
use crate::codec::{self, Encoding, InflateError, InflateLimits};
use crate::status::Code;

/// An answer of OTLP holds a status and perhaps a sentence. A longer answer is not read to its end, and its connection
/// is closed.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// So much of an answer is not paid for. With as many unanswered requests as there may be, that is 256 KiB per
/// pipeline.
const FREE_BYTES: usize = 4 * 1024;
/// The header fields that are read. All others are dropped at once: a head of 8 KiB takes 30 KiB.
const FIELDS: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::RETRY_AFTER,
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
];
/// These fields cannot be longer together: heads over HTTP/1.1 are the longest.
const MAX_FIELD_BYTES: usize = HTTP1_BUFFER;
/// What a long answer pays for.
pub(super) const ROOM_BYTES: usize = MAX_ANSWER_BYTES + MAX_FIELD_BYTES;
/// Frames of an answer. Without this limit there could be empty ones without end.
const MAX_FRAMES: usize = 1024;

/// The code of a success that no OTLP backend gave.
const NOT_OTLP: &str = "not_otlp";

/// The code of a success that came before the request was sent.
const TOO_EARLY: &str = "too_early";

/// An answer that is over.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) trailers: HeaderMap,
    /// At most [`MAX_ANSWER_BYTES`].
    pub(super) body: Bytes,
    /// There was more of it than is read.
    pub(super) is_cut: bool,
    /// Pays for a long one.
    room: Option<Permit>,
}

impl Answer {
    /// One that was read.
    #[cfg(test)]
    pub(super) fn of(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self { status, headers, trailers: HeaderMap::new(), body, is_cut: false, room: None }
    }

    /// Reads an answer to its end, or until it is longer than an answer of OTLP may be. `budget` pays for a long one.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn read(response: Response<Incoming>, budget: &Budget) -> Result<Self, String> {
        let (head, mut incoming) = response.into_parts();
        let (status, headers) = (head.status, fields(&head.headers));
        drop(head.headers);
        let taken: usize = headers.values().map(HeaderValue::len).sum();
        let trailers = HeaderMap::new();
        let mut answer = Self { status, headers, trailers, body: Bytes::new(), is_cut: false, room: None };
        answer.pay(taken, budget)?;
        let mut body = BytesMut::new();
        for _ in 0..MAX_FRAMES {
            let Some(frame) = incoming.frame().await else {
                answer.body = body.freeze();
                return Ok(answer);
            };
            match frame.map_err(|error| format!("cannot read the answer: {error}"))?.into_data() {
                Ok(data) => {
                    answer.pay(taken + body.len() + data.len(), budget)?;
                    let kept = data.len().min(MAX_ANSWER_BYTES - body.len());
                    body.extend_from_slice(&data[..kept]);
                    if kept < data.len() {
                        break;
                    }
                }
                Err(frame) => answer.trailers = fields(&frame.into_trailers().unwrap_or_default()),
            }
        }
        answer.is_cut = true;
        answer.body = body.freeze();
        Ok(answer)
    }

    /// Sees to it that `bytes` of it are paid for.
    fn pay(&mut self, bytes: usize, budget: &Budget) -> Result<(), String> {
        if bytes > FREE_BYTES && self.room.is_none() {
            self.room = budget.try_take(ROOM_BYTES);
            return self.room.as_ref().map(|_| ()).ok_or_else(|| "no memory to read the answer".to_owned());
        }
        Ok(())
    }

    /// Whether the backend does not know who we are: HTTP 401, or UNAUTHENTICATED in gRPC.
    pub(super) fn is_unauthenticated(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED || grpc::code(self) == Some(Code::UNAUTHENTICATED)
    }

    /// The media type of the body in lower case, without parameters.
    pub(super) fn content_type(&self) -> Option<String> {
        let value = self.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }
}

/// Those that are read, in buffers of their own.
fn fields(all: &HeaderMap) -> HeaderMap {
    let copy = |name: HeaderName| HeaderValue::from_bytes(all.get(&name)?.as_bytes()).ok().map(|value| (name, value));
    FIELDS.into_iter().filter_map(copy).collect()
}

/// `bytes` of an answer as they were before they were compressed, as `encoding` says. `None` when that is not known for
/// want of memory; the answer's sender is not to blame.
///
/// # Errors
/// What is wrong with the answer.
pub(super) fn inflate(encoding: Option<&str>, bytes: &Bytes, budget: &Budget) -> Result<Option<Bytes>, String> {
    let name = encoding.unwrap_or_default();
    let encoding = Encoding::from_header(name).ok_or_else(|| format!("an answer in the encoding {name:?}"))?;
    if encoding == Encoding::Identity {
        return Ok(Some(bytes.clone()));
    }
    let Some(mut permit) = budget.try_take(FREE_BYTES) else { return Ok(None) };
    let limits = InflateLimits { bytes: MAX_ANSWER_BYTES, ratio: usize::MAX };
    match codec::inflate(encoding, bytes, limits, &mut permit) {
        Ok(plain) => Ok(Some(Bytes::from(plain))),
        Err(InflateError::NoMemory) => Ok(None),
        Err(error) => Err(format!("an answer that cannot be decompressed ({error})")),
    }
}

/// What the response message of a success says.
pub(super) fn taken(response: Result<Option<weir_otlp::PartialSuccess>, weir_otlp::Error>) -> Outcome {
    match response {
        Ok(Some(partial)) => Outcome::Delivered {
            rejected: u64::try_from(partial.rejected).unwrap_or_default(),
            message: partial.message,
        },
        Ok(None) => Outcome::Delivered { rejected: 0, message: String::new() },
        Err(error) => not_otlp(&format!("a success whose body is no OTLP response ({error})")),
    }
}

/// A success that cannot be about the data, because that was still on its way.
pub(super) fn too_early(body: &Body) -> Outcome {
    match body {
        Body::Otlp => not_otlp("a success before the request was sent"),
        Body::FluentBit(_) => Outcome::refused(About::Access, TOO_EARLY, "a success before the request was sent"),
    }
}

/// A success that says nothing about the data; `what` is what was answered.
pub(super) fn not_otlp(what: &str) -> Outcome {
    let message =
        format!("the answer is not one of an OTLP backend: {what}; check the endpoint, and what is in front of it");
    Outcome::refused(About::Access, NOT_OTLP, message)
}
