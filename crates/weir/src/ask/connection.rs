//! A connection to the admin port, with TLS or without.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::wrong_port;

/// A connection, and each read of it, takes at most so long.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

/// Connects to a host and port.
pub(super) fn connect(address: &str, tls: Option<&Arc<ClientConfig>>) -> anyhow::Result<Box<dyn Connection>> {
    let found = address.to_socket_addrs().with_context(|| format!("cannot find {address}"))?.next();
    let found = found.ok_or_else(|| anyhow!("{address} has no address"))?;
    let stream = TcpStream::connect_timeout(&found, PATIENCE)
        .with_context(|| wrong_port(&format!("nothing answers at {address}")))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(config) = tls else { return Ok(Box::new(stream)) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).with_context(|| format!("{host} is no name of a server"))?;
    Ok(Box::new(StreamOwned::new(ClientConnection::new(Arc::clone(config), name)?, stream)))
}

/// Everything that comes until the end, and no more than this. The end of a process is an end, too.
pub(super) fn read_all(connection: &mut dyn Connection, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    match connection.take(most_bytes).read_to_end(&mut answer) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof || answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}
