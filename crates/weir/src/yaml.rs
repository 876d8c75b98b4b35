//! Documents as YAML. Texts are written as JSON has them, which is YAML, too: nobody has to know which ones would need
//! quotes.

use std::fmt::Write as _;

use serde_json::Value;

/// Documents with lines between them.
pub(crate) fn documents(documents: &[Value]) -> String {
    let mut text = String::new();
    for document in documents {
        text += "---\n";
        write(document, 0, &mut text);
    }
    text
}

/// Writes a value that begins at a depth, with the end of its line.
fn write(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (index, (key, inner)) in map.iter().enumerate() {
                if index > 0 {
                    indent(depth, text);
                }
                *text += &key_of(key);
                text.push(':');
                nested(inner, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    indent(depth, text);
                }
                *text += "- ";
                write(item, depth + 1, text);
            }
        }
        // Writing to a String cannot fail.
        value => drop(writeln!(text, "{value}")),
    }
}

/// Writes what stands behind a key: on the same line if it is short enough for that.
fn nested(value: &Value, depth: usize, text: &mut String) {
    let inner = match value {
        Value::Object(map) if !map.is_empty() => depth + 1,
        Value::Array(items) if !items.is_empty() => depth,
        value => {
            text.push(' ');
            return write(value, depth, text);
        }
    };
    text.push('\n');
    indent(inner, text);
    write(value, inner, text);
}

fn indent(depth: usize, text: &mut String) {
    (0..depth).for_each(|_| *text += "  ");
}

/// A key, in quotes unless it is a plain word.
fn key_of(key: &str) -> String {
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
    // Words that YAML takes for something else.
    let means_more = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&&*key.to_lowercase());
    if is_plain && !means_more { key.to_owned() } else { Value::from(key).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_resources::{Files, Source};

    use super::*;

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let value = json!({
            "kind": "A", "empty": {}, "none": [], "text": "a: b\n- \"c\" # d", "yes": "on", "n": null,
            "numbers": [1, -2.5, 0], "nested": [[1, [2]], {"a": {"b": [true, {"c": "", "d": [{}]}]}, "e f": "~"}],
        });
        let text = documents(&[value.clone(), json!({"kind": "B"})]);
        let mut files = Files::read(&[]);
        files.sources.push(Source { name: "x.yaml".to_owned(), text: text.clone() });
        let read = files.documents().unwrap();
        assert_eq!(read[0].1, [value, json!({"kind": "B"})], "{text}");
    }

    #[test]
    fn people_can_read_it() {
        let value = json!({"a": {"b": [{"c": 1, "d": ["e"]}], "f": "g"}});
        assert_eq!(documents(&[value]), "---\na:\n  b:\n  - c: 1\n    d:\n    - \"e\"\n  f: \"g\"\n");
    }
}
