//! A disk that gives back other bytes than were written: what is readable is delivered, what is not is counted, and
//! somebody is told.

use std::path::Path;
use std::time::Duration;

use weir_engine::Settings;
use weir_testkit::backend::Backend;
use weir_testkit::clients::{SPANS, ids, request, send_singly};
use weir_testkit::data_dir::{DataDir, find, flip};
use weir_testkit::sink::{DOWN, arrived, closed_port, faults, sink};

use crate::support::{Gateway, on_disk, pipeline};

/// Requests in the journal, each by itself.
const REQUESTS: u64 = 30;

/// A directory that a gateway has left with its backlog in it.
async fn filled() -> DataDir {
    let dir = DataDir::new();
    let settings = Settings { spill_after: Duration::from_millis(5), ..on_disk(&dir).await };
    let gateway = Gateway::with(vec![pipeline("backend", closed_port().await)], settings).await;
    send_singly(gateway.at.grpc, 0..REQUESTS, 100).await;
    gateway.stop().await;
    dir.becomes_free().await;
    dir
}

/// Where the payload of a request lies in a file.
fn payload_at(file: &Path, number: u64) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    find(&bytes, &request(number, 100)).unwrap() as u64
}

/// What became of a backlog in a directory that somebody else has written to.
struct Outcome {
    arrived: Vec<u64>,
    /// Bytes that the gateway reports as damaged or removed.
    reported: f64,
}

async fn deliver(dir: &DataDir) -> Outcome {
    let sink = sink("{}").await;
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], on_disk(dir).await).await;
    gateway.settle().await;
    let arrived = arrived(&sink);
    let books = gateway.books("backend");
    assert_eq!(books.delivered, arrived.len() as u64, "{books:?}");
    let scrape = gateway.scrape().await;
    let truncated = scrape.get("weir_journal_recovery_truncated_bytes");
    let reported = truncated + scrape.get("weir_journal_damaged_bytes_total");
    gateway.still_delivers(&sink, 1_000_000).await;
    gateway.stop().await;
    Outcome { arrived, reported }
}

/// Any byte of the file, whatever it is for.
#[tokio::test]
async fn no_single_byte_costs_more_than_one_request_or_goes_unnoticed() {
    let dir = filled().await;
    let first = payload_at(&dir.largest(), 0);
    let end = payload_at(&dir.largest(), REQUESTS - 1) + request(REQUESTS - 1, 100).len() as u64;
    let mut random = fastrand::Rng::new();
    let early = (0..first).step_by(16);
    let positions: Vec<u64> = early.chain((0..16).map(|_| random.u64(first..end))).collect();
    for at in positions {
        let copy = dir.copy();
        flip(&copy.largest(), at);
        let Outcome { arrived, reported } = deliver(&copy).await;
        let lost = REQUESTS * SPANS - arrived.len() as u64;
        assert!(arrived.iter().all(|id| (1..=REQUESTS * SPANS).contains(id)), "byte {at}: something was invented");
        assert!(lost == 0 || reported > 0.0, "byte {at}: {lost} items were lost in silence");
        // Before the first request lies what describes the whole file.
        assert!(lost <= SPANS || at < first, "byte {at} of {end}: {lost} items were lost");
    }
}

#[tokio::test]
async fn whole_files_of_something_else_are_reported_and_survived() {
    let dir = filled().await;
    let half = usize::try_from(payload_at(&dir.largest(), 14) + payload_at(&dir.largest(), 15)).unwrap() / 2;
    let original = std::fs::read(dir.largest()).unwrap();
    let noise = (0..100_000).map(|_| fastrand::u8(..)).collect();
    for (what, bytes, expected) in [
        ("nothing", Vec::new(), Vec::new()),
        ("zeros", vec![0; 100_000], Vec::new()),
        ("noise", noise, Vec::new()),
        ("the beginning", original[..half].to_vec(), ids(0..14)),
    ] {
        let copy = dir.copy();
        std::fs::write(copy.largest(), &bytes).unwrap();
        let Outcome { arrived, reported } = deliver(&copy).await;
        assert_eq!(arrived, expected, "{what}");
        assert!(reported > 0.0 || bytes.is_empty(), "{what}");
    }
}

/// Other people's files in the directory are neither read nor touched.
#[tokio::test]
async fn strange_files_are_left_alone() {
    let dir = filled().await;
    for name in ["README", "notes.txt", "0001.seg.swp"] {
        std::fs::write(dir.journal().join(name), name).unwrap();
    }
    std::fs::create_dir(dir.journal().join("lost+found")).unwrap();
    assert_eq!(deliver(&dir).await.arrived, ids(0..REQUESTS));
    for name in ["README", "notes.txt", "0001.seg.swp"] {
        assert_eq!(std::fs::read(dir.journal().join(name)).unwrap(), name.as_bytes());
    }
}

/// Damage done while the gateway runs is found when the data is read back.
#[tokio::test]
async fn damage_under_a_running_gateway_costs_what_was_hit() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let settings = Settings { spill_after: Duration::from_millis(5), ..on_disk(&dir).await };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    send_singly(gateway.at.grpc, 0..REQUESTS, 100).await;
    let file = dir.largest();
    for number in [3, 4, 20] {
        flip(&file, payload_at(&file, number) + 50);
    }
    sink.set_faults(faults("{}"));
    gateway.settle().await;
    let arrived = arrived(&sink);
    let books = gateway.books("backend");
    assert_eq!(books.delivered, arrived.len() as u64);
    let lost = books.dropped.get("journal_damaged").copied().unwrap_or_default();
    assert_eq!(books.delivered + lost, REQUESTS * SPANS, "{books:?}");
    // A request that was under way when it was written may have been in memory still.
    assert!((2 * SPANS..=3 * SPANS).contains(&lost), "{books:?}");
    assert!(ids(0..3).iter().chain(&ids(5..20)).chain(&ids(21..REQUESTS)).all(|id| arrived.binary_search(id).is_ok()));
    dir.becomes_empty().await;
}

/// A backend never sees bytes that are not what a client sent.
#[tokio::test]
async fn what_is_delivered_of_a_damaged_journal_is_what_was_sent() {
    let (dir, backend) = (filled().await, Backend::start().await);
    let file = dir.largest();
    flip(&file, payload_at(&file, 7) + 300);
    let gateway = Gateway::with(vec![pipeline("backend", backend.address)], on_disk(&dir).await).await;
    gateway.settle().await;
    for captured in backend.captured() {
        for resource in captured.message.resource_spans {
            let spans = &resource.scope_spans[0].spans;
            let first = u64::from_be_bytes(spans[0].span_id.as_slice().try_into().unwrap());
            assert_eq!(vec![resource], weir_testkit::payload::request(first, SPANS, 100).resource_spans);
        }
    }
    assert_eq!(backend.ids(), [ids(0..7), ids(8..REQUESTS)].concat());
}
