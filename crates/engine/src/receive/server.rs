//! Listening sockets and the life of a connection: how many, how long, how idle.
//!
//! Both ports take both transports (HTTP/1.1 and HTTP/2 with prior knowledge), so a client with the wrong port still
//! gets through.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_legible::{Seldom, line_with_causes};

use super::Receiver;
use super::crowd::{Crowd, Member};
use super::gate::Era;
use super::heads::{Heads, Kept};
use super::large_reads::LargeReads;
use super::streams::Streams;
use crate::settings::{LAST_ANSWERS, Settings};

/// Unread bytes per stream and per connection. Until they are read, which is soon, they are outside the memory budget.
/// So they are a small part of it, and no more than a fast client on a long line needs.
const WINDOW_PART: usize = 512;
const WINDOW_MIN: u32 = 128 * 1024;
const WINDOW_MAX: u32 = 256 * 1024;
/// Calls at once on one connection.
pub(super) const MAX_STREAMS: u32 = 256;
/// Streams of one connection that may end because their frames are malformed, a head for example. The connection ends
/// with the next one. The library keeps something of each such stream for a while.
const MOST_MALFORMED: usize = 4;
/// All header fields of a request together.
pub(super) const MAX_HEADER_BYTES: u32 = 16 * 1024;
/// The read buffer of an HTTP/1.1 connection, and so the largest head of a request. A connection may keep it while it
/// is idle, or has only a part of a head.
const HTTP1_BUFFER_BYTES: usize = 16 * 1024;
/// A connection without a request is closed after this long; if it never had one, it is closed sooner.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for clients to read their answers, and for the memory of many streams to become useful again. Twice that at
/// most.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a connection that keeps memory without need checks whether others need it.
const SCARCE_CHECK: Duration = Duration::from_secs(1);
/// HTTP/2 pings find clients that are gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for the last requests of a connection that was told to go away, unless the process drains for longer.
const CLOSE_GRACE: Duration = Duration::from_secs(30);
/// For one without requests to say goodbye.
const FAREWELL: Duration = Duration::from_secs(5);
/// Time to end for a connection that gives way to another.
const DISMISSAL: Duration = Duration::from_secs(1);
/// Accepting rests this long when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How much of an error of a connection is logged.
const ERROR_CHARS: usize = 200;

/// Why a connection ended, in one word for the log; or what failed.
type Ended = Result<&'static str, Box<dyn Error + Send + Sync>>;

/// Limits on connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerLimits {
    /// Open at once.
    pub(crate) connections: usize,
    /// Age at which a connection is asked to go away, give or take a tenth; sooner where load counts.
    pub(crate) age: Duration,
    /// HTTP/2 flow-control window of a connection and of each stream in it, in bytes.
    window: u32,
    /// Given to the requests of a connection that was told to go away.
    grace: Duration,
}

impl ServerLimits {
    pub(crate) fn new(settings: &Settings, connections: usize) -> Self {
        let Settings { memory, max_connection_age: age, drain_timeout: drain, .. } = *settings;
        let window = u32::try_from(memory / WINDOW_PART).unwrap_or(WINDOW_MAX).clamp(WINDOW_MIN, WINDOW_MAX);
        Self { connections, age, window, grace: CLOSE_GRACE.max(drain + LAST_ANSWERS) }
    }
}

/// Accepts connections until it is told to stop.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    receiver: Arc<Receiver>,
    limits: ServerLimits,
    room: Arc<Semaphore>,
    crowd: Arc<Crowd>,
    stop: watch::Receiver<bool>,
}

impl Server {
    pub(crate) fn new(receiver: Arc<Receiver>, limits: ServerLimits, stop: watch::Receiver<bool>) -> Self {
        let room = Arc::new(Semaphore::new(limits.connections));
        Self { receiver, limits, room, crowd: Crowd::new(), stop }
    }

    /// Serves `listener`; returns when it was told to stop and every connection has ended.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let (mut connections, mut failures) = (JoinSet::new(), Seldom::default());
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                accepted = next(&listener, &mut connections) => match accepted {
                    Ok(accepted) => self.take_connection(accepted, &mut connections).await,
                    Err(error) => rest(&listener, &error, &mut failures).await,
                },
                () = stopped(&mut stop) => break,
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// There is no room for a connection.
    fn report_crowd(&self) {
        let mut reported = self.receiver.stats.crowd_reported.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = reported.due(Instant::now()) {
            let limit = self.limits.connections;
            tracing::warn!(
                limit,
                left_out,
                advice = "give weir more --memory, or let clients keep their connections",
                "no room for more connections; a new one is closed"
            );
        }
    }

    async fn take_connection(&self, (stream, peer): (TcpStream, SocketAddr), connections: &mut JoinSet<()>) {
        let stats = &self.receiver.stats;
        let Some(permit) = self.find_room().await else {
            stats.connections_refused.fetch_add(1, Ordering::Relaxed);
            return self.report_crowd();
        };
        stats.connections.fetch_add(1, Ordering::Relaxed);
        let server = self.clone();
        connections.spawn(async move {
            let ended = server.converse(stream, peer).await;
            say_ended(peer, &ended);
            server.receiver.stats.connections.fetch_sub(1, Ordering::Relaxed);
            drop(permit);
        });
    }

    /// Room for one more connection. When there is none, an idle connection gives way.
    async fn find_room(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(permit);
        }
        if !self.crowd.dismiss() {
            return None;
        }
        tokio::time::timeout(DISMISSAL, Arc::clone(&self.room).acquire_owned()).await.ok()?.ok()
    }

    /// Serves one connection to its end.
    async fn converse(&self, stream: TcpStream, peer: SocketAddr) -> Ended {
        // Without it answers wait for acknowledgements; a socket that cannot be set is about to fail anyway.
        let _ = stream.set_nodelay(true);
        let member = Arc::new(self.crowd.enter());
        let stream = LargeReads::new(stream, self.receiver.budget.clone());
        let (era, tls) = self.receiver.gate.rules_now();
        tracing::debug!(%peer, tls = tls.is_some(), "a client connected");
        let peer = peer.ip();
        let Some(tls) = tls else { return self.converse_over(stream, peer, member, era).await };
        tokio::select! {
            shaken = tls.shake_hands(stream) => match shaken {
                Some(stream) => self.converse_over(stream, peer, member, era).await,
                None => {
                    self.receiver.stats.handshakes_failed.fetch_add(1, Ordering::Relaxed);
                    Ok("handshake")
                }
            },
            () = member.dismissed() => Ok("gave_way"),
            () = self.receiver.gate.until_over(era) => Ok("new_rules"),
        }
    }

    async fn converse_over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        peer: IpAddr,
        member: Arc<Member>,
        era: Era,
    ) -> Ended {
        let streams = Streams::new(self.receiver.funds.clone());
        let service = {
            let (receiver, member, streams) = (Arc::clone(&self.receiver), Arc::clone(&member), Arc::clone(&streams));
            service_fn(move |request| {
                let busy = member.begin();
                let answer = match streams.open() {
                    Some(stream) => receiver.handle(request, peer, stream),
                    None => receiver.abandon(&request),
                };
                async move {
                    let answer = answer.await;
                    drop(busy);
                    answer
                }
            })
        };
        let stream = Heads::new(stream, self.receiver.funds.clone(), Arc::clone(&streams));
        let kept = stream.kept();
        let builder = builder(self.limits.window);
        let mut connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
        let reason = tokio::select! {
            // Errors of a connection are its client's business; requests that matter were counted where they failed.
            ended = connection.as_mut() => return ended.map(|()| "closed"),
            () = member.dismissed() => return Ok("gave_way"),
            () = streams.overdrawn() => return Ok("no_memory"),
            reason = self.until_told_to_go(&member, &streams, &kept, era) => reason,
        };
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = connection => {}
            () = member.dismissed() => {}
            () = streams.overdrawn() => {}
            () = self.farewell(&member, era) => {}
        }
        Ok(reason)
    }

    /// Resolves when memory is scarce and a connection keeps much of it for heads that were read. The client can begin
    /// anew on another connection.
    async fn hoards(&self, kept: &Kept) {
        kept.begins().await;
        loop {
            tokio::time::sleep(SCARCE_CHECK).await;
            if !kept.is_little() && self.receiver.funds.are_scarce() {
                return;
            }
        }
    }

    /// Resolves when a connection that was told to go away has had its time.
    async fn farewell(&self, member: &Member, era: Era) {
        tokio::time::sleep(FAREWELL).await;
        // This includes requests that began when the client did not know yet.
        if !member.is_busy() {
            return;
        }
        // Whoever ignores what it was told could go on sending for as long as a process may drain.
        let of_past_era = async {
            self.receiver.gate.until_over(era).await;
            tokio::time::sleep(CLOSE_GRACE.saturating_sub(FAREWELL)).await;
        };
        tokio::select! {
            () = tokio::time::sleep(self.limits.grace.saturating_sub(FAREWELL)) => {}
            () = of_past_era => {}
        }
    }

    /// Resolves when the process stops, the connection is old, it is of an era that is over, nobody uses it, its client
    /// does not read, or others need the memory that it keeps. Returns which, in one word.
    async fn until_told_to_go(&self, member: &Member, streams: &Streams, kept: &Kept, era: Era) -> &'static str {
        let age = self.limits.age.mul_f64(0.9 + 0.2 * fastrand::f64());
        let old = async {
            match &self.receiver.load {
                Some(load) => load.outlived(age).await,
                None => tokio::time::sleep(age).await,
            }
        };
        let is_to_retire = async {
            tokio::select! {
                () = old => "old",
                () = self.receiver.gate.until_over(era) => "new_rules",
            }
        };
        let mut stop = self.stop.clone();
        tokio::select! {
            () = stopped(&mut stop) => "draining",
            reason = is_to_retire => {
                self.receiver.stats.connections_retired.fetch_add(1, Ordering::Relaxed);
                reason
            }
            () = member.idle(FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT) => "idle",
            () = wasteful(member, streams) => "unread",
            () = self.hoards(kept) => "no_memory",
        }
    }
}

/// For whoever looks why a client is not served.
fn say_ended(peer: SocketAddr, ended: &Ended) {
    match ended {
        Ok(reason) => tracing::debug!(%peer, reason, "the connection of a client ended"),
        Err(error) => {
            tracing::debug!(
                %peer,
                error = line_with_causes(&**error, ERROR_CHARS),
                "the connection of a client failed"
            );
        }
    }
}

/// Nothing more can be accepted for now: there are too many files open, for example.
async fn rest(listener: &TcpListener, error: &io::Error, failures: &mut Seldom) {
    if let Some(left_out) = failures.due(Instant::now()) {
        let address = listener.local_addr().ok().map(tracing::field::display);
        let advice = "look at the number of files that the process may have open (ulimit -n)";
        tracing::warn!(address, %error, left_out, advice, "cannot accept a connection");
    }
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// The next connection, once those that have ended are let go. The task of a connection keeps its memory, some 8 KiB,
/// until it is joined. That has to come first: clients that are hung up on, and come back at once, never leave the
/// listener without a connection.
async fn next(listener: &TcpListener, connections: &mut JoinSet<()>) -> io::Result<(TcpStream, SocketAddr)> {
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => return accepted,
        }
    }
}

/// Resolves when a connection pays for streams that are of no use: their answers are not read, or there are none.
async fn wasteful(member: &Member, streams: &Streams) {
    let mut answered = 0;
    loop {
        tokio::time::sleep(READ_TIMEOUT).await;
        let before = std::mem::replace(&mut answered, member.finished());
        if streams.ended() < before || (answered == before && streams.pays_for_nothing()) {
            return;
        }
    }
}

fn builder(window: u32) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // It runs from the end of the previous request, so it must not be shorter than an idle connection may live.
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(HTTP1_BUFFER_BYTES)
        .http2()
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .initial_stream_window_size(window)
        .initial_connection_window_size(window)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_local_error_reset_streams(MOST_MALFORMED)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Resolves when the process stops.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the engine is gone, which is a stop as well.
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::budget::{Budget, Funds};

    async fn is_wasteful(member: &Member, streams: &Streams) -> bool {
        tokio::time::timeout(5 * READ_TIMEOUT, wasteful(member, streams)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn streams_are_wasted_on_whoever_does_not_read_and_on_whoever_has_none() {
        let member = Arc::new(Crowd::new().enter());
        let streams = Streams::new(Funds([Budget::new(1 << 20), Budget::new(0)]));
        let (busy, stream) = (member.begin(), streams.open());
        assert!(!is_wasteful(&member, &streams).await, "an answer may take its time");
        drop(busy);
        assert!(is_wasteful(&member, &streams).await, "it is not read");
        drop(stream);
        assert!(!is_wasteful(&member, &streams).await, "it was read, and nothing is paid for");
        let many: Vec<_> = (0..5).map(|_| (member.begin(), streams.open())).collect();
        assert!(!is_wasteful(&member, &streams).await, "they are of use");
        drop(many);
        assert!(is_wasteful(&member, &streams).await);
    }

    #[tokio::test]
    async fn connections_that_have_ended_are_let_go_however_many_others_come() {
        const ENDED: usize = 1000;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connections = JoinSet::new();
        let (runs, running) = oneshot::channel::<()>();
        connections.spawn(async move { drop(running.await) });
        let ended: Vec<_> = (0..ENDED).map(|_| connections.spawn(async {})).collect();
        while ended.iter().any(|connection| !connection.is_finished()) {
            tokio::task::yield_now().await;
        }
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        next(&listener, &mut connections).await.unwrap();
        assert_eq!(connections.len(), 1, "only what has not ended");
        drop(runs);
    }
}
