//! What bytes mean, read in two ways: by prost, and through the views.

mod common;
mod logs;
mod metrics;
mod traces;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::{DecodeError, Message as _};
use weir_otlp::common::Message;
use weir_otlp::cursor::Field;
use weir_otlp::{Counts, Limits, Signal};

/// Limits that no generated request reaches.
pub(crate) const LIMITS: Limits = Limits { max_depth: 99, max_items: 1 << 20 };

/// An export request of any signal, as prost knows it.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Traces(ExportTraceServiceRequest),
    Metrics(ExportMetricsServiceRequest),
    Logs(ExportLogsServiceRequest),
}

impl Request {
    pub(crate) fn signal(&self) -> Signal {
        match self {
            Self::Traces(_) => Signal::Traces,
            Self::Metrics(_) => Signal::Metrics,
            Self::Logs(_) => Signal::Logs,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Traces(request) => request.encode_to_vec(),
            Self::Metrics(request) => request.encode_to_vec(),
            Self::Logs(request) => request.encode_to_vec(),
        }
    }

    pub(crate) fn try_decode(signal: Signal, bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(match signal {
            Signal::Traces => Self::Traces(ExportTraceServiceRequest::decode(bytes)?),
            Signal::Metrics => Self::Metrics(ExportMetricsServiceRequest::decode(bytes)?),
            Signal::Logs => Self::Logs(ExportLogsServiceRequest::decode(bytes)?),
        })
    }

    #[track_caller]
    pub(crate) fn decode(signal: Signal, bytes: &[u8]) -> Self {
        Self::try_decode(signal, bytes).unwrap()
    }

    /// Reads a request through the views, every field of every message.
    pub(crate) fn through_views(signal: Signal, bytes: &[u8]) -> Self {
        match signal {
            Signal::Traces => Self::Traces(traces::request(bytes)),
            Signal::Metrics => Self::Metrics(metrics::request(bytes)),
            Signal::Logs => Self::Logs(logs::request(bytes)),
        }
    }

    /// What prost counts in a request.
    pub(crate) fn counts(&self) -> Counts {
        let (items, resources, scopes) = match self {
            Self::Traces(request) => traces::counts(request),
            Self::Metrics(request) => metrics::counts(request),
            Self::Logs(request) => logs::counts(request),
        };
        let number = |count: usize| u32::try_from(count).unwrap();
        Counts { items: number(items), resources: number(resources), scopes: number(scopes) }
    }
}

/// Compares requests by their encoding, so that NaN equals NaN.
#[track_caller]
pub(crate) fn assert_same(left: &Request, right: &Request) {
    assert!(left.encode() == right.encode(), "requests differ:\n{left:#?}\n{right:#?}");
}

/// Compares requests as text, in which every NaN is the same: JSON keeps no payload of it.
#[track_caller]
pub(crate) fn assert_same_in_json(left: &Request, right: &Request) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"));
}

/// Field numbers that lead from a request to its items, one level after the other.
pub(crate) fn levels(signal: Signal) -> &'static [&'static [u32]] {
    match signal {
        // Resources, scopes, and spans or log records.
        Signal::Traces | Signal::Logs => &[&[1], &[2], &[2]],
        // Resources, scopes, metrics, the data of a metric by its type, data points.
        Signal::Metrics => &[&[1], &[2], &[2], &[5, 7, 9, 10, 11], &[1]],
    }
}

/// The messages of a message in the fields with these numbers, in wire order.
pub(crate) fn children<'a>(message: Message<'a>, numbers: &'static [u32]) -> impl Iterator<Item = Message<'a>> {
    let is_child = move |field: &Field<'_>| numbers.contains(&field.number);
    message.fields().filter(is_child).filter_map(move |field| message.inner(&field))
}

/// Calls back with each message on the way to the items, items too: the messages that hold it, outermost first, and
/// itself.
pub(crate) fn walk<'a>(signal: Signal, request: &'a [u8], visit: &mut impl FnMut(&[Message<'a>])) {
    fn inside<'a>(path: &mut Vec<Message<'a>>, levels: &[&'static [u32]], visit: &mut impl FnMut(&[Message<'a>])) {
        visit(path);
        let (Some((numbers, deeper)), Some(&message)) = (levels.split_first(), path.last()) else { return };
        for child in children(message, numbers) {
            path.push(child);
            inside(path, deeper, visit);
            path.pop();
        }
    }
    inside(&mut vec![Message::request(request)], levels(signal), visit);
}
