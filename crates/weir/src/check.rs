//! `weir check`: everything that is wrong with a configuration.

use std::collections::HashMap;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::{Value, json};
use weir_loadtest::output::printed;
use weir_plan::{Pipeline, PipelineId};
use weir_resources::{Diagnostic, Foreign, Loaded, LogOutputs, Reason, Report, Severity, Source};

use crate::cli::{CheckArgs, CheckFormat};

/// What was found in a configuration.
#[derive(Default)]
struct Checked {
    sources: Vec<Source>,
    findings: Vec<Diagnostic>,
    /// Nothing when findings forbid it.
    loaded: Option<Loaded>,
}

/// Prints findings and a summary.
pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let checked = examine(&args.paths, |sources| compile(sources, foreign(args.strict)));
    // It may run, and it will not work.
    let expired = checked.findings.iter().any(|finding| finding.reason == Some(Reason::TlsCertificateExpired));
    let ok = checked.loaded.is_some() && !expired;
    printed(match args.format {
        CheckFormat::Text => summarise(&checked),
        CheckFormat::Json => writeln!(io::stdout(), "{}", document(&checked, ok)),
    })?;
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Loads a configuration for a command that ends; `None` when findings, which are printed, forbid it.
pub(crate) fn load(paths: &[PathBuf]) -> anyhow::Result<Option<Loaded>> {
    let checked = examine(paths, |sources| compile(sources, Foreign::Skip)?.runnable());
    print(&checked.findings, &checked.sources)?;
    Ok(checked.loaded)
}

/// What `--strict` says.
pub(crate) fn foreign(strict: bool) -> Foreign {
    if strict { Foreign::Refuse } else { Foreign::Skip }
}

fn examine(paths: &[PathBuf], compile: impl FnOnce(&[Source]) -> Result<Loaded, Report>) -> Checked {
    let sources = match weir_resources::read(paths) {
        Ok(sources) => sources,
        Err(report) => return Checked { findings: report.diagnostics, ..Checked::default() },
    };
    match compile(&sources) {
        Ok(loaded) => Checked { sources, findings: loaded.warnings.clone(), loaded: Some(loaded) },
        Err(report) => Checked { sources, findings: report.diagnostics, loaded: None },
    }
}

impl Checked {
    fn pipelines(&self) -> impl Iterator<Item = &Pipeline> {
        self.loaded.iter().flat_map(|loaded| &loaded.plan.pipelines)
    }
}

fn summarise(checked: &Checked) -> io::Result<()> {
    print(&checked.findings, &checked.sources)?;
    let mut out = io::stdout().lock();
    for pipeline in checked.pipelines() {
        let output = &pipeline.output;
        let tls = if output.tls.is_some() { "TLS" } else { "plain text" };
        let (id, host, port) = (&pipeline.id, &output.endpoint.host, output.endpoint.port);
        writeln!(out, "ok: {id} -> {host}:{port}{} ({tls})", output.endpoint.path)?;
    }
    Ok(())
}

/// For programs: whether it can work, what it does, and every finding.
fn document(checked: &Checked, ok: bool) -> Value {
    let pipelines = checked.pipelines().map(|pipeline| {
        let output = &pipeline.output;
        json!({
            "pipeline": pipeline.id.to_string(),
            "exporter": pipeline.exporter_label(),
            "host": output.endpoint.host,
            "port": output.endpoint.port,
            "path": output.endpoint.path,
            "tls": output.tls.is_some(),
        })
    });
    json!({
        "ok": ok,
        "pipelines": pipelines.collect::<Vec<_>>(),
        "findings": checked.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn finding(finding: &Diagnostic) -> Value {
    let Diagnostic { file, line, column, field, value, message, expected, severity, pipeline, reason, .. } = finding;
    json!({
        "severity": match severity { Severity::Error => "error", Severity::Warning => "warning" },
        "file": file,
        "line": place(*line),
        "column": place(*column),
        "field": given(field),
        "value": value,
        "message": message,
        "expected": given(expected),
        "pipeline": pipeline.as_ref().map(PipelineId::to_string),
        "reason": reason.map(Reason::name),
    })
}

/// Nothing for a file that cannot be read.
fn place(number: usize) -> Option<usize> {
    Some(number).filter(|number| *number > 0)
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Loads a configuration for a gateway, beside the one that runs so far. Warnings are logged.
pub(crate) fn take_up(paths: &[PathBuf], foreign: Foreign, running: &LogOutputs) -> Result<Loaded, Report> {
    let loaded = compile(&weir_resources::read(paths)?, foreign)?.runnable()?;
    loaded.log_outputs.check_after(running)?;
    log(&loaded.warnings);
    Ok(loaded)
}

fn compile(sources: &[Source], foreign: Foreign) -> Result<Loaded, Report> {
    let mut loaded = weir_resources::load_with(sources, SystemTime::now(), foreign)?;
    let name = &mut loaded.plan.enrichment.cluster_name;
    *name = name.take().or_else(api_server);
    Ok(loaded)
}

/// The address of the cluster's API server, which Kubernetes tells every container.
fn api_server() -> Option<String> {
    env::var_os("KUBERNETES_SERVICE_HOST")?.into_string().ok().filter(|host| !host.is_empty())
}

/// As log records, for programs that read the log of a gateway.
pub(crate) fn log(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        let Diagnostic { file, line, column, field, message, expected, severity, pipeline, reason, .. } = diagnostic;
        let [field, expected] = [field, expected].map(|text| given(text));
        let [line, column] = [*line, *column].map(place);
        let pipeline = pipeline.as_ref().map(PipelineId::to_string);
        let reason = reason.map(Reason::name);
        match severity {
            Severity::Error => tracing::error!(file, line, column, field, expected, pipeline, reason, "{message}"),
            Severity::Warning => tracing::warn!(file, line, column, field, expected, pipeline, reason, "{message}"),
        }
    }
}

/// With source lines on a terminal, a line each elsewhere.
pub(crate) fn print(diagnostics: &[Diagnostic], sources: &[Source]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let texts: HashMap<&str, &str> =
        sources.iter().map(|source| (source.name.as_str(), source.text.as_str())).collect();
    for diagnostic in diagnostics {
        match texts.get(diagnostic.file.as_str()) {
            Some(text) if out.is_terminal() => writeln!(out, "{}", diagnostic.render(text, true))?,
            _ => writeln!(out, "{diagnostic:#}")?,
        }
    }
    Ok(())
}
