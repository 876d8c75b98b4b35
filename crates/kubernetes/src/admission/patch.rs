//! What was added to a value, as a JSON Patch (RFC 6902).

use serde_json::{Value, json};

/// The operations that make `to` of `from`. Mappings in `to` have all that they have in `from`.
pub(super) fn additions(from: &Value, to: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare(from, to, "", &mut operations);
    operations
}

fn compare(from: &Value, to: &Value, path: &str, operations: &mut Vec<Value>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for (key, value) in to {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                match from.get(key) {
                    Some(before) => compare(before, value, &path, operations),
                    None => operations.push(json!({"op": "add", "path": path, "value": value})),
                }
            }
        }
        (from, to) if from == to => {}
        (_, to) => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_in_it() {
        let from = json!({"a": {"b": 1, "n": null}, "c": [1, 2]});
        let to = json!({"a": {"b": 1, "n": {}, "d/e~f": {"g": [true]}}, "c": [1, 2]});
        let operations = [
            json!({"op": "add", "path": "/a/d~1e~0f", "value": {"g": [true]}}),
            json!({"op": "replace", "path": "/a/n", "value": {}}),
        ];
        assert_eq!(additions(&from, &to), operations);
        assert_eq!(additions(&to, &to), Vec::<Value>::new());
    }
}
