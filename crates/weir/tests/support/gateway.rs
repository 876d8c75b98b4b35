//! Engines in this process, the plans they run, and the sinks behind them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use weir_engine::settings::Admin;
use weir_engine::{BookFigures, Engine, Settings};
use weir_enrich::{PodList, Pods};
use weir_loadtest::signal::Signal as Telemetry;
use weir_loadtest::sink::faults::Faults;
use weir_loadtest::sink::{Sink, SinkArgs};
use weir_plan::{Compression, Endpoint, Output, Pipeline, PipelineId, Plan, Protocol, Signal};
use weir_resources::{Loaded, Options, Source, load};

use super::grpc::{self, Grpc};
use super::metrics::Scrape;
use super::{eventually, in_time, payload};

/// A running engine.
pub(crate) struct Gateway {
    pub(crate) engine: Engine,
    /// What is known of the cluster.
    pub(crate) pods: Arc<PodList>,
    pub(crate) at: At,
}

/// Where it listens.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) health: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// What becomes of a configuration.
pub(crate) fn configuration(yaml: &str) -> Loaded {
    let source = Source { name: "test.yaml".into(), text: yaml.into() };
    load(&[source], &Options::at(SystemTime::now())).unwrap_or_else(|report| panic!("{report}"))
}

/// Nothing is known of any cluster.
pub(crate) fn no_pods() -> Arc<PodList> {
    Arc::default()
}

/// Settings for tests: free ports, everything else as it comes.
pub(crate) fn settings() -> Settings {
    let (free, admin) = (Some(0), Admin { port: Some(0), ..Admin::default() });
    Settings { grpc_port: free, http_port: free, metrics_port: free, health_port: free, admin, ..Settings::default() }
}

/// An uncompressed gRPC pipeline to a local backend.
pub(crate) fn pipeline(name: &str, backend: SocketAddr) -> Pipeline {
    Pipeline::new(Signal::Traces, name, output(backend, Protocol::Grpc))
}

/// The pipeline for traces of this name.
pub(crate) fn traces(name: &str) -> PipelineId {
    PipelineId::new(Signal::Traces, name)
}

/// An uncompressed output to a local backend.
pub(crate) fn output(backend: SocketAddr, protocol: Protocol) -> Output {
    let path = match protocol {
        Protocol::Grpc => String::new(),
        Protocol::Http => "/v1/traces".into(),
    };
    Output {
        protocol,
        endpoint: Endpoint { host: backend.ip().to_string(), port: backend.port(), path },
        compression: Compression::None,
        headers: Vec::new(),
        oauth2: None,
        tls: None,
    }
}

impl Gateway {
    pub(crate) async fn start(pipelines: Vec<Pipeline>) -> Self {
        Self::with(pipelines, settings()).await
    }

    pub(crate) async fn with(pipelines: Vec<Pipeline>, settings: Settings) -> Self {
        Self::running(&Plan { pipelines, ..Plan::default() }, no_pods(), settings).await
    }

    async fn running(plan: &Plan, pods: Arc<PodList>, settings: Settings) -> Self {
        let engine = Engine::start(plan, Arc::clone(&pods) as Arc<dyn Pods>, settings).await.unwrap();
        let at = engine.addresses();
        let at = [at.grpc, at.http, at.metrics, at.health, at.admin].map(Option::unwrap);
        let [grpc, http, metrics, health, admin] = at;
        Self { engine, pods, at: At { grpc, http, metrics, health, admin } }
    }

    /// A gateway that runs a plan as a configuration makes it.
    pub(crate) async fn configured(yaml: &str, settings: Settings) -> Self {
        let Loaded { plan, cluster, .. } = configuration(yaml);
        Self::running(&plan, Arc::new(PodList::new(cluster)), settings).await
    }

    /// A gateway with one pipeline to `backend`.
    pub(crate) async fn to(backend: SocketAddr) -> Self {
        Self::start(vec![pipeline("backend", backend)]).await
    }

    pub(crate) async fn client(&self) -> Grpc {
        Grpc::connect(self.at.grpc).await
    }

    /// Stops it in order.
    pub(crate) async fn stop(self) -> Vec<(PipelineId, BookFigures)> {
        in_time("shutdown", self.engine.shutdown(std::future::pending())).await.books
    }

    pub(crate) async fn scrape(&self) -> Scrape {
        Scrape::of(self.at.metrics).await
    }

    /// The books of a pipeline; they balance.
    pub(crate) fn books(&self, pipeline: &str) -> BookFigures {
        let books = self.engine.books();
        let (_, figures) = books.into_iter().find(|(id, _)| *id == traces(pipeline)).unwrap();
        assert!(figures.balanced(), "{figures:?}");
        figures
    }

    /// Waits until every pipeline is done with everything, and all memory is given back; books balance.
    pub(crate) async fn settle(&self) {
        eventually("every pipeline is done", async || {
            self.engine.books().iter().all(|(_, books)| books.pending == 0 && books.waiting == 0)
        })
        .await;
        for (pipeline, books) in self.engine.books() {
            assert!(books.balanced(), "{pipeline}: {books:?}");
        }
        eventually("all memory is given back", async || self.scrape().await.get("weir_memory_used_bytes") == 0.0).await;
    }

    /// Another client's request is taken and delivered: `id` must not be used elsewhere.
    pub(crate) async fn still_delivers(&self, sink: &Sink, id: u64) {
        let answer = self.client().await.export(&payload::encoded(id, 1, 10)).await;
        assert_eq!(answer.code, grpc::OK, "{answer:?}");
        eventually("another client's span arrives", async || arrived(sink).contains(&id)).await;
    }
}

/// A backend from the load test, with faults in JSON.
pub(crate) async fn sink(faults: &str) -> Sink {
    let listen = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let args = SinkArgs {
        listen,
        grpc_port: 0,
        http_port: 0,
        control_port: 0,
        report: None,
        expect_text: None,
        faults: self::faults(faults),
    };
    Sink::start(&args).await.unwrap()
}

/// Faults of a backend that nobody can connect to.
pub(crate) const DOWN: &str = r#"{"outage": ["0s..1000s"]}"#;

/// Faults from JSON.
pub(crate) fn faults(json: &str) -> Faults {
    serde_json::from_str(json).unwrap()
}

/// The numbers of all spans that arrived at a sink.
pub(crate) fn arrived(sink: &Sink) -> Vec<u64> {
    arrived_of(sink, Signal::Traces)
}

/// The numbers of all items of a signal that arrived at a sink.
pub(crate) fn arrived_of(sink: &Sink, signal: Signal) -> Vec<u64> {
    let signal = match signal {
        Signal::Traces => Telemetry::Traces,
        Signal::Metrics => Telemetry::Metrics,
        Signal::Logs => Telemetry::Logs,
    };
    sink.report(true).ids_of(signal).iter().flat_map(|&(first, last)| first..=last).collect()
}

/// An address on which nothing listens, and nobody else begins to.
pub(crate) async fn closed_port() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    // Taken until the end of the tests.
    std::mem::forget(socket);
    address
}
