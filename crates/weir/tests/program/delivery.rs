//! What a backend gets, and what its answers do to the data.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::{eventually, in_time, payload};

use crate::process::{Weir, manifest};

/// Whatever such a backend has the library remember would be kept with the whole buffer in which it came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_whose_answers_have_paths_is_hung_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let weir = Weir::start(&manifest("backend", listener.local_addr().unwrap()), &["--memory", "64MiB"]).await;
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&payload::encoded(1, 1, 100)).await.code, OK);
    let (mut stream, _) = in_time("a connection", listener.accept()).await.unwrap();
    stream.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
    in_time("a request", until_a_head(&mut stream)).await;
    for number in 0..100 {
        // HEADERS of stream 1: status 103, a path that is to be remembered, and a field of 7,000 bytes.
        let mut fields = [b"\x08\x03103\x44\x05/", format!("{number:04}").as_bytes(), b"\x0f\x2b\x7f\xd9\x35"].concat();
        fields.resize(fields.len() + 7000, b'x');
        let [.., high, low] = fields.len().to_be_bytes();
        // It may be hung up on already.
        let _ = stream.write_all(&[&[0, high, low, 1, 4, 0, 0, 0, 1], &fields[..]].concat()).await;
    }
    // It may be reset, as it sent more than was read.
    let _ = in_time("the end", stream.read_to_end(&mut Vec::new())).await;
    let why = |line: &serde_json::Value| line.to_string().contains("header fields that only requests have");
    eventually("the log tells why", async || weir.logs().iter().any(why)).await;
}

/// Reads what a client of HTTP/2 sends until the head of a request begins.
async fn until_a_head(stream: &mut TcpStream) {
    stream.read_exact(&mut [0; 24]).await.unwrap();
    let mut head = [0; 9];
    while head[3] != 1 {
        stream.read_exact(&mut head).await.unwrap();
        let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
        stream.read_exact(&mut vec![0; length]).await.unwrap();
    }
}
