//! More queues than are kept in memory.

use std::collections::BTreeSet;

use weir_journal::{Depth, Order, inspect};
use weir_testkit::SimFs;

use crate::fixture::{append, start};

const QUEUES: usize = 3000;
/// What a start finds of them.
const FOUND: usize = 2048;

/// All that is there is delivered, as far as this start finds it; the names of these queues, and whether it said that
/// there are more.
fn deliver(fs: &SimFs) -> (BTreeSet<String>, bool) {
    let (mut writer, journal, recovery) = start(fs, 4096);
    let mut names = BTreeSet::new();
    for (queue, name) in journal.queues() {
        let taken = journal.take(queue, Order::Oldest, 100, &mut |_| true).unwrap();
        assert_eq!(taken.entries.len(), 1, "{name}");
        assert!(journal.complete(queue, &taken.entries[0].0));
        names.insert(name);
    }
    writer.finish().unwrap();
    (names, recovery.damage.iter().any(|report| report.what.contains("more than 2048 queues")))
}

/// Queues that are owed an entry in a segment of their own, so many in each.
#[track_caller]
fn nothing_is_lost(in_each: usize) {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let queues: Vec<_> = (0..QUEUES).map(|number| journal.queue(&number.to_string())).collect();
    queues.chunks(in_each).for_each(|queues| drop(append(&mut writer, &[b"owed".to_vec()], queues)));
    writer.finish().unwrap();
    drop(writer);
    let damage = inspect(&fs, Depth::Headers).unwrap().damage;
    assert_eq!(damage.len(), usize::from(in_each > FOUND), "{damage:?}");
    let (first, reported) = deliver(&fs);
    assert!(first.len() == FOUND && reported, "{} queues", first.len());
    let (second, reported) = deliver(&fs);
    assert!(second.len() == QUEUES - FOUND && first.is_disjoint(&second) && !reported, "{} queues", second.len());
    assert!(!fs.files().keys().any(|name| name.ends_with(".seg")), "nobody is owed anything");
}

#[test]
fn what_too_many_queues_of_a_segment_are_owed_waits_for_the_next_start() {
    nothing_is_lost(QUEUES);
}

#[test]
fn what_too_many_queues_of_all_segments_are_owed_waits_for_the_next_start() {
    nothing_is_lost(QUEUES / 2);
}
