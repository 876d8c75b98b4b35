//! The engine: receives telemetry, delivers it, and accounts for every item in between. Telemetry comes from clients,
//! over sockets, or from sources in the same process (`inlet`).
//!
//! It runs a [`Plan`]; it must not know Kubernetes, custom resources, configuration files or the command line. The disk
//! it sees only through the journal.
//!
//! Invariants, cited in code and tests:
//! - **ENGINE-1** each accepted item ends in exactly one of delivered, filtered, dropped(reason), rejected(code), all
//!   counted in the books of its pipeline (`books`, `obligation`).
//! - **ENGINE-2** every queue is bounded in bytes: what is queued carries its permit of the memory budget (`budget`).
//! - **ENGINE-3** no task without an owner: `Engine::shutdown` awaits or aborts everything that the engine started, with
//!   these exceptions. The task that waits to make a budget smaller ends by itself. The journal's writer, when a shutdown
//!   is hurried, ends when nobody can reach it any more. Threads for blocking work, and that of standard output, end when
//!   the disk, the name service or the reader has answered. The task of a tap ends when its time is over, or soon after
//!   nobody asks for it any more. An engine that is dropped without a shutdown does not end its servers, the pages and
//!   the task that looks after the accounts: they end with the runtime.
//! - **ENGINE-4** a client is answered OK only when every pipeline has delivered its data or has it in the journal, or,
//!   without a journal, holds it in memory (`intake`, `store`).

#![forbid(unsafe_code)]

mod account;
mod accounts;
pub mod admin;
mod backends;
mod before_books;
mod books;
mod budget;
mod buffer;
mod clock;
mod codec;
mod counters;
mod division;
mod entrance;
mod export;
mod histogram;
mod http2;
mod inlet;
mod intake;
mod losses;
mod metrics;
mod obligation;
mod pipeline;
mod pipelines;
mod preview;
mod probes;
mod process;
mod receive;
mod reloads;
mod request_size;
mod rules;
mod samples;
#[cfg(test)]
mod secrets;
pub mod settings;
mod share;
#[cfg(test)]
mod simulation;
mod status;
mod store;
pub mod talkers;
pub mod taps;
pub mod view;
mod writes;

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{io, mem};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weir_enrich::Pods;
use weir_plan::{PipelineId, Plan};

pub use accounts::say_left_out;
pub use before_books::EarlyLoss;
pub use books::BookFigures;
pub use budget::{Permit, Text};
pub use clock::unix_nanos;
pub use codec::{Encoding, InflateError};
pub use entrance::{Addresses, Entrance, OtlpPorts};
pub use export::SetupError;
pub use export::client_config;
pub use histogram::Histogram;
pub use inlet::{Added, Inlet, InputKind, MemoryPart, Obstacle, Origin, Request, Secured, Unfit, Verdict};
pub use pipelines::Changes;
pub use preview::{Preview, RuleReport, Step, preview};
pub use probes::Probes;
pub use settings::Settings;
pub use store::LOOK_AT_THE_DISK;

use accounts::Accounts;
use budget::{Budget, Funds, Holder};
use clock::Clock;
use division::{Division, PAGES, STREAMS};
use entrance::{DeskFunds, Doors, Socket, desks, is_closed};
use intake::Intake;
use pipeline::Common;
use pipelines::Pipelines;
use receive::{Gate, Load, Receiver, ReceiverStats, Server, ServerLimits};
use reloads::Reloads;
use settings::{LAST_ANSWERS, LAST_WRITES, PortSecurity};
use store::{Io, Opened, Store};
use view::{Owners, View};

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port cannot be bound.
    #[error("cannot listen on {address} for {purpose}: {source}{}", advice(source, flags))]
    Bind {
        /// What was to be bound.
        address: SocketAddr,
        /// What is served there.
        purpose: &'static str,
        /// The flags that change the address and the port.
        flags: [&'static str; 2],
        /// The system's reason.
        source: io::Error,
    },
    /// Everybody could see samples of telemetry.
    #[error(
        "cannot listen on {address} for administration without a token, because telemetry can be seen there; name a file \
         of tokens with --admin-token-file, authorities of clients with --admin-tls-client-ca, or a loopback address with \
         --admin-listen"
    )]
    OpenAdmin {
        /// What was to be bound.
        address: SocketAddr,
    },
    /// A certificate or key for a port cannot be used.
    #[error("{0}")]
    Security(String),
    /// There is not enough memory for that many.
    #[error(
        "cannot run {pipelines} pipelines: --memory is enough for {most}; set it to {pipelines}MiB or more, as each needs 1MiB"
    )]
    TooManyPipelines {
        /// So many are in the plan.
        pipelines: usize,
        /// So many there can be.
        most: usize,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] weir_journal::OpenError),
    /// No thread for the journal's writer.
    #[error("cannot start the thread that writes the journal: {0}")]
    Thread(io::Error),
}

/// What helps when an address cannot be bound.
fn advice(source: &io::Error, [address, port]: &[&str; 2]) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => format!("; is another instance running? choose another port with {port}"),
        io::ErrorKind::AddrNotAvailable => format!("; choose an address of this machine with {address}"),
        io::ErrorKind::PermissionDenied => format!("; choose a port from 1024 on with {port}"),
        _ => String::new(),
    }
}

/// How often whoever waits for the end of all work looks.
const DONE_CHECK: Duration = Duration::from_millis(100);

/// How an engine ended.
#[derive(Debug)]
pub struct Stopped {
    /// The final books of every pipeline.
    pub books: Vec<(PipelineId, BookFigures)>,
    /// Whether everything under way was finished, or given its time.
    pub in_order: bool,
}

/// A running engine.
#[derive(Debug)]
pub struct Engine {
    addresses: Addresses,
    pipelines: Pipelines,
    intake: Arc<Intake>,
    receiver: Arc<Receiver>,
    admin_gate: Arc<Gate>,
    reloads: Arc<Reloads>,
    view: View,
    stop: watch::Sender<bool>,
    /// What it opens with; `None` once it is open.
    doors: Option<Doors>,
    /// The OTLP ports once more, for whoever takes them over.
    ports: Vec<OwnedFd>,
    servers: Vec<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
    desks: Vec<JoinHandle<()>>,
    /// Looks after the accounts.
    warden: JoinHandle<()>,
}

impl Engine {
    /// Binds all ports and starts every pipeline of the plan. What cannot be set up for one of them is logged, and
    /// concerns no other. Facts about the cluster come from `pods`, as they are when a request arrives.
    pub async fn start(plan: &Plan, pods: Arc<dyn Pods>, settings: Settings) -> Result<Self, StartError> {
        let entrance = Entrance::open(&settings).await?;
        let mut engine = Self::start_behind(entrance, plan, pods, settings)?;
        engine.open().await;
        Ok(engine)
    }

    /// Starts every pipeline of the plan behind ports that are bound already, with the same settings. Nobody is served
    /// as yet, and nothing that is on disk was changed so that another process could not begin with it.
    pub fn start_behind(
        entrance: Entrance,
        plan: &Plan,
        pods: Arc<dyn Pods>,
        settings: Settings,
    ) -> Result<Self, StartError> {
        let Entrance { gate, admin_gate, sockets } = entrance;
        let addresses = sockets.addresses();
        let started = Started::new(plan, pods, settings)?;
        let receivers = Arc::new(ReceiverStats::default());
        let (pages, streams) = (Budget::new(started.division.pages), Budget::new(started.division.streams));
        let view = started.view(&receivers, &streams, &pages);
        let Started { division, budget, clock, accounts, intake, pipelines, reloads, writer } = started;
        let for_pages = budget.held_by(Holder::Onlookers);
        let large = for_pages.within(division.large_pages());
        let funds = DeskFunds { open: Funds([pages.clone(), for_pages]), admin: Funds([pages, large]) };
        let desks = desks(&pipelines.settings, &admin_gate, &view, funds);
        let streams = Funds([budget.clone(), streams]);
        let settings = &pipelines.settings;
        let load = settings.rebalance.map(|cores| Load::watch(budget.clone(), cores));
        let receiver = Arc::new(Receiver {
            inlet: Inlet::new(Arc::clone(&intake), Holder::Clients),
            budget,
            funds: streams,
            gate,
            stats: receivers,
            body_timeout: settings.body_timeout,
            load,
        });
        let (stop, stopped) = watch::channel(false);
        let server = Server::new(Arc::clone(&receiver), ServerLimits::new(settings, division.connections), stopped);
        let warden = tokio::spawn(accounts.look_after(clock));
        Ok(Self {
            addresses,
            pipelines,
            intake,
            receiver,
            admin_gate,
            reloads,
            view,
            stop,
            doors: Some(Doors { sockets, server, desks }),
            ports: Vec::new(),
            servers: Vec::new(),
            writer,
            desks: Vec::new(),
            warden,
        })
    }

    /// Serves from now on.
    pub async fn open(&mut self) {
        let Some(Doors { sockets, server, desks: [metrics, health, admin] }) = self.doors.take() else { return };
        self.pipelines.begin().await;
        self.serve(&server, [sockets.grpc, sockets.http]);
        let desks = [(metrics, sockets.metrics), (health, sockets.health), (admin, sockets.admin)];
        let desks = desks.into_iter().filter_map(|(desk, socket)| Some((desk, socket?)));
        self.desks = desks.map(|(desk, socket)| tokio::spawn(desk.serve(socket.listener))).collect();
    }

    fn serve(&mut self, server: &Server, otlp: [Option<Socket>; 2]) {
        for socket in otlp.into_iter().flatten() {
            // Without it, nobody can take the port over, and that is all.
            self.ports.extend(socket.listener.as_fd().try_clone_to_owned());
            self.servers.push(tokio::spawn(server.clone().serve(socket.listener)));
        }
    }

    /// Makes the pipelines what `plan` says, while requests are served. What cannot be set up for one of them is
    /// logged, and concerns no other.
    ///
    /// # Errors
    /// When there is not enough memory for all of them; then nothing has changed.
    pub fn reload(&mut self, plan: &Plan) -> Result<Changes, StartError> {
        if let Err(error) = has_memory_for(plan, &self.pipelines.settings) {
            self.reloads.failed(&error.to_string());
            return Err(error);
        }
        let changes = self.pipelines.apply(plan);
        match in_words(&changes.faults) {
            None => self.reloads.succeeded(),
            Some(error) => self.reloads.failed(&error),
        }
        report(&changes.faults);
        Ok(changes)
    }

    /// The same for an engine that is open and has no OTLP ports: it serves these from then on, and sets memory aside
    /// for their connections.
    ///
    /// # Errors
    /// As above.
    pub fn reload_behind(&mut self, ports: OtlpPorts, plan: &Plan) -> Result<Changes, StartError> {
        let OtlpPorts(sockets) = ports;
        let [grpc, http] = sockets.each_ref().map(Socket::address_of);
        let port = |address: Option<SocketAddr>| address.map(|address| address.port());
        let settings = &mut self.pipelines.settings;
        (settings.grpc_port, settings.http_port) = (port(grpc), port(http));
        let reloaded = self.reload(plan);
        let settings = &mut self.pipelines.settings;
        if reloaded.is_err() {
            (settings.grpc_port, settings.http_port) = (None, None);
            return reloaded;
        }
        let connections = Division::new(settings, &plan.pipelines, 0).connections;
        let limits = ServerLimits::new(settings, connections);
        let server = Server::new(Arc::clone(&self.receiver), limits, self.stop.subscribe());
        (self.addresses.grpc, self.addresses.http) = (grpc, http);
        self.serve(&server, sockets);
        reloaded
    }

    /// Serves the OTLP ports of another engine, too, until it is told to leave them.
    pub fn adopt(&self, ports: OtlpPorts) -> Adopted {
        let (stop, stopped) = watch::channel(false);
        let connections = Division::new(&self.pipelines.settings, [], 0).connections;
        let server =
            Server::new(Arc::clone(&self.receiver), ServerLimits::new(&self.pipelines.settings, connections), stopped);
        let OtlpPorts(sockets) = ports;
        let serve = |socket: Socket| tokio::spawn(server.clone().serve(socket.listener));
        Adopted { stop, servers: sockets.into_iter().flatten().map(serve).collect() }
    }

    /// Takes no more connections, and asks clients to go elsewhere; what is here goes on being delivered, for as long as the
    /// engine lives. Call this before a shutdown.
    pub fn close(&mut self) {
        self.ports.clear();
        self.stop.send_replace(true);
    }

    /// Resolves when no client is connected and no item is owed to a backend.
    pub async fn done(&self) {
        let is_done = || {
            let connections = self.receiver.stats.connections.load(Ordering::Relaxed);
            connections == 0 && self.books().iter().all(|(_, books)| books.pending == 0)
        };
        while !is_done() {
            tokio::time::sleep(DONE_CHECK).await;
        }
    }

    /// The OTLP ports, for an engine in another process to adopt them: who connects meanwhile waits for it. Call this
    /// before a shutdown.
    pub fn ports(&mut self) -> Vec<OwnedFd> {
        mem::take(&mut self.ports)
    }

    /// Who may send from now on, and who may see samples of telemetry. Whether some who could connect before may do so no
    /// more: connections from before are asked to connect anew then.
    ///
    /// # Errors
    /// What is wrong with a certificate or key, or when everybody could look although the address is not a loopback address;
    /// then nothing has changed.
    pub fn secure(&self, ingest: &PortSecurity, admin: &PortSecurity) -> Result<bool, String> {
        is_closed(&self.pipelines.settings.admin, admin).map_err(|error| error.to_string())?;
        let gate = &self.receiver.gate;
        let (of_ingest, of_admin) = (gate.prepare(ingest)?, self.admin_gate.prepare(admin)?);
        let ends = [gate.replace(of_ingest), self.admin_gate.replace(of_admin)];
        Ok(ends.contains(&true))
    }

    /// A new configuration was there and could not be used. Whoever watches the engine learns of it, and of what is
    /// wrong.
    pub fn reload_failed(&self, error: &str) {
        self.reloads.failed(error);
    }

    /// What cannot be set up as the plan has it that runs.
    pub fn faults(&self) -> Vec<SetupError> {
        self.pipelines.faults()
    }

    /// What there is to see of the engine; usable without the engine at hand.
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Where a source in this process offers its requests.
    pub fn inlet(&self) -> Inlet {
        Inlet::new(Arc::clone(&self.intake), Holder::Sources)
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The books of every pipeline.
    pub fn books(&self) -> Vec<(PipelineId, BookFigures)> {
        self.intake.books()
    }

    /// Resolves when a pipeline's task or, `None`, the journal's writer has ended although nobody asked it to: a bug. From
    /// then on requests are refused, because their data cannot be kept. The process should shut down, so that it can be
    /// started again.
    pub async fn failed(&mut self) -> Option<PipelineId> {
        let writer = async {
            match &mut self.writer {
                Some(writer) => drop(writer.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            pipeline = self.pipelines.failed() => pipeline,
            () = writer => {
                self.writer = None;
                None
            }
        }
    }

    /// Stops accepting requests. Delivers what is here within the drain timeout, or leaves it in the journal; what it
    /// can neither deliver nor keep is refused. Returns the final books. As soon as `hurry` resolves, it stops where it
    /// is, and what was acknowledged from memory is given up.
    pub async fn shutdown(self, hurry: impl Future<Output = ()>) -> Stopped {
        let drain_timeout = self.pipelines.settings.drain_timeout;
        self.shutdown_within(drain_timeout, hurry).await
    }

    /// The same with another time to deliver what is here.
    pub async fn shutdown_within(mut self, drain_timeout: Duration, hurry: impl Future<Output = ()>) -> Stopped {
        let deadline = Instant::now() + drain_timeout;
        self.ports.clear();
        self.intake.drain(deadline);
        self.stop.send_replace(true);
        self.pipelines.drain(deadline);
        let in_order = tokio::select! {
            () = self.finish(deadline) => true,
            () = hurry => false,
        };
        self.servers.iter().chain(&self.desks).chain([&self.warden]).for_each(JoinHandle::abort);
        self.pipelines.end().await;
        self.pipelines.accounts.say_losses();
        Stopped { books: self.intake.books(), in_order }
    }

    async fn finish(&mut self, deadline: Instant) {
        for task in &mut self.servers {
            // Connections that hang beyond the deadline are cut.
            if tokio::time::timeout_at(deadline + LAST_ANSWERS, &mut *task).await.is_err() {
                task.abort();
            }
        }
        self.pipelines.ended().await;
        if let (Some(store), Some(writer)) = (self.intake.store(), &mut self.writer) {
            // What was delivered is noted, so that it is not sent again after the next start.
            store.close();
            if tokio::time::timeout_at(deadline + LAST_WRITES, writer).await.is_err() {
                let seconds = store.stats.busy(&store.clock).as_secs();
                tracing::error!(
                    seconds,
                    advice = crate::store::LOOK_AT_THE_DISK,
                    "the disk does not answer; what was delivered last may be delivered again"
                );
            }
        }
        self.pipelines.remember(deadline + LAST_WRITES).await;
    }
}

/// Ports of another engine that are served here.
#[derive(Debug)]
pub struct Adopted {
    stop: watch::Sender<bool>,
    servers: Vec<JoinHandle<()>>,
}

impl Adopted {
    /// Takes no more connections there, and asks the clients of those that there are to go elsewhere. Returns when they
    /// have gone, or after `patience`.
    pub async fn leave(mut self, patience: Duration) {
        self.stop.send_replace(true);
        let gone = async {
            for server in &mut self.servers {
                // One that panicked has ended as well.
                let _ = server.await;
            }
        };
        let _ = tokio::time::timeout(patience, gone).await;
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        self.servers.iter().for_each(JoinHandle::abort);
    }
}

/// The pipelines of an engine and what they share, before there is anything in front of them.
struct Started {
    division: Division,
    /// For payloads.
    budget: Budget,
    clock: Clock,
    accounts: Arc<Accounts>,
    intake: Arc<Intake>,
    pipelines: Pipelines,
    reloads: Arc<Reloads>,
    writer: Option<JoinHandle<()>>,
}

impl Started {
    fn new(plan: &Plan, pods: Arc<dyn Pods>, settings: Settings) -> Result<Self, StartError> {
        has_memory_for(plan, &settings)?;
        let clock = Clock::start();
        let division = Division::new(&settings, &plan.pipelines, 0);
        let budget = Budget::new(division.payloads);
        let opened = open_journal(&settings, clock)?;
        let accounts = Arc::new(accounts(plan, (division, clock.started), opened.as_ref()));
        let for_samples = budget.held_by(Holder::Onlookers);
        let (store, writer) = start_writer(opened, &accounts, &settings, (clock, &for_samples))?;
        let intake = Arc::new(Intake::new(budget.clone(), settings.spill_after, store.clone(), &settings.onlookers));
        let read_back = Budget::new(division.read_back * division.pipelines);
        let for_delivery = budget.held_by(Holder::Delivery);
        let oversized = for_delivery.within(division.oversized());
        let limits = pipelines::limits(division);
        let common = Common { limits, budget: for_delivery, read_back, oversized, store, clock };
        let mut pipelines = Pipelines::new(settings, common, Arc::clone(&accounts), Arc::clone(&intake), pods);
        let Changes { faults, .. } = pipelines.apply(plan);
        let reloads = Arc::new(Reloads::starting(in_words(&faults)));
        report(&faults);
        Ok(Self { division, budget, clock, accounts, intake, pipelines, reloads, writer })
    }

    /// What whoever looks at the engine sees. `streams` and `pages` are parts of the memory; pages pay for snapshots first.
    fn view(&self, receivers: &Arc<ReceiverStats>, streams: &Budget, pages: &Budget) -> View {
        View::new(Owners {
            intake: Arc::clone(&self.intake),
            accounts: Arc::clone(&self.accounts),
            receivers: Arc::clone(receivers),
            reloads: Arc::clone(&self.reloads),
            budgets: self.pipelines.budgets([(STREAMS, streams.clone()), (PAGES, pages.clone())]),
            clock: self.clock,
            funds: Funds([pages.clone(), self.budget.held_by(Holder::Onlookers)]),
        })
    }
}

fn has_memory_for(plan: &Plan, settings: &Settings) -> Result<(), StartError> {
    let (pipelines, most) = (plan.pipelines.len(), settings.most_pipelines());
    if pipelines > most { Err(StartError::TooManyPipelines { pipelines, most }) } else { Ok(()) }
}

/// All of them; `None` if there are none.
fn in_words(faults: &[SetupError]) -> Option<String> {
    let words: Vec<_> = faults.iter().map(SetupError::to_string).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn report(faults: &[SetupError]) {
    for SetupError { pipeline, cause } in faults {
        tracing::error!(
            %pipeline,
            cause,
            advice = "correct its output; `weir check` finds most of what can be wrong",
            "cannot set up the pipeline as configured; the others are not concerned"
        );
    }
}

fn open_journal(settings: &Settings, clock: Clock) -> Result<Option<Opened>, StartError> {
    let open = |journal: &settings::Journal| Opened::open(Arc::clone(&journal.fs), clock);
    Ok(settings.journal.as_ref().map(open).transpose()?)
}

fn accounts(plan: &Plan, (division, epoch): (Division, Instant), opened: Option<&Opened>) -> Accounts {
    let (accounts, journal) = (Accounts::default(), opened.map(|opened| &opened.journal));
    for planned in &plan.pipelines {
        pipelines::open_account(&accounts, planned, (division, epoch), journal);
    }
    accounts
}

/// The journal's writer waits for the disk all the time, so it has a thread of its own.
fn start_writer(
    opened: Option<Opened>,
    accounts: &Arc<Accounts>,
    settings: &Settings,
    (clock, budget): (Clock, &Budget),
) -> Result<(Option<Store>, Option<JoinHandle<()>>), StartError> {
    let (Some(opened), Some(journal)) = (opened, &settings.journal) else { return Ok((None, None)) };
    let (store, writer) = Store::new(opened, Arc::clone(accounts), (Io::Threads, journal.fsync), clock, budget);
    let (ended, end) = tokio::sync::oneshot::channel();
    // It has a runtime of its own, because that of the program may end before the thread has noticed.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(StartError::Thread)?;
    let run = move || {
        runtime.block_on(writer.run());
        // Nobody waits for it when the engine was dropped.
        let _ = ended.send(());
    };
    std::thread::Builder::new().name("journal".into()).spawn(run).map_err(StartError::Thread)?;
    // A panic on the thread drops `ended`, which is an end as well.
    Ok((Some(store), Some(tokio::spawn(async move { drop(end.await) }))))
}
