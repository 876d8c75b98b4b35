mod traces;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use weir_plan::{Multiline, RecordShape};

use super::*;
use crate::tail::chain::{Answer, Check, Seen};
use crate::tail::changed::Changed;
use crate::tail::checkpoint::encode;
use crate::tail::files;
use crate::tail::identity::{FileId, PRINT_BYTES};
use crate::tail::path::LogName;
use crate::tail::requests::Want;
use crate::tail::status::Losses;

fn name() -> ContainerName {
    ContainerName {
        namespace: "shop".into(),
        pod: "cart-0".into(),
        uid: "11111111-2222-3333-4444-555555555555".into(),
        container: "app".into(),
    }
}

/// LOG-10, and LOG-9: what is not listed again because nothing changed is listed again when something did.
#[test]
fn a_look_lists_only_what_changed() {
    let pods = tempfile::tempdir().unwrap();
    let directory = pods.path().join(name().to_string());
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name);
    let write = |name: &str, text: &str| {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    write("0.log", &"x".repeat(PRINT_BYTES));
    write("1.log", "x");
    let found = || {
        let container = Container::new(name(), pods.path(), Chain::default(), None, Arc::new(Descriptors::new(100)));
        assert!(!container.look(60_000).unwrap().is_unchanged, "nothing is known of it");
        // A directory that is younger than the steps of a clock is listed again. As if it had been there for a while:
        assert_eq!(container.output().listed, None);
        container.output().listed = Changed::of(&directory).unwrap();
        assert!(container.look(60_000).unwrap().is_unchanged);
        container
    };
    assert!(found().look(60_000).unwrap().is_unread);
    let check = |what: &str, change: &dyn Fn(&Container)| {
        let container = found();
        change(&container);
        assert!(!container.look(60_000).unwrap().is_unchanged, "{what}");
    };
    check("a file grew", &|_| write("0.log", "more"));
    check("a file grew that is short, and that was seen between two looks", &|container| {
        write("1.log", "more");
        container.measure();
    });
    check("a file was cut off", &|_| drop(std::fs::File::create(path("0.log")).unwrap()));
    check("a file came", &|_| write("2.log", "new"));
    check("a file was renamed", &|_| std::fs::rename(path("2.log"), path("2.log.20261123-120000")).unwrap());
    check("all are gone", &|_| std::fs::remove_dir_all(&directory).unwrap());
}

/// Most of the files of a node may wait to be read, and each open one is a connection less.
#[test]
fn files_that_wait_are_not_all_open() {
    const MOST: usize = 3;
    let pods = tempfile::tempdir().unwrap();
    let directory = pods.path().join(name().to_string());
    std::fs::create_dir_all(&directory).unwrap();
    for minute in 10..40 {
        let name = directory.join(format!("0.log.20261123-12{minute}00.gz"));
        let mut file = GzEncoder::new(std::fs::File::create(name).unwrap(), Compression::fast());
        writeln!(file, "2026-11-23T12:{minute}:00.123456789Z stdout F {minute}").unwrap();
        file.finish().unwrap();
    }
    let descriptors = Arc::new(Descriptors::new(MOST));
    let container = Container::new(name(), pods.path(), Chain::default(), None, Arc::clone(&descriptors));
    let are_open = || container.output().open.len();
    // Nothing is added to a file that is the same after a while.
    for now_ms in [1, 60_000] {
        assert!(container.look(now_ms).unwrap().is_unread && are_open() <= MOST, "{}", are_open());
    }
    let mut records = 0;
    while records < 30 {
        let reading = container.read(&order()).unwrap();
        assert!(reading.counts.records > 0 && are_open() <= MOST + 1, "{records} {}", are_open());
        records += reading.counts.records;
        container.commit(reading.position, reading.guard, &reading.counts);
    }
    assert_eq!(records, 30);
    drop(container);
    assert!(!descriptors.are_scarce() && Arc::strong_count(&descriptors) == 1);
}

/// LOG-24: what is saved of a container that nothing is written to is not older than what is forgotten.
#[test]
fn what_is_saved_is_renewed() {
    let pods = tempfile::tempdir().unwrap();
    let directory = pods.path().join(name().to_string());
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("0.log"), "text").unwrap();
    let container = Container::new(name(), pods.path(), Chain::default(), None, Arc::new(Descriptors::new(100)));
    container.look(0).unwrap();
    let start = 1_000_000_000_000;
    let seen_at = |now_ms| container.to_save(now_ms).map(|saved| saved.seen_at_ms);
    assert_eq!([seen_at(start), seen_at(start + 1), seen_at(start + KEPT_MS / 8 - 1)], [Some(start), None, None]);
    let mut saved = start;
    for hour in 1..100 {
        let now = start + hour * 60 * 60 * 1_000;
        saved = seen_at(now).unwrap_or(saved);
        assert!(now - saved < KEPT_MS / 2, "{hour}");
    }
}

/// A checkpoint of many files is large. However often a container is read, checkpoints take little of the disk.
#[test]
fn what_is_large_is_saved_less_often() {
    const FILES: u64 = 1000;
    let pods = tempfile::tempdir().unwrap();
    let many = container(&pods, Chain::default());
    let seen = |number: u64| Seen {
        name: LogName::parse(&format!("{number}.log")).unwrap(),
        id: FileId { device: 1, inode: number, born: 1 },
        size: 1 << 20,
    };
    let listing: Vec<_> = (0..FILES).map(seen).collect();
    many.output().chain.reconcile(&listing, &mut |_| Answer::Same, 0);
    many.output().is_changed = true;
    let now = 1_000_000_000_000;
    assert!(many.is_due(now));
    let bytes = encode(&many.to_save(now).unwrap()).len() as u64;
    assert!(bytes / FILES < 300, "{bytes}");
    assert!(!many.is_due(now + FILES - 1) && many.is_due(now + FILES));
    assert!(many.is_due(now - FILES), "a clock that goes back");
}

/// LOG-1, LOG-7, LOG-8: a file that was empty at the last look, and was written to since, is known again when it is
/// renamed and compressed before the next look, of this process or of the next one. Nothing counts as lost, and nothing
/// is read twice; without a spare descriptor, too.
#[test]
fn a_file_that_was_empty_at_the_last_look_is_known_again() {
    let cases = [true, false]
        .map(|is_read| [(is_read, 100, true), (is_read, 100, false), (is_read, 0, true), (is_read, 0, false)]);
    for (is_read, most_open, restarts) in cases.concat() {
        let case = format!("read: {is_read}, open: {most_open}, restarts: {restarts}");
        let pods = tempfile::tempdir().unwrap();
        let directory = pods.path().join(name().to_string());
        std::fs::create_dir_all(&directory).unwrap();
        let path = |name: &str| directory.join(name);
        let append = |name: &str, numbers: std::ops::Range<u32>| {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path(name)).unwrap();
            numbers.for_each(|number| file.write_all(line(number).as_bytes()).unwrap());
        };
        let container = |chain| Container::new(name(), pods.path(), chain, None, Arc::new(Descriptors::new(most_open)));
        append("0.log", 0..0);
        let mut reader = container(Chain::default());
        reader.look(1).unwrap();
        append("0.log", 0..10);
        if is_read {
            assert_eq!(read_all(&reader), 10, "{case}");
        }
        append("0.log", 10..15);
        reader.measure();
        if restarts {
            reader = container(reader.saved(2).into_chain());
        }
        compress(&path("0.log"), &path("0.log.20261123-120000.gz"));
        append("0.log", 15..17);
        [3, 1004, 2005].into_iter().for_each(|now_ms| _ = reader.look(now_ms).unwrap());
        assert_eq!(reader.progress().lost, Losses::default(), "{case}");
        assert_eq!(read_all(&reader), if is_read { 7 } else { 17 }, "{case}");
    }
}

/// Reads and commits what is there. Returns the number of records.
fn read_all(container: &Container) -> u64 {
    let mut records = 0;
    loop {
        let reading = container.read(&order()).unwrap();
        container.commit(reading.position, reading.guard, &reading.counts);
        records += reading.counts.records;
        if !reading.is_more {
            return records;
        }
    }
}

fn order() -> Order {
    let (shape, none) = (RecordShape::Parsed { keep_original_body: false }, Multiline::default());
    let wants = vec![Want { shape, asked: none, multiline: none }];
    Order { wants, node: None, most_bytes: 1 << 20, now_nanos: 1 }
}

/// Replaces a file by a compressed one.
fn compress(plain: &Path, compressed: &Path) {
    let mut file = GzEncoder::new(std::fs::File::create(compressed).unwrap(), Compression::fast());
    file.write_all(&std::fs::read(plain).unwrap()).unwrap();
    file.finish().unwrap();
    std::fs::remove_file(plain).unwrap();
}

/// LOG-7: a file that is renamed between the listing and the comparison is neither lost nor another one; the next look
/// finds it.
#[test]
fn a_file_that_is_renamed_while_it_is_looked_for_is_not_lost() {
    for is_taken in [false, true] {
        let (pods, saved) = saved_with(&[("0.log", 3)]);
        let directory = pods.path().join(name().to_string());
        let listed = files::list(&directory).unwrap().files;
        std::fs::rename(directory.join("0.log"), directory.join("0.log.20261123-120000")).unwrap();
        if is_taken {
            std::fs::write(directory.join("0.log"), "another file").unwrap();
        }
        let reader = container(&pods, saved.into_chain());
        let mut answers = Vec::new();
        let mut compare = |check: &Check<'_>| {
            answers.push(reader.compare(check));
            answers[answers.len() - 1]
        };
        reader.output().chain.reconcile(&listed, &mut compare, 1);
        assert_eq!(answers, [Answer::Unreadable], "another file has its name: {is_taken}");
        [2, 1003, 2004].into_iter().for_each(|now_ms| _ = reader.look(now_ms).unwrap());
        assert_eq!(reader.progress().lost, Losses::default(), "another file has its name: {is_taken}");
        assert_eq!(read_all(&reader), 3, "another file has its name: {is_taken}");
    }
}

/// LOG-7: what is gone while the container is read is counted as soon as it is not read any more, and not when all
/// directories are listed the next time.
#[test]
fn what_is_lost_during_a_turn_is_counted_soon_after_it() {
    let (pods, saved) = saved_with(&[("0.log", 3), ("1.log", 1)]);
    let reader = container(&pods, saved.into_chain());
    reader.take_hint();
    reader.begin_turn();
    std::fs::remove_file(pods.path().join(name().to_string()).join("0.log")).unwrap();
    for now_ms in [10_000, 11_100, 12_200, 13_300] {
        assert!(reader.look(now_ms).unwrap().is_unsettled, "{now_ms}: it is looked at again soon");
        assert_eq!(reader.progress().lost, Losses::default(), "{now_ms}");
    }
    reader.end_turn(false);
    assert!(reader.look(14_400).unwrap().is_unsettled);
    reader.look(15_500).unwrap();
    assert_eq!(reader.progress().lost, Losses { removed: 3 * line(0).len() as u64, ..Losses::default() });
}

/// What an earlier process knew of files with so many lines each.
fn saved_with(files: &[(&str, u32)]) -> (tempfile::TempDir, Saved) {
    let pods = tempfile::tempdir().unwrap();
    let directory = pods.path().join(name().to_string());
    std::fs::create_dir_all(&directory).unwrap();
    for (file, lines) in files {
        std::fs::write(directory.join(file), line(0).repeat(*lines as usize)).unwrap();
    }
    let reader = container(&pods, Chain::default());
    [1, 2000, 4000].into_iter().for_each(|now_ms| _ = reader.look(now_ms).unwrap());
    let saved = reader.saved(5000);
    (pods, saved)
}

fn container(pods: &tempfile::TempDir, chain: Chain) -> Container {
    Container::new(name(), pods.path(), chain, None, Arc::new(Descriptors::new(100)))
}

fn line(number: u32) -> String {
    format!("2026-11-23T12:00:00.123456789Z stdout F {number}\n")
}
