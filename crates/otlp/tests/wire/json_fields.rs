//! Every field of every message in JSON, one at a time: each right spelling, each wrong type. What the fields are comes
//! from the compiled definitions.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use weir_otlp::{Error, Signal, from_json};

use crate::model::{LIMITS, Request, assert_same};
use crate::reflect;

/// Calls back with the way to each field of a request, the field last. Values inside values are followed once.
fn each_field(message: &MessageDescriptor, way: &mut Vec<FieldDescriptor>, visit: &mut impl FnMut(&[FieldDescriptor])) {
    for field in message.fields() {
        let seen = way.iter().any(|outer| outer.parent_message() == field.parent_message());
        if seen {
            return;
        }
        way.push(field.clone());
        visit(way);
        if let Kind::Message(inner) = field.kind() {
            each_field(&inner, way, visit);
        }
        way.pop();
    }
}

/// A request with one field in it, and where that stands.
struct Document {
    text: String,
    /// The path that an error in the value has.
    path: String,
    /// Bytes of `text` that are the value.
    value: std::ops::Range<usize>,
}

/// The request with `value` for the last field on the way. Messages in lists stand behind an empty one.
fn document(way: &[FieldDescriptor], value: &str) -> Document {
    let (last, outer) = way.split_last().unwrap();
    let (mut text, mut path, mut end) = (String::new(), String::new(), String::new());
    for field in outer {
        let (open, close, index) = if field.is_list() { ("[{},", "]}", "[1]") } else { ("", "}", "") };
        text.push_str(&format!(r#"{{"{}":{open}"#, field.json_name()));
        path.push_str(&format!("{}{index}.", field.json_name()));
        end.insert_str(0, close);
    }
    text.push_str(&format!(r#"{{"{}":"#, last.json_name()));
    path.push_str(last.json_name());
    let start = text.len();
    text.push_str(value);
    let range = start..text.len();
    text.push('}');
    text.push_str(&end);
    Document { text, path, value: range }
}

fn is_id(field: &FieldDescriptor) -> bool {
    field.name().ends_with("trace_id") || field.name().ends_with("span_id")
}

/// Spellings of values that a field takes, of one element if it is a list. The library on the other side reads the
/// same.
fn right(field: &FieldDescriptor) -> Vec<String> {
    let spellings: &[&str] = match field.kind() {
        Kind::Bool => &["true", "false"],
        Kind::Int32 | Kind::Sint32 => &["0", "-1", "\"7\"", "2147483647", "\"-2147483648\""],
        Kind::Uint32 | Kind::Fixed32 => &["0", "\"7\"", "4294967295"],
        Kind::Int64 | Kind::Sfixed64 => &["0", "\"-1\"", "7", "\"9223372036854775807\"", "-9223372036854775808"],
        Kind::Uint64 | Kind::Fixed64 => &["0", "\"7\"", "\"18446744073709551615\"", "18446744073709551615"],
        Kind::Double => {
            &["0", "-0.0", "1.5", "\"-1.5\"", "5e-324", "1e300", "\"NaN\"", "\"Infinity\"", "\"-Infinity\""]
        }
        Kind::String => &[r#""""#, r#""a\u00e9\n😀""#],
        Kind::Bytes if is_id(field) => &[r#""""#, r#""00aBfF""#],
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

/// What a field does not take, of one element if it is a list.
fn wrong(field: &FieldDescriptor) -> &'static [&'static str] {
    match field.kind() {
        Kind::Bool => &["0", "1", "\"true\"", "\"\"", "[]", "{}"],
        Kind::Int32 | Kind::Sint32 => &["true", "\"x\"", "\"\"", "1.5", "2147483648", "\"-2147483649\"", "[]", "{}"],
        Kind::Uint32 | Kind::Fixed32 => &["true", "\"x\"", "\"\"", "1.5", "-1", "4294967296", "[]", "{}"],
        Kind::Int64 | Kind::Sfixed64 => &["true", "\"x\"", "\"NaN\"", "0.1", "9223372036854775808", "1e30", "[]", "{}"],
        Kind::Uint64 | Kind::Fixed64 => &["true", "\"x\"", "\"NaN\"", "0.1", "-1", "18446744073709551616", "[]", "{}"],
        Kind::Double => &["true", "\"x\"", "\"inf\"", "\"nan\"", "\"\"", "[]", "{}"],
        Kind::String => &["true", "1", "1.5", "[]", "{}"],
        Kind::Bytes if is_id(field) => &["true", "1", "\"0\"", "\"0x\"", "[]", "{}"],
        Kind::Bytes => &["true", "1", "\"*\"", "\"A\"", "[1]", "{}"],
        Kind::Message(_) => &["true", "1", "\"x\"", "[]"],
        Kind::Enum(_) => &["true", "\"NO_SUCH_NAME\"", "\"\"", "1.5", "2147483648", "[]", "{}"],
        other => unreachable!("OTLP has no field of type {other:?}"),
    }
}

/// Every field of every signal, with what leads to it.
fn every_field(mut visit: impl FnMut(Signal, &[FieldDescriptor])) {
    for signal in Signal::ALL {
        each_field(&reflect::request(signal), &mut Vec::new(), &mut |way| visit(signal, way));
    }
}

#[test]
fn every_right_spelling_of_every_field_is_read() {
    let mut checked = 0;
    every_field(|signal, way| {
        let field = way.last().unwrap();
        let values = right(field).into_iter().map(|value| if field.is_list() { format!("[{value}]") } else { value });
        for value in values.chain(["null".to_owned()]) {
            let text = document(way, &value).text;
            let ours = match from_json(signal, text.as_bytes(), &LIMITS, usize::MAX) {
                Ok(bytes) => Request::decode(signal, &bytes),
                Err(error) => panic!("{error}: {text}"),
            };
            assert_same(&ours, &Request::decode(signal, &reflect::from_json(signal, text.as_bytes())));
            checked += 1;
        }
    });
    assert!(checked > 1500, "only {checked} values");
}

#[test]
fn every_wrong_type_of_every_field_is_refused_where_it_stands() {
    let mut checked = 0;
    every_field(|signal, way| {
        let field = way.last().unwrap();
        let elements = wrong(field).iter().map(|value| (*value).to_owned());
        let values: Vec<_> = if field.is_list() {
            let first = elements.chain(["null".to_owned()]).map(|value| (format!("[{value}]"), "[0]"));
            let whole = ["true", "1", "\"x\"", "{}"].map(|value| (value.to_owned(), ""));
            first.chain(whole).collect()
        } else {
            elements.map(|value| (value, "")).collect()
        };
        for (value, index) in values {
            let Document { text, path, value } = document(way, &value);
            match from_json(signal, text.as_bytes(), &LIMITS, usize::MAX) {
                Err(Error::Json { message, line: 1, column, path: found }) => {
                    assert_eq!(found, format!("{path}{index}"), "{message}: {text}");
                    assert!((value.start..=value.end + 1).contains(&column), "{column} in {text}");
                }
                other => panic!("{other:?}: {text}"),
            }
            checked += 1;
        }
    });
    assert!(checked > 1500, "only {checked} values");
}

#[test]
fn unknown_names_are_ignored_in_every_message() {
    every_field(|signal, way| {
        let field = way.last().unwrap();
        let Kind::Message(_) = field.kind() else { return };
        let unknown = r#"{"newField":{"deep":[1,{"x":null}]},"":"\ud83d\ude00","name ":1e999999}"#;
        let [unknown, empty] = [unknown, "{}"].map(|value| {
            let value = if field.is_list() { format!("[{value}]") } else { value.to_owned() };
            let text = document(way, &value).text;
            from_json(signal, text.as_bytes(), &LIMITS, usize::MAX).unwrap_or_else(|error| panic!("{error}: {text}"))
        });
        assert_eq!(unknown, empty);
    });
}
