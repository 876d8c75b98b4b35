//! What is remembered across an orderly restart.

use std::time::Duration;

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, HistogramDataPoint};
use proptest::prelude::*;
use weir_temporality::{Converter, Limits, SnapshotError};

use crate::model::{converted_to, converter, exponential, histogram, int, number, one};

fn restored(converter: &Converter, now: u64) -> Converter {
    Converter::restore(&converter.snapshot(), Limits::default(), now).expect("a snapshot")
}

fn points(time: u64) -> [Vec<u8>; 4] {
    let buckets = |offset| Some(Buckets { offset, bucket_counts: vec![time, 0, 1] });
    [
        one(int(101, time, time.cast_signed())),
        one(number(101, time, Value::AsDouble(time as f64 / 4.0))),
        histogram(HistogramDataPoint {
            start_time_unix_nano: 101,
            time_unix_nano: time,
            count: time,
            sum: Some(time as f64),
            bucket_counts: vec![time - 5, 5],
            explicit_bounds: vec![0.1],
            ..HistogramDataPoint::default()
        }),
        exponential(ExponentialHistogramDataPoint {
            start_time_unix_nano: 101,
            time_unix_nano: time,
            count: 2 * time + 2,
            scale: -3,
            zero_threshold: 0.5,
            positive: buckets(7),
            negative: buckets(-7),
            ..ExponentialHistogramDataPoint::default()
        }),
    ]
}

#[test]
fn a_restored_converter_goes_on_as_if_nothing_had_been() {
    let mut before = converter();
    points(110).iter().for_each(|request| drop(before.convert(request, 110).unwrap()));
    let mut after = restored(&before, 500);
    assert_eq!((after.series(), after.bytes()), (4, before.bytes()));
    assert_eq!(after.snapshot(), before.snapshot());
    for request in points(520) {
        assert_eq!(converted_to(&mut after, &request, 520), converted_to(&mut before, &request, 520));
    }
    // What began while nobody was there has never been seen.
    assert_eq!(converted_to(&mut after, &one(int(300, 530, 7)), 530), "300..530 +7");
}

#[test]
fn what_is_owed_is_still_owed() {
    let mut before = converter();
    let refused = before.convert(&one(int(101, 110, 7)), 110).unwrap().undo;
    before.convert(&one(int(101, 120, 9)), 120).unwrap();
    before.undo(refused);
    assert_eq!(converted_to(&mut restored(&before, 125), &one(int(101, 130, 10)), 130), "120..130 +8");
}

#[test]
fn what_has_become_stale_is_forgotten() {
    let mut before = converter();
    before.convert(&one(int(101, 110, 7)), 110).unwrap();
    let limits = Limits { max_staleness: Duration::from_nanos(50), ..Limits::default() };
    let mut after = Converter::restore(&before.snapshot(), limits, 161).unwrap();
    assert_eq!((after.series(), after.bytes()), (0, 0));
    assert_eq!(converted_to(&mut after, &one(int(101, 170, 9)), 170), "first");
}

#[test]
fn a_snapshot_keeps_to_the_limits_of_who_restores_it() {
    let mut before = converter();
    points(110).iter().for_each(|request| drop(before.convert(request, 110).unwrap()));
    let limits = Limits { max_bytes: before.bytes() - 1, ..Limits::default() };
    let after = Converter::restore(&before.snapshot(), limits, 110).unwrap();
    assert_eq!(after.series(), 3);
    assert!(after.bytes() <= limits.max_bytes);
}

/// The format of version 1: what is written must be readable by the next program.
#[test]
fn the_format_is_known() {
    let mut converter = converter();
    converter.convert(&one(int(101, 110, 7)), 110).unwrap();
    let snapshot = converter.snapshot();
    let (head, body) = snapshot.split_at(21);
    assert_eq!(&head[..5], b"WTMP\x01");
    let known_from = [&[0x09][..], &100u64.to_le_bytes()].concat();
    assert_eq!(&body[..9], known_from);
    let last_point = [&[0x19][..], &110u64.to_le_bytes(), &[0x21], &110u64.to_le_bytes(), &[0x2a, 9, 0x09]].concat();
    assert_eq!(body[11 + 18..][..last_point.len()], last_point);
}

#[test]
fn damage_is_told() {
    let restore = |bytes: &[u8]| Converter::restore(bytes, Limits::default(), 0).unwrap_err();
    assert_eq!(restore(b""), SnapshotError::Magic);
    assert_eq!(restore(b"something else"), SnapshotError::Magic);
    assert_eq!(restore(b"WTMP"), SnapshotError::Checksum);
    assert_eq!(restore(b"WTMP\x02..."), SnapshotError::Version(2));
    let snapshot = converter().snapshot();
    assert_eq!(restore(&snapshot[..snapshot.len() - 1]), SnapshotError::Checksum);
}

proptest! {
    #[test]
    fn bytes_of_any_kind(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let checksum = twox_hash::XxHash3_128::oneshot(&body).to_le_bytes();
        let restored = Converter::restore(&[b"WTMP\x01", &checksum[..], &body].concat(), Limits::default(), 0);
        prop_assert!(restored.is_ok());
    }
}
