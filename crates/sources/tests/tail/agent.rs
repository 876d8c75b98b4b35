//! An engine that reads container logs, and what is on the disk for it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use weir_engine::settings::Admin;
use weir_engine::view::ContainerLogFigures;
use weir_engine::{BookFigures, Engine, Settings};
use weir_enrich::PodList;
use weir_plan::{
    Body, ClusterFacts, Compression, ContainerLogs, Endpoint, Multiline, Output, Pipeline, Plan, Protocol, RecordShape,
    Selector, Signal,
};
use weir_sources::tail::{self, Board, ContainerStatus, Tail};
use weir_testkit::in_time;

/// The directories of pods, and that of what the agent remembers.
pub(crate) struct Disk(TempDir);

impl Disk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn pods(&self) -> PathBuf {
        self.0.path().join("pods")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    /// The directory of a container, which is there from now on.
    pub(crate) fn container(&self, namespace: &str, name: &str) -> PathBuf {
        let directory = self.pods().join(format!("{namespace}_{name}-pod_11111111-2222-3333-4444-555555555555/{name}"));
        fs::create_dir_all(&directory).unwrap();
        directory
    }
}

/// Adds text to a file.
pub(crate) fn append(file: &Path, text: impl AsRef<[u8]>) {
    OpenOptions::new().create(true).append(true).open(file).unwrap().write_all(text.as_ref()).unwrap();
}

/// A line as containerd writes it.
pub(crate) fn line(stream: &str, tag: char, text: &str) -> String {
    format!("2026-11-23T12:00:00.123456789Z {stream} {tag} {text}\n")
}

/// Everything but the system's.
pub(crate) fn all() -> ContainerLogs {
    ContainerLogs {
        namespaces: Selector::without_system(),
        containers: Selector::All,
        shape: RecordShape::Parsed { keep_original_body: true },
        multiline: Multiline::default(),
    }
}

/// A pipeline for container logs.
pub(crate) fn pipeline(name: &str, backend: SocketAddr, logs: ContainerLogs) -> Pipeline {
    let endpoint = Endpoint { host: backend.ip().to_string(), port: backend.port(), path: String::new() };
    let output = Output {
        body: Body::Otlp,
        protocol: Protocol::Grpc,
        endpoint,
        compression: Compression::None,
        headers: Vec::new(),
        oauth2: None,
        tls: None,
    };
    let mut pipeline = Pipeline::new(Signal::Logs, name, output);
    (pipeline.input.otlp, pipeline.input.container_logs) = (None, Some(logs));
    pipeline
}

pub(crate) fn plan(pipelines: Vec<Pipeline>) -> Plan {
    Plan { pipelines, ..Plan::default() }
}

/// An engine without sockets that reads container logs.
pub(crate) struct Agent {
    pub(crate) engine: Engine,
    pub(crate) tail: Tail,
    pub(crate) board: Board,
    pods: Arc<PodList>,
}

impl Agent {
    pub(crate) async fn start(disk: &Disk, plan: &Plan) -> Self {
        Self::with(disk, plan, |settings| settings).await
    }

    /// The same with other settings of the tailer.
    pub(crate) async fn with(disk: &Disk, plan: &Plan, change: impl FnOnce(tail::Settings) -> tail::Settings) -> Self {
        Self::knowing(ClusterFacts::default(), disk, plan, change).await
    }

    /// The same with pods that are known.
    pub(crate) async fn knowing(
        facts: ClusterFacts,
        disk: &Disk,
        plan: &Plan,
        change: impl FnOnce(tail::Settings) -> tail::Settings,
    ) -> Self {
        let admin = Admin { port: None, ..Admin::default() };
        let settings = Settings {
            grpc_port: None,
            http_port: None,
            metrics_port: None,
            health_port: None,
            admin,
            ..Settings::default()
        };
        fs::create_dir_all(disk.pods()).unwrap();
        let pods = Arc::new(PodList::new(facts));
        let engine = Engine::start(plan, Arc::clone(&pods) as _, settings).await.unwrap();
        let board = Board::default();
        let settings = tail::Settings {
            state: Some(disk.state()),
            own_pod: Some("own-pod".into()),
            board: board.clone(),
            ..tail::Settings::new(disk.pods())
        };
        let settings = change(settings);
        let mut tail = None;
        weir_testkit::eventually("nobody else has the positions", async || {
            tail = match Tail::start(settings.clone(), plan, engine.inlet(), Arc::clone(&pods) as _) {
                // A process that another test starts has all descriptors of this one until it runs its program.
                Err(error) if error.to_string().contains("another process keeps its log positions") => None,
                started => Some(started.unwrap()),
            };
            tail.is_some()
        })
        .await;
        let tail = tail.unwrap();
        Self { engine, tail, board, pods }
    }

    /// These are the known pods from now on.
    pub(crate) fn learn(&self, facts: ClusterFacts) {
        self.pods.replace(facts, &self.tail.pods_in_use());
    }

    pub(crate) fn reload(&mut self, plan: &Plan) {
        let _ = self.tail.reload(plan);
        self.engine.reload(plan).unwrap();
    }

    /// How the only container is read.
    pub(crate) fn status(&self) -> ContainerStatus {
        let mut all: Vec<_> = self.board.containers_now().collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// What the metrics show, which is up to a second old.
    pub(crate) fn figures(&self) -> ContainerLogFigures {
        self.engine.view().snapshot().unwrap().sources.container_logs.unwrap_or_default()
    }

    /// Stops in good order; the books of each pipeline.
    pub(crate) async fn stop(self) -> Vec<BookFigures> {
        in_time("the end of reading", self.tail.stop()).await;
        let stopped = in_time("shutdown", self.engine.shutdown(std::future::pending())).await;
        let books: Vec<BookFigures> = stopped.books.into_iter().map(|(_, books)| books).collect();
        assert!(books.iter().all(BookFigures::balanced), "{books:?}");
        books
    }
}
