//! The outcome of a request to a backend, as far as an answer shows it. What follows is not decided here.

use std::error::Error;
use std::time::Duration;

use weir_legible::{line, line_with_causes};

use super::words::LastWords;

/// How much of what a backend says is kept.
pub(super) const MAX_MESSAGE_CHARS: usize = 500;

/// Why there is no answer, as a message.
pub(super) fn message_of(error: &dyn Error) -> String {
    line_with_causes(error, MAX_MESSAGE_CHARS)
}

/// The code of what is too large for a request, whoever found that out.
pub(crate) const TOO_LARGE: &str = "too_large";

/// What became of one request to a backend.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Taken, but for `rejected` items (OTLP partial success).
    Delivered { rejected: u64, message: String },
    /// Not taken now; to be tried again, not before `hint`.
    Retry { kind: RetryKind, hint: Option<Duration>, message: String },
    /// Refused, for a reason that time alone may not mend.
    Refused(BackendRefusal),
}

/// What stood in the way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryKind {
    /// No connection: refused, DNS, TLS.
    Unreachable,
    /// No answer in time.
    Silent,
    /// The request never left: no room to encode it, no token.
    Ours,
    /// The backend was there: an answer that asks to try again, a reset.
    Answered,
}

/// An answer that refuses a request without asking to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendRefusal {
    pub(crate) about: About,
    /// gRPC status name, HTTP status, or a word of ours: `too_large`, `not_otlp`.
    pub(crate) code: String,
    /// The backend's own words, or ours.
    pub(crate) message: String,
    /// The backend asked not to be tried again before.
    pub(crate) hint: Option<Duration>,
}

/// What a refusal is about, as far as its code tells: decision 012 has the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// The items: other items may be taken.
    Data,
    /// The size of the request: a smaller one may be taken.
    Size,
    /// The backend's own state, or the items: its code does not tell which.
    Unclear,
    /// Who asks, where, or by which way (credentials, routes, proxies): no item is at fault.
    Access,
}

impl Outcome {
    /// Whether the backend said something.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Delivered { .. } | Self::Refused(_) | Self::Retry { kind: RetryKind::Answered, .. })
    }

    /// The code of a refusal.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => Some(&refusal.code),
            Self::Delivered { .. } | Self::Retry { .. } => None,
        }
    }

    /// What was said of the request, if anything was. Where the backend asked to try again, it begins with the code.
    pub(crate) fn message(&self) -> Option<&str> {
        let (Self::Delivered { message, .. }
        | Self::Retry { message, .. }
        | Self::Refused(BackendRefusal { message, .. })) = self;
        Some(message.as_str()).filter(|message| !message.is_empty())
    }

    pub(crate) fn retry(message: impl Into<String>) -> Self {
        Self::Retry { kind: RetryKind::Answered, hint: None, message: message.into() }
    }

    pub(super) fn silence(message: impl Into<String>) -> Self {
        Self::Retry { kind: RetryKind::Silent, hint: None, message: message.into() }
    }

    pub(super) fn unsent(message: impl Into<String>) -> Self {
        Self::Retry { kind: RetryKind::Ours, hint: None, message: message.into() }
    }

    pub(crate) fn refused(about: About, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Refused(BackendRefusal { about, code: code.into(), message: message.into(), hint: None })
    }

    /// The same without what the backend should not have quoted: whatever looks like a secret or like data of a person.
    /// Words of ours stay as they are, for they quote nothing.
    pub(super) fn hiding(mut self, last: &LastWords) -> Self {
        if let (true, Some(words)) = (self.is_answer(), self.message()) {
            let shown = last.hide(words);
            *self.message_mut() = shown;
        }
        self
    }

    /// The same with a message fit for people, whatever the backend, or something in front of it, put there.
    pub(super) fn legible(mut self) -> Self {
        let message = self.message_mut();
        *message = line(message, MAX_MESSAGE_CHARS);
        self
    }

    fn message_mut(&mut self) -> &mut String {
        let (Self::Delivered { message, .. }
        | Self::Retry { message, .. }
        | Self::Refused(BackendRefusal { message, .. })) = self;
        message
    }
}

impl BackendRefusal {
    /// Its code and its words; words over HTTP begin with their code already.
    pub(crate) fn cause(&self) -> String {
        let Self { code, message, .. } = self;
        if message.starts_with(code.as_str()) { message.clone() } else { format!("{code}: {message}") }
    }
}
