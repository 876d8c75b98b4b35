//! The reference, docs/configuration.md, and the examples say what the table of fields says, no less and no more.

use std::collections::BTreeSet;

use serde_json::Value;
use weir_resources::table::{DefaultValue, Field, Group, Object, Older, Rule, Type};
use weir_resources::{Files, KINDS, Role, Version};

use crate::examples::examples;

const REFERENCE: &str = include_str!("../../../../docs/configuration.md");

const PIPELINES: [&str; 3] = ["TracePipeline", "MetricPipeline", "LogPipeline"];

/// The tables with the columns field, type, default and meaning: whose fields they hold, and under which names. An object
/// that is documented by itself is in one of them.
const TABLES: &[&[(&str, &str, &str)]] = &[
    &[("LogPipeline", "spec.input.otlp", "")],
    &[("LogPipeline", "spec.input.otlp.namespaces", "")],
    &[("TracePipeline", "spec.transform[]", "transform[]."), ("TracePipeline", "spec.filter[]", "filter[].")],
    &[
        ("MetricPipeline", "spec.input.prometheus", "prometheus."),
        ("MetricPipeline", "spec.input.istio", "istio."),
        ("MetricPipeline", "spec.input.runtime", "runtime."),
    ],
    &[("LogPipeline", "spec.input.runtime", "runtime.")],
    &[
        ("LogPipeline", "spec.filters[]", "filters[]."),
        ("LogPipeline", "spec.files[]", "files[]."),
        ("LogPipeline", "spec.variables[]", "variables[]."),
        ("LogPipeline", "spec.output.http", "output.http."),
    ],
    &[("LogPipeline", "metadata.annotations", "")],
    &[("MetricPipeline", "spec.output.otlp", "")],
    &[
        ("TracePipeline", "spec.output.otlp.endpoint", ""),
        ("TracePipeline", "spec.output.otlp.endpoint.valueFrom", "valueFrom."),
    ],
    &[("TracePipeline", "spec.output.otlp.headers[]", "")],
    &[("TracePipeline", "spec.output.otlp.authentication", "authentication.")],
    &[("TracePipeline", "spec.output.otlp.tls", "tls.")],
    &[("Secret", "", "")],
    &[("Telemetry", "", "")],
];

fn table(kind: &str) -> &'static Object {
    KINDS.iter().find(|known| known.name == kind).and_then(|kind| kind.fields).expect("the kind has a table")
}

/// What is in lists, and how often.
fn inner(of: Type) -> (Type, String) {
    match of {
        Type::List(of) => (inner(*of).0, format!("[]{}", inner(*of).1)),
        of => (of, String::new()),
    }
}

/// All fields of an object with their paths, those of objects in it as well.
fn all(object: &'static Object, parent: &str, found: &mut Vec<(String, &'static Field)>) {
    for field in object.fields() {
        let (of, list) = inner(field.of);
        let path = format!("{parent}{}{list}", field.name);
        found.push((path.clone(), field));
        if let Type::Object(object) = of {
            all(object, &format!("{path}."), found);
        }
    }
}

fn all_of(kind: &str) -> Vec<(String, &'static Field)> {
    let mut found = Vec::new();
    all(table(kind), "", &mut found);
    found
}

fn object(kind: &str, path: &str) -> &'static Object {
    if path.is_empty() {
        return table(kind);
    }
    let found = all_of(kind).into_iter().find(|(found, _)| found == path);
    match found.map(|(_, field)| inner(field.of).0) {
        Some(Type::Object(object)) => object,
        _ => panic!("{kind} has no {path}"),
    }
}

fn name_of(of: Type) -> String {
    let many = |of: Type| match of {
        Type::Object(Object { name: "", .. }) => "mappings".to_owned(),
        Type::Object(object) => object.name.to_owned(),
        of => name_of(of) + "s",
    };
    match of {
        Type::Any => "anything".to_owned(),
        Type::Text(name) => name.to_owned(),
        Type::Formed(form) => form.name.to_owned(),
        Type::Boolean => "boolean".to_owned(),
        Type::Count => "whole number, at least 1".to_owned(),
        Type::OneOf(_, names) => in_code(names),
        Type::List(of) => format!("list of {}", many(*of)),
        Type::Map(of) => format!("map of {}", many(*of)),
        Type::Object(Object { name: "", .. }) => "mapping".to_owned(),
        Type::Object(object) => object.name.to_owned(),
    }
}

fn default_of(object: &Object, field: &Field) -> String {
    let mut groups = object.groups_in(Version::V1Beta1);
    if let Some(group) = groups.find(|group| group.rule == Rule::ExactlyOne && group.names.contains(&field.name)) {
        return format!("exactly one of {}", in_code(group.names));
    }
    match field.default {
        _ if field.required => "required".to_owned(),
        DefaultValue::None => "none".to_owned(),
        DefaultValue::Boolean(value) => format!("`{value}`"),
        DefaultValue::Text(text) => format!("`{text}`"),
        DefaultValue::Words(words) => words.to_owned(),
    }
}

/// What goes with a field or not, told once for each pair.
fn beside(object: &Object, field: &Field) -> String {
    let sentence = |group: &Group| {
        let at = group.names.iter().position(|name| *name == field.name)?;
        match group.rule {
            Rule::AtMostOne if at > 0 => Some(format!(" Not beside {}.", in_code(&group.names[..at]))),
            Rule::AllOrNone if at == 0 => Some(format!(" Both this and {}, or neither.", in_code(&group.names[1..]))),
            _ => None,
        }
    };
    object.groups_in(Version::V1Beta1).filter_map(sentence).collect()
}

fn in_code(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The path of each field that has a meaning, and the other columns. Objects with a table of their own are not gone into.
fn rows(object: &'static Object, parent: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for field in object.fields().filter(|field| field.key(Version::V1Beta1).is_some()) {
        let path = if field.name.contains('/') { field.name.to_owned() } else { format!("{parent}{}", field.name) };
        let (of, list) = inner(field.of);
        if !field.about.is_empty() {
            let (default, beside) = (default_of(object, field), beside(object, field));
            let columns = format!("{} | {default} | {}{beside} |", name_of(field.of), field.about);
            found.push((path.clone(), columns));
        }
        if let Type::Object(object @ Object { name: "", .. }) = of {
            found.extend(rows(object, &format!("{path}{list}.")));
        }
    }
    found
}

/// The table that is for all kinds of pipelines.
fn of_pipelines() -> String {
    let of_kinds = PIPELINES.map(|kind| rows(table(kind), ""));
    let mut merged: Vec<&(String, String)> = Vec::new();
    // The TracePipeline, which has the fewest, comes last.
    for row in of_kinds.iter().cycle().skip(1).take(3).flatten() {
        if !merged.contains(&row) {
            // Beside those of the same parent.
            let parent = |row: &(String, String)| row.0.rsplit_once('.').map(|(parent, _)| parent.to_owned());
            let after = merged.iter().rposition(|known| parent(known) == parent(row));
            merged.insert(after.map_or(merged.len(), |after| after + 1), row);
        }
    }
    let mut text =
        "| field | `Trace` | `Metric` | `Log` | type | default | meaning |\n|---|---|---|---|---|---|---|\n".to_owned();
    for row in merged {
        let [trace, metric, log] = of_kinds.each_ref().map(|rows| if rows.contains(row) { "yes" } else { "" });
        text += &format!("| `{}` | {trace} | {metric} | {log} | {}\n", row.0, row.1);
    }
    text
}

fn rendered(objects: &[(&str, &str, &str)]) -> String {
    let mut text = "| field | type | default | meaning |\n|---|---|---|---|\n".to_owned();
    for (path, columns) in objects.iter().flat_map(|(kind, path, prefix)| rows(object(kind, path), prefix)) {
        text += &format!("| `{path}` | {columns}\n");
    }
    text
}

/// What the older version has in other words.
fn older() -> String {
    let mut lines: Vec<String> = Vec::new();
    for (path, field) in KINDS.iter().filter(|kind| kind.fields.is_some()).flat_map(|kind| all_of(kind.name)) {
        let parent = path.strip_suffix(field.name).unwrap_or_default();
        let line = match field.older {
            Older::Same => continue,
            Older::Named(name) => format!("| `{parent}{name}` | `{path}` |\n"),
            Older::Opposite(name) => format!("| `{parent}{name}` | `{path}`, the opposite |\n"),
            Older::Missing => format!("| not there | `{path}` |\n"),
            Older::Only => format!("| `{path}` | not there |\n"),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    format!("| v1alpha1 | v1beta1 |\n|---|---|\n{}", lines.concat())
}

#[test]
fn the_reference_has_every_field_as_the_table_has_it() {
    let mut tables: Vec<String> = TABLES.iter().map(|objects| rendered(objects)).collect();
    tables.extend([of_pipelines(), older()]);
    // Each with the empty line that ends it.
    let wrong: Vec<_> = tables.iter().filter(|table| !REFERENCE.contains(&format!("\n{table}\n"))).cloned().collect();
    assert!(wrong.is_empty(), "docs/configuration.md has to say:\n\n{}", wrong.join("\n"));
    for header in ["\n| field |", "\n| v1alpha1 |"] {
        let known = tables.iter().filter(|table| format!("\n{table}").starts_with(header)).count();
        assert_eq!(REFERENCE.matches(header).count(), known, "of tables that start with {header}");
    }
}

#[test]
fn every_object_with_a_name_has_a_table_in_the_reference() {
    let name = |of| if let Type::Object(Object { name, .. }) = inner(of).0 { *name } else { "" };
    let documented: BTreeSet<_> =
        TABLES.iter().copied().flatten().map(|(kind, path, _)| object(kind, path).name).collect();
    for (path, field) in KINDS.iter().filter(|kind| kind.fields.is_some()).flat_map(|kind| all_of(kind.name)) {
        let name = name(field.of);
        assert!(documented.contains(name), "{path}: {name}");
        let anchor = name.split_once("(#").map(|(_, anchor)| anchor.trim_end_matches(')'));
        let heading = |line: &str| {
            let text = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            line.starts_with('#') && anchor == Some(text.replace(['`', '.'], "").as_str())
        };
        assert!(anchor.is_none() || REFERENCE.lines().any(heading), "{path}: {name}");
    }
}

/// The fields of a value, or all that there can be. Paths begin anew in what is documented by itself.
fn fields(of: Type, value: Option<&Value>, parent: &str, found: &mut BTreeSet<String>) {
    match of {
        Type::List(of) => match value.and_then(Value::as_array) {
            Some(items) => items.iter().for_each(|item| fields(*of, Some(item), parent, found)),
            None => fields(*of, value, parent, found),
        },
        Type::Object(object) => {
            let parent = if object.name.is_empty() { parent } else { object.name };
            let looked_at = |field: &&Field| !matches!((field.of, field.older), (Type::Any, _) | (_, Older::Only));
            for field in object.fields().filter(looked_at) {
                let inner = value.map(|value| &value[field.name]);
                if inner.is_none_or(|inner| !inner.is_null()) {
                    let path = format!("{parent} {}", field.name);
                    fields(field.of, inner, &path, found);
                    found.insert(path);
                }
            }
        }
        _ => {}
    }
}

/// They load without a word, so that the table has all that is in them.
#[test]
fn the_examples_have_every_field_but_those_that_are_warned_of() {
    let (mut known, mut given) = (BTreeSet::new(), BTreeSet::new());
    let files = Files::read(&[examples()]);
    let documents: Vec<_> = files.documents().unwrap().into_iter().flat_map(|(_, documents)| documents).collect();
    for kind in KINDS.iter().filter(|kind| kind.fields.is_some() && kind.role != Role::List) {
        fields(Type::Object(table(kind.name)), None, "", &mut known);
        for document in documents.iter().filter(|document| document["kind"] == kind.name) {
            fields(Type::Object(table(kind.name)), Some(document), "", &mut given);
        }
    }
    let warned = |path: &&String| {
        [" spec trace", " spec log", " spec metric gateway"].iter().any(|gateway| path.starts_with(gateway))
    };
    let missing: Vec<_> = known.difference(&given).filter(|path| !warned(path)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
