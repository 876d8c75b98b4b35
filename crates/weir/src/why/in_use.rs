//! `weir why --in-use`: what each pipeline takes, its rules, its backend and its settings, as the process has them now;
//! and what the process is told, whatever the pipeline.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use weir_loadtest::output::printed;

use super::configuration::{PATH, who};
use super::{Format, pipelines_of, wanted};
use crate::ask::Admin;
use crate::tables::{legible, legible_json};

/// What the process is told has this name, in the page and where pipelines have theirs.
pub(super) const PROCESS: &str = "process";

/// Shows those of one pipeline, or of the process and all.
pub(super) fn show(admin: &Admin, pipeline: Option<&str>, format: Format) -> anyhow::Result<ExitCode> {
    let page = admin.get(PATH)?;
    let wanted = wanted(pipeline, pipelines_of(PATH, &page)?)?;
    let mut out = io::stdout().lock();
    printed(match format {
        Format::Text => {
            let process = if pipeline.is_none() { Statement::of_process(&page) } else { Vec::new() };
            of_process(&mut out, &process).and_then(|()| wanted.into_iter().try_for_each(|of| text(&mut out, of)))
        }
        Format::Json => writeln!(out, "{}", legible_json(&json!(wanted).to_string())),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn of_process(out: &mut impl Write, statements: &[Statement]) -> io::Result<()> {
    if statements.is_empty() {
        return Ok(());
    }
    writeln!(out, "{PROCESS}")?;
    lines(out, statements)?;
    writeln!(out)
}

fn lines(out: &mut impl Write, statements: &[Statement]) -> io::Result<()> {
    statements.iter().flat_map(Statement::lines).try_for_each(|line| writeln!(out, "  {line}"))
}

fn text(out: &mut impl Write, of: &Value) -> io::Result<()> {
    writeln!(out, "{}", legible(of["pipeline"].as_str().unwrap_or("-")))?;
    lines(out, &Statement::all_of(of))?;
    if let Some(ends) = of["certificate_ends_at"].as_str() {
        writeln!(out, "  the client certificate ends at {}", legible(ends))?;
    }
    for (secret, version) in of["secrets"].as_object().into_iter().flatten() {
        let [secret, version] = [secret.as_str(), version.as_str().unwrap_or("-")].map(legible);
        writeln!(out, "  values of Secret {secret} in resourceVersion {version}")?;
    }
    if of["changed_by"].is_object() {
        writeln!(out, "  last changed {}", who(&of["changed_by"]))?;
    }
    writeln!(out)
}

/// Something that a configuration says of a pipeline or of the process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Statement {
    /// Or [`PROCESS`].
    pub(super) pipeline: String,
    /// `inputs`, `backend`, `settings`, [`PROCESS`], or where a rule stands.
    pub(super) field: String,
    pub(super) text: String,
}

impl Statement {
    /// All of the process and its pipelines.
    pub(super) fn all_in(path: &str, page: &Value) -> anyhow::Result<Vec<Self>> {
        let pipelines = pipelines_of(path, page)?.iter().flat_map(Self::all_of);
        Ok(Self::of_process(page).into_iter().chain(pipelines).collect())
    }

    /// What the process is told, whatever the pipeline. Those of older versions do not say.
    fn of_process(page: &Value) -> Vec<Self> {
        let texts = page[PROCESS].as_array().into_iter().flatten().filter_map(Value::as_str);
        let told = |text: &str| Self { pipeline: PROCESS.to_owned(), field: PROCESS.to_owned(), text: text.to_owned() };
        texts.map(told).collect()
    }

    /// All of a pipeline, as the page has it: inputs, rules in their effective order, the backend, and settings.
    pub(super) fn all_of(pipeline: &Value) -> Vec<Self> {
        let text = |of: &Value| of.as_str().unwrap_or("-").to_owned();
        let name = text(&pipeline["pipeline"]);
        let told = |field: &str, of: &Value| Self { pipeline: name.clone(), field: field.to_owned(), text: text(of) };
        let list = |field: &str| pipeline[field].as_array().into_iter().flatten();
        let inputs = list("inputs").map(|of| told("inputs", of));
        let rules = list("rules").map(|of| told(&text(&of["field"]), &of["text"]));
        let backend = told("backend", &pipeline["backend"]);
        let settings = list("settings").map(|of| told("settings", of));
        inputs.chain(rules).chain([backend]).chain(settings).collect()
    }

    /// In words. A rule may have several lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self { field, text, .. } = self;
        let words = match field.as_str() {
            "inputs" => format!("takes {text}"),
            "backend" => format!("sends to {text}"),
            "settings" | PROCESS => text.clone(),
            rule => format!("{rule}: {text}"),
        };
        words.lines().map(legible).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_says_all_that_it_is_told() {
        let pipeline = json!({"pipeline": "traces/a", "inputs": ["OTLP of shop, bank"],
            "rules": [{"field": "filter[0].conditions[0]", "text": "name ==\n\"pro\u{1b}be\""}],
            "backend": "https://backend:4318", "settings": ["gzip", "headers authorization"],
            "certificate_ends_at": "2027-01-01T00:00:00Z", "secrets": {"shop/backend": "81\u{1b}2"},
            "changed_by": {"manager": "helm", "operation": "Apply", "at": "2026-11-29T09:59:58Z"}});
        let mut out = Vec::new();
        text(&mut out, &pipeline).unwrap();
        let expected = "\
traces/a
  takes OTLP of shop, bank
  filter[0].conditions[0]: name ==
  \"pro be\"
  sends to https://backend:4318
  gzip
  headers authorization
  the client certificate ends at 2027-01-01T00:00:00Z
  values of Secret shop/backend in resourceVersion 81 2
  last changed by helm (Apply) at 2026-11-29T09:59:58Z

";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
