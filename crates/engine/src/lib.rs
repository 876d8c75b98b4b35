//! The engine: receives telemetry, delivers it, and accounts for every item in between.
//!
//! It runs a [`Plan`]; it must not know Kubernetes, custom resources, files or the command line.
//!
//! Invariants, cited in code and tests:
//! - **ENGINE-1** each accepted item ends in exactly one of delivered, filtered, dropped(reason), rejected(code), all
//!   counted in the books of its pipeline (`books`, `obligation`).
//! - **ENGINE-2** every queue is bounded in bytes: what is queued carries its permit of the memory budget (`budget`).
//! - **ENGINE-3** no task without an owner: the engine awaits or aborts everything it started; only connections to the
//!   metrics and health endpoints end by themselves.
//! - **ENGINE-4** a client is answered OK only when every pipeline has delivered its data or holds it (`intake`).

#![forbid(unsafe_code)]

mod admin;
mod books;
mod budget;
mod codec;
mod export;
mod histogram;
mod intake;
mod metrics;
mod obligation;
mod pipeline;
mod process;
mod receive;
pub mod settings;
mod share;
mod status;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use weir_plan::Plan;

pub use books::Snapshot;
pub use export::SetupError;
pub use settings::Settings;

use budget::Budget;
use export::Exporter;
use intake::Intake;
use pipeline::{Limits, Pipeline};
use receive::{Receiver, ReceiverStats, Server, ServerLimits};
use settings::{Division, LAST_ANSWERS};

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port cannot be bound.
    #[error(
        "cannot listen on {address} for {purpose}: {source}; is another instance running? choose another port with {flag}"
    )]
    Bind {
        /// What was to be bound.
        address: SocketAddr,
        /// What is served there.
        purpose: &'static str,
        /// The flag that changes the port.
        flag: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A backend cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// The addresses an engine listens on.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// OTLP/gRPC.
    pub grpc: SocketAddr,
    /// OTLP/HTTP.
    pub http: SocketAddr,
    /// Prometheus metrics.
    pub metrics: SocketAddr,
    /// Health check.
    pub health: SocketAddr,
}

/// A running engine.
#[derive(Debug)]
pub struct Engine {
    addresses: Addresses,
    settings: Settings,
    intake: Arc<Intake>,
    stop: watch::Sender<bool>,
    servers: Vec<JoinHandle<()>>,
    deliveries: JoinSet<()>,
    endpoints: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Binds all ports and starts every pipeline of the plan.
    pub async fn start(plan: &Plan, settings: Settings) -> Result<Self, StartError> {
        let sockets = Sockets::bind(&settings).await?;
        let addresses = sockets.addresses;
        let division = Division::new(&settings, plan.pipelines.len());
        let budget = Budget::new(division.payloads);
        let epoch = Instant::now();
        let (pipelines, deliveries) = start_pipelines(plan, division, &budget, epoch)?;
        let intake = Arc::new(Intake::new(pipelines, budget.clone(), settings.spill_after));
        let receivers = Arc::new(ReceiverStats::default());
        let metrics = Arc::new(metrics::Metrics {
            intake: Arc::clone(&intake),
            budget: budget.clone(),
            receivers: Arc::clone(&receivers),
            epoch,
        });
        let receiver = Arc::new(Receiver {
            intake: Arc::clone(&intake),
            budget,
            stats: receivers,
            max_request_bytes: max_request_bytes(&settings, division),
            body_timeout: settings.body_timeout,
        });
        let (stop, stopped) = watch::channel(false);
        let server = Server::new(receiver, ServerLimits::new(&settings, division.connections), stopped);
        let servers = vec![tokio::spawn(server.clone().serve(sockets.grpc)), tokio::spawn(server.serve(sockets.http))];
        let endpoints = vec![
            tokio::spawn(admin::Endpoint::Metrics(metrics).serve(sockets.metrics)),
            tokio::spawn(admin::Endpoint::Health(Arc::clone(&intake)).serve(sockets.health)),
        ];
        Ok(Self { addresses, settings, intake, stop, servers, deliveries, endpoints })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The books of every pipeline, by exporter id.
    pub fn books(&self) -> Vec<(String, Snapshot)> {
        self.intake.books()
    }

    /// Resolves when a pipeline's task has ended although nobody asked it to: a bug. Requests are refused then, because
    /// that pipeline cannot take them; the process should shut down, so that it can be started anew.
    pub async fn failed(&mut self) {
        self.deliveries.join_next().await;
    }

    /// Stops accepting, delivers what is here within the drain timeout, answers what it cannot deliver as refused, and
    /// returns the final books.
    pub async fn shutdown(mut self) -> Vec<(String, Snapshot)> {
        let deadline = Instant::now() + self.settings.drain_timeout;
        self.intake.drain(deadline);
        self.stop.send_replace(true);
        self.intake.pipelines().iter().for_each(|pipeline| pipeline.drain(deadline));
        for task in self.servers {
            // Connections that hang beyond the deadline are cut.
            let abort = task.abort_handle();
            if tokio::time::timeout_at(deadline + LAST_ANSWERS, task).await.is_err() {
                abort.abort();
            }
        }
        // Deliveries end by themselves at the deadline.
        while self.deliveries.join_next().await.is_some() {}
        self.endpoints.iter().for_each(JoinHandle::abort);
        self.intake.books()
    }
}

/// All listening sockets, bound before anything runs.
struct Sockets {
    grpc: TcpListener,
    http: TcpListener,
    metrics: TcpListener,
    health: TcpListener,
    addresses: Addresses,
}

impl Sockets {
    async fn bind(settings: &Settings) -> Result<Self, StartError> {
        let bind = async |port, purpose, flag| {
            let address = SocketAddr::new(settings.listen, port);
            let fail = |source| StartError::Bind { address, purpose, flag, source };
            let listener = TcpListener::bind(address).await.map_err(fail)?;
            let bound = listener.local_addr().map_err(fail)?;
            Ok::<_, StartError>((listener, bound))
        };
        let (grpc, grpc_address) = bind(settings.grpc_port, "OTLP/gRPC", "--grpc-port").await?;
        let (http, http_address) = bind(settings.http_port, "OTLP/HTTP", "--http-port").await?;
        let (metrics, metrics_address) = bind(settings.metrics_port, "metrics", "--metrics-port").await?;
        let (health, health_address) = bind(settings.health_port, "health checks", "--health-port").await?;
        let addresses =
            Addresses { grpc: grpc_address, http: http_address, metrics: metrics_address, health: health_address };
        Ok(Self { grpc, http, metrics, health, addresses })
    }
}

/// The largest request taken: one that no pipeline could hold would have to be refused for ever.
fn max_request_bytes(settings: &Settings, division: Division) -> usize {
    let (wish, limit) = (settings.max_request_bytes, division.largest_request());
    if wish > limit {
        tracing::warn!(wish, limit, "requests are limited to what each pipeline can hold; more memory allows more");
    }
    wish.min(limit)
}

type Started = (Vec<Arc<Pipeline>>, JoinSet<()>);

fn start_pipelines(plan: &Plan, division: Division, budget: &Budget, epoch: Instant) -> Result<Started, SetupError> {
    let Division { share: share_bytes, batch_bytes, in_flight: in_flight_bytes, encode, payloads: _, connections: _ } =
        division;
    let limits = Limits { share_bytes, batch_bytes, in_flight_bytes };
    // All backends first: a plan that cannot be set up must not leave tasks behind.
    let exporters: Result<Vec<_>, _> = plan
        .pipelines
        .iter()
        .map(|pipeline| Exporter::new(&pipeline.exporter_id(), &pipeline.output, Budget::for_encoding(encode)))
        .collect();
    let mut started = Started::default();
    for (pipeline, exporter) in plan.pipelines.iter().zip(exporters?) {
        let id = pipeline::Id { name: pipeline.name.clone(), exporter: pipeline.exporter_id() };
        let (handle, delivery) = Pipeline::new(id, Arc::new(exporter), limits, budget.clone(), epoch);
        started.0.push(Arc::new(handle));
        started.1.spawn(delivery);
    }
    Ok(started)
}
