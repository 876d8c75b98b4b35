//! Why a request was not taken, and how that is said in gRPC and in HTTP.

use std::fmt::Display;
use std::time::Duration;

use http::StatusCode;

use super::Transport;
use crate::codec::InflateError;
use crate::inlet::{Obstacle, retry_after};
use crate::status::{Code, NAMES};

/// Kinds of refusal, as they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Malformed,
    TooLarge,
    NoMemory,
    Full,
    Draining,
    SlowBody,
    Unsupported,
    Aborted,
    Unauthenticated,
    Disk,
    Busy,
    Repeated,
}

impl Reason {
    /// As it is counted.
    pub(crate) fn as_str(self) -> &'static str {
        REASONS[self as usize]
    }

    /// What there is no room in, if the request is as it should be and is turned away for that.
    pub(crate) fn lack(self) -> Option<Lack> {
        match self {
            Self::NoMemory => Some(Lack::Memory),
            Self::Full => Some(Lack::Pipelines),
            Self::Disk => Some(Lack::Disk),
            Self::Busy => Some(Lack::Turns),
            Self::Malformed
            | Self::TooLarge
            | Self::Draining
            | Self::SlowBody
            | Self::Unsupported
            | Self::Aborted
            | Self::Unauthenticated
            | Self::Repeated => None,
        }
    }
}

/// What there is no room in for requests that are turned away, and would be taken if there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// The memory.
    Memory,
    /// A pipeline, which has as much as it may keep.
    Pipelines,
    /// The disk: it is full, fails or does not answer.
    Disk,
    /// The turns of large requests.
    Turns,
}

impl Lack {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Pipelines, Self::Disk, Self::Turns];
}

/// Label values, in the order of [`Reason`].
pub(crate) const REASONS: [&str; 12] = [
    "malformed",
    "too_large",
    "no_memory",
    "pipelines_full",
    "draining",
    "slow_body",
    "unsupported",
    "aborted",
    "unauthenticated",
    "disk",
    "busy",
    "repeated",
];

/// A refusal as it is answered.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) code: Code,
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// When the client may try again; `None` when that would not help.
    pub(crate) retry_after: Option<Duration>,
}

/// The part of a client's own text that an answer repeats. It is short, because answers are not paid for.
pub(super) fn beginning(text: &str) -> &str {
    const MOST_BYTES: usize = 100;
    let end = (0..=MOST_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

impl Refusal {
    /// The code of the answer, as it is called over this transport.
    pub(super) fn code_over(&self, transport: Transport) -> &str {
        match transport {
            Transport::Grpc => NAMES[self.code.index()],
            Transport::Http => self.status.as_str(),
        }
    }

    /// Its words, unless they may repeat what is in the data or in a header: these are for the client alone.
    pub(super) fn own_words(&self) -> Option<&str> {
        let may_repeat = self.reason == Reason::Malformed || self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE;
        (!may_repeat).then_some(self.message.as_str())
    }

    /// The bytes are malformed. To send them again will not help.
    pub(super) fn malformed(error: impl Display) -> Self {
        Self::lasting(Reason::Malformed, Code::INVALID_ARGUMENT, StatusCode::BAD_REQUEST, error.to_string())
    }

    pub(super) fn too_large(declared: usize, limit: usize) -> Self {
        // Exporters, ours included, look for "too large" to find out that they shall send less at once.
        let message = format!("request too large: {declared} bytes, the limit is {limit}; send smaller batches");
        Self::lasting(Reason::TooLarge, Code::RESOURCE_EXHAUSTED, StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// What has to be added to it does not fit.
    pub(super) fn too_large_to_process(message: String) -> Self {
        let message = format!("request too large: {message}; send smaller batches");
        Self::lasting(Reason::TooLarge, Code::RESOURCE_EXHAUSTED, StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    pub(super) fn no_memory() -> Self {
        let message = "the memory budget is used up; try again".to_owned();
        Self::passing(Reason::NoMemory, message, retry_after())
    }

    /// It cannot be taken now, and nothing of it is kept.
    pub(super) fn obstructed(obstacle: Obstacle, retry_after: Duration) -> Self {
        let (reason, message) = match obstacle {
            Obstacle::Full => (Reason::Full, "a pipeline has no room for more data now; try again"),
            Obstacle::DiskFails => (
                Reason::Disk,
                "the disk is full or cannot be written to, and not every backend took the data in time; try again",
            ),
            Obstacle::DiskHangs => {
                (Reason::Disk, "the disk does not answer, and not every backend took the data in time; try again")
            }
            Obstacle::Busy => (Reason::Busy, "many large requests are being processed; try again"),
            Obstacle::Repeated => (
                Reason::Repeated,
                "the same data points came before, in a request that is not decided or was refused; try again",
            ),
        };
        Self::passing(reason, message.to_owned(), retry_after)
    }

    pub(super) fn draining(retry_after: Duration) -> Self {
        Self::passing(Reason::Draining, "shutting down; send to another instance".to_owned(), retry_after)
    }

    pub(super) fn slow_body(timeout: Duration) -> Self {
        let message = format!("the request's body did not arrive within {timeout:?}");
        Self::lasting(Reason::SlowBody, Code::DEADLINE_EXCEEDED, StatusCode::REQUEST_TIMEOUT, message)
    }

    pub(super) fn aborted(error: impl Display) -> Self {
        let message = format!("the request's body ended early: {error}");
        Self::lasting(Reason::Aborted, Code::CANCELLED, StatusCode::BAD_REQUEST, message)
    }

    /// The client does not identify itself in a way that is accepted.
    pub(super) fn unauthenticated(message: &str) -> Self {
        Self::lasting(Reason::Unauthenticated, Code::UNAUTHENTICATED, StatusCode::UNAUTHORIZED, message.to_owned())
    }

    /// Something that this server does not do. `status` tells HTTP clients which kind of thing.
    pub(super) fn unsupported(status: StatusCode, message: String) -> Self {
        Self::lasting(Reason::Unsupported, Code::UNIMPLEMENTED, status, message)
    }

    fn lasting(reason: Reason, code: Code, status: StatusCode, message: String) -> Self {
        Self { reason, code, status, message, retry_after: None }
    }

    /// UNAVAILABLE and 503: every stock client tries these again, and both may carry a hint.
    fn passing(reason: Reason, message: String, retry_after: Duration) -> Self {
        let (code, status) = (Code::UNAVAILABLE, StatusCode::SERVICE_UNAVAILABLE);
        Self { reason, code, status, message, retry_after: Some(retry_after) }
    }
}

impl From<weir_otlp::Error> for Refusal {
    fn from(error: weir_otlp::Error) -> Self {
        if error.is_too_much() { Self::too_large_to_process(error.to_string()) } else { Self::malformed(error) }
    }
}

impl From<InflateError> for Refusal {
    fn from(error: InflateError) -> Self {
        match error {
            InflateError::NoMemory => Self::no_memory(),
            InflateError::Corrupt(_) => Self::malformed(error),
            InflateError::TooLarge { .. } | InflateError::TooDense { .. } => Self::lasting(
                Reason::TooLarge,
                Code::RESOURCE_EXHAUSTED,
                StatusCode::PAYLOAD_TOO_LARGE,
                error.to_string(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_turned_away_is_counted_by_what_there_is_no_room_in() {
        let cases = [
            (Obstacle::Full, Some(Lack::Pipelines)),
            (Obstacle::DiskFails, Some(Lack::Disk)),
            (Obstacle::DiskHangs, Some(Lack::Disk)),
            (Obstacle::Busy, Some(Lack::Turns)),
            (Obstacle::Repeated, None),
        ];
        for (obstacle, lack) in cases {
            assert_eq!(Refusal::obstructed(obstacle, Duration::ZERO).reason.lack(), lack, "{obstacle:?}");
        }
        assert_eq!(Refusal::no_memory().reason.lack(), Some(Lack::Memory));
        assert_eq!(Refusal::too_large(2, 1).reason.lack(), None, "it will never be taken");
        assert!(Lack::ALL.iter().enumerate().all(|(index, lack)| *lack as usize == index));
    }
}
