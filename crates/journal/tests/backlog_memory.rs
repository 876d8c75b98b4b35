//! What a backlog takes of memory, counted by the allocator: an entry costs a small part of what it is on disk, however
//! many queues are owed it. A process of its own: everything else would be counted, too.

use weir_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

#[cfg(test)]
mod backlog {
    use std::fs;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use weir_journal::{Durability, NewEntry, Options, Order, OsFs, Owed, QueueId, open};

    use super::ALLOCATOR;

    const OPTIONS: Options = Options { segment_bytes: 32 << 20, seed: 7 };
    const QUEUES: usize = 30;
    const ENTRIES: usize = 128 << 10;
    /// One test at a time, as there is one allocator.
    static ALONE: Mutex<()> = Mutex::new(());

    /// The memory for each entry and queue that is owed it, in thousandths of a byte. Each queue is owed an entry where
    /// `owes` says so.
    fn cost(owes: impl Fn(usize, usize) -> bool) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, journal, _) = open(Arc::new(OsFs::open(dir.path()).unwrap()), OPTIONS).unwrap();
        let queues: Vec<QueueId> = (0..QUEUES).map(|queue| journal.queue(&format!("traces/{queue}"))).collect();
        let payload = [Bytes::from_static(b"tiny")];
        let before = ALLOCATOR.used();
        let mut debts = 0;
        for group in 0..ENTRIES / 1024 {
            let owed: Vec<Vec<Owed>> = (0..1024)
                .map(|entry| {
                    let owes = |queue: &usize| owes(*queue, group * 1024 + entry);
                    let debtors = (0..QUEUES).filter(owes).map(|queue| queues[queue]);
                    debtors.map(|queue| Owed { queue, taken: false }).collect()
                })
                .collect();
            debts += owed.iter().map(Vec::len).sum::<usize>();
            let entries: Vec<_> = owed.iter().map(|owed| NewEntry { payload: &payload, items: 1, owed }).collect();
            writer.append(&entries, 1, Durability::Written).unwrap();
        }
        let took = ALLOCATOR.used() - before;
        let on_disk = journal.stats().disk_bytes;
        assert!(took as u64 <= on_disk / 20, "{took} bytes of memory for {on_disk} on disk");
        took * 1000 / debts
    }

    #[test]
    fn entries_cost_next_to_nothing_however_many_queues_are_owed_them() {
        let _alone = ALONE.lock().unwrap();
        let all = cost(|_, _| true);
        assert!(all < 60, "{all} thousandths of a byte for each debt, where everybody is owed everything");
        let some = cost(|queue, entry| (entry * 31 + queue * 17) % 7 < 4);
        assert!(some < 350, "{some} thousandths of a byte for each debt, where everybody is owed half");
        let few = cost(|queue, entry| entry % 40 == queue || queue == 0);
        assert!(few < 8_000, "{few} thousandths of a byte for each debt, where hardly anybody is owed anything");
    }

    #[test]
    fn entries_cost_little_however_far_apart_they_were_written() {
        let _alone = ALONE.lock().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, journal, _) = open(Arc::new(OsFs::open(dir.path()).unwrap()), OPTIONS).unwrap();
        let owed = [Owed { queue: journal.queue("traces/a"), taken: false }];
        let entries = [NewEntry { payload: &[Bytes::from_static(b"tiny")], items: 1, owed: &owed }];
        let before = ALLOCATOR.used();
        for number in 0..16 << 10 {
            let now = if number % 2 == 0 { number * 1000 } else { 1 };
            writer.append(&entries, now, Durability::Written).unwrap();
        }
        let took = ALLOCATOR.used() - before;
        assert!(took < 4 * (16 << 10), "{} bytes for each of {} entries", took >> 14, 16 << 10);
    }

    /// Makes it impossible to write down what is completed.
    fn block_completions(dir: &Path) {
        for file in fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "ack") {
                fs::remove_file(&file).unwrap();
                fs::create_dir(&file).unwrap();
            }
        }
    }

    /// They take the place of what was owed.
    #[test]
    fn completions_that_cannot_be_written_down_cost_no_more_than_the_debts_did() {
        let _alone = ALONE.lock().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, journal, _) = open(Arc::new(OsFs::open(dir.path()).unwrap()), OPTIONS).unwrap();
        let queues = ["traces/even", "traces/odd"].map(|name| journal.queue(name));
        let payload = [Bytes::from_static(b"tiny")];
        let owed = queues.map(|queue| [Owed { queue, taken: false }]);
        let entry = |number: usize| NewEntry { payload: &payload, items: 1, owed: &owed[number % 2] };
        let before = ALLOCATOR.used();
        for _ in 0..ENTRIES / 1024 {
            writer.append(&(0..1024).map(entry).collect::<Vec<_>>(), 1, Durability::Written).unwrap();
        }
        let debts = ALLOCATOR.used() - before;
        block_completions(dir.path());
        // All but the last one of each, so that there is something that cannot be deleted.
        for number in 0..ENTRIES - 2 {
            let queue = queues[number % 2];
            let taken = journal.take(queue, Order::Oldest, 1024, &mut |_| false).unwrap();
            assert!(journal.complete(queue, &taken.entries[0].0));
            if number % 1024 == 0 {
                writer.tidy().unwrap_err();
            }
        }
        let completions = ALLOCATOR.used() - before;
        assert!(completions <= debts + debts / 4 + (16 << 10), "{completions} bytes where debts took {debts}");

        fs::read_dir(dir.path()).unwrap().for_each(|file| _ = fs::remove_dir(file.unwrap().path()));
        writer.tidy().unwrap();
        drop((writer, journal));
        let (_, journal, _) = open(Arc::new(OsFs::open(dir.path()).unwrap()), OPTIONS).unwrap();
        assert_eq!(queues.map(|queue| journal.backlog(queue).entries), [1, 1], "all of it is written in the end");
    }
}
