//! The configuration of this process: what its files say now, and what Kubernetes tells its containers.

use std::env;
use std::path::PathBuf;
use std::time::SystemTime;

use weir_resources::{Files, Foreign, Loaded, LogOutputs, Options, Report};

use crate::findings;

/// What files are checked with. `--strict` is a part of it.
pub(crate) fn options(strict: bool) -> Options {
    let foreign = if strict { Foreign::Refuse } else { Foreign::Skip };
    Options { now: SystemTime::now(), foreign, api_server: api_server() }
}

/// The address of the cluster's API server, which Kubernetes tells every container.
fn api_server() -> Option<String> {
    env::var_os("KUBERNETES_SERVICE_HOST")?.into_string().ok().filter(|host| !host.is_empty())
}

/// For a command that ends by itself. `None` when findings forbid it; these are printed.
pub(crate) fn for_command(paths: &[PathBuf]) -> anyhow::Result<Option<Loaded>> {
    let files = Files::read(paths);
    let (findings, loaded) = match files.load(&options(false)).and_then(Loaded::runnable) {
        Ok(mut loaded) => (std::mem::take(&mut loaded.warnings), Some(loaded)),
        Err(report) => (report.diagnostics, None),
    };
    findings::print(&findings, &files.sources)?;
    Ok(loaded)
}

/// For a gateway; it is also checked against what runs so far. Who takes it up logs its warnings.
pub(crate) fn for_gateway(paths: &[PathBuf], strict: bool, running: &LogOutputs) -> Result<Loaded, Report> {
    let loaded = Files::read(paths).load(&options(strict))?.runnable()?;
    loaded.log_outputs.check_after(running)?;
    Ok(loaded)
}
