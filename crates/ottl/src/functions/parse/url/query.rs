//! A text that is only a query: its parameters and all their values.

use std::borrow::Cow;
use std::collections::HashMap;

use super::escape::{Part, unescaped};
use crate::scene::Scene;
use crate::value::{Entries, Failure, Value};

/// A parameter, the list of its values, its place in a table, and three texts, beside what is in these.
const PAIR_BYTES: usize = 512;

pub(super) fn parameters<'a>(scene: &Scene<'a>, query: &str) -> Result<Value<'a>, Failure> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    scene.check_length(pairs.clone().count().saturating_mul(PAIR_BYTES).saturating_add(3 * query.len()))?;
    let mut parameters: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for pair in pairs {
        if pair.contains(';') {
            return Err(Failure::text("a semicolon in a query must be encoded"));
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (unescaped(key, Part::Query)?, unescaped(value, Part::Query)?);
        let index = *known.entry(key.clone()).or_insert(parameters.len());
        match parameters.get_mut(index) {
            Some((_, values)) => values.push(Value::text(value)),
            None => parameters.push((key, vec![Value::text(value)])),
        }
    }
    if parameters.is_empty() {
        return Ok(Value::map(Entries::new()));
    }
    let parameters = parameters.into_iter().map(|(key, values)| (Cow::Owned(key), Value::list(values))).collect();
    Ok(Value::map(vec![(Cow::Borrowed("query"), Value::map(parameters))]))
}
