//! Disks that cannot be read for a while, or only in part.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use weir_journal::{Backlog, Fs as _, Loss, Order, ReadError, open};
use weir_testkit::{Faults, Operation, SimFs, Watched};

use crate::fixture::{
    ACKS, SEGMENT, append, bad_disk, finished, offset, options, payloads, recover, small, start, take_all,
};

/// What cannot be read is put off, not lost: the others come first.
#[test]
fn one_entry_cannot_be_read() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 1 << 20);
    let queue = journal.queue("a");
    let payloads: Vec<Vec<u8>> = (0..5).map(|number| vec![number; 10_000]).collect();
    append(&mut writer, &payloads, &[queue]);
    let take = || {
        let taken = journal.take(queue, Order::Oldest, usize::MAX, &mut |_| true).unwrap();
        taken.entries.iter().map(|(_, range)| taken.buffer[range.clone()][9_999]).collect::<Vec<u8>>()
    };
    // The run, then the head of its first entry, then the search for the next one, at large and in small.
    (0..4).for_each(|_| fs.fail_next(Operation::Read));
    assert_eq!(take(), [1, 2, 3, 4]);
    assert_eq!(take(), [0], "what was put off comes last");
    assert_eq!(take(), b"");
    assert_eq!(journal.stats().damage.entries, 0);
}

#[test]
fn nothing_can_be_read_for_a_while() {
    let (fs, all) = small();
    let (_writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    fs.set_faults(Faults { read: 1, ..Faults::default() });
    for _ in 0..3 {
        assert!(matches!(journal.take(queue, Order::Oldest, usize::MAX, &mut |_| true), Err(ReadError::Io { .. })));
    }
    assert!(matches!(journal.read(&all[2].entry), Err(ReadError::Io { .. })));
    fs.set_faults(Faults::default());
    assert_eq!(journal.take(queue, Order::Oldest, usize::MAX, &mut |_| true).unwrap().entries.len(), all.len());
}

/// Reads that are cut short by the system make no difference.
#[test]
fn short_reads() {
    let (fs, all) = small();
    fs.set_faults(Faults { short: 2, ..Faults::default() });
    for _ in 0..20 {
        assert_eq!(recover(&fs).payloads["a"], payloads(&all));
    }
}

/// A file that could not be read on opening may be readable later: it stays.
#[test]
fn a_segment_cannot_be_read_on_opening() {
    let (fs, all) = small();
    for failing in 1..12 {
        let fs = SimFs::with_files(1, &fs.files());
        let (mut writer, journal, recovery) = {
            (0..failing).for_each(|_| fs.fail_next(Operation::Read));
            weir_journal::open(std::sync::Arc::new(fs.clone()), options(4096)).unwrap()
        };
        let queue = journal.queue("a");
        while let Ok(taken) = journal.take(queue, Order::Oldest, usize::MAX, &mut |_| true) {
            if taken.entries.is_empty() {
                break;
            }
            taken.entries.iter().for_each(|(entry, _)| assert!(journal.complete(queue, entry)));
        }
        writer.tidy().unwrap();
        assert!(recovery.damage.iter().any(|report| report.what.contains("cannot be read")), "{failing}: {recovery:?}");
        drop((writer, journal));
        let fs = SimFs::with_files(1, &fs.files());
        assert_eq!(recover(&fs).payloads["b"], payloads(&all), "after {failing} failures");
    }
}

/// What is written after a start that could not read everything does not tell that the rest was never there.
#[test]
fn what_could_not_be_read_on_opening_is_there_later() {
    let (fs, all) = small();
    for seed in 0..200 {
        let fs = SimFs::with_files(seed, &fs.files());
        fs.set_faults(Faults { read: 3, ..Faults::default() });
        let (mut writer, journal, _) = start(&fs, 4096);
        fs.set_faults(Faults::default());
        let queue = journal.queue("b");
        let later = append(&mut writer, &[b"later".to_vec()], &[queue]);
        let mut expected = payloads(&all);
        if seed % 2 == 0 {
            expected.push(b"later".to_vec());
        } else {
            // When the next segment goes, the one before it says itself how far it goes.
            assert!(journal.complete(queue, &later[0]));
        }
        writer.tidy().unwrap();
        assert_eq!(recover(&fs).payloads["b"], expected, "seed {seed}");
    }
}

/// Completions that cannot be read are not overwritten by others.
#[test]
fn completions_cannot_be_read_on_opening() {
    let (fs, all) = small();
    let complete = |fs: &SimFs, number: usize, read_faults| {
        fs.set_faults(Faults { read: read_faults, ..Faults::default() });
        let (mut writer, journal, recovery) = start(fs, 4096);
        fs.set_faults(Faults::default());
        // Without the segment, nothing.
        let is_completed = journal.complete(journal.queue("a"), &all[number].entry);
        writer.tidy().unwrap();
        (is_completed, recovery)
    };
    assert!(complete(&fs, 1, 0).0);
    let mut unread = 0;
    for seed in 0..50 {
        let fs = SimFs::with_files(seed, &fs.files());
        let (is_completed, recovery) = complete(&fs, 2, 3);
        unread += recovery.damage.iter().filter(|report| report.file == ACKS).count();
        let left = recover(&fs).payloads.remove("a").unwrap();
        assert!(!left.contains(&all[1].payload), "seed {seed}");
        assert_eq!(left.contains(&all[2].payload), !is_completed, "seed {seed}");
    }
    assert!(unread > 0);
}

/// Where the last segment ends is not known as long as its end cannot be read: nobody says that it ends before.
#[test]
fn the_end_cannot_be_read_on_opening() {
    let (fs, all) = small();
    for from in [81, all[3].frame.start as u64] {
        let fs = SimFs::with_files(1, &fs.files());
        let bad = bad_disk(&fs, SEGMENT, from);
        let (mut writer, journal, recovery) = open(Arc::new(bad), options(4096)).unwrap();
        assert!(recovery.damage.iter().any(|report| report.what.contains("cannot be read")), "{recovery:?}");
        append(&mut writer, &[b"later".to_vec()], &[journal.queue("c")]);
        writer.finish().unwrap();
        drop((writer, journal));
        let found = recover(&fs);
        assert_eq!(found.payloads["b"], payloads(&all), "from {from}");
        assert_eq!(found.payloads["c"], [b"later"]);
    }
}

/// What cannot be read may be how far the segment goes: nothing is cut off.
#[test]
fn an_extent_cannot_be_read_on_opening() {
    let (fs, all) = finished();
    assert!(fs.flip(SEGMENT, all[4].payload_at(), 1));
    let before = fs.files();
    let bad = bad_disk(&fs, ACKS, 0);
    let (_, _, recovery) = open(Arc::new(bad), options(4096)).unwrap();
    assert!(recovery.truncated_bytes > 0, "as after a kill");
    assert_eq!(fs.files(), before);
    let found = recover(&fs);
    assert_eq!((found.recovery.truncated_bytes, found.damaged.entries), (0, 2));
    assert_eq!(found.payloads["a"].len(), all.len() - 1);
}

/// Whoever removes files under a running gateway takes the data; it is told, and goes on.
#[test]
fn a_file_vanishes_while_it_is_used() {
    let (fs, all) = small();
    let (mut writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    fs.remove(SEGMENT).unwrap();
    assert!(matches!(journal.read(&all[0].entry), Err(ReadError::Gone { .. })));
    append(&mut writer, &[b"later".to_vec()], &[queue]);
    let taken = journal.take(queue, Order::Oldest, usize::MAX, &mut |_| true).unwrap();
    let bytes = all.iter().map(|written| written.payload.len() as u64).sum();
    assert_eq!(taken.damaged, Loss { entries: 6, items: 42, bytes });
    assert_eq!(taken.buffer[taken.entries[0].1.clone()], *b"later");
    assert_eq!(journal.backlog(queue).entries, 1);
    assert_eq!(journal.stats().damage.entries, 6);
}

/// Who has taken an entry of a file that vanished meets that when reading it: it is not told to others as well.
#[test]
fn a_file_vanishes_with_entries_that_are_taken() {
    let (fs, all) = small();
    let (mut writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    let taken = journal.take(queue, Order::Oldest, 60, &mut |_| true).unwrap().entries;
    assert_eq!(taken.len(), 2);
    assert!(journal.complete_items(queue, &taken[0].0, 3));
    fs.remove(SEGMENT).unwrap();
    let rest = journal.take(queue, Order::Oldest, usize::MAX, &mut |_| true).unwrap();
    assert_eq!((rest.entries.len(), rest.damaged.entries, rest.damaged.items), (0, 4, 28));
    assert_eq!(journal.backlog(queue).entries, 2);
    for (entry, _) in &taken {
        assert!(matches!(journal.read(entry), Err(ReadError::Gone { .. })));
        assert!(journal.complete(queue, entry), "it is nobody else's");
    }
    assert_eq!((journal.backlog(queue), journal.stats().damage.entries), (Backlog::default(), 6));
    assert_eq!(journal.evict(journal.queue("b"), 0, 0).entries, all.len() as u64);
    writer.tidy().unwrap();
    assert_eq!(fs.list().unwrap(), Vec::<String>::new());
}

/// Heads that rot while the journal is open: what they led to is lost, the rest is found.
#[test]
fn a_head_rots_while_it_is_used() {
    for rotten in 0..6 {
        let (fs, all) = small();
        let (_writer, journal, _) = start(&fs, 4096);
        let queue = journal.queue("a");
        assert!(fs.flip(SEGMENT, all[rotten].frame.start + 9, 1));
        let (found, damaged) = take_all(&journal, queue);
        let intact = all.iter().enumerate().filter(|(number, _)| *number != rotten).map(|(_, written)| written);
        assert_eq!(found, payloads(intact));
        assert_eq!((damaged.entries, damaged.items), (1, 7), "entry {rotten}");
        assert_eq!(journal.backlog(queue).entries, 5);
    }
}

/// What is appended while the end of the segment is searched in vain was not there to be found, and is not lost.
#[test]
fn an_entry_is_appended_while_the_one_before_it_is_found_damaged() {
    let (fs, appends) = (SimFs::new(1), Arc::new(AtomicBool::new(false)));
    let late = Arc::new(OnceLock::<Mutex<Box<dyn FnMut() + Send>>>::new());
    let disk = {
        let (late, appends) = (Arc::clone(&late), Arc::clone(&appends));
        Watched::new(fs.clone(), move |call| {
            if call.operation == Operation::Read && appends.swap(false, Ordering::SeqCst) {
                late.get().unwrap().lock().unwrap()();
            }
        })
    };
    let (mut writer, journal, _) = open(Arc::new(disk), options(4096)).unwrap();
    let queue = journal.queue("a");
    let entries = append(&mut writer, &[vec![1; 50], vec![2; 50]], &[queue]);
    assert!(fs.flip(SEGMENT, offset(&entries[1]) + 9, 1));
    assert_eq!(journal.take(queue, Order::Oldest, 50, &mut |_| true).unwrap().entries.len(), 1);
    let append_late = move || drop(append(&mut writer, &[b"late".to_vec()], &[queue]));
    assert!(late.set(Mutex::new(Box::new(append_late))).is_ok());
    appends.store(true, Ordering::SeqCst);
    let (found, damaged) = take_all(&journal, queue);
    assert!(!appends.load(Ordering::SeqCst), "it was appended meanwhile");
    assert_eq!((found, damaged.entries, damaged.items), (vec![b"late".to_vec()], 1, 7));
    assert_eq!(journal.stats().damage.entries, 1);
}

/// What has to go is known exactly, or stays until all of its segment has to go: that needs no readable disk.
#[test]
fn evicting_what_cannot_be_read() {
    let (fs, _) = small();
    let (mut writer, journal, _) = start(&fs, 4096);
    let (a, b) = (journal.queue("a"), journal.queue("b"));
    let before = journal.backlog(a);
    fs.set_faults(Faults { read: 1, ..Faults::default() });
    assert_eq!(journal.evict(a, before.bytes / 2, 0), Loss::default());
    assert_eq!(journal.backlog(a), before);
    let all = Loss { entries: before.entries, items: before.items, bytes: before.bytes };
    assert_eq!(journal.evict(a, 0, 0), all);
    fs.set_faults(Faults::default());
    let some = journal.evict(b, before.bytes / 2, 0);
    assert!(some.entries > 0 && journal.backlog(b).bytes <= before.bytes / 2);
    fs.set_faults(Faults { read: 1, ..Faults::default() });
    let rest = journal.evict(b, u64::MAX, u64::MAX);
    assert_eq!((some.entries + rest.entries, some.items + rest.items), (all.entries, all.items), "it adds up");
    writer.tidy().unwrap();
    assert_eq!(fs.list().unwrap(), Vec::<String>::new());
}

#[test]
fn more_segments_than_descriptors() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    let payloads: Vec<Vec<u8>> = (0..100).map(|number| vec![number; 3000]).collect();
    payloads.iter().for_each(|payload| drop(append(&mut writer, std::slice::from_ref(payload), &[queue])));
    drop((writer, journal));
    fs.set_descriptors(4);
    let found = recover(&fs);
    assert_eq!(found.recovery.damage, vec![]);
    assert_eq!(found.payloads["a"], payloads);
}

#[test]
fn only_a_segment_that_nobody_needs_is_given_up() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let [dear, cheap, parts] = ["dear", "cheap", "parts"].map(|name| journal.queue(name));
    for owed in [&[dear, cheap][..], &[cheap], &[cheap, parts], &[cheap]] {
        append(&mut writer, &[vec![1; 3000]], owed);
    }
    let taken = journal.take(parts, Order::Oldest, 1, &mut |_| true).unwrap().entries.remove(0).0;
    assert!(journal.complete_items(parts, &taken, 4));
    let segments = journal.stats().segments;

    let may_lose = |queue| queue != dear;
    let all = Loss { entries: 1, items: 7, bytes: 3000 };
    assert_eq!(journal.evict_segment(&may_lose), [(cheap, all)], "the second");
    writer.tidy().unwrap();
    assert_eq!(journal.stats().segments, segments - 1, "and its space is free");
    let third = journal.evict_segment(&may_lose);
    assert_eq!(
        third,
        [(cheap, all), (parts, Loss { items: 3, ..all })],
        "what is delivered in parts goes as what is left of it"
    );
    assert!(!journal.complete_items(parts, &taken, 3) && !journal.complete(parts, &taken));
    assert_eq!(journal.evict_segment(&may_lose).len(), 1, "the fourth");
    assert_eq!(journal.evict_segment(&may_lose), [], "one is dear");
    assert_eq!(journal.evict_segment(&|_| true).len(), 2, "the first");
}

#[test]
fn what_is_put_off_comes_after_everything_else() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    let payloads: Vec<Vec<u8>> = (0..6).map(|number| vec![number; 3000]).collect();
    payloads.iter().for_each(|payload| drop(append(&mut writer, std::slice::from_ref(payload), &[queue])));
    let next = || {
        let taken = journal.take(queue, Order::Oldest, 3000, &mut |_| true).unwrap();
        let (entry, range) = taken.entries[0].clone();
        (taken.buffer[range][0], entry)
    };
    let mut order = Vec::new();
    for _ in 0..8 {
        let (number, entry) = next();
        order.push(number);
        assert!(number % 2 == 1 || journal.put_off(queue, &entry));
    }
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 0, 2]);
    append(&mut writer, &[vec![6; 3000]], &[queue]);
    assert_eq!([next().0, next().0], [6, 4], "what is new waits for nothing that was put off");
    journal.begin_again(queue);
    let (number, entry) = next();
    assert_eq!((number, journal.backlog(queue).untaken_entries), (0, 1));
    assert!(journal.complete(queue, &entry) && !journal.put_off(queue, &entry));
}

/// Otherwise all that was put off would come before it.
#[test]
fn what_was_put_off_and_is_handed_back_waits_for_what_is_new() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    let mut append = |number: u8| drop(append(&mut writer, &[vec![number; 3000]], &[queue]));
    let next = || {
        let taken = journal.take(queue, Order::Oldest, 3000, &mut |_| true).unwrap();
        let (entry, range) = taken.entries[0].clone();
        (taken.buffer[range][0], entry)
    };
    (0..3).for_each(&mut append);
    assert!((0..3).all(|_| journal.put_off(queue, &next().1)));
    let (number, entry) = next();
    assert_eq!((number, journal.release(queue, &entry)), (0, true));
    append(3);
    assert_eq!([next().0, next().0, next().0, next().0], [3, 0, 1, 2]);
}

#[test]
fn the_newest_can_be_had_first() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    let mut append = |numbers: std::ops::Range<u8>| {
        numbers.for_each(|number| drop(append(&mut writer, &[vec![number; 3000]], &[queue])));
    };
    let newest = || {
        let taken = journal.take(queue, Order::Newest, 10, &mut |bytes| bytes == 3000).unwrap();
        let (entry, range) = taken.entries[0].clone();
        (taken.buffer[range][0], entry)
    };
    append(0..5);
    let (number, entry) = newest();
    assert_eq!((number, journal.put_off(queue, &entry)), (4, true));
    assert_eq!(newest().0, 3, "each comes once");
    append(5..7);
    assert_eq!([newest().0, newest().0, newest().0], [6, 2, 1], "what came since, then what is left");
    let oldest = journal.take(queue, Order::Oldest, 3000, &mut |_| true).unwrap();
    assert_eq!(oldest.buffer[oldest.entries[0].1.start], 0);
    assert_eq!([newest().0, newest().0], [4, 5], "all had their turn, and the rest comes oldest first, then newest");
    assert!(journal.take(queue, Order::Newest, 10, &mut |_| true).unwrap().entries.is_empty());
}

/// An entry that several queues are owed is lost to each of them, and on the disk it is one.
#[test]
fn damage_is_counted_once_however_many_meet_it() {
    let (fs, all) = small();
    let (_writer, journal, _) = start(&fs, 4096);
    assert!(fs.flip(SEGMENT, all[1].payload_at(), 1) && fs.flip(SEGMENT, all[3].frame.start + 9, 1));
    for queue in ["a", "b"].map(|name| journal.queue(name)) {
        let (_, damaged) = take_all(&journal, queue);
        assert_eq!((damaged.entries, damaged.items), (2, 14));
        assert!(matches!(journal.read(&all[1].entry), Err(ReadError::Damaged { .. })));
    }
    let damage = journal.stats().damage;
    assert_eq!((damage.places, damage.entries, damage.items), (2, 2, 14));
    let reported = journal.discovered_damage();
    assert_eq!(reported.iter().filter_map(|report| report.entries).sum::<u64>(), 2, "{reported:?}");
    assert!(
        reported.iter().all(|report| report.to_string().starts_with(&format!("{SEGMENT} at byte "))),
        "{reported:?}"
    );
    assert_eq!(journal.discovered_damage(), []);
}

#[test]
fn damage_met_by_whoever_has_taken_the_entry_is_counted() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    append(&mut writer, &[vec![1; 300]], &[queue]);
    let entry = journal.take(queue, Order::Oldest, 1000, &mut |_| true).unwrap().entries.remove(0).0;
    assert!(journal.read(&entry).is_ok() && journal.stats().damage.places == 0);
    assert!(fs.flip(SEGMENT, fs.files()[SEGMENT].iter().rposition(|byte| *byte == 1).unwrap(), 4));
    assert!(matches!(journal.read(&entry), Err(ReadError::Damaged { .. })));
    let damage = journal.stats().damage;
    assert_eq!((damage.places, damage.entries, damage.items, damage.bytes), (1, 1, 7, 300));
}

/// However small they are, and however many bytes may be read: the list of them is not paid for.
#[test]
fn so_many_entries_are_taken_at_once_and_no_more() {
    let (mut writer, journal, _) = start(&SimFs::new(1), 1 << 20);
    let queue = journal.queue("a");
    append(&mut writer, &vec![b"x".to_vec(); 3000], &[queue]);
    let take = || journal.take(queue, Order::Oldest, usize::MAX, &mut |_| true).unwrap().entries.len();
    assert_eq!([take(), take(), take(), take()], [1024, 1024, 952, 0]);
}
