//! HTTP/1.1 by hand, so that wrong requests can be sent as well.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How requests are written that are not JSON.
pub const PROTOBUF: &str = "application/x-protobuf";
/// How JSON is announced.
pub const JSON: &str = "application/json";

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Of the first line.
    pub status: u16,
    /// By their names in lower case.
    pub headers: HashMap<String, String>,
    /// As it was sent.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header field; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Posts `body` to `/v1/traces` on a connection of its own.
pub async fn post(address: SocketAddr, content_type: &str, encoding: Option<&str>, body: &[u8]) -> Answer {
    let mut request = head("POST", "/v1/traces", content_type, &format!("content-length: {}\r\n", body.len()));
    if let Some(encoding) = encoding {
        request.truncate(request.len() - 2);
        request.extend_from_slice(format!("content-encoding: {encoding}\r\n\r\n").as_bytes());
    }
    request.extend_from_slice(body);
    exchange(address, &request).await
}

/// Posts `body` to `path` on a connection of its own.
pub async fn post_to(address: SocketAddr, path: &str, content_type: &str, body: &[u8]) -> Answer {
    let mut request = head("POST", path, content_type, &format!("content-length: {}\r\n", body.len()));
    request.extend_from_slice(body);
    exchange(address, &request).await
}

/// Gets `path` on a connection of its own.
pub async fn get(address: SocketAddr, path: &str) -> Answer {
    exchange(address, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await
}

/// Request line and header fields; `fields` are whole lines.
pub fn head(method: &str, path: &str, content_type: &str, fields: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n{fields}\r\n").into_bytes()
}

/// Sends bytes on a new connection and reads the answer.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server may answer and close before it has read everything.
    let _ = stream.write_all(request).await;
    super::in_time("HTTP answer", read_answer(&mut stream)).await.unwrap()
}

/// Reads one answer.
pub async fn read_answer(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Answer> {
    let mut received = Vec::new();
    let body_at = loop {
        if let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let text = String::from_utf8(received[..body_at].to_vec()).unwrap();
    let mut lines = text.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields = lines.filter_map(|line| line.split_once(':'));
    let headers: HashMap<_, _> =
        fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = received.split_off(body_at);
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Answer { status, headers, body })
}
