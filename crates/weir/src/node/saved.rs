//! The last good configuration, on the disk of the node: it is used when the API server is away at the start.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use weir_engine::settings::State as _;
use weir_kubernetes::node::Configuration;
use weir_legible::Seldom;

use crate::state::StateFiles;

const NAME: &str = "configuration";

/// A Secret has 1 MiB at most, which is more in base64.
const MAX_BYTES: usize = 2 << 20;

/// The file, and the task that writes it.
pub(super) struct Saved {
    files: Option<Arc<StateFiles>>,
    newest: watch::Sender<Option<Arc<Configuration>>>,
    task: Option<JoinHandle<()>>,
}

impl Saved {
    /// In a data directory; without one, nothing is kept.
    pub(super) fn of(data_dir: Option<&Path>) -> Self {
        let files = data_dir.map(|dir| Arc::new(StateFiles::in_data_dir(dir)));
        Self { files, newest: watch::channel(None).0, task: None }
    }

    /// What an earlier process has left. It is replaced as a whole, so nobody has to be kept out meanwhile.
    pub(super) fn read(&self) -> Option<Arc<Configuration>> {
        let files = self.files.as_ref()?;
        let read = files.read(NAME, &mut |bytes| bytes <= MAX_BYTES).map_err(|error| error.to_string());
        match read.and_then(|bytes| bytes.map(|bytes| Configuration::of_stored(&bytes)).transpose()) {
            Ok(found) => found.map(Arc::new),
            Err(error) => {
                tracing::warn!(
                    error,
                    advice = weir_engine::LOOK_AT_THE_DISK,
                    "cannot read the last good configuration"
                );
                None
            }
        }
    }

    /// The directory is locked: from now on what is saved is written.
    pub(super) fn keep(&mut self) {
        let Some(files) = self.files.clone() else { return };
        let (mut newest, mut reported) = (self.newest.subscribe(), Seldom::default());
        self.task = Some(tokio::spawn(async move {
            while newest.changed().await.is_ok() {
                let Some(configuration) = newest.borrow_and_update().clone() else { continue };
                let files = Arc::clone(&files);
                let written = spawn_blocking(move || {
                    let bytes = configuration.stored();
                    files.put(NAME, &mut |out| out.write_all(&bytes))
                });
                if let Ok(Err(error)) = written.await
                    && let Some(left_out) = reported.due(Instant::now())
                {
                    tracing::warn!(
                        %error,
                        left_out,
                        advice = weir_engine::LOOK_AT_THE_DISK,
                        "cannot keep the configuration: a start without the API server needs it"
                    );
                }
            }
        }));
    }

    /// This one is good.
    pub(super) fn save(&self, configuration: Arc<Configuration>) {
        self.newest.send_if_modified(|known| {
            let differs = known.as_ref() != Some(&configuration);
            *known = Some(configuration);
            differs
        });
    }

    /// Writes what is to be written, and leaves the directory.
    pub(super) async fn end(self) {
        let Self { newest, task, .. } = self;
        drop(newest);
        if let Some(task) = task {
            // If it panicked, there is an older file.
            let _ = task.await;
        }
    }
}
