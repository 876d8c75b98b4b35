//! The format, to the byte: `docs/journal-format.md` says what they mean.
//!
//! When this test has to change, the format version has to change with it, and the old version must still be read.

use weir_testkit::SimFs;

use crate::fixture::{ACKS, Files, SEGMENT, append, recover, recover_files, start};

const NEXT: &str = "0000000000000002.seg";

const GOLDEN_SEGMENT: &[&str] = &[
    // head: magic, version, id, nonce, created, previous id, end, items, entries, checksum
    "574549525345470a 0100000000000000 0100000000000000 956eeb2f2632d7bd 0068e5cf8b010000",
    "0000000000000000 0000000000000000 0000000000000000 0000000000000000 00000000fadb22d1",
    // queue 0: traces/a
    "574a46a5476239aa 0100000008000000 4fc53c4c00000000 0000000000000000 0000000000000000",
    "0068e5cf8b010000 5000000000000000",
    "7472616365732f61",
    // queue 1: b
    "574a46a5ed5b7787 0100010001000000 b4458d3a00000000 0000000000000000 0000000000000000",
    "0068e5cf8b010000 5000000000000000",
    "6200000000000000",
    // entry 0, owed to 0 and 1: first
    "574a46a56c523200 0200020005000000 a7d63750194edcab 0000000007000000 0000000000000000",
    "0068e5cf8b010000 5000000000000000",
    "0000010000000000",
    "6669727374000000",
    // entry 1, owed to 0 and 1: nothing
    "574a46a526714516 0200020000000000 7b460a1c194edcab 0100000007000000 0700000000000000",
    "0068e5cf8b010000 5000000000000000",
    "0000010000000000",
    // entry 2, owed to 1: third; it says that everything before it was durable
    "574a46a55dbc759f 0200010005000000 b01e53d35db6b393 0200000007000000 0e00000000000000",
    "0068e5cf8b010000 5801000000000000",
    "0100000000000000",
    "7468697264000000",
];

const GOLDEN_ACKS: &[&str] = &[
    // head
    "5745495241434b0a 0100000000000000 0100000000000000 956eeb2f2632d7bd 0068e5cf8b010000",
    "0000000000000000 0000000000000000 0000000000000000 0000000000000000 000000002b4b0a22",
    // names
    "574a41a57e42c491 0100000008000000 7472616365732f61",
    "574a41a5e0e46e2b 0100010001000000 6200000000000000",
    // queue 0 has completed entries 0 and 1, queue 1 has completed entry 0
    "574a41a531a68e56 0200000001000000 0000000002000000",
    "574a41a54e7aab60 0200010001000000 0000000001000000",
];

/// Added by an orderly end: the segment goes to byte 416 and has 21 items in 3 entries.
const GOLDEN_EXTENT: &[&str] =
    &["574a41a550a73cb7 0300000001000000 a001000000000000 1500000000000000 0300000000000000"];

/// The head of the next segment, as earlier versions wrote it: it says the same.
const GOLDEN_NEXT: &[&str] = &[
    "574549525345470a 0100000000000000 0200000000000000 bdd732262feb6e95 0068e5cf8b010000",
    "0100000000000000 a001000000000000 1500000000000000 0300000000000000 00000000c2ffe6bf",
];

fn bytes(golden: &[&str]) -> Vec<u8> {
    let digits: Vec<u8> = golden.concat().bytes().filter(|digit| *digit != b' ').collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn what_is_written() {
    let fs = SimFs::new(1);
    let (mut writer, journal, _) = start(&fs, 4096);
    let (a, b) = (journal.queue("traces/a"), journal.queue("b"));
    let entries = append(&mut writer, &[b"first".to_vec(), Vec::new()], &[a, b]);
    append(&mut writer, &[b"third".to_vec()], &[b]);
    assert!(journal.complete(a, &entries[0]) && journal.complete(a, &entries[1]) && journal.complete(b, &entries[0]));
    writer.tidy().unwrap();
    let files = fs.files();
    let segment = bytes(GOLDEN_SEGMENT);
    assert_eq!(files[SEGMENT][..segment.len()], segment);
    assert!(files[SEGMENT].len() == 4096 && files[SEGMENT][segment.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(files[ACKS], bytes(GOLDEN_ACKS));
    writer.finish().unwrap();
    assert_eq!(fs.files()[SEGMENT], segment);
    assert_eq!(fs.files()[ACKS], [bytes(GOLDEN_ACKS), bytes(GOLDEN_EXTENT)].concat());
}

#[test]
fn what_is_read() {
    let golden = [(SEGMENT.to_owned(), bytes(GOLDEN_SEGMENT)), (ACKS.to_owned(), bytes(GOLDEN_ACKS))];
    let found = recover_files(&Files::from(golden));
    assert_eq!(found.payloads.keys().collect::<Vec<_>>(), ["b"], "traces/a is owed nothing");
    assert_eq!(found.payloads["b"], [Vec::new(), b"third".to_vec()]);
    assert_eq!((found.recovery.damage.len(), found.recovery.truncated_bytes), (0, 0));
}

/// What lies behind the extent does not count.
#[test]
fn what_is_read_of_an_extent() {
    let acks = [bytes(GOLDEN_ACKS), bytes(GOLDEN_EXTENT)].concat();
    let mut segment = bytes(GOLDEN_SEGMENT);
    segment.extend([7; 64]);
    let found = recover_files(&Files::from([(SEGMENT.to_owned(), segment), (ACKS.to_owned(), acks)]));
    assert_eq!(found.payloads["b"], [Vec::new(), b"third".to_vec()]);
    assert_eq!((found.recovery.damage.len(), found.recovery.truncated_bytes), (0, 0));
}

/// The head of the next segment says where this one ends.
#[test]
fn what_is_said_of_the_segment_before() {
    let golden = [(SEGMENT.to_owned(), bytes(GOLDEN_SEGMENT)), (ACKS.to_owned(), bytes(GOLDEN_ACKS))];
    let fs = SimFs::with_files(1, &Files::from(golden));
    let (mut writer, journal, _) = start(&fs, 4096);
    append(&mut writer, &[b"next".to_vec()], &[journal.queue("b")]);
    let head = &fs.files()[NEXT][40..76];
    let said = ["0100000000000000", "a001000000000000", "1500000000000000", "0300000000000000", "7b460a1c"];
    assert_eq!(head, bytes(&said), "id 1, 416 bytes, 21 items, 3 entries, checksum of the nonce");
    assert_eq!(recover(&fs).payloads["b"].len(), 3);
}

/// Earlier versions did not say which segment they meant but by its id.
#[test]
fn what_was_said_of_the_segment_before() {
    let mut segment = bytes(GOLDEN_SEGMENT);
    segment.extend([7; 64]);
    let golden =
        [(SEGMENT.to_owned(), segment), (ACKS.to_owned(), bytes(GOLDEN_ACKS)), (NEXT.to_owned(), bytes(GOLDEN_NEXT))];
    let found = recover_files(&Files::from(golden));
    assert_eq!(found.payloads["b"], [Vec::new(), b"third".to_vec()]);
    assert_eq!(
        (found.recovery.damage.len(), found.recovery.truncated_bytes),
        (0, 0),
        "what lies behind does not count"
    );
}
