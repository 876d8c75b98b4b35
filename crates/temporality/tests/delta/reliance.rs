//! Points that are dropped because of others whose requests are not decided.

use weir_temporality::{Converter, Reliance, Undo};

use crate::model::{converter, int, metric, one, request, sum};
use prost::Message as _;

fn at(time: u64) -> Vec<u8> {
    one(int(101, time, time.cast_signed()))
}

fn convert(converter: &mut Converter, request: &[u8]) -> (Undo, Option<Reliance>) {
    let converted = converter.convert(request, 110).expect("a valid request");
    (converted.undo, converted.reliance)
}

/// What a request relies on.
fn reliance(converter: &mut Converter, request: &[u8]) -> Option<Reliance> {
    convert(converter, request).1
}

#[test]
fn a_duplicate_relies_on_what_is_not_decided() {
    for (stands, time) in [(true, 120), (false, 120), (true, 110), (false, 110)] {
        let mut converter = converter();
        let (first, none) = convert(&mut converter, &at(120));
        assert!(none.is_none() && !converter.is_decided());
        let relies = reliance(&mut converter, &at(time)).expect("it relies on the first");
        assert_eq!(relies.holds(), None);
        if stands {
            drop(first);
        } else {
            converter.undo(first);
        }
        assert_eq!(relies.holds(), Some(stands));
        assert!(converter.is_decided());
        assert!(reliance(&mut converter, &at(time)).is_none());
    }
}

#[test]
fn a_point_relies_on_the_first_one_when_that_was_overtaken() {
    let mut converter = converter();
    let (first, _) = convert(&mut converter, &at(110));
    convert(&mut converter, &at(120));
    assert!(reliance(&mut converter, &at(120)).is_none(), "the second stands");
    let relies = reliance(&mut converter, &at(110)).expect("it relies on the first");
    assert_eq!(relies.holds(), None);
    drop(first);
    assert_eq!(relies.holds(), Some(true));
}

#[test]
fn a_point_relies_on_the_first_one_when_the_second_was_taken_back() {
    let mut converter = converter();
    let (_first, _) = convert(&mut converter, &at(110));
    let (second, _) = convert(&mut converter, &at(120));
    converter.undo(second);
    let relies = reliance(&mut converter, &at(110)).expect("it relies on the first");
    assert_eq!(relies.holds(), None);
}

#[test]
fn a_request_does_not_rely_on_itself_or_on_other_series() {
    let mut converter = converter();
    let points = vec![int(101, 120, 7), int(101, 120, 7), int(101, 110, 3)];
    assert!(reliance(&mut converter, &request(vec![metric("requests", sum(points))]).encode_to_vec()).is_none());
    let (_other, _) =
        convert(&mut converter, &request(vec![metric("other", sum(vec![int(101, 120, 7)]))]).encode_to_vec());
    assert!(reliance(&mut converter, &at(120)).is_none());
}
