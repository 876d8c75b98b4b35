//! The journal on a real file system: what it promises without faults, and how it behaves beside other processes.
#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use weir_journal::{Durability, Entry, Journal, NewEntry, Options, OsFs, Owed, QueueId, Recovery, Writer, open};

const OPTIONS: Options = Options { segment_bytes: 64 << 10, seed: 7 };

fn open_dir(dir: &Path) -> (Writer, Arc<Journal>, Recovery) {
    open(Arc::new(OsFs::open(dir).unwrap()), OPTIONS).unwrap()
}

fn append(writer: &mut Writer, payload: &[u8], queues: &[QueueId], now_ms: u64) -> Entry {
    let owed: Vec<Owed> = queues.iter().map(|queue| Owed { queue: *queue, taken: false }).collect();
    let payload = [Bytes::copy_from_slice(payload)];
    let group = [NewEntry { payload: &payload, items: 3, owed: &owed }];
    writer.append(&group, now_ms, Durability::Synced).unwrap()[0]
}

#[test]
fn what_is_owed_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, journal, recovery) = open_dir(dir.path());
    assert_eq!(recovery, Recovery::default());
    let (a, b) = (journal.queue("a"), journal.queue("b"));
    let payloads: Vec<Vec<u8>> = (0u8..200).map(|number| vec![number; 700 + usize::from(number)]).collect();
    let entries: Vec<Entry> = payloads.iter().map(|payload| append(&mut writer, payload, &[a, b], 5)).collect();
    for entry in &entries[..150] {
        assert!(journal.complete(a, entry));
    }
    for entry in &entries[..100] {
        assert!(journal.complete(b, entry));
        assert!(!journal.complete(b, entry));
    }
    assert!(journal.stats().segments > 2);
    writer.tidy().unwrap();
    let segments = journal.stats().segments;
    drop((writer, journal));

    let (mut writer, journal, recovery) = open_dir(dir.path());
    assert_eq!((recovery.truncated_bytes, recovery.damage.len(), recovery.lost.len()), (0, 0, 0));
    assert_eq!(journal.stats().segments, segments);
    for (name, first) in [("a", 150), ("b", 100)] {
        let queue = journal.queue(name);
        let backlog = journal.backlog(queue);
        assert_eq!(
            (backlog.entries, backlog.items, backlog.untaken_entries),
            (200 - first as u64, 3 * (200 - first as u64), 200 - first as u64)
        );
        let mut next = first;
        loop {
            let chunk = journal.take(queue, 5000).unwrap();
            if chunk.entries.is_empty() {
                break;
            }
            for (entry, range) in &chunk.entries {
                assert_eq!(chunk.buffer[range.clone()], payloads[next]);
                assert_eq!(journal.read(entry).unwrap(), payloads[next]);
                next += 1;
                assert!(journal.complete(queue, entry));
            }
        }
        assert_eq!(next, 200);
    }
    writer.tidy().unwrap();
    assert_eq!(journal.stats().segments, 0);
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["LOCK"]);
}
