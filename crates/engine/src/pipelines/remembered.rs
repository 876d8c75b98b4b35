//! What is remembered of metric series from one process to the next.
//!
//! What an orderly stop wrote is true until the first request is converted. So the file is deleted right before that,
//! and not when it is read: a start that is given up leaves the file for the next one, and no process uses a file that
//! another process has used.

use std::io;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use tokio::time::Instant;
use weir_legible::names;
use weir_plan::PipelineId;

use crate::budget::{self, Budget};
use crate::intake::Routes;
use crate::settings::{LAST_WRITES, State};

/// See the module.
#[derive(Debug)]
pub(super) struct Remembered {
    /// None without a data directory.
    state: Option<Arc<dyn State>>,
    /// Pays for what is read and written.
    budget: Budget,
    /// Requests are being converted, so what is read is used at once.
    serving: bool,
}

impl Remembered {
    pub(super) fn new(state: Option<Arc<dyn State>>, budget: Budget) -> Self {
        Self { state, budget, serving: false }
    }

    /// What an earlier process remembered of a pipeline's series.
    pub(super) fn read(&self, id: &PipelineId) -> Option<Bytes> {
        let state = Arc::clone(self.state.as_ref()?);
        let (budget, name, serving) = (self.budget.clone(), name(id), self.serving);
        let read = in_time(move || {
            let mut permit = None;
            let mut pay = |bytes| {
                permit = budget.try_take(bytes);
                permit.is_some()
            };
            let read = state.read(&name, &mut pay);
            if serving {
                state.delete(&name)?;
            }
            Ok(read?.zip(permit).map(|(bytes, permit)| budget::charge(bytes, permit)))
        });
        read.unwrap_or_else(|error| {
            tracing::warn!(
                pipeline = %id,
                %error,
                advice = crate::store::LOOK_AT_THE_DISK,
                "cannot read what was remembered of metric series; counting begins anew"
            );
            None
        })
    }

    /// Requests are converted from now on. What cannot be deleted is not used, just like what could not be read.
    pub(super) async fn begin(&mut self, routes: &Routes, unix_nanos: u64) {
        self.serving = true;
        let Some(state) = self.state.clone() else { return };
        let ids: Vec<PipelineId> = routes.deltas().map(|(id, _)| id.clone()).collect();
        let delete = move || ids.iter().map(|id| state.delete(&name(id))).collect::<Vec<_>>();
        let deleted = tokio::time::timeout(LAST_WRITES, tokio::task::spawn_blocking(delete)).await;
        let mut deleted = deleted.ok().and_then(Result::ok).unwrap_or_default().into_iter();
        for (id, delta) in routes.deltas() {
            if let Err(error) = deleted.next().unwrap_or_else(|| Err(no_answer())) {
                tracing::warn!(
                    pipeline = %id,
                    %error,
                    advice = crate::store::LOOK_AT_THE_DISK,
                    "cannot delete what was remembered of metric series; counting begins anew"
                );
                delta.begin_anew(unix_nanos);
            }
        }
    }

    /// Writes it down. Call this when nothing is converted any more. A disk that hangs is not waited for beyond
    /// `deadline`.
    pub(super) async fn write(&self, routes: Arc<Routes>, deadline: Instant) {
        let Some(state) = self.state.clone() else { return };
        let (budget, written) = (self.budget.clone(), Arc::clone(&routes));
        let write = move || {
            for (id, delta) in written.deltas() {
                if let Err(error) = state.put(&name(id), &mut |out| delta.write_snapshot(out, &budget)) {
                    tracing::warn!(
                        pipeline = %id,
                        series = delta.series(),
                        %error,
                        advice = crate::store::LOOK_AT_THE_DISK,
                        "cannot write down what is remembered of metric series; counting begins anew"
                    );
                }
            }
        };
        if tokio::time::timeout_at(deadline, tokio::task::spawn_blocking(write)).await.is_err() {
            let series: usize = routes.deltas().map(|(_, delta)| delta.series()).sum();
            tracing::error!(
                pipelines = names(routes.deltas().map(|(id, _)| id)),
                series,
                advice = crate::store::LOOK_AT_THE_DISK,
                "the disk does not answer; what is remembered of metric series is not written down"
            );
        }
    }
}

/// Reads a file on a thread of its own, because a disk that hangs may keep the thread.
fn in_time<T: Send + 'static>(read: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (done, read_in_time) = mpsc::channel();
    // Nobody listens to a result that comes too late.
    std::thread::Builder::new().name("state".into()).spawn(move || drop(done.send(read())))?;
    read_in_time.recv_timeout(LAST_WRITES).map_err(|_| no_answer())?
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer")
}

/// The name as one path component: names of pipelines have no slash.
fn name(id: &PipelineId) -> String {
    format!("temporality-{}-{}", id.signal.name(), id.name)
}
