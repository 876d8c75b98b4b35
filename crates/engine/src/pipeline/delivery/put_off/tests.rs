//! More items that a backend never takes than there are places for.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use weir_journal::{Durability, Fs, NewEntry, Options, Owed};
use weir_plan::{PipelineId, Signal};
use weir_testkit::SimFs;

use super::super::super::{Common, Limits, Pipeline};
use super::*;
use crate::account::{Account, JournalQueue};
use crate::accounts::Accounts;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::export::{About, Backend, Outcome, RetryKind};
use crate::settings::Fsync;
use crate::share::Share;
use crate::simulation::payload;
use crate::store::{Io, Opened, Store};

const PLACES: usize = 40;
const ITEMS: u64 = 6000;
/// In virtual time.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Refuses every request with a bad item, in the same words.
#[derive(Debug)]
struct Picky {
    about: About,
    is_bad: fn(u64) -> bool,
    taken: Mutex<BTreeSet<u64>>,
}

impl Picky {
    fn answer(&self, bodies: &[Bytes]) -> Outcome {
        let ids = payload::decode(bodies);
        if ids.iter().any(|id| (self.is_bad)(*id)) {
            return Outcome::refused(self.about, "no", "one of these");
        }
        self.taken.lock().unwrap().extend(ids);
        Outcome::Delivered { rejected: 0, message: String::new() }
    }
}

impl Backend for Picky {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.answer(&bodies)
        })
    }
}

/// A disk with a backlog of so many items, and so many in each entry.
fn disk(items: u64, items_per_entry: u64) -> SimFs {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) =
        weir_journal::open(Arc::new(fs.clone()), Options { segment_bytes: 1 << 20, seed: 1 }).unwrap();
    let owed = [Owed { queue: journal.queue("traces/shop"), taken: false }];
    for first in (1..=items).step_by(usize::try_from(items_per_entry).unwrap()) {
        let ids: Vec<u64> = (first..first + items_per_entry).collect();
        let payload = [payload::encode(&ids, 0)];
        let entry = NewEntry { payload: &payload, items: u32::try_from(items_per_entry).unwrap(), owed: &owed };
        writer.append(&[entry], 1000, Durability::Synced).unwrap();
    }
    writer.finish().unwrap();
    fs
}

/// A pipeline that has all of a disk's backlog to deliver.
struct Running {
    pipeline: Pipeline,
    account: Arc<Account>,
    tasks: JoinSet<()>,
}

fn run(backend: Arc<dyn Backend>, disk: SimFs) -> Running {
    let (clock, fs): (_, Arc<dyn Fs>) = (Clock::simulated(1000), Arc::new(disk));
    let opened = Opened::open(fs, clock).unwrap();
    let queue = JournalQueue::new(
        Arc::clone(&opened.journal),
        opened.journal.queue("traces/shop"),
        weir_plan::Backlog::default(),
    );
    let share = Share::new(1 << 20, clock.started);
    let accounts = Arc::<Accounts>::default();
    let account = accounts.open(PipelineId::new(Signal::Traces, "shop"), share, Some(queue));
    let (store, writer) = Store::new(opened, accounts, (Io::InPlace, Fsync::Always), clock, &Budget::new(1 << 20));
    let limits = Limits {
        batch_bytes: 1 << 20,
        in_flight_bytes: 1 << 20,
        read_back_bytes: 8 << 20,
        pieces: PLACES,
        halves: 0,
        samples: 0,
        requests: 64,
    };
    let (budget, read_back) = (Budget::new(4 << 20), Budget::new(8 << 20));
    let oversized = budget.within(1 << 20);
    let common = Common { limits, budget, read_back, oversized, store: Some(store), clock };
    let (pipeline, delivery) = Pipeline::new("shop".into(), Arc::clone(&account), backend, common);
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery);
    tasks.spawn(writer.run());
    Running { pipeline, account, tasks }
}

/// What is good arrives, and what is bad is not lost but, if the answer may mean it, rejected.
async fn the_good_pass(about: About, is_bad: fn(u64) -> bool, items_per_entry: u64) {
    let backend = Arc::new(Picky { about, is_bad, taken: Mutex::default() });
    let Running { pipeline, account, mut tasks } = run(Arc::<Picky>::clone(&backend), disk(ITEMS, items_per_entry));

    let good: BTreeSet<u64> = (1..=ITEMS).filter(|id| !is_bad(*id)).collect();
    assert!(ITEMS - good.len() as u64 > 2 * PLACES as u64);
    let (began, mut most) = (Instant::now(), 0);
    while backend.taken.lock().unwrap().len() < good.len() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        most = most.max(pipeline.stats.parked.load(Ordering::Relaxed));
        let (taken, wanted) = (backend.taken.lock().unwrap().len(), good.len());
        let (books, backlog) = (account.books.figures(), account.backlog());
        assert!(began.elapsed() < PATIENCE, "{about:?}: {taken} of {wanted}: {books:?} {backlog:?}");
        assert!(books.balanced() && books.dropped.is_empty(), "{books:?}");
    }
    assert!(most <= 2 * PLACES as u64, "{most} batches wait");
    assert_eq!(*backend.taken.lock().unwrap(), good);
    let books = account.books.figures();
    assert_eq!(books.delivered, good.len() as u64, "{books:?}");
    assert_eq!(books.rejected.values().sum::<u64>() + books.pending, ITEMS - good.len() as u64, "{books:?}");
    assert!(about != About::Access || books.rejected.is_empty(), "{books:?}");
    tasks.shutdown().await;
    assert_eq!(account.books.figures().pending, account.backlog().items);
}

#[tokio::test(start_paused = true)]
async fn the_good_pass_however_many_are_refused() {
    for about in [About::Data, About::Unclear, About::Access] {
        for items_per_entry in [1, 50] {
            the_good_pass(about, |id| id % 50 == 7, items_per_entry).await;
        }
    }
}

/// With nothing before them that would pass.
#[tokio::test(start_paused = true)]
async fn the_good_are_found_behind_all_that_are_refused() {
    for about in [About::Data, About::Unclear, About::Access] {
        for items_per_entry in [1, 4] {
            the_good_pass(about, |id| id <= 100, items_per_entry).await;
        }
    }
}

/// One bad item costs its neighbours minutes, not hours, though nothing else is sent that could show which it is.
#[tokio::test(start_paused = true)]
async fn a_few_bad_items_do_not_hold_thousands() {
    for about in [About::Unclear, About::Access] {
        let is_bad = |id| id == 1007 || id == 4011;
        let backend = Arc::new(Picky { about, is_bad, taken: Mutex::default() });
        let Running { pipeline: _pipeline, account: _account, mut tasks } =
            run(Arc::<Picky>::clone(&backend), disk(ITEMS, 100));
        let began = Instant::now();
        while (backend.taken.lock().unwrap().len() as u64) < ITEMS - 2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let taken = backend.taken.lock().unwrap().len();
            assert!(began.elapsed() < Duration::from_secs(300), "{about:?}: {taken} of {ITEMS}");
        }
        tasks.shutdown().await;
    }
}

/// Refuses everything until it is well.
#[derive(Debug, Default)]
struct Recovering {
    is_well: AtomicBool,
}

impl Backend for Recovering {
    fn send(&self, _: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            match self.is_well.load(Ordering::Relaxed) {
                true => Outcome::Delivered { rejected: 0, message: String::new() },
                false => Outcome::refused(About::Unclear, "500", "not now"),
            }
        })
    }
}

/// Nothing arrives that would remind the pipeline of it.
#[tokio::test(start_paused = true)]
async fn what_was_put_off_is_delivered_once_the_backend_takes_it() {
    for items in PLACES as u64 - 4..=PLACES as u64 {
        let backend = Arc::new(Recovering::default());
        let Running { pipeline, account, mut tasks } = run(Arc::<Recovering>::clone(&backend), disk(items, 1));
        tokio::time::sleep(Duration::from_secs(1000)).await;
        backend.is_well.store(true, Ordering::Relaxed);
        tokio::time::sleep(4 * ROUND).await;
        let (books, backlog) = (account.books.figures(), account.backlog());
        assert_eq!((books.delivered, books.pending), (items, 0), "{books:?} {backlog:?}");
        tasks.shutdown().await;
        drop(pipeline);
    }
}
/// Asks for some time whenever a request has one of the first items that it never takes.
#[derive(Debug, Default)]
struct Wishing {
    taken: Mutex<BTreeSet<u64>>,
}

impl Backend for Wishing {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let ids = payload::decode(&bodies);
            if ids.iter().any(|id| *id <= ITEMS / 2 && id % 50 == 7) {
                let (kind, hint) = (RetryKind::Answered, Some(Duration::from_secs(1)));
                return Outcome::Retry { kind, hint, message: "busy".into() };
            }
            self.taken.lock().unwrap().extend(ids);
            Outcome::Delivered { rejected: 0, message: String::new() }
        })
    }
}

/// What has to wait for as long as the backend wishes must not have all places for ever.
#[tokio::test(start_paused = true)]
async fn the_good_pass_though_the_backend_asks_for_time() {
    let backend = Arc::new(Wishing::default());
    let Running { pipeline, account, mut tasks } = run(Arc::<Wishing>::clone(&backend), disk(ITEMS, 50));
    let (began, bad) = (Instant::now(), ITEMS / 2 / 50);
    while (backend.taken.lock().unwrap().len() as u64) < ITEMS - bad {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(began.elapsed() < PATIENCE, "{:?}", account.books.figures());
    }
    let books = account.books.figures();
    assert!(books.balanced() && books.pending == bad && books.rejected.is_empty(), "{books:?}");
    tasks.shutdown().await;
    drop(pipeline);
}

/// Takes nothing with an item whose number can be divided by three, and asks for a long time.
#[derive(Debug)]
struct Patient;

impl Backend for Patient {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if payload::decode(&bodies).iter().any(|id| id % 3 == 0) {
                let (kind, hint) = (RetryKind::Answered, Some(Duration::from_secs(600)));
                return Outcome::Retry { kind, hint, message: "busy".into() };
            }
            Outcome::Delivered { rejected: 0, message: String::new() }
        })
    }
}

/// Whenever it is: several times are tried, as the backlog goes round.
#[tokio::test(start_paused = true)]
async fn another_backend_has_what_was_put_off_at_once() {
    for round in 1..=4 {
        let Running { pipeline, account, mut tasks } = run(Arc::new(Patient), disk(200, 1));
        tokio::time::sleep(Duration::from_secs(round * 7800 + 7)).await;
        assert!(account.books.figures().pending >= 66);
        let well = Arc::new(Recovering::default());
        well.is_well.store(true, Ordering::Relaxed);
        let pipeline = pipeline.sending_to("shop".into(), well);
        let began = Instant::now();
        while account.books.figures().pending > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(began.elapsed() < Duration::from_secs(5), "{round}: {:?}", account.backlog());
        }
        tasks.shutdown().await;
        drop(pipeline);
    }
}

#[tokio::test(start_paused = true)]
async fn another_backend_has_not_failed_before_it_is_offered_anything() {
    let hostile = || Arc::new(Picky { about: About::Access, is_bad: |_| true, taken: Mutex::default() });
    let Running { pipeline, account, mut tasks } = run(hostile(), disk(10, 1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(account.share.is_stalled());
    let pipeline = pipeline.sending_to("shop".into(), hostile());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!account.share.is_stalled());
    tasks.shutdown().await;
    drop(pipeline);
}
