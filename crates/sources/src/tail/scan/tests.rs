mod speed;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn lines(bytes: &[u8], longest: usize, is_last: bool) -> Lines<'_> {
    Lines::new(Chunk { bytes, offset: 0, before: None, is_last }, longest)
}

/// Text as (from, to, bytes, starts a line, end), holes as their length.
fn found(bytes: &[u8], longest: usize, is_last: bool) -> Vec<Found<'_>> {
    lines(bytes, longest, is_last).collect()
}

fn text(from: u64, to: u64, bytes: &[u8], starts_line: bool, end: End) -> Found<'_> {
    Found::Text(Text { from, to, bytes, starts_line, end })
}

/// LOG-13: what has no end yet is not given out before the file has ended.
#[test]
fn the_last_line_waits_for_its_end() {
    assert_eq!(
        found(b"a\n\nbc", 10, false),
        [text(0, 2, b"a", true, End::Newline), text(2, 3, b"", true, End::Newline)]
    );
    assert_eq!(found(b"a\nbc", 10, true)[1..], [text(2, 4, b"bc", true, End::File)]);
    assert_eq!(found(b"a\n", 10, true), [text(0, 2, b"a", true, End::Newline)]);
    assert_eq!(lines(b"bc", 10, false).offset(), 0);
}

/// LOG-16: a line as long as it may be is whole; a longer one comes in pieces, and the next one is a line again.
#[test]
fn long_lines_come_in_pieces() {
    assert_eq!(found(b"abc\nd", 4, false), [text(0, 4, b"abc", true, End::Newline)]);
    let pieces = [
        text(0, 4, b"abcd", true, End::Length),
        text(4, 8, b"efgh", false, End::Length),
        text(8, 9, b"", false, End::Newline),
        text(9, 11, b"i", true, End::Newline),
    ];
    assert_eq!(found(b"abcdefgh\ni\n", 4, false), pieces);
    let later = Chunk { bytes: b"efgh\n", offset: 4, before: Some(b'd'), is_last: false };
    assert_eq!(Lines::new(later, 4).collect::<Vec<_>>(), pieces[1..3]);
}

/// LOG-17: a hole is passed over where a line would begin; within a line it ends it. Some NUL bytes in a text are text.
#[test]
fn holes_are_passed_over() {
    let bytes = [&[0; 3 * HOLE][..], b"a\0b\n", b"c", &[0; HOLE], b"d\n", &[0; HOLE - 1], b"e", &[0; 2]].concat();
    let at = |offset: usize| offset as u64;
    let expected = [
        Found::Nuls { from: 0, to: at(3 * HOLE) },
        text(at(3 * HOLE), at(3 * HOLE + 4), b"a\0b", true, End::Newline),
        text(at(3 * HOLE + 4), at(3 * HOLE + 5), b"c", true, End::Hole),
        Found::Nuls { from: at(3 * HOLE + 5), to: at(4 * HOLE + 5) },
        text(at(4 * HOLE + 5), at(4 * HOLE + 7), b"d", true, End::Newline),
        Found::Nuls { from: at(4 * HOLE + 7), to: at(5 * HOLE + 6) },
        text(at(5 * HOLE + 6), at(5 * HOLE + 9), b"e\0\0", true, End::File),
    ];
    assert_eq!(found(&bytes, 10 * HOLE, true), expected);
    assert_eq!(found(&bytes, 10 * HOLE, false), expected[..6]);
}

/// LOG-17: bytes that are all NUL are one find, however many there are.
#[test]
fn a_large_hole_is_one_find() {
    let bytes = vec![0; (1 << 20) + 1];
    assert_eq!(found(&bytes, 100, false), [Found::Nuls { from: 0, to: (1 << 20) + 1 }]);
}

/// Lines, long lines, holes of all lengths.
fn file() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => vec(prop_oneof![Just(b'a'), Just(b'\n'), Just(0), any::<u8>()], 0..20),
        1 => (0..2 * HOLE + 2).prop_map(|length| vec![0; length]),
        1 => (0..2000_usize).prop_map(|length| vec![b'x'; length]),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

/// What is found when a file is read in chunks; neighbouring NUL bytes as one. Ends where nothing more is found.
fn read_in_chunks<'a>(file: &'a [u8], sizes: &[usize], longest: usize, is_over: bool) -> Vec<Found<'a>> {
    let (mut all, mut offset, mut sizes) = (Vec::new(), 0, sizes.iter().cycle());
    loop {
        let end = file.len().min(offset + longest.max(*sizes.next().unwrap()));
        let before = offset.checked_sub(1).map(|before| file[before]);
        let is_last = is_over && end == file.len();
        let mut lines =
            Lines::new(Chunk { bytes: &file[offset..end], offset: offset as u64, before, is_last }, longest);
        for found in lines.by_ref() {
            match (all.last_mut(), found) {
                (Some(Found::Nuls { to: last, .. }), Found::Nuls { to, .. }) => *last = to,
                _ => all.push(found),
            }
        }
        if usize::try_from(lines.offset()).unwrap() == offset && end == file.len() {
            return all;
        }
        offset = lines.offset().try_into().unwrap();
    }
}

proptest! {
    /// LOG-16, LOG-17: every byte is given out, passed over as NUL, or pending; and the pending ones are fewer than the longest
    /// line, have no end in them, and are none when the file is over.
    #[test]
    fn every_byte_is_accounted_for(file in file(), longest in 1..1500_usize, is_over: bool) {
        let mut place = 0;
        for found in read_in_chunks(&file, &[longest], longest, is_over) {
            let (from, to) = match found {
                Found::Text(Text { from, to, bytes, starts_line, end }) => {
                    let start = usize::try_from(from).unwrap();
                    prop_assert_eq!(&file[start..start + bytes.len()], bytes);
                    prop_assert_eq!(to - from, bytes.len() as u64 + u64::from(end == End::Newline));
                    prop_assert!(bytes.len() + usize::from(end == End::Newline) <= longest && !bytes.contains(&b'\n'));
                    let next = file[usize::try_from(to).unwrap()..].iter().copied();
                    match end {
                        End::Newline => prop_assert_eq!(file[start + bytes.len()], b'\n'),
                        End::Length => prop_assert_eq!(bytes.len(), longest),
                        End::Hole => prop_assert!(next.take(HOLE).eq([0; HOLE])),
                        End::File => prop_assert!(is_over && to == file.len() as u64),
                    }
                    let before = start.checked_sub(1).map_or(b'\n', |before| file[before]);
                    prop_assert_eq!(starts_line, before == b'\n' || before == 0);
                    (from, to)
                }
                Found::Nuls { from, to } => {
                    let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
                    prop_assert!(file[range].iter().all(|byte| *byte == 0));
                    (from, to)
                }
            };
            prop_assert!(from == place && to > from);
            place = to;
        }
        let pending = &file[usize::try_from(place).unwrap()..];
        prop_assert!(pending.len() < longest && !pending.contains(&b'\n'));
        prop_assert!(pending.is_empty() || !is_over);
    }

    /// What is found is the same however the file is cut into chunks.
    #[test]
    fn chunks_make_no_difference(
        file in file(), longest in 1..1500_usize, sizes in vec(1..3000_usize, 1..5), is_over: bool,
    ) {
        let at_once = read_in_chunks(&file, &[file.len()], longest, is_over);
        prop_assert_eq!(read_in_chunks(&file, &sizes, longest, is_over), at_once);
    }
}
