//! Sockets of the sink: accepting, serving connections, and vanishing during an outage.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustix::net::sockopt::set_socket_reuseport;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Shared;
use super::message::Transport;
use super::service::export;
use crate::accept;

/// Flow-control windows: wide enough that the network, not the window, is the limit.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// How long until an outage that cannot begin is tried again.
const PAUSE: Duration = Duration::from_millis(20);
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Serves export requests on `listener` until dropped.
pub(crate) async fn serve(mut listener: TcpListener, address: SocketAddr, shared: Arc<Shared>, transport: Transport) {
    let mut outage = shared.outage.subscribe();
    loop {
        // Connections end with this set, that is, when an outage begins.
        let mut connections = JoinSet::new();
        tokio::select! {
            biased;
            begun = outage.wait_for(|open| *open) => {
                if begun.is_err() {
                    return;
                }
            }
            () = accept_all(&listener, &mut connections, &shared, transport) => (),
        }
        let port = hold(&listener, address).await;
        drop((connections, listener));
        if outage.wait_for(|open| !open).await.is_err() {
            return;
        }
        listener = match port.listen(BACKLOG) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%address, %error, "cannot listen again after the outage"),
        };
    }
}

/// The port of a listener that is about to go, without anybody listening: connections are refused, and nobody else gets
/// it. It is taken while the listener is there, which both have to allow: on a busy machine, a port that is free for a
/// moment is given to somebody else.
async fn hold(listener: &TcpListener, address: SocketAddr) -> TcpSocket {
    let bind = || {
        set_socket_reuseport(listener, true)?;
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        std::io::Result::Ok(socket)
    };
    loop {
        match bind() {
            Ok(socket) => return socket,
            Err(error) => tracing::warn!(%address, %error, "cannot begin an outage, trying on"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn accept_all(listener: &TcpListener, connections: &mut JoinSet<()>, shared: &Arc<Shared>, transport: Transport) {
    let mut told = None;
    loop {
        let stream = accept::next(listener, &mut told).await;
        connections.spawn(serve_connection(stream, Arc::clone(shared), transport));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>, transport: Transport) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let frame_bytes = shared.frame_bytes;
    let service = service_fn(move |request| export(Arc::clone(&shared), transport, request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(frame_bytes)
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
