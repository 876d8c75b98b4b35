//! Defaults that are written into an object of a cluster, so that whoever reads the object sees them. What is written
//! is what would have been without it ([`crate::document::table::Written`]).

use serde_json::{Map, Value, json};
use weir_plan::Selector;

use super::Kind;
use crate::document::Version;
use crate::document::table::{DefaultValue, Field, Object, Term, Type, Written};

/// The document with its defaults; one of a kind that has none comes back as it is. Doing it again changes nothing.
pub fn with_defaults(mut document: Value) -> Value {
    let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
    let Some((kind, version)) = Kind::versioned(text("apiVersion"), text("kind")) else { return document };
    let (Some(object), Some(spec)) = (kind.spec(), document.get_mut("spec")) else { return document };
    let forbidden = forbidden(object, spec, version);
    if let Some(spec) = spec.as_object_mut() {
        Writer { version, forbidden }.fill(object, spec, "");
    }
    document
}

/// The fields that must not be given beside what is there.
fn forbidden(object: &'static Object, spec: &Value, version: Version) -> Vec<&'static str> {
    let forbidden = object.clashes_in(version).filter_map(|clash| {
        let (first, others) = clash.terms.split_first()?;
        let Term::Given(path) = first else { return None };
        others.iter().all(|term| holds(term, object, spec, version)).then_some(*path)
    });
    forbidden.collect()
}

fn holds(term: &Term, object: &'static Object, value: &Value, version: Version) -> bool {
    let at = |path: &str| {
        let (keys, _) = object.at(path, version)?;
        keys.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
    };
    match *term {
        Term::Given(path) => at(path).is_some_and(|value| *value != ""),
        Term::Missing(path) => at(path).is_none_or(|value| *value == ""),
        Term::True(path) => at(path) == Some(&Value::Bool(true)),
        Term::Is(path, text) => {
            let default = object.at(path, version).map(|(_, field)| field.default);
            at(path).map_or(default == Some(DefaultValue::Text(text)), |value| *value == text)
        }
    }
}

struct Writer {
    version: Version,
    forbidden: Vec<&'static str>,
}

impl Writer {
    /// Writes what a mapping at a path does not have.
    fn fill(&self, object: &'static Object, map: &mut Map<String, Value>, path: &str) {
        let is_on = object.switch.is_none_or(|switch| map.get(switch) == Some(&Value::Bool(true)));
        for field in object.fields().filter(|field| is_on || object.switch == Some(field.name)) {
            let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
            let Some(key) = field.key(self.version) else { continue };
            if map.get(key).is_none_or(Value::is_null) {
                let written = written(field, self.version).filter(|_| !self.forbidden.contains(&path.as_str()));
                let Some(written) = written else { continue };
                map.insert(key.to_owned(), written);
            }
            if let (Type::Object(object), Some(Value::Object(inner))) = (field.of, map.get_mut(key)) {
                self.fill(object, inner, &path);
            }
        }
    }
}

/// What is written for a field. Nothing where the older version says the opposite: there, the field that is not given
/// says the same.
fn written(field: &Field, version: Version) -> Option<Value> {
    match field.written {
        Written::Nothing => None,
        Written::Mapping => Some(json!({})),
        Written::AllButSystem => Some(json!({"exclude": Selector::SYSTEM})),
        Written::Default | Written::DefaultInSchema if field.is_opposite(version) => None,
        Written::Default | Written::DefaultInSchema => field.default.json(),
    }
}
