//! The writer on a simulated disk, in virtual time.

use bytes::Bytes;
use weir_journal::{Entry, Fs, Options, Owed, QueueId};
use weir_plan::{PipelineId, Signal};
use weir_testkit::{Operation, SimFs};

use super::super::{FAILURE_COUNTS, Io, Opened, Store};
use super::*;
use crate::account::JournalQueue;
use crate::obligation::{Obligation, Piece};
use crate::share::Share;

const SECOND: Duration = Duration::from_secs(1);
const HOUR_MS: u64 = 3600 * 1000;
const NOW_MS: u64 = 1_700_000_000_000;

fn halves() -> [Piece; 2] {
    [("sp", 3), ("ans", 4)].map(|(text, items)| Piece { body: Bytes::from_static(text.as_bytes()), items })
}

/// The journal on this disk, opened by a process that has no pipelines.
fn start(disk: &SimFs, fsync: Fsync) -> (Store, Writer) {
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let clock = Clock::simulated(NOW_MS);
    Store::new(Opened::open(fs, clock).unwrap(), Arc::default(), (Io::InPlace, fsync), clock, &Budget::new(1 << 20))
}

/// Writes an entry of seven items, owed to `shop`, as it would have been done at that time.
fn write(writer: &mut Writer, at_ms: u64) -> Entry {
    let queue = writer.parts.journal.queue("traces/shop");
    let owed = [Owed { queue, taken: true }];
    let entry = NewEntry { payload: &[Bytes::from_static(b"spans")], items: 7, owed: &owed };
    writer.unsynced = true;
    writer.journal.append(&[entry], at_ms, Durability::Written).unwrap()[0]
}

/// A disk with an entry of two days ago, of a pipeline that has been removed since.
fn abandoned() -> SimFs {
    let disk = SimFs::new(1);
    let (_, mut writer) = start(&disk, Fsync::Always);
    write(&mut writer, NOW_MS - 48 * HOUR_MS);
    drop(writer);
    disk
}

/// The items of the only orphan that wait, and those that were given up.
fn orphaned(writer: &Writer) -> (u64, u64) {
    let orphans = writer.parts.accounts.orphans();
    let [orphan] = &*orphans else { panic!("{orphans:?}") };
    (orphan.backlog().items, orphan.books.figures().dropped.values().sum())
}

#[tokio::test(start_paused = true)]
async fn an_orphan_waits_until_this_process_has_run_for_a_day() {
    let disk = abandoned();
    for _ in 0..2 {
        // Each start begins to count anew.
        let (_, mut writer) = start(&disk, Fsync::Always);
        tokio::time::advance(ORPHANS_WAIT - SECOND).await;
        writer.tidy();
        writer.enforce_limits(&[]);
        assert_eq!(orphaned(&writer), (7, 0), "kept, however old it is");
    }
    let (store, mut writer) = start(&disk, Fsync::Always);
    tokio::time::advance(ORPHANS_WAIT).await;
    writer.tidy();
    assert_eq!(orphaned(&writer), (0, 7));
    assert_eq!(store.journal.stats().segments, 0, "nothing is left of it");
    let orphans = writer.parts.accounts.orphans();
    let [orphan] = &*orphans else { panic!("{orphans:?}") };
    assert!(orphan.books.figures().balanced());
}

/// Damage that the start finds is in somebody's books, though nothing waits for him.
#[tokio::test(start_paused = true)]
async fn what_an_orphan_has_lost_is_told_though_nothing_is_left() {
    let disk = SimFs::new(1);
    let (store, mut writer) = start(&disk, Fsync::Always);
    write(&mut writer, NOW_MS);
    writer.journal.sync().unwrap();
    let second = write(&mut writer, NOW_MS);
    assert!(store.journal.complete(entry_queue(&store), &second));
    writer.tidy();
    drop(writer);
    let payload_at = |bytes: &[u8]| bytes.windows(5).position(|window| window == b"spans");
    let files = disk.files();
    let (name, at) = files.iter().find_map(|(name, bytes)| Some((name, payload_at(bytes)?))).unwrap();
    assert!(disk.flip(name, at, 1));

    let (_, writer) = start(&disk, Fsync::Always);
    assert_eq!(orphaned(&writer), (0, 7));
    let books = writer.parts.accounts.orphans()[0].books.figures();
    assert!(books.balanced() && books.recovered == 7 && books.dropped["journal_damaged"] == 7, "{books:?}");
}

/// Nobody knows what it was allowed, so no amount is too much.
#[tokio::test(start_paused = true)]
async fn an_orphan_has_no_limit_in_bytes() {
    let (_, writer) = start(&abandoned(), Fsync::Always);
    let orphan = &writer.parts.accounts.orphans()[0];
    assert_eq!(orphan.queue.as_ref().unwrap().limits().max_bytes, u64::MAX);
    assert!(orphan.may_drop_oldest(), "but for a full disk");
}

/// A tenth is always left free. The disk is asked once a second, and not each time that figures are read.
#[tokio::test(start_paused = true)]
async fn the_room_of_the_disk_is_known() {
    let disk = SimFs::new(1);
    disk.set_capacity(Some(1000));
    let (store, mut writer) = start(&disk, Fsync::Always);
    assert_eq!((disk.used(), store.stats.room()), (0, Some(900)));
    disk.set_capacity(Some(500));
    writer.tidy();
    assert_eq!(store.stats.room(), Some(900), "as it was at the start");
    tokio::time::advance(LOOK_EVERY).await;
    writer.tidy();
    assert_eq!(store.stats.room(), Some(450));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_tidied_is_counted_and_done_later() {
    let disk = SimFs::new(1);
    let (store, mut writer) = start(&disk, Fsync::Always);
    let entry = write(&mut writer, NOW_MS);
    store.journal.complete(entry_queue(&store), &entry);
    disk.fail_next(Operation::Remove);
    writer.tidy();
    assert_eq!(store.stats.tidy_failures.load(Ordering::Relaxed), 1);
    assert_eq!(writer.untidiness_reported.due(Instant::now()), None, "it was told");
    assert!(!store.has_failed());
    writer.tidy();
    assert_eq!(store.stats.tidy_failures.load(Ordering::Relaxed), 1);
    assert_eq!(store.journal.stats().segments, 0);
}

fn entry_queue(store: &Store) -> QueueId {
    store.journal.queue("traces/shop")
}

#[tokio::test(start_paused = true)]
async fn a_sync_of_its_own_is_timed() {
    for (fsync, syncs) in [(Fsync::Interval(SECOND), 1), (Fsync::Always, 0), (Fsync::Never, 0)] {
        let (store, mut writer) = start(&SimFs::new(1), fsync);
        write(&mut writer, NOW_MS);
        writer.sync();
        writer.sync();
        let buckets = store.stats.syncs.figures().buckets;
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), syncs, "{fsync:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_forgotten_when_nobody_tries_again() {
    let (store, mut writer) = start(&SimFs::new(1), Fsync::Always);
    assert!(!store.has_failed_lately());
    writer.failed("a test", &[]);
    assert!(store.has_failed_lately() && !store.is_working());
    tokio::time::advance(TRY_AGAIN).await;
    assert!(store.has_failed_lately() && store.is_working());
    tokio::time::advance(FAILURE_COUNTS).await;
    assert!(!store.has_failed_lately() && store.has_failed());
}

#[test]
fn small_pieces_become_one_entry_as_long_as_the_backend_takes_it() {
    let options = Options { segment_bytes: 1 << 20, seed: 1 };
    let (_, journal, _) = weir_journal::open(Arc::new(SimFs::new(1)), options).unwrap();
    let id = journal.queue("a");
    let queue = JournalQueue::new(journal, id, weir_plan::Backlog::default());
    let share = Share::new(100_000, Instant::now());
    let account = Accounts::default().open(PipelineId::new(Signal::Traces, "a"), share, Some(queue));
    let ticket = Arc::default();
    let entries = |count: usize| {
        let body = || Bytes::from(vec![0; 20_000]);
        let pieces: Vec<_> = (0..count).map(|_| Obligation::new(body(), 1, &ticket, &account)).collect();
        let mut deposits = Vec::new();
        pieces.iter().for_each(|piece| piece.deposit(&mut deposits));
        let drafts = draft(deposits.into_iter());
        drafts.iter().for_each(Draft::withdraw);
        drafts.len()
    };
    assert_eq!(entries(10), 1);
    account.request_size.adjust(50_000);
    assert_eq!(entries(10), 5, "two in each");
    account.request_size.adjust(80_000);
    assert_eq!(entries(10), 3, "it was found to take more");
}

/// What has been on disk for long is not in danger again because the backend refuses a part of it.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_written_again_survives_a_loss_of_power_as_the_whole_did() {
    for seed in 0..20 {
        let disk = SimFs::new(seed);
        let (store, mut writer) = start(&disk, Fsync::Interval(SECOND));
        let entry = write(&mut writer, NOW_MS);
        writer.sync();
        let queue = JournalQueue::new(Arc::clone(&store.journal), entry_queue(&store), weir_plan::Backlog::default());
        let share = Share::new(100_000, Instant::now());
        let account = Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, Some(queue));
        account.books.recover(7);
        for part in Obligation::stored(entry, &account).split(halves()) {
            let deposit = part.rewrite(Bytes::from_static(b"part")).unwrap();
            writer.commit(std::iter::once(deposit));
        }
        writer.tidy();
        assert_eq!((account.backlog().entries, account.backlog().items), (2, 7));
        drop(writer);

        let (store, _writer) = start(&disk.after_power_loss(), Fsync::Always);
        assert!(store.journal.backlog(entry_queue(&store)).items >= 7, "{seed}");
    }
}

/// It would not bring anything that is not on disk already.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_written_again_costs_no_other_data_on_a_full_disk() {
    let disk = SimFs::new(1);
    let (_, mut writer) = start(&disk, Fsync::Always);
    write(&mut writer, NOW_MS);
    drop(writer);
    let (store, mut writer) = start(&disk, Fsync::Always);
    let entry = write(&mut writer, NOW_MS);
    let account = Arc::clone(&writer.parts.accounts.orphans()[0]);
    account.books.arrive(7);
    account.books.keep(7);
    disk.set_capacity(Some(disk.used() + 1000));

    let [first, _second] = &*Obligation::stored(entry, &account).split(halves()) else { panic!("two") };
    writer.commit(first.rewrite(Bytes::from_static(b"part")).into_iter());
    assert_eq!((account.backlog().items, account.books.figures().dropped.len()), (14, 0), "nothing has gone");
    assert!(first.is_owed() && !store.may_rewrite() && !store.has_failed());

    let (client, mut deposits) = (Arc::default(), Vec::new());
    Obligation::new(Bytes::from_static(b"new spans"), 2, &client, &account).deposit(&mut deposits);
    writer.commit(deposits.into_iter());
    assert!(client.is_decided() && !client.was_withdrawn(), "what is new has its place");
    assert!(account.books.figures().dropped.contains_key("disk_full"), "at the price of what is old");
    tokio::time::advance(REWRITE_AGAIN).await;
    assert!(store.may_rewrite());
}
