//! What a disk has for each pipeline, as a process would find it that began now.

use std::collections::HashSet;
use std::sync::Arc;

use weir_journal::Options;
use weir_testkit::SimFs;

use super::payload;
use super::process::{is_nameless, number_of};

/// Ids of the spans that each of so many pipelines is owed. The disk stays as it is.
pub(super) fn of(disk: &SimFs, pipelines: usize) -> Vec<HashSet<u64>> {
    // The start of a journal repairs what it finds.
    let copy = disk.after_kill();
    copy.set_capacity(None);
    let (_writer, journal, recovery) =
        weir_journal::open(Arc::new(copy), Options { segment_bytes: 1 << 20, seed: 0 }).unwrap();
    let mut owed = vec![HashSet::new(); pipelines];
    for (queue, name, _) in recovery.queues.into_iter().filter(|(_, name, _)| !is_nameless(name)) {
        loop {
            let chunk = journal.take(queue, 1 << 20, &mut |_| true).unwrap();
            if chunk.entries.is_empty() && chunk.damaged.entries == 0 {
                break;
            }
            for (_, place) in chunk.entries {
                owed[number_of(&name)].extend(payload::decode(&[chunk.buffer[place].to_vec().into()]));
            }
        }
    }
    owed
}
