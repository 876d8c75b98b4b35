//! OTLP JSON as people write it: attributes are objects, values are plain.

use serde_json::{Map, Value, json};

/// Fields that hold key-value pairs.
const MAPS: [&str; 3] = ["attributes", "filteredAttributes", "metadata"];

/// Plain JSON to OTLP JSON.
pub(crate) fn to_otlp(plain: &Value) -> Value {
    match plain {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let value = match value {
                    Value::Object(entries) if MAPS.contains(&name.as_str()) => pairs(entries),
                    value if name == "body" => any(value),
                    value => to_otlp(value),
                };
                (name.clone(), value)
            })
            .collect(),
        Value::Array(items) => items.iter().map(to_otlp).collect(),
        scalar => scalar.clone(),
    }
}

fn pairs(entries: &Map<String, Value>) -> Value {
    entries.iter().map(|(key, value)| json!({"key": key, "value": any(value)})).collect()
}

/// A value as an `AnyValue`; `{"$bytes": base64}` is bytes.
fn any(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(number) if number.is_i64() => json!({"intValue": number.to_string()}),
        Value::Number(number) => json!({"doubleValue": number}),
        Value::String(text) => json!({"stringValue": text}),
        Value::Array(items) => json!({"arrayValue": {"values": items.iter().map(any).collect::<Value>()}}),
        Value::Object(entries) => match entries.get("$bytes") {
            Some(bytes) => json!({"bytesValue": bytes}),
            None => json!({"kvlistValue": {"values": pairs(entries)}}),
        },
    }
}

/// OTLP JSON to plain JSON; numbers in strings become numbers where they are values of attributes.
pub(crate) fn from_otlp(otlp: &Value) -> Value {
    match otlp {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let value = match value {
                    Value::Array(pairs) if MAPS.contains(&name.as_str()) => from_pairs(pairs),
                    value if name == "body" => from_any(value),
                    value => from_otlp(value),
                };
                (name.clone(), value)
            })
            .collect(),
        Value::Array(items) => items.iter().map(from_otlp).collect(),
        scalar => scalar.clone(),
    }
}

fn from_pairs(pairs: &[Value]) -> Value {
    pairs.iter().map(|pair| (pair["key"].as_str().unwrap().to_owned(), from_any(&pair["value"]))).collect()
}

fn from_any(any: &Value) -> Value {
    let Some((kind, value)) = any.as_object().and_then(|any| any.iter().next()) else { return Value::Null };
    match kind.as_str() {
        "intValue" => json!(value.as_str().unwrap().parse::<i64>().unwrap()),
        "doubleValue" => json!(value.as_f64().unwrap()),
        "arrayValue" => value["values"].as_array().map_or(json!([]), |items| items.iter().map(from_any).collect()),
        "kvlistValue" => value["values"].as_array().map_or(json!({}), |items| from_pairs(items)),
        "bytesValue" => json!({"$bytes": value}),
        _ => value.clone(),
    }
}
