//! `weir try --recent`: what the rules of pipelines in files would make of recent items of a running process. The process
//! tries them, as it does for its page: nothing is deployed.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};
use weir_engine::RuleReport;
use weir_legible::line;
use weir_loadtest::output::printed;
use weir_plan::PipelineId;
use weir_resources::{Files, KINDS, Role, Severity, Version};

use super::Output;
use crate::ask::{number, wrong_port};
use crate::cli::{TryArgs, TryFormat};
use crate::tables::{count, legible, legible_json};
use crate::{configuration, convert, findings, tap};

const PATH: &str = "/api/preview";
/// So much of an item stands above what has changed in it.
const SUMMARY_CHARS: usize = 200;

/// Prints what becomes of the recent items of each pipeline. It fails if a rule does, and if there is nothing to try rules on.
pub(super) fn run(args: &TryArgs) -> anyhow::Result<ExitCode> {
    let Some(all) = questions(args)? else { return Ok(ExitCode::FAILURE) };
    let admin = args.admin.admin()?;
    let (colours, mut is_good, mut untried) = (io::stdout().is_terminal(), true, Vec::new());
    for (index, question) in all.iter().enumerate() {
        let pipeline = legible(question["pipeline"].as_str().unwrap_or_default());
        let mut answer = match admin.post(PATH, question) {
            Ok(answer) => answer,
            // The process may have the next one all the same.
            Err(error) => {
                untried.push(format!("cannot try the rules of {pipeline}: {error:#}"));
                continue;
            }
        };
        let Some(samples) = answer["samples"].as_u64() else {
            bail!(wrong_port(&format!("{PATH} shows no samples")));
        };
        is_good &= samples > 0 && number(&answer["failed"]) == 0;
        let mut output = Output { out: Vec::new(), colours, format: args.format };
        // People see where the next one begins.
        if index > 0 && args.format == TryFormat::Diff {
            writeln!(output.out)?;
        }
        match args.format {
            TryFormat::Diff => show(&mut output, &pipeline, &answer)?,
            TryFormat::Json => {
                answer["pipeline"] = question["pipeline"].clone();
                writeln!(output.out, "{}", legible_json(&answer.to_string()))?;
            }
        }
        printed(io::stdout().write_all(&output.out))?;
    }
    if !untried.is_empty() {
        bail!(untried.join("\n"));
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the process is asked of each pipeline; `None` when findings forbid it, which are printed.
fn questions(args: &TryArgs) -> anyhow::Result<Option<Vec<Value>>> {
    let (files, options) = (Files::read(&args.paths), configuration::options(false));
    // Secrets may be on a cluster alone. Rules need none.
    let found: Vec<_> = files.sources.iter().flat_map(|source| weir_resources::findings(source, &options)).collect();
    findings::print(&found, &files.sources)?;
    if found.iter().any(|finding| finding.severity == Severity::Error) {
        return Ok(None);
    }
    let Some(documents) = convert::documents(&files, Version::V1Beta1)? else { return Ok(None) };
    let documents = convert::unlisted(documents).into_iter().filter(weir_resources::is_convertible);
    let is_wanted = |id: &PipelineId| args.pipeline.as_ref().is_none_or(|name| id.is_called(name));
    let asked = documents.filter_map(|document| question(&document)).filter(|(id, _)| is_wanted(id));
    let all: Vec<_> = asked.map(|(_, question)| question).collect();
    match &args.pipeline {
        Some(name) if all.is_empty() => bail!("cannot find a pipeline named {name:?} in the configuration"),
        None if all.is_empty() => bail!("no pipeline is defined: there are no rules to try"),
        _ => Ok(Some(all)),
    }
}

/// The rules of a pipeline; `None` of anything else. What a document does not have is empty.
fn question(document: &Value) -> Option<(PipelineId, Value)> {
    let kind = KINDS.iter().find(|kind| document["kind"] == kind.name)?;
    let Role::Pipeline(signal) = kind.role else { return None };
    let id = PipelineId::new(signal, document["metadata"]["name"].as_str()?);
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let spec = &document["spec"];
    let transform = list(&spec["transform"]);
    let transform = transform
        .iter()
        .map(|rule| json!({"conditions": list(&rule["conditions"]), "statements": list(&rule["statements"])}));
    let filter = list(&spec["filter"]);
    let filter = filter.iter().map(|rule| json!({"conditions": list(&rule["conditions"])}));
    let filters = list(&spec["filters"]);
    let filters = filters.iter().filter_map(|filter| filter["custom"].as_str()).filter(|text| !text.trim().is_empty());
    let question = json!({
        "pipeline": id.to_string(), "transform": transform.collect::<Vec<_>>(), "filter": filter.collect::<Vec<_>>(),
        "filters": filters.collect::<Vec<_>>(),
    });
    Some((id, question))
}

/// For people: what becomes of items, what each rule did, and the first items that are not the same afterwards.
fn show(output: &mut Output, pipeline: &str, answer: &Value) -> io::Result<()> {
    let [samples, kept, removed] = ["samples", "kept", "removed"].map(|field| number(&answer[field]));
    if samples == 0 {
        return writeln!(
            output.out,
            "{pipeline}: nothing has passed since its rules changed: there is nothing to try these on"
        );
    }
    let kept_changed = answer["kept_changed"].as_u64();
    let changed = kept_changed.map_or_else(String::new, |changed| format!(", {changed} of them changed"));
    writeln!(output.out, "{pipeline}: {}: {kept} kept{changed}; {removed} removed", count(samples, "recent item"))?;
    let ratios = ["removed_ratio", "removed_bytes_ratio"].map(|field| answer[field].as_f64());
    if let [Some(items), Some(bytes)] = ratios.map(|ratio| ratio.map(saved)) {
        writeln!(output.out, "  compared with no rules: {items} items, {bytes} bytes")?;
    }
    let delta = &answer["delta"];
    if delta.is_object() {
        let [converted, first] = ["converted", "first"].map(|field| number(&delta[field]));
        let why = legible(delta["explanation"].as_str().unwrap_or_default());
        writeln!(output.out, "  {} become deltas, {first} left out: {why}", count(converted, "data point"))?;
    }
    let rules: Vec<_> = answer["rules"].as_array().into_iter().flatten().map(report).collect();
    output.rules(&rules)?;
    let mut shown = 0;
    for change in answer["changed"].as_array().into_iter().flatten() {
        let (before, after) = (&change["before"], &change["after"]);
        shown += 1;
        writeln!(
            output.out,
            "  {}: {}",
            if after.is_null() { "removed" } else { "changed" },
            line(&tap::summary(before), SUMMARY_CHARS)
        )?;
        if !after.is_null() {
            output.diff(&format!("{before:#}"), &format!("{after:#}"))?;
        }
    }
    match (removed + kept_changed.unwrap_or_default()).saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(output.out, "  and {} that are not the same afterwards", count(more, "more item")),
    }
}

/// Rules that set something may make items larger.
fn saved(ratio: f64) -> String {
    format!("{:.1} % {}", 100.0 * ratio.abs(), if ratio < 0.0 { "more" } else { "fewer" })
}

fn report(rule: &Value) -> RuleReport {
    let words = |field: &str| legible(rule[field].as_str().unwrap_or_default());
    let [matched, filtered, errors] = ["matched", "removed", "errors"].map(|field| number(&rule[field]));
    let cause = rule["cause"].as_str().map(legible);
    RuleReport { field: words("field"), text: words("text"), matched, filtered, errors, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_become_the_rules_that_they_have() {
        let filters = json!([{"custom": "Name grep"}, {"custom": " "}, {}]);
        let logs = json!({"kind": "LogPipeline", "metadata": {"name": "a"}, "spec": {"filters": filters}});
        let expected = json!({"pipeline": "logs/a", "transform": [], "filter": [], "filters": ["Name grep"]});
        assert_eq!(question(&logs).unwrap().1, expected);
        let rules =
            json!({"transform": [{"statements": ["s"], "conditions": null}], "filter": [{"conditions": ["c"]}]});
        let traces = json!({"kind": "TracePipeline", "metadata": {"name": "a"}, "spec": rules});
        let expected = json!({"pipeline": "traces/a", "transform": [{"conditions": [], "statements": ["s"]}],
            "filter": [{"conditions": ["c"]}], "filters": []});
        assert_eq!(question(&traces).unwrap().1, expected);
        assert_eq!(question(&json!({"kind": "Telemetry", "metadata": {"name": "a"}})), None);
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        let span = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a\u{1b}"}]}]}]});
        let answer = json!({"samples": 9, "kept": 5, "kept_changed": 2, "removed": 4, "removed_ratio": 0.25,
            "removed_bytes_ratio": -0.5, "delta": null, "changed": [{"before": span, "after": null}],
            "rules": [{"field": "filter[0].conditions[0]", "text": "true", "matched": 4, "removed": 4, "errors": 1,
                "cause": "no\u{1b}"}]});
        let mut output = Output { out: Vec::new(), colours: false, format: TryFormat::Diff };
        show(&mut output, "traces/a", &answer).unwrap();
        let shown = String::from_utf8(output.out).unwrap();
        let expected = "\
traces/a: 9 recent items: 5 kept, 2 of them changed; 4 removed
  compared with no rules: 25.0 % fewer items, 50.0 % more bytes
  filter[0].conditions[0]: 4 matched, 4 removed, 1 failed: true
    no\u{20}
  removed: span \"a \"";
        assert!(shown.starts_with(expected), "{shown}");
        assert!(shown.ends_with("\n  and 5 more items that are not the same afterwards\n"), "{shown}");
    }
}
