//! The `spec` of a kind, from one version to the other: fields are renamed, turned around and left out as the table says
//! ([`crate::kinds::fields`]). Two rules are about values and stand here: empty ones, and namespaces of container logs.

use serde_json::{Map, Value, json};
use weir_plan::{Selector, Signal};

use crate::document::Version;
use crate::document::table::{Field, Object, Older, Type};
use crate::kinds::{Kind, Role};

/// Converts a `spec` to the version `to` from the other one.
pub(super) fn convert(kind: &Kind, mut spec: Value, to: Version) -> Value {
    let of = of_spec(kind);
    match to {
        Version::V1Beta1 => {
            spec.get_mut("output").into_iter().for_each(drop_empty_values);
            walk(of, &mut spec, to);
            container_logs(kind, &mut spec).into_iter().for_each(selector_up);
        }
        Version::V1Alpha1 => {
            container_logs(kind, &mut spec).into_iter().for_each(selector_down);
            walk(of, &mut spec, to);
        }
    }
    spec
}

/// Takes over, from what was kept, the fields that the older version does not have: nobody can have edited them there.
pub(super) fn restore_missing(kind: &Kind, spec: &mut Value, kept: &Value) {
    restore(of_spec(kind), spec, kept);
}

fn of_spec(kind: &Kind) -> Type {
    let mut fields = kind.fields.into_iter().flat_map(Object::fields);
    fields.find(|field| field.name == "spec").map_or(Type::Any, |field| field.of)
}

/// The input of container logs, in the current version.
fn container_logs<'a>(kind: &Kind, spec: &'a mut Value) -> Option<&'a mut Map<String, Value>> {
    let spec = (kind.role == Role::Pipeline(Signal::Logs)).then_some(spec)?;
    spec.pointer_mut("/input/runtime")?.as_object_mut()
}

fn walk(of: Type, value: &mut Value, to: Version) {
    match (of, value) {
        (Type::Object(object), Value::Object(map)) => {
            for field in object.fields() {
                convert_field(field, map, to);
                let inner = field.key(to).and_then(|key| map.get_mut(key));
                inner.into_iter().for_each(|inner| walk(field.of, inner, to));
            }
        }
        (Type::List(of), Value::Array(items)) => items.iter_mut().for_each(|item| walk(*of, item, to)),
        _ => {}
    }
}

fn convert_field(field: &Field, map: &mut Map<String, Value>, to: Version) {
    match (field.older, to) {
        (Older::Missing, Version::V1Alpha1) => drop(map.remove(field.name)),
        (Older::Named(older), Version::V1Beta1) => rename(map, older, field.name),
        (Older::Named(older), Version::V1Alpha1) => rename(map, field.name, older),
        (Older::Opposite(older), Version::V1Beta1) => {
            // Given in any case, so that the newer version need not know the default of the older.
            let opposite = map.remove(older) == Some(Value::Bool(true));
            map.insert(field.name.to_owned(), (!opposite).into());
        }
        (Older::Opposite(older), Version::V1Alpha1) => {
            if map.remove(field.name) == Some(Value::Bool(false)) {
                map.insert(older.to_owned(), true.into());
            }
        }
        (Older::Same | Older::Only, _) | (Older::Missing, Version::V1Beta1) => {}
    }
}

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}

fn restore(of: Type, value: &mut Value, kept: &Value) {
    let (Type::Object(object), Value::Object(map)) = (of, value) else { return };
    for field in object.fields() {
        let Some(kept) = kept.get(field.name) else { continue };
        if matches!(field.older, Older::Missing) {
            map.entry(field.name).or_insert_with(|| kept.clone());
        } else if let Some(inner) = map.get_mut(field.name) {
            restore(field.of, inner, kept);
        }
    }
}

/// An empty `value` beside a reference means nothing in the older version, and is refused by the newer.
fn drop_empty_values(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.contains_key("valueFrom") && object.get("value").is_some_and(|value| value == "") {
                object.remove("value");
            }
            object.values_mut().for_each(drop_empty_values);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_values),
        _ => {}
    }
}

/// Whether a selector names nothing.
fn is_open(namespaces: &Value) -> bool {
    if !(namespaces.is_object() || namespaces.is_null()) {
        return false;
    }
    let names_nothing = |key| match namespaces.get(key) {
        None | Some(Value::Null) => true,
        Some(names) => names.as_array().is_some_and(Vec::is_empty),
    };
    names_nothing("include") && names_nothing("exclude")
}

fn selector_up(runtime: &mut Map<String, Value>) {
    let namespaces = runtime.entry("namespaces").or_insert(Value::Null);
    let system = namespaces.get("system") == Some(&Value::Bool(true));
    if let Some(namespaces) = namespaces.as_object_mut() {
        namespaces.remove("system");
    }
    if is_open(namespaces) {
        *namespaces = if system { json!({}) } else { json!({"exclude": Selector::SYSTEM}) };
    }
}

fn selector_down(runtime: &mut Map<String, Value>) {
    let open = runtime.get("namespaces").is_some_and(|namespaces| !namespaces.is_null() && is_open(namespaces));
    if open {
        runtime.insert("namespaces".to_owned(), json!({"system": true}));
    }
}
