//! The loop: look, decide, write what differs, and again when something changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, stream};
use kube::Client;
use tokio::time::{Instant, sleep, sleep_until};
use weir_legible::{LeftOut, Warnings};

use super::api::{RequestError, api_of, request};
use super::apply::Writer;
use super::secrets::Secrets;
use super::world::{Seen, World};
use crate::lease::Leadership;
use crate::operator::configuration::{self, Configuration};
use crate::operator::decide::{Decision, decide};
use crate::operator::leftovers;
use crate::operator::manifests;
use crate::operator::names;
use crate::operator::object::{ObjectKey, kinds};
use crate::operator::overrides::Overrides;
use crate::operator::picture::{Picture, Refused, Written};
use crate::operator::status::condition::{Change, Event, Status};
use crate::operator::verdict::Verdicts;
use crate::operator::{Options, SetLogLevel};

/// Changes that come together are decided on together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Between two configurations of the nodes.
const CONFIGURATIONS: Duration = Duration::from_secs(1);
/// Of the time, this part at most goes into decisions.
const SHARE: u32 = 4;
/// Without a change, it is looked again after this.
const AT_LEAST_EVERY: Duration = Duration::from_secs(600);
/// After a write that failed, the first pause and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Statuses that are written at the same time.
const AT_ONCE: usize = 8;

/// The loop and what it remembers.
pub(super) struct Reconciler {
    client: Client,
    options: Arc<Options>,
    set_log_level: SetLogLevel,
    world: Arc<World>,
    leadership: Leadership,
    writer: Writer,
    secrets: Secrets,
    verdicts: Option<Verdicts>,
    /// What nodes have. Unknown until it was looked up: nothing is decided before.
    previous: Option<Arc<[u8]>>,
    written: Option<Written>,
    idle_since: Option<SystemTime>,
    /// Whether leftovers of older installations were looked for.
    is_swept: bool,
    /// Whether the DaemonSet was made or changed since statuses were written.
    has_made: bool,
    /// How long the last decision took.
    deciding: Duration,
    overrides: Overrides,
    /// What the API server refused to write when it was tried last.
    refused: BTreeMap<ObjectKey, Refused>,
    /// Whether the last turn ended early because that has changed.
    has_hurried: bool,
    failed: Failed,
}

impl Reconciler {
    pub(super) fn new(
        client: Client,
        options: Options,
        set_log_level: SetLogLevel,
        world: Arc<World>,
        (leadership, writer): (Leadership, Writer),
    ) -> Self {
        let secrets = Secrets::new(client.clone(), Arc::clone(&world));
        Self {
            client,
            options: Arc::new(options),
            set_log_level,
            world,
            leadership,
            writer,
            secrets,
            verdicts: Some(Verdicts::default()),
            previous: None,
            written: None,
            idle_since: None,
            is_swept: false,
            has_made: false,
            deciding: Duration::ZERO,
            overrides: Overrides::default(),
            refused: BTreeMap::new(),
            has_hurried: false,
            failed: Failed::default(),
        }
    }

    pub(super) async fn run(mut self) {
        let (mut led, mut again) = (false, Instant::now());
        loop {
            tokio::select! {
                () = self.world.changed() => sleep(DEBOUNCE).await,
                () = self.leadership.changed() => {}
                () = sleep_until(again) => {}
            }
            let leads = self.leadership.leads();
            self.world.look(|seen| seen.figures.leads = leads);
            again = Instant::now() + AT_LEAST_EVERY;
            if leads {
                if !led {
                    self.begin();
                }
                let written = self.written.clone();
                again = Instant::now() + self.turn().await;
                // Changes that never end leave time for everything else, and for nodes, which may be thousands. To wait for
                // the API server takes none.
                let pause = if self.written == written { Duration::ZERO } else { CONFIGURATIONS };
                sleep(pause.max((SHARE - 1) * self.deciding.min(Duration::from_secs(1)))).await;
            } else if led {
                self.secrets.watch(&BTreeSet::new());
            }
            led = leads;
        }
    }

    /// Whoever led before may have written anything.
    fn begin(&mut self) {
        self.writer.forget();
        (self.previous, self.idle_since, self.is_swept) = (None, None, false);
        self.refused.clear();
        // What nodes said to this process in an earlier time is not true any more.
        self.world.look(Seen::forget_answers);
    }

    /// Looks, decides and writes. Returns when to do so again if nothing changes.
    async fn turn(&mut self) -> Duration {
        // OPERATOR-4.
        let missing = self.world.look(|seen| seen.missing());
        if !missing.is_empty() {
            tracing::debug!(?missing, "waiting until all of the cluster was seen");
            return AT_LEAST_EVERY;
        }
        if self.previous.is_none() {
            match self.read_previous().await {
                Ok((previous, written)) => (self.previous, self.written) = (Some(previous), written),
                Err(failure) => {
                    self.failed.note("the configuration that nodes have", &failure);
                    return self.failed.end();
                }
            }
        }
        let Some(decision) = self.decide().await else { return RETRY.1 };
        self.idle_since = if decision.is_idle { self.idle_since.or(Some(SystemTime::now())) } else { None };
        self.say(&decision.overrides);
        self.secrets.watch(&decision.secrets);
        let again = decision.again;
        self.write(decision).await;
        let due = again.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        self.failed.end().min(due.unwrap_or(AT_LEAST_EVERY)).max(DEBOUNCE)
    }

    async fn read_previous(&self) -> Result<(Arc<[u8]>, Option<Written>), RequestError> {
        let key = configuration::key(&self.options.namespace);
        let secret = request(api_of(&self.client, &key).get_opt(&key.name)).await?;
        let Some(secret) = secret else { return Ok((Arc::default(), None)) };
        let revision = secret.metadata.annotations.and_then(|mut annotations| annotations.remove(names::REVISION));
        let packed = configuration::packed_of(&secret.data).unwrap_or_default();
        let changed_by = configuration::changed_by_of(&secret.data).map(Arc::new);
        let written = |revision| Written { revision, since: SystemTime::now(), changed_by };
        Ok((packed.into(), revision.map(written)))
    }

    /// Compiling takes long: it is done where it keeps nobody waiting.
    async fn decide(&mut self) -> Option<Decision> {
        let began = Instant::now();
        let previous = self.previous.clone().unwrap_or_default();
        let picture = self.world.look(|seen| seen.picture(previous, self.idle_since));
        let picture = Picture { written: self.written.clone(), refused: self.refused.clone(), ..picture };
        let (options, mut verdicts) = (Arc::clone(&self.options), self.verdicts.take().unwrap_or_default());
        let deciding = tokio::task::spawn_blocking(move || {
            let decision = decide(&picture, &options, &mut verdicts, SystemTime::now());
            (decision, verdicts)
        });
        match deciding.await {
            Ok((decision, verdicts)) => {
                self.verdicts = Some(verdicts);
                self.deciding = began.elapsed();
                self.world.look(|seen| {
                    seen.figures.decisions += 1;
                    seen.figures.last_decision_seconds = self.deciding.as_secs_f64();
                });
                Some(decision)
            }
            Err(_) => {
                tracing::error!(
                    "a decision panicked: this is a bug in weir, please report it; everything stays as it is"
                );
                None
            }
        }
    }

    fn say(&mut self, overrides: &Overrides) {
        if self.overrides == *overrides {
            return;
        }
        if let Some(problem) = &overrides.problem {
            tracing::warn!(
                problem,
                advice = "correct the ConfigMap telemetry-overrides",
                "a part of the overrides is left out"
            );
        }
        tracing::info!(?overrides, "overrides changed");
        (self.set_log_level)(overrides.log_level.as_deref());
        self.overrides = overrides.clone();
    }

    async fn write(&mut self, decision: Decision) {
        let before: Vec<_> = self.refused.keys().cloned().collect();
        let is_applied = self.apply(&decision).await;
        // Statuses that say what is true now are the next decision's. Once: what is refused in turns must not keep them back.
        self.has_hurried = !self.has_hurried && self.refused.keys().ne(&before);
        if self.has_hurried {
            self.failed.hurry();
            return;
        }
        if is_applied && !self.is_swept && !decision.apply.is_empty() {
            self.is_swept = self.sweep(&decision).await;
        }
        if let Some((key, replicas)) = &decision.scale {
            match self.writer.scale(key, *replicas).await {
                Ok(()) => tracing::info!(object = %key, replicas, "scaled"),
                Err(failure) => self.fail(&format!("replicas of {key}"), &failure),
            }
        }
        for key in &decision.delete {
            if self.world.look(|seen| seen.made.contains_key(key)) {
                self.delete(key, "no pipeline needs it").await;
            }
        }
        // A DaemonSet that was made just now has no pods yet, and the watch tells of both in a moment.
        let is_new = !decision.is_idle && is_applied && self.world.look(|seen| seen.workloads.is_empty());
        if !(is_new && std::mem::take(&mut self.has_made)) {
            self.tell(decision).await;
        }
    }

    /// Returns whether everything is there.
    async fn apply(&mut self, decision: &Decision) -> bool {
        let nodes = configuration::key(&self.options.namespace);
        let mut is_applied = true;
        let wanted: BTreeSet<_> = decision.apply.iter().filter_map(manifests::key).collect();
        self.refused.retain(|key, _| wanted.contains(key));
        for manifest in &decision.apply {
            let Some(key) = manifests::key(manifest) else { continue };
            match self.writer.apply(manifest, &self.world).await {
                Ok(is_changed) => {
                    self.refused.remove(&key);
                    if is_changed {
                        self.has_made |= key.api_version == kinds::DAEMON_SET.0;
                        self.count(true);
                        tracing::info!(object = %key, "applied");
                    }
                    if let (true, Some(configuration)) = (key == nodes, &decision.configuration) {
                        self.take_over(configuration);
                    }
                }
                Err(failure) => {
                    is_applied = false;
                    self.fail(&key.to_string(), &failure);
                    // A class says which pods come first, and nothing needs it to be ours.
                    if failure.is_refusal() && key.kind != kinds::PRIORITY_CLASS.1 {
                        let since = self.refused.get(&key).map_or_else(SystemTime::now, |refused| refused.since);
                        self.refused.insert(key, Refused { error: failure.to_string(), since });
                    }
                }
            }
        }
        is_applied
    }

    fn take_over(&mut self, configuration: &Configuration) {
        let Configuration { revision, packed, documents, changed_by } = configuration;
        if let Some(written) = self.written.as_mut().filter(|written| written.revision == *revision) {
            written.changed_by = Some(Arc::clone(changed_by));
            return;
        }
        let bytes = packed.len();
        tracing::info!(revision, documents, bytes, "nodes have a new configuration");
        self.world.look(|seen| seen.figures.configuration_bytes = bytes);
        self.previous = Some(packed.as_slice().into());
        let (revision, changed_by) = (revision.clone(), Some(Arc::clone(changed_by)));
        self.written = Some(Written { revision, since: SystemTime::now(), changed_by });
    }

    /// Removes what older installations and earlier leaders left. Returns whether all of it is gone.
    async fn sweep(&mut self, decision: &Decision) -> bool {
        let apis = self.world.look(|seen| seen.apis).unwrap_or_default();
        let mut by_kind: BTreeMap<_, Vec<ObjectKey>> = BTreeMap::new();
        let stays: BTreeSet<_> = decision.apply.iter().filter_map(manifests::key).collect();
        let goes = leftovers::all(&self.options.namespace, apis).into_iter().chain(decision.delete.iter().cloned());
        for key in goes.filter(|key| !stays.contains(key)) {
            by_kind.entry((key.kind, key.namespace.clone())).or_default().push(key);
        }
        let mut found = Vec::new();
        for ((kind, _), keys) in &by_kind {
            let Some(first) = keys.first() else { continue };
            match request(api_of(&self.client, first).list_metadata(&Default::default())).await {
                Ok(list) => {
                    let names: Vec<_> = list.items.into_iter().filter_map(|object| object.metadata.name).collect();
                    found.extend(keys.iter().filter(|key| names.contains(&key.name)).cloned());
                }
                // A version of an API that is not served has no objects.
                Err(failure) if failure.is_not_found() => {}
                Err(failure) => {
                    self.fail(&format!("all objects of kind {kind}"), &failure);
                    return false;
                }
            }
        }
        // What needs others goes first.
        found.sort_by_key(|key| !matches!(key.kind, "DaemonSet" | "Deployment"));
        let mut is_swept = true;
        for key in &found {
            is_swept &= self.delete(key, "left by an older installation, or no pipeline needs it").await;
        }
        is_swept
    }

    async fn delete(&mut self, key: &ObjectKey, why: &str) -> bool {
        match self.writer.delete(key).await {
            Ok(was_there) => {
                if was_there {
                    self.count(true);
                    tracing::info!(object = %key, why, "deleted");
                }
                if *key == configuration::key(&self.options.namespace) {
                    (self.previous, self.written) = (Some(Arc::default()), None);
                }
                self.world.look(|seen| seen.made.remove(key));
                true
            }
            Err(failure) => {
                self.fail(&key.to_string(), &failure);
                false
            }
        }
    }

    /// Writes statuses and finalizers, and tells events.
    async fn tell(&mut self, decision: Decision) {
        let Decision { statuses, finalizers, .. } = decision;
        // Before the status, which makes another version of the object.
        if let Some((object, finalizers)) = finalizers {
            let version = self.world.look(|seen| seen.version_of_telemetry());
            if let Err(failure) = self.writer.finalizers(&object, &finalizers, &version).await {
                self.fail(&format!("finalizers of {object}"), &failure);
            }
        }
        let (writer, world) = (&self.writer, &self.world);
        let write = async |status: Status| match writer.status(&status).await {
            Ok(()) => {
                world.look(|seen| seen.set_status(&status));
                Ok(status.events())
            }
            Err(failure) => Err((status.object, failure)),
        };
        let written: Vec<_> = stream::iter(statuses).map(write).buffer_unordered(AT_ONCE).collect().await;
        for result in written {
            match result {
                Ok(events) => {
                    self.count(true);
                    self.tell_events(&events).await;
                }
                Err((object, failure)) => self.fail(&object.to_string(), &failure),
            }
        }
    }

    async fn tell_events(&mut self, events: &[Event]) {
        for event in events {
            let Event { about: object, change: Change { condition, reason, .. }, note: message, .. } = event;
            tracing::info!(%object, condition, reason, message, "status changed");
            if let Err(failure) = self.writer.event(event).await {
                self.fail("events", &failure);
            }
        }
    }

    fn count(&self, is_good: bool) {
        self.world.look(|seen| {
            seen.figures.writes += u64::from(is_good);
            seen.figures.write_errors += u64::from(!is_good);
        });
    }

    fn fail(&mut self, what: &str, failure: &RequestError) {
        // Whoever leads now does it.
        if !matches!(failure, RequestError::NotLeading) {
            self.count(false);
            self.failed.note(what, failure);
        }
    }
}

/// What failed, told once until it works again.
#[derive(Default)]
struct Failed {
    told: BTreeMap<String, String>,
    now: BTreeMap<String, String>,
    /// What the log has named, and names again when it works.
    named: BTreeSet<String>,
    pause: Duration,
    asked: Duration,
    /// The next turn follows at once.
    is_urgent: bool,
    warnings: Warnings,
}

impl Failed {
    fn hurry(&mut self) {
        self.is_urgent = true;
    }

    fn note(&mut self, what: &str, failure: &RequestError) {
        self.asked = self.asked.max(failure.retry_after().unwrap_or_default());
        let error = failure.to_string();
        let (reason, advice) = match failure.is_forbidden() {
            true => ("forbidden", "let the operator's ClusterRole and Role allow it"),
            false => ("failed", "look whether the API server answers, and what it says"),
        };
        let is_news = self.told.get(what) != Some(&error) && self.now.get(what) != Some(&error);
        if is_news && self.warnings.may_say(reason, 0, Instant::now()) {
            tracing::warn!(what, error, advice, "cannot read or write; trying on");
            self.named.insert(what.to_owned());
        }
        self.now.insert(what.to_owned(), error);
    }

    /// Ends a turn. Returns how long to wait before the next.
    fn end(&mut self) -> Duration {
        for LeftOut { reason, messages, .. } in self.warnings.left_out(Instant::now()) {
            tracing::warn!(
                reason,
                left_out = messages,
                advice = "look at the metrics of the operator, and at the lines before",
                "more could not be read or written than the log names in a minute; trying on"
            );
        }
        for what in self.told.keys().filter(|what| !self.now.contains_key(*what)) {
            if self.named.remove(what) {
                tracing::info!(what, "works again");
            }
        }
        self.told = std::mem::take(&mut self.now);
        if std::mem::take(&mut self.is_urgent) {
            return Duration::ZERO;
        }
        if self.told.is_empty() {
            self.pause = RETRY.0;
            return AT_LEAST_EVERY;
        }
        let pause = self.pause.max(RETRY.0).max(std::mem::take(&mut self.asked));
        self.pause = (2 * pause).min(RETRY.1);
        pause
    }
}
