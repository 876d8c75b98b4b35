//! `weir run`: the gateway.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_engine::settings::State;
use weir_engine::{Changes, Engine, Settings, Snapshot, settings};
use weir_resources::{Loaded, LogOutputs};

use crate::check;
use crate::cli::{IngestArgs, RunArgs};
use crate::data_dir;
use crate::limits;
use crate::security;
use crate::watch::Watch;

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let watches = runtime.block_on(async { Watches::new(&args) })?;
    let configuration = match check::take_up(&args.paths, &LogOutputs::default()) {
        Ok(configuration) => configuration,
        Err(report) => {
            check::log(&report.diagnostics);
            // Not even with those pipelines that are right: data for the others would be acknowledged and not kept.
            bail!(
                "cannot use the configuration, nothing is started: correct it, or take out the pipelines that are \
                 wrong; `weir check` shows the findings in their lines"
            );
        }
    };
    let (journal, state) = data_dir::open(&args)?.unzip();
    let state = state.map(|state| Arc::new(state) as Arc<dyn State>);
    let settings = Settings { journal, state, ..settings(&args)? };
    limits::raise_file_limit();
    let code = runtime.block_on(serve(configuration, settings, watches, &args.ingest));
    // A disk or a name server that hangs does not keep the process alive.
    runtime.shutdown_background();
    code
}

/// One worker per core this process may use; a single core needs no work stealing and is faster without.
fn runtime() -> anyhow::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = if cores == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build().context("cannot start the runtime")
}

fn settings(args: &RunArgs) -> anyhow::Result<Settings> {
    let memory = match args.memory {
        Some(memory) => memory,
        None => limits::cgroup_memory_limit().map_or(settings::MEMORY, |limit| limit / 4 * 3),
    };
    if memory < settings::MEMORY_MIN {
        let least = settings::MEMORY_MIN >> 20;
        bail!("cannot work with --memory {memory}: a few requests of the largest size need {least}MiB");
    }
    let largest = memory / 4;
    let max_request_bytes = args.max_request_size.unwrap_or(settings::MAX_REQUEST_BYTES.min(largest));
    if max_request_bytes > largest {
        bail!(
            "cannot take requests of {max_request_bytes} bytes: --max-request-size must be at most a quarter of --memory ({memory})"
        );
    }
    Ok(Settings {
        listen: args.listen,
        grpc_port: args.grpc_port,
        http_port: args.http_port,
        metrics_port: args.metrics_port,
        health_port: args.health_port,
        memory,
        spill_after: args.spill_after,
        drain_timeout: args.drain_timeout,
        max_request_bytes,
        batch_bytes: settings::BATCH_BYTES,
        max_connection_age: args.max_connection_age,
        body_timeout: settings::BODY_TIMEOUT,
        journal: None,
        state: None,
        security: security::read(&args.ingest)?,
    })
}

/// What is taken up again when it changes.
struct Watches {
    configuration: Watch,
    security: Watch,
}

impl Watches {
    fn new(args: &RunArgs) -> anyhow::Result<Self> {
        let (configuration, security) = (args.paths.clone(), security::files(&args.ingest));
        Ok(Self { configuration: Watch::new(configuration)?, security: Watch::new(security)? })
    }
}

async fn serve(
    configuration: Loaded,
    settings: Settings,
    mut watches: Watches,
    ingest: &IngestArgs,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let Loaded { plan, mut log_outputs, .. } = configuration;
    let memory = settings.memory;
    let mut engine = Engine::start(&plan, settings).await?;
    for pipeline in &plan.pipelines {
        let output = &pipeline.output;
        tracing::info!(
            pipeline = format!("{}/{}", pipeline.signal.name(), pipeline.name),
            host = output.endpoint.host,
            port = output.endpoint.port,
            "pipeline started"
        );
    }
    let at = engine.addresses();
    tracing::info!(grpc = %at.grpc, http = %at.http, metrics = %at.metrics, health = %at.health, memory, "ready");
    let code = loop {
        tokio::select! {
            () = signals.next() => break ExitCode::SUCCESS,
            () = engine.failed() => {
                tracing::error!(
                    "a pipeline or the journal's writer ended by itself: this is a bug in weir, please report it"
                );
                break ExitCode::FAILURE;
            }
            () = watches.configuration.changed() => {
                reload(&mut engine, watches.configuration.paths(), &mut log_outputs).await;
            }
            () = watches.security.changed(), if !watches.security.paths().is_empty() => secure(&engine, ingest),
        }
    };
    tracing::info!("stopping: finishing what is under way; another signal ends at once");
    tokio::select! {
        books = engine.shutdown() => {
            books.iter().for_each(report);
            Ok(code)
        }
        () = signals.next() => bail!("ended by a second signal before everything under way was finished"),
    }
}

/// Takes up what the files say now. Where they are wrong, everything goes on as it is.
async fn reload(engine: &mut Engine, paths: &[PathBuf], running: &mut LogOutputs) {
    let (paths, before) = (paths.to_vec(), running.clone());
    // Requests are served while files are read and checked.
    let Ok(loaded) = tokio::task::spawn_blocking(move || check::take_up(&paths, &before)).await else {
        return tracing::error!("reading the configuration panicked: this is a bug in weir, please report it");
    };
    let findings = match loaded {
        Ok(Loaded { plan, log_outputs, .. }) => match engine.reload(&plan) {
            Ok(changes) => {
                *running = log_outputs;
                let Changes { added, changed, removed } = changes;
                return tracing::info!(?added, ?changed, ?removed, "configuration reloaded");
            }
            Err(error) => {
                tracing::error!("{error}");
                1
            }
        },
        Err(report) => {
            check::log(&report.diagnostics);
            report.diagnostics.len()
        }
    };
    engine.reload_failed();
    tracing::error!(findings, "the new configuration is not used; the last good one goes on");
}

/// Takes up what the certificate, key and token files say now.
fn secure(engine: &Engine, args: &IngestArgs) {
    let read = security::read(args).map_err(|error| format!("{error:#}"));
    match read.and_then(|security| engine.secure(&security)) {
        Ok(()) => tracing::info!("certificates and tokens of the OTLP ports are read again"),
        Err(error) => {
            tracing::error!(error, "cannot use the files that secure the OTLP ports; the old ones stay in use")
        }
    }
}

fn report((exporter, books): &(String, Snapshot)) {
    let dropped: u64 = books.dropped.values().sum();
    let rejected: u64 = books.rejected.values().sum();
    let filtered: u64 = books.filtered.values().sum();
    let Snapshot { accepted, recovered, delivered, pending, .. } = books;
    let balanced = books.balanced();
    tracing::info!(exporter, accepted, recovered, delivered, filtered, dropped, rejected, pending, balanced, "stopped");
}

/// The signals that end the program.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
