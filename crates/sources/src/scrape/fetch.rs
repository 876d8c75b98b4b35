//! Pages over HTTP. Bytes are paid for as they arrive, and a page has a limit and a deadline.

use std::path::PathBuf;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use weir_engine::{MemoryPart, Permit, client_config};
use weir_plan::Tls;

use super::failure::FetchError;
use super::mesh::Certificates;
use super::negotiation::{Compressed, NOT_COMPRESSED, accepted, format};
use super::page::Format;
use super::redirect::{self, is_redirect};
use super::target::{Job, Target, shown};
use crate::download::{Connections, connections, download};

/// A target has at most so long to answer, as in Prometheus, and no longer than the interval.
const PATIENCE: Duration = Duration::from_secs(10);

/// A target may redirect this many times, as in Prometheus.
const MOST_REDIRECTS: usize = 10;

/// How long a target that is scraped every so often has to send its page.
pub(super) fn patience(interval: Duration) -> Duration {
    PATIENCE.min(interval)
}

/// Fetches pages.
#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    client: Connections,
    /// For targets in a service mesh.
    mesh: Certificates<Connections>,
    /// Why no server can be verified.
    no_roots: Option<String>,
}

/// What a page may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes at most.
    pub(super) most: usize,
    /// As many bytes as last time.
    pub(super) likely: usize,
    /// How long it may take.
    pub(super) patience: Duration,
}

/// A page, and the permit that pays for it.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) body: Vec<u8>,
    pub(super) format: Format,
    pub(super) permit: Permit,
}

impl Fetcher {
    /// `mesh`: the directory of certificates for a service mesh.
    ///
    /// # Errors
    /// When TLS cannot be used at all.
    pub(super) fn new(mesh: PathBuf) -> Result<Self, FetchError> {
        let (config, no_roots) = match client_config(Some(&Tls::default())) {
            Ok(config) => (config, None),
            Err(error) => (client_config(None).map_err(FetchError::Roots)?, Some(error)),
        };
        Ok(Self { client: connections(config), mesh: Certificates::new(mesh), no_roots })
    }

    /// Fetches a page.
    pub(super) async fn fetch(
        &self,
        target: &Target,
        limits: Limits,
        memory: &MemoryPart,
    ) -> Result<Fetched, FetchError> {
        let patience = limits.patience;
        let deadline = Instant::now() + patience;
        let answer = timeout_at(deadline, self.answer(target, patience)).await;
        let answer = answer.map_err(|_| FetchError::Silent(patience))??;
        timeout_at(deadline, page(answer, limits, memory, deadline)).await.map_err(|_| FetchError::Slow(patience))?
    }

    /// The answer that has the page.
    async fn answer(&self, target: &Target, patience: Duration) -> Result<Response<Incoming>, FetchError> {
        let (answer, url) = self.follow(target, &accepted(target), patience).await?;
        match answer.status() {
            StatusCode::OK => Ok(answer),
            status => Err(FetchError::of_status(status, &url)),
        }
    }

    /// The answer of a target that is asked for these formats, or of where it sends us; and where that is. No request has
    /// credentials, so none can go elsewhere.
    pub(super) async fn follow(
        &self,
        target: &Target,
        formats: &str,
        patience: Duration,
    ) -> Result<(Response<Incoming>, Uri), FetchError> {
        let mut url = target.url().clone();
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.ask(target, &url, (formats, patience)).await?;
            if !is_redirect(answer.status()) {
                return Ok((answer, url));
            }
            url = redirect::next(&url, answer.headers())?;
        }
        Err(FetchError::Redirects(MOST_REDIRECTS, shown(&url.to_string())))
    }

    async fn ask(
        &self,
        target: &Target,
        url: &Uri,
        (formats, patience): (&str, Duration),
    ) -> Result<Response<Incoming>, FetchError> {
        let client = self.connections_to(target, url).await?;
        let request = Request::get(url.clone())
            .header(ACCEPT, formats)
            .header(ACCEPT_ENCODING, NOT_COMPRESSED)
            .header(USER_AGENT, weir_plan::names::USER_AGENT)
            .header("x-prometheus-scrape-timeout-seconds", patience.as_secs_f64().to_string())
            .body(Empty::new())
            .map_err(|error| FetchError::Unreachable(error.to_string()))?;
        client.request(request).await.map_err(|error| FetchError::of_connection(&error, url))
    }

    /// What a target, or where it sends us, is connected with. Certificates of the mesh are shown to the target alone.
    async fn connections_to(&self, target: &Target, url: &Uri) -> Result<Connections, FetchError> {
        if target.job() == Job::SecureServices && url.host() == target.url().host() {
            let made = self.mesh.now(|tls| client_config(Some(tls)).map(connections));
            return made.await.map_err(FetchError::Mesh);
        }
        match &self.no_roots {
            Some(error) if url.scheme_str() == Some("https") => Err(FetchError::Roots(error.clone())),
            _ => Ok(self.client.clone()),
        }
    }
}

/// Reads the page that an answer has. Nothing is kept for it before it answers: a target that hangs costs no memory.
async fn page(
    answer: Response<Incoming>,
    limits: Limits,
    memory: &MemoryPart,
    deadline: Instant,
) -> Result<Fetched, FetchError> {
    let Limits { most, likely, .. } = limits;
    let (format, compressed) = (format(answer.headers())?, Compressed::of(answer.headers())?);
    let downloaded = download(answer.into_body(), (likely, most), memory, deadline).await;
    let (body, permit) = downloaded.map_err(|error| FetchError::of_page(error, most))?;
    let (body, permit) = compressed.undo(body, permit, most).await?;
    Ok(Fetched { body, format, permit })
}
