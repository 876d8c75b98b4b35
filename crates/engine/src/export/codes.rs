//! Requests to a backend by the code of their answer, to be shown: nothing is decided by it.
//!
//! A backend may answer what it likes. Codes that are told apart are in a table, and all others are counted by their class:
//! so there are never more counters than these, and no code hides another one of the table.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_plan::Protocol;

use super::answer::Answer;
use super::grpc;
use crate::status::{Code, NAMES as GRPC};

/// HTTP statuses that are told apart, in ascending order: those of backends, and of what stands in front of them.
const HTTP: [&str; 53] = [
    "200", "201", "202", "204", "301", "302", "303", "304", "307", "308", "400", "401", "402", "403", "404", "405",
    "406", "407", "408", "409", "410", "411", "412", "413", "414", "415", "417", "421", "422", "423", "425", "426",
    "428", "429", "431", "451", "499", "500", "501", "502", "503", "504", "505", "507", "511", "520", "521", "522",
    "523", "524", "525", "526", "530",
];
/// All other HTTP statuses, by their first digit.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "other"];
/// There was no answer, or not the whole of it.
const NONE: &str = "none";

/// Where counters are: first those of gRPC, by number.
const HTTP_AT: usize = GRPC.len();
const CLASSES_AT: usize = HTTP_AT + HTTP.len();
const NONE_AT: usize = CLASSES_AT + CLASSES.len();
const COUNTERS: usize = NONE_AT + 1;

/// Requests that were sent to a backend, by the code of their answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeFigures([u64; COUNTERS]);

impl Default for CodeFigures {
    fn default() -> Self {
        Self([0; COUNTERS])
    }
}

impl CodeFigures {
    /// Codes that there were, with their requests: the names of gRPC statuses, HTTP statuses, classes of rare ones (`4xx`,
    /// and `other` above 599), and `none` for those without an answer.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = GRPC.into_iter().chain(HTTP).chain(CLASSES).chain([NONE]);
        names.zip(self.0).filter(|(_, requests)| *requests > 0)
    }
}

/// Counts since the pipeline began.
#[derive(Debug)]
pub(super) struct Codes([AtomicU64; COUNTERS]);

impl Default for Codes {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; COUNTERS])
    }
}

impl Codes {
    /// A request is sent.
    pub(super) fn sent(&self) -> CountedRequest<'_> {
        CountedRequest { codes: self, at: NONE_AT }
    }

    pub(super) fn figures(&self) -> CodeFigures {
        CodeFigures(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

/// A request under way. It is counted when this is dropped, so also when nobody waits for its answer any more.
#[derive(Debug)]
pub(super) struct CountedRequest<'a> {
    codes: &'a Codes,
    at: usize,
}

impl CountedRequest<'_> {
    /// This is the whole answer.
    pub(super) fn answered(&mut self, protocol: Protocol, answer: &Answer) {
        self.at = match (protocol, grpc::code(answer)) {
            // A success behind another HTTP status is none.
            (Protocol::Grpc, Some(code)) if code != Code::OK || answer.status == 200 => code.index(),
            _ => place(answer.status),
        };
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        self.codes.0[self.at].fetch_add(1, Ordering::Relaxed);
    }
}

/// Where the requests with this HTTP status are counted.
fn place(status: http::StatusCode) -> usize {
    let class = || CLASSES_AT + usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
    HTTP.binary_search(&status.as_str()).map_or_else(|_| class(), |at| HTTP_AT + at)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

    use super::*;

    fn answer(status: u16, grpc_status: Option<u32>) -> Answer {
        let field = |code: u32| (HeaderName::from_static("grpc-status"), HeaderValue::from(code));
        let headers: HeaderMap = grpc_status.map(field).into_iter().collect();
        Answer::of(StatusCode::from_u16(status).unwrap(), headers, Bytes::new())
    }

    fn counted(answers: &[(Protocol, u16, Option<u32>)]) -> Vec<(&'static str, u64)> {
        let codes = Codes::default();
        for (protocol, status, grpc_status) in answers {
            codes.sent().answered(*protocol, &answer(*status, *grpc_status));
        }
        codes.figures().each().collect()
    }

    #[test]
    fn requests_are_counted_by_what_the_protocol_calls_their_answer() {
        let (grpc, http) = (Protocol::Grpc, Protocol::Http);
        let answers = [(http, 503, None), (http, 200, None), (http, 200, Some(14)), (http, 503, None)];
        assert_eq!(counted(&answers), [("200", 2), ("503", 2)]);
        let answers = [(grpc, 200, Some(0)), (grpc, 200, Some(14)), (grpc, 503, Some(14)), (grpc, 200, Some(77))];
        assert_eq!(counted(&answers), [("OK", 1), ("UNKNOWN", 1), ("UNAVAILABLE", 2)]);
        let answers = [(grpc, 503, None), (grpc, 403, Some(0)), (grpc, 200, None)];
        assert_eq!(counted(&answers), [("200", 1), ("403", 1), ("503", 1)], "whoever is in front of it");
    }

    #[test]
    fn a_request_without_an_answer_is_counted() {
        let codes = Codes::default();
        drop(codes.sent());
        assert_eq!(codes.figures().each().collect::<Vec<_>>(), [("none", 1)]);
    }

    /// A backend that answers everything that there is.
    #[test]
    fn codes_of_a_hostile_backend_are_bounded_and_none_is_missing() {
        let answers: Vec<_> = (100..1000).map(|status| (Protocol::Http, status, None)).collect();
        let counted = counted(&answers);
        assert_eq!(counted.len(), HTTP.len() + CLASSES.len());
        assert_eq!(counted.iter().map(|(_, requests)| requests).sum::<u64>(), 900);
        let of = |name: &str| counted.iter().find(|(code, _)| *code == name).unwrap().1;
        assert_eq!(["503", "1xx", "2xx", "other"].map(of), [1, 100, 96, 400]);
    }
}
