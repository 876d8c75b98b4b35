//! What opening takes of memory, whatever the length of the files. A process of its own: the peak is that of all tests.

#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use weir_journal::{Depth, Durability, NewEntry, Options, OsFs, Owed, inspect, open};

const OPTIONS: Options = Options { segment_bytes: 64 << 10, seed: 7 };
const LONG: u64 = 300 << 20;
const LITTLE: u64 = 16 << 20;

fn kilobytes(of: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

fn write_one(dir: &Path) {
    let (mut writer, journal, _) = open(Arc::new(OsFs::open(dir).unwrap()), OPTIONS).unwrap();
    let owed = [Owed { queue: journal.queue("a"), taken: false }];
    let payload = [Bytes::from_static(b"owed")];
    writer.append(&[NewEntry { payload: &payload, items: 1, owed: &owed }], 1, Durability::Synced).unwrap();
}

/// Neither of a segment nor without one is it read as a whole; that it is too long is told.
#[test]
fn a_file_of_completions_of_any_length() {
    let dir = tempfile::tempdir().unwrap();
    (0..2).for_each(|_| write_one(dir.path()));
    for acks in ["0000000000000001.ack", "0000000000000002.ack"] {
        fs::File::options().write(true).open(dir.path().join(acks)).unwrap().set_len(LONG).unwrap();
    }
    fs::remove_file(dir.path().join("0000000000000002.seg")).unwrap();
    let before = kilobytes("VmRSS");
    let inspected = inspect(&OsFs::read_only(dir.path()).unwrap(), Depth::Payloads).unwrap();
    let (_, journal, recovery) = open(Arc::new(OsFs::open(dir.path()).unwrap()), OPTIONS).unwrap();
    let took = kilobytes("VmHWM").saturating_sub(before) << 10;
    assert!(took < LITTLE, "{took} bytes");
    assert_eq!(journal.backlog(journal.queue("a")).entries, 1);
    for damage in [inspected.damage, recovery.damage] {
        assert!(damage.iter().any(|report| report.what.contains("longer than any")), "{damage:?}");
    }
}
