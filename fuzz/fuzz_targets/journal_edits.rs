//! A sound journal of two segments with some bytes changed, cut out or cut off, with checksums made right or left as
//! they are.

#![no_main]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weir_fuzz::journal::{Files, reseal, use_journal};
use weir_journal::{Durability, Fs as _, NewEntry, Options, Owed, open};
use weir_testkit::SimFs;

static SOUND: LazyLock<Files> = LazyLock::new(sound);

fuzz_target!(|input: (bool, Vec<(u8, u16, u8, u8)>)| {
    let (resealed, edits) = input;
    let mut files = SOUND.clone();
    for (file, at, what, value) in edits {
        let number = usize::from(file) % files.len();
        let Some(bytes) = files.values_mut().nth(number) else { return };
        let at = usize::from(at) % bytes.len().max(1);
        match what % 4 {
            0 | 1 if at < bytes.len() => bytes[at] = value,
            2 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
            3 => bytes.truncate(at),
            _ => {}
        }
    }
    if resealed {
        reseal(&mut files);
    }
    use_journal(&files);
});

/// Two segments with entries of three queues, some of them completed.
fn sound() -> Files {
    let fs = SimFs::new(1);
    let options = Options { segment_bytes: 4096, seed: 1 };
    let (mut writer, journal, _) = open(Arc::new(fs.clone()), options).expect("nothing fails on this disk");
    let queues = ["a", "traces/b", "c"].map(|name| journal.queue(name));
    let mut entries = Vec::new();
    for number in 0u8..24 {
        let payload = [Bytes::from(vec![number; 40 + 7 * usize::from(number)])];
        let owed = [0, 1, 2].map(|offset| Owed { queue: queues[offset], taken: false });
        let group = [NewEntry { payload: &payload, items: 5, owed: &owed[usize::from(number) % 3..] }];
        entries
            .extend(writer.append(&group, u64::from(number), Durability::Synced).expect("nothing fails on this disk"));
    }
    for entry in entries.iter().step_by(3) {
        assert!(journal.complete(queues[2], entry));
    }
    writer.tidy().expect("nothing fails on this disk");
    assert!(fs.list().is_ok_and(|names| names.len() == 4));
    fs.files()
}
