//! Who changed a pipeline last, as far as a process knows it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use weir_kubernetes::node;
use weir_legible::rfc3339_seconds;
use weir_plan::PipelineId;
use weir_resources::Loaded;

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChangedBy {
    /// What the operator says of its object on a cluster.
    Told(node::Origin),
    /// The file that it is in, as the command line has it.
    File {
        path: String,
        /// When the file was changed last, in seconds since the Unix epoch; `None` if it does not say.
        unix_seconds: Option<u64>,
    },
}

/// Of pipelines of which it is known.
pub(crate) type ByPipeline = HashMap<PipelineId, Arc<ChangedBy>>;

impl ChangedBy {
    /// As pages have it; `None` if it is not known.
    pub(crate) fn value(&self) -> Option<Value> {
        match self {
            Self::Told(node::Origin { manager, .. }) => {
                let node::Manager { manager, operation, time } = manager.as_ref()?;
                Some(json!({"manager": manager, "operation": operation, "at": time}))
            }
            Self::File { path, unix_seconds } => Some(json!({"file": path, "at": unix_seconds.map(rfc3339_seconds)})),
        }
    }

    /// The versions of the Secrets that its values are from, if the operator says so.
    pub(crate) fn secret_versions(&self) -> Option<&BTreeMap<String, String>> {
        match self {
            Self::Told(origin) => origin.secret_versions.as_ref(),
            Self::File { .. } => None,
        }
    }

    /// Bytes of the texts in it.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Told(node::Origin { manager, secret_versions }) => {
                let texts = manager.as_ref().map(|of| [&of.manager, &of.operation, &of.time]);
                let versions = secret_versions.iter().flatten().flat_map(|(name, version)| [name, version]);
                texts.into_iter().flatten().chain(versions).map(String::len).sum()
            }
            Self::File { path, .. } => path.len(),
        }
    }

    fn file(path: &str) -> Self {
        // The standard input has no file.
        let modified = if path == "-" { None } else { fs::metadata(path).and_then(|found| found.modified()).ok() };
        let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
        Self::File { path: path.to_owned(), unix_seconds: since.map(|since| since.as_secs()) }
    }
}

/// What the operator says.
pub(crate) fn told(configuration: &node::Configuration) -> ByPipeline {
    let told = |origin: &node::Origin| Arc::new(ChangedBy::Told(origin.clone()));
    configuration.changed_by.iter().map(|(id, origin)| (id.clone(), told(origin))).collect()
}

/// What the files say that were read a moment ago. Blocks.
pub(crate) fn of_files(loaded: &Loaded) -> ByPipeline {
    let (mut files, mut all) = (HashMap::<&str, _>::new(), ByPipeline::new());
    for (id, path) in &loaded.sources {
        let by = files.entry(path).or_insert_with(|| Arc::new(ChangedBy::file(path)));
        all.insert(id.clone(), Arc::clone(by));
    }
    all
}
