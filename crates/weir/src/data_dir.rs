//! The directory for data that no backend has taken yet.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use tracing::field::debug;
use weir_engine::settings::{Fsync, Journal};
use weir_journal::OsFs;

use crate::cli::{FsyncMode, ProcessArgs};
use crate::state::StateFiles;

/// The journal lies in a directory of its own below the data directory.
const JOURNAL: &str = "journal";

/// The checkpoints of container logs are in another one.
const LOGS: &str = "logs";

/// A data directory, locked for this process.
pub(crate) struct DataDir {
    pub(crate) journal: Journal,
    pub(crate) state: StateFiles,
    /// For the checkpoints of container logs.
    pub(crate) logs: PathBuf,
}

/// Where it is; nothing if data is kept in memory only.
pub(crate) fn directory(args: &ProcessArgs) -> anyhow::Result<Option<PathBuf>> {
    match &args.data_dir {
        _ if args.no_data_dir => Ok(None),
        Some(dir) => Ok(Some(dir.clone())),
        None => default_dir().map(Some),
    }
}

/// The data directory that the command line asks for.
pub(crate) fn open(args: &ProcessArgs) -> anyhow::Result<Option<DataDir>> {
    let Some(dir) = directory(args)? else {
        tracing::warn!(
            advice = "name a directory with --data-dir",
            "running without a data directory: data that no backend has taken is lost when this process ends"
        );
        return Ok(None);
    };
    let fs = OsFs::open(&dir.join(JOURNAL)).with_context(|| {
        let dir = dir.display();
        format!("cannot use the data directory {dir} (choose one with --data-dir, or keep data in memory with --no-data-dir)")
    })?;
    let fsync = match args.fsync {
        FsyncMode::Always => Fsync::Always,
        FsyncMode::Interval => Fsync::Interval(args.fsync_interval),
        FsyncMode::Never => Fsync::Never,
    };
    warn_of_others(&dir);
    let fsync_interval = matches!(fsync, Fsync::Interval(_)).then(|| debug(args.fsync_interval));
    tracing::info!(data_dir = %dir.display(), fsync = args.fsync.name(), fsync_interval, "data that no backend takes at once is kept on disk");
    let journal = Journal { fs: Arc::new(fs), fsync };
    Ok(Some(DataDir { journal, state: StateFiles::in_data_dir(&dir), logs: positions(args, &dir) }))
}

/// Telemetry may hold secrets, and a directory that was there before keeps its mode.
fn warn_of_others(dir: &Path) {
    for dir in [dir.to_path_buf(), dir.join(JOURNAL)] {
        let Ok(found) = fs::metadata(&dir) else { continue };
        let mode = found.permissions().mode();
        let what = match (mode & 0o022, mode & 0o055) {
            (0, 0) => continue,
            (0, _) => "read",
            _ => "write to",
        };
        let dir = dir.display();
        let mode = format!("{:o}", mode & 0o777);
        tracing::warn!(
            mode,
            advice = %format_args!("if they should not: chmod 700 {dir}"),
            "other users may {what} the data directory {dir}"
        );
    }
}

/// Per user, as the XDG base directory specification has it.
fn default_dir() -> anyhow::Result<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    match state {
        Some(state) => Ok(state.join("weir")),
        None => bail!(
            "there is no place for data that no backend has taken: neither XDG_STATE_HOME nor HOME is an \
             absolute path; \
             name a directory with --data-dir, or keep data in memory with --no-data-dir"
        ),
    }
}

/// Where the checkpoints of container logs are that this process keeps.
pub(crate) fn positions(args: &ProcessArgs, dir: &Path) -> PathBuf {
    args.log_positions.clone().unwrap_or_else(|| logs_dir(dir))
}

/// Where a data directory has the checkpoints of container logs.
pub(crate) fn logs_dir(dir: &Path) -> PathBuf {
    dir.join(LOGS)
}

/// Where the journal of a data directory lies; the journal's own directory is taken as well.
pub(crate) fn journal_dir(dir: &Path) -> PathBuf {
    let below = dir.join(JOURNAL);
    if below.is_dir() { below } else { dir.to_path_buf() }
}
