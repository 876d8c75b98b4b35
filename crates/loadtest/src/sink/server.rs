//! Sockets of the sink: accepting, serving connections, and vanishing during an outage.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Shared;
use super::service::{Transport, export};

/// Flow-control windows: wide enough that the network, not the window, is the limit. The frame size stays at HTTP/2's
/// default of 16 KiB, as with real backends.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// How long until binding is tried again when the port is still taken after an outage.
const REBIND_PAUSE: Duration = Duration::from_millis(20);

/// Serves export requests on `listener` until dropped.
pub(crate) async fn serve(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>, transport: Transport) {
    let mut outage = shared.outage.subscribe();
    let mut listener = Some(listener);
    loop {
        if *outage.borrow_and_update() {
            listener = None;
            if outage.wait_for(|open| !open).await.is_err() {
                return;
            }
        }
        let bound = match listener.take() {
            Some(listener) => listener,
            None => rebind(address).await,
        };
        // Connections end with this set, that is, when an outage begins.
        let mut connections = JoinSet::new();
        tokio::select! {
            () = accept(&bound, &mut connections, &shared, transport) => (),
            changed = outage.wait_for(|open| *open) => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

async fn rebind(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => tracing::debug!(%address, %error, "cannot listen again after outage, trying on"),
        }
        tokio::time::sleep(REBIND_PAUSE).await;
    }
}

async fn accept(listener: &TcpListener, connections: &mut JoinSet<()>, shared: &Arc<Shared>, transport: Transport) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve_connection(stream, Arc::clone(shared), transport));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connection");
                tokio::time::sleep(REBIND_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>, transport: Transport) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let service = service_fn(move |request| export(Arc::clone(&shared), transport, request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(1000)
        .max_local_error_reset_streams(None);
    let builder = if transport == Transport::Grpc { builder.http2_only() } else { builder };
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error, "connection ended");
    }
}

/// The state that [`serve`] follows.
pub(crate) fn outage_channel() -> watch::Sender<bool> {
    watch::Sender::new(false)
}
