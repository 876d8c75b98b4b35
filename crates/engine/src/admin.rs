//! The ports for those who run the gateway: metrics, health, and administration.
//!
//! What a port serves is a list of routes; pages of this engine and of others are served in the same way. Each port has
//! connections of its own, so a client that holds all those of one port keeps no other port from answering. A
//! connection is for one request, and not for long. When there are too many, the oldest gives way, so that the next
//! one, a probe perhaps, is answered.

mod readers;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::{AbortHandle, JoinSet, block_in_place, spawn_blocking};

use crate::budget::{Funds, Permit, Text};
use crate::division::ADMIN_TLS_CONNECTIONS;
use crate::receive::{Admitted, Gate};
use crate::view::{Health, View};
pub use readers::{Reader, Readers};

/// The target of log lines about who looks at telemetry. They are logged whatever level is asked for.
pub const AUDIT: &str = "audit";

/// Connections at once to each port.
const MAX_CONNECTIONS: usize = 32;
/// What is kept of a request, and of an answer that nobody reads.
const BUFFER_BYTES: usize = 8 * 1024;
const NO_MEMORY: &str = "the memory budget is used up; try again\n";
/// What is taken of what a client sends.
const MOST_POSTED: usize = 64 * 1024;
/// For a request to arrive and its answer to be read.
const CONVERSATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Of pages that [make documents](Page::makes_documents).
static DOCUMENTS: Semaphore = Semaphore::const_new(1);
/// In which a browser says whether the page that asks is of the same origin.
const SEC_FETCH_SITE: &str = "sec-fetch-site";
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

/// Something that is shown at a path to those who may see it.
pub trait Page: fmt::Debug + Send + Sync {
    /// The methods that it takes.
    fn methods(&self) -> &'static [Method] {
        READING
    }

    /// Whether everybody may see it, even at a port that wants a token: it has nothing of this process.
    fn is_public(&self) -> bool {
        false
    }

    /// Whether it makes documents that nobody pays for: those of telemetry may take hundreds of times the room of what
    /// they are made of. No two such pages are made at the same time in a process, and each is made on a thread for
    /// blocking work, as that may take long.
    fn makes_documents(&self) -> bool {
        false
    }

    /// Writes the page to `body`, which pays for it. `None` when there is no room for the page; the client is then told
    /// so. A page that begins something reserves room for its answer before.
    ///
    /// Everything else may wait meanwhile, so a page asks nobody but the view.
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown>;
}

/// Of a page that only shows something.
pub const READING: &[Method] = &[Method::GET, Method::HEAD];

/// What a page is asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// One of the page's methods.
    pub method: &'a Method,
    /// What a client sent with POST: JSON, at most 64 KiB.
    pub body: &'a [u8],
    /// Who asks.
    pub from: Reader,
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
        // Those with TLS are set aside for.
        let has_tls = self.gate.as_ref().is_some_and(|gate| gate.wants_tls());
        let most = if has_tls { ADMIN_TLS_CONNECTIONS } else { MAX_CONNECTIONS };
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            while conversations.try_join_next().is_some() {}
            open.retain(|conversation| !conversation.is_finished());
            if open.len() == most {
                open.pop_front().as_ref().map(AbortHandle::abort);
                // Connections that have just come get their answer before more come.
                tokio::task::yield_now().await;
            }
            open.push_back(conversations.spawn(self.clone().converse(stream, peer.ip())));
        }
    }

    async fn converse(self, stream: TcpStream, peer: IpAddr) {
        let gate = self.gate.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let desk = self.clone();
            async move { Ok::<_, Infallible>(desk.answer(request, peer).await) }
        });
        let conversation = async {
            let Some(gate) = gate else { return serve(stream, service, std::future::pending()).await };
            let (era, tls) = gate.rules_now();
            let Some(tls) = tls else { return serve(stream, service, gate.until_over(era)).await };
            tokio::select! {
                shaken = tls.shake_hands(stream) => {
                    if let Some(stream) = shaken {
                        serve(stream, service, gate.until_over(era)).await;
                    }
                }
                () = gate.until_over(era) => {}
            }
        };
        // A client that goes away, or does not, is its own business.
        let _ = tokio::time::timeout(CONVERSATION_TIMEOUT, conversation).await;
    }

    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Answer {
        let (head, incoming) = request.into_parts();
        let route = self.routes.iter().find(|route| route.leads_to(head.uri.path()));
        let Admitted { token, edition } = match self.admit(&head.headers, route) {
            Ok(admitted) => admitted,
            Err(refusal) => return *refusal,
        };
        let Some(route) = route else {
            let paths: Vec<_> = self.routes.iter().map(|route| route.path).collect();
            return text_answer(
                StatusCode::NOT_FOUND,
                format!("nothing is at this path; look at {}\n", paths.join(", ")),
            );
        };
        if !route.page.methods().contains(&head.method) {
            return not_allowed(route.page.methods());
        }
        let body = match head.method {
            Method::POST => self.read(&head.headers, incoming).await,
            _ => Ok((Vec::new(), None)),
        };
        let (body, paid) = match body {
            Ok(body) => body,
            Err((status, text)) => return text_answer(status, text),
        };
        let makes_documents = route.page.makes_documents();
        let alone = if makes_documents { DOCUMENTS.acquire().await.ok() } else { None };
        let question = Question {
            page: Arc::clone(&route.page),
            method: head.method,
            uri: head.uri,
            body,
            _paid: paid,
            _alone: alone,
            from: Reader { peer, token, edition },
            view: self.view.clone(),
            funds: self.funds.clone(),
        };
        if makes_documents {
            // Once it is made, a page cannot be given up: a client that is hung up on makes no room for another.
            return spawn_blocking(move || question.answer()).await.unwrap_or_else(|_| failed());
        }
        // What shows telemetry may take long; others have a worker meanwhile.
        let is_many = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if self.gate.is_some() && is_many { block_in_place(|| question.answer()) } else { question.answer() }
    }

    /// Which token this client has, if it needs one to see what is at the path; or why it may not see it.
    ///
    /// Where clients are not known, only this machine can connect; but the page of a foreign site in a browser on this
    /// machine can, too: under a name of its own that it has pointed here, or with a picture of this address, whose
    /// answer it cannot read. The browser says so.
    fn admit(&self, headers: &HeaderMap, route: Option<&Route>) -> Result<Admitted, Box<Answer>> {
        let is_public = route.is_some_and(|route| route.page.is_public());
        let Some(gate) = self.gate.as_ref().filter(|_| !is_public) else { return Ok(Admitted::default()) };
        if !gate.knows_clients() && !headers.get(HOST).is_none_or(is_here) {
            let text =
                "without a token or a certificate, only names of this machine are answered: localhost, or an address\n";
            return Err(Box::new(text_answer(StatusCode::MISDIRECTED_REQUEST, text)));
        }
        if !gate.knows_clients() && headers.get(SEC_FETCH_SITE).is_some_and(is_foreign) {
            let text = "without a token or a certificate, pages of other sites are not answered\n";
            return Err(Box::new(text_answer(StatusCode::FORBIDDEN, text)));
        }
        gate.check(headers).map_err(|refusal| {
            let text = format!("{}\n", refusal.message);
            Box::new(with(text_answer(StatusCode::UNAUTHORIZED, text), WWW_AUTHENTICATE, "Bearer"))
        })
    }

    /// Reads what a client sends with POST, which is paid for before. It has to say that it is JSON: so the page of a
    /// foreign site cannot send it without asking the browser.
    async fn read(
        &self,
        headers: &HeaderMap,
        incoming: Incoming,
    ) -> Result<(Vec<u8>, Option<Permit>), (StatusCode, String)> {
        let is_json = |value: &HeaderValue| {
            value
                .to_str()
                .is_ok_and(|value| value.split(';').next().is_some_and(|kind| kind.trim() == "application/json"))
        };
        if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send it as application/json\n".to_owned()));
        }
        let permit = self.funds.find(|budget| budget.try_take(MOST_POSTED));
        let permit = permit.ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, NO_MEMORY.to_owned()))?;
        let body = whole(Limited::new(incoming, MOST_POSTED)).await.map_err(|error| {
            let text = format!("cannot read what was sent, of which at most {MOST_POSTED} bytes are taken: {error}\n");
            (StatusCode::BAD_REQUEST, text)
        })?;
        Ok((body, Some(permit)))
    }
}

/// All of what a client sends, in one buffer, which has all the room that is paid for. A frame would keep what it was
/// read into, and takes some forty bytes beside; a frame may be a byte.
async fn whole(mut body: Limited<Incoming>) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let mut bytes = Vec::with_capacity(MOST_POSTED);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// What a client asks of a page, and what is needed to answer it.
struct Question {
    page: Arc<dyn Page>,
    method: Method,
    uri: Uri,
    body: Vec<u8>,
    /// Pays for the body.
    _paid: Option<Permit>,
    /// No other page makes documents meanwhile, if this one does.
    _alone: Option<SemaphorePermit<'static>>,
    from: Reader,
    view: View,
    funds: Funds,
}

impl Question {
    fn answer(self) -> Answer {
        self.show().unwrap_or_else(no_memory)
    }

    /// `None` without memory.
    fn show(&self) -> Option<Answer> {
        let Self { method, uri, body, from, view, .. } = self;
        let asked = Asked { method, body, from: *from, path: uri.path(), query: uri.query(), view };
        let mut text = Text::new(&self.funds)?;
        let Shown { status, content_type } = self.page.show(&asked, &mut text)?;
        Some(answer(status, content_type, text.into_bytes()))
    }
}

/// Serves one request; none if `closed` comes first.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: impl Service<Request<Incoming>, Response = Answer, Error = Infallible>,
    closed: impl Future<Output = ()>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).keep_alive(false).max_buf_size(BUFFER_BYTES);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = closed => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
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

/// Whether a host is one that only this machine has, or an address.
fn is_here(host: &HeaderValue) -> bool {
    let Some(authority) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Whether a browser asks for the page of another origin.
fn is_foreign(site: &HeaderValue) -> bool {
    site == "cross-site" || site == "same-site"
}

fn no_memory() -> Answer {
    with(text_answer(StatusCode::SERVICE_UNAVAILABLE, NO_MEMORY), RETRY_AFTER, "1")
}

fn failed() -> Answer {
    text_answer(StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be made; the log says why\n")
}

fn not_allowed(methods: &[Method]) -> Answer {
    let allowed: Vec<_> = methods.iter().map(Method::as_str).collect();
    let allowed = allowed.join(", ");
    let mut answer = text_answer(StatusCode::METHOD_NOT_ALLOWED, format!("only {allowed} are served here\n"));
    answer.headers_mut().extend(HeaderValue::try_from(allowed).map(|allowed| (ALLOW, allowed)));
    answer
}

fn text_answer(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, "text/plain; charset=utf-8", body.into())
}

fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let response = with(response, CONTENT_TYPE, content_type);
    // Whatever telemetry says, a browser runs nothing but the page's own files, and shows the page in no other.
    let response = with(response, X_CONTENT_TYPE_OPTIONS, "nosniff");
    with(response, CONTENT_SECURITY_POLICY, "default-src 'self'; img-src data:; frame-ancestors 'none'")
}

fn with(mut answer: Answer, name: http::HeaderName, value: &'static str) -> Answer {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
