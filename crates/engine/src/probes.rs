//! Answers for probes while there is no engine to give them: before it starts, and after it has ended.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Where it is asked whether the process lives, ready or not.
pub(crate) const LIVE: &str = "/live";

/// For a request to arrive and its answer to be read. Conversations follow one another: a kubelet has few probes.
const CONVERSATION: Duration = Duration::from_secs(2);
/// Accepting rests this long after a failure.
const PAUSE: Duration = Duration::from_millis(50);

/// Says that this process lives, and is not ready, for as long as this value lives.
#[derive(Debug)]
pub struct Probes {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Probes {
    /// Answers on this port. `status`: why the process is not ready, in a word.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn bind(listen: IpAddr, port: u16, status: &'static str) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::new(listen, port)).await?;
        Self::on(listener, status)
    }

    pub(crate) fn on(listener: TcpListener, status: &'static str) -> io::Result<Self> {
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(serve(listener, status)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers no more, and has left the port when this returns.
    pub async fn end(mut self) {
        self.task.abort();
        // It was aborted, which is no news.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, status: &'static str) {
    loop {
        match listener.accept().await {
            // A client that goes away, or does not, is its own business.
            Ok((stream, _)) => drop(timeout(CONVERSATION, converse(stream, status)).await),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn converse(stream: TcpStream, status: &'static str) {
    let service = service_fn(|request: Request<Incoming>| {
        let code = if request.uri().path() == LIVE { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut answer = Response::new(Full::new(Bytes::from(format!("{{\"status\":\"{status}\"}}\n"))));
        *answer.status_mut() = code;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).keep_alive(false).max_buf_size(8 << 10);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_process_that_is_not_ready_lives_and_says_why() {
        let probes = Probes::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), 0, "starting").await.unwrap();
        let address = probes.address();
        assert!(get(address, "/live").await.starts_with("HTTP/1.1 200 "));
        let answer = get(address, "/").await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("{\"status\":\"starting\"}\n"), "{answer}");
        probes.end().await;
        TcpListener::bind(address).await.unwrap();
    }
}
