//! How containers are read, as plain data: what the page, the metrics and `weir logs status` show. It comes from the
//! running tailer ([`Board`]), or else from the checkpoints and the files ([`inspect`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
use weir_engine::Text;

use super::StartError;
use super::chain::Chain;
use super::checkpoint::Saved;
use super::checkpoint_file;
use super::container::Container;
use super::files::Descriptors;
use super::path::ContainerName;
use super::reading::Counts;

/// How a container is read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerStatus {
    /// Of its pod.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// Its name in the pod.
    pub container: String,
    /// Whether it has a checkpoint. One that no pipeline wants has none.
    pub known: bool,
    /// Its files that exist or are open.
    pub files: u64,
    /// Unread output: bytes in files that are not safe yet; of compressed files, their size on the disk.
    pub bytes_behind: u64,
    /// The age of the oldest of these bytes; 0 when there are none.
    pub seconds_behind: f64,
    /// Bytes that were seen, are not safe, and are in no file any more.
    pub missing_bytes: u64,
    /// Figures that only the process that reads it has.
    #[serde(flatten)]
    pub activity: Option<Activity>,
}

/// What happened to a container since the process started that reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Activity {
    /// The file that is read, or was read last; `None` when there was none.
    pub current_file: Option<CurrentFile>,
    /// Files that are open now.
    pub open_files: u64,
    /// Bytes of those that were removed; they stay on the disk until they are read.
    pub removed_open_bytes: u64,
    /// Files that were rotated while they were known.
    pub rotations: u64,
    /// What became of what is safe.
    pub read: Counts,
    /// Bytes that were written and could not be read.
    pub lost_bytes: Losses,
    /// Set while the container is stuck.
    pub stuck: Option<Stuck>,
}

/// A file of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CurrentFile {
    /// In the directory of the container.
    pub name: String,
    /// Of its file system.
    pub inode: u64,
}

/// Why a container with unread output is not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stuck {
    /// For how long.
    pub seconds: u64,
    /// What it waits for.
    pub waits_for: String,
}

/// Bytes that were written and could not be read, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Losses {
    /// Their files were gone before they were read.
    pub removed: u64,
    /// Their files were cut off or overwritten.
    pub overwritten: u64,
    /// Their files could not be read, again and again.
    pub unreadable: u64,
    /// Their files were removed, and all such files together took too much of the disk.
    pub over_limit: u64,
}

impl Losses {
    /// All of them.
    pub fn bytes(&self) -> u64 {
        self.by_reason().into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// Each of them with its name.
    pub fn by_reason(&self) -> [(&'static str, u64); 4] {
        let Self { removed, overwritten, unreadable, over_limit } = *self;
        [("removed", removed), ("overwritten", overwritten), ("unreadable", unreadable), ("over_limit", over_limit)]
    }

    pub(super) fn add(&mut self, other: &Self) {
        let Self { removed, overwritten, unreadable, over_limit } = self;
        *removed += other.removed;
        *overwritten += other.overwritten;
        *unreadable += other.unreadable;
        *over_limit += other.over_limit;
    }

    /// What came since there were `earlier` ones.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            removed: self.removed - earlier.removed,
            overwritten: self.overwritten - earlier.overwritten,
            unreadable: self.unreadable - earlier.unreadable,
            over_limit: self.over_limit - earlier.over_limit,
        }
    }
}

/// The unread output of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lag {
    pub(super) files: u64,
    pub(super) bytes_behind: u64,
    pub(super) missing_bytes: u64,
    /// When the oldest of the bytes was written, in milliseconds since the Unix epoch, as far as files say.
    pub(super) oldest_ms: Option<u64>,
}

impl Lag {
    /// The age of the oldest byte. A clock that went back makes it none.
    pub(super) fn age_ms(&self, now_ms: u64) -> u64 {
        self.oldest_ms.filter(|_| self.bytes_behind > 0).map_or(0, |oldest| now_ms.saturating_sub(oldest))
    }

    fn into_status(self, name: &ContainerName, known: bool, activity: Option<Activity>) -> ContainerStatus {
        let age = std::time::Duration::from_millis(self.age_ms(unix_ms()));
        ContainerStatus {
            namespace: name.namespace.clone(),
            pod: name.pod.clone(),
            uid: name.uid.clone(),
            container: name.container.clone(),
            known,
            files: self.files,
            bytes_behind: self.bytes_behind,
            seconds_behind: age.as_secs_f64(),
            missing_bytes: self.missing_bytes,
            activity,
        }
    }
}

/// Shows how containers are read, also before reading starts and after it ends.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<HashMap<ContainerName, Arc<Container>>>>);

impl Board {
    pub(super) fn containers(&self) -> MutexGuard<'_, HashMap<ContainerName, Arc<Container>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for the list of containers, which is there until a page is written. False when there is none.
    pub fn reserve(&self, page: &mut Text) -> bool {
        page.reserve(self.containers().len() * size_of::<Ranked>())
    }

    /// How each container is read, in the order of their names.
    pub fn containers_now(&self) -> impl Iterator<Item = ContainerStatus> + use<> {
        let mut containers: Vec<Arc<Container>> = self.containers().values().cloned().collect();
        containers.sort_by(|one, other| one.name.cmp(&other.name));
        containers.into_iter().map(|container| status_now(&container))
    }

    /// The first so many containers: those with most unread output, and then in the order of their names. Nothing but
    /// sums is made of the others.
    pub fn furthest_behind(&self, first: usize) -> FurthestBehind {
        let mut containers: Vec<Ranked> =
            self.containers().values().map(|container| (Reverse(0), Arc::clone(container))).collect();
        let mut total = Sums { containers: containers.len(), ..Sums::default() };
        for (behind, container) in &mut containers {
            let progress = container.progress();
            *behind = Reverse(progress.lag.bytes_behind);
            total.files += progress.lag.files;
            total.bytes_behind += progress.lag.bytes_behind;
            total.stuck += u64::from(progress.known_stuck().is_some());
        }
        containers.sort_unstable_by(|(behind, one), (other_behind, other)| {
            (behind, &one.name).cmp(&(other_behind, &other.name))
        });
        containers.truncate(first);
        containers.shrink_to_fit();
        FurthestBehind { total, containers }
    }
}

/// A container with its unread bytes, by which it has its place.
type Ranked = (Reverse<u64>, Arc<Container>);

/// Containers that are furthest behind. How each is read is found out as it is written.
#[derive(Debug, Serialize)]
pub struct FurthestBehind {
    /// Of all containers.
    total: Sums,
    #[serde(serialize_with = "statuses")]
    containers: Vec<Ranked>,
}

/// How many containers there are, and what comes together of them.
#[derive(Debug, Default, Serialize)]
struct Sums {
    containers: usize,
    files: u64,
    bytes_behind: u64,
    stuck: u64,
}

fn statuses<S: Serializer>(containers: &[Ranked], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(containers.iter().map(|(_, container)| status_now(container)))
}

fn status_now(container: &Container) -> ContainerStatus {
    let (lag, activity) = container.progress().report();
    lag.into_status(&container.name, true, Some(activity))
}

/// The unread output of the containers below `directory`, by the checkpoints in `state`. It only reads, takes no lock,
/// and may be used while a process reads the same containers.
///
/// # Errors
/// When the checkpoints or the directory cannot be read.
pub fn inspect(state: &Path, directory: &Path) -> Result<Vec<ContainerStatus>, StartError> {
    let replayed = checkpoint_file::read(state).map_err(|error| StartError::State(error.to_string()))?;
    let mut saved = replayed.containers;
    let failed = |source| StartError::Directory { path: directory.to_owned(), source };
    let names: BTreeSet<_> = names(directory).map_err(failed)?.into_iter().chain(saved.keys().cloned()).collect();
    Ok(names.into_iter().map(|name| inspect_one(directory, name, &mut saved)).collect())
}

fn inspect_one(directory: &Path, name: ContainerName, saved: &mut BTreeMap<ContainerName, Saved>) -> ContainerStatus {
    let saved = saved.remove(&name);
    let known = saved.is_some();
    let chain = saved.map_or_else(Chain::default, Saved::into_chain);
    let container = Container::new(name, directory, chain, None, Arc::new(Descriptors::of_process()));
    // A directory that cannot be listed shows no files.
    let _ = container.look(0);
    container.measure();
    let (lag, _) = container.progress().report();
    lag.into_status(&container.name, known, None)
}

/// The containers that have a directory.
fn names(directory: &Path) -> io::Result<Vec<ContainerName>> {
    let mut names = Vec::new();
    for pod in fs::read_dir(directory)? {
        let pod = pod?;
        let Ok(containers) = fs::read_dir(pod.path()) else { continue };
        let containers = containers.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let name =
            |container: fs::DirEntry| ContainerName::parse(pod.file_name().to_str()?, container.file_name().to_str()?);
        names.extend(containers.filter_map(name));
    }
    Ok(names)
}

pub(super) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
