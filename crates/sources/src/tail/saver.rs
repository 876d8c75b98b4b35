//! Saves positions: what changed a few times a second, and everything anew when much of the file is out of date.

mod schedule;

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use weir_legible::Seldom;

use super::StartError;
use super::catalogue::Catalogue;
use super::checkpoint::{Damage, MAX_LINE, Replayed, Saved, encode, is_worn};
use super::checkpoint_file::{CheckpointFile, Error};
use super::path::ContainerName;
use super::status::unix_ms;
use schedule::{Due, Schedule};

/// Such a container is met each time that positions are saved.
static TOO_LONG_REPORTED: Mutex<Seldom> = Mutex::new(Seldom::new());

/// What an earlier process saved.
pub(super) struct Opened {
    /// `None` if positions are kept in memory only.
    pub(super) saver: Option<Saver>,
    pub(super) saved: BTreeMap<ContainerName, Saved>,
    /// There never was an earlier process.
    pub(super) is_first: bool,
}

/// Opens the checkpoint file in `state`, and logs what is wrong with it.
pub(super) fn open(state: Option<&Path>) -> Result<Opened, StartError> {
    let Some(state) = state else { return Ok(Opened { saver: None, saved: BTreeMap::new(), is_first: true }) };
    let fresh = format!("{:x}", unix_ms());
    let (file, replayed) = CheckpointFile::open(state, &fresh).map_err(|error| StartError::State(error.to_string()))?;
    let Replayed { containers, damage, torn_tail, left_out, id: known, .. } = replayed;
    let is_first = known.is_none() && containers.is_empty() && damage.is_empty();
    if let Some(Damage { line, offset, reason }) = damage.first() {
        tracing::warn!(
            state = %state.display(),
            line,
            offset,
            %reason,
            others = damage.len() - 1,
            advice = weir_engine::LOOK_AT_THE_DISK,
            "checkpoints of container logs are damaged, this one first; some lines are read again"
        );
    }
    if left_out > 0 {
        tracing::error!(
            state = %state.display(),
            checkpoints = left_out,
            advice = "give weir more --memory",
            "there are more checkpoints of container logs than memory for them; some lines are read again"
        );
    }
    if let Some(bytes) = torn_tail {
        tracing::info!(?bytes, "the last checkpoint of container logs is not complete; some lines are read again");
    }
    if is_first {
        let id = file.id();
        tracing::info!(state = %state.display(), id, "there are no checkpoints of container logs; this is a first start");
    }
    Ok(Opened { saver: Some(Saver::new(file)), saved: containers, is_first })
}

/// The line with a checkpoint, unless it is too long to be read again.
pub(super) fn checkpoint(saved: &Saved) -> Option<Vec<u8>> {
    let line = encode(saved);
    if line.len() <= MAX_LINE {
        return Some(line);
    }
    let due = TOO_LONG_REPORTED.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now());
    if let Some(left_out) = due {
        tracing::error!(
            container = %saved.container,
            files = saved.files.len(),
            left_out,
            advice = "let the kubelet keep fewer of them (containerLogMaxFiles)",
            "a container has more log files than its checkpoint can have; after a restart they are read again"
        );
    }
    None
}

/// Writes the checkpoint file.
pub(super) struct Saver {
    file: CheckpointFile,
    /// The size of the file when it was last written anew.
    live_bytes: u64,
    /// Something could not be saved.
    is_unsaved: bool,
    failure_reported: Seldom,
    schedule: Schedule,
}

impl Saver {
    fn new(file: CheckpointFile) -> Self {
        let (schedule, failure_reported) = (Schedule::new(Instant::now()), Seldom::default());
        Self { file, live_bytes: 0, is_unsaved: false, failure_reported, schedule }
    }

    /// Saves what changed, if it is time, or if the process `ends`.
    pub(super) fn save_if_due(&mut self, catalogue: &mut Catalogue, ends: bool) {
        if let Some(due) = self.schedule.due(Instant::now(), ends) {
            self.save(catalogue, due, ends);
        }
    }

    fn save(&mut self, catalogue: &mut Catalogue, due: Due, ends: bool) {
        let Due { sync: syncs, renewal: is_renewed } = due;
        if is_renewed {
            catalogue.expire();
        }
        let (shared, now) = (Arc::clone(&catalogue.shared), unix_ms());
        let mut changed = shared.take_news(|container| ends || container.is_due(now));
        let mut lines = mem::take(&mut catalogue.lines);
        // When nothing changed, nothing is written. What was written before may still have to be synced.
        let has_changed = !changed.is_empty() || !lines.is_empty() || is_renewed || self.is_unsaved;
        if !has_changed && (!syncs || self.file.sync().is_ok()) {
            return;
        }
        let containers = || shared.board.containers().values().cloned().collect::<Vec<_>>();
        if is_renewed {
            changed = containers();
        }
        for container in &changed {
            container.to_save(now).iter().filter_map(checkpoint).for_each(|line| lines.extend(line));
        }
        let saved = self.append(&lines, syncs).and_then(|()| {
            if !self.is_unsaved && !is_worn(self.file.size(), self.live_bytes) {
                return Ok(());
            }
            let kept = catalogue.kept.all().filter_map(checkpoint);
            let known = containers().into_iter().filter_map(|container| checkpoint(&container.saved(now)));
            self.file.compact(known.chain(kept))?;
            self.live_bytes = self.file.size();
            Ok(())
        });
        match saved {
            Ok(()) => self.is_unsaved = false,
            // The next attempt writes everything anew.
            Err(error) => {
                self.is_unsaved = true;
                if let Some(left_out) = self.failure_reported.due(Instant::now()) {
                    tracing::warn!(
                        containers = changed.len(),
                        %error,
                        left_out,
                        advice = weir_engine::LOOK_AT_THE_DISK,
                        "cannot save checkpoints of container logs; trying again"
                    );
                }
            }
        }
    }

    fn append(&mut self, lines: &[u8], syncs: bool) -> Result<(), Error> {
        if !lines.is_empty() {
            self.file.append(lines)?;
        }
        if syncs { self.file.sync() } else { Ok(()) }
    }
}
