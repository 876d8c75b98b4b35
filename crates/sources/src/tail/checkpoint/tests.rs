use proptest::prelude::*;

use super::*;
use crate::tail::chain::{Answer, Seen};
use crate::tail::identity::FileId;
use crate::tail::path::LogName;

/// What is saved of container `pod`, read up to `offset`.
pub(in crate::tail) fn saved(pod: &str, offset: u64) -> Saved {
    let mut chain = Chain::default();
    let name = |name| LogName::parse(name).unwrap();
    let id = |inode| FileId { device: 1, inode, born: u64::MAX - inode };
    let listing = [
        Seen { name: name("0.log.20261123-120000.gz"), id: id(3), size: 10 },
        Seen { name: name("0.log"), id: id(4), size: 7_000 },
    ];
    chain.reconcile(&listing, &mut |_| Answer::Same, 0);
    chain.set_head(1, Print::of_head(b"head"));
    chain.finish(0, 70);
    let open = [None, Some(Spot { file: 1, offset: offset / 2 }), None];
    chain.commit(Position { done: Spot { file: 1, offset }, open }, Print::of_tail(b"tail"));
    let container = ContainerName::parse(&format!("ns_{pod}_uid"), "app").unwrap();
    // As another process has it: what only this one knows is not written.
    let restored = Saved::of(container.clone(), &chain, 1_000).into_chain();
    Saved::of(container, &restored, 1_000)
}

fn of(replayed: &Replayed) -> Vec<Saved> {
    replayed.containers.values().cloned().collect()
}

/// The lines of three commits of two containers, and what counts after each.
fn history() -> (Vec<u8>, Vec<(usize, Vec<Saved>)>) {
    let lines = [encode_header("s1"), encode(&saved("a", 1)), encode(&saved("b", 2)), encode(&saved("a", 3))];
    let states = [vec![], vec![saved("a", 1)], vec![saved("a", 1), saved("b", 2)], vec![saved("a", 3), saved("b", 2)]];
    let ends = lines.iter().scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    });
    (lines.concat(), ends.zip(states).collect())
}

#[test]
fn what_is_written_is_read() {
    let (bytes, states) = history();
    let replayed = replay(&bytes);
    assert_eq!(of(&replayed), states.last().unwrap().1);
    assert_eq!(replayed.id.as_deref(), Some("s1"));
    assert_eq!((replayed.torn_tail, replayed.damaged, replayed.whole), (None, 0, bytes.len() as u64));

    let removed = replay(&[bytes, encode_removal(&saved("a", 0).container)].concat());
    assert_eq!(of(&removed), [saved("b", 2)]);

    let text = String::from_utf8(encode(&saved("a", 9))).unwrap();
    let json = text.split_once(' ').unwrap().1;
    assert!(json.contains(r#""position":[[1,9],[null,[1,4],null]]"#), "{json}");
    assert!(json.len() < 600, "{json}");
}

/// LOG-2: wherever a crash cut the file off, all complete lines are read, and the torn end is reported.
#[test]
fn a_torn_end_is_dropped_and_told() {
    let (bytes, states) = history();
    for length in 0..=bytes.len() {
        let replayed = replay(&bytes[..length]);
        let whole = states.iter().rev().find(|(end, _)| *end <= length);
        let (end, expected) = whole.cloned().unwrap_or_default();
        assert_eq!(of(&replayed), expected, "{length}");
        assert_eq!(replayed.torn_tail, Some((length - end) as u64).filter(|torn| *torn > 0), "{length}");
        assert_eq!((replayed.damaged, replayed.whole), (0, end as u64), "{length}");
    }
}

/// LOG-2: whichever bit changes, the content is right, or the damaged line is reported.
#[test]
fn a_damaged_line_is_told() {
    let (bytes, states) = history();
    let exact = &states.last().unwrap().1;
    let known: Vec<Saved> = states.iter().flat_map(|(_, state)| state.clone()).collect();
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            let replayed = replay(&damaged);
            let line = bytes[..place].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            let is_told = replayed.damage.iter().any(|damage| damage.line == line) || replayed.torn_tail.is_some();
            assert!(is_told, "{place} {bit}");
            assert!(of(&replayed).iter().all(|saved| known.contains(saved)), "{place} {bit}");
            // Lines that come before are not affected, nor those that come after the next newline.
            let before = states.iter().rev().find(|(end, _)| *end <= place).map_or(0, |(_, state)| state.len());
            assert!(of(&replayed).len() >= before, "{place} {bit}");
            if place < states[0].0 - 1 {
                assert_eq!((of(&replayed), replayed.id), (exact.clone(), None), "{place} {bit}");
            }
        }
    }
}

/// LOG-2: nothing is taken from another version, and the reason is reported.
#[test]
fn lines_that_are_whole_and_wrong_are_told() {
    let with_checksum = |json: &str| format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()));
    let cases = ["{}", "null", r#"{"saved":{}}"#, r#"{"removed":"x"}"#, r#"{"other":1}"#, "[[[[["];
    for json in cases {
        let replayed = replay(with_checksum(json).as_bytes());
        assert!(matches!(&replayed.damage[..], [Damage { line: 1, offset: 0, reason: Reason::Content(_) }]), "{json}");
    }
    let deep = replay(with_checksum(&"[".repeat(MAX_LINE - PREFIX)).as_bytes());
    assert!(matches!(deep.damage[0].reason, Reason::Content(_)));
    let empty = replay(b"\n\nabc\n");
    assert_eq!(
        empty.damage.iter().map(|damage| (damage.line, damage.offset)).collect::<Vec<_>>(),
        [(1, 0), (2, 1), (3, 2)]
    );

    let foreign =
        [with_checksum(r#"{"header":{"version":2,"store":"x"}}"#).into_bytes(), encode(&saved("a", 1))].concat();
    let foreign = replay(&foreign);
    assert_eq!((foreign.foreign, foreign.containers.len()), (Some(2), 0));
}

/// LOG-2: a line without an end does not fill the memory, and those after it count.
#[test]
fn a_line_that_is_too_long_is_skipped() {
    let mut replay = Replay::default();
    for _ in 0..100 {
        replay.feed(&vec![b'x'; MAX_LINE / 10]);
        assert!(replay.partial.capacity() <= 4 * MAX_LINE);
    }
    replay.feed(b"\n");
    replay.feed(&encode(&saved("a", 1)));
    let replayed = replay.finish();
    assert_eq!(replayed.damage, [Damage { line: 1, offset: 0, reason: Reason::TooLong }]);
    assert_eq!(of(&replayed), [saved("a", 1)]);
}

/// LOG-24: what a container was read to is kept for a day when it is not wanted; clocks that go back change nothing.
#[test]
fn what_is_not_wanted_is_kept_for_a_day() {
    for now in [0, 1_000, 999 + KEPT_MS] {
        assert!(!saved("a", 1).is_expired(now), "{now}");
    }
    assert!(saved("a", 1).is_expired(1_000 + KEPT_MS));
}

/// However much a file says, what is read of it has a limit; what it says again takes nothing more.
#[test]
fn what_is_read_has_a_limit() {
    let read = replay(&encode(&saved("00000", 1)));
    let most = MOST_BYTES / read.containers.values().map(Saved::bytes).sum::<usize>();
    let all = |offset| (0..most + 10).map(move |number| encode(&saved(&format!("{number:05}"), offset)));
    let mut replay = Replay::default();
    all(1).chain(all(2)).for_each(|line| replay.feed(&line));
    let Replayed { containers, left_out, damaged, .. } = replay.finish();
    assert_eq!((containers.len(), left_out, damaged), (most, 20, 0));
    assert!(containers.values().all(|saved| saved.position.done.offset == 2), "the last line of each counts");
}

#[test]
fn a_file_is_written_anew_when_most_of_it_is_old() {
    let cases =
        [(0, 0, false), (65_536, 0, false), (65_537, 0, true), (265_536, 100_000, false), (265_537, 100_000, true)];
    for (size, live, expected) in cases {
        assert_eq!(is_worn(size, live), expected, "{size} {live}");
    }
    assert!(!is_worn(u64::MAX, u64::MAX));
}

proptest! {
    /// LOG-2: whatever is in the file, and however it is read, nothing panics and no line is skipped silently.
    #[test]
    fn pieces_do_not_matter(noise in prop::collection::vec(any::<u8>(), 0..200), place in 0..2000usize, piece in 1..400usize) {
        let (mut bytes, _) = history();
        let place = place % bytes.len();
        bytes.splice(place..place, noise.iter().copied());
        let whole = replay(&bytes);
        let mut pieces = Replay::default();
        bytes.chunks(piece).for_each(|piece| pieces.feed(piece));
        prop_assert_eq!(&pieces.finish(), &whole);
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        prop_assert!(whole.damaged <= lines);
        let is_line = bytes[..place].last().is_none_or(|last| *last == b'\n');
        if !noise.is_empty() && !is_line {
            prop_assert!(whole.damaged > 0 || whole.torn_tail.is_some());
        }
    }
}
