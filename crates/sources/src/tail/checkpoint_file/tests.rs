use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::tail::checkpoint::tests::saved;
use crate::tail::checkpoint::{encode, encode_removal};

/// LOG-26: a new file is told from one that was there before; its id stays.
#[test]
fn a_checkpoint_file_is_known_again() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/b");
    let (mut checkpoints, replayed) = CheckpointFile::open(&dir, "first").unwrap();
    assert_eq!((checkpoints.id(), replayed.id, replayed.containers.len()), ("first", None, 0));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join(NAME))), (0o700, 0o600));
    checkpoints.append(&encode(&saved("a", 1))).unwrap();
    checkpoints.append(&[encode(&saved("b", 2)), encode(&saved("a", 3))].concat()).unwrap();
    checkpoints.sync().unwrap();
    drop(checkpoints);

    let (checkpoints, replayed) = CheckpointFile::open(&dir, "second").unwrap();
    assert_eq!((checkpoints.id(), replayed.id.as_deref()), ("first", Some("first")));
    assert_eq!(replayed.containers.into_values().collect::<Vec<_>>(), [saved("a", 3), saved("b", 2)]);
    assert_eq!(checkpoints.size(), fs::metadata(dir.join(NAME)).unwrap().len());
    drop(checkpoints);

    fs::remove_dir_all(&dir).unwrap();
    let (checkpoints, replayed) = CheckpointFile::open(&dir, "third").unwrap();
    assert_eq!((checkpoints.id(), replayed.id, replayed.containers.len()), ("third", None, 0));
}

/// LOG-25: one process at a time.
#[test]
fn a_checkpoint_file_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _) = CheckpointFile::open(dir.path(), "x").unwrap();
    let error = CheckpointFile::open(dir.path(), "x").unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error}");
    assert!(error.to_string().contains(&dir.path().display().to_string()));
    drop(first);
    CheckpointFile::open(dir.path(), "x").unwrap();
}

/// LOG-2: after a torn end the next line is whole.
#[test]
fn a_torn_end_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let header = encode_header("x");
    let torn = encode(&saved("b", 2));
    fs::write(&path, [&header, &encode(&saved("a", 1)), &torn[..torn.len() - 1]].concat()).unwrap();
    let (mut checkpoints, replayed) = CheckpointFile::open(dir.path(), "y").unwrap();
    assert_eq!(replayed.torn_tail, Some(torn.len() as u64 - 1));
    checkpoints.append(&encode(&saved("c", 3))).unwrap();
    drop(checkpoints);
    let (_, replayed) = CheckpointFile::open(dir.path(), "y").unwrap();
    assert_eq!((replayed.damaged, replayed.torn_tail), (0, None));
    assert_eq!(replayed.containers.into_values().collect::<Vec<_>>(), [saved("a", 1), saved("c", 3)]);
}

#[test]
fn what_is_out_of_date_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let (mut checkpoints, _) = CheckpointFile::open(dir.path(), "x").unwrap();
    for offset in 0..500 {
        checkpoints.append(&encode(&saved("a", offset))).unwrap();
    }
    checkpoints.append(&encode_removal(&saved("b", 0).container)).unwrap();
    let before = checkpoints.size();
    checkpoints.compact([encode(&saved("a", 499))].into_iter()).unwrap();
    assert!(checkpoints.size() < before / 100);
    checkpoints.append(&encode(&saved("b", 7))).unwrap();
    checkpoints.sync().unwrap();
    drop(checkpoints);
    let (checkpoints, replayed) = CheckpointFile::open(dir.path(), "y").unwrap();
    assert_eq!(checkpoints.id(), "x");
    assert_eq!(replayed.containers.into_values().collect::<Vec<_>>(), [saved("a", 499), saved("b", 7)]);
    assert!(!dir.path().join(NEW_NAME).exists());
}

/// LOG-2: when the disk is full, older checkpoints stay, and the error names the file.
#[test]
fn a_failure_leaves_the_old_file_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (mut checkpoints, _) = CheckpointFile::open(dir.path(), "x").unwrap();
    checkpoints.append(&encode(&saved("a", 1))).unwrap();
    fs::create_dir(dir.path().join(NEW_NAME)).unwrap();
    let error = checkpoints.compact([encode(&saved("a", 2))].into_iter()).unwrap_err();
    assert!(error.to_string().contains(NEW_NAME), "{error}");
    fs::remove_dir(dir.path().join(NEW_NAME)).unwrap();

    let full = || File::options().read(true).write(true).open("/dev/full").unwrap();
    let error = write_lines(&full(), std::iter::once(encode(&saved("a", 3)))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let file = std::mem::replace(&mut checkpoints.file, full());
    let size = checkpoints.size();
    let error = checkpoints.append(&encode(&saved("a", 4))).unwrap_err();
    assert!(
        error.to_string().contains("No space left") && checkpoints.is_torn && checkpoints.size() == size,
        "{error}"
    );
    checkpoints.file = file;
    // As much of the line as the disk took.
    checkpoints.file.write_all_at(&encode(&saved("a", 4))[..20], size).unwrap();
    checkpoints.append(&encode(&saved("b", 5))).unwrap();
    drop(checkpoints);
    let (_, replayed) = CheckpointFile::open(dir.path(), "y").unwrap();
    assert_eq!((replayed.damaged, replayed.torn_tail), (0, None));
    assert_eq!(replayed.containers.into_values().collect::<Vec<_>>(), [saved("a", 1), saved("b", 5)]);
}

/// LOG-2, LOG-26: what is not ours, not ours alone, or not there any more is refused by name.
#[test]
fn other_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let other = dir.path().join("other");
    fs::write(&other, "text").unwrap();
    symlink(&other, &path).unwrap();
    assert!(
        matches!(CheckpointFile::open(dir.path(), "x").unwrap_err(), Error::NotAFile { path: found } if found == path)
    );
    fs::remove_file(&path).unwrap();
    fs::hard_link(&other, &path).unwrap();
    assert!(matches!(CheckpointFile::open(dir.path(), "x").unwrap_err(), Error::NotAFile { .. }));
    fs::remove_file(&path).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"text");

    let json = r#"{"header":{"version":9,"store":"x"}}"#;
    fs::write(&path, format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))).unwrap();
    let error = CheckpointFile::open(dir.path(), "x").unwrap_err();
    assert!(matches!(error, Error::Version { version: 9, .. }), "{error}");

    fs::remove_file(&path).unwrap();
    let (checkpoints, _) = CheckpointFile::open(dir.path(), "x").unwrap();
    checkpoints.sync().unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(checkpoints.sync().unwrap_err(), Error::Removed { .. }));
}
