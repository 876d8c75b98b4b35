//! Plain HTTP/1.1 requests to control, health and metrics ports on this machine.

use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer may take that lists all ids of a test, or without which a long test would end.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer read.
const ANSWER_LIMIT_BYTES: usize = 256 << 20;

/// `GET`s a path and returns the body of a 2xx answer.
pub(crate) async fn get(port: u16, path: &str) -> anyhow::Result<Bytes> {
    request(Method::GET, port, path, "", TIMEOUT).await
}

/// `GET`s a path whose answer is long, or may be late.
pub(crate) async fn get_long(port: u16, path: &str) -> anyhow::Result<Bytes> {
    request(Method::GET, port, path, "", LONG_TIMEOUT).await
}

/// `POST`s `body` to a path.
pub(crate) async fn post(port: u16, path: &str, body: &str) -> anyhow::Result<Bytes> {
    request(Method::POST, port, path, body, TIMEOUT).await
}

async fn request(method: Method, port: u16, path: &str, body: &str, limit: Duration) -> anyhow::Result<Bytes> {
    let what = format!("cannot {method} http://127.0.0.1:{port}{path}");
    tokio::time::timeout(limit, exchange(method, port, path, body))
        .await
        .with_context(|| format!("{what}: no answer within {limit:?}"))?
        .context(what)
}

async fn exchange(method: Method, port: u16, path: &str, body: &str) -> anyhow::Result<Bytes> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1").body(body)?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_LIMIT_BYTES).collect().await;
    driver.abort();
    ensure!(status.is_success(), "status {status}");
    Ok(body.map_err(|err| anyhow::anyhow!("cannot read answer: {err}"))?.to_bytes())
}
