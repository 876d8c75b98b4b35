//! Requests that are refused after their conversion.

use std::collections::{BTreeMap, VecDeque};

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, HistogramDataPoint};
use proptest::prelude::*;
use prost::Message as _;
use weir_temporality::{Converted, Converter, Undo, Undone};

use crate::model::{converted_to, converter, exponential, histogram, int, metric, metrics, one, outcome, request, sum};

fn convert(converter: &mut Converter, request: &[u8], expected: &str) -> Undo {
    let converted = converter.convert(request, 110).expect("a valid request");
    assert_eq!(outcome(&converted), expected);
    converted.undo
}

#[test]
fn a_series_goes_back_to_where_it_was() {
    let mut converter = converter();
    for (time, expected) in [(110, "101..110 +7"), (120, "110..120 +0")] {
        let request = one(int(101, time, 7));
        let before = converter.snapshot();
        let undo = convert(&mut converter, &request, expected);
        assert_eq!(converter.undo(undo), Undone { restored: 1, ..Undone::default() });
        if time > 110 {
            assert_eq!(converter.snapshot(), before);
        }
        convert(&mut converter, &request, expected);
    }
}

#[test]
fn a_first_point_that_was_refused_is_forgotten() {
    let mut converter = converter();
    let undo = convert(&mut converter, &one(int(50, 110, 7)), "first");
    converter.undo(undo);
    assert_eq!((converter.series(), converter.bytes()), (0, 0));
    convert(&mut converter, &one(int(50, 120, 9)), "first");
}

#[test]
fn a_delta_that_was_overtaken_is_owed() {
    let mut converter = converter();
    let refused = convert(&mut converter, &one(int(101, 110, 7)), "101..110 +7");
    convert(&mut converter, &one(int(101, 120, 9)), "110..120 +2");
    assert_eq!(converter.undo(refused), Undone { owed: 1, ..Undone::default() });
    convert(&mut converter, &one(int(101, 110, 7)), "out_of_order");
    let refused = convert(&mut converter, &one(int(101, 130, 10)), "120..130 +8");
    // Refused in turn, the next one owes it again.
    assert_eq!(converter.undo(refused), Undone { restored: 1, owed: 1, ..Undone::default() });
    convert(&mut converter, &one(int(101, 140, 11)), "120..140 +9");
    convert(&mut converter, &one(int(101, 150, 12)), "140..150 +1");
}

#[test]
fn what_a_histogram_is_owed_goes_with_the_same_buckets_only() {
    let explicit = |time, count, bound| {
        histogram(HistogramDataPoint {
            start_time_unix_nano: 101,
            time_unix_nano: time,
            count,
            bucket_counts: vec![count, 0],
            explicit_bounds: vec![bound],
            ..HistogramDataPoint::default()
        })
    };
    for (bound, expected, lost) in [(1.0, "130..140 +8 [8, 0] at [1.0]", 0), (2.0, "130..140 +1 [1, 0] at [2.0]", 1)] {
        let mut converter = converter();
        let refused = convert(&mut converter, &explicit(110, 7, 1.0), "101..110 +7 [7, 0] at [1.0]");
        convert(&mut converter, &explicit(120, 9, 1.0), "110..120 +2 [2, 0] at [1.0]");
        converter.convert(&explicit(130, 9, bound), 130).unwrap();
        converter.undo(refused);
        let next = explicit(140, 10, bound);
        let converted = converter.convert(&next, 140).unwrap();
        assert_eq!((outcome(&converted).as_str(), converted.counts.forgotten.owed), (expected, lost));
    }
}

/// An exponential histogram that began at 101, with positive values only.
fn positive(time: u64, scale: i32, offset: i32, counts: &[u64]) -> Vec<u8> {
    exponential(ExponentialHistogramDataPoint {
        start_time_unix_nano: 101,
        time_unix_nano: time,
        count: counts.iter().sum(),
        scale,
        positive: Some(Buckets { offset, bucket_counts: counts.to_vec() }),
        ..ExponentialHistogramDataPoint::default()
    })
}

/// Converts four points, of which the first is refused after the second, and tells what the last became.
fn last_of_four(points: [Vec<u8>; 4]) -> String {
    let mut converter = converter();
    let [refused, second, third, fourth] = points;
    let refused = converter.convert(&refused, 110).expect("a valid request").undo;
    converter.convert(&second, 120).expect("a valid request");
    assert_eq!(converter.undo(refused), Undone { owed: 1, ..Undone::default() });
    converter.convert(&third, 130).expect("a valid request");
    converted_to(&mut converter, &fourth, 140)
}

#[test]
fn what_an_exponential_histogram_is_owed_is_added_at_the_coarser_scale() {
    assert_eq!(
        last_of_four([
            positive(110, 2, -2, &[1, 2]),
            positive(120, 2, -2, &[1, 2, 0, 1]),
            // A duplicate: the owed goes with the next.
            positive(120, 2, -2, &[1, 2, 0, 1]),
            positive(140, 0, -1, &[3, 1, 4]),
        ]),
        "120..140 +7 scale 0 zero 0 within 0 positive -1[3, 0, 4]"
    );
}

#[test]
fn buckets_far_from_one_another_are_added_at_a_scale_that_has_room_for_both() {
    let high = i32::MAX - 9;
    let last = last_of_four([
        positive(110, 0, i32::MIN, &[5]),
        positive(120, 0, high, &[1]),
        positive(120, 0, high, &[1]),
        positive(140, 0, high, &[3]),
    ]);
    let (head, buckets) = last.split_once(" positive ").expect("positive buckets");
    assert_eq!(head, "120..140 +7 scale -24 zero 0 within 0");
    assert!(buckets.starts_with("-128[5, 0, ") && buckets.ends_with(", 0, 2]"), "{buckets}");
}

/// DELTA-2 comes before DELTA-1 when both cannot be had.
#[test]
fn nothing_is_owed_to_a_series_that_was_forgotten() {
    let mut converter = converter();
    let refused = convert(&mut converter, &one(int(101, 110, 7)), "101..110 +7");
    let other = request(vec![metric("other", sum(vec![int(50, 110, 1)]))]).encode_to_vec();
    converter.convert(&other, 4_000_000_000_000).unwrap();
    assert_eq!(converter.undo(refused), Undone { lost: 1, ..Undone::default() });
}

/// What happens next to the requests of one client.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// It counts up, measures, and sends.
    Send(i64),
    /// It sends again what was refused last.
    Resend,
    /// The answer to one of the requests under way: taken, or refused.
    Answer(prop::sample::Index, bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..100i64).prop_map(Event::Send),
        Just(Event::Resend),
        (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(which, taken)| Event::Answer(which, taken)),
    ];
    prop::collection::vec(event, 0..60)
}

/// One client with one series, and what the backend got of it.
struct World {
    converter: Converter,
    start: u64,
    time: u64,
    value: i64,
    under_way: Vec<(Vec<u8>, i64, Undo)>,
    refused: VecDeque<Vec<u8>>,
    delivered: i64,
    /// Value of the point that the first delta is counted from; `None` until a point stands.
    baseline: Option<i64>,
}

impl World {
    fn send(&mut self, request: Vec<u8>) {
        let Converted { request: converted, counts, undo, .. } =
            self.converter.convert(&request, self.time).expect("a valid request");
        if counts.dropped.first == 1 {
            self.baseline = Some(value(&request));
        }
        let delta = delta(&converted);
        drop(converted);
        self.under_way.push((request, delta, undo));
    }

    fn answer(&mut self, index: usize, taken: bool) {
        let (request, delta, undo) = self.under_way.swap_remove(index);
        if taken {
            self.delivered += delta;
        } else {
            self.converter.undo(undo);
            self.refused.push_back(request);
            if self.converter.series() == 0 {
                self.baseline = None;
            }
        }
    }

    fn run(&mut self, event: Event) {
        match event {
            Event::Send(more) => {
                self.time += 10;
                self.value += more;
                self.send(one(int(self.start, self.time, self.value)));
            }
            Event::Resend => {
                if let Some(request) = self.refused.pop_front() {
                    self.send(request);
                }
            }
            Event::Answer(index, taken) => {
                if !self.under_way.is_empty() {
                    self.answer(index.index(self.under_way.len()), taken);
                }
            }
        }
    }
}

fn value(request: &[u8]) -> i64 {
    let metrics = metrics(request);
    let Some(Data::Sum(sum)) = &metrics[0].data else { panic!("not a sum") };
    let Some(Value::AsInt(value)) = sum.data_points[0].value else { panic!("not an integer") };
    value
}

fn delta(converted: &[u8]) -> i64 {
    if converted.is_empty() { 0 } else { value(converted) }
}

proptest! {
    /// DELTA-1
    #[test]
    fn nothing_is_lost_or_counted_twice(is_new in any::<bool>(), events in events()) {
        let start = if is_new { 100 } else { 50 };
        let mut world = World {
            converter: converter(),
            start,
            time: 100,
            value: 0,
            under_way: Vec::new(),
            refused: VecDeque::new(),
            delivered: 0,
            baseline: is_new.then_some(0),
        };
        for event in events {
            world.run(event);
        }
        while !world.under_way.is_empty() {
            world.answer(0, true);
        }
        // The next point brings what is owed, and all that was not delivered yet.
        world.run(Event::Send(1));
        world.answer(0, true);
        let baseline = world.baseline.unwrap();
        prop_assert_eq!(world.delivered, world.value - baseline);
    }

    /// Of a histogram, bucket by bucket, with requests refused in any order.
    #[test]
    fn histograms_are_whole_too(steps in prop::collection::vec((0..9u64, 0..9u64, any::<bool>()), 1..30)) {
        let mut converter = converter();
        let mut counts = [0, 0];
        let mut delivered = [0, 0];
        let mut under_way = Vec::new();
        for (index, (left, right, taken)) in steps.iter().enumerate() {
            counts = [counts[0] + left, counts[1] + right];
            let point = explicit(110 + index as u64, counts);
            let converted = converter.convert(&point, 110).unwrap();
            let delta = buckets(&converted.request);
            if *taken {
                delivered = [delivered[0] + delta[0], delivered[1] + delta[1]];
            } else {
                under_way.push(converted.undo);
            }
        }
        for undo in under_way {
            converter.undo(undo);
        }
        let delta = buckets(&converter.convert(&explicit(1000, counts), 1000).unwrap().request);
        prop_assert_eq!([delivered[0] + delta[0], delivered[1] + delta[1]], counts);
    }
}

/// Values per bucket of an exponential histogram.
type Model = BTreeMap<i32, u64>;

/// The same at a scale lower by `bits`.
fn coarser(model: &Model, bits: i32) -> Model {
    let mut coarse = Model::new();
    model.iter().for_each(|(index, count)| *coarse.entry(index >> bits).or_default() += count);
    coarse
}

fn add(model: &mut Model, bits: i32, converted: &[u8]) {
    let metrics = metrics(converted);
    let Some(Data::ExponentialHistogram(histogram)) = &metrics[0].data else { panic!("not exponential") };
    let point = &histogram.data_points[0];
    let Some(Buckets { offset, bucket_counts }) = &point.positive else { return };
    assert_eq!(point.count, bucket_counts.iter().sum::<u64>());
    let delta = (*offset..).zip(bucket_counts.iter().copied()).filter(|(_, count)| *count > 0).collect();
    coarser(&delta, point.scale + bits)
        .into_iter()
        .for_each(|(index, count)| *model.entry(index).or_default() += count);
}

proptest! {
    /// Of an exponential histogram whose scale goes down, at its last scale.
    #[test]
    fn exponential_histograms_are_whole_too(
        steps in prop::collection::vec((-20..20i32, 1..200u64, prop::bool::weighted(0.2), any::<bool>()), 1..30),
    ) {
        let lowered = |steps: &[(i32, u64, bool, bool)]| steps.iter().map(|step| i32::from(step.2)).sum::<i32>();
        let last = lowered(&steps);
        let (mut model, mut delivered) = (Model::new(), Model::new());
        let mut converter = converter();
        let mut refused = Vec::new();
        // The last round brings what is owed.
        for (round, (value, count, lower, taken)) in steps.iter().copied().chain([(0, 1, false, true)]).enumerate() {
            let lowers = lowered(&steps[..steps.len().min(round + 1)]);
            model = coarser(&model, i32::from(lower));
            *model.entry(value >> lowers).or_default() += count;
            let offset = *model.keys().next().expect("a bucket");
            let end = *model.keys().last().expect("a bucket");
            let counts: Vec<_> = (offset..=end).map(|index| model.get(&index).copied().unwrap_or(0)).collect();
            if round == steps.len() {
                refused.drain(..).for_each(|undo| { converter.undo(undo); });
            }
            let request = positive(110 + round as u64, -lowers, offset, &counts);
            let converted = converter.convert(&request, 110).unwrap();
            prop_assert_eq!(converted.counts.converted, 1);
            if taken {
                add(&mut delivered, last, &converted.request);
            } else {
                refused.push(converted.undo);
            }
        }
        prop_assert_eq!(delivered, model);
    }
}

fn explicit(time: u64, counts: [u64; 2]) -> Vec<u8> {
    histogram(HistogramDataPoint {
        start_time_unix_nano: 101,
        time_unix_nano: time,
        count: counts[0] + counts[1],
        bucket_counts: counts.to_vec(),
        explicit_bounds: vec![0.1],
        ..HistogramDataPoint::default()
    })
}

fn buckets(converted: &[u8]) -> [u64; 2] {
    let metrics = metrics(converted);
    let Some(Data::Histogram(histogram)) = &metrics[0].data else { panic!("not a histogram") };
    let counts = &histogram.data_points[0].bucket_counts;
    [counts[0], counts[1]]
}

/// A request of several metrics that are converted, beside one that is not.
fn mixed(time: u64, value: i64) -> Vec<u8> {
    let count = value.cast_unsigned();
    let sums = (0..50).map(|index| metric(&format!("sum {index}"), sum(vec![int(101, time, value)])));
    let explicit = HistogramDataPoint {
        start_time_unix_nano: 101,
        time_unix_nano: time,
        count,
        bucket_counts: vec![count; 300],
        explicit_bounds: (1..300).map(f64::from).collect(),
        ..HistogramDataPoint::default()
    };
    let all = sums.map(|metric| request(vec![metric]).encode_to_vec());
    [all.collect::<Vec<_>>().concat(), histogram(explicit), one(int(0, 0, 0))].concat()
}

/// Memory is asked for before it is taken, and a conversion that does not get it has never been.
#[test]
fn a_conversion_without_memory_leaves_nothing_behind() {
    for first in [101, 110] {
        let mut model = converter();
        let mut converter = converter();
        if first == 110 {
            model.convert(&mixed(105, 3), 106).unwrap();
            converter.convert(&mixed(105, 3), 106).unwrap();
        }
        let request = mixed(first + 10, 7);
        let expected = model.convert(&request, 130).unwrap();
        let (mut refused, mut limit) = (0, 0);
        loop {
            let mut paid = 0;
            let mut pay = |more| {
                let is_there = paid + more <= limit;
                paid += if is_there { more } else { 0 };
                is_there
            };
            let converted = converter.convert_within(&request, 130, &mut pay);
            let Ok(converted) = converted else {
                refused += 1;
                limit += 5_000;
                continue;
            };
            assert_eq!((&converted.request, converted.counts), (&expected.request, expected.counts));
            assert!(paid >= converted.undo.bytes() + converted.request.len(), "{paid} bytes");
            break;
        }
        assert!(refused > 2, "{refused}");
        assert_eq!((converter.series(), converter.bytes()), (model.series(), model.bytes()));
    }
}
