//! Pages over HTTP. Bytes are paid for as they arrive (SCRAPE-2).

use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use tokio::time::Instant;
use weir_engine::Permit;
use weir_legible::{line, line_with_causes};

use crate::inlet::{Memory, reserve, reserve_beside};

/// A page is paid for in steps of at least so many bytes.
const STEP: usize = 4 << 10;

/// What a connection buffers at most, which is not paid for.
const BUFFER_BYTES: usize = 64 << 10;

/// Characters of what others say, at most.
const MOST_CHARS: usize = 200;

/// Connections that pages come over.
pub(crate) type Connections = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// Why there is no whole page.
#[derive(Debug)]
pub(crate) enum DownloadError {
    /// The connection broke after so many bytes.
    Broken(hyper::Error, usize),
    /// It is larger than it may be.
    TooLarge,
    /// There is no memory for it now.
    NoMemory,
}

/// Connections to HTTP servers, with TLS or without.
pub(crate) fn connections(tls: ClientConfig) -> Connections {
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_max_idle_per_host(1).http1_max_buf_size(BUFFER_BYTES).build(connector)
}

/// Reads a page of at most `most` bytes, and waits for memory for it until it is too late. Nothing is kept for it before
/// that, but then there is room for the `likely` length at once: what grows is copied, and of many pages that have a part
/// of their memory each, none might get the rest. The permit pays for what is returned.
pub(crate) async fn download(
    mut page: Incoming,
    (likely, most): (usize, usize),
    memory: &impl Memory,
    until: Instant,
) -> Result<(Vec<u8>, Permit), DownloadError> {
    // How long it says it is, if it does. It is a limit for what grows, and nothing is reserved because of it.
    let said = page.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(most);
    // Numbers have a few digits more or less than last time.
    let room = (likely + likely / 16).max(STEP).min(said.min(most)).max(1);
    let mut permit = reserve(memory, room, until).await.ok_or(DownloadError::NoMemory)?;
    let mut body = Vec::with_capacity(room);
    while let Some(frame) = page.frame().await {
        let frame = frame.map_err(|error| DownloadError::Broken(error, body.len()))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = body.len() + data.len();
        if length > most {
            return Err(DownloadError::TooLarge);
        }
        if length > body.capacity() {
            let capacity = (2 * body.capacity()).min(said.min(most)).max(length);
            // While it grows, it is there twice.
            let larger =
                reserve_beside(permit.bytes(), memory, capacity, until).await.ok_or(DownloadError::NoMemory)?;
            body.reserve_exact(capacity - body.len());
            permit = larger;
        }
        body.extend_from_slice(&data);
    }
    permit.shrink_to(body.capacity());
    Ok((body, permit))
}

/// An error with its causes, in one line.
pub(crate) fn causes(error: &dyn Error) -> String {
    line_with_causes(error, MOST_CHARS)
}

/// The beginning of what others say, in one line.
pub(crate) fn clipped(text: &str) -> String {
    line(text, MOST_CHARS)
}
