//! Stack traces in turns of any size, with all that may come between.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use weir_plan::{Language, Multiline, RecordShape};

use super::*;

/// A piece of a file that is written at once.
#[derive(Debug, Clone)]
struct Piece {
    lines: Vec<Line>,
    most_bytes: usize,
    is_committed: bool,
    after: After,
}

#[derive(Debug, Clone)]
struct Line {
    is_error: bool,
    kind: usize,
    padding: usize,
    /// The runtime writes its end when the next line of its stream comes, or with the next piece.
    is_in_parts: bool,
}

impl Line {
    fn new(is_error: bool, kind: usize, padding: usize) -> Self {
        Self { is_error, kind, padding, is_in_parts: false }
    }
}

/// What happens behind a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    Rotation,
    /// The container begins anew, with another file.
    Restart,
}

fn piece() -> impl Strategy<Value = Piece> {
    // Each kind of line; now and then a long one.
    let padding = prop_oneof![9 => Just(0), 1 => 0..9000_usize];
    let line = (prop::bool::weighted(0.3), 0..LINES.len(), padding, prop::bool::weighted(0.2))
        .prop_map(|(is_error, kind, padding, is_in_parts)| Line { is_in_parts, ..Line::new(is_error, kind, padding) });
    let most_bytes = prop_oneof![Just(1 << 20), 12_000..40_000_usize];
    let after = prop_oneof![7 => Just(After::Nothing), 2 => Just(After::Rotation), 1 => Just(After::Restart)];
    (vec(line, 0..30), most_bytes, any::<bool>(), after).prop_map(|(lines, most_bytes, is_committed, after)| Piece {
        lines,
        most_bytes,
        is_committed,
        after,
    })
}

const LINES: [&str; 4] = ["a.BException: 1", "\tat a.B.c(B.java:7)", "Caused by: c.DError", "done"];

/// A container whose file is written piece by piece.
struct Written {
    pods: tempfile::TempDir,
    container: Container,
    rotations: u64,
    restarts: u64,
    now_ms: u64,
    lines: Streams,
    /// Ends of lines that are to come.
    ends: [Option<String>; 2],
    /// Lines of each stream before a restart.
    runs: Vec<[usize; 2]>,
}

impl Written {
    fn new() -> Self {
        let pods = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(pods.path().join(name().to_string())).unwrap();
        let descriptors = Arc::new(Descriptors::new(100));
        let container = Container::new(name(), pods.path(), Chain::default(), None, descriptors);
        let (lines, ends, runs) = (Streams::default(), [None, None], Vec::new());
        Self { pods, container, rotations: 0, restarts: 0, now_ms: 1, lines, ends, runs }
    }

    fn file(&self) -> PathBuf {
        self.pods.path().join(name().to_string()).join(format!("{}.log", self.restarts))
    }

    fn write(&mut self, piece: &Piece) {
        let file = self.file();
        let mut text = self.end_lines();
        for Line { is_error, kind, padding, is_in_parts } in &piece.lines {
            let stream = usize::from(*is_error);
            text += &self.end_line(stream);
            let line = format!("{}{} {}", LINES[*kind], "x".repeat(*padding), self.lines[stream].len());
            let (begin, end) = line.split_at(if *is_in_parts { line.len() / 2 } else { 0 });
            if *is_in_parts {
                text += &part(stream, 'P', begin);
            }
            self.ends[stream] = Some(part(stream, 'F', end));
            if !is_in_parts {
                text += &self.end_line(stream);
            }
            self.lines[stream].push(line);
        }
        if piece.after == After::Restart {
            text += &self.end_lines();
        }
        let mut open = std::fs::OpenOptions::new().create(true).append(true).open(&file).unwrap();
        open.write_all(text.as_bytes()).unwrap();
        match piece.after {
            After::Nothing => {}
            After::Rotation => {
                self.rotations += 1;
                std::fs::rename(&file, file.with_extension(format!("log.20261123-12{:04}", self.rotations))).unwrap();
                std::fs::write(&file, "").unwrap();
            }
            After::Restart => {
                self.restarts += 1;
                self.runs.push([self.lines[0].len(), self.lines[1].len()]);
                std::fs::write(self.file(), "").unwrap();
            }
        }
        self.look();
    }

    fn end_line(&mut self, stream: usize) -> String {
        self.ends[stream].take().unwrap_or_default()
    }

    fn end_lines(&mut self) -> String {
        self.end_line(0) + &self.end_line(1)
    }

    fn look(&mut self) {
        self.now_ms += 2000;
        self.container.look(self.now_ms).unwrap();
    }
}

fn part(stream: usize, tag: char, text: &str) -> String {
    format!("2026-11-23T12:00:00.123456789Z {} {tag} {text}\n", ["stdout", "stderr"][stream])
}

/// Texts of each stream.
type Streams = [Vec<String>; 2];

/// The texts of a request.
fn texts(bytes: &[u8]) -> Streams {
    let mut texts = [Vec::new(), Vec::new()];
    let resources = ExportLogsServiceRequest::decode(bytes).unwrap().resource_logs;
    for record in resources.into_iter().flat_map(|holder| holder.scope_logs).flat_map(|scope| scope.log_records) {
        let text = |value: Option<Value>| match value {
            Some(Value::StringValue(text)) => text,
            other => panic!("{other:?}"),
        };
        let stream = record.attributes.iter().find(|attribute| attribute.key == "log.iostream").unwrap();
        let stream = text(stream.value.clone().unwrap().value);
        texts[usize::from(stream == "stderr")].push(text(record.body.unwrap().value));
    }
    texts
}

fn want(shape: RecordShape, multiline: Multiline) -> Want {
    Want { shape, asked: multiline, multiline }
}

/// All records of each want, what was written, and how many records were counted. Turns that are not committed never
/// happened.
fn read(pieces: &[Piece], wants: &[Want]) -> (Vec<Streams>, Written, u64) {
    let (mut written, mut all) = (Written::new(), vec![Streams::default(); wants.len()]);
    let end = Piece { lines: Vec::new(), most_bytes: 1 << 20, is_committed: true, after: After::Rotation };
    let (mut counted, mut turns) = (0, 0);
    for (index, piece) in pieces.iter().chain([&end]).enumerate() {
        written.write(piece);
        if index == pieces.len() {
            // Nobody writes to it any more: what is open is at its end.
            std::fs::remove_file(written.file()).unwrap();
            written.look();
            written.look();
        }
        loop {
            let order = Order { wants: wants.to_vec(), node: None, most_bytes: piece.most_bytes, now_nanos: 1 };
            let reading = written.container.read(&order).unwrap();
            turns += 1;
            assert!(turns < 10_000, "it does not get on");
            if !piece.is_committed {
                break;
            }
            for (want, bytes) in &reading.requests {
                let place = wants.iter().position(|known| known == want).unwrap();
                let [out, err] = texts(bytes);
                all[place][0].extend(out);
                all[place][1].extend(err);
            }
            assert_eq!(reading.counts.shortened, 0);
            counted += reading.counts.records;
            written.container.commit(reading.position, reading.guard, &reading.counts);
            if !reading.is_more {
                break;
            }
        }
    }
    (all, written, counted)
}

/// What should come out: each trace is one record.
fn model(lines: &[String], runs: &[usize]) -> Vec<String> {
    let (mut records, mut is_open) = (Vec::<String>::new(), false);
    for (number, line) in lines.iter().enumerate() {
        is_open &= !runs.contains(&number);
        let is_next = line.starts_with('\t') || line.starts_with("Caused by");
        match records.last_mut().filter(|_| is_open && is_next) {
            Some(last) => *last = format!("{last}\n{line}"),
            None => {
                is_open = line.starts_with("a.BException: ");
                records.push(line.clone());
            }
        }
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Every line comes once, in the order of its stream, to all; and where there is room, traces are whole.
    #[test]
    fn every_line_comes_once(pieces in vec(piece(), 0..8), has_room: bool) {
        let java = Multiline::of(Language::Java);
        let pieces: Vec<Piece> = pieces
            .into_iter()
            .map(|piece| Piece { most_bytes: if has_room { 1 << 20 } else { piece.most_bytes }, ..piece })
            .collect();
        let wants = [want(RecordShape::Raw, java), want(RecordShape::Raw, Multiline::default())];
        let (read, written, counted) = read(&pieces, &wants);
        let records: usize = read[0].iter().map(Vec::len).sum();
        prop_assert_eq!(counted, records as u64);
        for (stream, lines) in written.lines.iter().enumerate() {
            let runs: Vec<usize> = written.runs.iter().map(|run| run[stream]).collect();
            prop_assert_eq!(&read[1][stream], lines);
            prop_assert_eq!(read[0][stream].join("\n"), lines.join("\n"));
            if has_room {
                prop_assert_eq!(&read[0][stream], &model(lines, &runs));
            }
        }
    }
}

/// Whichever of them is full first; and what is counted is there once.
#[test]
fn an_entry_is_in_all_requests_or_in_none() {
    let lines = (0..40).map(|number| Line::new(number % 3 == 0, 3, 10)).collect();
    let piece = Piece { lines, most_bytes: 4000, is_committed: true, after: After::Nothing };
    let wants = RecordShape::ALL.map(|shape| want(shape, Multiline::default()));
    let (read, Written { lines, .. }, counted) = read(&[piece], &wants);
    assert_eq!((counted, &read[0]), (40, &lines));
    assert!(read.iter().all(|one| one == &lines));
}

/// A trace of a loud container is cut where it becomes too long, and nobody waits for its end.
#[test]
fn a_trace_has_a_limit() {
    let others = (0..100).map(|_| Line::new(false, 3, 8000));
    let lines = std::iter::once(Line::new(true, 0, 0)).chain(others).chain([Line::new(true, 1, 0)]).collect();
    let piece = Piece { lines, most_bytes: 1 << 20, is_committed: true, after: After::Nothing };
    let java = Multiline::of(Language::Java);
    let (read, written, _) = read(&[piece], &[want(RecordShape::Raw, java)]);
    assert_eq!(read[0], written.lines, "more than 256 KiB of another stream are between them");
}

/// Behind the cut, nobody remembers that there was a trace.
#[test]
fn the_rest_of_a_trace_that_is_too_long_is_lines() {
    let frames = (0..300).map(|_| Line::new(false, 1, 2000));
    let lines = std::iter::once(Line::new(false, 0, 0)).chain(frames).collect();
    let piece = Piece { lines, most_bytes: 1 << 20, is_committed: true, after: After::Nothing };
    let (read, written, _) = read(&[piece], &[want(RecordShape::Raw, Multiline::of(Language::Java))]);
    let [records, _] = &read[0];
    assert_eq!(records.join("\n"), written.lines[0].join("\n"));
    assert!((200 << 10..256 << 10).contains(&records[0].len()), "{}", records[0].len());
    assert!(records[1..].iter().all(|record| !record.contains('\n')));
}
