use super::*;
use crate::series::{digest_of, value};

type Label<'a> = (&'a str, &'a str);

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// A series with samples of these bits, each five milliseconds after the epoch.
fn series(labels: &[Label<'_>], values: &[u64]) -> Vec<u8> {
    let label = |&(key, value): &Label<'_>| field(1, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat());
    let sample = |bits: &u64| field(2, &[&[1 << 3 | 1][..], &bits.to_le_bytes(), &[2 << 3, 5]].concat());
    let body: Vec<u8> = labels.iter().flat_map(label).chain(values.iter().flat_map(sample)).collect();
    let length = body.len();
    assert!(length < 1 << 14, "two bytes are enough");
    let length = [u8::try_from(length & 0x7f).unwrap() | 0x80, u8::try_from(length >> 7).unwrap()];
    [&[1 << 3 | 2][..], &length, &body].concat()
}

#[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
fn bits(number: u64) -> u64 {
    (number as f64).to_bits()
}

/// Labels of series 123 of target 3 on a line of this name, whose metric is called `base`.
fn line<'a>(base: &str, name: &'a str, digest: &'a mut String, extra: &[Label<'a>]) -> Vec<Label<'a>> {
    let own = [("cycle", "000000"), ("label_0", "0000123abc"), ("series", "0000123"), ("target", "00003")];
    let sum = own.iter().fold(digest_of(b"", base.as_bytes()), |sum, (key, value)| {
        sum.wrapping_add(digest_of(key.as_bytes(), value.as_bytes()))
    });
    *digest = format!("{sum:016x}");
    let added = [("instance", "target-3"), ("job", "load-test"), ("digest", digest.as_str())];
    let mut labels: Vec<Label<'a>> = own.into_iter().chain(added).chain(extra.iter().copied()).collect();
    labels.push(("__name__", name));
    labels.sort_unstable();
    labels
}

fn found(labels: &[Label<'_>], values: &[u64]) -> Vec<Finding> {
    scan(&series(labels, values), true).unwrap().samples
}

fn sample(scrape: u64, part: Part) -> Finding {
    Finding::Sample { target: 3, series: 123, scrape, lines: Lines::One(part) }
}

#[test]
fn a_sample_is_known_by_its_labels_in_any_order_and_its_value() {
    for name in ["load_gauge_00012", "load_counter_00012_total"] {
        let mut digest = String::new();
        let mut labels = line(name, name, &mut digest, &[]);
        let values = [bits(value(7, 123)), bits(value(8, 123)), bits(value(8, 124)), 0.5_f64.to_bits(), ENDED];
        let expected =
            [sample(7, Part::At(0)), sample(8, Part::At(0)), Finding::Damaged, Finding::Damaged, Finding::Ended];
        assert_eq!(found(&labels, &values), expected);
        labels.reverse();
        assert_eq!(found(&labels, &values), expected);
    }
}

#[test]
fn labels_that_are_not_those_of_the_page_are_damage() {
    let (name, mut digest) = ("load_gauge_00012", String::new());
    let labels = line(name, name, &mut digest, &[]);
    let damaged = |labels: &[Label<'_>]| assert_eq!(found(labels, &[bits(value(7, 123))]), [Finding::Damaged]);
    for left_out in ["cycle", "digest", "label_0", "series", "target"] {
        damaged(&labels.iter().copied().filter(|(key, _)| *key != left_out).collect::<Vec<_>>());
    }
    damaged(&[&labels[..], &[("pod", "x")]].concat());
    damaged(&[&labels[..], &[("le", "1")]].concat());
    damaged(&[&labels[..], &[("quantile", "0.5")]].concat());
    damaged(&[&labels[1..], &[("__name__", "load_gauge_00013")]].concat());
}

#[test]
fn each_line_of_a_histogram_and_of_a_summary_is_known() {
    let base = value(7, 123);
    for (metric, suffix, extra, added, part) in [
        ("load_histogram_00001", "_bucket", &[("le", "0.005")][..], 0, Part::At(0)),
        ("load_histogram_00001", "_bucket", &[("le", "1")], 5, Part::At(5)),
        ("load_histogram_00001", "_bucket", &[("le", "1.0")], 5, Part::At(5)),
        ("load_histogram_00001", "_bucket", &[("le", "+Inf")], 9, Part::At(9)),
        ("load_histogram_00001", "_sum", &[], 0, Part::Sum),
        ("load_histogram_00001", "_count", &[], 9, Part::Count),
        ("load_summary_00001", "", &[("quantile", "0.9")], 1, Part::At(1)),
        ("load_summary_00001", "_sum", &[], 0, Part::Sum),
        ("load_summary_00001", "_count", &[], 0, Part::Count),
    ] {
        let (name, mut digest) = (format!("{metric}{suffix}"), String::new());
        let labels = line(metric, &name, &mut digest, extra);
        let values = [bits(base + added), bits(base + added + 1)];
        assert_eq!(found(&labels, &values), [sample(7, part), Finding::Damaged], "{name} {extra:?}");
    }
    let unknown = [("load_histogram_00001", ""), ("load_histogram_00001", "_total"), ("load_summary_00001", "")];
    for (metric, suffix) in unknown {
        let (name, mut digest) = (format!("{metric}{suffix}"), String::new());
        assert_eq!(found(&line(metric, &name, &mut digest, &[]), &[bits(base)]), [Finding::Damaged], "{name}");
    }
}

#[test]
fn what_is_of_somebody_else_is_counted() {
    let zero = [&series(&[("__name__", "up"), ("job", "load-test")], &[])[..]].concat();
    // A value of zero and a time of zero are not written.
    let with_zero = [&[1 << 3 | 2, u8::try_from(zero.len() - 3 + 2).unwrap()], &zero[3..], &[2 << 3 | 2, 0]].concat();
    let request = [series(&[("__name__", "up")], &[bits(1), ENDED]), with_zero].concat();
    let found = scan(&request, true).unwrap();
    assert_eq!((found.items, found.without_id, found.times), (3, 3, vec![(5_000_000, 2), (0, 1)]));
    assert_eq!(found.samples, [Finding::Foreign; 3]);
    let unwanted = scan(&request, false).unwrap();
    assert_eq!((unwanted.items, unwanted.samples), (3, vec![]));
}

#[test]
fn damaged_requests_do_not_panic() {
    let (name, mut digest) = ("load_gauge_00012", String::new());
    let request = series(&line(name, name, &mut digest, &[]), &[bits(value(7, 123)), ENDED]);
    assert!((1..request.len()).all(|length| scan(&request[..length], true).is_err()));
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut bytes = request.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        let _ = scan(&bytes, true);
    }
}
