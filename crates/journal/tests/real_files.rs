//! The journal on a real file system: what it promises without faults, and how it behaves beside other processes.

#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use weir_journal::{
    AppendError, Depth, Durability, Entry, Fs, Journal, LockError, NewEntry, Options, Order, OsFs, Owed, QueueId,
    ReadError, Recovery, Writer, export, inspect, open,
};

const OPTIONS: Options = Options { segment_bytes: 64 << 10, seed: 7 };

type Opened = (Writer, Arc<Journal>, Recovery);

fn open_dir(dir: &Path) -> Opened {
    open(Arc::new(OsFs::open(dir).unwrap()), OPTIONS).unwrap()
}

fn try_append(writer: &mut Writer, payload: &[u8], queues: &[QueueId]) -> Result<Entry, AppendError> {
    let owed: Vec<Owed> = queues.iter().map(|queue| Owed { queue: *queue, taken: false }).collect();
    let payload = [Bytes::copy_from_slice(payload)];
    let group = [NewEntry { payload: &payload, items: 3, owed: &owed }];
    writer.append(&group, 5, Durability::Synced).map(|entries| entries[0])
}

fn append(writer: &mut Writer, payload: &[u8], queues: &[QueueId]) -> Entry {
    try_append(writer, payload, queues).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Takes and completes everything.
fn drain(journal: &Journal, queue: QueueId, max_bytes: usize) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    loop {
        let taken = journal.take(queue, Order::Oldest, max_bytes, &mut |_| true).unwrap();
        if taken.entries.is_empty() {
            return payloads;
        }
        for (entry, range) in &taken.entries {
            assert_eq!(journal.read(entry).unwrap(), taken.buffer[range.clone()]);
            payloads.push(taken.buffer[range.clone()].to_vec());
            assert!(journal.complete(queue, entry));
        }
    }
}

#[test]
fn an_entry_is_known_by_the_process_that_wrote_it() {
    let dir = tempfile::tempdir().unwrap();
    let written = {
        let (mut writer, journal, _) = open_dir(dir.path());
        let queue = journal.queue("a");
        let entry = append(&mut writer, b"before", &[queue]);
        assert!(!journal.is_recovered(&entry));
        entry
    };
    let (mut writer, journal, _) = open_dir(dir.path());
    let queue = journal.queue("a");
    assert!(journal.is_recovered(&written));
    assert!(!journal.is_recovered(&append(&mut writer, b"after", &[queue])));
    let taken = journal.take(queue, Order::Oldest, 100, &mut |_| true).unwrap();
    assert!(taken.entries.first().is_some_and(|(entry, _)| journal.is_recovered(entry)));
}

#[test]
fn what_is_owed_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, journal, recovery) = open_dir(dir.path());
    assert_eq!(recovery, Recovery::default());
    let (a, b) = (journal.queue("a"), journal.queue("b"));
    let payloads: Vec<Vec<u8>> = (0u8..200).map(|number| vec![number; 700 + usize::from(number)]).collect();
    let entries: Vec<Entry> = payloads.iter().map(|payload| append(&mut writer, payload, &[a, b])).collect();
    for entry in &entries[..150] {
        assert!(journal.complete(a, entry));
    }
    for entry in &entries[..100] {
        assert!(journal.complete(b, entry));
        assert!(!journal.complete(b, entry));
    }
    assert!(journal.stats().segments > 2);
    writer.tidy().unwrap();
    let segments = journal.stats().segments;
    drop((writer, journal));

    let (mut writer, journal, recovery) = open_dir(dir.path());
    assert_eq!((recovery.truncated_bytes, recovery.damage.len(), recovery.lost.len()), (0, 0, 0));
    assert_eq!(journal.stats().segments, segments);
    for (name, first) in [("a", 150), ("b", 100)] {
        let queue = journal.queue(name);
        let backlog = journal.backlog(queue);
        let left = 200 - first as u64;
        assert_eq!((backlog.entries, backlog.items, backlog.untaken_entries), (left, 3 * left, left));
        assert_eq!(backlog.bytes, payloads[first..].iter().map(|payload| payload.len() as u64).sum());
        assert_eq!(drain(&journal, queue, 5000), payloads[first..]);
    }
    writer.tidy().unwrap();
    assert_eq!(journal.stats().segments, 0);
    assert_eq!(names(dir.path()), ["LOCK"], "an idle journal owns no file");
}

#[test]
fn payloads_of_all_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, journal, _) = open_dir(dir.path());
    let queue = journal.queue("a");
    let payloads =
        [0, 1, 7, 8, 511, 512, 513, 65_000, 5 << 20].map(|length: usize| vec![length.to_le_bytes()[0]; length]);
    let owed = [Owed { queue, taken: false }];
    let parts: Vec<Vec<Bytes>> =
        payloads.iter().map(|payload| payload.chunks(600).map(Bytes::copy_from_slice).collect()).collect();
    let group: Vec<NewEntry<'_>> = parts.iter().map(|payload| NewEntry { payload, items: 1, owed: &owed }).collect();
    // Thousands of parts are more than the system takes at once.
    writer.append(&group, 5, Durability::Written).unwrap();
    writer.sync().unwrap();
    drop((writer, journal));
    let (_writer, journal, _) = open_dir(dir.path());
    assert_eq!(drain(&journal, journal.queue("a"), 1 << 20), payloads);
}

#[test]
fn what_is_too_large_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, journal, _) = open_dir(dir.path());
    let queue = journal.queue("a");
    let large = Bytes::from(vec![0; 1 << 20]);
    let payload = vec![large; 65];
    let owed = [Owed { queue, taken: false }];
    let error =
        writer.append(&[NewEntry { payload: &payload, items: 1, owed: &owed }], 5, Durability::Synced).unwrap_err();
    assert_eq!(error.to_string(), "cannot append a payload in bytes of 68157440: at most 67108864 fit");
    let nobody = journal.queue(&"x".repeat(2000));
    assert!(matches!(try_append(&mut writer, b"x", &[nobody]), Err(AppendError::UnknownQueue)));
    assert_eq!(names(dir.path()), ["LOCK"]);
}

#[test]
fn a_second_instance_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = OsFs::open(dir.path()).unwrap();
    let error = OsFs::open(dir.path()).unwrap_err();
    assert!(matches!(error, LockError::Held { holder: Some(pid), .. } if pid == std::process::id()));
    let expected = format!(
        "cannot use the journal in {}: the process with pid {} has it locked; stop that one, or give each instance a \
         directory of its own",
        dir.path().display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), expected);
    drop(first);
    OsFs::open(dir.path()).unwrap();
}

#[test]
fn the_directory_is_made_for_this_user_alone() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("state/weir/journal");
    OsFs::open(&below).unwrap();
    assert_eq!(fs::metadata(&below).unwrap().permissions().mode() & 0o777, 0o700);
    fs::write(dir.path().join("file"), "").unwrap();
    let error = OsFs::open(&dir.path().join("file")).unwrap_err().to_string();
    assert!(error.starts_with("cannot create the directory "), "{error}");
}

/// The lock file is written to: what a link leads to is somebody else's.
#[test]
fn a_lock_that_is_a_link_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, precious) = (dir.path().join("journal"), dir.path().join("precious"));
    fs::create_dir(&journal).unwrap();
    fs::write(&precious, "precious").unwrap();
    let lock = journal.join("LOCK");
    std::os::unix::fs::symlink(&precious, &lock).unwrap();
    let error = OsFs::open(&journal).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot open the lock file {}", lock.display()));
    assert!(format!("{error:?}").contains("it is a symbolic link; remove it"), "{error:?}");
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&precious, &lock).unwrap();
    assert!(format!("{:?}", OsFs::open(&journal).unwrap_err()).contains("it is not a file of its own; remove it"));
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    OsFs::open(&journal).unwrap_err();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn a_copy_of_a_journal_in_use_opens() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut writer, journal, _) = open_dir(dir.path());
    let queue = journal.queue("a");
    let payloads: Vec<Vec<u8>> = (0u8..90).map(|number| vec![number; 3000]).collect();
    for payload in &payloads {
        append(&mut writer, payload, &[queue]);
    }
    for name in names(dir.path()) {
        fs::copy(dir.path().join(&name), copy.path().join(&name)).unwrap();
    }
    append(&mut writer, b"later", &[queue]);
    let (_writer, copied, recovery) = open_dir(copy.path());
    assert_eq!(recovery.damage, []);
    assert_eq!(drain(&copied, copied.queue("a"), 10_000), payloads);
}

#[test]
fn a_removed_directory_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("journal");
    let (mut writer, journal, _) = open_dir(&below);
    let queue = journal.queue("a");
    let entry = append(&mut writer, b"before", &[queue]);
    fs::remove_dir_all(&below).unwrap();
    let error = try_append(&mut writer, b"after", &[queue]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot append to 0000000000000001.seg: it was removed from the journal's directory by somebody else"
    );
    assert!(matches!(try_append(&mut writer, b"after", &[queue]), Err(AppendError::Io { action: "create", .. })));
    assert!(matches!(journal.read(&entry), Err(ReadError::Gone { .. })));
    assert_eq!(journal.backlog(queue).entries, 1, "what was refused is owed to nobody");
}

#[test]
fn a_renamed_directory_is_the_same_one() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    let (mut writer, journal, _) = open_dir(&before);
    let queue = journal.queue("a");
    append(&mut writer, b"one", &[queue]);
    fs::rename(&before, &after).unwrap();
    append(&mut writer, b"two", &[queue]);
    assert_eq!(drain(&journal, queue, 100), [b"one".to_vec(), b"two".to_vec()]);
}

#[test]
fn looking_while_it_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, journal, _) = open_dir(dir.path());
    let (a, b) = (journal.queue("traces/a"), journal.queue("traces/b"));
    let entries: Vec<Entry> = (0u8..50).map(|number| append(&mut writer, &[number; 2000], &[a, b])).collect();
    entries[..20].iter().for_each(|entry| assert!(journal.complete(a, entry)));
    writer.tidy().unwrap();
    let before = names(dir.path());

    let fs = OsFs::read_only(dir.path()).unwrap();
    let seen = inspect(&fs, Depth::Payloads).unwrap();
    assert_eq!(seen.damage, []);
    let queues: Vec<_> = seen.queues.iter().map(|queue| (queue.name.as_str(), queue.backlog.entries)).collect();
    assert_eq!(queues, [("traces/a", 30), ("traces/b", 50)]);
    assert_eq!(seen.segments.iter().map(|segment| segment.entries).sum::<u64>(), 50);
    assert_eq!(seen.segments.iter().map(|segment| segment.owed_entries).sum::<u64>(), 80);
    assert_eq!((seen.segments[0].oldest_ms, seen.segments[0].newest_ms), (Some(5), Some(5)));

    let mut numbers = Vec::new();
    let exported = export(&fs, "traces/a", &mut |entry, payload| {
        assert_eq!((entry.items, payload.len()), (3, 2000));
        numbers.push(payload[0]);
        Ok(())
    });
    let exported = exported.unwrap();
    assert_eq!((exported.entries, exported.items, exported.bytes, exported.damage.len()), (30, 90, 60_000, 0));
    assert_eq!(numbers, (20..50).collect::<Vec<u8>>());
    let stopped = export(&fs, "traces/a", &mut |_, _| Err(io::ErrorKind::BrokenPipe.into()));
    assert_eq!(stopped.unwrap_err().kind(), io::ErrorKind::BrokenPipe);

    assert_eq!(names(dir.path()), before);
    assert!(fs.create("x").is_err() && fs.remove("LOCK").is_err());
    append(&mut writer, b"goes on", &[a]);
}

#[test]
fn looking_at_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, journal, _) = open_dir(dir.path());
    let queue = journal.queue("a");
    for number in 0u8..60 {
        append(&mut writer, &[number; 2000], &[queue]);
    }
    drop((writer, journal));
    let file = dir.path().join("0000000000000001.seg");
    let mut bytes = fs::read(&file).unwrap();
    bytes[20_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let fs = OsFs::read_only(dir.path()).unwrap();
    assert_eq!(inspect(&fs, Depth::Headers).unwrap().damage, [], "only heads were looked at");
    let seen = inspect(&fs, Depth::Payloads).unwrap();
    assert_eq!(seen.damage.len(), 1);
    assert_eq!((seen.damage[0].entries, seen.damage[0].items, seen.damage[0].bytes), (Some(1), Some(3), 2000));
    let mut count = 0;
    let exported = export(&fs, "a", &mut |_, _| {
        count += 1;
        Ok(())
    });
    assert_eq!((count, exported.unwrap().damage.len()), (59, 1));
}
