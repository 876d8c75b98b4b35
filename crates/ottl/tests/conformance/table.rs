//! Runs the tables of cases.
//!
//! Words at the start of a line; `-->` separates what is done from what is expected:
//! - `item KIND JSON` what the next cases are about: `span`, `spanevent`, `log`, `metric`, `exemplar`, or a data point by
//!   its type: `gauge`, `sum`, `histogram`, `exponentialHistogram`, `summary`; `resource JSON` and `scope JSON` what is
//!   around it
//! - `true CONDITION`, `false CONDITION`, and `error CONDITION --> TEXT` when it cannot be evaluated
//! - `value EXPRESSION --> JSON`; `null` when it is nothing
//! - `do STATEMENT --> JSON` the item afterwards; `do-resource` and `do-scope` likewise; several statements are
//!   separated by ` ;; `
//! - `metrics STATEMENT --> JSON` all metrics of the scope afterwards
//! - `added STATEMENT --> JSON` those behind the first
//! - `fails STATEMENT --> TEXT` the statement is counted as failed and nothing changes
//! - `refused STATEMENT --> TEXT` it does not compile; `refused-condition` likewise
//! - `refused-here STATEMENT --> TEXT` it does not compile, where the reference would let it fail for every item
//! - `#` starts a comment

use serde_json::Value;
use weir_otlp::to_json;
use weir_ottl::{Error, Filter, Limits, Options, Transform, Transformed};

use crate::plain::from_otlp;
use crate::subject::{ALL, DIFFERENCES, Subject, TABLES, cases};

pub(crate) const LIMITS: Limits =
    Limits { now_unix_nano: 1_700_000_000_123_456_789, max_growth: 1 << 20, max_scratch: 1 << 20 };

impl Subject {
    /// Resource, scope, item and metrics of a request.
    fn parts(&self, request: &[u8]) -> [Value; 4] {
        let text = to_json(self.signal(), request, &weir_otlp::Limits::default()).unwrap().text;
        let [resources, scopes] = self.names();
        let plain = from_otlp(&serde_json::from_slice(&text).unwrap());
        let resource = &plain[resources][0];
        let scope = &resource[scopes][0];
        let item = scope.pointer(&self.way()).cloned().unwrap_or_default();
        [resource["resource"].clone(), scope["scope"].clone(), item, scope["metrics"].clone()]
    }

    fn apply(&self, statements: &str) -> Result<([Value; 4], Transformed), Vec<Error>> {
        let statements: Vec<String> = statements.split(" ;; ").map(str::to_owned).collect();
        let transform = Transform::compile(self.signal(), &Options::inferred(ALL), &[], &statements)?;
        let request = self.request();
        let done = transform.apply(&request, &LIMITS);
        let parts = self.parts(done.request.as_deref().unwrap_or(&request));
        Ok((parts, done))
    }

    /// Whether a condition holds for the item, or why it could not be evaluated.
    fn holds(&self, condition: &str) -> Result<bool, String> {
        let conditions = [self.anchored(condition)];
        let filter = Filter::compile(self.signal(), &Options::inferred(ALL), &conditions).map_err(|e| rendered(&e))?;
        // A condition adds nothing, and nothing it calculates is part of the request.
        let done = filter.apply(&self.request(), &Limits { max_growth: 0, ..LIMITS });
        match &done.conditions[0].first_error {
            Some(error) => Err(error.clone()),
            None => Ok(done.conditions[0].matched == 1),
        }
    }

    fn value_of(&self, expression: &str) -> Value {
        let (statement, field) = self.store(expression);
        let (parts, done) = self.apply(&statement).unwrap_or_else(|errors| panic!("{}", rendered(&errors)));
        assert_eq!(done.statements[0].first_error, None, "{expression}");
        parts[2][field]["result"].clone()
    }

    fn run(&self, word: &str, what: &str, expected: &str) {
        let expected_json =
            || -> Value { serde_json::from_str(expected).unwrap_or_else(|e| panic!("{expected}: {e}")) };
        let check = |part: usize| {
            let (parts, done) = self.apply(what).unwrap_or_else(|errors| panic!("{}", rendered(&errors)));
            let failed: Vec<_> = done.statements.iter().filter_map(|tally| tally.first_error.as_ref()).collect();
            assert!(failed.is_empty(), "{failed:?}");
            assert_eq!(parts[part], expected_json());
        };
        match word {
            "true" => assert_eq!(self.holds(what), Ok(true)),
            "false" => assert_eq!(self.holds(what), Ok(false)),
            "error" => assert_contains(&self.holds(what).expect_err("it was evaluated"), expected),
            "value" => assert_eq!(self.value_of(what), expected_json()),
            "do" => check(2),
            "metrics" => check(3),
            "added" => {
                let (parts, done) = self.apply(what).unwrap_or_else(|errors| panic!("{}", rendered(&errors)));
                assert_eq!(done.statements[0].first_error, None);
                assert_eq!(
                    parts[3].as_array().map(|metrics| &metrics[1..]),
                    expected_json().as_array().map(|all| &all[..])
                );
            }
            "do-scope" => check(1),
            "do-resource" => check(0),
            "fails" => {
                let (parts, done) = self.apply(what).unwrap_or_else(|errors| panic!("{}", rendered(&errors)));
                assert_contains(done.statements[0].first_error.as_deref().expect("it was executed"), expected);
                assert_eq!(parts, self.parts(&self.request()), "the item changed");
            }
            "refused" | "refused-here" => {
                assert_contains(&rendered(&self.apply(what).map(|_| ()).unwrap_err()), expected)
            }
            "refused-condition" => {
                let compiled = Filter::compile(self.signal(), &Options::inferred(ALL), &[what.to_owned()]);
                assert_contains(&rendered(&compiled.unwrap_err()), expected);
            }
            word => panic!("unknown word {word}"),
        }
    }
}

fn rendered(errors: &[Error]) -> String {
    errors.iter().map(Error::to_string).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "expected {part:?} in {text:?}");
}

/// The cases that no run beside the reference can have.
const ALONE: (&str, &str) = ("alone", include_str!("cases/alone.txt"));

/// Runs the cases of all tables and reports every one that went wrong.
#[test]
fn the_cases_of_all_tables() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, table) in TABLES.into_iter().chain([DIFFERENCES, ALONE]) {
        for case in cases(table) {
            count += 1;
            let run = std::panic::AssertUnwindSafe(|| case.subject.run(case.word, case.what, case.expected));
            if let Err(panic) = std::panic::catch_unwind(run) {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let text = text.unwrap_or_default();
                wrong.push(format!("{name}:{}: {} {}\n    {text}", case.line, case.word, case.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
