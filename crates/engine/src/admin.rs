//! The ports for those who run the gateway: metrics, health, and administration.
//!
//! What a port serves is a list of routes; pages of this engine and of others are served in the same way. Each port has
//! connections of its own, so a client that holds all those of one port keeps no other port from answering. A
//! connection is for one request, and not for long. When there are too many, the oldest makes place, so that the next
//! one, a probe perhaps, is answered.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::budget::{Funds, Text};
use crate::receive::Gate;
use crate::view::{Health, View};

/// Connections at once to each port.
const MAX_CONNECTIONS: usize = 32;
/// What is kept of a request, and of an answer that nobody reads.
const BUFFER_BYTES: usize = 8 * 1024;
/// For a request to arrive and its answer to be read.
const CONVERSATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Accepting rests this long after a failure.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a page is, and what shows it.
#[derive(Debug, Clone)]
pub struct Route {
    /// The path: `/backends`. One that ends in `/` stands for every path that begins with it.
    pub path: &'static str,
    /// What answers.
    pub page: Arc<dyn Page>,
}

/// Something that is shown at a path, by GET and HEAD, to those who may see it.
pub trait Page: fmt::Debug + Send + Sync {
    /// Writes the page to `body`, which pays for it. `None` when there is no room for the page; the client is then told
    /// so. The page may be asked once more, with memory from elsewhere.
    ///
    /// Everything else waits meanwhile, so a page asks nobody but the view.
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown>;
}

/// What a page is asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The whole path, as the client wrote it.
    pub path: &'a str,
    /// What follows it after `?`.
    pub query: Option<&'a str>,
    /// The engine's figures.
    pub view: &'a View,
}

/// What is said of a page beside its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The answer's status.
    pub status: StatusCode,
    /// The media type of the body.
    pub content_type: &'static str,
}

impl Shown {
    /// What was asked for, as JSON.
    pub const JSON: Self = Self { status: StatusCode::OK, content_type: "application/json" };
}

/// What serves one port.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    /// The first that stands for a path answers.
    pub(crate) routes: Arc<[Route]>,
    /// Who may see the pages; `None` if everybody.
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) view: View,
    /// What pays for pages until they are read.
    pub(crate) funds: Funds,
}

type Answer = Response<Full<Bytes>>;

impl Route {
    /// A page at a path.
    pub fn new(path: &'static str, page: impl Page + 'static) -> Self {
        Self { path, page: Arc::new(page) }
    }

    fn leads_to(&self, path: &str) -> bool {
        path == self.path || (self.path.ends_with('/') && path.starts_with(self.path))
    }
}

impl Desk {
    /// Serves until its task is aborted.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let mut conversations = JoinSet::new();
        let mut open: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            while conversations.try_join_next().is_some() {}
            open.retain(|conversation| !conversation.is_finished());
            if open.len() == MAX_CONNECTIONS {
                open.pop_front().as_ref().map(AbortHandle::abort);
                // Connections that have just come get their answer before more come.
                tokio::task::yield_now().await;
            }
            open.push_back(conversations.spawn(self.clone().converse(stream)));
        }
    }

    async fn converse(self, stream: TcpStream) {
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = self.answer(request.method(), request.uri(), request.headers());
            async move { Ok::<_, Infallible>(answer) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).keep_alive(false).max_buf_size(BUFFER_BYTES);
        let conversation = builder.serve_connection(TokioIo::new(stream), service);
        // A client that goes away, or does not, is its own business.
        let _ = tokio::time::timeout(CONVERSATION_TIMEOUT, conversation).await;
    }

    fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Answer {
        if let Some(Err(refusal)) = self.gate.as_ref().map(|gate| gate.check(headers)) {
            let text = format!("{}\n", refusal.message);
            return with(text_answer(StatusCode::UNAUTHORIZED, text), WWW_AUTHENTICATE, "Bearer");
        }
        let Some(route) = self.routes.iter().find(|route| route.leads_to(uri.path())) else {
            let paths: Vec<_> = self.routes.iter().map(|route| route.path).collect();
            return text_answer(
                StatusCode::NOT_FOUND,
                format!("nothing is at this path; look at {}\n", paths.join(", ")),
            );
        };
        if method != Method::GET && method != Method::HEAD {
            let answer = text_answer(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
            return with(answer, ALLOW, "GET, HEAD");
        }
        let asked = Asked { path: uri.path(), query: uri.query(), view: &self.view };
        let page = self.funds.find(|budget| {
            let mut body = Text::new(budget)?;
            let Shown { status, content_type } = route.page.show(&asked, &mut body)?;
            Some(answer(status, content_type, body.into_bytes()))
        });
        page.unwrap_or_else(|| {
            let text = "the memory budget is used up; try again\n";
            with(text_answer(StatusCode::SERVICE_UNAVAILABLE, text), RETRY_AFTER, "1")
        })
    }
}

/// Well as long as anybody answers.
#[derive(Debug)]
pub(crate) struct LivePage;

impl Page for LivePage {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let health = asked.view.health().as_str();
        fmt::Write::write_fmt(body, format_args!("{{\"status\":\"{health}\"}}\n")).ok()?;
        Some(Shown::JSON)
    }
}

/// Ready only when a request would be accepted.
#[derive(Debug)]
pub(crate) struct HealthPage;

impl Page for HealthPage {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let health = asked.view.health();
        let status = if health == Health::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        fmt::Write::write_fmt(body, format_args!("{{\"status\":\"{}\"}}\n", health.as_str())).ok()?;
        Some(Shown { status, ..Shown::JSON })
    }
}

fn text_answer(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, "text/plain; charset=utf-8", body.into())
}

fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    with(response, CONTENT_TYPE, content_type)
}

fn with(mut answer: Answer, name: http::HeaderName, value: &'static str) -> Answer {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
