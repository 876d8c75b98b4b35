//! The conditions of `modify`.

use weir_plan::SectionLine;

use super::super::accessor::Accessor;
use super::super::fields::Fields;
use super::super::keys::Keys;
use super::super::pattern::Pattern;

pub(super) struct Condition {
    test: Test,
    /// It holds if the test does not.
    is_negated: bool,
}

enum Test {
    Exists(Accessor),
    AnyName(Pattern),
    /// What is not there neither equals nor differs.
    Equals(Accessor, String),
    Matches(Accessor, Pattern),
    /// The values of all fields with such names match.
    AllMatch(Pattern, Pattern),
}

const KINDS: &str = "key_exists, key_does_not_exist, a_key_matches, no_key_matches, key_value_equals, \
                     key_value_does_not_equal, key_value_matches, key_value_does_not_match, \
                     matching_keys_have_matching_values or matching_keys_do_not_have_matching_values";

impl Condition {
    pub(super) fn compile(line: &SectionLine, words: &[String], keys: &mut Keys<'_>) -> Option<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let kind = words.first().map(|kind| kind.to_ascii_lowercase()).unwrap_or_default();
        let (test, is_negated) = match (kind.as_str(), words.get(1..).unwrap_or_default()) {
            ("key_exists", [key]) => (Test::Exists(keys.accessor(line, key)?), false),
            ("key_does_not_exist", [key]) => (Test::Exists(keys.accessor(line, key)?), true),
            ("a_key_matches", [pattern]) => (Test::AnyName(keys.pattern(line, pattern)?), false),
            ("no_key_matches", [pattern]) => (Test::AnyName(keys.pattern(line, pattern)?), true),
            ("key_value_equals", [key, text]) => (Test::Equals(keys.accessor(line, key)?, (*text).to_owned()), false),
            ("key_value_does_not_equal", [key, text]) => {
                (Test::Equals(keys.accessor(line, key)?, (*text).to_owned()), true)
            }
            ("key_value_matches", [key, pattern]) => {
                (Test::Matches(keys.accessor(line, key)?, keys.pattern(line, pattern)?), false)
            }
            ("key_value_does_not_match", [key, pattern]) => {
                (Test::Matches(keys.accessor(line, key)?, keys.pattern(line, pattern)?), true)
            }
            ("matching_keys_have_matching_values", [names, values]) => {
                (Test::AllMatch(keys.pattern(line, names)?, keys.pattern(line, values)?), false)
            }
            ("matching_keys_do_not_have_matching_values", [names, values]) => {
                (Test::AllMatch(keys.pattern(line, names)?, keys.pattern(line, values)?), true)
            }
            _ => {
                let expected = format!("{KINDS}, with one or two values; one with spaces stands in quotes");
                keys.refuse(line, "is none that is supported, or has another number of values", &expected);
                return None;
            }
        };
        Some(Self { test, is_negated })
    }

    pub(super) fn holds(&self, record: &Fields<'_>) -> bool {
        let of = |key: &Accessor, test: &dyn Fn(&super::Value<'_>) -> bool| key.get(record).map(|value| test(&value));
        let outcome = match &self.test {
            Test::Exists(key) => Some(key.get(record).is_some()),
            Test::AnyName(pattern) => Some(record.list.iter().any(|field| pattern.is_match(&field.name))),
            Test::Equals(key, wanted) => of(key, &|value| value.text().is_some_and(|text| text == *wanted)),
            Test::Matches(key, pattern) => {
                of(key, &|value| value.text_or_truth().is_some_and(|text| pattern.is_match(&text)))
            }
            Test::AllMatch(names, values) => {
                let mut named = record.list.iter().filter(|field| names.is_match(&field.name));
                Some(named.all(|field| field.value.text_or_truth().is_some_and(|text| values.is_match(&text))))
            }
        };
        outcome.is_some_and(|outcome| outcome != self.is_negated)
    }
}
