//! Heads that rot while the journal is open: the others say how many items were lost with them.

use std::sync::Arc;

use bytes::Bytes;
use weir_journal::{Backlog, Durability, Entry, Fs, Journal, Loss, NewEntry, Order, Owed, QueueId, Writer};
use weir_testkit::SimFs;

use crate::fixture::{SEGMENT, offset, start};

const SEGMENT_BYTES: u64 = 1 << 20;

/// Entries with so many items, each owed to `a`.
fn filled(fs: &SimFs, items: &[u32]) -> (Writer, Arc<Journal>, QueueId, Vec<Entry>) {
    let (mut writer, journal, _) = start(fs, SEGMENT_BYTES);
    let queue = journal.queue("a");
    let (payload, owed) = ([Bytes::from_static(b"counted")], [Owed { queue, taken: false }]);
    let group: Vec<NewEntry<'_>> =
        items.iter().map(|items| NewEntry { payload: &payload, items: *items, owed: &owed }).collect();
    let entries = writer.append(&group, 1, Durability::Synced).unwrap();
    (writer, journal, queue, entries)
}

fn rot(fs: &SimFs, entry: &Entry) {
    assert!(fs.flip(SEGMENT, offset(entry) + 9, 1));
}

/// Takes and completes everything, some entries at a time: the items of that, and what was lost.
fn deliver_all(journal: &Journal, queue: QueueId) -> (u64, Loss) {
    let (mut items, mut lost) = (0, Loss::default());
    loop {
        let taken = journal.take(queue, Order::Oldest, 50, &mut |_| true).unwrap();
        lost.entries += taken.damaged.entries;
        lost.items += taken.damaged.items;
        for (entry, _) in &taken.entries {
            items += u64::from(entry.items);
            assert!(journal.complete(queue, entry));
        }
        if taken.entries.is_empty() {
            return (items, lost);
        }
    }
}

#[test]
fn what_is_lost_with_a_head_is_counted_exactly() {
    let items: Vec<u32> = [1, 1000, 7].into_iter().cycle().take(200).collect();
    let all: u64 = items.iter().copied().map(u64::from).sum();
    let places = [(0, 1), (1, 1), (2, 1), (63, 1), (64, 1), (65, 1), (199, 1), (0, 2), (60, 5), (198, 2), (0, 200)];
    for (first, count) in places {
        for starts_again in [false, true] {
            let fs = SimFs::new(1);
            let (mut writer, mut journal, queue, entries) = filled(&fs, &items);
            if starts_again {
                writer.finish().unwrap();
                (writer, journal, _) = start(&fs, SEGMENT_BYTES);
            }
            entries[first..first + count].iter().for_each(|entry| rot(&fs, entry));
            let expected: u64 = items[first..first + count].iter().copied().map(u64::from).sum();
            let (delivered, lost) = deliver_all(&journal, queue);
            assert_eq!((lost.entries, lost.items), (count as u64, expected), "{count} from {first} on");
            assert_eq!(delivered, all - expected, "{count} from {first} on");
            assert_eq!(journal.backlog(queue), Backlog::default());
            assert_eq!(journal.stats().damage.items, expected);
            drop(writer);
        }
    }
}

/// Of an entry that comes back it is known where it lies, but not how many items are before it.
#[test]
fn what_rots_before_it_is_taken_again_is_counted_exactly() {
    let fs = SimFs::new(1);
    let (_writer, journal, queue, entries) = filled(&fs, &[1, 1000, 1]);
    let taken = journal.take(queue, Order::Oldest, 1000, &mut |_| true).unwrap();
    assert_eq!(taken.entries.len(), 3);
    rot(&fs, &entries[1]);
    assert!(journal.release(queue, &entries[1]));
    let (delivered, lost) = deliver_all(&journal, queue);
    assert_eq!((delivered, lost.entries, lost.items), (0, 1, 1000));
    assert_eq!(journal.backlog(queue).items, 2);
}

/// However it is met, a stretch is counted as a whole, and once.
#[test]
fn what_is_lost_is_counted_exactly_by_who_takes_the_newest() {
    let items: Vec<u32> = (1..=100).collect();
    let fs = SimFs::new(1);
    let (_writer, journal, queue, entries) = filled(&fs, &items);
    entries[80..].iter().for_each(|entry| rot(&fs, entry));
    let taken = journal.take(queue, Order::Newest, 50, &mut |_| true).unwrap();
    assert_eq!(taken.entries[0].0.items, 1, "of the newest nothing is known but that they are damaged");
    assert!(taken.entries.iter().all(|(entry, _)| journal.release(queue, entry)));
    let (delivered, lost) = deliver_all(&journal, queue);
    assert_eq!((lost.entries, lost.items, delivered), (20, (81..=100).sum(), (1..=80).sum()));
    assert_eq!((journal.stats().damage.places, journal.stats().damage.items), (1, (81..=100).sum()));
    assert_eq!(journal.backlog(queue), Backlog::default());
}

/// Those who have taken entries of a file account for these; what is told as lost is the rest, and no more.
#[test]
fn what_is_lost_with_a_file_is_counted_exactly() {
    for items in [[5, 200], [200, 5]] {
        let all: Vec<u32> = [[items[0]; 40], [items[1]; 40]].concat();
        let fs = SimFs::new(1);
        let (_writer, journal, queue, entries) = filled(&fs, &all);
        let mut taken: Vec<Entry> = Vec::new();
        while taken.len() < 40 {
            let next = journal.take(queue, Order::Oldest, 7, &mut |_| true).unwrap();
            taken.extend(next.entries.iter().map(|(entry, _)| *entry));
        }
        let rest = &entries[taken.len()..];
        let sum = |entries: &[Entry]| entries.iter().map(|entry| u64::from(entry.items)).sum::<u64>();
        // What comes back after a while is as it was.
        assert!(journal.release(queue, &taken[1]) && journal.complete_items(queue, &taken[2], 3));
        fs.remove(SEGMENT).unwrap();
        let (delivered, lost) = deliver_all(&journal, queue);
        let expected = sum(rest) + u64::from(taken[1].items);
        assert_eq!((delivered, lost.entries, lost.items), (0, rest.len() as u64 + 1, expected));
        taken.remove(1);
        assert_eq!(journal.backlog(queue).items, sum(&taken) - 3);
        assert!(taken.iter().all(|entry| journal.complete(queue, entry)));
        assert_eq!(journal.backlog(queue), Backlog::default());
    }
}
