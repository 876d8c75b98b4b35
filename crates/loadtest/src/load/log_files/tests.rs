use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

use clap::Parser;
use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::ids::IdSet;
use crate::lines::{Finding, Stream, find};

#[derive(Parser)]
#[command(args_override_self = true)]
struct Cli {
    #[command(flatten)]
    args: LogFilesArgs,
}

/// A run and what it left.
struct Run {
    directory: TempDir,
    args: LogFilesArgs,
    manifest: Manifest,
}

fn run(flags: &str) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let args = Cli::parse_from(["log-files", path].into_iter().chain(flags.split_whitespace())).args;
    let manifest = write(&args, &Arc::default()).unwrap();
    Run { directory, args, manifest }
}

/// A file of a container, in the order in which they were written.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    restart: u32,
    is_live: bool,
    stamp: String,
    compressed: bool,
}

impl Name {
    fn parse(name: &str) -> Self {
        let (restart, rest) = name.split_once(".log").unwrap();
        let (stamp, compressed) = rest.strip_suffix(".gz").map_or((rest, false), |stamp| (stamp, true));
        assert!(stamp.is_empty() || is_stamp(stamp), "{name}");
        Self { restart: restart.parse().unwrap(), is_live: stamp.is_empty(), stamp: stamp.to_owned(), compressed }
    }
}

fn is_stamp(text: &str) -> bool {
    let shape = |byte: u8| if byte.is_ascii_digit() { '0' } else { char::from(byte) };
    text.bytes().map(shape).collect::<String>() == ".00000000-000000"
}

/// Names of a container's files with what was written to them, decompressed.
fn files_of(run: &Run, container: &ContainerEntry) -> Vec<(Name, Vec<u8>)> {
    let directory: PathBuf = run.directory.path().join(container.pod.path());
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<(Name, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = Name::parse(path.file_name().unwrap().to_str().unwrap());
            let mut bytes = fs::read(&path).unwrap();
            if name.compressed {
                let mut inflated = Vec::new();
                GzDecoder::new(bytes.as_slice()).read_to_end(&mut inflated).unwrap();
                bytes = inflated;
            }
            (name, bytes)
        })
        .collect();
    files.sort();
    files
}

/// Time, stream, whether the line ends with it, and text of what the runtime wrote.
fn piece(format: Format, line: &str) -> (String, Stream, bool, String) {
    let stream = |name: &str| Stream::ALL.into_iter().find(|stream| stream.name() == name).unwrap();
    match format {
        Format::Cri => {
            let parts: Vec<&str> = line.splitn(4, ' ').collect();
            assert!(matches!(parts[2], "P" | "F"), "{line}");
            (parts[0].to_owned(), stream(parts[1]), parts[2] == "F", parts[3].to_owned())
        }
        Format::DockerJson => {
            let object: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
            let text = |key: &str| object[key].as_str().unwrap();
            let log = text("log");
            let whole = log.strip_suffix('\n');
            (text("time").to_owned(), stream(text("stream")), whole.is_some(), whole.unwrap_or(log).to_owned())
        }
        Format::Plain => {
            let Finding::Line(id) = find(line.as_bytes()) else { panic!("{line}") };
            (String::new(), id.stream, true, line.to_owned())
        }
    }
}

/// Sequences of the whole lines of each stream that are in the files, in order; parts of others are left out.
fn sequences_of(run: &Run, container: &ContainerEntry) -> [Vec<u64>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    let mut open = [String::new(), String::new()];
    let mut last_time = String::new();
    for (name, bytes) in files_of(run, container) {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{name:?} ends within a line");
        for line in text.lines() {
            let (time, stream, ends, text) = piece(run.args.look.format, line);
            let plain = run.args.look.format == Format::Plain;
            assert!(plain || time > last_time, "{time} after {last_time}");
            last_time = time;
            let open = &mut open[stream as usize];
            open.push_str(&text);
            if !ends {
                continue;
            }
            match find(std::mem::take(open).as_bytes()) {
                Finding::Line(id) => {
                    assert_eq!((id.container, id.stream), (container.pod.number, stream));
                    found[stream as usize].push(id.sequence);
                }
                // Of a line whose beginning was deleted, or deleted before a line of the same stream.
                finding => assert!(container.files_deleted > 0, "{finding:?} in {name:?}"),
            }
        }
    }
    found
}

/// The files hold what the manifest says: each line that was written and not deleted, once and in order.
fn assert_tree_is_as_told(run: &Run) {
    let mut lines = 0;
    for container in &run.manifest.containers {
        let found = sequences_of(run, container);
        for (entry, found) in container.streams.iter().zip(found) {
            let deleted = IdSet::from_ranges(&entry.deleted);
            assert_eq!(entry.deleted_lines, deleted.len());
            let expected = IdSet::from_ranges(&[(1, entry.lines)]).minus(&deleted);
            let expected: Vec<u64> = expected.ranges().into_iter().flat_map(|(first, last)| first..=last).collect();
            assert_eq!(found, expected, "{} {:?}", container.pod.path(), entry.stream);
            lines += entry.lines;
        }
        let left = files_of(run, container).len() as u64;
        assert_eq!(container.files - container.files_deleted, left, "files");
    }
    assert_eq!(run.manifest.lines, lines);
}

#[test]
fn the_files_hold_exactly_the_lines_of_the_manifest() {
    for look in [
        "",
        "--shape json",
        "--shape flog",
        "--format plain --tear 1ms",
        "--format docker-json --shape json",
        "--partial 30 --parts 5",
        "--partial 30 --format docker-json --shape json",
        "--partial 100 --parts 60 --line-size 70 --stderr 0",
        "--tear 1ms --partial 10",
        "--line-size 100KB --lines 40",
        "--threads 2 --containers 4 --stderr 100",
    ] {
        let run = run(&format!("--containers 2 --lines 3000 --rotate-size 50KB --keep 1000 {look}"));
        assert_tree_is_as_told(&run);
        for container in &run.manifest.containers {
            assert_eq!(container.lines(), run.args.lines.unwrap(), "{look}");
            assert_eq!((container.files_deleted, container.deleted_lines()), (0, 0));
            assert!(container.rotations > 0, "{look}: {container:?}");
            let split: u64 = container.streams.iter().map(|stream| stream.split_lines).sum();
            assert_eq!(split > 0, run.args.look.partial.fraction() > 0.0, "{look}");
            let files = files_of(&run, container);
            assert_eq!(container.bytes, files.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
        }
    }
}

#[test]
fn all_rotated_files_but_the_newest_are_compressed() {
    let run = run("--lines 5000 --rate 20000 --rotate-size 100KB --keep 1000");
    let mut names: Vec<Name> = files_of(&run, &run.manifest.containers[0]).into_iter().map(|(name, _)| name).collect();
    let live = names.pop().unwrap();
    assert!(live.is_live && !live.compressed);
    assert!(!names.pop().unwrap().compressed, "the newest rotated file is plain");
    assert!(names.len() > 2 && names.iter().all(|name| name.compressed && !name.is_live));
    assert_eq!(run.manifest.containers[0].rotations, names.len() as u64 + 1);
}

#[test]
fn files_beyond_those_kept_are_deleted_and_their_lines_are_named() {
    for (keep, more) in [(2, ""), (3, "--partial 20"), (5, "--no-gzip --partial 20"), (3, "--reuse-inodes")] {
        let run = run(&format!("--lines 5000 --rate 10000 --rotate-size 50KB --keep {keep} {more}"));
        assert_tree_is_as_told(&run);
        let container = &run.manifest.containers[0];
        assert!(container.rotations >= keep as u64, "{container:?}");
        let files = files_of(&run, container);
        assert_eq!(files.len(), keep, "{more}");
        assert!(container.deleted_lines() > 0 && container.deleted_lines() < container.lines());
        let compressed = files.iter().filter(|(name, _)| name.compressed).count();
        assert_eq!(compressed > 0, keep > 2 && !more.contains("no-gzip"), "{keep} {more}");
    }
}

#[test]
fn a_rotation_may_come_between_the_parts_of_a_line() {
    let run = run("--lines 3000 --partial 50 --parts 8 --rotate-size 20KB --keep 1000 --no-gzip");
    let files = files_of(&run, &run.manifest.containers[0]);
    let ends_open = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().last().is_some_and(|line| !piece(Format::Cri, line).2)
    };
    assert!(files.iter().any(|(_, bytes)| ends_open(bytes)), "{} files", files.len());
}

#[test]
fn files_that_are_left_behind_end_without_a_newline_if_told() {
    let run = run("--lines 3000 --rotate-size 50KB --keep 1000 --no-gzip --unterminated --tear 1ms");
    let mut files = files_of(&run, &run.manifest.containers[0]);
    let (_, live) = files.pop().unwrap();
    assert!(live.ends_with(b"\n"), "nobody closes the file that is written last");
    assert!(files.len() > 2 && files.iter().all(|(_, bytes)| !bytes.ends_with(b"\n")));
    let lines: usize = files.iter().map(|(_, bytes)| bytes.split(|byte| *byte == b'\n').count()).sum();
    assert_eq!(lines + live.iter().filter(|byte| **byte == b'\n').count(), 3000);
}

#[test]
fn a_file_that_is_cut_off_leaves_a_copy_that_nobody_reads() {
    let run = run("--lines 3000 --rotate-size 50KB --copy-truncate");
    let container = &run.manifest.containers[0];
    let directory = run.directory.path().join(container.pod.path());
    let lines = |name: &str| fs::read_to_string(directory.join(name)).unwrap().lines().count() as u64;
    assert!(container.rotations > 3 && container.files == 1);
    assert!(lines("0.log.1") > 100);
    assert_eq!(container.deleted_lines() + lines("0.log"), 3000);
}

#[test]
fn holes_lie_between_lines() {
    let run = run("--lines 3000 --holes 50 --format plain");
    let (_, bytes) = files_of(&run, &run.manifest.containers[0]).remove(0);
    let holes = bytes.len() as u64 - run.manifest.bytes;
    assert!(holes > 0 && holes.is_multiple_of(64 << 10), "{holes}");
    let text = String::from_utf8(bytes).unwrap();
    let whole = text.lines().map(|line| line.trim_start_matches('\0')).filter(|line| !line.is_empty());
    assert_eq!(whole.filter(|line| matches!(find(line.as_bytes()), Finding::Line(_))).count(), 3000);
}

#[test]
fn restarts_keep_the_files_of_the_run_before() {
    let run = run("--rate 20000 --lines 3000 --restart-every 20ms --rotate-size 20KB --partial 10");
    assert_tree_is_as_told(&run);
    let container = &run.manifest.containers[0];
    assert!(container.restarts >= 3, "{container:?}");
    let mut restarts: Vec<u32> = files_of(&run, container).iter().map(|(name, _)| name.restart).collect();
    restarts.dedup();
    assert_eq!(restarts, [container.restarts - 1, container.restarts]);
}

#[test]
fn pods_end_and_their_directories_go() {
    let run = run("--containers 3 --pods-live 20ms --removed-after 1ms --duration 300ms --rate 10000");
    assert!(run.manifest.containers.len() > 3, "nobody took the place of the first three");
    assert!(run.manifest.lines > 0);
    assert_tree_is_as_told(&run);
    assert_eq!(run.manifest.sum(ContainerEntry::deleted_lines), run.manifest.lines);
    assert_eq!(fs::read_dir(run.directory.path()).unwrap().count(), 0);
    let once = super::tests::run("--containers 5 --pods-live 5ms --removed-after 1ms --lines 10");
    assert_eq!((once.manifest.containers.len(), once.manifest.lines), (5, 50), "without a duration, one pod each");
}

#[test]
fn everything_is_deleted_afterwards_if_told() {
    let run = run("--lines 100 --delete-after 1ms");
    assert_tree_is_as_told(&run);
    assert_eq!(run.manifest.sum(ContainerEntry::deleted_lines), 100);
}

#[test]
fn a_rate_is_kept_and_rotation_goes_by_time() {
    for flags in ["--rate 2000", "--byte-rate 480KB"] {
        let run =
            run(&format!("{flags} --duration 300ms --rotate-every 50ms --reopen-after 5ms --keep 100 --tear 2ms"));
        assert_tree_is_as_told(&run);
        // 0.3 s of 2,000 lines per second of 242 bytes each.
        assert!((300..=610).contains(&run.manifest.lines), "{flags}: {}", run.manifest.lines);
        let rotations = run.manifest.containers[0].rotations;
        assert!((2..=6).contains(&rotations), "{flags}: {rotations}");
    }
}

#[test]
fn a_rate_that_is_not_kept_is_said() {
    let within = run("--rate 1000 --duration 50ms");
    assert_eq!(within.manifest.bottleneck, None);
    let beyond = run("--byte-rate 1000GB --duration 150ms --keep 2 --rotate-size 1MB --no-gzip");
    assert!(beyond.manifest.bottleneck.is_some_and(|text| text.ends_with("1000000000000 bytes/s")));
}

#[test]
fn who_owes_more_than_a_block_has_the_next_turn_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let args = Cli::parse_from(["log-files", path, "--byte-rate", "1GB"]).args;
    let kubelet = Kubelet::start().unwrap();
    let orders = Arc::new(orders(&args, directory.path()));
    let mut life = life::Life::start(orders, 0, kubelet.counter()).unwrap();
    let texts = Texts::new(&args.look).unwrap();
    let mut bench = Bench { texts, clock: Clock::default(), block: Vec::new() };
    // A millisecond's worth is 16 blocks.
    let now = life.started + Duration::from_millis(1);
    for _ in 0..15 {
        life.turn(now, &mut bench).unwrap();
        assert_eq!(life.next(now), Some(now));
    }
    life.turn(now, &mut bench).unwrap();
    assert!(life.next(now).unwrap() > now);
    drop(life);
    kubelet.finish().unwrap();
}

#[test]
fn a_seed_repeats_names_streams_and_parts() {
    let flags = "--containers 2 --lines 500 --partial 20 --no-gzip";
    let contents = |seed: u64| {
        let run = run(&format!("{flags} --seed {seed}"));
        let pieces = |container: &ContainerEntry| {
            let (_, bytes) = files_of(&run, container).remove(0);
            let text = String::from_utf8(bytes).unwrap();
            text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>()
        };
        let containers = &run.manifest.containers;
        containers.iter().map(|container| (container.pod.path(), pieces(container))).collect::<Vec<_>>()
    };
    assert_eq!(contents(1), contents(1));
    assert_ne!(contents(1), contents(2));
}

#[test]
fn who_stops_it_gets_whole_lines_and_a_manifest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let args = Cli::parse_from(["log-files", path, "--rate", "1000", "--tear", "50ms", "--partial", "50"]).args;
    let stop = Arc::new(Stop::default());
    let manifest = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&args, &stop));
        // Stopped when something was written.
        while !fs::read_dir(directory.path())
            .unwrap()
            .any(|pod| fs::metadata(pod.unwrap().path().join("writer/0.log")).is_ok_and(|metadata| metadata.len() > 0))
        {
            std::thread::yield_now();
        }
        stop.stop();
        writer.join().unwrap().unwrap()
    });
    assert!(manifest.lines > 0);
    assert_tree_is_as_told(&Run { directory, args, manifest });
}

#[test]
fn a_directory_that_is_there_is_not_written_to_again() {
    let run = run("--lines 1");
    let error = write(&run.args, &Arc::default()).unwrap_err();
    assert!(format!("{error:#}").contains("another --seed"), "{error:#}");
}
