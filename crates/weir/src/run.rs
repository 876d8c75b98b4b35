//! `weir run`, and what it has in common with `weir node`: the gateway and its agents.

pub(crate) mod signals;

use std::mem;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::field::display;
use weir_engine::admin::Route;
use weir_engine::settings::Admin;
use weir_engine::{Addresses, BookFigures, Changes, Engine, Entrance, OtlpPorts, Probes, Settings, settings};
use weir_enrich::{PodList, Pods};
use weir_kubernetes::node::Facts;
use weir_plan::{PipelineId, Plan};
use weir_resources::{Loaded, Report};
use weir_sources::scrape::TargetBoard;
use weir_sources::tail::{Board, Wanted};

use crate::allocator;
use crate::cli::{ProcessArgs, Role, RunArgs};
use crate::container_logs::LogAgent;
use crate::data_dir::DataDir;
use crate::findings;
use crate::handover::{self, Estate, Heir};
use crate::health::{self, HealthOfPipelines, Verdicts};
use crate::host::{self, Files, Host, News, Premises, Reading};
use crate::limits;
use crate::proxy;
use crate::runtime_metrics::RuntimeMetrics;
use crate::scraping::MetricAgent;
use crate::security::{self, Security};
use crate::watch::Watch;
use signals::Signals;

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let RunArgs { paths, strict, process } = args;
    let process = Arc::new(process);
    block_on(&process, async || {
        let mut signals = Signals::new()?;
        let host = Files::new(paths, strict)?;
        // Nobody hands over where there is only one process.
        match gateway(Arc::clone(&process), host, &mut signals).await? {
            End::Stopped(code) | End::HandedOver(_, code) => Ok(code),
        }
    })
}

/// Runs the work of a process that moves data.
pub(crate) fn block_on(
    process: &ProcessArgs,
    work: impl AsyncFnOnce() -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let runtime = runtime(memory(process))?;
    let code = runtime.block_on(async {
        tokio::spawn(allocator::tidy());
        work().await
    });
    // A disk or a name server that hangs does not keep the process alive.
    runtime.shutdown_background();
    code
}

/// How a gateway has ended.
pub(crate) enum End {
    Stopped(ExitCode),
    /// Another process goes on.
    HandedOver(Heir, ExitCode),
}

/// Runs a gateway until a signal ends it, or another process goes on.
pub(crate) async fn gateway(
    args: Arc<ProcessArgs>,
    host: impl Host + Send + 'static,
    signals: &mut Signals,
) -> anyhow::Result<End> {
    // Files are read on a thread of its own: whatever hangs there, a signal is heard.
    let start = tokio::task::spawn_blocking(move || Handle::current().block_on(Gateway::start(args, host)));
    let Some(started) = unless(signals.next(), start).await else {
        tracing::info!("stopped before it was ready");
        return Ok(End::Stopped(ExitCode::SUCCESS));
    };
    let mut gateway = started.context("the start panicked: this is a bug in weir, please report it")??;
    gateway.open().await;
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
pub(crate) fn memory(args: &ProcessArgs) -> usize {
    let of_limit = || limits::cgroup_memory_limit().map_or(settings::MEMORY, |limit| limit / 4 * 3);
    args.memory.unwrap_or_else(of_limit)
}

/// Whether clients are to be served: if the command line says so, else if a pipeline takes what they push.
fn serves_clients(args: &ProcessArgs, plan: &Plan) -> bool {
    let is_asked_for = || plan.pipelines.iter().any(|pipeline| pipeline.input.otlp.is_some());
    args.names(Role::Gateway) || (args.allows(Role::Gateway) && is_asked_for())
}

fn settings(args: &ProcessArgs, plan: &Plan) -> anyhow::Result<Settings> {
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
        rebalance: args.rebalance.then(|| args.rebalance_cpu.unwrap_or_else(limits::cores)),
        body_timeout: settings::BODY_TIMEOUT,
        journal: None,
        state: None,
        security,
        admin,
        pages: Vec::new(),
        health_pages: Vec::new(),
        proxy: proxy::of_environment()?,
    })
}

/// A gateway that is ready, and what it is made of.
struct Gateway<H> {
    engine: Engine,
    host: H,
    /// What runs.
    plan: Plan,
    /// What the engine asks about the cluster.
    pods: Arc<PodList>,
    log_agent: LogAgent,
    metric_agent: MetricAgent,
    runtime_metrics: RuntimeMetrics,
    args: Arc<ProcessArgs>,
    /// Certificates and tokens, read again when they change.
    security: Watch,
    /// OTLP ports of the process before this one.
    estate: Option<Estate>,
    probes: Option<Probes>,
    /// Looks at how data flows.
    looking: JoinHandle<()>,
    /// The whole budget in bytes, for the log.
    memory: usize,
}

impl<H: Host> Gateway<H> {
    /// Mistakes in the command line, the configuration and the ports are found before the data directory is touched, and
    /// everything that can be wrong is found before the engine starts: it delivers what is on disk at once.
    async fn start(args: Arc<ProcessArgs>, mut host: H) -> anyhow::Result<Self> {
        let security = Watch::new(security::files(&args))?;
        let mut loaded = host.first().await?;
        let Facts { mut facts, state } = host::facts_of(&mut loaded);
        let Loaded { plan, log_outputs, .. } = loaded;
        let mut settings = settings(&args, &plan)?;
        let verdicts = Verdicts::default();
        settings.pages = host.pages(&verdicts);
        settings.health_pages.push(Route::new("/health/pipelines", HealthOfPipelines::of(&verdicts)));
        let board = Board::default();
        let mut log_agent = LogAgent::new(Arc::clone(&args), board.clone())?;
        log_agent.read_own(host.reads_own());
        settings.admin.routes.push(Route::new("/logs", board));
        let targets = TargetBoard::default();
        let mut metric_agent = MetricAgent::new(Arc::clone(&args), targets.clone());
        let mut runtime_metrics = RuntimeMetrics::new(Arc::clone(&args), targets.clone(), host.speaks());
        settings.admin.routes.push(Route::new("/targets", targets));
        limits::raise_file_limit();
        let entrance = Entrance::open(&settings).await?;
        let probes = entrance.answer_probes("starting").context("cannot answer probes")?;
        let Premises { data_dir, estate } = host.premises(&args).await?;
        if let Some(DataDir { journal, state, logs }) = data_dir {
            settings.journal = Some(journal);
            settings.state = Some(Arc::new(state));
            log_agent.keep_in(logs);
        }
        log_agent.prepare(&plan)?;
        let memory = settings.memory;
        allocator::keep_within(memory);
        let scrapables = mem::take(&mut facts.scrapables);
        let pods = Arc::new(PodList::new(facts));
        let engine = Engine::start_behind(entrance, &plan, Arc::clone(&pods) as Arc<dyn Pods>, settings)?;
        plan.pipelines.iter().for_each(say_started);
        let looking = health::watch(engine.view(), args.look_every, verdicts);
        let _ = log_agent.read_for(&plan, engine.inlet(), &pods)?;
        metric_agent.scrape_for(&plan, &scrapables, engine.inlet())?;
        runtime_metrics.make_for(&plan, state, &engine.inlet());
        host.runs(&plan, log_outputs, &engine.inlet());
        Ok(Self {
            engine,
            host,
            plan,
            pods,
            log_agent,
            metric_agent,
            runtime_metrics,
            args,
            security,
            estate,
            probes,
            looking,
            memory,
        })
    }

    /// Serves from now on. A signal finds a gateway that can be ended in good order.
    async fn open(&mut self) {
        if let Some(probes) = self.probes.take() {
            probes.end().await;
        }
        self.engine.open().await;
        if let Some(estate) = &mut self.estate {
            estate.take_up(&self.engine);
        }
        let (Addresses { grpc, http, metrics, health, admin }, memory) = (self.engine.addresses(), self.memory);
        let [grpc, http, metrics, health, admin] = [grpc, http, metrics, health, admin].map(|at| at.map(display));
        tracing::info!(grpc, http, metrics, health, admin, memory, "ready");
    }

    async fn serve(mut self, signals: &mut Signals) -> anyhow::Result<End> {
        let (mut securing, has_security) = (Reading::default(), !self.security.paths().is_empty());
        let code = loop {
            tokio::select! {
                () = signals.next() => break ExitCode::SUCCESS,
                () = self.engine.failed() => {
                    tracing::error!(
                        "a pipeline or the journal's writer ended by itself: this is a bug in weir, please report it"
                    );
                    break ExitCode::FAILURE;
                }
                news = self.host.news() => match news {
                    News::Heir(heir) => return self.hand_over(heir, signals).await,
                    news => self.hear(news).await,
                },
                () = Estate::ends(&mut self.estate) => drop(self.estate.take().map(|estate| tokio::spawn(estate.leave()))),
                () = self.security.changed(), if has_security && securing.is_idle() => {
                    let args = Arc::clone(&self.args);
                    securing.begin(move || security::read(&args));
                }
                read = securing.done() => self.secure(read),
            }
        };
        tracing::info!("stopping: finishing what is under way; another signal, a second later or more, ends at once");
        let ProcessArgs { drain_timeout, drain_backlog, .. } = *self.args;
        self.end(drain_timeout, drain_backlog, signals).await?;
        Ok(End::Stopped(code))
    }

    /// Another process goes on: what is here is delivered or on the disk soon, and the data directory is free then. Who
    /// connects meanwhile waits for the other process.
    async fn hand_over(mut self, mut heir: Heir, signals: &mut Signals) -> anyhow::Result<End> {
        let began = Instant::now();
        tracing::info!("another process takes over; finishing what is under way");
        heir.bequeath(self.engine.ports()).await;
        self.end(handover::PATIENCE, false, signals).await?;
        heir.release().await;
        tracing::info!(took = ?began.elapsed(), "handed over");
        Ok(End::HandedOver(heir, ExitCode::SUCCESS))
    }

    async fn end(mut self, drain_timeout: Duration, drain_backlog: bool, signals: &mut Signals) -> anyhow::Result<()> {
        // It sees what keeps the data directory.
        self.looking.abort();
        let _ = self.looking.await;
        // What is read already is waited for, as it is for clients.
        let hurry = signals.next().shared();
        if drain_backlog {
            self.engine.close();
            if !is_done_within(drain_timeout, hurry.clone(), self.engine.done()).await {
                tracing::warn!("not all of the backlog was delivered in time; it is in the data directory");
            }
        }
        let agents = async {
            tokio::join!(self.log_agent.stop(), self.metric_agent.stop(), self.runtime_metrics.stop());
        };
        let patience = drain_timeout + LAST_READS;
        let engine = self.engine.shutdown_within(drain_timeout, hurry.clone());
        let estate = async {
            if let Some(estate) = self.estate {
                estate.leave().await;
            }
        };
        let (stopped, have_ended, ()) = tokio::join!(engine, is_done_within(patience, hurry, agents), estate);
        stopped.books.iter().for_each(report);
        if !have_ended {
            tracing::warn!(
                "the end of reading was not waited for: lines of containers may be sent again, and scrapes that were under way are missing"
            );
        }
        self.host.end().await;
        if !stopped.in_order {
            bail!("ended by a second signal before everything under way was finished");
        }
        Ok(())
    }

    async fn hear(&mut self, news: News) {
        match news {
            News::Configuration(loaded) => self.reload(*loaded).await,
            News::Unreadable(error) => {
                self.engine.reload_failed(&error);
                tracing::error!(error, "the new configuration is not used; the last good one goes on");
            }
            News::Facts(facts) => {
                if let Err(error) = self.know(facts) {
                    tracing::error!("cannot take up what is new in the cluster: {error:#}");
                }
            }
            News::Heir(_) => {}
        }
    }

    /// Takes up what the configuration says now. Where it is wrong, everything goes on as it is.
    async fn reload(&mut self, loaded: Result<Loaded, Report>) {
        match loaded {
            Ok(mut loaded) => {
                let facts = host::facts_of(&mut loaded);
                let Loaded { plan, log_outputs, .. } = loaded;
                match self.take_up(plan, facts).await {
                    Ok(Changes { added, changed, removed, .. }) => {
                        self.host.runs(&self.plan, log_outputs, &self.engine.inlet());
                        let names =
                            |ids: Vec<PipelineId>| ids.iter().map(PipelineId::to_string).collect::<Vec<_>>().join(", ");
                        let (added, changed, removed) = (names(added), names(changed), names(removed));
                        tracing::info!(added, changed, removed, "configuration reloaded");
                    }
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::error!(error, "the new configuration is not used; the last good one goes on");
                    }
                }
            }
            Err(report) => {
                findings::log(&report.diagnostics);
                self.engine.reload_failed(&report.to_string());
                let findings = report.diagnostics.len();
                tracing::error!(findings, "the new configuration is not used; the last good one goes on");
            }
        }
    }

    /// Makes the process do what the pipelines of the plan ask for.
    async fn take_up(&mut self, plan: Plan, facts: Facts) -> anyhow::Result<Changes> {
        let (ports, wanted) = match self.begin(&plan).await {
            Ok(begun) => begun,
            Err(error) => {
                self.engine.reload_failed(&format!("{error:#}"));
                return Err(error);
            }
        };
        let opens = ports.is_some();
        let taken_up = match ports {
            Some(ports) => self.engine.reload_behind(ports, &plan),
            None => self.engine.reload(&plan),
        };
        if taken_up.is_err() {
            self.log_agent.restore(wanted);
        } else if opens {
            let Addresses { grpc, http, .. } = self.engine.addresses();
            tracing::info!(grpc = grpc.map(display), http = http.map(display), "the OTLP ports are open");
        }
        let changes = taken_up?;
        self.plan = plan;
        self.know(facts)?;
        self.log_agent.read_own(self.host.reads_own());
        Ok(changes)
    }

    /// What is known of the cluster from now on. The pipelines are the same.
    fn know(&mut self, Facts { mut facts, state }: Facts) -> anyhow::Result<()> {
        let scrapables = mem::take(&mut facts.scrapables);
        let in_use = self.log_agent.pods_in_use().into_iter().chain(self.metric_agent.pods_in_use());
        self.pods.replace(facts, &in_use.collect());
        self.metric_agent.scrape_for(&self.plan, &scrapables, self.engine.inlet())?;
        self.runtime_metrics.make_for(&self.plan, state, &self.engine.inlet());
        Ok(())
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
