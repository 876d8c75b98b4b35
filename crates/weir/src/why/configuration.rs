//! `weir why --configuration`: what became of the last configurations, and what brought each of them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;
use weir_legible::Names;
use weir_loadtest::output::printed;

use super::Format;
use crate::ask::{Admin, number, wrong_port};
use crate::tables::{legible, legible_json};

/// Where the one in use is, and what became of others.
pub(super) const PATH: &str = "/api/configuration";

/// Shows them, the newest first.
pub(super) fn show(admin: &Admin, format: Format) -> anyhow::Result<ExitCode> {
    let page = admin.get(PATH)?;
    let history = history(&page)?;
    let mut out = io::stdout().lock();
    printed(match format {
        Format::Text => text(&mut out, history),
        Format::Json => writeln!(out, "{}", legible_json(&page["history"].to_string())),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What a process remembers of its configurations, the newest first.
pub(super) fn history(page: &Value) -> anyhow::Result<&[Value]> {
    let missing = || wrong_port(&format!("{PATH} shows no history"));
    page["history"].as_array().map(Vec::as_slice).with_context(missing)
}

fn text(out: &mut impl Write, history: &[Value]) -> io::Result<()> {
    history.iter().try_for_each(|of| tell(out, of))?;
    match history.last().map_or(0, |oldest| number(&oldest["number"])) {
        0 | 1 => Ok(()),
        oldest => writeln!(out, "What was before number {oldest} is not remembered."),
    }
}

/// Which one it is, what became of it, what brought it, and whether a part of it could not be set up.
pub(super) fn headline(of: &Value) -> String {
    let [at, what, brought_by] = ["at", "what", "by"].map(|field| legible(of[field].as_str().unwrap_or("-")));
    let partly = if faults(of).next().is_some() { ", but not all of it" } else { "" };
    format!("{}: {what} at {at}, by {brought_by}{}{partly}", number(&of["number"]), version(of))
}

fn tell(out: &mut impl Write, of: &Value) -> io::Result<()> {
    writeln!(out, "{}", headline(of))?;
    let lists = ["added", "changed", "removed"].map(|field| (field, names(&of[field], &of["left_out"][field])));
    let mut differs = lists.iter().filter(|(_, names)| !names.is_empty()).peekable();
    if of["what"] == "changed" && differs.peek().is_none() {
        writeln!(out, "  no pipeline differs")?;
    }
    differs.try_for_each(|(field, names)| writeln!(out, "  {field} {names}"))?;
    for fault in faults(of) {
        let [pipeline, cause] = ["pipeline", "cause"].map(|field| legible(fault[field].as_str().unwrap_or("-")));
        // One that is new was nothing before.
        let is_changed = of["changed"].as_array().is_some_and(|changed| changed.contains(&fault["pipeline"]));
        let stays = if is_changed { ", and the rest stays as it was" } else { "" };
        writeln!(out, "  cannot set up all of {pipeline}{stays}: {cause}")?;
    }
    let changers = changers(&of["changed_by"]);
    changers.iter().try_for_each(|(who, names)| writeln!(out, "  last changed {who}: {}", names.join(", ")))?;
    let mut error = of["error"].as_str().unwrap_or_default().lines();
    error.try_for_each(|line| writeln!(out, "  {}", legible(line)))
}

/// Pipelines that could not be set up as they are configured. Processes of older versions do not say.
fn faults(of: &Value) -> impl Iterator<Item = &Value> {
    of["faults"].as_array().into_iter().flatten()
}

fn names(of: &Value, left_out: &Value) -> String {
    let named = of.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    legible(&Names { named, more: number(left_out) }.to_string())
}

/// Who changed which pipelines. Processes of older versions do not say.
fn changers(changed_by: &Value) -> BTreeMap<String, Vec<String>> {
    let mut changers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (pipeline, changer) in changed_by.as_object().into_iter().flatten() {
        changers.entry(who(changer)).or_default().push(legible(pipeline));
    }
    changers
}

/// Who changed a pipeline: the manager of its object, or the file that it is in.
pub(super) fn who(changer: &Value) -> String {
    let [manager, operation, file, at] =
        ["manager", "operation", "file", "at"].map(|field| legible(changer[field].as_str().unwrap_or("-")));
    match changer["file"].is_string() {
        true => format!("in file {file} at {at}"),
        false => format!("by {manager} ({operation}) at {at}"),
    }
}

/// Which state of the operator's Secret it was, as far as that is known.
fn version(of: &Value) -> String {
    let names = [("revision", "revision"), ("resource_version", "resourceVersion")];
    let known = names.iter().filter_map(|(field, name)| Some(format!("{name} {}", of[*field].as_str()?)));
    let known = known.collect::<Vec<_>>().join(", ");
    if known.is_empty() { known } else { format!(" ({})", legible(&known)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_says_what_brought_it_and_what_it_did() {
        let at = "2026-11-29T10:00:00.000Z";
        let event = |number: u64, what: &str, by: &str, changed: Value, error: Value| {
            json!({"number": number, "at": at, "what": what, "by": by, "revision": null, "resource_version": null,
                "added": [], "changed": changed, "removed": [], "error": error})
        };
        let mut secret = event(3, "changed", "secret", json!(["traces/a", "logs/b"]), Value::Null);
        (secret["revision"], secret["resource_version"]) = (json!("7"), json!("1234"));
        secret["removed"] = json!(["logs/c"]);
        secret["left_out"] = json!({"added": 0, "changed": 3, "removed": 0});
        let helm = json!({"manager": "helm", "operation": "Apply", "at": "2026-11-29T09:59:58Z"});
        secret["changed_by"] = json!({"traces/a": helm, "logs/b": helm});
        let refused = event(5, "refused", "files_changed", json!([]), json!("a.yaml: two\u{1b} mistakes\nb.yaml: one"));
        let same = event(4, "changed", "sighup", json!([]), Value::Null);
        let mut edited = event(6, "changed", "files_changed", json!(["logs/b"]), Value::Null);
        edited["changed_by"] = json!({"logs/b": {"file": "b\u{1b}.yaml", "at": "2026-11-29T09:59:59Z"}});
        let fault = |pipeline: &str| json!({"pipeline": pipeline, "cause": "no such\u{1b} function"});
        (edited["added"], edited["faults"]) = (json!(["logs/c"]), json!([fault("logs/b"), fault("logs/c")]));
        let mut out = Vec::new();
        text(&mut out, &[edited, refused, same, secret]).unwrap();
        let expected = "\
6: changed at 2026-11-29T10:00:00.000Z, by files_changed, but not all of it
  added logs/c
  changed logs/b
  cannot set up all of logs/b, and the rest stays as it was: no such  function
  cannot set up all of logs/c: no such  function
  last changed in file b .yaml at 2026-11-29T09:59:59Z: logs/b
5: refused at 2026-11-29T10:00:00.000Z, by files_changed
  a.yaml: two  mistakes
  b.yaml: one
4: changed at 2026-11-29T10:00:00.000Z, by sighup
  no pipeline differs
3: changed at 2026-11-29T10:00:00.000Z, by secret (revision 7, resourceVersion 1234)
  changed traces/a, logs/b and 3 more
  removed logs/c
  last changed by helm (Apply) at 2026-11-29T09:59:58Z: logs/b, traces/a
What was before number 3 is not remembered.
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
