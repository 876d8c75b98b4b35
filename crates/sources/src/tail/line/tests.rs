use proptest::prelude::*;

use super::*;

/// 2026-11-23T12:00:00.123456789Z
const TIME: u64 = 1_795_435_200_123_456_789;

fn line(stream: Stream, unix_nanos: u64, text: &[u8], is_partial: bool) -> Option<Line<'_>> {
    Some(Line { stream: Some(stream), unix_nanos, text: Cow::Borrowed(text), is_partial, is_cut: false })
}

/// LOG-14: broken times, empty content, unknown tags.
#[test]
fn cri_lines() {
    let cases: &[(&[u8], Option<Line<'_>>)] = &[
        (b"2026-11-23T12:00:00.123456789Z stdout F text", line(Stream::Stdout, TIME, b"text", false)),
        (b"2026-11-23T12:00:00.123456789Z stderr P te xt ", line(Stream::Stderr, TIME, b"te xt ", true)),
        (b"2026-11-23T13:00:00.123456789+01:00 stdout F t", line(Stream::Stdout, TIME, b"t", false)),
        (b"2026-11-23T06:30:00.123456789-05:30 stdout F t", line(Stream::Stdout, TIME, b"t", false)),
        (b"2026-11-23T12:00:00Z stdout F t", line(Stream::Stdout, TIME - 123_456_789, b"t", false)),
        (b"2026-11-23T12:00:00.12Z stdout F t", line(Stream::Stdout, TIME - 3_456_789, b"t", false)),
        (b"2026-11-23T12:00:00.123456789Z stdout F ", line(Stream::Stdout, TIME, b"", false)),
        (b"2026-11-23T12:00:00.123456789Z stdout F", line(Stream::Stdout, TIME, b"", false)),
        (b"2026-11-23T12:00:00.123456789Z stdout P:x", line(Stream::Stdout, TIME, b"", true)),
        (b"2026-11-23T12:00:00.123456789Z stdout P:x:F t", line(Stream::Stdout, TIME, b"t", true)),
        (b"2026-11-23T12:00:00.123456789Z stdout F:P t", line(Stream::Stdout, TIME, b"t", false)),
        (b"2026-11-23T12:00:00.123456789Z stdout X:P t", line(Stream::Stdout, TIME, b"t", false)),
        (b"2026-11-23T12:00:00.123456789Z stdout  t", line(Stream::Stdout, TIME, b"t", false)),
        (b"2026-11-23T12:00:00.123456789Z stdout F \xff\0\r", line(Stream::Stdout, TIME, b"\xff\0\r", false)),
        (b"1970-01-01T00:00:00Z stdout F t", line(Stream::Stdout, 0, b"t", false)),
        (b"2016-12-31T23:59:60Z stdout F t", line(Stream::Stdout, 1_483_228_800_000_000_000, b"t", false)),
        // The text must not be taken for a tag and get lost.
        (b"2026-11-23T12:00:00.123456789Z stdout text", None),
        (b"2026-11-23T12:00:00.123456789Z stdout ", None),
        (b"2026-11-23T12:00:00.123456789Z stdout", None),
        (b"2026-11-23T12:00:00.123456789Z stdin F t", None),
        (b"2026-11-23T12:00:00.1234567890Z stdout F t", None),
        (b"2026-11-23T12:00:00.Z stdout F t", None),
        (b"2026-11-23T12:00:00 stdout F t", None),
        (b"2026-11-23T12:00:00+1:00 stdout F t", None),
        (b"2026-11-23T12:00:00+24:00 stdout F t", None),
        (b"2026-11-23T24:00:00Z stdout F t", None),
        (b"2026-11-23T12:60:00Z stdout F t", None),
        (b"2026-11-23T12:00:61Z stdout F t", None),
        (b"2026-00-23T12:00:00Z stdout F t", None),
        (b"2026-13-23T12:00:00Z stdout F t", None),
        (b"2026-02-29T12:00:00Z stdout F t", None),
        (b"2026-11-00T12:00:00Z stdout F t", None),
        (b"1969-12-31T23:59:59Z stdout F t", None),
        (b"1970-01-01T00:00:00+00:01 stdout F t", None),
        (b"2263-01-01T00:00:00Z stdout F t", None),
        (b"9999-12-31T23:59:59.999999999-23:59 stdout F t", None),
        (b"2026-11-23 12:00:00Z stdout F t", None),
        (b" 2026-11-23T12:00:00Z stdout F t", None),
        (b"text", None),
        (b"", None),
    ];
    for (bytes, expected) in cases {
        assert_eq!(Format::Cri.parse(bytes), *expected, "{}", bytes.escape_ascii());
    }
}

/// LOG-15.
#[test]
fn docker_lines() {
    let unknown = |text| Line { is_partial: true, ..Line::of_text(text) };
    let cases: &[(&[u8], Option<Line<'_>>)] = &[
        (
            br#"{"log":"text\n","stream":"stdout","time":"2026-11-23T12:00:00.123456789Z"}"#,
            line(Stream::Stdout, TIME, b"text", false),
        ),
        (
            br#" {"time":"2026-11-23T12:00:00.123456789Z","attrs":{"a":[{}]},"stream":"stderr","log":"a\"\u00e9\r\n"} "#,
            line(Stream::Stderr, TIME, "a\"é\r".as_bytes(), false),
        ),
        (
            br#"{"log":"part","stream":"stdout","time":"2026-11-23T12:00:00.123456789Z"}"#,
            line(Stream::Stdout, TIME, b"part", true),
        ),
        (br#"{"log":"\n"}"#, Some(Line::of_text(b""))),
        (br#"{"log":""}"#, Some(unknown(b""))),
        (br#"{"log":"x","stream":null,"time":null}"#, Some(unknown(b"x"))),
        (br#"{"log":"x","stream":"other"}"#, Some(unknown(b"x"))),
        (b"{\"log\":\"\xff\"}", Some(unknown(b"\xff"))),
        (br#"{"log":"x","time":"yesterday"}"#, None),
        (br#"{"log":"x","log":"y"}"#, None),
        (br#"{"log":1}"#, None),
        (br#"{"log":[120]}"#, None),
        (br#"{"log":"x"} y"#, None),
        (br#"{"log":"x"#, None),
        (br#"{"stream":"stdout"}"#, None),
        (br#"["x","stdout",null]"#, None),
        (br#""log""#, None),
        (b"", None),
    ];
    for (bytes, expected) in cases {
        assert_eq!(Format::Docker.parse(bytes), *expected, "{}", bytes.escape_ascii());
    }
}

/// JSON of any depth is only skipped.
#[test]
fn docker_lines_may_be_deep() {
    let deep = format!(r#"{{"attrs":{}{},"log":"x\n"}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(Format::Docker.parse(deep.as_bytes()), Some(Line::of_text(b"x")));
}

/// LOG-15: the first line that is a runtime's tells the format, whatever comes before it.
#[test]
fn the_first_line_that_is_whole_tells_the_format() {
    let cri = "2026-11-23T12:00:00.123456789Z stdout F {\"log\":\"x\"}";
    let docker = r#"{"log":"x\n","stream":"stdout","time":"2026-11-23T12:00:00Z"}"#;
    let cases: &[(&[&str], Option<Format>)] = &[
        (&[cri], Some(Format::Cri)),
        (&["2026-11-23T12:00:00.123456789Z stderr P"], Some(Format::Cri)),
        (&["\x00\x00\x002026-11-23T12:00:00.123456789Z stderr F x"], Some(Format::Cri)),
        (&[docker], Some(Format::Docker)),
        (&["2026-13-23T12:00:00Z stdout F a broken time", cri, docker], Some(Format::Cri)),
        (&["", "\0", "text", &docker[1..], docker, cri], Some(Format::Docker)),
        // What applications write.
        (&[r#"{"log":"x"}"#, r#"{"log":"x","stream":"events"}"#, r#"{"message":"x"}"#], None),
        (&["2026-11-23T12:00:00Z starting", "stdout F x"], None),
        (&[], None),
    ];
    for (lines, expected) in cases {
        assert_eq!(Format::told_in(lines.join("\n").as_bytes()), *expected, "{lines:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(line in "[0-9TZ:. +stdouerFP{}\"log\\\\n\\[\\],-]{0,60}", bytes: Vec<u8>) {
        for format in [Format::Cri, Format::Docker] {
            format.parse(line.as_bytes());
            format.parse(&bytes);
        }
    }
}
