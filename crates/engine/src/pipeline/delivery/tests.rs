//! What is sent at a time, with a journal on a simulated disk.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use bytes::Bytes;
use tokio::task::JoinSet;
use weir_journal::{Durability, Entry, Fs, NewEntry, Options, Owed};
use weir_plan::{PipelineId, Signal};
use weir_testkit::SimFs;

use super::super::parked::Batch;
use super::super::{Common, Pipeline};
use super::departure::PROBE_BYTES;
use super::landing::Answered;
use super::refused::{Split, split_piece};
use super::*;
use crate::account;
use crate::accounts::Accounts;
use crate::division::PIECE_BYTES;
use crate::export::{About, BackendRefusal, Outcome, RetryKind};
use crate::obligation::Whereabouts;
use crate::share::Share;
use crate::simulation::payload;
use crate::store::{Io, Reads};

const ENTRIES: u64 = 300;
const PIECES: usize = 40;
const HALVES: usize = 40 << 10;

/// Never answers.
#[derive(Debug)]
struct Silent;

impl Backend for Silent {
    fn send(&self, _: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// Never answers, and is asked a while after requests were handed over.
#[derive(Debug, Default)]
struct AskedLate(OnceLock<Instant>);

const TOKEN_TAKES: Duration = Duration::from_secs(9);

impl Backend for AskedLate {
    fn send(&self, _: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(async {
            tokio::time::sleep(TOKEN_TAKES).await;
            self.0.get_or_init(Instant::now);
            std::future::pending().await
        })
    }

    fn asked_since(&self, _: Instant) -> Option<Instant> {
        self.0.get().copied()
    }
}

/// An account with a backlog of small entries, each of one item.
fn with_backlog() -> Arc<Account> {
    with_entries(ENTRIES, Bytes::from_static(b"a small one"))
}

fn with_entries(entries: u64, payload: Bytes) -> Arc<Account> {
    let fs: Arc<dyn Fs> = Arc::new(SimFs::new(1));
    let (mut writer, journal, _) = weir_journal::open(fs, Options { segment_bytes: 1 << 20, seed: 1 }).unwrap();
    let queue = journal.queue("traces/shop");
    let owed = [Owed { queue, taken: false }];
    let payload = [payload];
    for _ in 0..entries {
        let entry = NewEntry { payload: &payload, items: 1, owed: &owed };
        writer.append(&[entry], 1000, Durability::Written).unwrap();
    }
    let queue = account::JournalQueue::new(journal, queue, weir_plan::Backlog::default());
    let share = Share::new(1 << 20, Instant::now());
    let account = Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, Some(queue));
    account.books.recover(entries);
    account
}

fn limits() -> Limits {
    Limits {
        batch_bytes: 1 << 20,
        in_flight_bytes: 1 << 20,
        read_back_bytes: 8 << 20,
        pieces: PIECES,
        halves: 0,
        samples: 0,
        requests: 64,
    }
}

/// However small they are: memory is set aside for so many.
#[tokio::test(start_paused = true)]
async fn no_more_pieces_are_on_their_way_than_are_paid_for() {
    let (account, budget) = (with_backlog(), Budget::new(1 << 20));
    let limits = limits();
    let read_back = Budget::new(limits.read_back_bytes);
    let oversized = budget.within(1 << 20);
    let common = Common { limits, budget, read_back, oversized, store: None, clock: Clock::simulated(1000) };
    let (pipeline, delivery) = Pipeline::new("shop".into(), Arc::clone(&account), Arc::new(Silent), common);
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery);
    while account.backlog().untaken_entries == ENTRIES {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(account.backlog().untaken_entries, ENTRIES - PIECES as u64);
    tasks.shutdown().await;
    drop(pipeline);
    assert_eq!(account.backlog().untaken_entries, ENTRIES, "whoever comes next has it all");
    let books = account.books.figures();
    assert!(books.balanced() && books.pending == ENTRIES, "{books:?}");
}

/// What it takes to get a token, or memory, is not its time.
#[tokio::test(start_paused = true)]
async fn a_backend_is_silent_some_time_after_it_was_asked() {
    let (account, budget) = (with_backlog(), Budget::new(1 << 20));
    let limits = limits();
    let read_back = Budget::new(limits.read_back_bytes);
    let oversized = budget.within(1 << 20);
    let common = Common { limits, budget, read_back, oversized, store: None, clock: Clock::simulated(1000) };
    let backend = Arc::new(AskedLate::default());
    let (pipeline, delivery) =
        Pipeline::new("shop".into(), Arc::clone(&account), Arc::clone(&backend) as Arc<dyn Backend>, common);
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery);
    while account.backlog().untaken_entries == ENTRIES {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let is_silent = || pipeline.stats.backend.state() == BackendState::Silent;
    tokio::time::sleep(TOKEN_TAKES + SILENT_AFTER - Duration::from_secs(1)).await;
    assert!(backend.asked_since(Instant::now()).is_some() && !is_silent());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(is_silent());
    tasks.shutdown().await;
}

/// Refuses whatever begins like this, and says that it is too large.
const OVERSIZED: u8 = b'x';

#[derive(Debug, Default)]
struct Narrow {
    refused: AtomicU64,
    taken: AtomicU64,
}

impl Backend for Narrow {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        let is_refused = bodies.iter().any(|body| body[0] == OVERSIZED);
        let count = if is_refused { &self.refused } else { &self.taken };
        count.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match is_refused {
                true => Outcome::refused(About::Size, "413", "too large"),
                false => Outcome::Delivered { rejected: 0, message: String::new() },
            }
        })
    }
}

/// Sometimes something as large was taken just before, and sometimes only what is smaller.
#[tokio::test(start_paused = true)]
async fn what_is_too_large_alone_is_given_up_whatever_was_taken_meanwhile() {
    const BYTES: usize = 500;
    let share = Share::new(1 << 20, Instant::now());
    let account = Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, None);
    let limits = Limits {
        batch_bytes: 1 << 20,
        in_flight_bytes: 1 << 20,
        read_back_bytes: 0,
        pieces: 0,
        halves: 0,
        samples: 0,
        requests: 64,
    };
    let (budget, read_back) = (Budget::new(1 << 20), Budget::new(0));
    let oversized = budget.within(1 << 20);
    let common = Common { limits, budget, read_back, oversized, store: None, clock: Clock::simulated(1000) };
    let backend = Arc::new(Narrow::default());
    let sends_to = Arc::<Narrow>::clone(&backend);
    let (pipeline, delivery) = Pipeline::new("shop".into(), Arc::clone(&account), sends_to, common);
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery);
    let take = |first: u8, bytes: usize| {
        let body = Bytes::from(vec![first; bytes]);
        pipeline.take(Obligation::new(body, 1, &Arc::default(), &account));
    };
    let is_over = || account.books.figures().rejected.contains_key("too_large");
    take(OVERSIZED, BYTES);
    for round in 0..50 {
        while backend.refused.load(Ordering::Relaxed) <= round && !is_over() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        take(b'a', if round % 2 == 0 { BYTES } else { BYTES / 2 });
        while backend.taken.load(Ordering::Relaxed) <= round {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert!(is_over(), "{:?}", account.books.figures());
    tasks.shutdown().await;
}

/// Takes its time, and knows how much it was sent at once.
#[derive(Debug, Default)]
struct Slow {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Backend for Slow {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(async move {
            let bytes: usize = bodies.iter().map(Bytes::len).sum();
            let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.most.fetch_max(now, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.now.fetch_sub(bytes, Ordering::Relaxed);
            Outcome::Delivered { rejected: 0, message: String::new() }
        })
    }
}

/// Entries that were written when there were fewer pipelines, or more memory.
#[tokio::test(start_paused = true)]
async fn what_is_larger_than_the_part_of_a_pipeline_is_paid_for_as_requests_are() {
    const PIPELINES: usize = 6;
    const PART: usize = 1 << 20;
    let limits = Limits {
        batch_bytes: 1 << 16,
        in_flight_bytes: 16 << 20,
        read_back_bytes: PART,
        pieces: PIECES,
        halves: 0,
        samples: 0,
        requests: 64,
    };
    for entry in [PART / 8, PART / 2 * 3, PIPELINES * PART] {
        let (budget, read_back) = (Budget::new(64 << 20), Budget::new(PIPELINES * PART));
        let oversized = budget.within(PIPELINES * PART);
        let common = Common {
            limits,
            budget: budget.clone(),
            read_back: read_back.clone(),
            oversized,
            store: None,
            clock: Clock::simulated(1000),
        };
        let (backend, mut tasks) = (Arc::new(Slow::default()), JoinSet::new());
        let accounts: Vec<_> = (0..PIPELINES).map(|_| with_entries(5, Bytes::from(vec![b'a'; entry]))).collect();
        let mut pipelines = Vec::new();
        for account in &accounts {
            let sends_to = Arc::<Slow>::clone(&backend);
            let (pipeline, delivery) = Pipeline::new("shop".into(), Arc::clone(account), sends_to, common.clone());
            tasks.spawn(delivery);
            pipelines.push(pipeline);
        }
        // Who has small ones waits for nobody.
        let small = with_entries(5, Bytes::from_static(b"a small one"));
        let (its_pipeline, delivery) =
            Pipeline::new("small".into(), Arc::clone(&small), Arc::new(Slow::default()), common.clone());
        tasks.spawn(delivery);
        let its_own = async || {
            while small.books.figures().pending > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3), its_own()).await.unwrap();
        let all = async || {
            while accounts.iter().any(|account| account.books.figures().pending > 0) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), all()).await.unwrap();
        let sent = backend.most.load(Ordering::Relaxed);
        assert!(sent <= PIPELINES * PART, "{sent} bytes at once, in entries of {entry}");
        assert_eq!((read_back.used(), budget.used()), (0, 0));
        drop(its_pipeline);
        tasks.shutdown().await;
    }
}

/// A pipeline's state, before its task runs.
fn idle(account: Arc<Account>) -> Delivery {
    let limits = limits();
    let crew = Crew {
        backend: Arc::new(Silent),
        given_up: CancellationToken::new(),
        account,
        reads: Reads::new(Io::InPlace),
        store: None,
        reading: Arc::default(),
    };
    let (stats, clock) = (Arc::new(Stats::new(Instant::now())), Clock::simulated(1000));
    let (budget, read_back) = (Budget::new(1 << 20), Budget::new(8 << 20));
    let halves = budget.within(HALVES);
    let read_back = ReadBack::new(&read_back, limits.read_back_bytes, budget.within(1 << 20));
    let parts = Parts { crew, limits, budget, halves, read_back, stats, clock, store: None };
    Delivery::new(parts, mpsc::unbounded_channel().1)
}

/// What was shown of a whole batch in unclear words is held against none of its parts.
#[tokio::test(start_paused = true)]
async fn a_probe_that_is_cut_off_a_batch_begins_without_its_proofs() {
    let (account, now) = (with_backlog(), Instant::now());
    let mut delivery = idle(Arc::clone(&account));
    let piece = || Obligation::new(Bytes::from(vec![0; PROBE_BYTES]), 1, &Arc::default(), &account);
    let pieces = [piece(), piece()];
    let mut batch = delivery.batch(pieces.into());
    let mut traffic = Traffic::default();
    for _ in 0..50 {
        batch.suspicion.refused(None, traffic);
        let number = traffic.leaves();
        traffic.takes(number);
    }
    assert!(batch.suspicion.has_many_proofs(0.0));
    delivery.parked.park(batch, now);
    delivery.pace.shut_out(None, now);
    for _ in 0..2 {
        let Some((probe, _)) = delivery.next_retry(now) else { panic!("one half, then the other") };
        assert!(probe.pieces.len() == 1 && !probe.suspicion.has_many_proofs(0.0));
        probe.pieces.iter().for_each(|piece| piece.withdraw());
    }
}

/// Without a journal nothing is set aside for what pieces cost beside their bytes.
#[tokio::test(start_paused = true)]
async fn what_is_taken_apart_in_memory_is_paid_for() {
    let (ids, now): (Vec<u64>, _) = ((0..1000).collect(), Instant::now());
    let share = Share::new(1 << 20, now);
    let delivery = idle(Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, None));
    // Each of a resource of its own.
    let body: Vec<u8> = ids.iter().flat_map(|id| payload::encode(&[*id], 0)).collect();
    let whole = Obligation::new(Bytes::from(body), 1000, &Arc::default(), delivery.account());
    let mut pieces = VecDeque::from([whole]);
    loop {
        let Some(Whereabouts::Memory(body)) = pieces[0].begin_attempt() else { panic!("it waits") };
        match split_piece(&pieces[0], &body, &delivery.parts) {
            Split::Halves(halves) => pieces.extend(halves),
            Split::SingleItem => panic!("{} pieces, and nobody pays for them", pieces.len()),
            Split::NoMemory => break,
        }
        drop(pieces.pop_front());
    }
    assert!(pieces.len() > 10 && pieces.len() <= HALVES >> 10, "{} pieces", pieces.len());
    pieces.drain(..).for_each(|piece| piece.withdraw());
    assert_eq!((delivery.parts.halves.used(), delivery.parts.budget.used()), (0, 0));
}

/// What the limit on pieces counts with: each in a batch of its own, and in a request.
#[test]
fn a_piece_costs_no_more_than_is_set_aside() {
    let counts = 2 * size_of::<usize>();
    let obligation = counts + size_of::<Obligation>() + counts + size_of::<Entry>() + size_of::<usize>();
    // Trees and lists have room for more than they hold.
    let places = 3 * size_of::<Arc<Obligation>>() / 2
        + 3 * size_of::<Batch>() / 2
        + 3 * size_of::<(Instant, Instant, u64)>() / 2;
    let request = size_of::<Whereabouts>().max(2 * size_of::<Bytes>());
    let piece = obligation + places + request;
    assert!(piece <= PIECE_BYTES, "{piece}");
}

/// Whichever way a batch is taken apart, or is not for want of memory or of parts.
#[tokio::test(start_paused = true)]
async fn what_is_taken_apart_waits_as_long_as_the_backend_asks() {
    const HINT: Duration = Duration::from_secs(30);
    let ask = |about, hint| BackendRefusal { about, code: "400".into(), message: "later".into(), hint };
    for (pieces, spans, items, memory) in [(2, 1, 1, 1 << 20), (1, 2, 2, 1 << 20), (1, 2, 2, 0), (1, 1, 2, 1 << 20)] {
        let (account, now) = (with_backlog(), Instant::now());
        let mut delivery = idle(Arc::clone(&account));
        delivery.parts.budget = Budget::new(memory);
        let ids: Vec<u64> = (1..=spans).collect();
        let body = payload::encode(&ids, 0);
        let client = Arc::default();
        let piece = |_| Obligation::new(body.clone(), items, &client, &account);
        let batch = delivery.batch((0..pieces).map(piece).collect());
        batch.pieces.iter().for_each(|piece| _ = piece.begin_attempt());
        let bodies = vec![body.clone(); batch.pieces.len()];
        delivery.refused(Answered { batch, bodies, sent: now, number: 1 }, ask(About::Data, Some(HINT)));
        assert!(delivery.parked.next_due() >= Some(now + HINT), "{pieces} of {spans}: {:?}", delivery.parked);
        let (mut deposits, mut waiting) = (Vec::new(), delivery.parked.drain().flat_map(|batch| batch.pieces));
        assert!(waiting.all(|piece| {
            piece.deposit(&mut deposits);
            piece.withdraw();
            deposits.iter().all(|deposit| deposit.sent)
        }));
        assert!(!deposits.is_empty(), "nor does it go round by way of the journal");
    }
}

/// A backend that throttles a tenant takes the data of all others.
#[tokio::test(start_paused = true)]
async fn a_hint_for_what_is_refused_where_others_pass_is_for_that_alone() {
    const HINT: Option<Duration> = Some(Duration::from_secs(30));
    let account = with_backlog();
    let mut delivery = idle(Arc::clone(&account));
    let obligation = |_| Obligation::new(Bytes::from_static(b"a tenant's"), 1, &Arc::default(), &account);
    let mut throttled: Vec<Batch> = (0..100).map(obligation).map(|piece| delivery.batch(vec![piece])).collect();
    for others_pass in [false, true, true] {
        for batch in throttled.drain(..) {
            let number = delivery.traffic.leaves();
            let answered = Answered { batch, bodies: vec![Bytes::new()], sent: Instant::now(), number };
            delivery.tried_in_vain(answered, RetryKind::Answered, HINT);
        }
        assert_eq!(delivery.pace.is_probing(), !others_pass);
        tokio::time::advance(Duration::from_secs(60)).await;
        throttled.extend(std::iter::from_fn(|| delivery.parked.pop_due(Instant::now())));
        assert_eq!(throttled.len(), 100);
        let other = delivery.traffic.leaves();
        delivery.traffic.takes(other);
        delivery.pace.succeeded(Instant::now());
    }
    throttled.iter().flat_map(|batch| &batch.pieces).for_each(|piece| piece.withdraw());
}

/// Otherwise these would wait for ever.
#[tokio::test(start_paused = true)]
async fn neighbours_of_what_the_backend_throttles_leave_without_it() {
    const HINT: Duration = Duration::from_secs(30);
    let account = with_backlog();
    let mut delivery = idle(Arc::clone(&account));
    let obligation = |_| Obligation::new(Bytes::from_static(b"a tenant's"), 1, &Arc::default(), &account);
    let mut batch = delivery.batch((0..2).map(obligation).collect());
    let mut times = 0;
    while batch.pieces.len() > 1 {
        times += 1;
        assert!(times < 20, "it is never taken apart");
        let number = delivery.traffic.leaves();
        let bodies = vec![Bytes::new(); batch.pieces.len()];
        let answered = Answered { batch, bodies, sent: Instant::now(), number };
        delivery.tried_in_vain(answered, RetryKind::Answered, Some(HINT));
        let due = delivery.parked.next_due().unwrap();
        tokio::time::advance(HINT * 100).await;
        batch = delivery.parked.pop_due(Instant::now()).unwrap();
        assert_eq!(due + HINT * 100 <= Instant::now(), batch.pieces.len() == 1, "halves leave at once");
        let other = delivery.traffic.leaves();
        delivery.traffic.takes(other);
        delivery.pace.succeeded(Instant::now());
    }
    assert!(times > 2, "{times}");
    batch.pieces.iter().for_each(|piece| piece.withdraw());
    delivery.parked.drain().flat_map(|batch| batch.pieces).for_each(|piece| piece.withdraw());
}

/// A firewall before the backend refuses it for what is in it, and lets everything else pass.
#[tokio::test(start_paused = true)]
async fn what_is_refused_where_others_pass_begins_no_outage() {
    let account = with_backlog();
    let mut delivery = idle(Arc::clone(&account));
    let obligation = Obligation::new(Bytes::from_static(b"a script"), 1, &Arc::default(), &account);
    let mut batch = delivery.batch(vec![obligation]);
    for begins in [true, false, false] {
        let refusal = BackendRefusal { about: About::Access, code: "403".into(), message: String::new(), hint: None };
        let number = delivery.traffic.leaves();
        delivery.refused(Answered { batch, bodies: vec![Bytes::new()], sent: Instant::now(), number }, refusal);
        assert_eq!(delivery.pace.is_probing(), begins);
        tokio::time::advance(Duration::from_secs(60)).await;
        batch = delivery.parked.pop_due(Instant::now()).unwrap();
        let other = delivery.traffic.leaves();
        delivery.traffic.takes(other);
        delivery.pace.succeeded(Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    batch.pieces.iter().for_each(|piece| piece.withdraw());
}
