use super::*;

fn line(sequence: u64, length: usize) -> Vec<u8> {
    let mut text = text(length);
    stamp(&mut text, id(sequence));
    text
}

fn id(sequence: u64) -> LineId {
    LineId { container: 42, stream: Stream::Stderr, sequence }
}

#[test]
fn a_line_is_known_again_alone_in_json_and_among_attributes() {
    for length in [SHORTEST, SHORTEST + 1, 200, 5000] {
        let text = line(7, length);
        assert_eq!(text.len(), length);
        assert_eq!(find(&text), Finding::Line(id(7)), "{length}");
        let text = String::from_utf8(text).unwrap();
        for json in [format!(r#"{{"a":1,"message":"{text}","b":2}}"#), format!(r#"{{"log":"{{\"m\":\"{text}\"}}"}}"#)] {
            assert_eq!(find(json.as_bytes()), Finding::Line(id(7)), "{json}");
        }
        assert_eq!(find_within(format!("\x0a\x07message\x12{text}").as_bytes()), Finding::Line(id(7)));
    }
}

#[test]
fn what_is_not_the_whole_line_is_not_a_line() {
    let whole = line(7, 300);
    for length in PREFIX.len()..whole.len() {
        assert_eq!(find(&whole[..length]), Finding::Damaged, "cut at {length}");
    }
    for at in 1..whole.len() {
        assert_eq!(find(&whole[at..]), Finding::Unmarked, "the rest from {at}");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] = b'#';
        assert_ne!(find(&changed), Finding::Line(id(7)), "changed at {at}");
    }
}

#[test]
fn the_head_of_one_line_and_the_tail_of_another_are_damaged() {
    let (a, b) = (line(7, 300), line(8, 300));
    for cut in SEQUENCE.end()..300 - 1 {
        assert_eq!(find(&[&a[..cut], &b[cut..]].concat()), Finding::Damaged, "{cut}");
    }
    assert_eq!(find(&[a.as_slice(), &b].concat()), Finding::Damaged, "two lines in one record");
    assert_eq!(find(&[a.as_slice(), b"\r"].concat()), Finding::Damaged, "something is left");
    assert_eq!(find(&[b"x".as_slice(), &a].concat()), Finding::Damaged, "something is before it");
    let cut_json = [br#"{"message":""#.as_slice(), &a, br#"","b":"#].concat();
    assert_eq!(find(&cut_json), Finding::Damaged);
}

#[test]
fn parts_in_the_wrong_order_are_damaged() {
    let whole = line(7, 400);
    let swapped = [&whole[..100], &whole[250..300], &whole[150..250], &whole[100..150], &whole[300..]].concat();
    assert_eq!(swapped.len(), whole.len());
    assert_eq!(find(&swapped), Finding::Damaged);
}
