//! The targets as a server: one port, a path for each.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::args::{PageFaults, PageFormat};
use super::page::Page;
use super::report::TargetReport;
use crate::accept;
use crate::ids::IdSet;

/// How much of a page is handed to a connection at once: less than it buffers before it waits for its client.
const CHUNK_BYTES: usize = 128 << 10;

/// All targets.
#[derive(Debug)]
pub(super) struct Targets {
    targets: Vec<Mutex<Target>>,
    format: PageFormat,
    faults: PageFaults,
    draws: Mutex<Draws>,
    closed: AtomicBool,
    /// Pages that are being sent.
    open: AtomicUsize,
}

#[derive(Debug)]
struct Target {
    page: Page,
    whole: IdSet,
    cut: IdSet,
}

/// Draws, and what was refused or hung because of them.
#[derive(Debug)]
struct Draws {
    random: fastrand::Rng,
    refused: u64,
    hung: u64,
}

/// What becomes of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Served,
    Refused,
    Hung,
}

impl Targets {
    pub(super) fn new(pages: Vec<Page>, format: PageFormat, faults: PageFaults) -> Self {
        let target = |page| Mutex::new(Target { page, whole: IdSet::default(), cut: IdSet::default() });
        let draws = Mutex::new(Draws { random: fastrand::Rng::with_seed(faults.seed), refused: 0, hung: 0 });
        let targets = pages.into_iter().map(target).collect();
        Self { targets, format, faults, draws, closed: AtomicBool::new(false), open: AtomicUsize::new(0) }
    }

    /// Serves no further pages.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Whether a page is being sent.
    pub(super) fn are_read(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }

    /// Scrapes that were refused, and pages that hang.
    pub(super) fn faulty(&self) -> (u64, u64) {
        let draws = lock(&self.draws);
        (draws.refused, draws.hung)
    }

    /// What was served of each target.
    pub(super) fn reports(&self) -> Vec<TargetReport> {
        let report = |target: &Mutex<Target>| {
            let target = lock(target);
            TargetReport { whole: target.whole.ranges(), cut: target.cut.ranges() }
        };
        self.targets.iter().map(report).collect()
    }

    fn draw(&self) -> (Fate, Duration) {
        let mut draws = lock(&self.draws);
        let mut hits = |share: f64| share > 0.0 && draws.random.f64() < share;
        let delay = self.faults.delay.filter(|delay| hits(delay.share.fraction()));
        let (refused, hung) = (hits(self.faults.fault_503.fraction()), hits(self.faults.hang.fraction()));
        let fate = match (refused, hung) {
            (true, _) => Fate::Refused,
            (false, true) => Fate::Hung,
            (false, false) => Fate::Served,
        };
        draws.refused += u64::from(fate == Fate::Refused);
        draws.hung += u64::from(fate == Fate::Hung);
        (fate, delay.map_or(Duration::ZERO, |delay| delay.by.0))
    }

    fn note(&self, index: usize, scrape: u64, is_whole: bool) {
        let mut target = lock(&self.targets[index]);
        let scrapes = if is_whole { &mut target.whole } else { &mut target.cut };
        scrapes.insert(scrape..=scrape);
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves all targets until dropped.
pub(super) async fn serve(listener: TcpListener, targets: Arc<Targets>) {
    let mut connections = JoinSet::new();
    let mut told = None;
    loop {
        let stream = accept::next(&listener, &mut told).await;
        connections.spawn(serve_connection(stream, Arc::clone(&targets)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, targets: Arc<Targets>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let service = service_fn(move |request| answer(Arc::clone(&targets), request));
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection ended");
    }
}

async fn answer(targets: Arc<Targets>, request: Request<Incoming>) -> Result<Response<PageBody>, Infallible> {
    let index = number_of(request.uri().path()).filter(|index| *index < targets.targets.len());
    let (Some(index), &Method::GET) = (index, request.method()) else {
        return Ok(text(StatusCode::NOT_FOUND, "no such target: use GET /targets/NUMBER/metrics\n"));
    };
    let (fate, delay) = targets.draw();
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    if fate == Fate::Refused {
        return Ok(text(StatusCode::SERVICE_UNAVAILABLE, "injected fault 503\n"));
    }
    targets.open.fetch_add(1, Ordering::SeqCst);
    let page = if targets.closed.load(Ordering::SeqCst) { None } else { lock(&targets.targets[index]).page.next() };
    let Some((scrape, page)) = page else {
        targets.open.fetch_sub(1, Ordering::SeqCst);
        return Ok(text(StatusCode::SERVICE_UNAVAILABLE, "no further pages are served\n"));
    };
    let length = page.len() as u64;
    let rest = if fate == Fate::Hung { page.slice(..page.len() / 2) } else { page };
    let content_type = HeaderValue::from_static(targets.format.content_type());
    let note = Note { targets, index, scrape, is_whole: false };
    let mut response = Response::new(PageBody { rest, length, hangs: fate == Fate::Hung, note: Some(note) });
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}

/// The number in `/targets/NUMBER/metrics`.
fn number_of(path: &str) -> Option<usize> {
    path.strip_prefix("/targets/")?.strip_suffix("/metrics")?.parse().ok()
}

fn text(status: StatusCode, text: &'static str) -> Response<PageBody> {
    let rest = Bytes::from_static(text.as_bytes());
    let mut response = Response::new(PageBody { length: rest.len() as u64, rest, hangs: false, note: None });
    *response.status_mut() = status;
    response
}

/// Says what became of a page when nobody sends it any more.
#[derive(Debug)]
struct Note {
    targets: Arc<Targets>,
    index: usize,
    scrape: u64,
    is_whole: bool,
}

impl Drop for Note {
    fn drop(&mut self) {
        self.targets.note(self.index, self.scrape, self.is_whole);
    }
}

/// A page that is handed over piece by piece, as fast as its client reads.
struct PageBody {
    rest: Bytes,
    /// What the head of the answer promises.
    length: u64,
    hangs: bool,
    note: Option<Note>,
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            // Nobody wakes a page that hangs; its client goes away.
            return if self.hangs { Poll::Pending } else { Poll::Ready(None) };
        }
        let length = self.rest.len().min(CHUNK_BYTES);
        let chunk = self.rest.split_to(length);
        if self.rest.is_empty()
            && !self.hangs
            && let Some(note) = &mut self.note
        {
            note.is_whole = true;
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && !self.hangs
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}
