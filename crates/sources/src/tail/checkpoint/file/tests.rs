use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::super::tests::saved;
use super::super::{encode, encode_removal};
use super::*;

/// R26: a store that is new is told from one that was there; its id stays.
#[test]
fn a_store_is_known_again() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/b");
    let (mut store, replayed) = Store::open(&dir, "first").unwrap();
    assert_eq!((store.id(), replayed.store, replayed.containers.len()), ("first", None, 0));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join(NAME))), (0o700, 0o600));
    store.append(&encode(&saved("a", 1))).unwrap();
    store.append(&[encode(&saved("b", 2)), encode(&saved("a", 3))].concat()).unwrap();
    store.sync().unwrap();
    drop(store);

    let (store, replayed) = Store::open(&dir, "second").unwrap();
    assert_eq!((store.id(), replayed.store.as_deref()), ("first", Some("first")));
    assert_eq!(replayed.containers.into_values().collect::<Vec<_>>(), [saved("a", 3), saved("b", 2)]);
    assert_eq!(store.size(), fs::metadata(dir.join(NAME)).unwrap().len());
    drop(store);

    fs::remove_dir_all(&dir).unwrap();
    let (store, replayed) = Store::open(&dir, "third").unwrap();
    assert_eq!((store.id(), replayed.store, replayed.containers.len()), ("third", None, 0));
}

/// R25: one process at a time.
#[test]
fn a_store_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _) = Store::open(dir.path(), "x").unwrap();
    let error = Store::open(dir.path(), "x").unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error}");
    assert!(error.to_string().contains(&dir.path().display().to_string()));
    drop(first);
    Store::open(dir.path(), "x").unwrap();
}

/// R2: after a torn end the next line is whole.
#[test]
fn a_torn_end_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let header = super::super::encode_header("x");
    let torn = encode(&saved("b", 2));
    fs::write(&path, [&header, &encode(&saved("a", 1)), &torn[..torn.len() - 1]].concat()).unwrap();
    let (mut store, replayed) = Store::open(dir.path(), "y").unwrap();
    assert_eq!(replayed.torn_tail, Some(torn.len() as u64 - 1));
    store.append(&encode(&saved("c", 3))).unwrap();
    drop(store);
    let (_, replayed) = Store::open(dir.path(), "y").unwrap();
    assert_eq!((replayed.damaged, replayed.torn_tail), (0, None));
    assert_eq!(replayed.containers.into_values().collect::<Vec<_>>(), [saved("a", 1), saved("c", 3)]);
}

#[test]
fn what_is_out_of_date_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path(), "x").unwrap();
    for offset in 0..500 {
        store.append(&encode(&saved("a", offset))).unwrap();
    }
    store.append(&encode_removal(&saved("b", 0).container)).unwrap();
    let before = store.size();
    store.compact([encode(&saved("a", 499))].into_iter()).unwrap();
    assert!(store.size() < before / 100);
    store.append(&encode(&saved("b", 7))).unwrap();
    store.sync().unwrap();
    drop(store);
    let (store, replayed) = Store::open(dir.path(), "y").unwrap();
    assert_eq!(store.id(), "x");
    assert_eq!(replayed.containers.into_values().collect::<Vec<_>>(), [saved("a", 499), saved("b", 7)]);
    assert!(!dir.path().join(NEW_NAME).exists());
}

/// R2: when the disk takes nothing any more, what was there stays, and is told by name.
#[test]
fn a_failure_leaves_the_old_file_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path(), "x").unwrap();
    store.append(&encode(&saved("a", 1))).unwrap();
    fs::create_dir(dir.path().join(NEW_NAME)).unwrap();
    let error = store.compact([encode(&saved("a", 2))].into_iter()).unwrap_err();
    assert!(error.to_string().contains(NEW_NAME), "{error}");
    fs::remove_dir(dir.path().join(NEW_NAME)).unwrap();

    let full = || File::options().read(true).write(true).open("/dev/full").unwrap();
    let error = write_lines(&full(), std::iter::once(encode(&saved("a", 3)))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let file = std::mem::replace(&mut store.file, full());
    let size = store.size();
    let error = store.append(&encode(&saved("a", 4))).unwrap_err();
    assert!(error.to_string().contains("No space left") && store.is_torn && store.size() == size, "{error}");
    store.file = file;
    // As much of the line as the disk took.
    store.file.write_all_at(&encode(&saved("a", 4))[..20], size).unwrap();
    store.append(&encode(&saved("b", 5))).unwrap();
    drop(store);
    let (_, replayed) = Store::open(dir.path(), "y").unwrap();
    assert_eq!((replayed.damaged, replayed.torn_tail), (0, None));
    assert_eq!(replayed.containers.into_values().collect::<Vec<_>>(), [saved("a", 1), saved("b", 5)]);
}

/// R2, R26: what is not ours, not ours alone, or not there any more is refused by name.
#[test]
fn other_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let other = dir.path().join("other");
    fs::write(&other, "text").unwrap();
    symlink(&other, &path).unwrap();
    assert!(matches!(Store::open(dir.path(), "x").unwrap_err(), Error::NotAFile { path: found } if found == path));
    fs::remove_file(&path).unwrap();
    fs::hard_link(&other, &path).unwrap();
    assert!(matches!(Store::open(dir.path(), "x").unwrap_err(), Error::NotAFile { .. }));
    fs::remove_file(&path).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"text");

    let json = r#"{"header":{"version":9,"store":"x"}}"#;
    fs::write(&path, format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))).unwrap();
    let error = Store::open(dir.path(), "x").unwrap_err();
    assert!(matches!(error, Error::Version { version: 9, .. }), "{error}");

    fs::remove_file(&path).unwrap();
    let (store, _) = Store::open(dir.path(), "x").unwrap();
    store.sync().unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(store.sync().unwrap_err(), Error::Removed { .. }));
}
