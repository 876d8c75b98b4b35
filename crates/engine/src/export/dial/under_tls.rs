//! What the TLS of a backend runs over. Through a proxy that is itself reached over TLS, this is TLS as well.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::super::coalesce::Coalesced;
use super::super::outcome::message_of;
use super::super::proxy::{Proxy, Way};
use super::{BoxError, Connecting};

/// What TLS collects of a request before it is written: a record.
const TLS_BUFFER: usize = 16 * 1024;

pub(super) type Tcp = Coalesced<TokioIo<TcpStream>>;
/// To the backend, or to the proxy before it.
pub(super) type Near = MaybeHttpsStream<Tcp>;

/// A connection over TCP, which is there already.
#[derive(Debug, Clone)]
struct Once(Arc<Mutex<Option<Tcp>>>);

impl Service<Uri> for Once {
    type Response = Tcp;
    type Error = BoxError;
    type Future = Ready<Result<Tcp, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let tcp = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        ready(tcp.ok_or_else(|| "the connection is used already".into()))
    }
}

/// What the TLS of a backend runs over: a connection to one address, and the way through the proxy, if there is one.
#[derive(Debug, Clone)]
pub(super) struct UnderTls {
    tcp: Once,
    proxy: Option<Proxy>,
}

impl UnderTls {
    pub(super) fn new(tcp: Tcp, proxy: Option<Proxy>) -> Self {
        Self { tcp: Once(Arc::new(Mutex::new(Some(tcp)))), proxy }
    }

    async fn connect(mut self, destination: Uri) -> Result<Near, BoxError> {
        let Some(Proxy { uri, authorization, tls, way }) = self.proxy else {
            return Ok(MaybeHttpsStream::Http(self.tcp.call(destination).await?));
        };
        let mut to_proxy = HttpsConnector::from((self.tcp, tls));
        let connected = match way {
            Way::Forward => to_proxy.call(uri.clone()).await.map_err(|cause| message_of(cause.as_ref())),
            Way::Tunnel => {
                let tunnel = Tunnel::new(uri.clone(), to_proxy);
                let mut tunnel = match authorization {
                    Some(authorization) => tunnel.with_auth(authorization),
                    None => tunnel,
                };
                tunnel.call(destination.clone()).await.map_err(|cause| message_of(&cause))
            }
        };
        let connected = connected.map(with_little_in_tls);
        let (proxy, name) = (uri.authority(), destination.authority());
        let (proxy, name) = (proxy.map_or("", |proxy| proxy.as_str()), name.map_or("", |name| name.as_str()));
        connected.map_err(|cause| format!("cannot reach {name} through the proxy {proxy}: {cause}").into())
    }
}

impl Service<Uri> for UnderTls {
    type Response = Near;
    type Error = BoxError;
    type Future = Connecting<Near>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, destination: Uri) -> Self::Future {
        Box::pin(self.clone().connect(destination))
    }
}

/// Data that waits for the socket waits in [`Coalesced`], which pays for it. TLS itself needs no more than a record.
pub(super) fn with_little_in_tls<T>(mut stream: MaybeHttpsStream<T>) -> MaybeHttpsStream<T> {
    if let MaybeHttpsStream::Https(stream) = &mut stream {
        stream.inner_mut().get_mut().1.set_buffer_limit(Some(TLS_BUFFER));
    }
    stream
}
