//! `weir doctor`: what a cluster says of Weir, and what is wrong with it. Everything else is in `weir-kubernetes`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use tokio::runtime::Builder;
use weir_kubernetes::doctor::{self, Examination, Options};
use weir_loadtest::output::printed;

use crate::cli::Format;

const EXAMPLES: &str = "\
Examples:
  weir doctor                                   the cluster of your kubeconfig, as kubectl has it
  weir doctor --output report.txt               for whoever helps you
  weir doctor --format json | jq -r '.findings[].what'

The exit code is 0 if nothing is wrong and everything could be read, else 1. A backend to which no request \
has ended yet is noted, and no fault. Nothing is changed. The report has names of your cluster, messages of backends and lines \
of Weir's own logs, and no value of a Secret.

What is needed: to get and list pipelines, telemetries, pods, pods/log, pods/proxy, secrets, leases, events, \
validatingwebhookconfigurations and mutatingwebhookconfigurations. What is \
not allowed is left out, and the report says so.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// How to reach the API server [default: that of KUBECONFIG or ~/.kube/config, else of the cluster it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where Weir is installed
    #[arg(long, short, value_name = "NAMESPACE", default_value = "kyma-system", value_parser = NonEmptyStringValueParser::new())]
    namespace: String,
    /// Lines at the end of the log of each pod that are searched for warnings and errors
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    log_lines: u32,
    /// A file for the report, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let seen = runtime.block_on(examine(args))?;
    match &args.output {
        Some(path) => {
            let cannot = || format!("cannot write the report to {}", path.display());
            let mut out = BufWriter::new(File::create(path).with_context(cannot)?);
            write(&seen, args.format, &mut out).with_context(cannot)?;
        }
        None => printed(write(&seen, args.format, &mut BufWriter::new(io::stdout().lock())))?,
    }
    let is_well = seen.findings().is_empty() && seen.unread.is_empty();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn examine(args: &DoctorArgs) -> anyhow::Result<Examination> {
    let client = weir_kubernetes::client_of_user(args.kubeconfig.as_deref()).await?;
    let options = Options { namespace: args.namespace.clone(), log_lines: args.log_lines.into() };
    Ok(doctor::look(&client, &options).await)
}

fn write(seen: &Examination, format: Format, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Text => doctor::write(seen, out),
        Format::Json => {
            let all = json!({ "findings": seen.findings(), "notes": seen.notes(), "seen": seen });
            serde_json::to_writer_pretty(&mut *out, &all)?;
            out.write_all(b"\n")?;
            out.flush()
        }
    }
}
