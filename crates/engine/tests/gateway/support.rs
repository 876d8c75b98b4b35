//! Engines in this process, and the plans and settings they run with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use weir_engine::settings::{Admin, Fsync, Journal, PortTls};
use weir_engine::{BookFigures, Engine, Settings};
use weir_enrich::{PodList, Pods};
use weir_journal::Fs;
use weir_loadtest::sink::Sink;
use weir_plan::{Body, Compression, Endpoint, Identity, Output, Pipeline, PipelineId, Plan, Protocol, Signal};
use weir_resources::{Loaded, Options, Source, load};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{self, Grpc};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::arrived;
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, in_time, payload};

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

/// The same with this data directory.
pub(crate) async fn on_disk(dir: &DataDir) -> Settings {
    on_disk_by_way_of(dir, |fs| fs).await
}

/// The same with something between the engine and the disk.
pub(crate) async fn on_disk_by_way_of(dir: &DataDir, between: impl FnOnce(Arc<dyn Fs>) -> Arc<dyn Fs>) -> Settings {
    let journal = Journal { fs: between(Arc::new(dir.lock().await)), fsync: Fsync::Always };
    Settings { journal: Some(journal), ..settings() }
}

/// How a gateway serves its clients; with `clients`, those need a certificate of theirs.
pub(crate) fn ingest(own: &Authority, clients: Option<&Authority>) -> PortTls {
    let Identity { cert_pem, key_pem } = own.identity_of("127.0.0.1");
    PortTls { cert_pem, key_pem, client_ca_pem: clients.map(Authority::pem) }
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
        body: Body::Otlp,
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
