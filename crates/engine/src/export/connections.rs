//! The connections to one backend: how many there are, which of them a request takes, and when they are replaced.
//!
//! There is a *lane* for each address of the backend's name; over HTTP/2 a lane is one connection. After some minutes
//! the name is looked up again and all lanes are replaced, so that a backend that grew or moved is found. A request
//! that is under way keeps its lane until it is answered.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use weir_plan::Protocol;

use super::body::Chunks;
use super::dial::{Addresses, Connector, Dial};
use super::ends::unless_ended;
use super::outcome::message_of;
use super::{Outcome, PING_INTERVAL, PING_TIMEOUT, RetryKind};

/// Connections are replaced at this age, give or take a tenth.
const AGE: Duration = Duration::from_secs(300);
/// Connections are replaced this early when one of the addresses fails. The address then gets another chance.
const AGE_AFTER_FAILURE: Duration = Duration::from_secs(60);
/// When the name cannot be looked up, it is not looked up again for this long.
const LOOK_UP_PAUSE: Duration = Duration::from_secs(5);
/// Lanes of one backend, however many addresses it has and connections it may have.
const MOST_LANES: usize = 8;
/// A connection without a request is closed after this long.
const IDLE: Duration = Duration::from_secs(90);
/// How much a backend may send that nobody has read yet: its answers are small.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same for all answers of a connection. Nobody pays for them until they are read, which is soon.
const CONNECTION_WINDOW: u32 = 64 * 1024;

/// Header fields of an answer, as HTTP/2 counts them: 32 bytes for each beside its text. A request whose answer has a
/// longer head is given up, and tried again.
const MOST_HEAD_BYTES: u32 = 8 * 1024;

type HttpClient = Client<Connector, Full<Chunks>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Connections {
    dial: Arc<Dial>,
    protocol: Protocol,
    age: Duration,
    /// How many connections there is memory for.
    connections: Arc<AtomicUsize>,
    current: Mutex<Option<Arc<Lanes>>>,
    /// Held while the name is looked up.
    turn: tokio::sync::Mutex<()>,
}

/// The lanes to the addresses that a name had at one time.
#[derive(Debug)]
struct Lanes {
    lanes: Vec<Lane>,
    addresses: Arc<Addresses>,
    /// For each connection that is being made ...
    turns: Arc<Semaphore>,
    /// ... of so many that there may be.
    connections: usize,
    /// Ties are broken in turn.
    next: AtomicUsize,
    since: Instant,
    until: Instant,
    /// The last look-up of the name failed: it is not looked up again before this.
    paused_until: Mutex<Instant>,
}

#[derive(Debug)]
struct Lane {
    client: HttpClient,
    under_way: AtomicUsize,
    /// The last request had no answer.
    failed: AtomicBool,
}

/// A request on its lane, until it is answered or given up.
#[derive(Debug)]
pub(super) struct Passage {
    lanes: Arc<Lanes>,
    lane: usize,
    answered: bool,
}

impl Connections {
    pub(super) fn new(dial: Dial, protocol: Protocol, connections: Arc<AtomicUsize>) -> Self {
        Self {
            dial: Arc::new(dial),
            protocol,
            age: AGE,
            connections,
            current: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// When the certificate ends that the backend showed last, in seconds since the Unix epoch.
    pub(super) fn certificate_ends(&self) -> Option<u64> {
        self.dial.certificate_ends()
    }

    /// Sends a request. Call [`Passage::answered`] once the answer was read to its end; only then does the answer
    /// count.
    pub(super) async fn request(&self, request: Request<Chunks>) -> Result<(Response<Incoming>, Passage), Outcome> {
        let unreachable = |message| Outcome::Retry { kind: RetryKind::Unreachable, hint: None, message };
        let passage = self.lanes().await.map_err(unreachable)?.passage();
        let mut request = request.map(Full::new);
        let connection = capture_connection(&mut request);
        let failed = match unless_ended(passage.client().request(request), connection).await {
            Some(Ok(response)) => return Ok((response, passage)),
            Some(Err(error)) if error.is_connect() => return Err(unreachable(message_of(&error))),
            Some(Err(error)) => message_of(&error),
            None => "the connection ended without an answer".to_owned(),
        };
        Err(Outcome::Retry { kind: RetryKind::Answered, hint: None, message: failed })
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Lanes>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The lanes that there are, and whether it is time to replace them.
    fn known(&self) -> Option<(Arc<Lanes>, bool)> {
        let current = self.current();
        current.as_ref().map(|lanes| (Arc::clone(lanes), lanes.is_due(self.connections(), Instant::now())))
    }

    /// The lanes to use now. One request looks the name up; others wait for it only while there are none.
    async fn lanes(&self) -> Result<Arc<Lanes>, String> {
        let before = self.known();
        let turn = match &before {
            Some((lanes, false)) => return Ok(Arc::clone(lanes)),
            Some((lanes, true)) => match self.turn.try_lock() {
                Ok(turn) => turn,
                Err(_) => return Ok(Arc::clone(lanes)),
            },
            None => self.turn.lock().await,
        };
        // Another request may have done it while this one waited.
        if let Some((lanes, false)) = self.known() {
            return Ok(lanes);
        }
        let found = self.dial.addresses().await;
        drop(turn);
        match (found, before) {
            (Ok(addresses), _) => {
                let lanes = Arc::new(self.open(addresses));
                *self.current() = Some(Arc::clone(&lanes));
                Ok(lanes)
            }
            (Err(_), Some((lanes, _))) => {
                lanes.pause_until(Instant::now() + LOOK_UP_PAUSE);
                Ok(lanes)
            }
            (Err(cause), None) => Err(cause),
        }
    }

    fn open(&self, addresses: Addresses) -> Lanes {
        let addresses = Arc::new(addresses);
        let connections = self.connections();
        let count = addresses.preferred().min(connections).clamp(1, MOST_LANES);
        let turns = self.turns(connections);
        let lane = |first| {
            let (dial, addresses, turns) = (Arc::clone(&self.dial), Arc::clone(&addresses), Arc::clone(&turns));
            let connector = Connector { dial, addresses, first, turns };
            let client = client(self.protocol, connector, connections / count);
            Lane { client, under_way: AtomicUsize::new(0), failed: AtomicBool::new(false) }
        };
        let (lanes, since) = ((0..count).map(lane).collect(), Instant::now());
        let until = since + self.age.mul_f64(0.9 + 0.2 * fastrand::f64());
        let (next, paused_until) = (AtomicUsize::new(0), Mutex::new(since));
        Lanes { lanes, addresses, turns, connections, next, since, until, paused_until }
    }

    /// Connections that are still being made for the old lanes take up turns of the new ones.
    fn turns(&self, connections: usize) -> Arc<Semaphore> {
        match &*self.current() {
            Some(lanes) if lanes.connections == connections => Arc::clone(&lanes.turns),
            _ => Arc::new(Semaphore::new(connections.max(1))),
        }
    }
}

impl Lanes {
    fn is_due(&self, connections: usize, now: Instant) -> bool {
        let lane_failed = || self.lanes.iter().any(|lane| lane.failed.load(Ordering::Relaxed));
        let old = now >= self.until || self.lanes.len() > connections.max(1);
        let sick = now >= self.since + AGE_AFTER_FAILURE && (self.addresses.some_failed() || lane_failed());
        let paused = now < *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        // Connections at work are not given up because there cannot be one more.
        let alone =
            || self.addresses.exhausted() && self.lanes.iter().all(|lane| lane.under_way.load(Ordering::Relaxed) == 0);
        (old || sick || alone()) && !paused
    }

    fn pause_until(&self, until: Instant) {
        *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// A place on the lane with the fewest requests. A lane that failed is taken only when all have failed.
    fn passage(self: Arc<Self>) -> Passage {
        let (count, first) = (self.lanes.len(), self.next.fetch_add(1, Ordering::Relaxed));
        let cost = |index: &usize| {
            let Lane { failed, under_way, .. } = &self.lanes[*index];
            (failed.load(Ordering::Relaxed), under_way.load(Ordering::Relaxed))
        };
        let lane = (0..count).map(|step| first.wrapping_add(step) % count).min_by_key(cost).unwrap_or_default();
        self.lanes[lane].under_way.fetch_add(1, Ordering::Relaxed);
        Passage { lanes: self, lane, answered: false }
    }
}

impl Passage {
    fn client(&self) -> &HttpClient {
        &self.lanes.lanes[self.lane].client
    }

    /// The answer was read to its end, whatever it says: this lane works.
    pub(super) fn answered(mut self) {
        self.answered = true;
        self.lanes.addresses.revive();
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let lane = &self.lanes.lanes[self.lane];
        lane.under_way.fetch_sub(1, Ordering::Relaxed);
        lane.failed.store(!self.answered, Ordering::Relaxed);
    }
}

/// What a connection over HTTP/1.1 keeps of an answer at most, its head included.
pub(super) const HTTP1_BUFFER: usize = 16 * 1024;

/// `idle`: how many connections without a request it keeps, with HTTP/1.1.
fn client(protocol: Protocol, connector: Connector, idle: usize) -> HttpClient {
    Client::builder(TokioExecutor::new())
        .http2_only(protocol == Protocol::Grpc)
        .http1_max_buf_size(HTTP1_BUFFER)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(MOST_HEAD_BYTES)
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle)
        // A request may have reached the backend before its connection closed: only delivery decides on a retry.
        .retry_canceled_requests(false)
        .build(connector)
}
