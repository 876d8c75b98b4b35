//! A kubelet over HTTP: its address, who may ask it, and whom we believe to be it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use tokio::task;
use tokio::time::{Instant, timeout_at};
use weir_engine::{Inlet, Permit, client_config};
use weir_plan::{Secret, Tls};

use crate::download::{Connections, DownloadError, causes, connections, download};

/// Bytes of a page at most. That of a node with hundreds of pods has a few MiB.
const PAGE_LIMIT: usize = 64 << 20;

/// Files with tokens and certificates are small; what is larger is something else.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where a kubelet is, and how it is asked.
#[derive(Debug, Clone)]
pub struct Kubelet {
    /// `https://HOST:PORT`
    pub url: Uri,
    /// A file with the token to send; `None` sends none. It is read again each time, and only sent over TLS.
    pub token: Option<PathBuf>,
    /// A file with the certificates of the authorities that must have signed that of the kubelet; `None` believes
    /// everybody to be it. It is read again each time.
    pub ca: Option<PathBuf>,
}

/// Asks a kubelet.
#[derive(Debug)]
pub(super) struct Client {
    kubelet: Kubelet,
    /// What connections are made with, and the certificates that this trusts.
    connections: Option<(Option<String>, Connections)>,
}

/// A page, and the permit that pays for it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) body: Vec<u8>,
    _permit: Permit,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("cannot read {file}: {cause}", file = .0.display(), cause = .1)]
    File(PathBuf, std::io::Error),
    #[error("{file} holds no token that can be sent", file = .0.display())]
    Token(PathBuf),
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("no whole page {path} within {patience:?}")]
    Slow { path: &'static str, patience: Duration },
    #[error("{path}: the kubelet rejected the token (401 Unauthorized): check --kubelet-token")]
    Unknown { path: &'static str },
    #[error(
        "{path}: the kubelet denied access (403 Forbidden): grant get on nodes/stats and nodes/pods, or nodes/proxy"
    )]
    Forbidden { path: &'static str },
    #[error("{path}: the kubelet answered {status}")]
    Status { path: &'static str, status: StatusCode },
    #[error("the page {path} is larger than {most} bytes", most = PAGE_LIMIT)]
    TooLarge { path: &'static str },
    #[error("no room in --memory for the page {path}: give Weir more memory")]
    NoMemory { path: &'static str },
}

impl Client {
    pub(super) fn new(kubelet: Kubelet) -> Self {
        Self { kubelet, connections: None }
    }

    /// Fetches pages at these paths, one after the other.
    pub(super) async fn pages<const N: usize>(
        &mut self,
        paths: [&'static str; N],
        patience: Duration,
        inlet: &Inlet,
    ) -> Result<[Page; N], AskError> {
        let Kubelet { url, token, ca } = self.kubelet.clone();
        let is_secure = url.scheme_str() == Some("https");
        let token = token.filter(|_| is_secure);
        // A file system may hang, which keeps nobody else waiting.
        let read = task::spawn_blocking(move || -> Result<_, AskError> {
            let ca = ca.as_deref().map(text).transpose()?;
            Ok((ca, token.as_deref().map(bearer).transpose()?))
        });
        let (ca, bearer) = read.await.map_err(|error| AskError::Unreachable(error.to_string()))??;
        let connections = self.connections(ca)?;
        let mut pages = Vec::with_capacity(N);
        for path in paths {
            let deadline = Instant::now() + patience;
            let page = page(&connections, &url, (path, bearer.as_ref()), inlet, deadline);
            let page = timeout_at(deadline, page).await.unwrap_or(Err(AskError::Slow { path, patience }))?;
            pages.push(page);
        }
        pages.try_into().map_err(|_| AskError::Unreachable("a page is missing".to_owned()))
    }

    /// What was used before, if the same authorities are trusted.
    fn connections(&mut self, ca: Option<String>) -> Result<Connections, AskError> {
        if let Some((known, connections)) = &self.connections
            && *known == ca
        {
            return Ok(connections.clone());
        }
        let tls = Tls { insecure_skip_verify: ca.is_none(), ca_pem: ca.as_deref().map(Into::into), ..Tls::default() };
        let config = client_config(Some(&tls)).map_err(AskError::Tls)?;
        let client = connections(config);
        self.connections = Some((ca, Connections::clone(&client)));
        Ok(client)
    }
}

async fn page(
    connections: &Connections,
    kubelet: &Uri,
    (path, bearer): (&'static str, Option<&HeaderValue>),
    inlet: &Inlet,
    deadline: Instant,
) -> Result<Page, AskError> {
    let uri = format!("{}{path}", kubelet.to_string().trim_end_matches('/'));
    let mut request = Request::get(uri).header(USER_AGENT, weir_plan::names::USER_AGENT);
    if let Some(bearer) = bearer {
        request = request.header(AUTHORIZATION, bearer);
    }
    let request = request.body(Empty::new()).map_err(|error| AskError::Unreachable(error.to_string()))?;
    let unreachable = |error: &dyn std::error::Error| AskError::Unreachable(causes(error));
    let answer = connections.request(request).await.map_err(|error| unreachable(&error))?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => return Err(AskError::Unknown { path }),
        StatusCode::FORBIDDEN => return Err(AskError::Forbidden { path }),
        status => return Err(AskError::Status { path, status }),
    }
    match download(answer.into_body(), (0, PAGE_LIMIT), inlet, deadline).await {
        Ok((body, permit)) => Ok(Page { body, _permit: permit }),
        Err(DownloadError::Broken(error, _)) => Err(unreachable(&error)),
        Err(DownloadError::TooLarge) => Err(AskError::TooLarge { path }),
        Err(DownloadError::NoMemory) => Err(AskError::NoMemory { path }),
    }
}

fn bearer(file: &Path) -> Result<HeaderValue, AskError> {
    let token = Secret::new(text(file)?);
    let token = token.reveal().trim();
    let value = HeaderValue::try_from(format!("Bearer {token}")).ok().filter(|_| !token.is_empty());
    let mut value = value.ok_or_else(|| AskError::Token(file.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn text(file: &Path) -> Result<String, AskError> {
    let mut text = String::new();
    let read = File::open(file).and_then(|open| open.take(MAX_FILE_BYTES).read_to_string(&mut text));
    read.map_err(|error| AskError::File(file.to_owned(), error))?;
    Ok(text)
}
