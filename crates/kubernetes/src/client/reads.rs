//! Reads share connections.
//!
//! The answer to a watch does not end, so with HTTP/1 each takes a connection of its own: a thousand Secrets are a
//! thousand TLS sessions, here and at the API server. With HTTP/2, watches and all other reads are streams of a few. Writes
//! have connections of HTTP/1 to themselves: one that is given up takes its connection along, however broken that is.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use hyper::body::{Body as HttpBody, Frame};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tower::util::MapErr;
use tower::{BoxError, Service};

use super::BEGIN;

/// Reads on one connection. API servers allow 100 streams unless they are told otherwise; one too many would wait for
/// ever.
const AT_ONCE: usize = 50;

/// How often a connection that is silent is asked whether it still is one, and how long it may take to answer.
const PING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));

/// Connections that nobody uses now. When they have died, each costs a request that waits in vain.
const IDLE: usize = 1;

/// Sends requests their way.
pub(super) struct Ways {
    writes: Client,
    reads: Reads,
}

impl Ways {
    pub(super) fn new(config: Config) -> kube::Result<Self> {
        let writes = client(&config, Version::HTTP_11)?;
        Ok(Self { writes, reads: Reads { config, connections: Mutex::default() } })
    }
}

/// Where a request goes, and its place there.
type Way = (Client, Option<OwnedSemaphorePermit>);

type Answering = Pin<Box<dyn Future<Output = kube::Result<Response<Answer>>> + Send>>;

impl Service<Request<Body>> for Ways {
    type Response = Response<Answer>;
    type Error = kube::Error;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let is_read = request.method() == Method::GET;
        let way = if is_read { self.reads.place() } else { Ok((self.writes.clone(), None)) };
        Box::pin(async move {
            let (client, place) = way?;
            let answer = timeout(BEGIN, client.send(request)).await;
            let answer = answer.map_err(|_| kube::Error::Service("the API server did not answer in time".into()))??;
            Ok(answer.map(|body| Answer { body, _place: place }))
        })
    }
}

/// What the API server says, and the place on the connection that this takes until its end.
pub(super) struct Answer {
    body: Body,
    _place: Option<OwnedSemaphorePermit>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<kube::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
}

/// As many connections as there are reads for.
struct Reads {
    config: Config,
    connections: Mutex<Vec<Connection>>,
}

/// A client that has one connection, if the API server speaks HTTP/2; else as many as there are reads.
struct Connection {
    client: Client,
    places: Arc<Semaphore>,
}

impl Reads {
    fn place(&self) -> kube::Result<Way> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let free = connections.iter().find_map(|connection| {
            let place = Arc::clone(&connection.places).try_acquire_owned().ok()?;
            Some((connection.client.clone(), Some(place)))
        });
        if let Some(free) = free {
            return Ok(free);
        }
        let (client, places) = (client(&self.config, Version::HTTP_2)?, Arc::new(Semaphore::new(AT_ONCE)));
        connections.push(Connection { client, places });
        drop(connections);
        self.place()
    }
}

/// `version`: the highest that is spoken.
fn client(config: &Config, version: Version) -> kube::Result<Client> {
    let mut connector = TimeoutConnector::new(https(config, version)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = legacy::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING.0)
        .http2_keep_alive_timeout(PING.1)
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(IDLE)
        .build(connector);
    let client = MapErr::new(client, BoxError::from);
    let plain = ClientBuilder::new(client, &config.default_namespace)
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&config.base_uri_layer());
    Ok(match config.auth_layer()? {
        Some(auth) => plain.with_layer(&auth).build(),
        None => plain.build(),
    })
}

fn https(config: &Config, version: Version) -> kube::Result<HttpsConnector<HttpConnector>> {
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|_| kube::Error::Service("not a name of a server".into()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    Ok(match version {
        Version::HTTP_2 => builder.enable_all_versions().wrap_connector(http),
        _ => builder.enable_http1().wrap_connector(http),
    })
}
