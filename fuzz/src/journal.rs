//! What the targets of the journal do with files: everything that a journal's users do, and what must hold whatever the bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_journal::{Backlog, Depth, Journal, Options, Order, QueueId, Recovery, export, inspect, open};
use weir_testkit::SimFs;

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

const OPTIONS: Options = Options { segment_bytes: 4096, seed: 7 };

/// Recovers, looks, exports, takes, reads, evicts, completes, tidies and recovers again.
pub fn use_journal(files: &Files) {
    let fs = SimFs::with_files(1, files);
    let looked = inspect(&fs, Depth::Payloads).expect("nothing fails on this disk");
    for queue in &looked.queues {
        export(&fs, &queue.name, &mut |_, _| Ok(())).expect("nothing fails on this disk");
    }
    let (mut writer, journal, recovery) = open(Arc::new(fs.clone()), OPTIONS).expect("damage is no reason to refuse");
    let (_, again, found) = open(Arc::new(fs.after_kill()), OPTIONS).expect("damage is no reason to refuse");
    let owed = |recovery: &Recovery| -> BTreeMap<String, Backlog> {
        recovery.queues.iter().map(|(_, name, backlog)| (name.clone(), *backlog)).collect()
    };
    assert_eq!(owed(&found), owed(&recovery), "JOURNAL-4");
    assert_eq!(found.truncated_bytes, 0, "what is torn was cut off");
    for (number, (queue, _)) in journal.queues().into_iter().enumerate() {
        if number % 2 == 0 { drain(&journal, queue) } else { evict(&journal, queue) }
    }
    again.queues().iter().for_each(|(queue, _)| evict(&again, *queue));
    writer.tidy().expect("nothing fails on this disk");
    drop((writer, journal));
    let (_, _, last) = open(Arc::new(fs), OPTIONS).expect("damage is no reason to refuse");
    assert_eq!(last.queues, [], "everything is completed");
}

/// Everything that is owed is handed out or told to be damaged, and can be read again.
fn drain(journal: &Journal, queue: QueueId) {
    let Backlog { entries, .. } = journal.backlog(queue);
    let mut seen = 0;
    loop {
        let taken = journal.take(queue, Order::Oldest, 300, &mut |_| true).expect("nothing fails on this disk");
        seen += taken.damaged.entries + taken.entries.len() as u64;
        for (entry, range) in &taken.entries {
            assert_eq!(journal.read(entry).expect("it was read before"), taken.buffer[range.clone()]);
            assert!(
                journal.complete_items(queue, entry, 0)
                    && journal.release(queue, entry)
                    && journal.complete(queue, entry)
            );
        }
        if taken.entries.is_empty() {
            break;
        }
    }
    assert_eq!((seen, journal.backlog(queue)), (entries, Backlog::default()));
}

/// Giving up in steps adds up.
fn evict(journal: &Journal, queue: QueueId) {
    let before = journal.backlog(queue);
    let some = journal.evict(queue, before.bytes / 2, 0);
    assert!(journal.backlog(queue).bytes <= before.bytes / 2);
    let old = journal.evict(queue, u64::MAX, u64::MAX / 2);
    let rest = journal.evict(queue, 0, u64::MAX);
    // Of the end of time, nothing is ever too old.
    let left = journal.backlog(queue);
    assert_eq!(some.entries + old.entries + rest.entries + left.entries, before.entries);
    assert_eq!(some.items + old.items + rest.items + left.items, before.items);
    assert_eq!(some.bytes + old.bytes + rest.bytes + left.bytes, before.bytes);
    drain(journal, queue);
}

/// Makes checksums right wherever something looks like a head, so that what is behind them is met.
pub fn reseal(files: &mut Files) {
    for (name, bytes) in files {
        if bytes.len() < 80 {
            continue;
        }
        let is_segment = name.ends_with(".seg");
        bytes[..8].copy_from_slice(if is_segment { b"WEIRSEG\n" } else { b"WEIRACK\n" });
        bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
        let id = u64::from_str_radix(&name[..16], 16).expect("names are ours");
        bytes[16..24].copy_from_slice(&id.to_le_bytes());
        // One nonce for all, so that segments and completions agree.
        bytes[24..32].fill(1);
        let sum = crc32c::crc32c(&bytes[..76]);
        bytes[76..80].copy_from_slice(&sum.to_le_bytes());
        let seal = crc32c::crc32c(&[1; 8]);
        for at in (80..bytes.len()).step_by(8) {
            if is_segment { reseal_frame(&mut bytes[at..], seal) } else { reseal_record(&mut bytes[at..], seal) }
        }
    }
}

fn reseal_frame(bytes: &mut [u8], seal: u32) {
    if bytes.len() < 56 || !bytes.starts_with(b"WJF\xA5") {
        return;
    }
    let owed = if bytes[8] == 2 { usize::from(u16::from_le_bytes([bytes[10], bytes[11]])) } else { 0 };
    let payload_at = 56 + (2 * owed).next_multiple_of(8);
    let payload_end = payload_at + number(bytes, 12);
    if let Some(payload) = bytes.get(payload_at..payload_end) {
        let sum = crc32c::crc32c_append(seal, payload);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    }
    if let Some(list) = bytes.get(56..56 + 2 * owed) {
        let sum = crc32c::crc32c_append(seal, list);
        bytes[20..24].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = crc32c::crc32c_append(seal, &bytes[8..56]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
}

fn reseal_record(bytes: &mut [u8], seal: u32) {
    if bytes.len() < 16 || !bytes.starts_with(b"WJA\xA5") {
        return;
    }
    let count = number(bytes, 12);
    let body = match bytes[8] {
        1 => count,
        2 => count.saturating_mul(8),
        _ => 24,
    };
    if let Some(covered) = bytes.get(8..16usize.saturating_add(body).next_multiple_of(8)) {
        let sum = crc32c::crc32c_append(seal, covered);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    }
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}
