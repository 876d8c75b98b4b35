//! `weir check`: everything that is wrong with a configuration.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use weir_loadtest::output::printed;
use weir_plan::Plan;
use weir_resources::{Diagnostic, Files, Loaded, Reason, Source};

use crate::cli::{CheckArgs, Format};
use crate::{configuration, findings};

/// What was found in a configuration.
struct Checked {
    sources: Vec<Source>,
    findings: Vec<Diagnostic>,
    /// Nothing when findings forbid it.
    plan: Option<Plan>,
}

/// Prints findings and a summary.
pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let files = Files::read(&args.paths);
    let (plan, findings) = match files.load(&configuration::options(args.strict)) {
        Ok(Loaded { plan, warnings, .. }) => (Some(plan), warnings),
        Err(report) => (None, report.diagnostics),
    };
    let checked = Checked { sources: files.sources, findings, plan };
    // It may run, and it will not work.
    let expired = checked.findings.iter().any(|finding| finding.reason == Some(Reason::TlsCertificateExpired));
    let ok = checked.plan.is_some() && !expired;
    printed(match args.format {
        Format::Text => summarise(&checked),
        Format::Json => writeln!(io::stdout(), "{}", document(&checked, ok)),
    })?;
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn summarise(checked: &Checked) -> io::Result<()> {
    findings::print(&checked.findings, &checked.sources)?;
    let mut out = io::stdout().lock();
    for pipeline in checked.plan.iter().flat_map(|plan| &plan.pipelines) {
        let output = &pipeline.output;
        let how = match (output.is_remote(), output.tls.is_some()) {
            (false, _) => "",
            (true, true) => " (TLS)",
            (true, false) => " (plain text)",
        };
        let mode = if pipeline.unsupported_mode { " (unsupportedMode)" } else { "" };
        writeln!(out, "ok: {} -> {}{how}{mode}", pipeline.id, output.destination())?;
    }
    Ok(())
}

/// For programs: whether it can work, what it does, and every finding.
fn document(checked: &Checked, ok: bool) -> Value {
    let pipelines = checked.plan.iter().flat_map(|plan| &plan.pipelines).map(|pipeline| {
        let output = &pipeline.output;
        json!({
            "pipeline": pipeline.id.to_string(),
            "exporter": pipeline.exporter_label(),
            "host": output.endpoint.host,
            "port": output.endpoint.port,
            "path": output.public_path(),
            "tls": output.tls.is_some(),
            "unsupportedMode": pipeline.unsupported_mode,
        })
    });
    json!({
        "ok": ok,
        "pipelines": pipelines.collect::<Vec<_>>(),
        "findings": checked.findings.iter().map(findings::json).collect::<Vec<_>>(),
    })
}
