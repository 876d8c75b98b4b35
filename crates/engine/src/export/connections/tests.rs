//! Real connections to several addresses of this machine, under a name that a test resolves as it likes.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::*;
use crate::export::resolve::{Resolve, Resolving};
use crate::export::tls;

/// What the name means now; nothing when it cannot be found out.
#[derive(Debug, Clone)]
struct Names(Arc<Mutex<Option<Vec<SocketAddr>>>>);

impl Names {
    fn new(addresses: &[SocketAddr]) -> Self {
        Self(Arc::new(Mutex::new(Some(addresses.to_vec()))))
    }

    fn set(&self, addresses: Option<&[SocketAddr]>) {
        *self.0.lock().unwrap() = addresses.map(<[_]>::to_vec);
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> Resolving<'a> {
        assert_eq!(host, "backend.test");
        let found = self.0.lock().unwrap().clone();
        Box::pin(async move { found.ok_or_else(|| io::Error::other("the name server is ill")) })
    }
}

/// A backend at one address that takes everything.
struct Sink {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    /// Connections that are open.
    open: watch::Receiver<usize>,
    answers: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sink {
    fn serve(listener: TcpListener) -> Self {
        let (asked, address) = (Arc::new(AtomicUsize::new(0)), listener.local_addr().unwrap());
        let ((opened, open), (answers, may_answer)) = (watch::channel(0), watch::channel(true));
        let desk = Desk { asked: Arc::clone(&asked), opened, may_answer };
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(desk.clone().converse(stream));
            }
        });
        Self { address, asked, open, answers, task }
    }

    /// A backend at each of the addresses.
    async fn each<const N: usize>() -> [Self; N] {
        listeners::<N>().await.map(Self::serve)
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn open(&self) -> usize {
        *self.open.borrow()
    }
}

#[derive(Clone)]
struct Desk {
    asked: Arc<AtomicUsize>,
    opened: watch::Sender<usize>,
    may_answer: watch::Receiver<bool>,
}

impl Desk {
    async fn converse(self, stream: TcpStream) {
        self.opened.send_modify(|open| *open += 1);
        let service = service_fn(|_| self.clone().answer());
        // Connections end when the test does.
        let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        self.opened.send_modify(|open| *open -= 1);
    }

    async fn answer(mut self) -> Result<Response<Empty<Bytes>>, Infallible> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let _ = self.may_answer.wait_for(|may| *may).await;
        Ok(Response::new(Empty::new()))
    }
}

/// Listens on 127.0.0.1, 127.0.0.2, ..., on the same port everywhere.
async fn listeners<const N: usize>() -> [TcpListener; N] {
    for _ in 0..100 {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = first.local_addr().unwrap().port();
        let mut all = vec![first];
        while all.len() < N {
            let last = u8::try_from(all.len() + 1).unwrap();
            match TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port)).await {
                Ok(listener) => all.push(listener),
                Err(_) => break,
            }
        }
        if let Ok(all) = all.try_into() {
            return all;
        }
    }
    panic!("no port is free on {N} addresses");
}

/// The address after `near`, where nobody listens.
fn vacant(near: &Sink) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 99], near.address.port()))
}

fn connections(names: &Names, at: SocketAddr, protocol: Protocol) -> Connections {
    let uri: Uri = format!("http://backend.test:{}/v1/traces", at.port()).parse().unwrap();
    let dial = Dial::new(&uri, Box::new(names.clone()), tls::client_config(None).unwrap(), None);
    Connections::new(dial, protocol, Arc::new(AtomicUsize::new(64)))
}

/// Sends a request and reads its answer to the end.
async fn ask(connections: &Connections) -> Result<(), Outcome> {
    let port = connections.dial.port();
    let request = Request::post(format!("http://backend.test:{port}/")).body(Chunks::plain(Vec::new(), false)).unwrap();
    let (response, passage) = connections.request(request).await?;
    response.into_body().collect().await.unwrap();
    passage.answered();
    Ok(())
}

const PROTOCOLS: [Protocol; 2] = [Protocol::Grpc, Protocol::Http];

/// For what has to happen; a failure takes this long.
const LONG: Duration = Duration::from_secs(60);

async fn no_connection_is_left(sink: &Sink) {
    let mut open = sink.open.clone();
    tokio::time::timeout(LONG, open.wait_for(|open| *open == 0)).await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_take_turns_at_all_addresses_of_the_name() {
    for protocol in PROTOCOLS {
        let sinks = Sink::each::<3>().await;
        let names = Names::new(&sinks.each_ref().map(|sink| sink.address));
        let connections = connections(&names, sinks[0].address, protocol);
        for _ in 0..30 {
            ask(&connections).await.unwrap();
        }
        assert_eq!(sinks.each_ref().map(Sink::asked), [10; 3], "{protocol:?}");
        assert_eq!(sinks.each_ref().map(Sink::open), [1; 3], "{protocol:?}: no more connections than needed");
    }
}

#[tokio::test]
async fn there_are_no_more_connections_than_a_backend_may_have() {
    let sinks = Sink::each::<20>().await;
    let names = Names::new(&sinks.each_ref().map(|sink| sink.address));
    let connections = connections(&names, sinks[0].address, Protocol::Grpc);
    for _ in 0..40 {
        ask(&connections).await.unwrap();
    }
    assert_eq!(sinks.iter().map(Sink::open).sum::<usize>(), MOST_LANES);
}

/// Waits until there are so many connections.
async fn are_open(sinks: &[Sink], wanted: usize) {
    while sinks.iter().map(Sink::open).sum::<usize>() != wanted {
        tokio::task::yield_now().await;
    }
}

/// As soon as there is memory for fewer of them.
#[tokio::test]
async fn there_are_no_more_connections_than_memory_is_set_aside_for() {
    for protocol in PROTOCOLS {
        let sinks = Sink::each::<6>().await;
        let names = Names::new(&sinks.each_ref().map(|sink| sink.address));
        let connections = connections(&names, sinks[0].address, protocol);
        for count in [4, 1] {
            connections.connections.store(count, Ordering::Relaxed);
            for _ in 0..20 {
                ask(&connections).await.unwrap();
            }
            let settled = tokio::time::timeout(LONG, are_open(&sinks, count));
            settled.await.expect("as many as there is memory for");
        }
    }
}

#[tokio::test]
async fn an_address_that_refuses_is_not_noticed() {
    for protocol in PROTOCOLS {
        let [sink] = Sink::each().await;
        let names = Names::new(&[vacant(&sink), sink.address]);
        let connections = connections(&names, sink.address, protocol);
        for _ in 0..20 {
            ask(&connections).await.unwrap();
        }
        assert_eq!(sink.asked(), 20, "{protocol:?}");
    }
}

/// It costs its time once, not with every other request.
#[tokio::test]
async fn an_address_that_does_not_answer_is_overtaken() {
    for protocol in PROTOCOLS {
        let [well, deaf] = listeners().await;
        let (well, address) = (Sink::serve(well), deaf.local_addr().unwrap());
        drop(deaf);
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        // The kernel answers no further connection while nobody takes the one that is there.
        let _deaf = socket.listen(0).unwrap();
        let _first = TcpStream::connect(address).await.unwrap();
        let names = Names::new(&[address, well.address]);
        let connections = connections(&names, well.address, protocol);
        let begun = Instant::now();
        for _ in 0..20 {
            ask(&connections).await.unwrap();
        }
        assert_eq!(well.asked(), 20, "{protocol:?}");
        // Every other request would take 5 s, which are 50 s.
        assert!(begun.elapsed() < Duration::from_secs(40), "{protocol:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn an_address_that_answers_no_request_is_left_out() {
    for protocol in PROTOCOLS {
        let [well, hung] = Sink::each().await;
        hung.answers.send_replace(false);
        let names = Names::new(&[well.address, hung.address]);
        let connections = connections(&names, well.address, protocol);
        // Until one of them waits there in vain and is given up; long enough for the other one to answer.
        let asking = async {
            while hung.asked() == 0 {
                let _ = tokio::time::timeout(Duration::from_secs(3), ask(&connections)).await;
            }
        };
        tokio::time::timeout(LONG, asking).await.unwrap();
        let before = well.asked();
        for _ in 0..20 {
            tokio::time::timeout(LONG, ask(&connections)).await.unwrap().unwrap();
        }
        assert_eq!((well.asked() - before, hung.asked()), (20, 1), "{protocol:?}");
        // Where all have failed, none is left out.
        names.set(Some(&[hung.address]));
        hung.answers.send_replace(true);
        let connections = Connections { age: Duration::ZERO, ..connections };
        ask(&connections).await.unwrap();
    }
}

#[tokio::test]
async fn connections_of_age_go_where_the_name_leads_now() {
    for protocol in PROTOCOLS {
        let [old, new] = Sink::each().await;
        let names = Names::new(&[old.address]);
        let connections = Connections { age: Duration::ZERO, ..connections(&names, old.address, protocol) };
        let connections = Arc::new(connections);
        old.answers.send_replace(false);
        let first = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { ask(&connections).await }
        });
        let arrived = async {
            while old.asked() == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, arrived).await.unwrap();
        names.set(Some(&[new.address]));
        ask(&connections).await.unwrap();
        assert_eq!((old.asked(), new.asked()), (1, 1), "{protocol:?}");
        old.answers.send_replace(true);
        first.await.unwrap().unwrap_or_else(|outcome| panic!("{protocol:?}: under way: {outcome:?}"));
        no_connection_is_left(&old).await;
    }
}

/// Otherwise all pipelines that started together would look their backends up at the same moment.
#[tokio::test(start_paused = true)]
async fn connections_of_one_moment_are_replaced_one_after_the_other() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4317));
    let mut made = Vec::new();
    for _ in 0..100 {
        made.push(connections(&Names::new(&[address]), address, Protocol::Grpc).lanes().await.unwrap());
    }
    let (now, due) = (Instant::now(), |at| made.iter().filter(|lanes| lanes.is_due(64, at)).count());
    assert!(made.iter().all(|lanes| lanes.since == now));
    assert_eq!((due(now + AGE.mul_f64(0.9) - Duration::from_secs(1)), due(now + AGE.mul_f64(1.1))), (0, 100));
    assert!((1..100).contains(&due(now + AGE)), "{}", due(now + AGE));
}

#[tokio::test]
async fn connections_are_kept_while_the_name_server_is_ill() {
    let [sink] = Sink::each().await;
    let names = Names::new(&[]);
    names.set(None);
    let connections = Connections { age: Duration::ZERO, ..connections(&names, sink.address, Protocol::Grpc) };
    let Err(Outcome::Retry { kind: RetryKind::Unreachable, message, .. }) = ask(&connections).await else {
        panic!("there is no address");
    };
    assert_eq!(message, "cannot find the address of backend.test (DNS): the name server is ill");
    names.set(Some(&[sink.address]));
    ask(&connections).await.unwrap();
    names.set(None);
    for _ in 0..3 {
        ask(&connections).await.unwrap();
    }
    assert_eq!((sink.asked(), sink.open()), (4, 1));
}

/// A name that moved is followed as soon as nobody answers at its old address.
#[tokio::test]
async fn a_connection_that_cannot_be_made_makes_the_name_looked_up() {
    let [sink] = Sink::each().await;
    let names = Names::new(&[vacant(&sink)]);
    let connections = connections(&names, sink.address, Protocol::Grpc);
    let Err(Outcome::Retry { kind: RetryKind::Unreachable, .. }) = ask(&connections).await else {
        panic!("nobody listens there");
    };
    names.set(Some(&[sink.address]));
    ask(&connections).await.unwrap();
}

/// A backend that takes no more connections keeps those it has.
#[tokio::test]
async fn connections_that_work_are_kept_when_another_one_cannot_be_made() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ((opened, _), (answers, may_answer)) = (watch::channel(0), watch::channel(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let desk = Desk { asked: Arc::clone(&asked), opened, may_answer };
    let mut backend = JoinSet::new();
    backend.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        drop(listener);
        desk.converse(stream).await;
    });
    let connections = connections(&Names::new(&[address]), address, Protocol::Http);
    let (first, second) = tokio::join!(ask(&connections), async {
        while asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let second = ask(&connections).await;
        answers.send_replace(true);
        second
    });
    first.unwrap();
    let Err(Outcome::Retry { kind: RetryKind::Unreachable, .. }) = second else { panic!("nobody listens any more") };
    ask(&connections).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// The clock stands still while anything is to be done.
#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_come_to_be_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let uri: Uri = format!("https://backend.test:{}/", address.port()).parse().unwrap();
    let tls = tls::client_config(Some(&weir_plan::Tls { insecure_skip_verify: true, ..Default::default() })).unwrap();
    let dial = Dial::new(&uri, Box::new(Names::new(&[address])), tls, None);
    let connections = Connections::new(dial, Protocol::Http, Arc::new(AtomicUsize::new(64)));
    let request = Request::post(uri).body(Chunks::plain(Vec::new(), false)).unwrap();
    let Err(Outcome::Retry { kind: RetryKind::Unreachable, message, .. }) = connections.request(request).await else {
        panic!("nobody says anything there");
    };
    assert!(message.contains("no connection within 15 s"), "{message}");
}

/// Whether this process has a socket with this port.
fn has_socket(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Without an inode it is the kernel's alone.
    fields.into_iter().any(|fields| fields[1].ends_with(&format!(":{port:04X}")) && fields[9] != "0")
}

/// Its connection ends with the time for an answer, although what was written can never be sent.
#[tokio::test]
async fn a_backend_that_reads_nothing_is_hung_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = connections(&Names::new(&[address]), address, Protocol::Http);
    let body = Chunks::plain(vec![Bytes::from(vec![0; 16 << 20])], false);
    let request = Request::post(format!("http://backend.test:{}/", address.port())).body(body).unwrap();
    let (asked, accepted) =
        tokio::join!(tokio::time::timeout(Duration::from_secs(1), connections.request(request)), listener.accept());
    assert!(asked.is_err(), "nobody reads the request");
    let (stream, peer) = accepted.unwrap();
    assert!(has_socket(peer.port()));
    let gone = async {
        while has_socket(peer.port()) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(2 * LONG, gone).await.unwrap();
    drop(stream);
}

/// The library may forget a request whose connection ends.
#[tokio::test]
async fn who_waits_for_an_answer_learns_that_the_connection_has_ended() {
    for protocol in PROTOCOLS {
        let [sink] = Sink::each::<1>().await;
        sink.answers.send_replace(false);
        let names = Names::new(&[sink.address]);
        let connections = connections(&names, sink.address, protocol);
        let lanes = connections.lanes().await.unwrap();
        let uri = format!("http://backend.test:{}/", sink.address.port());
        let mut request = Request::post(uri).body(Full::new(Chunks::plain(Vec::new(), false))).unwrap();
        let connection = capture_connection(&mut request);
        let asked = lanes.lanes[0].client.request(request);
        let forgotten = unless_ended(std::future::pending::<()>(), connection);
        let mut open = sink.open.clone();
        let ends = async {
            open.wait_for(|open| *open == 1).await.unwrap();
            drop(sink);
        };
        let ((), asked, forgotten) =
            tokio::time::timeout(LONG, async { tokio::join!(ends, asked, forgotten) }).await.unwrap();
        assert!(asked.is_err() && forgotten.is_none(), "{protocol:?}");
    }
}
