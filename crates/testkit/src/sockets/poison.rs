//! A backend that refuses some spans for good, and requests of others that pass beside them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::backend::{Backend, Captured, Say};
use super::clients::{SPANS, ids, send_singly};
use super::{eventually, payload};

/// One, two neighbours, the last one of a request and the first one of the next.
pub const BAD: [u64; 5] = [13, 57, 58, 190, 191];

/// Requests are numbered below this.
pub const REQUESTS: u64 = 20;

/// Whether a bad span is in it.
pub fn is_bad(request: &Captured) -> bool {
    payload::ids(&request.message).iter().any(|id| BAD.contains(id))
}

/// A backend that does not take requests with a bad span, and nothing at all while it is `away`.
pub async fn picky(away: &Arc<AtomicBool>, code: u16) -> Backend {
    let away = Arc::clone(away);
    let later = if code > 99 { 503 } else { 14 };
    let script = move |_, request: &Captured| match is_bad(request) {
        _ if away.load(Ordering::SeqCst) => Say::Code(later, "later", None),
        true => Say::Code(code, "a span without a trace", None),
        false => Say::Ok,
    };
    Backend::scripted(script).await
}

/// The ids of all spans that are not bad.
pub fn good() -> Vec<u64> {
    ids(0..REQUESTS).into_iter().filter(|id| !BAD.contains(id)).collect()
}

/// Requests of others have greater numbers.
pub const OTHERS: u64 = 10_000;

/// Others send until `done`: something has to pass to show that the bad ones are the cause. Returns how many requests
/// it took.
pub async fn others_send(address: SocketAddr, mut done: impl AsyncFnMut() -> bool) -> u64 {
    let mut number = OTHERS;
    eventually("the bad ones are found", async || {
        send_singly(address, number..number + 1, 10).await;
        number += 1;
        done().await
    })
    .await;
    number - OTHERS
}

/// The spans that others did not send.
pub fn without_others(taken: Vec<u64>) -> Vec<u64> {
    taken.into_iter().filter(|id| *id <= OTHERS * SPANS).collect()
}
