//! Every field of every message in JSON, one at a time: each right spelling, each wrong type. What the fields are comes
//! from the compiled definitions.

use prost_reflect::Kind;
use weir_otlp::{Error, Problem, Signal, from_json, validate};
use weir_testkit::fields::{Document, Field};

use crate::model::{LIMITS, Request, assert_same};
use crate::reflect;

/// Every field of every signal.
fn every_field() -> impl Iterator<Item = (Signal, Field)> {
    Signal::ALL.into_iter().flat_map(|signal| Field::every(signal).into_iter().map(move |field| (signal, field)))
}

/// Spellings of values that a field takes, of one element if it is a list. The library on the other side reads the
/// same.
fn right(field: &Field) -> Vec<String> {
    let spellings: &[&str] = match field.descriptor().kind() {
        Kind::Bool => &["true", "false"],
        Kind::Int32 | Kind::Sint32 => &["0", "-1", "\"7\"", "2147483647", "\"-2147483648\""],
        Kind::Uint32 | Kind::Fixed32 => &["0", "\"7\"", "4294967295"],
        Kind::Int64 | Kind::Sfixed64 => &["0", "\"-1\"", "7", "\"9223372036854775807\"", "-9223372036854775808"],
        Kind::Uint64 | Kind::Fixed64 => &["0", "\"7\"", "\"18446744073709551615\"", "18446744073709551615"],
        Kind::Double => {
            &["0", "-0.0", "1.5", "\"-1.5\"", "5e-324", "1e300", "\"NaN\"", "\"Infinity\"", "\"-Infinity\""]
        }
        Kind::String => &[r#""""#, r#""a\u00e9\n😀""#],
        Kind::Bytes if field.is_id() => &[r#""""#, r#""00aBfF""#],
        Kind::Bytes => &[r#""""#, r#""+/+/AQ==""#],
        Kind::Message(_) => &["{}"],
        Kind::Enum(definition) => {
            let names = definition.values().map(|value| format!("{:?}", value.name()));
            return names.chain(["0", "1", "99", "-1"].map(str::to_owned)).collect();
        }
        other => unreachable!("OTLP has no field of type {other:?}"),
    };
    spellings.iter().map(|spelling| (*spelling).to_owned()).collect()
}

#[test]
fn every_right_spelling_of_every_field_is_read() {
    let mut checked = 0;
    for (signal, field) in every_field() {
        let is_list = field.descriptor().is_list();
        let values = right(&field).into_iter().map(|value| if is_list { format!("[{value}]") } else { value });
        for value in values.chain(["null".to_owned()]) {
            let text = field.json(&value).text;
            let ours = match from_json(signal, text.as_bytes(), &LIMITS, usize::MAX) {
                Ok(bytes) => Request::decode(signal, &bytes),
                Err(error) => panic!("{error}: {text}"),
            };
            assert_same(&ours, &Request::decode(signal, &reflect::from_json(signal, text.as_bytes())));
            checked += 1;
        }
    }
    assert!(checked > 1500, "only {checked} values");
}

#[test]
fn every_wrong_type_of_every_field_is_refused_where_it_stands() {
    let mut checked = 0;
    for (signal, field) in every_field() {
        for Document { text, path, value } in field.wrong_json() {
            match from_json(signal, text.as_bytes(), &LIMITS, usize::MAX) {
                Err(Error::Json { message, line: 1, column, path: found, .. }) => {
                    assert_eq!(found, path, "{message}: {text}");
                    assert!((value.start..=value.end + 1).contains(&column), "{column} in {text}");
                }
                other => panic!("{other:?}: {text}"),
            }
            checked += 1;
        }
    }
    assert!(checked > 1500, "only {checked} values");
}

/// The same in protobuf: a field with any wire type but its own.
#[test]
fn every_wrong_wire_type_of_every_field_is_refused_under_its_path() {
    for (signal, field) in every_field() {
        for bytes in field.wrong_protobuf() {
            match validate(signal, &bytes, &LIMITS) {
                Err(Error::Wire { problem: Problem::WireType, path, .. }) => assert_eq!(path, field.protobuf_path()),
                other => panic!("{}: {other:?}", field.protobuf_path()),
            }
        }
    }
}

#[test]
fn unknown_names_are_ignored_in_every_message() {
    for (signal, field) in every_field() {
        let Kind::Message(_) = field.descriptor().kind() else { continue };
        let unknown = r#"{"newField":{"deep":[1,{"x":null}]},"":"\ud83d\ude00","name ":1e999999}"#;
        let [unknown, empty] = [unknown, "{}"].map(|value| {
            let value = if field.descriptor().is_list() { format!("[{value}]") } else { value.to_owned() };
            let text = field.json(&value).text;
            from_json(signal, text.as_bytes(), &LIMITS, usize::MAX).unwrap_or_else(|error| panic!("{error}: {text}"))
        });
        assert_eq!(unknown, empty);
    }
}
