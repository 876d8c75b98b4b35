//! Clients that number their requests: request n holds the spans with the ids n · [`SPANS`] + 1 and so on.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use futures_util::StreamExt;

use super::grpc::{Answer, Grpc, OK, UNAVAILABLE};
use super::{eventually, payload};

/// Spans per request.
pub const SPANS: u64 = 10;
/// Requests under way at once.
const AT_ONCE: usize = 8;

/// Request number `number`, with `padding` bytes of text in each span.
pub fn request(number: u64, padding: usize) -> Vec<u8> {
    payload::encoded(1 + number * SPANS, SPANS, padding)
}

/// The ids of these requests, in order.
pub fn ids(numbers: Range<u64>) -> Vec<u64> {
    (1 + numbers.start * SPANS..=numbers.end * SPANS).collect()
}

/// Sends these requests, several at a time. Returns the answers in the order of the requests.
pub async fn send(address: SocketAddr, numbers: Range<u64>, padding: usize) -> Vec<Answer> {
    send_by(AT_ONCE, address, numbers, padding).await
}

/// Sends all these requests at the same time. Returns the answers in the order of the requests.
pub async fn send_at_once(address: SocketAddr, numbers: Range<u64>, padding: usize) -> Vec<Answer> {
    send_by(usize::MAX, address, numbers, padding).await
}

async fn send_by(at_once: usize, address: SocketAddr, numbers: Range<u64>, padding: usize) -> Vec<Answer> {
    let client = Grpc::connect(address).await;
    let client = &client;
    let answers = numbers.map(|number| async move { client.export(&request(number, padding)).await });
    futures_util::stream::iter(answers).buffered(at_once).collect().await
}

/// Sends these requests; each must be answered OK. What the disk of a busy machine did not take in time is sent again, as
/// clients do: that is no fault of Weir's.
pub async fn send_all(address: SocketAddr, numbers: Range<u64>, padding: usize) {
    for (number, answer) in numbers.clone().zip(send(address, numbers, padding).await) {
        let answer = if is_slow_disk(&answer) { send_again(address, number, padding).await } else { answer };
        assert_eq!(answer.code, OK, "{answer:?}");
    }
}

fn is_slow_disk(answer: &Answer) -> bool {
    let words = ["the disk is full or cannot be written to", "the disk does not answer"];
    answer.code == UNAVAILABLE && words.iter().any(|words| answer.message.starts_with(words))
}

async fn send_again(address: SocketAddr, number: u64, padding: usize) -> Answer {
    let client = Grpc::connect(address).await;
    let mut last = None;
    eventually("the disk takes it", async || {
        let answer = client.export(&request(number, padding)).await;
        !is_slow_disk(last.insert(answer))
    })
    .await;
    last.expect("it was sent")
}

/// Sends these requests one after the other; each must be answered OK. So each is on disk by itself.
pub async fn send_singly(address: SocketAddr, numbers: Range<u64>, padding: usize) {
    let client = Grpc::connect(address).await;
    for number in numbers {
        let answer = client.export(&request(number, padding)).await;
        assert_eq!(answer.code, OK, "request {number}: {answer:?}");
    }
}

/// A refusal that stock clients try again, later.
pub fn is_polite(answer: &Answer) {
    assert_eq!(answer.code, UNAVAILABLE, "{answer:?}");
    assert!(answer.retry_after.is_some_and(|hint| hint >= Duration::from_secs(1)), "{answer:?}");
}

/// How many requests were taken and how many refused; every refusal came with a hint.
#[derive(Debug, Default)]
pub struct Tally {
    /// Answered OK.
    pub taken: u64,
    /// To be tried again.
    pub refused: u64,
}

impl Tally {
    /// Counts an answer.
    pub fn count(&mut self, is_ok: bool, is_polite: bool, answer: &dyn std::fmt::Debug) {
        assert!(is_ok || is_polite, "{answer:?}");
        self.taken += u64::from(is_ok);
        self.refused += u64::from(!is_ok);
    }
}
