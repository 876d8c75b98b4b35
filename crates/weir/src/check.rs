//! `weir check`: everything that is wrong with a configuration.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use weir_plan::Plan;
use weir_resources::{Diagnostic, Loaded, Reason, Report, Source};

use crate::cli::CheckArgs;

/// Prints findings and a summary.
pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let Some(Loaded { plan, warnings }) = load_all(&args.paths)? else { return Ok(ExitCode::FAILURE) };
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

/// Loads a plan; `None` when findings, which are printed, forbid it.
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
    match weir_resources::load(&sources, SystemTime::now()) {
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

/// Loads a plan for a gateway that runs; warnings are logged.
pub(crate) fn reload(paths: &[PathBuf]) -> Result<Plan, Report> {
    let Loaded { plan, warnings } = weir_resources::load(&weir_resources::read(paths)?, SystemTime::now())?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(plan)
}

/// With source lines on a terminal, a line each elsewhere.
pub(crate) fn print(diagnostics: &[Diagnostic], sources: &[Source]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let texts: HashMap<&str, &str> =
        sources.iter().map(|source| (source.name.as_str(), source.text.as_str())).collect();
    for diagnostic in diagnostics {
        match texts.get(diagnostic.file.as_str()) {
            Some(text) if out.is_terminal() => writeln!(out, "{}", diagnostic.render(text, true))?,
            _ => writeln!(out, "{diagnostic}")?,
        }
    }
    Ok(())
}
