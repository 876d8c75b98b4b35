//! The progress of a container, for pages, metrics and the log. Its lock is never held while waiting for a disk.

use std::time::{Duration, Instant};

use crate::tail::identity::FileId;
use crate::tail::path::LogName;
use crate::tail::reading::Counts;
use crate::tail::status::{Activity, CurrentFile, Lag, Losses, Stuck};

/// How a container is read, since the process started.
#[derive(Debug, Default)]
pub(in crate::tail) struct Progress {
    pub(in crate::tail) counts: Counts,
    pub(in crate::tail) rotations: u64,
    /// Of these, those that are not in the totals yet.
    pub(in crate::tail) unreported_rotations: u64,
    /// Files that were cut off or overwritten, and are read anew, of which the log says nothing yet.
    pub(in crate::tail) begun_anew: u64,
    pub(in crate::tail) lost: Losses,
    /// Of the losses, those that are logged and in the totals.
    pub(in crate::tail) reported: Losses,
    pub(in crate::tail) lag: Lag,
    /// The file that is read, or was read last.
    pub(in crate::tail) current: Option<(LogName, FileId)>,
    pub(in crate::tail) open_files: u64,
    pub(in crate::tail) removed_open_bytes: u64,
    pub(in crate::tail) wait: Wait,
    /// Since when it has unread output of which nothing became safe.
    pub(in crate::tail) waits_since: Option<Instant>,
    /// The log says that it is stuck.
    pub(in crate::tail) is_reported_stuck: bool,
}

/// What a container waited for at the last attempt to read it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::tail) enum Wait {
    #[default]
    Turn,
    Metadata,
    Memory,
    Disk,
    Answer,
    /// The engine refused its requests, with this reason.
    Refused(&'static str),
    /// The file, or its directory, cannot be read, with this error.
    Unreadable(String),
}

impl Wait {
    fn words(&self) -> String {
        match self {
            Self::Turn => "its turn".to_owned(),
            Self::Metadata => "facts about its pod".to_owned(),
            Self::Memory => "memory".to_owned(),
            Self::Disk => "the disk".to_owned(),
            Self::Answer => "pipelines that have neither delivered its lines nor written them to disk".to_owned(),
            Self::Refused(why) => format!("pipelines that refuse its lines: {why}"),
            Self::Unreadable(error) => format!("its files, which cannot be read: {error}"),
        }
    }
}

impl Progress {
    /// It has unread output from now on.
    pub(in crate::tail) fn begins_to_wait(&mut self) {
        if self.waits_since.is_none() {
            (self.waits_since, self.wait) = (Some(Instant::now()), Wait::Turn);
        }
    }

    /// Some of it became safe, and there may be more.
    pub(in crate::tail) fn has_read(&mut self) {
        self.waits_since = Some(Instant::now());
    }

    /// What a look found: files that were rotated since the last one, and what is lost.
    pub(super) fn saw(&mut self, rotations: u64, lost: &Losses) {
        self.rotations += rotations;
        self.unreported_rotations += rotations;
        self.lost.add(lost);
    }

    /// Whether something is not in the log and the totals yet.
    pub(in crate::tail) fn has_unreported(&self) -> bool {
        self.lost != self.reported || self.unreported_rotations > 0 || self.begun_anew > 0
    }

    /// Since when it waits, and for what, if that is longer than `patience`.
    pub(in crate::tail) fn stuck(&self, patience: Duration) -> Option<Stuck> {
        let waits = self.waits_since?.elapsed();
        (waits >= patience).then(|| Stuck { seconds: waits.as_secs(), waits_for: self.wait.words() })
    }

    /// Why it is stuck, while the log says that it is.
    pub(in crate::tail) fn known_stuck(&self) -> Option<Stuck> {
        if self.is_reported_stuck { self.stuck(Duration::ZERO) } else { None }
    }

    pub(in crate::tail) fn report(&self) -> (Lag, Activity) {
        let current = |(name, id): (LogName, FileId)| CurrentFile { name: name.to_string(), inode: id.inode };
        let activity = Activity {
            current_file: self.current.map(current),
            open_files: self.open_files,
            removed_open_bytes: self.removed_open_bytes,
            rotations: self.rotations,
            read: self.counts,
            lost_bytes: self.lost,
            stuck: self.known_stuck(),
        };
        (self.lag, activity)
    }
}
