//! What is not a data directory.

use std::path::Path;

use super::directory::{DataDir, weir};

const VERBS: [(&str, &[&str]); 3] = [("inspect", &[]), ("verify", &[]), ("export", &["--pipeline", "a"])];

/// Every command refuses `dir` with exit code 1 and a message that has all of `texts`.
#[track_caller]
fn refused(dir: &Path, texts: &[&str]) {
    for (verb, arguments) in VERBS {
        let ended = weir(verb, dir, arguments);
        assert_eq!((ended.code, ended.out.len()), (Some(1), 0), "{verb}");
        for text in texts.iter().chain(&[dir.to_str().unwrap()]) {
            assert!(ended.err.contains(text), "{verb}: {text:?} is not in {}", ended.err);
        }
    }
}

#[test]
fn what_is_not_there_is_named() {
    refused(Path::new("/no/such/directory"), &["cannot find the data directory", "No such file"]);
}

#[test]
fn a_file_is_no_directory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    refused(file.path(), &["is not a directory", "--data-dir"]);
}

#[test]
fn a_directory_without_a_journal_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    refused(dir.path(), &["there is no journal", "--data-dir"]);
    std::fs::create_dir(dir.path().join("journal")).unwrap();
    std::fs::write(dir.path().join("journal/notes.txt"), "mine").unwrap();
    refused(dir.path(), &["there is no journal", "--data-dir"]);
    assert_eq!(std::fs::read_dir(dir.path().join("journal")).unwrap().count(), 1);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let dir = DataDir::new(1 << 20);
    for (verb, arguments) in [
        ("export", &[][..]),
        ("export", &["--pipeline", "a", "--format", "xml"]),
        ("inspect", &["--format", "yaml"]),
        ("repair", &[]),
    ] {
        let ended = weir(verb, dir.path(), arguments);
        assert_eq!(ended.code, Some(2), "{verb} {arguments:?}");
        assert!(ended.err.contains("Usage") || ended.err.contains("possible values"), "{}", ended.err);
    }
}
