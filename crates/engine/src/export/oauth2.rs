//! Bearer tokens of one backend: fetched when there is none, kept while they are valid, replaced before they expire.
//!
//! A sick token server must not stop a pipeline that has a token: until the token expires, requests use it and wait for
//! nothing. How to ask for a token is not known here.

mod server;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_legible::Seldom;
use weir_plan::{OAuth2, PipelineId};

use crate::settings;
use server::TokenServer;

/// A token is replaced this long before it expires.
const EARLY: Duration = Duration::from_secs(30);
/// A token server that failed is not asked again for this long.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// What a token server grants: the header to send, and how long it is valid.
#[derive(Debug)]
struct Grant {
    header: HeaderValue,
    life: Duration,
}

type Granting<'a> = Pin<Box<dyn Future<Output = Result<Grant, String>> + Send + 'a>>;

/// Somebody who issues tokens.
trait Issuer: Send + Sync + fmt::Debug {
    /// A new token, or why there is none; within a bounded time.
    fn issue(&self) -> Granting<'_>;
}

/// The tokens of one backend.
#[derive(Debug)]
pub(super) struct Tokens {
    store: Arc<TokenCache>,
    /// At most one at a time; it ends with the value.
    early: Mutex<JoinSet<()>>,
}

/// What refreshes and requests share.
#[derive(Debug)]
struct TokenCache {
    /// Named in the log.
    pipeline: PipelineId,
    issuer: Box<dyn Issuer>,
    state: Mutex<State>,
    /// Held while a token is fetched: all others want the same one.
    turn: tokio::sync::Mutex<()>,
}

/// What the token server said last.
#[derive(Debug, Default)]
struct State {
    token: Option<Token>,
    /// It had no token for us, and is not asked again before this.
    failed: Option<(Instant, String)>,
    reported: Seldom,
}

#[derive(Debug)]
struct Token {
    header: HeaderValue,
    replace_at: Instant,
    expires_at: Instant,
}

impl Tokens {
    /// Those of `pipeline`, as the log calls it.
    pub(super) fn new(pipeline: PipelineId, settings: &OAuth2, proxy: &settings::Proxy) -> Result<Self, String> {
        Ok(Self::from(pipeline, Box::new(TokenServer::new(settings, proxy)?)))
    }

    fn from(pipeline: PipelineId, issuer: Box<dyn Issuer>) -> Self {
        let store = TokenCache { pipeline, issuer, state: Mutex::default(), turn: tokio::sync::Mutex::default() };
        Self { store: Arc::new(store), early: Mutex::default() }
    }

    /// The `authorization` header to send now. Requests wait for a token only while there is none that is valid.
    pub(super) async fn bearer(&self) -> Result<HeaderValue, String> {
        let Some((header, due)) = self.store.state().valid(Instant::now()) else {
            return self.store.fetch().await;
        };
        if due {
            self.replace_early();
        }
        Ok(header)
    }

    /// How long the present token is valid; nothing while there is none.
    pub(super) fn left(&self) -> Option<Duration> {
        let left = |token: &Token| token.expires_at.saturating_duration_since(Instant::now());
        self.store.state().token.as_ref().map(left)
    }

    /// Forgets a token that the backend refused, unless it was replaced meanwhile.
    pub(super) fn forget(&self, refused: &HeaderValue) {
        self.store.state().token.take_if(|token| token.header == *refused);
    }

    /// Has the token replaced while requests go on with it.
    fn replace_early(&self) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        while early.try_join_next().is_some() {}
        if early.is_empty() {
            let store = Arc::clone(&self.store);
            early.spawn(async move {
                if let Err(cause) = store.fetch().await {
                    store.report(&cause);
                }
            });
        }
    }
}

impl TokenCache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new token, or what another request found out while this one waited for its turn.
    async fn fetch(&self) -> Result<HeaderValue, String> {
        let _turn = self.turn.lock().await;
        if let Some(settled) = self.state().settled(Instant::now()) {
            return settled;
        }
        let issued = self.issuer.issue().await;
        self.state().note(issued, Instant::now())
    }

    /// Logs a failure that no waiting request will report.
    fn report(&self, cause: &str) {
        let (mut state, now) = (self.state(), Instant::now());
        let Some(left_out) = state.reported.due(now) else { return };
        let left = state.token.as_ref().map(|token| token.expires_at.saturating_duration_since(now));
        drop(state);
        let (pipeline, expires_in_s) = (&self.pipeline, left.map(|left| left.as_secs()));
        tracing::warn!(
            %pipeline,
            cause,
            expires_in_s,
            left_out,
            advice = "look at the token URL and the client of the output, and at what they say",
            "the OAuth2 token is not replaced yet; it is used until it expires"
        );
    }
}

impl State {
    /// The token if it can be used, and whether it is time to ask for the next one.
    fn valid(&self, now: Instant) -> Option<(HeaderValue, bool)> {
        let token = self.token.as_ref().filter(|token| now < token.expires_at)?;
        Some((token.header.clone(), now >= token.replace_at && self.failure(now).is_none()))
    }

    /// What is known so well that nobody asks again.
    fn settled(&self, now: Instant) -> Option<Result<HeaderValue, String>> {
        let fresh = self.token.as_ref().filter(|token| now < token.replace_at);
        let fresh = fresh.map(|token| Ok(token.header.clone()));
        fresh.or_else(|| self.failure(now).map(|error| Err(error.to_owned())))
    }

    /// The failure of a moment ago.
    fn failure(&self, now: Instant) -> Option<&str> {
        self.failed.as_ref().filter(|(until, _)| now < *until).map(|(_, error)| error.as_str())
    }

    fn note(&mut self, issued: Result<Grant, String>, now: Instant) -> Result<HeaderValue, String> {
        match issued {
            Ok(Grant { header, life }) => {
                let (replace_at, expires_at) = (now + life - EARLY.min(life / 2), now + life);
                self.token = Some(Token { header: header.clone(), replace_at, expires_at });
                self.failed = None;
                Ok(header)
            }
            Err(error) => {
                self.failed = Some((now + FAILURE_PAUSE, error.clone()));
                Err(error)
            }
        }
    }
}
