//! A gateway with its agents, from its start to its end. `weir run` and `weir node` tell it what to do: see `host`.

mod boards;
mod reload;
mod settings;

use std::mem;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::field::display;
use weir_engine::{Addresses, BookFigures, Engine, Entrance, Probes};
use weir_enrich::{PodList, Pods};
use weir_kubernetes::node::Facts;
use weir_legible::Recurring;
use weir_plan::{PipelineId, Plan};
use weir_resources::Loaded;

use crate::allocator;
use crate::cli::ProcessArgs;
use crate::container_logs::LogAgent;
use crate::data_dir::DataDir;
use crate::findings;
use crate::handover::{self, Predecessor, Successor};
use crate::health;
use crate::host::{self, Host, News, Place, Reading, Trigger};
use crate::limits;
use crate::page::Configurations;
use crate::program_text::Settling;
use crate::runtime_metrics::RuntimeMetrics;
use crate::scraping::MetricAgent;
use crate::security;
use crate::signals::Signals;
use crate::watch::Watch;
use boards::Boards;
pub(crate) use settings::memory;

/// How a gateway has ended.
pub(crate) enum End {
    Stopped(ExitCode),
    /// Another process goes on.
    HandedOver(Successor, ExitCode),
}

/// Runs a gateway until a signal ends it, or another process goes on.
pub(crate) async fn run(
    args: Arc<ProcessArgs>,
    host: impl Host + Send + 'static,
    signals: &mut Signals,
) -> anyhow::Result<End> {
    let (stop, stopped) = oneshot::channel::<()>();
    let start = move || {
        let stopped = async { drop(stopped.await) };
        Handle::current().block_on(unless(stopped, Gateway::start(args, host)))
    };
    // Files are read on a thread of its own: whatever hangs there, a signal is heard.
    let mut start = tokio::task::spawn_blocking(start);
    let mut is_ended = false;
    let started = match unless(signals.next(), &mut start).await {
        Some(started) => Some(started),
        None => {
            is_ended = true;
            drop(stop);
            timeout(LET_GO, start).await.ok()
        }
    };
    let started = started.transpose().context("the start panicked: this is a bug in weir, please report it")?;
    let Some(mut gateway) = started.flatten().transpose()? else {
        tracing::info!("stopped before it was ready");
        return Ok(End::Stopped(ExitCode::SUCCESS));
    };
    gateway.open().await;
    if is_ended { gateway.stop(ExitCode::SUCCESS, signals).await } else { gateway.serve(signals).await }
}

/// A start that is stopped lets go of what it has for so long, unless it hangs in a file.
const LET_GO: Duration = Duration::from_secs(2);

/// The result of `work`, unless `ends` resolves before. A result that is there already is not dropped.
async fn unless<T>(ends: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = ends => None,
    }
}

/// What to begin with. The log was told of its warnings.
async fn first(host: &mut impl Host) -> anyhow::Result<(Trigger, Loaded, Recurring)> {
    let (trigger, loaded) = host.first().await?;
    let mut warnings_reported = Recurring::default();
    findings::log_news(&loaded.warnings, &mut warnings_reported);
    Ok((trigger, loaded, warnings_reported))
}

/// The sources of this process, which do nothing as yet.
fn agents(
    args: &Arc<ProcessArgs>,
    boards: &Boards,
    host: &impl Host,
) -> anyhow::Result<(LogAgent, MetricAgent, RuntimeMetrics)> {
    let mut log_agent = LogAgent::new(Arc::clone(args), boards.containers.clone())?;
    log_agent.read_own(host.reads_own());
    let metric_agent = MetricAgent::new(Arc::clone(args), boards.targets.clone());
    let runtime_metrics = RuntimeMetrics::new(Arc::clone(args), boards.targets.clone(), host.speaks());
    Ok((log_agent, metric_agent, runtime_metrics))
}

/// Agents may end for so long after the drain timeout, when nobody takes anything from them any more.
const LAST_READS: Duration = Duration::from_secs(2);

/// Whether `work` is done in time, and before `ends` resolves.
async fn is_done_within(patience: Duration, ends: impl Future<Output = ()>, work: impl Future<Output = ()>) -> bool {
    matches!(unless(ends, timeout(patience, work)).await, Some(Ok(())))
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
    predecessor: Option<Predecessor>,
    probes: Option<Probes>,
    /// Look at how data flows.
    looking: [JoinHandle<()>; 2],
    /// What runs, and what became of other configurations.
    configurations: Configurations,
    /// The whole budget in bytes, for the log.
    memory: usize,
    /// Warnings of the last configuration, and when the log was told of them.
    warnings_reported: Recurring,
    settling: Settling,
}

impl<H: Host> Gateway<H> {
    /// Mistakes in the command line, the configuration and the ports are found before the data directory is touched, and
    /// everything that can be wrong is found before the engine starts: it delivers what is on disk at once.
    async fn start(args: Arc<ProcessArgs>, mut host: H) -> anyhow::Result<Self> {
        let security = Watch::new(security::files(&args))?;
        let (trigger, mut loaded, warnings_reported) = first(&mut host).await?;
        let Facts { mut facts, state } = host::facts_of(&mut loaded);
        let Loaded { plan, log_outputs, .. } = loaded;
        let mut settings = settings::of(&args, &plan)?;
        let boards = Boards::within(settings.memory);
        boards.show(&mut settings, host.pages(&boards.verdicts));
        let (mut log_agent, mut metric_agent, mut runtime_metrics) = agents(&args, &boards, &host)?;
        limits::raise_file_limit();
        let entrance = Entrance::open(&settings).await?;
        let probes = entrance.answer_probes("starting").context("cannot answer probes")?;
        let Place { data_dir, predecessor } = host.place(&args).await?;
        if let Some(DataDir { journal, state, logs }) = data_dir {
            settings.journal = Some(journal);
            settings.state = Some(Arc::new(state));
            log_agent.keep_in(logs);
        }
        log_agent.prepare(&plan)?;
        metric_agent.prepare(&plan)?;
        let (memory, scrapables) = (settings.memory, mem::take(&mut facts.scrapables));
        allocator::keep_within(memory);
        let pods = Arc::new(PodList::new(facts));
        let engine = Engine::start_behind(entrance, &plan, Arc::clone(&pods) as Arc<dyn Pods>, settings)?;
        plan.pipelines.iter().for_each(say_started);
        let Boards { verdicts, past, configurations, .. } = boards;
        configurations.started(&plan, host.provenance(), &trigger, &engine.faults());
        let looking = [health::watch(engine.view(), args.look_every, verdicts), past.record(engine.view())];
        let _ = log_agent.read_for(&plan, engine.inlet(), &pods)?;
        metric_agent.scrape_for(&plan, &scrapables, engine.inlet());
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
            predecessor,
            probes,
            looking,
            configurations,
            memory,
            settling: Settling::default(),
            warnings_reported,
        })
    }

    /// Serves from now on. A signal finds a gateway that can be ended in good order.
    async fn open(&mut self) {
        if let Some(probes) = self.probes.take() {
            probes.end().await;
        }
        self.engine.open().await;
        if let Some(predecessor) = &mut self.predecessor {
            predecessor.serve_ports(&self.engine);
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
                pipeline = self.engine.failed() => {
                    let pipeline = pipeline.map(|id| id.to_string());
                    tracing::error!(
                        pipeline,
                        "a pipeline or the journal's writer ended by itself: this is a bug in weir, please report it"
                    );
                    break ExitCode::FAILURE;
                }
                news = self.host.news() => match news {
                    News::Successor(successor) => return self.hand_over(successor, signals).await,
                    news => self.hear(news).await,
                },
                () = Predecessor::ends(&mut self.predecessor) => {
                    drop(self.predecessor.take().map(|predecessor| tokio::spawn(predecessor.leave())));
                }
                _ = self.security.changed(), if has_security && securing.is_idle() => {
                    let args = Arc::clone(&self.args);
                    securing.begin("certificates and tokens", move || security::read(&args));
                }
                read = securing.done() => self.secure(read),
            }
        };
        self.stop(code, signals).await
    }

    async fn stop(self, code: ExitCode, signals: &mut Signals) -> anyhow::Result<End> {
        tracing::info!("stopping: finishing what is under way; another signal, a second later or more, ends at once");
        let ProcessArgs { drain_timeout, drain_backlog, .. } = *self.args;
        self.end(drain_timeout, drain_backlog, signals.next()).await?;
        Ok(End::Stopped(code))
    }

    /// Another process goes on: what is here is delivered or on the disk soon, and the data directory is free then. Who
    /// connects meanwhile waits for the other process. A signal is heard after that, and a second one ends at once.
    async fn hand_over(mut self, mut successor: Successor, signals: &mut Signals) -> anyhow::Result<End> {
        let began = Instant::now();
        tracing::info!("another process takes over; finishing what is under way");
        successor.give(self.engine.ports()).await;
        self.end(handover::PATIENCE, false, signals.second()).await?;
        successor.release().await;
        tracing::info!(took = ?began.elapsed(), "handed over");
        Ok(End::HandedOver(successor, ExitCode::SUCCESS))
    }

    /// Ends at once when `hurry` resolves.
    async fn end(
        mut self,
        drain_timeout: Duration,
        drain_backlog: bool,
        hurry: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        // They see what keeps the data directory.
        for looks in self.looking {
            looks.abort();
            let _ = looks.await;
        }
        // What is read already is waited for, as it is for clients.
        let hurry = hurry.shared();
        if drain_backlog {
            self.engine.close();
            if !is_done_within(drain_timeout, hurry.clone(), self.engine.done()).await {
                self.engine.books().iter().for_each(|left| say_undelivered(left, drain_timeout));
            }
        }
        let still_read = [const { AtomicBool::new(true) }; 3];
        let [logs, scrapes, runtime] = &still_read;
        let agents = async {
            tokio::join!(
                until_done(self.log_agent.stop(), logs),
                until_done(self.metric_agent.stop(), scrapes),
                until_done(self.runtime_metrics.stop(), runtime)
            );
        };
        let patience = drain_timeout + LAST_READS;
        let engine = self.engine.shutdown_within(drain_timeout, hurry.clone());
        let predecessor = async {
            if let Some(predecessor) = self.predecessor {
                predecessor.leave().await;
            }
        };
        let (stopped, have_ended, ()) = tokio::join!(engine, is_done_within(patience, hurry, agents), predecessor);
        stopped.books.iter().for_each(report);
        if !have_ended {
            say_still_read(&still_read, patience);
        }
        self.host.end().await;
        if !stopped.in_order {
            bail!("ended by a second signal before everything under way was finished");
        }
        Ok(())
    }
}

/// Notes in `goes_on` that the work is done.
async fn until_done(work: impl Future<Output = ()>, goes_on: &AtomicBool) {
    work.await;
    goes_on.store(false, Ordering::Relaxed);
}

/// Which of container logs, scrapes and runtime metrics are still read when the time to end that is over.
fn say_still_read(still_read: &[AtomicBool; 3], time: Duration) {
    let reading = ["container logs", "scrapes", "runtime metrics"].into_iter().zip(still_read);
    let reading: Vec<_> = reading.filter(|(_, is)| is.load(Ordering::Relaxed)).map(|(what, _)| what).collect();
    tracing::warn!(
        reading = reading.join(", "),
        seconds = time.as_secs(),
        advice = "give it a longer --drain-timeout",
        "the end of reading was not waited for: lines of containers may be sent again, and scrapes that were under way are missing"
    );
}

/// What a pipeline is owed when the time to deliver it is over.
fn say_undelivered((pipeline, books): &(PipelineId, BookFigures), time: Duration) {
    if books.pending > 0 {
        tracing::warn!(
            %pipeline,
            items = books.pending,
            seconds = time.as_secs(),
            advice = "start weir again with this directory, or give it a longer --drain-timeout",
            "not all of the backlog was delivered in time; it is in the data directory"
        );
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
