use super::*;
use crate::lines::{Finding, LineId, LineTally};
use crate::load::log_files::{Format, LineShape, Pod};

fn manifest(lines: u64, deleted: &[(u64, u64)]) -> Manifest {
    let streams = Stream::ALL.map(|stream| StreamEntry {
        stream,
        lines,
        split_lines: 0,
        deleted_lines: 0,
        deleted: deleted.to_vec(),
    });
    let container = |number| ContainerEntry {
        pod: Pod::new("default", number, &mut fastrand::Rng::with_seed(u64::from(number))),
        bytes: 0,
        restarts: 0,
        rotations: 0,
        files: 1,
        files_deleted: 0,
        inodes_reused: 0,
        streams: streams.to_vec(),
    };
    Manifest {
        seconds: 1.0,
        format: Format::Cri,
        shape: LineShape::Plain,
        line_bytes: 200,
        seed: 0,
        lines: 4 * lines,
        bytes: 0,
        cpu_seconds: 0.0,
        bottleneck: None,
        containers: vec![container(0), container(1)],
    }
}

/// Everything once and in order, but the standard error of container 1 as `changed`.
fn judged(manifest: &Manifest, changed: &[u64]) -> LinesJudgement {
    let mut tally = LineTally::default();
    for container in 0..2 {
        for stream in Stream::ALL {
            let all: Vec<u64> = (1..=manifest.lines / 4).collect();
            let sequences = if (container, stream) == (1, Stream::Stderr) { changed } else { &all };
            let line = |&sequence: &u64| Finding::Line(LineId { container, stream, sequence });
            tally.add(&sequences.iter().map(line).collect::<Vec<_>>());
        }
    }
    judge(manifest, &tally.report(true))
}

#[test]
fn one_lost_one_duplicated_and_one_reordered_line_are_found() {
    let none = LinesJudgement { written: 40, arrived: 40, ..LinesJudgement::default() };
    assert_eq!(judged(&manifest(10, &[]), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), none);

    let judgement = judged(&manifest(10, &[]), &[1, 2, 3, 4, 6, 7, 8, 9, 10]);
    assert_eq!((judgement.arrived, judgement.lost, judgement.deleted), (39, 1, 0));
    assert_eq!((judgement.duplicated, judgement.reordered), (0, 0));
    assert_eq!((judgement.streams.len(), &judgement.streams[0].lost), (1, &vec![(5, 5)]));
    assert!(!judgement.passes());
    let text = render(&judgement);
    assert!(text.contains("stderr: 5 to 5") && text.contains("FAILED: 1 lines lost"), "{text}");

    let judgement = judged(&manifest(10, &[]), &[1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10]);
    assert_eq!((judgement.lost, judgement.duplicated, judgement.reordered), (0, 1, 0));
    assert_eq!(judgement.streams[0].duplicated, 1);
    assert!(judgement.passes() && !render(&judgement).contains("FAILED"));

    let judgement = judged(&manifest(10, &[]), &[1, 2, 3, 5, 4, 6, 7, 8, 9, 10]);
    assert_eq!((judgement.lost, judgement.duplicated, judgement.reordered), (0, 0, 1));
    assert_eq!(judgement.streams[0].reordered, 1);
    assert!(judgement.passes());
}

#[test]
fn what_was_deleted_unread_is_not_lost_and_what_nobody_wrote_is_foreign() {
    let judgement = judged(&manifest(10, &[(1, 3)]), &[3, 4, 5, 6, 7, 9, 10, 11]);
    assert_eq!((judgement.arrived, judgement.deleted, judgement.lost, judgement.foreign), (37, 2, 1, 1));
    assert_eq!(judgement.streams[0].lost, [(8, 8)]);
}

#[test]
fn a_stream_of_which_nothing_arrived_is_lost_as_a_whole() {
    let judgement = judged(&manifest(10, &[]), &[]);
    assert_eq!((judgement.lost, &judgement.streams[0].lost), (10, &vec![(1, 10)]));
    let nothing = judge(&manifest(10, &[]), &LineReport::default());
    assert_eq!((nothing.lost, nothing.streams.len()), (40, 4));
}

#[test]
fn a_damaged_record_fails_the_run() {
    let damaged = LineReport { damaged: 1, ..LineReport::default() };
    assert!(!judge(&manifest(0, &[]), &damaged).passes());
}
