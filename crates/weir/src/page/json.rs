//! What the pages that take questions have in common: answers in JSON, and errors in a sentence.

use std::io::Write as _;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use weir_engine::Text;
use weir_engine::admin::Shown;
use weir_engine::taps::TapError;
use weir_otlp::{Limits, Signal};

use super::redact::redact;

/// What was asked cannot be done.
pub(super) struct Refusal {
    status: StatusCode,
    error: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    pub(super) fn wrong(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(super) fn show(&self, body: &mut Text) -> Option<Shown> {
        show(body, &json!({"error": self.error}))?;
        Some(Shown { status: self.status, ..Shown::JSON })
    }
}

impl From<TapError> for Refusal {
    fn from(error: TapError) -> Self {
        let status = match &error {
            TapError::Wrong(_) => StatusCode::BAD_REQUEST,
            TapError::TooMany | TapError::Busy | TapError::Searching | TapError::NoMemory => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Self::new(status, error.to_string())
    }
}

/// Writes an answer.
pub(super) fn show(body: &mut Text, answer: &impl Serialize) -> Option<Shown> {
    serde_json::to_writer(&mut *body, answer).ok()?;
    body.write_all(b"\n").ok()?;
    Some(Shown::JSON)
}

/// The values of what stands in a query, in the order of the names that a path knows.
pub(super) fn parameters<'a, const KNOWN: usize>(
    query: Option<&'a str>,
    known: [&str; KNOWN],
) -> Result<[Option<&'a str>; KNOWN], Refusal> {
    let mut values = [None; KNOWN];
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let at = known.iter().position(|known| *known == name).ok_or_else(|| {
            let takes = known.join(" and ");
            Refusal::wrong(format!("there is no parameter {name:?}: this path takes {takes}"))
        })?;
        values[at] = Some(value);
    }
    Ok(values)
}

/// The whole number that a parameter is, if it was given.
pub(super) fn whole(name: &str, value: Option<&str>) -> Result<Option<u64>, Refusal> {
    let wrong = |value: &str| Refusal::wrong(format!("{name} must be a whole number, not {value:?}"));
    value.map(|value| value.parse().map_err(|_| wrong(value))).transpose()
}

/// Of a field that is true unless a client says otherwise.
pub(super) fn yes() -> bool {
    true
}

/// A request as a document.
pub(super) fn document(signal: Signal, request: &[u8], redacts: bool) -> Value {
    let json = weir_otlp::to_json(signal, request, &Limits::default()).ok();
    let mut document = json.and_then(|json| serde_json::from_slice(&json.text).ok()).unwrap_or(Value::Null);
    if redacts {
        redact(&mut document);
    }
    document
}
