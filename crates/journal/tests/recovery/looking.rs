//! Looks through what is owed: they find all of it, pass over damage, and change nothing.

use weir_journal::{Bookmark, Entry, Fs as _, Journal, Looked, Order, QueueId, Viewer};
use weir_testkit::SimFs;

use crate::fixture::{SEGMENT, append, filled, payloads, small, start, take_all};

/// What a viewer sees: payloads, and how many queues are owed each.
#[derive(Default)]
struct Seen {
    entries: Vec<(Vec<u8>, usize)>,
    /// Payloads that are larger are not paid for.
    most: Option<u32>,
    /// So many entries are enough.
    enough: Option<usize>,
}

impl Viewer for Seen {
    fn goes_on(&mut self) -> bool {
        self.enough.is_none_or(|enough| self.entries.len() < enough)
    }

    fn pays(&mut self, entry: &Entry) -> bool {
        self.most.is_none_or(|most| entry.payload_bytes <= most)
    }

    fn see(&mut self, entry: &Entry, owed: &[QueueId], payload: Vec<u8>) {
        assert_eq!(entry.payload_bytes as usize, payload.len());
        self.entries.push((payload, owed.len()));
    }
}

impl Seen {
    fn payloads(&self) -> Vec<Vec<u8>> {
        self.entries.iter().map(|(payload, _)| payload.clone()).collect()
    }
}

fn look(journal: &Journal, queues: &[QueueId]) -> (Seen, Looked) {
    let mut seen = Seen::default();
    let looked = journal.look(queues, Bookmark::default(), u64::MAX, &mut seen);
    (seen, looked)
}

#[test]
fn what_is_owed_is_seen_once_and_stays_as_it_was() {
    let fs = SimFs::new(1);
    let (_writer, journal, all) = filled(&fs);
    let [a, b] = ["a", "b"].map(|name| journal.queue(name));
    let taken = journal.take(a, Order::Oldest, 60, &mut |_| true).unwrap();
    assert!(!taken.entries.is_empty(), "what somebody has taken is owed as well");
    assert!(journal.complete(b, &all[0].entry) && journal.complete(a, &all[1].entry));
    assert!(journal.complete(b, &all[1].entry));
    let before = [a, b].map(|queue| journal.backlog(queue));

    let (seen, looked) = look(&journal, &[a, b]);
    let owed: Vec<_> = seen.entries.iter().map(|(_, owed)| *owed).collect();
    assert_eq!((looked.next, looked.unreadable, owed), (None, 0, vec![1, 2, 2, 2, 2]));
    assert_eq!(seen.payloads(), payloads([&all[..1], &all[2..]].concat().iter()));
    assert!(looked.bytes >= seen.payloads().iter().map(|payload| payload.len() as u64).sum::<u64>());
    let (seen, looked) = look(&journal, &[b]);
    assert_eq!((looked.next, seen.payloads()), (None, payloads(&all[2..])));
    assert_eq!(look(&journal, &[]).0.entries.len(), 0);
    assert_eq!(look(&journal, &[journal.queue("other")]).0.entries.len(), 0);

    assert_eq!([a, b].map(|queue| journal.backlog(queue)), before);
    taken.entries.iter().for_each(|(entry, _)| _ = journal.release(a, entry));
    assert_eq!(take_all(&journal, a).0, payloads([&all[..1], &all[2..]].concat().iter()));
    assert_eq!(take_all(&journal, b).0, payloads(&all[2..]));
}

/// Entries of several segments: whatever a look is limited by, the next ones go on where it ended.
#[test]
fn a_look_that_is_limited_says_where_it_goes_on() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let queue = journal.queue("a");
    let all: Vec<Vec<u8>> = (0..50).map(|number| vec![number; 300]).collect();
    all.iter().for_each(|payload| _ = append(&mut writer, std::slice::from_ref(payload), &[queue]));
    assert!(journal.stats().segments > 3);
    for (max_bytes, enough) in [(1, None), (1000, None), (u64::MAX, Some(7)), (u64::MAX, None)] {
        let (mut from, mut found, mut looks) = (Bookmark::default(), Vec::new(), 0);
        loop {
            let mut seen = Seen { enough, ..Seen::default() };
            let looked = journal.look(&[queue], from, max_bytes, &mut seen);
            found.extend(seen.payloads());
            looks += 1;
            let Some(next) = looked.next else { break };
            assert!(next > from && Bookmark::parse(&next.to_string()) == Some(next), "{next}");
            from = next;
        }
        assert_eq!(found, all, "in {looks} looks");
        assert_eq!(looks > 1, (max_bytes, enough) != (u64::MAX, None));
    }
    let mut seen = Seen { most: Some(299), ..Seen::default() };
    let looked = journal.look(&[queue], Bookmark::default(), u64::MAX, &mut seen);
    assert_eq!((seen.entries.len(), looked.next, looked.unreadable), (0, None, 0), "nobody pays");
    for wrong in ["", "3", "3.", ".3", "3.x", "-1.0", "1.4294967296"] {
        assert_eq!(Bookmark::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn damage_is_passed_over_and_left_to_those_who_are_owed_it() {
    let (fs, all) = small();
    for (what, at) in [("payload", all[2].payload_at()), ("head", all[2].frame.start)] {
        let fs = SimFs::with_files(1, &fs.files());
        let (_writer, journal, _) = start(&fs, 4096);
        let [a, b] = ["a", "b"].map(|name| journal.queue(name));
        assert!(fs.flip(SEGMENT, at, 0xff));
        let before = journal.stats();
        let (seen, looked) = look(&journal, &[a, b]);
        assert_eq!((looked.next, looked.unreadable), (None, 1), "{what}");
        let others: Vec<_> = all.iter().filter(|written| written.entry != all[2].entry).cloned().collect();
        assert_eq!(seen.payloads(), payloads(&others), "{what}");
        assert_eq!((journal.stats(), journal.backlog(a).entries), (before, all.len() as u64), "{what}");
        assert!(journal.discovered_damage().is_empty(), "{what}");
        let (delivered, damaged) = take_all(&journal, a);
        assert_eq!((delivered, damaged.entries), (payloads(&others), 1), "whoever is owed it is told: {what}");
    }
}

/// Nothing behind the last frame that can be read is looked for again and again.
#[test]
fn damage_up_to_the_end_ends_a_look() {
    let fs = SimFs::new(1);
    let (_writer, journal, all) = filled(&fs);
    all[3..].iter().for_each(|written| assert!(fs.flip(SEGMENT, written.frame.start, 0xff)));
    let queue = journal.queue("a");
    let (mut from, mut found, mut unreadable) = (Bookmark::default(), Vec::new(), 0);
    for _ in 0..all.len() {
        let mut seen = Seen::default();
        let looked = journal.look(&[queue], from, 1, &mut seen);
        (found, unreadable) = ([found, seen.payloads()].concat(), unreadable + looked.unreadable);
        let Some(next) = looked.next else {
            assert_eq!((found, unreadable), (payloads(&all[..3]), 3));
            return;
        };
        from = next;
    }
    panic!("it does not end");
}

#[test]
fn a_segment_may_go_before_it_is_looked_at() {
    let (removed, done) = (SimFs::new(1), SimFs::new(1));
    let (_writer, journal, all) = filled(&removed);
    let queues = ["a", "b"].map(|name| journal.queue(name));
    removed.remove(SEGMENT).unwrap();
    let (seen, looked) = look(&journal, &queues);
    assert_eq!((seen.entries.len(), looked.next, looked.unreadable), (0, None, all.len() as u64), "by somebody else");
    assert_eq!(journal.backlog(queues[0]).entries, all.len() as u64);

    let (mut writer, journal, _) = filled(&done);
    queues.iter().for_each(|queue| _ = journal.evict(*queue, 0, 0));
    writer.tidy().unwrap();
    assert_eq!(look(&journal, &queues).1, Looked::default(), "when nobody is owed it");
}
