//! The journal stays out of the system's page cache: on a real disk, asked page by page.

#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

use std::fs;
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use weir_journal::{Depth, Durability, Journal, NewEntry, Options, Order, OsFs, Owed, QueueId, Writer, inspect, open};
use weir_testkit::warn;

const OPTIONS: Options = Options { segment_bytes: 16 << 20, seed: 7 };
const PAGE: u64 = 4096;
const ENTRY: usize = 300_000;
const ENTRIES: usize = 200;
/// Of 60 MB: pages that are shared with what follows, or were read ahead.
const LITTLE: u64 = 6 << 20;
/// Who only reads does not know whether the end of a segment is on disk, and leaves it; a page of the cache may be 2 MiB
/// long.
const SOME: u64 = 18 << 20;

/// Bytes of the files in a directory that are in memory.
fn cached(dir: &Path) -> u64 {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| cached_of(&fs::File::open(path).unwrap())).sum()
}

fn cached_of(file: &fs::File) -> u64 {
    // Asking for one page must not bring others.
    fadvise(file, 0, None, Advice::Random).unwrap();
    let pages = file.metadata().unwrap().len().div_ceil(PAGE);
    let is_cached = |page: &u64| {
        let mut byte = [0];
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], page * PAGE, ReadWriteFlags::NOWAIT) {
            Ok(_) => true,
            Err(Errno::AGAIN) => false,
            Err(error) => panic!("cannot ask whether a page is in memory: {error}"),
        }
    };
    let cached = (0..pages).filter(is_cached).count() as u64 * PAGE;
    // A page that is asked for is read behind our back.
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
    cached
}

/// A directory on a disk; none, and said so, where files are in memory whatever is done.
fn on_disk() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("control");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let file = fs::File::open(&path).unwrap();
    assert!(cached_of(&file) >= 1 << 19, "what was just written is in memory");
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let can_be_dropped = cached_of(&file) < 1 << 19;
    fs::remove_file(path).unwrap();
    if !can_be_dropped {
        warn("what the journal leaves in the page cache was not tested: files of this disk cannot leave memory");
    }
    can_be_dropped.then_some(dir)
}

fn start(dir: &Path) -> (Writer, Arc<Journal>) {
    let (writer, journal, recovery) = open(Arc::new(OsFs::open(dir).unwrap()), OPTIONS).unwrap();
    assert_eq!(recovery.damage, []);
    (writer, journal)
}

/// 60 MB, to the end of the process.
fn fill(writer: &mut Writer, queues: &[QueueId], durability: Durability) {
    let owed: Vec<Owed> = queues.iter().map(|queue| Owed { queue: *queue, taken: false }).collect();
    let payload = [Bytes::from(vec![7; ENTRY])];
    for _ in 0..ENTRIES {
        writer.append(&[NewEntry { payload: &payload, items: 1, owed: &owed }], 5, durability).unwrap();
    }
    writer.finish().unwrap();
}

fn take_all(journal: &Journal, queue: QueueId) -> usize {
    let mut taken = 0;
    loop {
        let next = journal.take(queue, Order::Oldest, 4 << 20, &mut |_| true).unwrap();
        if next.entries.is_empty() {
            return taken;
        }
        taken += next.entries.len();
    }
}

#[test]
fn what_is_written_and_read_back_does_not_stay_in_memory() {
    let Some(dir) = on_disk() else { return };
    for durability in [Durability::Synced, Durability::Written] {
        let dir = dir.path().join(format!("{durability:?}"));
        let (mut writer, journal) = start(&dir);
        let (a, b) = (journal.queue("a"), journal.queue("b"));
        fill(&mut writer, &[a, b], durability);
        let written = cached(&dir);
        assert!(written < LITTLE, "{durability:?}: {written} bytes after writing");
        assert_eq!(take_all(&journal, a), ENTRIES);
        let read = cached(&dir);
        assert!(read < LITTLE, "{durability:?}: {read} bytes after reading");
    }
}

#[test]
fn what_is_looked_at_does_not_stay_in_memory() {
    let Some(dir) = on_disk() else { return };
    let (mut writer, journal) = start(dir.path());
    fill(&mut writer, &[journal.queue("a")], Durability::Synced);
    let seen = inspect(&OsFs::read_only(dir.path()).unwrap(), Depth::Payloads).unwrap();
    assert_eq!((seen.damage.len(), seen.segments.len()), (0, 4));
    let looked = cached(dir.path());
    assert!(looked < SOME, "{looked} bytes after looking");
    drop((writer, journal));
    let (_writer, journal) = start(dir.path());
    let recovered = cached(dir.path());
    assert!(recovered < SOME, "{recovered} bytes after recovery");
    assert_eq!(take_all(&journal, journal.queue("a")), ENTRIES);
    let read = cached(dir.path());
    assert!(read < SOME, "{read} bytes after reading");
}
