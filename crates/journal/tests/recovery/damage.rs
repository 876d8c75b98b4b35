//! Every kind of damage at every byte.

use std::sync::Arc;

use bytes::Bytes;
use weir_journal::{DamageReport, Depth, Durability, Loss, NewEntry, Options, Owed, inspect, open};
use weir_testkit::{Operation, SimFs};

use crate::fixture::{
    ACKS, FILE_HEAD, FRAME_HEAD, Files, Found, SEGMENT, Written, append, filled, finished, offset, payloads, recover,
    recover_files, sealed, small, start,
};

/// Ways to change a byte.
const CHANGES: [fn(u8) -> u8; 4] = [|byte| byte ^ 1, |byte| byte ^ 0x80, |_| 0, |_| 0xFF];

/// Calls `check` with each byte of a file changed in each way, where that is a change.
fn at_every_byte(files: &Files, name: &str, check: impl Fn(usize, &Files)) {
    for offset in 0..files[name].len() {
        for change in CHANGES {
            let mut damaged = files.clone();
            let byte = &mut damaged.get_mut(name).unwrap()[offset];
            if *byte != change(*byte) {
                *byte = change(*byte);
                check(offset, &damaged);
            }
        }
    }
}

fn entries_reported(found: &Found) -> u64 {
    found.recovery.damage.iter().filter_map(|report| report.entries).sum()
}

/// Both queues find `expected`.
#[track_caller]
fn check_queues(found: &Found, expected: &[Vec<u8>], context: usize) {
    for queue in ["a", "b"] {
        let payloads = found.payloads.get(queue).cloned().unwrap_or_default();
        assert_eq!(payloads, expected, "queue {queue} after damage at {context}");
    }
}

/// A write of which nothing later says that it was durable is torn; everything else is damage.
#[test]
fn any_byte_of_the_last_segment() {
    let (fs, all) = small();
    let files = cut(fs.files(), &all);
    let last_group = all.last().unwrap().group;
    at_every_byte(&files, SEGMENT, |offset, damaged| {
        let found = recover_files(damaged);
        let hit = all.iter().find(|written| written.covers(offset));
        let survives = |written: &&Written| match hit {
            Some(hit) if hit.group == last_group => written.frame.start < hit.frame.start,
            Some(hit) => written.frame.start != hit.frame.start,
            None => true,
        };
        check_queues(&found, &payloads(all.iter().filter(survives)), offset);
        match hit {
            Some(hit) if hit.group == last_group => {
                assert_eq!(found.recovery.truncated_bytes, (files[SEGMENT].len() - hit.frame.start) as u64);
                assert_eq!(found.recovery.damage, []);
            }
            Some(_) => {
                assert_eq!((found.recovery.truncated_bytes, entries_reported(&found)), (0, 1), "at {offset}");
                assert_eq!(found.recovery.damage[0].items, Some(7));
            }
            None => assert_eq!((found.recovery.truncated_bytes, entries_reported(&found)), (0, 0), "at {offset}"),
        }
        // Padding means nothing; everything else is noticed.
        let padding = all.iter().any(|written| written.frame.contains(&offset) && !written.covers(offset));
        let reported = found.recovery.truncated_bytes > 0 || !found.recovery.damage.is_empty();
        assert!(reported || padding || is_padding_of_name(offset), "nothing noticed at {offset}");
    });
}

/// Payloads are not read on opening, but nothing damaged is handed out.
#[test]
fn any_byte_of_a_sealed_segment() {
    let (fs, all) = sealed();
    let files = fs.files();
    at_every_byte(&files, SEGMENT, |offset, damaged| {
        let found = recover_files(damaged);
        let hit = all.iter().find(|written| written.covers(offset));
        let survives = |written: &&Written| hit.is_none_or(|hit| written.frame.start != hit.frame.start);
        let expected = payloads(all.iter().filter(survives));
        assert_eq!(found.payloads["b"], expected, "at {offset}");
        assert_eq!(found.payloads["a"][..expected.len()], expected, "at {offset}");
        assert_eq!(found.payloads["a"].last().unwrap(), b"later");
        assert_eq!(found.recovery.truncated_bytes, 0);
        // Both queues are told of a payload, when they come to it; whose an entry is, only its head can say.
        let in_payload = hit.is_some_and(|hit| hit.payload_at() <= offset);
        assert_eq!(found.damaged.entries, if in_payload { 2 } else { 0 }, "at {offset}");
        assert_eq!(entries_reported(&found), u64::from(hit.is_some() && !in_payload), "at {offset}");
    });
}

/// Whatever is lost of what queues have completed, nothing that they are owed is.
#[test]
fn any_byte_of_the_completions() {
    let (fs, all) = small();
    {
        let (mut writer, journal, _) = start(&fs, 4096);
        let a = journal.queue("a");
        for written in &all[1..3] {
            assert!(journal.complete(a, &written.entry));
        }
        writer.tidy().unwrap();
        assert!(journal.complete(a, &all[5].entry));
        writer.tidy().unwrap();
    }
    let files = fs.files();
    let expected = [0, 3, 4].map(|number: usize| all[number].payload.clone());
    assert_eq!(recover_files(&files).payloads["a"], expected);
    at_every_byte(&files, ACKS, |offset, damaged| {
        let found = recover_files(damaged);
        assert_eq!(found.payloads["b"], payloads(&all), "at {offset}");
        let of_a = &found.payloads["a"];
        assert!(expected.iter().all(|payload| of_a.contains(payload)), "at {offset}");
        let again = of_a.len() - expected.len();
        let reported = found.recovery.truncated_bytes > 0 || !found.recovery.damage.is_empty();
        assert!(again == 0 || reported, "completions are lost silently at {offset}");
        assert!(again <= 2, "each record is for itself");
    });
    for length in 0..files[ACKS].len() {
        let mut damaged = files.clone();
        damaged.get_mut(ACKS).unwrap().truncate(length);
        let found = recover_files(&damaged);
        assert_eq!(found.payloads["b"], payloads(&all), "{length} bytes");
        assert!(expected.iter().all(|payload| found.payloads["a"].contains(payload)), "{length} bytes");
    }
}

#[test]
fn a_segment_cut_at_any_byte() {
    let (fs, all) = small();
    let files = cut(fs.files(), &all);
    for length in 0..files[SEGMENT].len() {
        let mut damaged = files.clone();
        damaged.get_mut(SEGMENT).unwrap().truncate(length);
        let found = recover_files(&damaged);
        check_queues(&found, &payloads(all.iter().filter(|written| written.frame.end <= length)), length);
        assert_eq!(entries_reported(&found), 0, "a torn write is no damage");
    }
}

#[test]
fn a_sealed_segment_cut_at_any_byte() {
    let (fs, all) = sealed();
    let files = fs.files();
    let end = all.last().unwrap().frame.end;
    for length in FILE_HEAD..end {
        let mut damaged = files.clone();
        damaged.get_mut(SEGMENT).unwrap().truncate(length);
        let found = recover_files(&damaged);
        let intact: Vec<&Written> = all.iter().filter(|written| written.frame.end <= length).collect();
        assert_eq!(
            found.payloads.get("b").cloned().unwrap_or_default(),
            payloads(intact.iter().copied()),
            "{length} bytes"
        );
        // The next segment knows how much there was.
        let lost = (all.len() - intact.len()) as u64;
        assert_eq!(entries_reported(&found), lost, "{length} bytes");
        let items: u64 = found.recovery.damage.iter().filter_map(|report| report.items).sum();
        assert_eq!(items, 7 * lost);
    }
}

/// The two files of a segment stand in for each other as far as they can.
#[test]
fn a_file_that_is_gone() {
    let (fs, all) = small();
    let mut files = cut(fs.files(), &all);
    let acks = files.remove(ACKS).unwrap();
    check_queues(&recover_files(&files), &payloads(&all), 0);
    let orphan = SimFs::with_files(1, &Files::from([(ACKS.to_owned(), acks)]));
    let found = recover(&orphan);
    assert!(found.payloads.is_empty());
    let [report] = &found.recovery.damage[..] else { panic!("it is told: {:?}", found.recovery) };
    assert_eq!(
        (report.file.as_str(), report.entries, report.items),
        (SEGMENT, None, None),
        "nobody says how much it was"
    );
    assert!(report.what.ends_with("at most this was still owed to a, b"), "{report}");
    assert!(orphan.files().is_empty(), "completions of nothing are removed");
}

/// Somebody takes a segment with entries that are owed: the next one says how much there was.
#[test]
fn a_segment_is_taken() {
    let (fs, all) = sealed();
    for completed in [0, 2, 6] {
        let fs = SimFs::with_files(1, &fs.files());
        let (mut writer, journal, _) = start(&fs, 4096);
        let [a, b] = ["a", "b"].map(|name| journal.queue(name));
        all.iter().for_each(|written| assert!(journal.complete(a, &written.entry)));
        all[..completed].iter().for_each(|written| assert!(journal.complete(b, &written.entry)));
        // As a kill in the middle of a removal leaves it: what was completed need not all be written down.
        if completed < 6 {
            writer.tidy().unwrap()
        } else {
            fs.fail_next(Operation::Remove)
        }
        let _ = writer.tidy();
        drop((writer, journal));
        let mut files = fs.files();
        files.remove(SEGMENT).unwrap();
        let lost = (completed < 6).then_some((Some(6 - completed as u64), Some(42)));

        let seen = inspect(&SimFs::with_files(1, &files), Depth::Payloads).unwrap();
        let amounts = |damage: &[DamageReport]| damage.first().map(|report| (report.entries, report.items));
        assert_eq!((amounts(&seen.damage), seen.damage.len()), (lost, usize::from(lost.is_some())), "{completed} done");
        let found = recover_files(&files);
        assert_eq!(amounts(&found.recovery.damage), lost, "{completed} done");
        assert_eq!(found.recovery.orphans.len(), usize::from(lost.is_none()), "{completed} done");
        assert_eq!(found.payloads["a"], [b"later"], "{completed} done");
    }
}

/// Numbers are given again once the directory was empty. A file that comes back from before then names the segment with
/// the number before its own, and means another one.
#[test]
fn a_file_from_before_the_directory_was_empty() {
    let fs = SimFs::new(1);
    let (mut writer, journal, all) = filled(&fs);
    let queues = ["a", "b"].map(|name| journal.queue(name));
    let next = append(&mut writer, &[vec![0; 4000]], &queues);
    let mut head_of_next = fs.files()["0000000000000002.seg"].clone();
    head_of_next.truncate(FILE_HEAD);
    for entry in all.iter().map(|written| &written.entry).chain(&next) {
        queues.iter().for_each(|queue| assert!(journal.complete(*queue, entry)));
    }
    writer.finish().unwrap();
    assert!(fs.files().is_empty());

    let (mut writer, journal, _) = open(Arc::new(fs.clone()), Options { segment_bytes: 4096, seed: 43 }).unwrap();
    let queues = ["a", "b"].map(|name| journal.queue(name));
    let owed: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 60]).collect();
    owed.chunks(2).for_each(|group| drop(append(&mut writer, group, &queues)));
    let mut files = fs.files();
    files.insert("0000000000000002.seg".to_owned(), head_of_next);
    let found = recover_files(&files);
    check_queues(&found, &owed, 0);
    assert_eq!((found.recovery.damage, found.recovery.truncated_bytes), (Vec::new(), 0));

    files.remove(SEGMENT).unwrap();
    let found = recover_files(&files);
    let [report] = &found.recovery.damage[..] else { panic!("it is told: {:?}", found.recovery) };
    assert_eq!((report.entries, report.items), (None, None), "nobody says how much it was");
}

/// Without both heads nothing can be believed: the file stays, and stays what it is.
#[test]
fn a_segment_without_a_head() {
    let (fs, all) = small();
    let mut files = cut(fs.files(), &all);
    files.remove(ACKS);
    files.get_mut(SEGMENT).unwrap()[20] ^= 1;
    let fs = SimFs::with_files(1, &files);
    for _ in 0..2 {
        let found = recover(&fs);
        assert!(found.payloads.is_empty());
        assert_eq!(found.recovery.damage.len(), 1);
        assert_eq!(found.recovery.damage[0].bytes, files[SEGMENT].len() as u64);
    }
    let (mut writer, journal, _) = start(&fs, 4096);
    append(&mut writer, &[b"goes on".to_vec()], &[journal.queue("a")]);
    writer.tidy().unwrap();
    assert_eq!(fs.files()[SEGMENT], files[SEGMENT]);
    assert!(fs.files().contains_key("0000000000000002.seg"), "no number is used twice");
}

#[test]
fn a_segment_of_another_version() {
    let (fs, all) = small();
    let mut files = cut(fs.files(), &all);
    for name in [SEGMENT, ACKS] {
        let file = files.get_mut(name).unwrap();
        file[8] = 9;
        let sum = crc32c::crc32c(&file[..76]);
        file[76..80].copy_from_slice(&sum.to_le_bytes());
    }
    let fs = SimFs::with_files(1, &files);
    let found = recover(&fs);
    assert!(found.payloads.is_empty());
    assert!(found.recovery.damage[0].what.contains("format version 9 is not known"), "{:?}", found.recovery.damage);
    assert_eq!(fs.files(), files);
}

/// What is cut off may be what told damage from a write that was under way. Later starts find the same all the same, and
/// what is lost is told once.
#[test]
fn damage_before_a_torn_tail() {
    let (fs, all) = small();
    let files = cut(fs.files(), &all);
    // Only the last group tells that the one before it was durable.
    for torn in [all[4].frame.start + 5, all[4].payload_at(), all[5].payload_at()] {
        let mut damaged = files.clone();
        let bytes = damaged.get_mut(SEGMENT).unwrap();
        bytes[all[2].payload_at()] ^= 1;
        bytes[torn] ^= 1;
        let fs = SimFs::with_files(1, &damaged);
        let found = recover(&fs);
        let is_kept = |written: &&Written| written.frame.end <= torn && written.frame != all[2].frame;
        let kept: Vec<&Written> = all.iter().filter(is_kept).collect();
        check_queues(&found, &payloads(kept.iter().copied()), torn);
        assert!(found.recovery.truncated_bytes > 0);
        let lost =
            |found: &Found| found.recovery.lost.iter().map(|(_, loss)| (loss.entries, loss.items)).collect::<Vec<_>>();
        assert_eq!(lost(&found), [(1, 7), (1, 7)]);
        for _ in 0..2 {
            let again = recover(&fs.after_power_loss());
            check_queues(&again, &payloads(kept.iter().copied()), torn);
            assert_eq!((again.recovery.truncated_bytes, again.damaged.entries), (0, 0));
            assert_eq!(lost(&recover(&fs)), []);
        }
    }
}

/// A head tells what was durable whatever became of the rest of its frame.
#[test]
fn damage_before_a_torn_tail_of_which_a_head_is_left() {
    let (fs, all) = small();
    let mut files = cut(fs.files(), &all);
    let bytes = files.get_mut(SEGMENT).unwrap();
    bytes[all[2].payload_at()] ^= 1;
    // The list of queues of the one, the head of the other.
    bytes[all[4].frame.start + FRAME_HEAD] ^= 1;
    bytes[all[5].frame.start + 5] ^= 1;
    check_damage_before_tail(&files, &[0, 1, 3], &all);
    // The file ends within a frame.
    files = cut(fs.files(), &all);
    let bytes = files.get_mut(SEGMENT).unwrap();
    bytes[all[2].payload_at()] ^= 1;
    bytes.truncate(all[4].payload_at());
    check_damage_before_tail(&files, &[0, 1, 3], &all);
}

/// A name is a frame as others are.
#[test]
fn damage_before_a_torn_tail_of_which_a_name_is_left() {
    let fs = SimFs::new(1);
    let (mut writer, journal, all) = filled(&fs);
    let last = append(&mut writer, &[b"last".to_vec()], &[journal.queue("c")]);
    let mut files = fs.files();
    let bytes = files.get_mut(SEGMENT).unwrap();
    bytes[all[4].payload_at()] ^= 1;
    bytes[offset(&last[0]) + 5] ^= 1;
    check_damage_before_tail(&files, &[0, 1, 2, 3, 5], &all);
}

/// Of all entries these are left, one is lost, and the tail is cut off.
#[track_caller]
fn check_damage_before_tail(files: &Files, left: &[usize], all: &[Written]) {
    let found = recover_files(files);
    check_queues(&found, &payloads(left.iter().map(|number| &all[*number])), 0);
    assert!(found.recovery.truncated_bytes > 0);
    let lost: Vec<_> = found.recovery.lost.iter().map(|(_, loss)| (loss.entries, loss.items)).collect();
    assert_eq!(lost, [(1, 7), (1, 7)]);
}

/// After an orderly end nothing can have been under way: what is damaged is counted, to the entry.
#[test]
fn any_byte_after_an_orderly_end() {
    let (fs, all) = finished();
    let files = fs.files();
    assert_eq!(files[SEGMENT].len(), all.last().unwrap().frame.end, "reserved room is given back");
    at_every_byte(&files, SEGMENT, |offset, damaged| {
        let found = recover_files(damaged);
        let hit = all.iter().find(|written| written.covers(offset));
        let survives = |written: &&Written| hit.is_none_or(|hit| written.frame.start != hit.frame.start);
        check_queues(&found, &payloads(all.iter().filter(survives)), offset);
        assert_eq!(found.recovery.truncated_bytes, 0, "at {offset}");
        let reported = entries_reported(&found) + found.damaged.entries;
        assert_eq!(reported > 0, hit.is_some(), "at {offset}");
    });
    for length in FILE_HEAD..files[SEGMENT].len() {
        let mut damaged = files.clone();
        damaged.get_mut(SEGMENT).unwrap().truncate(length);
        let found = recover_files(&damaged);
        let intact: Vec<&Written> = all.iter().filter(|written| written.frame.end <= length).collect();
        check_queues(&found, &payloads(intact.iter().copied()), length);
        let items: u64 = found.recovery.damage.iter().filter_map(|report| report.items).sum();
        let lost = (all.len() - intact.len()) as u64;
        assert_eq!((entries_reported(&found), items, found.recovery.truncated_bytes), (lost, 7 * lost, 0), "{length}");
    }
}

/// Whatever the end does when the machine dies, nothing is lost; and what ends goes on elsewhere.
#[test]
fn an_orderly_end_that_is_cut_short() {
    for crash in 1.. {
        let fs = SimFs::new(crash);
        let (mut writer, journal, all) = filled(&fs);
        fs.crash_at(fs.operations() + crash);
        let ended = writer.finish();
        for disk in [fs.after_kill(), fs.after_power_loss()] {
            let found = recover(&disk);
            check_queues(&found, &payloads(&all), usize::try_from(crash).unwrap());
            assert_eq!((found.recovery.damage, found.recovery.lost), (vec![], vec![]));
        }
        if !fs.has_crashed() {
            ended.unwrap();
            fs.crash_at(0);
            append(&mut writer, &[b"goes on".to_vec()], &[journal.queue("a")]);
            assert!(fs.files().contains_key("0000000000000002.seg"), "nothing is written behind the end");
            return assert!(crash > 3);
        }
    }
}

/// When the next segment goes first, the one before it says itself how far it goes: what is damaged then is not taken for
/// a write that was under way, and what follows is not cut off.
#[test]
fn any_byte_of_a_segment_that_outlives_the_next_one() {
    let (fs, all) = small();
    {
        let (mut writer, journal, _) = start(&fs, 4096);
        let queue = journal.queue("c");
        let later = append(&mut writer, &[b"later".to_vec()], &[queue]);
        assert!(journal.complete(queue, &later[0]));
        writer.tidy().unwrap();
        assert_eq!(journal.stats().segments, 1);
    }
    let fs = fs.after_power_loss();
    at_every_byte(&fs.files(), SEGMENT, |offset, damaged| {
        let found = recover_files(damaged);
        let hit = all.iter().find(|written| written.covers(offset));
        let survives = |written: &&Written| hit.is_none_or(|hit| written.frame.start != hit.frame.start);
        check_queues(&found, &payloads(all.iter().filter(survives)), offset);
        assert_eq!(found.recovery.truncated_bytes, 0, "at {offset}");
    });
}

/// However many places are damaged, all are counted and a list of them stays short.
#[test]
fn thousands_of_damaged_places() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 1 << 20);
    let entries = append(&mut writer, &vec![b"one of many".to_vec(); 6000], &[journal.queue("a")]);
    writer.finish().unwrap();
    drop((writer, journal));
    assert!(entries.iter().step_by(2).all(|entry| fs.flip(SEGMENT, offset(entry) + 9, 1)));
    let (_, journal, recovery) = start(&fs, 1 << 20);
    assert!(recovery.damage.len() < 1100, "{}", recovery.damage.len());
    assert_eq!(recovery.damage.iter().filter_map(|report| report.entries).sum::<u64>(), 3000);
    let damage = journal.stats().damage;
    assert_eq!((damage.places, damage.entries, damage.items), (3000, 3000, 7 * 3000));
}

#[test]
fn what_was_refused_and_removed_does_not_come_back_as_damage() {
    for seed in 0..200 {
        let fs = SimFs::new(seed);
        let (mut writer, journal, _) = start(&fs, 1 << 20);
        let queues = [journal.queue("a")];
        let first = append(&mut writer, &[b"acknowledged".to_vec()], &queues);
        fs.fail_next(Operation::Sync);
        let owed = [Owed { queue: queues[0], taken: false }];
        let payload = [Bytes::from(vec![1; 3000])];
        let refused = [NewEntry { payload: &payload, items: 7, owed: &owed }];
        writer.append(&refused, 1, Durability::Synced).unwrap_err();
        let last = append(&mut writer, &[b"acknowledged, too".to_vec()], &queues);
        for done in [first, last] {
            assert!(journal.complete(queues[0], &done[0]));
            writer.tidy().unwrap();
        }
        let found = recover(&fs.after_power_loss());
        assert_eq!((found.damaged, found.recovery.lost), (Loss::default(), vec![]), "seed {seed}");
        let payloads = found.payloads.values().flatten();
        assert!(payloads.clone().all(|payload| payload.starts_with(b"acknowledged")), "seed {seed}");
    }
}

/// A number is used again when its files were removed and the process ended; power loss may bring one of them back.
#[test]
fn what_was_removed_does_not_come_back_beside_a_new_segment() {
    for seed in 0..200 {
        let fs = SimFs::new(seed);
        let (mut writer, journal, _) = start(&fs, 4096);
        let queues = [journal.queue("a")];
        let entries = append(&mut writer, &[b"done with".to_vec()], &queues);
        assert!(journal.complete(queues[0], &entries[0]));
        writer.tidy().unwrap();
        let fs = fs.after_kill();
        let (mut writer, journal, _) = start(&fs, 4096);
        fs.crash_at(seed % 8);
        let payload = [Bytes::from_static(b"never acknowledged")];
        let owed = [Owed { queue: journal.queue("a"), taken: false }];
        let refused = writer.append(&[NewEntry { payload: &payload, items: 7, owed: &owed }], 1, Durability::Synced);
        assert_eq!(refused.is_err(), fs.has_crashed());
        let damage = recover(&fs.after_power_loss()).recovery.damage;
        // Completions are not synced, and may be torn.
        assert!(damage.iter().all(|report| report.file == ACKS), "seed {seed}: {damage:?}");
    }
}

/// Names of queues are in both files; without either, what is owed is kept under a name of its own.
#[test]
fn a_queue_without_a_name() {
    let (fs, all) = small();
    let mut files = cut(fs.files(), &all);
    files.remove(ACKS);
    // The first frame names the first queue.
    files.get_mut(SEGMENT).unwrap()[FILE_HEAD + 56] ^= 1;
    let fs = SimFs::with_files(1, &files);
    let found = recover(&fs);
    assert_eq!(found.payloads["b"], payloads(&all));
    assert_eq!(found.payloads["?/0000000000000001/0"], payloads(&all));
    assert_eq!(recover(&fs).payloads.keys().collect::<Vec<_>>(), ["?/0000000000000001/0", "b"]);
}

/// Other files are nobody's business here, whatever they are called.
#[test]
fn files_of_others() {
    let (fs, all) = small();
    let mut files = fs.files();
    let names = [
        "ffffffffffffffff.seg",
        "7fffffffffffffff.ack",
        "1.seg",
        "+000000000000001.seg",
        "notes.txt",
        "000000000000000A.seg",
    ];
    for name in names {
        files.insert(name.to_owned(), b"theirs".to_vec());
    }
    let fs = SimFs::with_files(1, &files);
    check_queues(&recover(&fs), &payloads(&all), 0);
    let (mut writer, journal, _) = start(&fs, 4096);
    append(&mut writer, &[b"goes on".to_vec()], &[journal.queue("a")]);
    names.iter().for_each(|name| assert_eq!(fs.files()[*name], b"theirs"));
}

/// A file with a number that leaves no room behind it: what could not be found again is refused.
#[test]
fn the_last_number() {
    for (name, appended) in [("4000000000000000.seg", 0), ("3fffffffffffffff.seg", 1)] {
        let fs = SimFs::with_files(1, &Files::from([(name.to_owned(), vec![1; 200])]));
        let (mut writer, journal, recovery) = start(&fs, 4096);
        assert_eq!(recovery.damage.len(), 1, "{name}");
        let queue = journal.queue("a");
        let payload = [Bytes::from(vec![1; 3000])];
        let group = [NewEntry { payload: &payload, items: 7, owed: &[Owed { queue, taken: false }] }];
        for number in 0..3 {
            let result = writer.append(&group, 1, Durability::Synced);
            assert_eq!(result.is_ok(), number < appended, "{name} {result:?}");
        }
        assert_eq!(recover(&fs).payloads.values().flatten().count(), appended, "{name}");
    }
}

/// Frames inside a payload are no frames, be they of another journal or of this very segment.
#[test]
fn a_journal_in_a_payload() {
    let other = SimFs::new(1);
    let (mut writer, journal, _) = open(Arc::new(other.clone()), Options { segment_bytes: 4096, seed: 43 }).unwrap();
    append(&mut writer, &vec![b"foreign".to_vec(); 10], &[journal.queue("a")]);
    let inner = other.files()[SEGMENT].clone();
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 64 << 10);
    let queues = [journal.queue("a"), journal.queue("b")];
    append(&mut writer, &[b"first".to_vec()], &queues);
    let own = fs.files()[SEGMENT][..4096].to_vec();
    let entries = append(&mut writer, &[inner, own], &queues);
    append(&mut writer, &[b"last".to_vec()], &queues);
    let files = fs.files();
    for entry in entries {
        let mut damaged = files.clone();
        damaged.get_mut(SEGMENT).unwrap()[offset(&entry) + 5] ^= 1;
        let found = recover_files(&damaged);
        assert_eq!((found.payloads["a"].len(), entries_reported(&found)), (3, 1));
        assert_eq!(
            (found.payloads["a"][0].as_slice(), found.payloads["a"][2].as_slice()),
            (&b"first"[..], &b"last"[..])
        );
    }
}

/// Without the room reserved behind it.
fn cut(mut files: Files, all: &[Written]) -> Files {
    files.get_mut(SEGMENT).unwrap().truncate(all.last().unwrap().frame.end);
    files
}

fn is_padding_of_name(offset: usize) -> bool {
    // Two frames of 64 bytes, with names of one byte.
    let in_names = (FILE_HEAD..FILE_HEAD + 128).contains(&offset);
    in_names && (offset - FILE_HEAD) % 64 > 56
}
