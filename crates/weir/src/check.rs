//! `weir check`: everything that is wrong with a configuration.

use std::collections::HashMap;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use weir_plan::Plan;
use weir_resources::{Diagnostic, Loaded, LogOutputs, Reason, Report, Severity, Source};

use crate::cli::CheckArgs;

/// Prints findings and a summary.
pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let Some(Loaded { plan, warnings, .. }) = load_all(&args.paths)? else { return Ok(ExitCode::FAILURE) };
    let mut out = io::stdout().lock();
    for pipeline in &plan.pipelines {
        let output = &pipeline.output;
        let tls = if output.tls.is_some() { "TLS" } else { "plain text" };
        let (id, host, port) = (pipeline.exporter_id(), &output.endpoint.host, output.endpoint.port);
        writeln!(out, "ok: {id} -> {host}:{port}{} ({tls})", output.endpoint.path)?;
    }
    // It may run, and it will not work.
    let expired = warnings.iter().any(|warning| warning.reason == Some(Reason::TlsCertificateExpired));
    Ok(if expired { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Loads a plan for a command that ends; `None` when findings, which are printed, forbid it.
pub(crate) fn load(paths: &[PathBuf]) -> anyhow::Result<Option<Plan>> {
    Ok(load_all(paths)?.map(|loaded| loaded.plan))
}

fn load_all(paths: &[PathBuf]) -> anyhow::Result<Option<Loaded>> {
    let sources = match weir_resources::read(paths) {
        Ok(sources) => sources,
        Err(report) => {
            print(&report.diagnostics, &[])?;
            return Ok(None);
        }
    };
    match compile(&sources) {
        Ok(loaded) => {
            print(&loaded.warnings, &sources)?;
            Ok(Some(loaded))
        }
        Err(report) => {
            print(&report.diagnostics, &sources)?;
            Ok(None)
        }
    }
}

/// Loads a configuration for a gateway, beside the one that runs so far. Warnings are logged.
pub(crate) fn take_up(paths: &[PathBuf], running: &LogOutputs) -> Result<Loaded, Report> {
    let loaded = compile(&weir_resources::read(paths)?)?;
    loaded.log_outputs.check_after(running)?;
    log(&loaded.warnings);
    Ok(loaded)
}

fn compile(sources: &[Source]) -> Result<Loaded, Report> {
    let mut loaded = weir_resources::load(sources, SystemTime::now())?;
    let cluster = &mut loaded.plan.enrichment.cluster;
    cluster.name = cluster.name.take().or_else(api_server);
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
        let [field, expected] = [field, expected].map(|text| Some(text.as_str()).filter(|text| !text.is_empty()));
        let pipeline = pipeline.as_ref().map(|pipeline| format!("{}/{}", pipeline.signal.name(), pipeline.name));
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
