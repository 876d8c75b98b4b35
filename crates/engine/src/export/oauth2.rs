//! Bearer tokens by the OAuth2 client-credentials grant (RFC 6749 4.4), fetched when needed and kept until shortly
//! before they expire.

use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Mutex;
use tokio::time::Instant;
use weir_plan::{OAuth2, Tls};

/// A token is replaced this long before it expires.
const EARLY: Duration = Duration::from_secs(30);
/// The life of a token whose server names none.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);
/// No token is kept longer, whatever its server says.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);
/// A token server that failed is not asked again for this long.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// How long the token server may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Token answers are small.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The tokens of one backend.
#[derive(Debug)]
pub(super) struct Tokens {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    settings: OAuth2,
    state: Mutex<State>,
}

/// What the token server said last.
#[derive(Debug, Default)]
struct State {
    token: Option<Token>,
    /// It had no token for us, and is not asked again before this.
    failed: Option<(Instant, String)>,
}

#[derive(Debug, Clone)]
struct Token {
    header: HeaderValue,
    replace_at: Instant,
}

/// The answer of a token server (RFC 6749 5.1).
#[derive(serde::Deserialize)]
struct Answer {
    access_token: String,
    expires_in: Option<u64>,
}

impl Tokens {
    pub(super) fn new(settings: &OAuth2) -> Result<Self, String> {
        let tls = settings.token_url.starts_with("https:").then(Tls::default);
        let config = super::tls::client_config(tls.as_ref())?;
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, settings: settings.clone(), state: Mutex::default() })
    }

    /// The `authorization` header to send now; requests that need a new token wait for one fetch.
    pub(super) async fn bearer(&self) -> Result<HeaderValue, String> {
        // Held while a token is fetched, on purpose: the others want the same token.
        let mut state = self.state.lock().await;
        if let Some(token) = state.token.as_ref().filter(|token| Instant::now() < token.replace_at) {
            return Ok(token.header.clone());
        }
        if let Some((_, error)) = state.failed.as_ref().filter(|(until, _)| Instant::now() < *until) {
            return Err(error.clone());
        }
        let fetched = tokio::time::timeout(TIMEOUT, self.fetch()).await;
        match fetched.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs()))) {
            Ok(token) => {
                *state = State { token: Some(token.clone()), failed: None };
                Ok(token.header)
            }
            Err(cause) => {
                // The URL may hold credentials: its host is enough to find the culprit.
                let uri = self.settings.token_url.parse::<Uri>().unwrap_or_default();
                let error = format!("cannot get a token from {}: {cause}", uri.host().unwrap_or("the token server"));
                state.failed = Some((Instant::now() + FAILURE_PAUSE, error.clone()));
                Err(error)
            }
        }
    }

    /// Forgets a token that the backend refused, unless it was replaced meanwhile.
    pub(super) async fn forget(&self, refused: &HeaderValue) {
        let mut state = self.state.lock().await;
        if state.token.as_ref().is_some_and(|token| token.header == *refused) {
            state.token = None;
        }
    }

    async fn fetch(&self) -> Result<Token, String> {
        let OAuth2 { client_id, client_secret, scopes, params, token_url } = &self.settings;
        let mut form = String::from("grant_type=client_credentials");
        if !scopes.is_empty() {
            append(&mut form, "scope", &scopes.join(" "));
        }
        params.iter().for_each(|(name, value)| append(&mut form, name, value.reveal()));
        // RFC 6749 2.3.1: identifier and secret are form-encoded before they become basic credentials.
        let credentials = format!("{}:{}", encode(client_id.reveal()), encode(client_secret.reveal()));
        let basic = base64::engine::general_purpose::STANDARD.encode(credentials);
        let request = Request::post(token_url)
            .header("authorization", format!("Basic {basic}"))
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json")
            .body(Full::new(Bytes::from(form)))
            .map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| super::chain(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if !status.is_success() {
            return Err(format!("the token server answered {status}"));
        }
        token(&body)
    }
}

fn token(body: &[u8]) -> Result<Token, String> {
    // The body may hold a token: its text never becomes part of a message.
    let answer: Answer =
        serde_json::from_slice(body).map_err(|_| "the answer is not a JSON object with access_token".to_owned())?;
    let mut header = HeaderValue::from_str(&format!("Bearer {}", answer.access_token))
        .map_err(|_| "the token has characters that HTTP does not allow".to_owned())?;
    header.set_sensitive(true);
    let life = answer.expires_in.map_or(DEFAULT_LIFE, Duration::from_secs).min(LONGEST_LIFE);
    Ok(Token { header, replace_at: Instant::now() + life - EARLY.min(life / 2) })
}

fn append(form: &mut String, name: &str, value: &str) {
    form.push('&');
    form.push_str(&encode(name));
    form.push('=');
    form.push_str(&encode(value));
}

/// application/x-www-form-urlencoded.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                out.push_str(&format!("{byte:02X}"));
            }
        }
    }
    out
}
