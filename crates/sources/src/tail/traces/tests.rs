use weir_plan::Language;

use super::*;
use crate::tail::line::Stream;

use Stream::{Stderr, Stdout};

/// What comes of these lines, and whether something is open then.
fn join(multiline: Multiline, lines: &[(Stream, &str, bool)]) -> (Vec<String>, bool) {
    let (mut traces, mut emitted) = (Traces::new(multiline), Vec::new());
    let mut emit = |entry: &Entry<'_>| {
        let text = str::from_utf8(&entry.text).unwrap();
        let cut = if entry.is_cut { "|" } else { "" };
        emitted.push(format!("{} {:?} {text}{cut}", entry.unix_nanos, entry.stream.unwrap()));
        Ok::<_, ()>(())
    };
    for (nanos, (stream, text, is_cut)) in (1..).zip(lines.iter().copied()) {
        let entry = Entry { stream: Some(stream), unix_nanos: nanos, text: text.as_bytes().into(), is_cut };
        traces.close(&entry, &mut emit).unwrap();
        traces.take(&entry, &mut emit).unwrap();
    }
    let is_open = traces.is_open();
    traces.finish(true, &mut emit).unwrap();
    assert!(!traces.is_open());
    (emitted, is_open)
}

#[test]
fn streams_do_not_mix() {
    let lines = [
        (Stdout, "a.BError: 1", false),
        (Stderr, "a.CException: 2", false),
        (Stdout, "\tat b", false),
        (Stderr, "\tat c", false),
        (Stdout, "done", false),
        (Stderr, "\t... 7 more", false),
    ];
    let java = Multiline::of(Language::Java);
    let expected = ["1 Stdout a.BError: 1\n\tat b", "5 Stdout done", "2 Stderr a.CException: 2\n\tat c\n\t... 7 more|"];
    assert_eq!(join(java, &lines), (expected.map(str::to_owned).to_vec(), true));
    assert_eq!(join(Multiline::default(), &lines).0.len(), lines.len());
}

/// Nobody knows what is in the rest of a line.
#[test]
fn pieces_of_lines_are_not_joined() {
    let lines = [(Stdout, "a.BError: 1", false), (Stdout, "\tat b", true), (Stdout, "a.BError: 2", true)];
    let java = Multiline::of(Language::Java);
    let expected = ["1 Stdout a.BError: 1", "2 Stdout \tat b|", "3 Stdout a.BError: 2|"];
    assert_eq!(join(java, &lines), (expected.map(str::to_owned).to_vec(), false));
}
