//! When a point is a delta, and when it is not: one case per rule.

use std::time::Duration;

use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use weir_temporality::{Converter, Limits};

use crate::model::{converted_to, converter, int, metric, number, one, request, sum};
use prost::Message as _;

/// A rule, and a series to show it: start time, time and value of a point, and what it becomes. The converter started
/// at 100.
struct Case(&'static str, &'static [(u64, u64, i64, &'static str)]);

const CASES: &[Case] = &[
    Case(
        "the first point of an old series is what the next ones are counted from",
        &[
            (50, 110, 7, "first"),
            (50, 120, 12, "110..120 +5"),
            (50, 130, 12, "120..130 +0"),
            (50, 140, 20, "130..140 +8"),
        ],
    ),
    Case(
        "the first point of a series that began since the converter started is a delta",
        &[(105, 110, 7, "105..110 +7"), (105, 120, 12, "110..120 +5")],
    ),
    Case("a series that began with the converter is new", &[(100, 110, 7, "100..110 +7")]),
    Case("a series without a start time may be old", &[(0, 110, 7, "first"), (0, 120, 9, "110..120 +2")]),
    Case(
        "a start at the time of the point says that the start is unknown",
        &[(110, 110, 7, "first"), (110, 120, 9, "110..120 +2")],
    ),
    Case("a start after the point says nothing", &[(120, 110, 7, "first")]),
    Case(
        "a process that restarts begins a new series",
        &[
            (50, 110, 7, "first"),
            (50, 120, 9, "110..120 +2"),
            (125, 130, 3, "125..130 +3"),
            (125, 140, 4, "130..140 +1"),
        ],
    ),
    Case(
        "two processes that report the same are told apart by their start",
        &[
            (101, 110, 70, "101..110 +70"),
            (102, 110, 5, "102..110 +5"),
            (101, 120, 71, "110..120 +1"),
            (102, 120, 9, "110..120 +4"),
        ],
    ),
    Case(
        "a duplicate is dropped",
        &[(101, 110, 7, "101..110 +7"), (101, 110, 7, "duplicate"), (101, 120, 9, "110..120 +2")],
    ),
    Case(
        "what is in a point that is out of order is in a later one",
        &[
            (101, 110, 7, "101..110 +7"),
            (101, 130, 9, "110..130 +2"),
            (101, 120, 8, "out_of_order"),
            (101, 140, 10, "130..140 +1"),
        ],
    ),
    Case(
        "a value that went down begins anew",
        &[(101, 110, 7, "101..110 +7"), (101, 120, 3, "reset"), (101, 130, 5, "120..130 +2")],
    ),
    Case(
        "without a time, the order of arrival counts",
        &[(0, 0, 7, "first"), (0, 0, 9, "110..0 +2"), (0, 0, 10, "120..0 +1")],
    ),
    Case(
        "the largest numbers there are",
        &[
            (101, 110, i64::MIN, "101..110 +-9223372036854775808"),
            (101, 120, i64::MAX, "reset"),
            (101, 130, i64::MAX, "120..130 +0"),
        ],
    ),
];

#[test]
fn every_rule_holds() {
    for Case(rule, points) in CASES {
        let mut converter = converter();
        for (round, &(start, time, value, expected)) in points.iter().enumerate() {
            let now = 110 + 10 * round as u64;
            assert_eq!(
                converted_to(&mut converter, &one(int(start, time, value)), now),
                expected,
                "{rule}, point {round}"
            );
        }
    }
}

#[test]
fn doubles_have_their_own_series() {
    let mut converter = converter();
    let double = |start, time, value| one(number(start, time, Value::AsDouble(value)));
    assert_eq!(converted_to(&mut converter, &double(101, 110, 1.5), 110), "101..110 +1.5");
    assert_eq!(converted_to(&mut converter, &double(101, 120, 4.0), 120), "110..120 +2.5");
    assert_eq!(converted_to(&mut converter, &one(int(101, 130, 9)), 130), "101..130 +9");
    assert_eq!(converted_to(&mut converter, &double(101, 140, 3.5), 140), "reset");
}

#[test]
fn a_value_that_is_no_number_is_passed_on_and_not_remembered() {
    let mut converter = converter();
    let double = |time, value| one(number(101, time, Value::AsDouble(value)));
    assert_eq!(converted_to(&mut converter, &double(110, 1.5), 110), "101..110 +1.5");
    assert_eq!(converted_to(&mut converter, &double(120, f64::NAN), 120), "101..120 +NaN");
    assert_eq!(converted_to(&mut converter, &double(130, f64::INFINITY), 130), "101..130 +inf");
    assert_eq!(converted_to(&mut converter, &double(140, 2.0), 140), "110..140 +0.5");
}

#[test]
fn a_point_without_a_value_does_not_end_its_series() {
    let mut converter = converter();
    assert_eq!(converted_to(&mut converter, &one(int(101, 110, 7)), 110), "101..110 +7");
    let mut flagged = int(101, 120, 0);
    flagged.flags = 1;
    assert_eq!(converted_to(&mut converter, &one(flagged), 120), "no_value");
    let mut empty = int(101, 120, 0);
    empty.value = None;
    assert_eq!(converted_to(&mut converter, &one(empty), 120), "no_value");
    assert_eq!(converted_to(&mut converter, &one(int(101, 130, 8)), 130), "110..130 +1");
}

/// DELTA-2
#[test]
fn a_series_that_was_forgotten_is_not_taken_for_a_new_one() {
    let limits = Limits { max_staleness: Duration::from_nanos(50), ..Limits::default() };
    let mut converter = Converter::new(limits, 100);
    assert_eq!(converted_to(&mut converter, &one(int(101, 110, 7)), 110), "101..110 +7");
    let other = request(vec![metric("other", sum(vec![int(161, 162, 1)]))]).encode_to_vec();
    let converted = converter.convert(&other, 162).unwrap();
    assert_eq!((converted.counts.forgotten.stale, converter.series()), (1, 1));
    assert_eq!(converted_to(&mut converter, &one(int(101, 170, 9)), 170), "first");
    // What began after it was last seen is new as before.
    assert_eq!(converted_to(&mut converter, &one(int(111, 170, 9)), 170), "111..170 +9");
}

#[test]
fn a_duplicate_is_a_sight_of_its_series_and_an_old_point_is_not() {
    let limits = Limits { max_staleness: Duration::from_nanos(50), ..Limits::default() };
    for (time, series) in [(110, 2), (109, 1)] {
        let mut converter = Converter::new(limits, 100);
        assert_eq!(converted_to(&mut converter, &one(int(101, 110, 7)), 110), "101..110 +7");
        converter.convert(&one(int(101, time, 7)), 150).unwrap();
        let other = request(vec![metric("other", sum(vec![int(161, 162, 1)]))]).encode_to_vec();
        converter.convert(&other, 162).unwrap();
        assert_eq!(converter.series(), series);
    }
}

/// DELTA-3
#[test]
fn memory_has_a_bound_and_the_least_recently_seen_leave_first() {
    let mut one_series = converter();
    one_series.convert(&one(int(101, 110, 7)), 110).unwrap();
    let limits = Limits { max_bytes: 10 * one_series.bytes(), ..Limits::default() };
    let mut converter = Converter::new(limits, 100);
    let named =
        |name: u64, time| request(vec![metric(&name.to_string(), sum(vec![int(101, time, 1)]))]).encode_to_vec();
    for name in 0..10 {
        assert_eq!(converter.convert(&named(name, 110), 110 + name).unwrap().counts.forgotten.memory, 0);
    }
    converter.convert(&named(0, 120), 120).unwrap();
    assert_eq!(converter.convert(&named(10, 121), 121).unwrap().counts.forgotten.memory, 1);
    assert_eq!((converter.series(), converter.bytes()), (10, limits.max_bytes));
    assert_eq!(converted_to(&mut converter, &named(0, 130), 130), "120..130 +0");
    assert_eq!(converted_to(&mut converter, &named(1, 130), 130), "first");

    // At once: others have that memory now, and nobody knows when the next request comes.
    assert_eq!(converter.set_max_bytes(4 * one_series.bytes()).memory, 6);
    assert_eq!((converter.series(), converter.bytes()), (4, 4 * one_series.bytes()));
    assert_eq!(converted_to(&mut converter, &named(1, 140), 140), "130..140 +0");

    // A request that finds no room has counts of its own, but nobody sees them: the next one has them too.
    let new = |name: u64| request(vec![metric(&name.to_string(), sum(vec![int(200, 201, 1)]))]).encode_to_vec();
    let many = (20..2_020).map(new).collect::<Vec<_>>().concat();
    let (mut refused, mut left) = (0, 0);
    let converted = loop {
        let mut pay = |_| {
            left -= 1;
            left >= 0
        };
        match converter.convert_within(&many, 150, &mut pay) {
            Ok(converted) => break converted,
            Err(_) => (refused, left) = (refused + 1, refused + 1),
        }
    };
    assert!(refused > 2 && converted.counts.forgotten.memory > 2_000, "{refused} {:?}", converted.counts);
}

#[test]
fn a_clock_that_is_set_back_forgets_nothing() {
    let mut converter = converter();
    assert_eq!(converted_to(&mut converter, &one(int(101, 110, 7)), u64::MAX), "101..110 +7");
    assert_eq!(converted_to(&mut converter, &one(int(101, 120, 9)), 0), "110..120 +2");
}
