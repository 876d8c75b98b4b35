//! `weir run`: the gateway.

pub(crate) mod signals;

use std::mem;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use futures_util::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::field::display;
use weir_engine::admin::Route;
use weir_engine::settings::Admin;
use weir_engine::{Addresses, BookFigures, Changes, Engine, Entrance, OtlpPorts, Settings, settings};
use weir_enrich::{PodList, Pods};
use weir_plan::{ClusterFacts, PipelineId, Plan};
use weir_resources::{Loaded, LogOutputs, Report};
use weir_sources::scrape::TargetBoard;
use weir_sources::tail::{Board, Wanted};

use crate::allocator;
use crate::cli::{Role, RunArgs};
use crate::configuration;
use crate::container_logs::LogAgent;
use crate::data_dir::{self, DataDir};
use crate::findings;
use crate::limits;
use crate::proxy;
use crate::runtime_metrics::RuntimeMetrics;
use crate::scraping::MetricAgent;
use crate::security::{self, Security};
use crate::watch::Watch;
use signals::Signals;

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime(memory(&args))?;
    let code = runtime.block_on(run_gateway(Arc::new(args)));
    // A disk or a name server that hangs does not keep the process alive.
    runtime.shutdown_background();
    code
}

async fn run_gateway(args: Arc<RunArgs>) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    tokio::spawn(allocator::tidy());
    // Files are read on a thread of its own: whatever hangs there, a signal is heard.
    let start = tokio::task::spawn_blocking(move || Handle::current().block_on(Gateway::start(args)));
    let Some(started) = unless(signals.next(), start).await else {
        tracing::info!("stopped before it was ready");
        return Ok(ExitCode::SUCCESS);
    };
    let mut gateway = started.context("the start panicked: this is a bug in weir, please report it")??;
    gateway.engine.open().await;
    gateway.say_ready();
    gateway.serve(signals).await
}

/// The result of `work`, unless `ends` resolves before. A result that is there already is not dropped.
async fn unless<T>(ends: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = ends => None,
    }
}

/// Agents may end for so long after the drain timeout, when nobody takes anything from them any more.
const LAST_READS: Duration = Duration::from_secs(2);

/// Whether `work` is done in time, and before `ends` resolves.
async fn is_done_within(patience: Duration, ends: impl Future<Output = ()>, work: impl Future<Output = ()>) -> bool {
    matches!(unless(ends, timeout(patience, work)).await, Some(Ok(())))
}

/// What a worker keeps for itself (buffers that the allocator holds for each thread) must not outgrow the memory that it
/// works with.
const MEMORY_OF_WORKER: usize = 4 << 20;

/// One worker per core this process may use, if there is memory for so many; a single core needs no work stealing and
/// is faster without.
fn runtime(memory: usize) -> anyhow::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.min(memory / MEMORY_OF_WORKER).max(1);
    let mut builder = if cores == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(workers).enable_all().build().context("cannot start the runtime")
}

/// The memory budget, in bytes.
fn memory(args: &RunArgs) -> usize {
    let of_limit = || limits::cgroup_memory_limit().map_or(settings::MEMORY, |limit| limit / 4 * 3);
    args.memory.unwrap_or_else(of_limit)
}

/// Whether clients are to be served: if the command line says so, else if a pipeline takes what they push.
fn serves_clients(args: &RunArgs, plan: &Plan) -> bool {
    let is_asked_for = || plan.pipelines.iter().any(|pipeline| pipeline.input.otlp.is_some());
    args.names(Role::Gateway) || (args.allows(Role::Gateway) && is_asked_for())
}

fn settings(args: &RunArgs, plan: &Plan) -> anyhow::Result<Settings> {
    let memory = memory(args);
    if memory < settings::MEMORY_MIN {
        let (memory, least) = (limits::size(memory), limits::size(settings::MEMORY_MIN));
        bail!("cannot work with --memory {memory}: at least {least} is needed");
    }
    let largest = memory / 4;
    let max_request_bytes = args.max_request_size.unwrap_or(settings::MAX_REQUEST_BYTES.min(largest));
    if max_request_bytes > largest {
        let [wanted, largest, memory] = [max_request_bytes, largest, memory].map(limits::size);
        bail!(
            "cannot take requests of --max-request-size {wanted}: it must be at most {largest}, a quarter of --memory \
             ({memory})"
        );
    }
    if args.fsync_interval.is_zero() {
        bail!("cannot sync every 0 s: choose a longer --fsync-interval, or --fsync always");
    }
    let Security { ingest: security, admin_tokens: tokens } = security::read(args)?;
    let (listen, port) = (args.admin.admin_listen, Some(args.admin.admin_port));
    let admin = Admin { listen, port, tokens, routes: Vec::new() };
    let serves_clients = serves_clients(args, plan);
    Ok(Settings {
        listen: args.listen,
        grpc_port: serves_clients.then_some(args.grpc_port),
        http_port: serves_clients.then_some(args.http_port),
        metrics_port: Some(args.metrics_port),
        health_port: Some(args.health_port),
        memory,
        spill_after: args.spill_after,
        drain_timeout: args.drain_timeout,
        max_request_bytes,
        batch_bytes: settings::BATCH_BYTES,
        max_connection_age: args.max_connection_age,
        body_timeout: settings::BODY_TIMEOUT,
        journal: None,
        state: None,
        security,
        admin,
        proxy: proxy::of_environment()?,
    })
}

/// What is taken up again when it changes.
struct Watches {
    configuration: Watch,
    security: Watch,
}

impl Watches {
    fn new(args: &RunArgs) -> anyhow::Result<Self> {
        let (configuration, security) = (args.paths.clone(), security::files(args));
        Ok(Self { configuration: Watch::new(configuration)?, security: Watch::new(security)? })
    }

    fn has_security(&self) -> bool {
        !self.security.paths().is_empty()
    }
}

/// A gateway that is ready, and the files it is made of.
struct Gateway {
    engine: Engine,
    /// What the engine asks about the cluster.
    pods: Arc<PodList>,
    log_agent: LogAgent,
    metric_agent: MetricAgent,
    runtime_metrics: RuntimeMetrics,
    args: Arc<RunArgs>,
    watches: Watches,
    log_outputs: LogOutputs,
    /// The whole budget in bytes, for the log.
    memory: usize,
}

impl Gateway {
    /// Mistakes in the command line, the configuration and the ports are found before the data directory is touched, and
    /// everything that can be wrong is found before the engine starts: it delivers what is on disk at once.
    async fn start(args: Arc<RunArgs>) -> anyhow::Result<Self> {
        let watches = Watches::new(&args)?;
        let Loaded { plan, mut cluster, state, log_outputs, .. } = configuration(&args)?;
        let mut settings = settings(&args, &plan)?;
        let board = Board::default();
        let mut log_agent = LogAgent::new(Arc::clone(&args), board.clone())?;
        settings.admin.routes.push(Route::new("/logs", board));
        let targets = TargetBoard::default();
        let mut metric_agent = MetricAgent::new(Arc::clone(&args), targets.clone());
        let mut runtime_metrics = RuntimeMetrics::new(Arc::clone(&args), targets.clone());
        settings.admin.routes.push(Route::new("/targets", targets));
        limits::raise_file_limit();
        let entrance = Entrance::open(&settings).await?;
        if let Some(DataDir { journal, state, logs }) = data_dir::open(&args)? {
            settings.journal = Some(journal);
            settings.state = Some(Arc::new(state));
            log_agent.keep_in(logs);
        }
        log_agent.prepare(&plan)?;
        let memory = settings.memory;
        allocator::keep_within(memory);
        let scrapables = mem::take(&mut cluster.scrapables);
        let pods = Arc::new(PodList::new(cluster));
        let engine = Engine::start_behind(entrance, &plan, Arc::clone(&pods) as Arc<dyn Pods>, settings)?;
        plan.pipelines.iter().for_each(say_started);
        let _ = log_agent.read_for(&plan, engine.inlet(), &pods)?;
        metric_agent.scrape_for(&plan, &scrapables, engine.inlet())?;
        runtime_metrics.make_for(&plan, state, &engine.inlet());
        Ok(Self { engine, pods, log_agent, metric_agent, runtime_metrics, args, watches, log_outputs, memory })
    }

    /// From now on, a signal finds a gateway that can be ended in good order.
    fn say_ready(&self) {
        let (Addresses { grpc, http, metrics, health, admin }, memory) = (self.engine.addresses(), self.memory);
        let [grpc, http, metrics, health, admin] = [grpc, http, metrics, health, admin].map(|at| at.map(display));
        tracing::info!(grpc, http, metrics, health, admin, memory, "ready");
    }

    async fn serve(mut self, mut signals: Signals) -> anyhow::Result<ExitCode> {
        let (mut loading, mut securing) = (Reading::default(), Reading::default());
        let code = loop {
            tokio::select! {
                () = signals.next() => break ExitCode::SUCCESS,
                () = self.engine.failed() => {
                    tracing::error!(
                        "a pipeline or the journal's writer ended by itself: this is a bug in weir, please report it"
                    );
                    break ExitCode::FAILURE;
                }
                () = self.watches.configuration.changed(), if loading.is_idle() => {
                    let (args, running) = (Arc::clone(&self.args), self.log_outputs.clone());
                    loading.begin(move || configuration::for_gateway(&args.paths, args.strict, &running));
                }
                loaded = loading.done() => self.reload(loaded).await,
                () = self.watches.security.changed(), if self.watches.has_security() && securing.is_idle() => {
                    let args = Arc::clone(&self.args);
                    securing.begin(move || security::read(&args));
                }
                read = securing.done() => self.secure(read),
            }
        };
        tracing::info!("stopping: finishing what is under way; another signal, a second later or more, ends at once");
        // What is read already is waited for, as it is for clients.
        let hurry = signals.next().shared();
        let agents = async {
            tokio::join!(self.log_agent.stop(), self.metric_agent.stop(), self.runtime_metrics.stop());
        };
        let patience = self.args.drain_timeout + LAST_READS;
        let (stopped, have_ended) =
            tokio::join!(self.engine.shutdown(hurry.clone()), is_done_within(patience, hurry, agents));
        stopped.books.iter().for_each(report);
        if !have_ended {
            tracing::warn!(
                "the end of reading was not waited for: lines of containers may be sent again, and scrapes that were under way are missing"
            );
        }
        if !stopped.in_order {
            bail!("ended by a second signal before everything under way was finished");
        }
        Ok(code)
    }

    /// Takes up what the files say now. Where they are wrong, everything goes on as it is.
    async fn reload(&mut self, loaded: Result<Loaded, Report>) {
        match loaded {
            Ok(Loaded { plan, cluster, state, log_outputs, .. }) => match self.take_up(&plan, cluster).await {
                Ok(Changes { added, changed, removed, .. }) => {
                    self.runtime_metrics.make_for(&plan, state, &self.engine.inlet());
                    self.log_outputs = log_outputs;
                    let names =
                        |ids: Vec<PipelineId>| ids.iter().map(PipelineId::to_string).collect::<Vec<_>>().join(", ");
                    let (added, changed, removed) = (names(added), names(changed), names(removed));
                    tracing::info!(added, changed, removed, "configuration reloaded");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(error, "the new configuration is not used; the last good one goes on");
                }
            },
            Err(report) => {
                findings::log(&report.diagnostics);
                self.engine.reload_failed(&report.to_string());
                let findings = report.diagnostics.len();
                tracing::error!(findings, "the new configuration is not used; the last good one goes on");
            }
        }
    }

    /// Makes the process do what the pipelines of the plan ask for.
    async fn take_up(&mut self, plan: &Plan, mut cluster: ClusterFacts) -> anyhow::Result<Changes> {
        let (ports, wanted) = match self.begin(plan).await {
            Ok(begun) => begun,
            Err(error) => {
                self.engine.reload_failed(&format!("{error:#}"));
                return Err(error);
            }
        };
        let opens = ports.is_some();
        let taken_up = match ports {
            Some(ports) => self.engine.reload_behind(ports, plan),
            None => self.engine.reload(plan),
        };
        if taken_up.is_err() {
            self.log_agent.restore(wanted);
        } else if opens {
            let Addresses { grpc, http, .. } = self.engine.addresses();
            tracing::info!(grpc = grpc.map(display), http = http.map(display), "the OTLP ports are open");
        }
        let changes = taken_up?;
        let scrapables = mem::take(&mut cluster.scrapables);
        let in_use = self.log_agent.pods_in_use().into_iter().chain(self.metric_agent.pods_in_use());
        self.pods.replace(cluster, &in_use.collect());
        self.metric_agent.scrape_for(plan, &scrapables, self.engine.inlet())?;
        Ok(changes)
    }

    /// Begins with what no pipeline asked for before, and finds out whether it can. What is read of containers is for
    /// the new pipelines before these are there, so that no line is missed; clients are served after that.
    async fn begin(&mut self, plan: &Plan) -> anyhow::Result<(Option<OtlpPorts>, Wanted)> {
        let is_closed = self.engine.addresses().grpc.is_none();
        let ports = if is_closed && serves_clients(&self.args, plan) {
            let ports = [self.args.grpc_port, self.args.http_port].map(Some);
            Some(OtlpPorts::bind(self.args.listen, ports).await?)
        } else {
            None
        };
        self.log_agent.prepare(plan)?;
        Ok((ports, self.log_agent.read_for(plan, self.engine.inlet(), &self.pods)?))
    }

    /// Takes up what the certificate, key and token files say now.
    fn secure(&self, read: anyhow::Result<Security>) {
        let read = read.map_err(|error| format!("{error:#}"));
        let secured = read.and_then(|Security { ingest, admin_tokens }| {
            self.engine.secure(&ingest)?;
            self.engine.secure_admin(&admin_tokens)
        });
        match secured {
            Ok(()) => tracing::info!("certificates and tokens are read again"),
            Err(error) => {
                tracing::error!(error, "cannot use the files with certificates and tokens; the old ones stay in use")
            }
        }
    }
}

fn say_started(pipeline: &weir_plan::Pipeline) {
    let output = &pipeline.output;
    let endpoint = output.is_remote().then_some(&output.endpoint);
    tracing::info!(
        pipeline = %pipeline.id,
        exporter = pipeline.exporter_label(),
        host = endpoint.map(|endpoint| endpoint.host.as_str()),
        port = endpoint.map(|endpoint| endpoint.port),
        "pipeline started"
    );
}

fn configuration(args: &RunArgs) -> anyhow::Result<Loaded> {
    configuration::for_gateway(&args.paths, args.strict, &LogOutputs::default()).map_err(|report| {
        findings::log(&report.diagnostics);
        // Not even with those pipelines that are right: data for the others would be acknowledged and not kept.
        anyhow!(
            "cannot use the configuration, nothing is started: correct it, or take out the pipelines that are \
             wrong; `weir check` shows the findings in their lines"
        )
    })
}

/// Files that are being read. Meanwhile requests are served and signals are heard, even when a file system hangs.
struct Reading<T>(Option<JoinHandle<T>>);

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> Reading<T> {
    fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    fn begin(&mut self, read: impl FnOnce() -> T + Send + 'static) {
        self.0 = Some(tokio::task::spawn_blocking(read));
    }

    /// What was read, once it is there. May be dropped and called again.
    async fn done(&mut self) -> T {
        if let Some(reading) = &mut self.0 {
            let read = reading.await;
            self.0 = None;
            match read {
                Ok(read) => return read,
                Err(_) => tracing::error!("reading files panicked: this is a bug in weir, please report it"),
            }
        }
        std::future::pending().await
    }
}

fn report((pipeline, books): &(PipelineId, BookFigures)) {
    let dropped: u64 = books.dropped.values().sum();
    let rejected: u64 = books.rejected.values().sum();
    let filtered: u64 = books.filtered.values().sum();
    let BookFigures { accepted, recovered, delivered, pending, .. } = books;
    let balanced = books.balanced();
    tracing::info!(%pipeline, accepted, recovered, delivered, filtered, dropped, rejected, pending, balanced, "stopped");
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    /// A process that is busy sees both at once.
    #[tokio::test]
    async fn a_gateway_that_has_started_is_not_let_go_for_a_signal_that_came_meanwhile() {
        for _ in 0..100 {
            assert_eq!(unless(async {}, async { 7 }).await, Some(7));
        }
        assert_eq!(unless(async {}, pending::<u8>()).await, None);
    }

    /// An agent may wait for a disk that hangs, or for a page that takes long to read.
    #[tokio::test(start_paused = true)]
    async fn agents_are_waited_for_as_long_as_they_may_take_and_not_when_there_is_a_hurry() {
        let (began, patience) = (Instant::now(), Duration::from_secs(22));
        assert!(is_done_within(patience, pending(), async {}).await);
        assert!(!is_done_within(patience, async {}, pending()).await);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(!is_done_within(patience, pending(), pending()).await);
        assert_eq!(began.elapsed().as_secs(), 22);
    }
}
