//! Pages over HTTP. Bytes are paid for as they arrive, and a page has a limit and a deadline.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;
use weir_engine::{Inlet, Permit, client_config};
use weir_plan::Tls;

use super::page::Format;

/// What we can read, what we like best first.
const ACCEPTED: &str = "application/openmetrics-text;version=1.0.0;q=0.8,\
                        text/plain;version=1.0.0;escaping=allow-utf-8;q=0.7,text/plain;version=0.0.4;q=0.6,*/*;q=0.1";

/// A page is paid for in steps of this many bytes.
const STEP: usize = 64 << 10;

/// Fetches pages.
#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    /// Why no server can be verified.
    no_roots: Option<String>,
}

/// A page, and the permit that pays for it.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) body: Vec<u8>,
    pub(super) format: Format,
    pub(super) permit: Permit,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no whole page within {0:?}")]
    Slow(Duration),
    /// The answer is not a page.
    #[error("answered {0}")]
    Status(StatusCode),
    /// The page is in no format that is known.
    #[error("the content type {0:?} is none of metrics")]
    ContentType(String),
    /// The page is too large.
    #[error("the page is larger than {0} bytes")]
    TooLarge(usize),
    /// There is no memory for the page now.
    #[error("no room in --memory for the page")]
    NoMemory,
    /// The system's certificates cannot be read.
    #[error("cannot be verified: {0}")]
    Roots(String),
}

impl Fetcher {
    /// # Errors
    /// When TLS cannot be used at all.
    pub(super) fn new() -> Result<Self, FetchError> {
        let (config, no_roots) = match client_config(Some(&Tls::default())) {
            Ok(config) => (config, None),
            Err(error) => (client_config(None).map_err(FetchError::Roots)?, Some(error)),
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build(connector);
        Ok(Self { client, no_roots })
    }

    /// Fetches a page of at most `most` bytes.
    pub(super) async fn fetch(
        &self,
        url: &Uri,
        (most, patience): (usize, Duration),
        inlet: &Inlet,
    ) -> Result<Fetched, FetchError> {
        timeout(patience, self.page(url, (most, patience), inlet)).await.unwrap_or(Err(FetchError::Slow(patience)))
    }

    async fn page(&self, url: &Uri, (most, patience): (usize, Duration), inlet: &Inlet) -> Result<Fetched, FetchError> {
        if let Some(error) = self.no_roots.as_ref().filter(|_| url.scheme_str() == Some("https")) {
            return Err(FetchError::Roots(error.clone()));
        }
        let mut permit = inlet.reserve(STEP).await.ok_or(FetchError::NoMemory)?;
        let request = Request::get(url.clone())
            .header(ACCEPT, ACCEPTED)
            .header(USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")))
            .header("x-prometheus-scrape-timeout-seconds", patience.as_secs_f64().to_string())
            .body(Empty::new())
            .map_err(|error| FetchError::Unreachable(error.to_string()))?;
        let answer = self.client.request(request).await.map_err(|error| FetchError::Unreachable(causes(&error)))?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status()));
        }
        let format = format(answer.headers())?;
        let (mut body, mut stream) = (Vec::with_capacity(STEP), answer.into_body());
        while let Some(frame) = stream.frame().await {
            let frame = frame.map_err(|error| FetchError::Unreachable(causes(&error)))?;
            let Ok(data) = frame.into_data() else { continue };
            let length = body.len() + data.len();
            if length > most {
                return Err(FetchError::TooLarge(most));
            }
            if length > body.capacity() {
                let capacity = (2 * body.capacity()).max(length).min(most);
                // While it grows, it is there twice.
                if !permit.cover(body.capacity() + capacity) {
                    return Err(FetchError::NoMemory);
                }
                body.reserve_exact(capacity - body.len());
            }
            body.extend_from_slice(&data);
        }
        Ok(Fetched { body, format, permit })
    }
}

/// What a page is written in. Without a word about it, it is Prometheus's own format.
fn format(headers: &HeaderMap) -> Result<Format, FetchError> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Format::Text) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/openmetrics-text" => Ok(Format::OpenMetrics),
        "" | "text/plain" => Ok(Format::Text),
        _ => Err(FetchError::ContentType(text.into_owned())),
    }
}

/// An error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        words = format!("{words}: {inner}");
        cause = inner.source();
    }
    words
}
