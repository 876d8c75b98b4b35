//! The state of a backend: whether it takes data, and if not, what it says. It is for operators; nothing is decided
//! by it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What a backend does with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendState {
    /// It takes data, or no request to it has ended yet: `PipelineFigures::was_tried` tells which.
    #[default]
    Ok,
    /// It asks to try again.
    Failing,
    /// It does not answer.
    Silent,
    /// There is no connection.
    Unreachable,
    /// It is not asked: requests fail here. There is no token, no memory, or the backend cannot be set up.
    Unsent,
    /// It refuses everything, in words that ask for no other attempt.
    Refused,
}

impl BackendState {
    /// All states.
    pub const ALL: [Self; 6] = [Self::Ok, Self::Failing, Self::Silent, Self::Unreachable, Self::Unsent, Self::Refused];

    /// As metrics and pages call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failing => "failing",
            Self::Silent => "silent",
            Self::Unreachable => "unreachable",
            Self::Unsent => "unsent",
            Self::Refused => "refused",
        }
    }
}

/// How a backend stands, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendFigures {
    /// What it does with what it is sent.
    pub state: BackendState,
    /// gRPC status name or HTTP status of a refusal; otherwise empty.
    pub code: String,
    /// Its own words, or those of whoever could not reach it.
    pub message: String,
    /// For how long it has been in this state.
    pub lasts: Duration,
    /// In which words it last refused something for good, or so that nothing asks for another attempt; empty if it never
    /// did. It may have taken data since.
    pub last_refusal: String,
}

impl BackendFigures {
    /// Code and message as one text.
    pub fn words(&self) -> String {
        words(&self.code, &self.message)
    }
}

fn words(code: &str, message: &str) -> String {
    if code.is_empty() || message.starts_with(code) { message.to_owned() } else { format!("{code}: {message}") }
}

/// A state, since when, and the backend's own words.
#[derive(Debug)]
struct Standing {
    state: BackendState,
    code: String,
    message: String,
    since: Instant,
    last_refusal: String,
}

/// The standing of one backend, as the last answers show it.
#[derive(Debug)]
pub(crate) struct Stands {
    now: Mutex<Standing>,
}

impl Stands {
    /// Nothing is known yet.
    pub(crate) fn new(now: Instant) -> Self {
        let [code, message, last_refusal] = [const { String::new() }; 3];
        Self { now: Mutex::new(Standing { state: BackendState::Ok, code, message, since: now, last_refusal }) }
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it stands now.
    pub(crate) fn figures(&self) -> BackendFigures {
        let Standing { state, code, message, since, last_refusal } = &*self.lock();
        BackendFigures {
            state: *state,
            code: code.clone(),
            message: message.clone(),
            lasts: since.elapsed(),
            last_refusal: last_refusal.clone(),
        }
    }

    /// The state alone.
    pub(crate) fn state(&self) -> BackendState {
        self.lock().state
    }

    /// It refused something, and may take everything else.
    pub(crate) fn refused(&self, code: &str, message: &str) {
        self.lock().last_refusal = words(code, message);
    }

    /// The backend is in this state; returns the state before, and for how long it was in that.
    pub(crate) fn becomes(
        &self,
        state: BackendState,
        code: &str,
        message: &str,
        now: Instant,
    ) -> (BackendState, Duration) {
        let mut standing = self.lock();
        let before = (standing.state, now.saturating_duration_since(standing.since));
        if standing.state != state {
            standing.since = now;
        }
        if (standing.state, standing.code.as_str()) != (state, code) {
            standing.state = state;
            code.clone_into(&mut standing.code);
        }
        if standing.message != message {
            message.clone_into(&mut standing.message);
        }
        before
    }
}
