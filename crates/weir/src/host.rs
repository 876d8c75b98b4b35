//! What a gateway lives in, which tells it what to do: files of a machine, or a node of a cluster.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::anyhow;
use tokio::task::JoinHandle;
use weir_engine::Inlet;
use weir_engine::admin::Route;
use weir_kubernetes::node::Facts;
use weir_plan::Plan;
use weir_resources::{Loaded, LogOutputs, Report};
use weir_sources::runtime::Speaks;

use crate::changed_by::{self, ByPipeline};
use crate::cli::ProcessArgs;
use crate::configuration;
use crate::data_dir::{self, DataDir};
use crate::findings;
use crate::handover::{Predecessor, Successor};
use crate::health::Verdicts;
use crate::page::Provenance;
use crate::watch::Watch;

/// What brought a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The process has read its files to begin with.
    Start,
    /// SIGHUP.
    Hangup,
    /// The files are not as they were.
    FilesChanged,
    /// A day has passed: certificates in the files expire although nobody touches them.
    Daily,
    /// The Secret of the operator.
    Secret(Version),
    /// The last good one on the disk: the API server has none that can be used.
    Saved(Version),
}

/// Which state of the operator's Secret it is, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) revision: Option<String>,
    /// The API server's.
    pub(crate) resource_version: Option<String>,
}

impl Trigger {
    /// As pages have it.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Hangup => "sighup",
            Self::FilesChanged => "files_changed",
            Self::Daily => "daily",
            Self::Secret(_) => "secret",
            Self::Saved(_) => "saved",
        }
    }

    /// Which state of the Secret it is, if it is one.
    pub(crate) fn version(&self) -> Option<&Version> {
        match self {
            Self::Start | Self::Hangup | Self::FilesChanged | Self::Daily => None,
            Self::Secret(version) | Self::Saved(version) => Some(version),
        }
    }
}

/// Something new.
pub(crate) enum News {
    /// Another configuration, or what is wrong with it.
    Configuration(Trigger, Box<Result<Loaded, Report>>),
    /// There is a configuration that nobody understands.
    Unreadable(Trigger, String),
    /// The cluster is another than before, and the configuration the same.
    Facts(Facts),
    /// Another process is to go on in place of this one.
    Successor(Successor),
}

/// Where data is kept, and what comes with it.
pub(crate) struct Place {
    /// `None`: in memory only.
    pub(crate) data_dir: Option<DataDir>,
    /// The process that has left it to this one, if it is still there.
    pub(crate) predecessor: Option<Predecessor>,
}

/// See the module. What a machine does not have is here by default.
pub(crate) trait Host {
    /// What to begin with.
    async fn first(&mut self) -> anyhow::Result<(Trigger, Loaded)>;

    /// What is new. May be dropped and called again.
    async fn news(&mut self) -> News;

    /// The directory for data, locked.
    async fn place(&mut self, args: &ProcessArgs) -> anyhow::Result<Place> {
        Ok(Place { data_dir: data_dir::open(args)?, predecessor: None })
    }

    /// What was told last is what runs now.
    fn runs(&mut self, plan: &Plan, log_outputs: LogOutputs, inlet: &Inlet);

    /// What was told last, beside a plan.
    fn provenance(&self) -> Provenance;

    /// The gateway has ended, and leaves the data directory after this.
    async fn end(self)
    where
        Self: Sized,
    {
    }

    /// Whether the process is to read what it prints itself.
    fn reads_own(&self) -> bool {
        false
    }

    /// Who speaks for the cluster, if that is decided by an election.
    fn speaks(&self) -> Option<Speaks> {
        None
    }

    /// Pages beside the metrics, which may show how data flows.
    fn pages(&self, _: &Verdicts) -> Vec<Route> {
        Vec::new()
    }
}

/// A machine: the configuration is in files.
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    strict: bool,
    watch: Watch,
    loading: Reading<(Trigger, Result<Read, Report>)>,
    /// What the next configuration must not change.
    running: LogOutputs,
    changed_by: ByPipeline,
}

/// What files say, and who changed what is in them.
type Read = (Loaded, ByPipeline);

impl Files {
    /// Watches from now on.
    pub(crate) fn new(paths: Vec<PathBuf>, strict: bool) -> anyhow::Result<Self> {
        let watch = Watch::new(paths.clone())?;
        let (loading, running, changed_by) = (Reading::default(), LogOutputs::default(), ByPipeline::default());
        Ok(Self { paths, strict, watch, loading, running, changed_by })
    }
}

/// Blocks, as `configuration::for_gateway` does.
fn read(paths: &[PathBuf], strict: bool, running: &LogOutputs) -> Result<Read, Report> {
    let loaded = configuration::for_gateway(paths, strict, running)?;
    let changed_by = changed_by::of_files(&loaded);
    Ok((loaded, changed_by))
}

impl Host for Files {
    async fn first(&mut self) -> anyhow::Result<(Trigger, Loaded)> {
        let read = read(&self.paths, self.strict, &LogOutputs::default());
        let (loaded, changed_by) = read.map_err(|report| {
            findings::log(&report.diagnostics);
            // Not even with those pipelines that are right: data for the others would be acknowledged and not kept.
            anyhow!(
                "cannot use the configuration, nothing is started: correct it, or take out the pipelines that are \
                 wrong; `weir check` shows the findings in their lines"
            )
        })?;
        self.changed_by = changed_by;
        Ok((Trigger::Start, loaded))
    }

    async fn news(&mut self) -> News {
        loop {
            tokio::select! {
                trigger = self.watch.changed(), if self.loading.is_idle() => {
                    let (paths, strict, running) = (self.paths.clone(), self.strict, self.running.clone());
                    let read = move || (trigger, read(&paths, strict, &running));
                    self.loading.begin("the configuration", read);
                }
                (trigger, read) = self.loading.done() => {
                    let loaded = read.map(|(loaded, changed_by)| {
                        self.changed_by = changed_by;
                        loaded
                    });
                    return News::Configuration(trigger, Box::new(loaded));
                }
            }
        }
    }

    fn runs(&mut self, _: &Plan, log_outputs: LogOutputs, _: &Inlet) {
        self.running = log_outputs;
    }

    fn provenance(&self) -> Provenance {
        Provenance { changers: self.changed_by.clone(), overrides: Vec::new() }
    }
}

/// Something that is being read. Meanwhile requests are served and signals are heard, even when a file system hangs.
pub(crate) struct Reading<T>(Option<(&'static str, JoinHandle<T>)>);

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> Reading<T> {
    pub(crate) fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// `what`: for the log.
    pub(crate) fn begin(&mut self, what: &'static str, read: impl FnOnce() -> T + Send + 'static) {
        self.0 = Some((what, tokio::task::spawn_blocking(read)));
    }

    /// What was read, once it is there. May be dropped and called again.
    pub(crate) async fn done(&mut self) -> T {
        if let Some((what, reading)) = &mut self.0 {
            let (what, read) = (*what, reading.await);
            self.0 = None;
            match read {
                Ok(read) => return read,
                Err(error) => {
                    tracing::error!(what, %error, "reading panicked: this is a bug in weir, please report it");
                }
            }
        }
        pending().await
    }
}

/// The facts that a configuration of files has itself.
pub(crate) fn facts_of(loaded: &mut Loaded) -> Facts {
    let (facts, state) = (std::mem::take(&mut loaded.cluster), std::mem::take(&mut loaded.state));
    Facts { facts, state: Arc::new(state) }
}
