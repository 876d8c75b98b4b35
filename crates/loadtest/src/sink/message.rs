//! What a request brings: which signal in which form, and what is read from its body.

use bytes::Buf;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, Method, Request};

use super::faults::Fate;
use super::ledger::Wants;
use crate::chunks::{self, Chunks};
use crate::codec;
use crate::grpc::{self, Code};
use crate::scan::{Malformed, Scan, find_lines, find_points, records, remote_write, scan};
use crate::signal::Signal;

/// How a request came in, which decides how its answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Grpc,
    Http,
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A request of OTLP.
    Otlp,
    /// Log records as Fluent Bit's output `http` sends them.
    Records(records::Notation),
    /// Samples as Prometheus sends them.
    RemoteWrite,
}

/// Why a request is not accepted: counted under `reason`, answered with the rest.
pub(crate) struct Rejection {
    pub(crate) reason: String,
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Rejection {
    fn malformed(message: impl Into<String>) -> Self {
        Self { reason: "malformed".to_owned(), code: Code::Http(400), message: message.into() }
    }

    pub(crate) fn too_large(transport: Transport, bytes: u64, limit: u64) -> Self {
        let message = match transport {
            Transport::Grpc => format!("grpc: received message larger than max ({bytes} vs. {limit})"),
            Transport::Http => format!("request body too large: {bytes} bytes, limit {limit}"),
        };
        Self { reason: "too_large".to_owned(), code: Code::Http(413), message }
    }
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) transport: Transport,
    pub(crate) signal: Signal,
    pub(crate) form: Form,
}

/// Where records of logs are sent that are not OTLP.
const RECORDS_PATH: &str = "/";
/// Where samples are sent that are not OTLP.
const REMOTE_WRITE_PATH: &str = "/api/v1/write";

impl Route {
    /// By the path and the content type.
    pub(crate) fn of<B>(transport: Transport, request: &Request<B>) -> Result<Self, Rejection> {
        let reject =
            |code, message| Err(Rejection { reason: "unexpected".to_owned(), code: Code::Http(code), message });
        let (path_of, content_type): (fn(Signal) -> &'static str, _) = match transport {
            Transport::Grpc => (Signal::grpc_path, "application/grpc"),
            Transport::Http => (Signal::http_path, "application/x-protobuf"),
        };
        let path = request.uri().path();
        let takes_records = transport == Transport::Http && path == RECORDS_PATH;
        let takes_samples = transport == Transport::Http && path == REMOTE_WRITE_PATH;
        let signal = match Signal::ALL.into_iter().find(|signal| path_of(*signal) == path) {
            Some(signal) => signal,
            None if takes_records => Signal::Logs,
            None if takes_samples => Signal::Metrics,
            None => {
                return reject(404, format!("no service at {path}: expected {} or its likes", path_of(Signal::Traces)));
            }
        };
        if request.method() != Method::POST {
            return reject(405, format!("method {} is not POST", request.method()));
        }
        let given = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let form = match given {
            "application/json" if takes_records => Form::Records(records::Notation::Json),
            "application/x-ndjson" if takes_records => Form::Records(records::Notation::Lines),
            "application/msgpack" if takes_records => Form::Records(records::Notation::MsgPack),
            _ if takes_records => {
                let known = "application/json, application/x-ndjson or application/msgpack";
                return reject(415, format!("content type \"{given}\" is not {known}"));
            }
            _ if given.starts_with(content_type) && takes_samples => Form::RemoteWrite,
            _ if given.starts_with(content_type) => Form::Otlp,
            _ => return reject(415, format!("content type \"{given}\" is not {content_type}")),
        };
        Ok(Self { transport, signal, form })
    }
}

/// What is looked for in all requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expectations<'a> {
    /// A text that is to stand there.
    pub(crate) text: Option<&'a str>,
    /// Lines, or samples of pages.
    pub(crate) wants: Wants,
}

/// A request whose body was read.
pub(crate) struct Received<'a> {
    pub(crate) route: Route,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: Chunks,
}

/// What was read from a body.
pub(crate) struct Decoded {
    pub(crate) scan: Scan,
    /// Uncompressed.
    pub(crate) bytes: u64,
    pub(crate) lacks_text: bool,
}

impl<'a> Received<'a> {
    /// Inflates and reads it.
    pub(crate) fn decode(mut self, fate: &Fate, expectations: Expectations<'_>) -> Result<Decoded, Rejection> {
        let Expectations { text, wants } = expectations;
        let encoding = self.encoding()?;
        let Self { route, mut body, .. } = self;
        if encoding == "identity" {
            let bytes = body.remaining() as u64;
            let lacks_text = text.is_some_and(|text| !body.contains(text.as_bytes()));
            let scan = match route.form {
                Form::Otlp if wants == Wants::default() => scan(route.signal, &mut body),
                _ => route.scan(&body.copy_to_bytes(body.remaining()), wants),
            };
            let scan = scan.map_err(|err| Rejection::malformed(err.to_string()))?;
            return Ok(Decoded { scan, bytes, lacks_text });
        }
        let inflated = codec::inflate(body, encoding).map_err(Rejection::malformed)?;
        let bytes = inflated.len() as u64;
        if let Some(limit) = fate.max_request_bytes.filter(|limit| bytes > *limit) {
            return Err(Rejection::too_large(route.transport, bytes, limit));
        }
        let scan = route.scan(&inflated, wants).map_err(|err| Rejection::malformed(err.to_string()))?;
        let lacks_text = text.is_some_and(|text| !chunks::contains(&inflated, text.as_bytes()));
        Ok(Decoded { scan, bytes, lacks_text })
    }

    fn encoding(&mut self) -> Result<&'a str, Rejection> {
        let Self { route, headers, ref mut body } = *self;
        let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("identity");
        Ok(match route.transport {
            Transport::Grpc => {
                let compressed = grpc::read_prefix(body).map_err(Rejection::malformed)?;
                if compressed { header(HeaderName::from_static("grpc-encoding")) } else { "identity" }
            }
            Transport::Http => header(CONTENT_ENCODING),
        })
    }
}

impl Route {
    fn scan(self, message: &[u8], wants: Wants) -> Result<Scan, Malformed> {
        match self.form {
            Form::Records(notation) => records::scan(message, notation, wants.lines),
            Form::RemoteWrite => remote_write::scan(message, wants.pages),
            Form::Otlp => {
                let mut scan = scan(self.signal, &mut &*message)?;
                match self.signal {
                    Signal::Logs if wants.lines => scan.lines = find_lines(message)?,
                    Signal::Metrics if wants.pages => scan.samples = find_points(message)?,
                    Signal::Traces | Signal::Metrics | Signal::Logs => (),
                }
                Ok(scan)
            }
        }
    }
}
