//! What an API server is told of the kinds: structural OpenAPI v3 schemas with rules, made of the table of fields, and
//! the CustomResourceDefinitions that hold them.
//!
//! An API server checks less than this crate does: what needs more than one look at a field is left to a webhook.

mod definition;
mod rules;
mod status;

use serde_json::{Map, Value, json};

use crate::document::Version;
use crate::document::table::{DefaultValue, Field, Form, Object, Type, Written};

pub use definition::{ConversionWebhook, custom_resource_definitions, of_kind};

/// The schema of a mapping in a version. `key` is where it stands, for messages.
fn of_object(object: &'static Object, key: &str, version: Version) -> Value {
    let fields = || object.fields().filter_map(|field| Some((field.key(version)?, field)));
    let properties: Map<_, _> = fields().map(|(key, field)| (key.to_owned(), of_field(field, key, version))).collect();
    let required: Vec<_> = fields().filter(|(_, field)| field.required).map(|(key, _)| key).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    let rules = rules::of_object(object, key, version);
    if !rules.is_empty() {
        schema["x-kubernetes-validations"] = rules.into();
    }
    schema
}

fn of_field(field: &Field, key: &str, version: Version) -> Value {
    let mut schema = of_type(field.of, key, version);
    let description = description(field, version);
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    if let (Written::DefaultInSchema, Some(default)) = (field.written, field.default.json()) {
        schema["default"] = default;
    }
    schema
}

/// The schema of what a field takes that stands under `key`, or in a list or a map there.
pub fn of_type(of: Type, key: &str, version: Version) -> Value {
    match of {
        Type::Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
        Type::Text(_) => json!({"type": "string"}),
        Type::Formed(form) => of_form(form),
        Type::Boolean => json!({"type": "boolean"}),
        Type::Count => json!({"type": "integer", "format": "int32", "minimum": 1}),
        Type::OneOf(_, names) => json!({"type": "string", "enum": names}),
        Type::List(of) => json!({"type": "array", "items": of_type(*of, key, version)}),
        Type::Map(of) => json!({"type": "object", "additionalProperties": of_type(*of, key, version)}),
        Type::Object(object) => of_object(object, key, version),
    }
}

fn of_form(form: &Form) -> Value {
    let Form { name: _, min_length, max_length, pattern, format, rule } = *form;
    let mut schema = json!({"type": "string"});
    let mut set = |key: &str, value: Value| schema[key] = value;
    if min_length > 0 {
        set("minLength", min_length.into());
    }
    max_length.into_iter().for_each(|length| set("maxLength", length.into()));
    pattern.into_iter().for_each(|pattern| set("pattern", pattern.into()));
    format.into_iter().for_each(|format| set("format", format.into()));
    rule.into_iter().for_each(|(rule, message)| {
        set("x-kubernetes-validations", json!([{"rule": rule, "message": message}]));
    });
    schema
}

/// What a field means, and what it is by default.
fn description(field: &Field, version: Version) -> String {
    if field.is_opposite(version) {
        return format!("The opposite of `{}` in {}.", field.name, Version::V1Beta1.name());
    }
    let about = plain(field.about);
    let default = match field.default {
        DefaultValue::None => return about,
        DefaultValue::Boolean(value) => format!("Default: {value}."),
        DefaultValue::Text(text) => format!("Default: {text}."),
        DefaultValue::Words(words) => format!("Default: {}.", plain(words)),
    };
    format!("{about} {default}").trim_start().to_owned()
}

/// Text for a terminal: of links, what they are called.
fn plain(markdown: &str) -> String {
    let (mut text, mut rest) = (String::new(), markdown);
    while let Some((before, link)) = rest.split_once('[') {
        let Some((name, (_, after))) = link.split_once("](").and_then(|(name, end)| Some((name, end.split_once(')')?)))
        else {
            break;
        };
        text += before;
        text += name;
        rest = after;
    }
    (text + rest).replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_what_they_are_called() {
        for (markdown, text) in [
            ("[Address](#endpoint) of the backend.", "Address of the backend."),
            ("a [b](c) and `d` **e** [f](g.md#h), i", "a b and `d` e f, i"),
            ("a[0] and (b)", "a[0] and (b)"),
        ] {
            assert_eq!(plain(markdown), text);
        }
    }
}
