//! `weir why --differences`: what pipelines and the process are told in one configuration and not in another.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use weir_loadtest::output::printed;

use super::configuration::{PATH, headline, history};
use super::in_use::{PROCESS, Statement};
use super::{Format, unknown};
use crate::ask::{Admin, number};
use crate::tables::{legible, legible_json};

/// What the page does not show of a pipeline may differ all the same.
const NOTHING: &str = "Nothing differs in inputs, rules, backends and settings, as far as --in-use shows them. `changed` in \
                       --configuration names pipelines that differ in anything.";

/// Which one is compared with which, by their numbers; without the second, with the one in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Between {
    from: u64,
    to: Option<u64>,
}

/// `3`, or `3..5`.
pub(super) fn between(text: &str) -> Result<Between, String> {
    let number = |text: &str| {
        let wrong = |_| "write it as 3 or 3..5, with numbers of `weir why --configuration`".to_owned();
        text.parse::<u64>().map_err(wrong)
    };
    match text.split_once("..") {
        Some((from, to)) => Ok(Between { from: number(from)?, to: Some(number(to)?) }),
        None => Ok(Between { from: number(text)?, to: None }),
    }
}

/// Shows them, of one pipeline or of all.
pub(super) fn show(
    admin: &Admin,
    between: Option<Between>,
    pipeline: Option<&str>,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let page = admin.get(PATH)?;
    let history = history(&page)?;
    // Those that were refused never ran.
    let mut ran = history.iter().filter(|of| of["what"] != "refused");
    let (newest, before) = (ran.next(), ran.next().map(|of| number(&of["number"])));
    let first = "no configuration before the one in use is remembered: the next one can be compared with it";
    let from = between.map(|between| between.from).or(before).context(first)?;
    let to = match between.and_then(|between| between.to) {
        Some(to) => Side::kept(admin, history, to)?,
        None => Side::in_use(&page, newest)?,
    };
    let mut sides = [Side::kept(admin, history, from)?, to];
    if let Some(name) = pipeline {
        narrow(&mut sides, name)?;
    }
    let mut out = io::stdout().lock();
    printed(match format {
        Format::Text => text(&mut out, &sides),
        Format::Json => writeln!(out, "{}", legible_json(&as_json(&sides).to_string())),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// One of two configurations.
struct Side {
    /// `None` if the process does not remember the beginning of the one in use.
    number: Option<u64>,
    headline: String,
    statements: Vec<Statement>,
}

impl Side {
    /// The one in use, and what the process remembers of its beginning.
    fn in_use(page: &Value, event: Option<&Value>) -> anyhow::Result<Self> {
        Ok(Self {
            number: event.map(|of| number(&of["number"])),
            headline: event.map_or_else(|| "in use".to_owned(), |of| format!("{}, in use", headline(of))),
            statements: Statement::all_in(PATH, page)?,
        })
    }

    /// One of those that are kept.
    fn kept(admin: &Admin, history: &[Value], wanted: u64) -> anyhow::Result<Self> {
        let kept: Vec<_> = history.iter().filter(|of| of["is_kept"] == true).collect();
        let event = kept.iter().find(|of| number(&of["number"]) == wanted).with_context(|| {
            let numbers: Vec<_> = kept.iter().map(|of| number(&of["number"]).to_string()).collect();
            format!("nothing is kept of a configuration {wanted}; it is of these: {}", numbers.join(", "))
        })?;
        let path = format!("{PATH}/{wanted}");
        let page = admin.get(&path)?;
        let statements = Statement::all_in(&path, &page)?;
        Ok(Self { number: Some(wanted), headline: headline(event), statements })
    }
}

/// Leaves what one pipeline is told.
fn narrow(sides: &mut [Side; 2], name: &str) -> anyhow::Result<()> {
    let statements = sides.iter().flat_map(|side| &side.statements).filter(|statement| statement.field != PROCESS);
    let names: BTreeSet<&str> = statements.map(|statement| statement.pipeline.as_str()).collect();
    if !names.contains(name) {
        bail!(unknown(Some(name), names.into_iter()));
    }
    sides.iter_mut().for_each(|side| side.statements.retain(|statement| statement.pipeline == name));
    Ok(())
}

/// What is told before and not after (`-`), or after and not before (`+`), by pipeline and field. Where pipelines stand
/// in a file makes no difference.
fn changes<'a>(before: &'a [Statement], after: &'a [Statement]) -> Vec<(char, &'a Statement)> {
    let mut all: Vec<&Statement> = before.iter().chain(after).collect();
    all.sort_by(|one, other| one.pipeline.cmp(&other.pipeline));
    let mut places = HashMap::new();
    for statement in all {
        let next = places.len();
        places.entry((&statement.pipeline, &statement.field)).or_insert(next);
    }
    let [old, new] = [before, after].map(|all| all.iter().collect::<HashSet<_>>());
    let gone = before.iter().filter(|statement| !new.contains(statement)).map(|statement| ('-', statement));
    let come = after.iter().filter(|statement| !old.contains(statement)).map(|statement| ('+', statement));
    let mut changes: Vec<_> = gone.chain(come).collect();
    // What has gone stays before what has come in its place.
    changes.sort_by_key(|(_, statement)| places.get(&(&statement.pipeline, &statement.field)).copied());
    changes
}

fn text(out: &mut impl Write, [from, to]: &[Side; 2]) -> io::Result<()> {
    writeln!(out, "--- {}\n+++ {}", from.headline, to.headline)?;
    let changes = changes(&from.statements, &to.statements);
    if changes.is_empty() {
        writeln!(out, "{NOTHING}")?;
    }
    // Each line says whose it is.
    changes.into_iter().try_for_each(|(sign, statement)| {
        let name = legible(&statement.pipeline);
        statement.lines().iter().try_for_each(|line| writeln!(out, "{sign} {name}  {line}"))
    })
}

fn as_json([from, to]: &[Side; 2]) -> Value {
    let change = |(sign, statement): (char, &Statement)| {
        let Statement { pipeline, field, text } = statement;
        let change = if sign == '-' { "removed" } else { "added" };
        json!({"change": change, "pipeline": pipeline, "field": field, "text": text})
    };
    let changes: Vec<_> = changes(&from.statements, &to.statements).into_iter().map(change).collect();
    json!({"from": from.number, "to": to.number, "differences": changes})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(number: u64, pipelines: Value) -> Side {
        let statements = pipelines.as_array().unwrap().iter().flat_map(Statement::all_of).collect();
        Side { number: Some(number), headline: format!("{number}: changed"), statements }
    }

    fn pipeline(name: &str, conditions: &[&str], compression: &str) -> Value {
        let rule =
            |(line, text): (usize, &&str)| json!({"field": format!("filter[0].conditions[{line}]"), "text": text});
        let rules: Vec<_> = conditions.iter().enumerate().map(rule).collect();
        json!({"pipeline": name, "inputs": ["OTLP"], "rules": rules, "backend": "http://a:1", "settings": [compression, "OAuth2"]})
    }

    fn told(sides: &[Side; 2]) -> String {
        let mut out = Vec::new();
        text(&mut out, sides).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_differs_is_told_by_pipeline_and_field() {
        let before =
            json!([pipeline("traces/b", &["1", "2", "3"], "gzip"), pipeline("logs/a", &["x\u{1b}\ny"], "gzip")]);
        let after = json!([
            pipeline("logs/a", &["x"], "gzip"),
            pipeline("traces/b", &["1", "4"], "zstd"),
            pipeline("traces/c", &[], "gzip")
        ]);
        let mut sides = [side(3, before), side(5, after)];
        let expected = "\
--- 3: changed
+++ 5: changed
- logs/a  filter[0].conditions[0]: x\u{20}
- logs/a  y
+ logs/a  filter[0].conditions[0]: x
- traces/b  filter[0].conditions[1]: 2
+ traces/b  filter[0].conditions[1]: 4
- traces/b  filter[0].conditions[2]: 3
- traces/b  gzip
+ traces/b  zstd
+ traces/c  takes OTLP
+ traces/c  sends to http://a:1
+ traces/c  gzip
+ traces/c  OAuth2
";
        assert_eq!(told(&sides), expected);
        let unknown = narrow(&mut sides, "traces/d").unwrap_err().to_string();
        assert_eq!(unknown, "there is no pipeline \"traces/d\"; there are: logs/a, traces/b, traces/c");
        narrow(&mut sides, "traces/c").unwrap();
        let json = as_json(&sides);
        assert_eq!((&json["from"], &json["to"]), (&json!(3), &json!(5)));
        let input = json!({"change": "added", "pipeline": "traces/c", "field": "inputs", "text": "OTLP"});
        assert_eq!((&json["differences"][0], json["differences"].as_array().unwrap().len()), (&input, 4));
    }

    #[test]
    fn what_the_process_is_told_is_of_no_pipeline() {
        let page = |process: Value| json!({"process": process, "pipelines": [pipeline("traces/a", &[], "gzip")]});
        let side = |page: Value| Side {
            number: None,
            headline: "changed".to_owned(),
            statements: Statement::all_in(PATH, &page).unwrap(),
        };
        let [gone, older] = [page(json!(["cluster name garden", "pod label team"])), page(Value::Null)].map(side);
        let come = side(page(json!(["cluster name meadow", "pod label team"])));
        let mut sides = [gone, come];
        let expected =
            "--- changed\n+++ changed\n- process  cluster name garden\n+ process  cluster name meadow\n".to_owned();
        assert_eq!(told(&sides), expected);
        assert_eq!(as_json(&sides)["differences"][0]["field"], "process");
        let unknown = narrow(&mut sides, "process").unwrap_err().to_string();
        assert_eq!(unknown, "there is no pipeline \"process\"; there are: traces/a");
        narrow(&mut sides, "traces/a").unwrap();
        assert!(told(&sides).ends_with(&format!("\n{NOTHING}\n")));
        assert!(older.statements.iter().all(|statement| statement.pipeline == "traces/a"), "it does not say");
    }

    #[test]
    fn where_pipelines_stand_makes_no_difference() {
        let [a, b] = ["a", "b"].map(|name| pipeline(name, &["1"], "gzip"));
        let sides = [side(1, json!([a, b])), side(2, json!([b, a]))];
        assert!(told(&sides).ends_with(&format!("\n{NOTHING}\n")));
    }

    #[test]
    fn two_are_named_by_their_numbers() {
        assert_eq!(between("3"), Ok(Between { from: 3, to: None }));
        assert_eq!(between("3..5"), Ok(Between { from: 3, to: Some(5) }));
        for wrong in ["", "..", "3..", "..5", "-1", "3...5", "traces/shop", "99999999999999999999"] {
            assert!(between(wrong).is_err(), "{wrong}");
        }
    }
}
