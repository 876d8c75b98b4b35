//! The directories of pods and containers: what they hold now, and what has changed.
//!
//! Every look lists whole directories, so it misses nothing; hints only say where to look at once.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::changed::Changed;
use super::hints::{Hint, Hints, Watch};
use super::path::ContainerName;

/// Everything is looked at this often where hints tell of changes ...
const RECONCILE: Duration = Duration::from_secs(30);
/// ... and where some do not.
const UNHINTED: Duration = Duration::from_secs(1);

/// A directory may have more directories than this; they are passed over. Each takes some 500 bytes, which are not paid
/// for.
const MOST_DIRECTORIES: usize = 20_000;

/// Gets to know what changed.
pub(super) trait Audience {
    /// Everything is going to be looked at.
    fn begins(&mut self);
    /// Whether the files of this container are to be read.
    fn wants(&mut self, name: &ContainerName) -> bool;
    /// Files of this container came, left or have other names; or it is time to look.
    fn changed(&mut self, name: &ContainerName);
    /// Something was written to a file of this container.
    fn written(&mut self, name: &ContainerName);
    /// Something was written to a rotated file of this container.
    fn written_late(&mut self, name: &ContainerName);
    /// The container's directory is gone.
    fn gone(&mut self, name: &ContainerName);
    /// A directory cannot be listed.
    fn failed(&mut self, path: &Path, error: &io::Error);
}

/// What a watch is for.
#[derive(Debug, Clone)]
enum Place {
    Root,
    Pod(String),
    Container(ContainerName),
}

/// The directory of a pod.
#[derive(Debug, Default)]
struct Pod {
    watch: Option<Watch>,
    listed: Option<Changed>,
    containers: HashMap<ContainerName, Option<Watch>>,
}

/// The directories below that of all pods.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    hints: Option<Hints>,
    root_watch: Option<Watch>,
    places: HashMap<Watch, Place>,
    pods: HashMap<String, Pod>,
    /// The time of change of the directory of all pods when it was last listed.
    listed: Option<Changed>,
    /// Some directory gives no hints.
    is_unhinted: bool,
    /// So many directories of one are looked at.
    most: usize,
}

impl Tree {
    pub(super) fn new(root: PathBuf, hints: Option<Hints>) -> Self {
        let is_unhinted = hints.is_none();
        let (places, pods) = (HashMap::new(), HashMap::new());
        Self { root, hints, root_watch: None, places, pods, listed: None, is_unhinted, most: MOST_DIRECTORIES }
    }

    /// How long until everything is to be looked at again. `misses_some`: something comes without a hint.
    pub(super) fn reconcile_after(&self, misses_some: bool) -> Duration {
        if self.is_unhinted || misses_some { UNHINTED } else { RECONCILE }
    }

    /// Looks at everything.
    pub(super) fn reconcile(&mut self, audience: &mut impl Audience) {
        self.is_unhinted = self.hints.is_none();
        audience.begins();
        self.look_at_root(audience, true);
    }

    /// The audience wants other containers: those that it did not want before have to be listed.
    pub(super) fn forget_lists(&mut self) {
        self.pods.values_mut().for_each(|pod| pod.listed = None);
    }

    /// Waits for hints, and looks where they say that something has changed.
    pub(super) fn wait(&mut self, patience: Duration, audience: &mut impl Audience) -> io::Result<()> {
        let Some(hints) = &mut self.hints else { return Ok(()) };
        hints.wait(patience)?;
        let (mut names, mut written, mut late) = (HashSet::new(), HashSet::new(), HashSet::new());
        let (mut gone, mut is_lost) = (Vec::new(), false);
        hints.take(|hint| match hint {
            Hint::Names(watch) => _ = names.insert(watch),
            Hint::Written(watch) => _ = written.insert(watch),
            Hint::WrittenLate(watch) => _ = late.insert(watch),
            Hint::Gone(watch) => gone.push(watch),
            Hint::Lost => is_lost = true,
        })?;
        if is_lost {
            self.reconcile(audience);
        } else {
            names.iter().for_each(|watch| self.look_at(*watch, audience));
        }
        for watch in written.difference(&names) {
            if let Some(Place::Container(name)) = self.places.get(watch) {
                audience.written(name);
            }
        }
        for watch in late.difference(&names) {
            if let Some(Place::Container(name)) = self.places.get(watch) {
                audience.written_late(name);
            }
        }
        gone.iter().for_each(|watch| self.unwatched(*watch));
        Ok(())
    }

    fn look_at(&mut self, watch: Watch, audience: &mut impl Audience) {
        match self.places.get(&watch).cloned() {
            Some(Place::Root) => self.look_at_root(audience, false),
            Some(Place::Pod(pod)) => self.look_at_pod(&pod, audience, false),
            Some(Place::Container(name)) => self.look_at_container(&name, audience),
            None => {}
        }
    }

    /// The kernel forgot a watch, because its directory is gone.
    fn unwatched(&mut self, watch: Watch) {
        match self.places.remove(&watch) {
            Some(Place::Root) => self.root_watch = None,
            Some(Place::Pod(pod)) => {
                self.pods.get_mut(&pod).into_iter().for_each(|pod| pod.watch = None);
            }
            Some(Place::Container(name)) => {
                let containers = self.pods.get_mut(&pod_dir(&name)).map(|pod| &mut pod.containers);
                containers.and_then(|all| all.get_mut(&name)).into_iter().for_each(|watch| *watch = None);
            }
            None => {}
        }
    }

    /// `whole`: also what is known already.
    fn look_at_root(&mut self, audience: &mut impl Audience, whole: bool) {
        if self.root_watch.is_none() {
            self.root_watch = self.watch(Place::Root);
        }
        let names = match directories(&self.root, self.most, self.listed, audience) {
            Names::Unlisted => return,
            Names::Unchanged => self.pods.keys().cloned().collect(),
            Names::Listed(names, listed) => {
                self.listed = listed;
                names
            }
        };
        let known: Vec<String> = self.pods.keys().filter(|pod| !names.contains(*pod)).cloned().collect();
        known.iter().for_each(|pod| self.pod_is_gone(pod, audience));
        for pod in names {
            if whole || !self.pods.contains_key(&pod) {
                self.look_at_pod(&pod, audience, whole);
            }
        }
    }

    fn look_at_pod(&mut self, pod: &str, audience: &mut impl Audience, whole: bool) {
        // The watch is there before the look: what comes in between is in both.
        if self.pods.get(pod).is_none_or(|known| known.watch.is_none()) {
            let watch = self.watch(Place::Pod(pod.to_owned()));
            self.pods.entry(pod.to_owned()).or_default().watch = watch;
        }
        let listed = self.pods.get(pod).and_then(|pod| pod.listed);
        let (names, listed) = match directories(&self.root.join(pod), self.most, listed, audience) {
            Names::Unlisted => return,
            Names::Unchanged => return self.look_at_known(pod, audience, whole),
            Names::Listed(names, listed) => (names, listed),
        };
        self.pods.entry(pod.to_owned()).or_default().listed = listed;
        let wanted = |container: &String| ContainerName::parse(pod, container).filter(|name| audience.wants(name));
        let wanted: HashSet<ContainerName> = names.iter().filter_map(wanted).collect();
        let known = self.pods.get(pod).map(|pod| &pod.containers);
        let is_known = |name: &ContainerName| known.is_some_and(|all| all.contains_key(name));
        let gone: Vec<_> =
            known.into_iter().flat_map(HashMap::keys).filter(|name| !wanted.contains(*name)).cloned().collect();
        let looks: Vec<_> = wanted.into_iter().filter(|name| whole || !is_known(name)).collect();
        gone.iter().for_each(|name| self.container_is_gone(name, audience));
        looks.iter().for_each(|name| self.look_at_container(name, audience));
    }

    /// The same containers as before are in a pod's directory.
    fn look_at_known(&mut self, pod: &str, audience: &mut impl Audience, whole: bool) {
        let known = self.pods.get(pod).into_iter().filter(|_| whole).flat_map(|pod| pod.containers.keys());
        known.cloned().collect::<Vec<_>>().iter().for_each(|name| self.look_at_container(name, audience));
    }

    fn look_at_container(&mut self, name: &ContainerName, audience: &mut impl Audience) {
        let pod = pod_dir(name);
        let watch = self.pods.get(&pod).and_then(|pod| *pod.containers.get(name)?);
        let watch = watch.or_else(|| self.watch(Place::Container(name.clone())));
        self.pods.entry(pod).or_default().containers.insert(name.clone(), watch);
        audience.changed(name);
    }

    fn pod_is_gone(&mut self, pod: &str, audience: &mut impl Audience) {
        let Some(Pod { watch, containers, .. }) = self.pods.remove(pod) else { return };
        self.forget(watch);
        for (name, watch) in containers {
            self.forget(watch);
            audience.gone(&name);
        }
    }

    fn container_is_gone(&mut self, name: &ContainerName, audience: &mut impl Audience) {
        let Some(pod) = self.pods.get_mut(&pod_dir(name)) else { return };
        let watch = pod.containers.remove(name).flatten();
        self.forget(watch);
        audience.gone(name);
    }

    /// Asks for hints of a directory.
    fn watch(&mut self, place: Place) -> Option<Watch> {
        let hints = self.hints.as_ref()?;
        let watch = match &place {
            Place::Root => hints.watch_directories(&self.root),
            Place::Pod(pod) => hints.watch_directories(&self.root.join(pod)),
            Place::Container(name) => hints.watch_files(&self.root.join(name.to_string())),
        };
        match watch {
            Ok(watch) => {
                self.places.insert(watch, place);
                Some(watch)
            }
            // What is gone by now needs no hints.
            Err(error) => {
                self.is_unhinted |= error.kind() != io::ErrorKind::NotFound;
                None
            }
        }
    }

    fn forget(&mut self, watch: Option<Watch>) {
        let Some(watch) = watch else { return };
        self.places.remove(&watch);
        self.hints.iter().for_each(|hints| hints.forget(watch));
    }
}

fn pod_dir(name: &ContainerName) -> String {
    format!("{}_{}_{}", name.namespace, name.pod, name.uid)
}

/// The directories in a directory.
enum Names {
    /// It cannot be listed.
    Unlisted,
    /// The same as when it was listed before.
    Unchanged,
    /// And when it had changed last.
    Listed(HashSet<String>, Option<Changed>),
}

/// No more than `most`. `listed`: when it had changed last when it was listed before.
fn directories(path: &Path, most: usize, listed: Option<Changed>, audience: &mut impl Audience) -> Names {
    let mut list = || -> io::Result<Names> {
        let changed = Changed::of(path)?;
        if listed.is_some() && changed == listed {
            return Ok(Names::Unchanged);
        }
        let changed = changed.filter(|changed| changed.is_over());
        let mut names = HashSet::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name =
                entry.file_name().into_string().ok().filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let Some(name) = name else { continue };
            if names.len() == most {
                let error = format!("more than {most} directories are in it; the others are passed over");
                audience.failed(path, &io::Error::other(error));
                return Ok(Names::Listed(names, None));
            }
            names.insert(name);
        }
        Ok(Names::Listed(names, changed))
    };
    match list() {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Names::Listed(HashSet::new(), None),
        Err(error) => {
            audience.failed(path, &error);
            Names::Unlisted
        }
    }
}

#[cfg(test)]
mod tests;
