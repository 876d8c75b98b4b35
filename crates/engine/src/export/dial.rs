//! Makes a connection to one of the addresses of a name, directly or through a proxy, with or without TLS.
//!
//! An address that does not answer soon is overtaken by the next one, and comes last from then on. For one connection,
//! TCP is tried with several addresses at once, but TLS with one at a time, because it may keep much of what the other
//! side says. How many connections there are, and when addresses are looked up again, is decided elsewhere.

mod addresses;
mod under_tls;

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, Ready, ready};
use std::iter::once;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower_service::Service;

use super::answer_heads::AnswerHeads;
use super::coalesce;
use super::ends::Ending;
use super::outcome::message_of;
use super::proxy::{self, Proxy, Way};
use super::resolve::{self, Resolve};
use super::{ANSWER_TIMEOUT, PING_INTERVAL};
use crate::budget::Budget;
pub(super) use addresses::Addresses;
use under_tls::{Near, UnderTls, with_little_in_tls};

/// For TCP.
const TCP_TIMEOUT: Duration = Duration::from_secs(5);
/// For everything until requests can be sent: several addresses, a proxy, TLS.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long an address is tried alone before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(500);
/// How long a connection waits for its turn while as many are being made as may be. By then all of them hang.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);

type BoxError = Box<dyn Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;
/// To the backend.
type Stream = Ending<TokioIo<AnswerHeads<TokioIo<MaybeHttpsStream<Near>>>>>;

/// How connections to one destination are made.
#[derive(Debug)]
pub(super) struct Dial {
    host: String,
    port: u16,
    resolve: Box<dyn Resolve>,
    tls: Arc<ClientConfig>,
    proxy: Option<Proxy>,
    /// Pays for what connections collect before they write it.
    buffers: Option<Budget>,
    /// When the certificate ends that the backend showed last, in seconds since the Unix epoch; 0 before that.
    certificate_ends: AtomicU64,
}

impl Dial {
    pub(super) fn new(destination: &Uri, resolve: Box<dyn Resolve>, tls: ClientConfig, proxy: Option<Proxy>) -> Self {
        let (host, port) = proxy::host_and_port(proxy.as_ref().map_or(destination, |proxy| &proxy.uri));
        let certificate_ends = AtomicU64::new(0);
        Self { host: host.to_owned(), port, resolve, tls: Arc::new(tls), proxy, buffers: None, certificate_ends }
    }

    /// The same, with buffers that `budget` pays for.
    pub(super) fn paid_by(self, budget: Budget) -> Self {
        Self { buffers: Some(budget), ..self }
    }

    /// When the certificate ends that the backend showed last, in seconds since the Unix epoch.
    pub(super) fn certificate_ends(&self) -> Option<u64> {
        Some(self.certificate_ends.load(Ordering::Relaxed)).filter(|ends| *ends > 0)
    }

    /// Keeps in mind what a backend has shown.
    fn shown<T>(&self, stream: &MaybeHttpsStream<T>) {
        let MaybeHttpsStream::Https(stream) = stream else { return };
        let (_, session) = stream.inner().get_ref();
        // Those that certify it may be there in several versions, and not all of them count.
        let own = session.peer_certificates().and_then(|chain| chain.first());
        let ends = own.and_then(weir_tls::validity);
        let ends = ends.map(|(_, end)| end.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
        self.certificate_ends.store(ends.unwrap_or_default(), Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Where connections may go now: the backend's addresses, or its proxy's.
    pub(super) async fn addresses(&self) -> Result<Addresses, String> {
        let found = resolve::addresses(self.resolve.as_ref(), &self.host, self.port).await?;
        Ok(Addresses::new(found))
    }
}

/// Makes connections, to one address before all others.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) dial: Arc<Dial>,
    pub(super) addresses: Arc<Addresses>,
    /// Which of the preferred addresses.
    pub(super) first: usize,
    /// One for each connection that is being made. The client goes on with connections that nobody waits for any more,
    /// so without turns there could be as many as requests came meanwhile.
    pub(super) turns: Arc<Semaphore>,
}

impl Connector {
    /// The first connection that is made. The next address is tried when one fails, and beside one that is slow.
    async fn connect(&self, order: &[usize], destination: Uri) -> Result<Stream, BoxError> {
        let mut attempts = JoinSet::new();
        let mut failure = None;
        let handshakes = Handshakes::new(Instant::now() + TIMEOUT);
        for tried in 1..=order.len() {
            let index = order[tried - 1];
            attempts.spawn(self.clone().attempt(index, Arc::clone(&handshakes), destination.clone()));
            let alone = if tried < order.len() { HEAD_START } else { Duration::MAX };
            while let Ok(Some(ended)) = tokio::time::timeout(alone, attempts.join_next()).await {
                match ended? {
                    (winner, Ok(stream)) => {
                        let overtaken = order.iter().take(tried).take_while(|index| **index != winner);
                        overtaken.for_each(|index| self.addresses.note(*index, true));
                        return Ok(stream);
                    }
                    (_, Err(cause)) => failure = Some(cause),
                }
                if tried < order.len() {
                    break;
                }
            }
        }
        Err(failure.unwrap_or_else(|| "there is no address".into()))
    }

    async fn connect_in_turn(self, destination: Uri) -> Result<Stream, BoxError> {
        let turns = Arc::clone(&self.turns);
        let hang = |_| "as many connections as there may be are being made already, and none of them has come about";
        let _turn = tokio::time::timeout(TURN_TIMEOUT, turns.acquire()).await.map_err(hang)??;
        let order = self.addresses.order(self.first);
        let late = |_| {
            order.iter().for_each(|index| self.addresses.note(*index, true));
            format!("no connection within {} s", TIMEOUT.as_secs())
        };
        tokio::time::timeout(TIMEOUT, self.connect(&order, destination)).await.map_err(late)?
    }

    async fn attempt(
        self,
        index: usize,
        handshakes: Arc<Handshakes>,
        destination: Uri,
    ) -> (usize, Result<Stream, BoxError>) {
        let address = self.addresses.at(index);
        let connected = self.reach(address, &handshakes, destination).await.map(with_little_in_tls);
        if let Ok(stream) = &connected {
            self.dial.shown(stream);
        }
        self.say_connected(address, &connected);
        self.addresses.note(index, connected.is_err());
        let among_others = self.addresses.are_several();
        let which = |cause: BoxError| {
            if among_others { format!("{address}: {}", message_of(cause.as_ref())).into() } else { cause }
        };
        let stream = |tls| Ending::new(TokioIo::new(AnswerHeads::new(TokioIo::new(tls))));
        (index, connected.map(stream).map_err(which))
    }

    /// For whoever looks why data does not flow: to a backend, its proxy or its token server.
    fn say_connected<T>(&self, address: SocketAddr, connected: &Result<MaybeHttpsStream<T>, BoxError>) {
        let host = self.dial.host.as_str();
        match connected {
            Ok(stream) => {
                let tls = matches!(stream, MaybeHttpsStream::Https(_));
                tracing::debug!(host, %address, tls, "an outgoing connection is made");
            }
            Err(error) => {
                tracing::debug!(host, %address, cause = message_of(&**error), "an outgoing connection failed");
            }
        }
    }

    async fn reach(
        &self,
        address: SocketAddr,
        handshakes: &Handshakes,
        to: Uri,
    ) -> Result<MaybeHttpsStream<Near>, BoxError> {
        let proxy = self.dial.proxy.clone();
        let next = proxy.as_ref().map_or_else(|| to.clone(), |proxy| proxy.uri.clone());
        let tcp = self.tcp(address).call(next).await?;
        let under_tls = UnderTls::new(tcp, proxy);
        handshakes.one(HttpsConnector::from((under_tls, Arc::clone(&self.dial.tls))).call(to)).await
    }

    fn tcp(&self, address: SocketAddr) -> coalesce::Connector {
        let mut tcp = HttpConnector::new_with_resolver(Only(address));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(TCP_TIMEOUT));
        tcp.set_keepalive(Some(PING_INTERVAL));
        // A peer that takes nothing for as long as an answer may take would hold the socket for ever.
        tcp.set_tcp_user_timeout(Some(ANSWER_TIMEOUT));
        let forwards = self.dial.proxy.as_ref().is_some_and(|proxy| proxy.way == Way::Forward);
        coalesce::Connector { tcp, forwards, budget: self.dial.buffers.clone() }
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Connecting<Stream>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, destination: Uri) -> Self::Future {
        // The client finishes connections in the background when nobody waits for them any more.
        let connecting = self.clone().connect_in_turn(destination);
        let addresses = Arc::clone(&self.addresses);
        Box::pin(async move {
            let connected = connecting.await;
            addresses.note_last(connected.is_err());
            connected
        })
    }
}

/// The handshakes, with a proxy and TLS, of the addresses that one connection is tried with: one at a time.
#[derive(Debug)]
struct Handshakes {
    turn: Semaphore,
    /// Addresses that are connected to and wait for their turn.
    waiting: AtomicUsize,
    until: Instant,
}

impl Handshakes {
    fn new(until: Instant) -> Arc<Self> {
        Arc::new(Self { turn: Semaphore::new(1), waiting: AtomicUsize::new(0), until })
    }

    /// Has its turn for half of the time that is left, and longer as long as no other address waits for it.
    async fn one<T>(&self, handshake: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = self.turn.acquire().await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let _turn = turn?;
        let patience = self.until.saturating_duration_since(Instant::now()) / 2;
        let overdue = async {
            tokio::time::sleep(patience).await;
            while self.waiting.load(Ordering::Relaxed) == 0 {
                tokio::time::sleep(HEAD_START).await;
            }
        };
        tokio::select! {
            done = handshake => done,
            () = overdue => Err(format!("no connection within {} s", patience.as_secs()).into()),
        }
    }
}

/// Whatever the name, this is its address.
#[derive(Debug, Clone)]
pub(super) struct Only(SocketAddr);

impl Service<Name> for Only {
    type Response = std::iter::Once<SocketAddr>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        ready(Ok(once(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::export::tls;

    /// A backend that takes connections and never answers TLS.
    #[tokio::test]
    async fn not_more_connections_are_being_made_at_once_than_there_may_be() {
        const MOST: usize = 5;
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = silent.local_addr().unwrap();
        let destination: Uri = format!("https://{at}/").parse().unwrap();
        let resolve = Box::new(resolve::System::new());
        let dial = Arc::new(Dial::new(&destination, resolve, tls::client_config(None).unwrap(), None));
        let connector = Connector {
            dial,
            addresses: Arc::new(Addresses::new(vec![at])),
            first: 0,
            turns: Arc::new(Semaphore::new(MOST)),
        };
        let mut connecting = JoinSet::new();
        for _ in 0..=MOST {
            connecting.spawn(connector.clone().call(destination.clone()));
        }
        let ended = connecting.join_next().await.unwrap().unwrap();
        assert!(ended.unwrap_err().to_string().contains("are being made already"));
        // The next one after those that are there is this one.
        let mine = TcpStream::connect(at).await.unwrap().local_addr().unwrap();
        for _ in 0..MOST {
            assert_ne!(silent.accept().await.unwrap().1, mine);
        }
        assert_eq!((silent.accept().await.unwrap().1, connecting.len()), (mine, MOST));
    }

    /// What TLS keeps of an unfinished handshake is set aside once for each connection.
    #[tokio::test]
    async fn one_address_at_a_time_has_a_handshake() {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let mut silent = vec![first];
        for last in 2..=4 {
            silent.push(TcpListener::bind(SocketAddr::from(([127, 0, 0, last], port))).await.unwrap());
        }
        let destination: Uri = format!("https://localhost:{port}/").parse().unwrap();
        let resolve = Box::new(resolve::System::new());
        let dial = Arc::new(Dial::new(&destination, resolve, tls::client_config(None).unwrap(), None));
        let all = silent.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let (addresses, turns) = (Arc::new(Addresses::new(all)), Arc::new(Semaphore::new(1)));
        let mut connector = Connector { dial, addresses, first: 0, turns };
        let connecting = tokio::spawn(connector.call(destination));
        let mut streams = Vec::new();
        for listener in &silent {
            streams.push(listener.accept().await.unwrap().0);
        }
        let mut greeted = 0;
        for stream in &streams {
            // A handshake begins with a message of the client, which is sent at once.
            let mut first = [0];
            let message = tokio::time::timeout(Duration::from_millis(100), stream.peek(&mut first));
            greeted += usize::from(message.await.is_ok());
        }
        assert_eq!(greeted, 1);
        connecting.abort();
    }

    /// What takes long is not cut short for addresses that cannot be connected to.
    #[tokio::test(start_paused = true)]
    async fn a_slow_handshake_has_its_time() {
        let lasting = |seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, BoxError>(seconds)
        };
        let handshakes = Handshakes::new(Instant::now() + TIMEOUT);
        assert_eq!(handshakes.one(lasting(14)).await.unwrap(), 14, "nobody waits");
        let handshakes = Handshakes::new(Instant::now() + TIMEOUT);
        let (slow, other) = tokio::join!(handshakes.one(lasting(7)), handshakes.one(lasting(1)));
        assert_eq!((slow.unwrap(), other.unwrap()), (7, 1));
        let handshakes = Handshakes::new(Instant::now() + TIMEOUT);
        let (hangs, other) = tokio::join!(handshakes.one(lasting(100)), handshakes.one(lasting(1)));
        assert!(hangs.is_err());
        assert_eq!(other.unwrap(), 1, "it has its turn after half of the time");
    }
}
