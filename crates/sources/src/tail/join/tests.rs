mod reader;

use proptest::collection::vec;
use proptest::prelude::*;

use self::reader::{Done, Output, Owned, Turn, read};
use super::*;

fn spot(file: u64, offset: u64) -> Spot {
    Spot { file, offset }
}

fn part(stream: Stream, text: &[u8]) -> Line<'_> {
    Line { stream: Some(stream), is_partial: true, ..Line::of_text(text) }
}

fn end(stream: Stream, text: &[u8]) -> Line<'_> {
    Line { is_partial: false, ..part(stream, text) }
}

/// What is emitted by these lines of ten bytes each, from `start` on, up to `room` entries; and the position after it.
fn join(position: Position, most: u64, start: u64, lines: &[Line<'_>], room: usize) -> (Vec<String>, Position) {
    let (mut joiner, mut emitted) = (Joiner::new(position, most), Vec::new());
    let mut emit = |entry: Entry<'_>| {
        let shown = format!("{}{}", str::from_utf8(&entry.text).unwrap(), if entry.is_cut { "|" } else { "" });
        (emitted.len() < room).then(|| emitted.push(shown)).ok_or(())
    };
    for (line, offset) in lines.iter().zip((start..).step_by(10)) {
        if joiner.line(spot(0, offset), spot(0, offset + 10), line.clone(), &mut emit).is_err() {
            break;
        }
    }
    (emitted, joiner.position())
}

fn position(done: u64, stdout: Option<u64>, stderr: Option<u64>) -> Position {
    let open = |offset: Option<u64>| offset.map(|offset| spot(0, offset));
    Position { done: spot(0, done), open: [open(stdout), open(stderr), None] }
}

use Stream::{Stderr, Stdout};

/// LOG-14: stdout P, stderr F, stdout F.
#[test]
fn streams_do_not_mix() {
    let lines = [part(Stdout, b"a"), end(Stderr, b"b"), Line::of_text(b"?"), part(Stderr, b"c"), end(Stdout, b"d")];
    let (emitted, after) = join(Position::default(), 1000, 0, &lines, 9);
    assert_eq!(emitted, ["b", "?", "ad"]);
    assert_eq!(after, position(50, None, Some(30)));
    assert_eq!(after.start(), spot(0, 30));
}

/// LOG-14: the parts are read again, and what was emitted between them is not emitted again.
#[test]
fn reading_begins_again_at_the_first_open_part() {
    let lines = [part(Stdout, b"a"), end(Stderr, b"b"), part(Stdout, b"c"), end(Stderr, b"d"), end(Stdout, b"e")];
    let (emitted, after) = join(position(30, Some(0), None), 1000, 0, &lines, 9);
    assert_eq!(emitted, ["d", "ace"]);
    assert_eq!(after, position(50, None, None));
}

/// A refused line is not read; what was emitted before it for want of space is not open any more.
#[test]
fn a_refused_line_is_read_again() {
    let lines = [part(Stdout, b"a"), part(Stdout, b"b"), end(Stdout, b"c"), end(Stdout, b"d")];
    assert_eq!(join(Position::default(), 1000, 0, &lines, 0), (vec![], position(20, Some(0), None)));
    assert_eq!(join(Position::default(), 1000, 0, &lines, 1), (vec!["abc".into()], position(30, None, None)));
    assert_eq!(join(Position::default(), 20, 0, &lines, 1), (vec!["ab|".into()], position(20, None, None)));
}

/// A part that was put back after a refusal is not in the text twice.
#[test]
fn a_refused_line_leaves_nothing_behind() {
    let mut joiner = Joiner::new(Position::default(), 1000);
    let mut emitted = Vec::new();
    joiner.line(spot(0, 0), spot(0, 10), part(Stdout, b"a"), &mut |_| Err(())).unwrap();
    for room in [0, 1] {
        let mut emit = |entry: Entry<'_>| (room > 0).then(|| emitted.push(entry.text.into_owned())).ok_or(());
        assert_eq!(joiner.line(spot(0, 10), spot(0, 20), end(Stdout, b"b"), &mut emit).is_ok(), room > 0);
    }
    assert_eq!(emitted, [b"ab"]);
}

/// LOG-14, LOG-16: what is too long, or too far apart, is cut between two parts, and nothing stays open for ever.
#[test]
fn entries_are_bounded() {
    let lines = [part(Stdout, b"a"), part(Stdout, b"b"), part(Stdout, b"c"), end(Stdout, b"d")];
    assert_eq!(join(Position::default(), 20, 0, &lines, 9).0, ["ab|", "cd"]);
    assert_eq!(join(Position::default(), 5, 0, &lines, 9).0, ["a|", "b|", "c|", "d"]);
    let apart = [part(Stdout, b"a"), end(Stderr, b"b"), end(Stderr, b"c"), end(Stdout, b"d")];
    assert_eq!(join(Position::default(), 20, 0, &apart, 9).0, ["b", "a|", "c", "d"]);
    let (emitted, after) = join(Position::default(), 20, 0, &apart[..2], 9);
    assert_eq!((emitted, after), (vec!["b".into()], position(20, Some(0), None)));
    let mut joiner = Joiner::new(after, 20);
    assert_eq!(joiner.line(spot(0, 0), spot(0, 10), part(Stdout, b"a"), &mut |_| Err(())), Ok(false));
    assert_eq!(joiner.line(spot(0, 10), spot(0, 20), end(Stderr, b"b"), &mut |_| Err(())), Ok(false));
    assert_eq!(joiner.skip(spot(0, 20), spot(0, 1000), &mut |_| Ok::<_, ()>(())), Ok(980));
    assert_eq!(joiner.position(), position(1000, None, None));
}

/// LOG-16: a line whose end is missing ends its entry, whatever its tag says.
#[test]
fn a_line_that_is_cut_ends_its_entry() {
    let cut = |line| Line { is_cut: true, ..line };
    let lines = [part(Stdout, b"a"), cut(part(Stdout, b"b")), cut(part(Stdout, b"c")), cut(end(Stdout, b"d"))];
    let (emitted, after) = join(Position::default(), 1000, 0, &lines, 9);
    assert_eq!((emitted, after), (vec!["ab|".into(), "c|".into(), "d|".into()], position(40, None, None)));
}

/// What was open with a larger limit is cut by the smaller one, and not lost.
#[test]
fn a_limit_may_become_smaller() {
    let lines = [part(Stdout, b"a"), part(Stdout, b"b"), part(Stdout, b"c"), end(Stderr, b"x"), part(Stdout, b"d")];
    let lines = [&lines[..], &[end(Stdout, b"e")]].concat();
    for (most, expected) in [(20, ["ab|", "c|", "de"].as_slice()), (5, &["a|", "b|", "c|", "d|", "e"])] {
        assert_eq!(join(position(50, Some(0), None), most, 0, &lines, 9).0, expected);
        for room in 0..expected.len() {
            let (mut emitted, after) = join(position(50, Some(0), None), most, 0, &lines, room);
            let start = after.start().offset;
            emitted.extend(join(after, most, start, &lines[usize::try_from(start / 10).unwrap()..], 9).0);
            assert_eq!(emitted, expected);
        }
    }
}

/// The file with the first part is gone: what follows is an entry without it.
#[test]
fn parts_that_cannot_be_read_again_are_forgotten() {
    let (emitted, after) = join(position(50, Some(0), Some(20)), 1000, 50, &[end(Stderr, b"x"), end(Stdout, b"e")], 9);
    assert_eq!((emitted, after), (vec!["x".into(), "e".into()], position(70, None, None)));
    let (_, after) = join(position(50, Some(0), Some(20)), 1000, 50, &[Line::of_text(b"?")], 9);
    assert_eq!(after, position(60, None, None));
    let mut joiner = Joiner::new(position(50, Some(0), None), 1000);
    joiner.finish(&mut |_| Err(())).unwrap();
    assert_eq!(joiner.position(), position(50, None, None));
}

/// LOG-13: what is open when the output ends is emitted, the oldest first.
#[test]
fn what_is_open_at_the_end_is_emitted() {
    let mut joiner = Joiner::new(Position::default(), 1000);
    for (line, offset) in [part(Stderr, b"a"), part(Stdout, b"b"), part(Stderr, b"c")].into_iter().zip([0, 10, 20]) {
        joiner.line(spot(0, offset), spot(0, offset + 10), line, &mut |_| Err(())).unwrap();
    }
    let mut emitted = Vec::new();
    for room in [1, 9] {
        let mut take = |entry: Entry<'_>| {
            assert!(entry.is_cut);
            (emitted.len() < room).then(|| emitted.push(entry.text.into_owned())).ok_or(())
        };
        let _ = joiner.finish(&mut take);
    }
    assert_eq!(emitted, [&b"ac"[..], b"b"]);
    assert_eq!(joiner.position(), position(30, None, None));
}

/// A line of a container's output in the form of CRI.
#[derive(Debug, Clone)]
struct Written {
    stream: Stream,
    is_partial: bool,
    text: String,
    /// The file is rotated after it.
    is_last: bool,
}

fn written() -> impl Strategy<Value = Written> {
    let stream = prop_oneof![Just(Stdout), Just(Stderr)];
    let text = prop_oneof![5 => "[a-z ]{0,6}", 1 => "[a-z]{30,60}"];
    (stream, any::<bool>(), text, prop::bool::weighted(0.1)).prop_map(|(stream, is_partial, text, is_last)| Written {
        stream,
        is_partial,
        text,
        is_last,
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    let count = || prop_oneof![3 => 0..6_usize, 1 => 6..60_usize];
    (0..400_usize, 0..200_usize, count(), count(), prop::bool::weighted(0.7)).prop_map(
        |(written, chunk, finds, entries, is_committed)| Turn { written, chunk, finds, entries, is_committed },
    )
}

/// The files, of which there are four at most; the last line may lack its end.
fn files(lines: &[Written], is_terminated: bool) -> Vec<Vec<u8>> {
    let mut files = vec![Vec::new()];
    for (index, Written { stream, is_partial, text, is_last }) in lines.iter().enumerate() {
        let stream = if *stream == Stdout { "stdout" } else { "stderr" };
        let tag = if *is_partial { "P" } else { "F" };
        let line = format!("1970-01-01T00:00:00.{index:09}Z {stream} {tag} {text}\n");
        files.last_mut().unwrap().extend(line.into_bytes());
        if *is_last && files.len() < 4 {
            files.push(Vec::new());
        }
    }
    if let Some(file) = files.iter_mut().rfind(|file| !file.is_empty() && !is_terminated) {
        file.pop();
    }
    files
}

/// What should come out for a stream: every line goes to the entry before it if that was partial, and if from there to
/// the end of any line read since there are no more than `most` bytes.
fn model(lines: &[Written], is_terminated: bool, most: usize, stream: Stream) -> Vec<Owned> {
    let mut entries: Vec<Owned> = Vec::new();
    let (mut open, mut passed) = (None, 0);
    for (index, line) in lines.iter().enumerate() {
        let is_cut = !is_terminated && index + 1 == lines.len();
        let (from, to) = (passed, passed + 41 + line.text.len() - usize::from(is_cut));
        passed = to;
        open = open.filter(|open| to - open <= most);
        if line.stream != stream {
            continue;
        }
        if open.is_none() {
            entries.push(Owned { stream: Some(stream), unix_nanos: index as u64, text: Vec::new(), is_cut: true });
        }
        let entry = entries.last_mut().unwrap();
        entry.text.extend(line.text.as_bytes());
        entry.is_cut = line.is_partial || is_cut;
        let goes_on = line.is_partial && !is_cut && to - from <= most;
        open = goes_on.then_some(open.unwrap_or(from));
    }
    entries
}

fn of_stream(done: &Done, stream: Stream) -> Vec<Owned> {
    done.entries.iter().filter(|entry| entry.stream == Some(stream)).cloned().collect()
}

/// Bytes like those in log files, and others.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        6 => "1970-01-01T00:00:00.00000000[0-9]Z std(out|err) [PF] [a-z]{0,9}\n",
        1 => r#"\{"log":"[a-z]{0,9}(\\n|)","stream":"std(out|err)"\}"#.prop_map(|line| line + "\n"),
        1 => "[a-z]{0,30}\n",
        1 => "[a-z]{60,200}\n",
        1 => "\0{1,700}",
    ];
    prop_oneof![9 => line.prop_map(String::into_bytes), 1 => vec(any::<u8>(), 0..20)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// LOG-13, LOG-14, LOG-18: whatever comes between, every line comes out once, in the order of its stream, as a simple model
    /// joins it.
    #[test]
    fn entries_are_those_of_a_model(
        lines in vec(written(), 0..40),
        is_terminated: bool,
        most in prop_oneof![Just(1 << 20), 0..400_usize],
        turns in vec(turn(), 0..20),
    ) {
        let output = Output { files: files(&lines, is_terminated), longest: 200, most };
        let done = read(&output, &turns);
        for stream in [Stdout, Stderr] {
            prop_assert_eq!(of_stream(&done, stream), model(&lines, is_terminated, most, stream));
        }
    }

    /// LOG-15, LOG-16, LOG-17: of any bytes at all, what comes out is the same as if nothing had come between, and every byte was
    /// read for the first time once.
    #[test]
    fn any_bytes_are_read_once(
        files in vec(vec(bytes(), 0..30).prop_map(|parts| parts.concat()), 1..4),
        longest in 1..300_usize,
        most in 0..600_usize,
        turns in vec(turn(), 0..20),
    ) {
        let output = Output { files, longest, most };
        let done = read(&output, &turns);
        prop_assert_eq!(done.bytes, output.files.iter().map(|file| file.len() as u64).sum::<u64>());
        prop_assert_eq!(done, read(&output, &[]));
    }
}
