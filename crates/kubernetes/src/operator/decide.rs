//! All decisions: from a picture of the cluster to what nodes get, what there has to be, and what statuses say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use weir_plan::{PipelineId, Signal};

use super::configuration::{self, Configuration, Part, PartText, Previous};
use super::layout::{Layout, Workload};
use super::limits;
use super::manifests::{self, Nodes};
use super::names;
use super::object::{ObjectKey, is_being_deleted, kinds, name, text};
use super::options::Options;
use super::overrides::Overrides;
use super::picture::{Picture, SecretName, SecretState, Stale, kind_of};
use super::references::{self, References};
use super::status::condition::{self, Condition, Status, UNREADABLE};
use super::status::pipeline::{self, Standings};
use super::status::telemetry::{self, Components};
use super::verdict::{self, Finding, Needs, Verdict, Verdicts};
use super::workload;
use crate::changed_by::{Manager, Origin, Origins};

/// How long nodes keep what they have when a Secret has gone, and stay when no pipeline can run any more. Tools that rotate
/// a Secret delete it and make it anew.
const IDLE: Duration = Duration::from_secs(10);
/// An API server that starts knows no rights for some seconds: what it refuses for longer is told.
const PATIENCE_WITH_RIGHTS: Duration = Duration::from_secs(10);
/// A Telemetry that is being deleted waits for pods so long: some do not go, such as those of a node that is gone.
const PATIENCE_WITH_PODS: Duration = Duration::from_secs(120);

/// What to do.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// What there has to be.
    pub(crate) apply: Vec<Value>,
    /// What may be there and has to go.
    pub(crate) delete: Vec<ObjectKey>,
    /// How many replicas there have to be, where there are others and nothing else counts them.
    pub(crate) scale: Option<(ObjectKey, u32)>,
    /// Statuses that differ from what is there.
    pub(crate) statuses: Vec<Status>,
    /// The finalizers of the Telemetry, if they differ.
    pub(crate) finalizers: Option<(ObjectKey, Value)>,
    /// Secrets to watch.
    pub(crate) secrets: BTreeSet<SecretName>,
    /// What nodes get; nothing if they stay as they are.
    pub(crate) configuration: Option<Configuration>,
    /// Whether no pipeline can run.
    pub(crate) is_idle: bool,
    /// When to look again if nothing happens.
    pub(crate) again: Option<SystemTime>,
    pub(crate) overrides: Overrides,
}

/// Kinds of what gives rights to pods.
const RIGHTS_OF_PODS: [&str; 3] = [kinds::ROLE.1, kinds::ROLE_BINDING.1, kinds::SERVICE_ACCOUNT.1];

/// A pipeline while it is decided on.
struct Candidate<'a> {
    id: &'a PipelineId,
    object: &'a Value,
    needs: Needs,
    /// Nothing while it cannot be judged, or must not be: everything stays as it is.
    verdict: Option<Verdict>,
    /// Its documents, if nodes get them.
    part: Option<PartText>,
    /// The port of the backend that these name.
    port: Option<u16>,
    /// Secrets that it refers to and whose last known values are used.
    stale: Vec<Stale>,
}

/// A pipeline that was decided on. Its documents are where nodes get them from, and not kept: those of a thousand pipelines
/// are as large as all their statuses.
struct Decided<'a> {
    id: &'a PipelineId,
    object: &'a Value,
    needs: Needs,
    verdict: Option<Verdict>,
    /// Whether nodes get it.
    runs: bool,
    port: Option<u16>,
    stale: Vec<Stale>,
}

impl<'a> From<Candidate<'a>> for Decided<'a> {
    fn from(Candidate { id, object, needs, verdict, part, port, stale }: Candidate<'a>) -> Self {
        Self { id, object, needs, verdict, runs: part.is_some(), port, stale }
    }
}

/// Makes all decisions, each from what is given alone (OPERATOR-1).
pub(crate) fn decide(picture: &Picture, options: &Options, verdicts: &mut Verdicts, now: SystemTime) -> Decision {
    let overrides = Overrides::read(picture.overrides.as_deref());
    let previous = Previous::new(&picture.previous);
    let telemetry = TelemetryOfNodes::of(picture, &previous, &overrides, now);
    let alive: Vec<_> = picture.pipelines.iter().filter(|(_, object)| !is_being_deleted(object)).collect();
    verdicts.keep(|id| picture.pipelines.contains_key(id));
    let mut exceeding =
        limits::exceeding(&alive.iter().map(|(id, object)| (*id, &***object)).collect::<Vec<_>>(), options);
    let followed = alive.iter().filter(|(id, _)| !exceeding.contains_key(*id));
    let secrets: BTreeSet<_> = followed.flat_map(|(_, object)| references::of(object).into_keys()).collect();
    let mut judge = Judge { picture, previous: &previous, telemetry: &telemetry, verdicts, now, again: None };
    let mut candidates: Vec<_> = alive
        .iter()
        .map(|&(id, object)| match (overrides.is_paused(id.signal), exceeding.remove(id)) {
            (true, _) => judge.kept(id, object),
            (false, Some(verdict)) => Candidate { verdict: Some(verdict), part: None, ..judge.kept(id, object) },
            (false, None) => judge.candidate(id, object),
        })
        .collect();
    let look_again = judge.again;
    // What goes on as it was may refer to others.
    let old = candidates.iter().filter_map(|candidate| candidate.part.as_ref()).filter(|part| part.is_old);
    let secrets: BTreeSet<_> =
        secrets.into_iter().chain(old.flat_map(|part| part.references.iter().cloned())).collect();
    let mut configuration = configure(telemetry.document.as_ref(), &previous, &mut candidates);
    configuration.changed_by = changed_by(picture, &configuration.revision, &candidates);
    let decided: Vec<_> = candidates.into_iter().map(Decided::from).collect();
    let is_idle = decided.iter().all(|decided| !decided.runs);

    // Half of what nodes have must not take its place. Where nothing is known of that, all Secrets are waited for.
    // What nodes have is unpacked when it is asked for, which takes as much as all that is decided.
    let is_half = secrets.iter().any(|secret| !picture.secrets.contains_key(secret)) && previous.is_unknown();
    drop(previous);
    let mut decision = Decision { is_idle, secrets, again: look_again, ..Decision::default() };
    let layout = layout(picture, options, &decided, &configuration);
    if !is_half {
        decision.decide_on_nodes(picture, options, &decided, (&configuration, &layout, &overrides), now);
    }
    decision.decide_on_statuses(picture, options, &decided, (&telemetry, &layout, &overrides), now);
    let late = workload::look_again(picture, now);
    decision.again = decision.again.into_iter().chain(verdicts.next()).chain(late).min();
    decision.configuration = (!overrides.nodes_paused && !is_half).then_some(configuration);
    decision.overrides = overrides;
    decision
}

/// The Telemetry as nodes get it.
struct TelemetryOfNodes {
    document: Option<Value>,
    problem: Option<Finding>,
}

impl TelemetryOfNodes {
    /// One that is wrong has no effect, and does not keep pipelines from running.
    fn of(picture: &Picture, previous: &Previous<'_>, overrides: &Overrides, now: SystemTime) -> Self {
        if overrides.telemetry_paused {
            return Self { document: previous.telemetry(), problem: None };
        }
        let Some(object) = &picture.telemetry else { return Self { document: None, problem: None } };
        let document = verdict::document(object);
        match verdict::problem(&document, now) {
            Some(problem) => Self { document: previous.telemetry(), problem: Some(problem) },
            None => Self { document: Some(document), problem: None },
        }
    }
}

fn refused(message: String) -> Verdict {
    Verdict::refused(Finding { reason: "ValidationFailed", message })
}

/// What pipelines are judged with.
struct Judge<'a, 'b> {
    picture: &'a Picture,
    previous: &'b Previous<'b>,
    telemetry: &'b TelemetryOfNodes,
    verdicts: &'b mut Verdicts,
    now: SystemTime,
    /// When a Secret that went has been away for too long, or one has been refused for so long that it is told.
    again: Option<SystemTime>,
}

impl<'a> Judge<'a, '_> {
    /// A pipeline that stays as nodes have it.
    fn kept(&mut self, id: &'a PipelineId, object: &'a Value) -> Candidate<'a> {
        let part = self.previous.part(kind_of(id.signal).1, object);
        let port = part.as_ref().and_then(|part| self.judged(id, part).port);
        let part = part.map(PartText::from);
        Candidate { id, object, needs: Needs::of(id.signal, object), verdict: None, part, port, stale: Vec::new() }
    }

    /// What is said of a part that nodes have.
    fn judged(&mut self, id: &PipelineId, Part { pipeline, secrets, .. }: &Part) -> Verdict {
        let documents = self.telemetry.document.iter().chain([pipeline]).chain(secrets);
        self.verdicts.of_last_good(id, &documents.collect::<Vec<_>>(), self.now)
    }

    /// A pipeline that may refer to Secrets that must not be read any more.
    fn candidate(&mut self, id: &'a PipelineId, object: &'a Value) -> Candidate<'a> {
        let references = references::of(object);
        let stale = self.stale(object, &references);
        Candidate { stale, ..self.as_it_is(id, object, &references) }
    }

    /// A pipeline as it is now. While a Secret was not looked up, or has gone a moment ago, nothing is known of it.
    fn as_it_is(&mut self, id: &'a PipelineId, object: &'a Value, references: &References) -> Candidate<'a> {
        let secrets = match self.secrets(references) {
            Ok(Some(secrets)) => secrets,
            Ok(None) => return self.kept(id, object),
            Err(problem) => return self.last_good(id, object, refused(problem)),
        };
        if let Err(problem) = limits::of_values(&secrets) {
            return self.last_good(id, object, refused(problem));
        }
        let pipeline = verdict::document(object);
        let documents = self.telemetry.document.iter().chain([&pipeline]).chain(&secrets);
        let verdict = self.verdicts.of(id, &documents.collect::<Vec<_>>(), self.now);
        if !verdict.runs {
            return self.last_good(id, object, verdict);
        }
        let part = Some(Part { pipeline, secrets, is_old: false }.into());
        let port = verdict.port;
        let needs = Needs::of(id.signal, object);
        Candidate { id, object, needs, verdict: Some(verdict), part, port, stale: Vec::new() }
    }

    /// OPERATOR-2: a pipeline that is wrong. It goes on as nodes have it, if they do
    /// (docs/decisions/024-a-pipeline-that-becomes-wrong.md).
    fn last_good(&mut self, id: &'a PipelineId, object: &'a Value, verdict: Verdict) -> Candidate<'a> {
        let (part, port) = self.as_it_was(id, object).unzip();
        let needs = Needs::of(id.signal, part.as_ref().map_or(object, |part| &part.pipeline));
        let part = part.map(PartText::from);
        Candidate { id, object, needs, verdict: Some(verdict), part, port: port.flatten(), stale: Vec::new() }
    }

    /// What nodes have of a pipeline, with values of Secrets as they are now. Nothing if that would not be right any more, or
    /// if somebody took a Secret away from it.
    fn as_it_was(&mut self, id: &PipelineId, object: &Value) -> Option<(Part, Option<u16>)> {
        let Part { pipeline, secrets: known, .. } = self.previous.part(kind_of(id.signal).1, object)?;
        let mut secrets = Vec::new();
        for (secret, keys) in references::of(&pipeline) {
            let SecretName { namespace, name } = &secret;
            match self.picture.secrets.get(&secret) {
                Some(SecretState::Present { values, .. }) => {
                    let wanted = values.iter().filter(|(key, _)| keys.contains(*key));
                    secrets.push(verdict::secret(namespace, name, wanted));
                }
                Some(SecretState::Missing(Some(since))) if self.now < *since + IDLE => {
                    self.again = self.again.into_iter().chain([*since + IDLE]).min();
                    secrets.extend(known.iter().filter(|of| is_secret(of, &secret)).cloned());
                }
                Some(SecretState::Missing(_)) => return None,
                Some(SecretState::Unreadable { .. }) | None => {
                    secrets.extend(known.iter().filter(|of| is_secret(of, &secret)).cloned());
                }
            }
        }
        let part = Part { pipeline, secrets, is_old: true };
        let verdict = self.judged(id, &part);
        verdict.runs.then_some((part, verdict.port))
    }

    /// The referenced Secrets with the referenced keys. Nothing if one was not looked up yet; an error if one cannot be.
    fn secrets(&mut self, references: &References) -> Result<Option<Vec<Value>>, String> {
        let mut secrets = Vec::new();
        for (secret, keys) in references {
            let SecretName { namespace, name } = secret;
            let values = match self.picture.secrets.get(secret) {
                None => return Ok(None),
                Some(SecretState::Missing(Some(since))) if self.now < *since + IDLE => {
                    self.again = self.again.into_iter().chain([*since + IDLE]).min();
                    return Ok(None);
                }
                Some(SecretState::Missing(_)) => continue,
                Some(SecretState::Present { values, .. }) => Arc::clone(values),
                // What nodes have of it stays true until somebody knows better.
                Some(SecretState::Unreadable { reason, .. }) => match self.previous.secret(namespace, name) {
                    Some(values) => Arc::new(values),
                    None => return Err(format!("cannot read Secret '{name}' of Namespace '{namespace}': {reason}")),
                },
            };
            let wanted = values.iter().filter(|(key, _)| keys.contains(*key));
            secrets.push(verdict::secret(namespace, name, wanted));
        }
        Ok(Some(secrets))
    }

    /// The referenced Secrets that must not be read any more, and whose values are known from before. Whoever leads
    /// anew goes on with what the status says.
    fn stale(&mut self, object: &Value, references: &References) -> Vec<Stale> {
        let is_said = condition::message(object, pipeline::CONFIGURATION).is_some_and(|it| it.contains(UNREADABLE));
        let since = |secret: &SecretName| match self.picture.secrets.get(secret)? {
            SecretState::Present { unreadable_since, .. } => *unreadable_since,
            SecretState::Unreadable { since, .. } => {
                self.previous.secret(&secret.namespace, &secret.name).is_some().then_some(*since)
            }
            SecretState::Missing(_) => None,
        };
        let stale = |secret: &SecretName| Some(Stale { secret: secret.clone(), since: since(secret)? });
        let all: Vec<_> = references.keys().filter_map(stale).collect();
        let is_told = |stale: &Stale| is_said || stale.since + PATIENCE_WITH_RIGHTS <= self.now;
        let (told, young): (Vec<_>, Vec<_>) = all.into_iter().partition(is_told);
        self.again = young.iter().map(|stale| stale.since + PATIENCE_WITH_RIGHTS).chain(self.again).min();
        told
    }
}

fn is_secret(document: &Value, secret: &SecretName) -> bool {
    text(document, "/metadata/namespace") == Some(&secret.namespace) && name(document) == secret.name
}

/// What nodes get. Pipelines for which there is no room lose their part, and say so: those that nodes have go first, then the
/// oldest.
fn configure(telemetry: Option<&Value>, previous: &Previous<'_>, candidates: &mut [Candidate<'_>]) -> Configuration {
    let mut order: Vec<usize> = (0..candidates.len()).filter(|index| candidates[*index].part.is_some()).collect();
    let parts = |order: &[usize]| order.iter().filter_map(|index| candidates[*index].part.as_ref()).collect::<Vec<_>>();
    let (configuration, fit) = Configuration::new(telemetry, &parts(&order));
    if fit == order.len() {
        return configuration;
    }
    order.sort_by_cached_key(|index| {
        let Candidate { id, object, part, .. } = &candidates[*index];
        let is_new = part.is_none() || !previous.has(kind_of(id.signal).1, &id.name);
        (is_new, text(object, "/metadata/creationTimestamp").map(str::to_owned), (*id).clone())
    });
    let (configuration, fit) = Configuration::new(telemetry, &parts(&order));
    for index in order.split_off(fit) {
        let message = "There is no room for this pipeline: all pipelines with the values of their Secrets must fit into \
                       one Secret of 1 MiB, compressed, and into 4 MiB of text, and those before it fill that";
        candidates[index].part = None;
        candidates[index].verdict = Some(refused(message.to_owned()));
    }
    configuration
}

/// Who changed the pipelines that nodes get, and which versions of Secrets their values are from. As long as these are the
/// same, it stays as it was written: somebody else may own their fields by now, and a Secret may have another version, but
/// nothing was changed that nodes get, and nothing is written.
fn changed_by(picture: &Picture, revision: &str, candidates: &[Candidate<'_>]) -> Arc<Origins> {
    let written = picture.written.as_ref();
    let known = written.and_then(|written| Some((written.revision.as_str(), written.changed_by.as_ref()?)));
    if let Some((_, known)) = known.filter(|(of, _)| *of == revision) {
        return Arc::clone(known);
    }
    let of = |candidate: &Candidate<'_>| {
        let part = candidate.part.as_ref()?;
        let before = known.and_then(|(_, known)| known.get(candidate.id));
        // What goes on as it was is not what somebody made of it since.
        let manager = match part.is_old {
            true => before.and_then(|before| before.manager.clone()),
            false => Manager::kept(candidate.object),
        };
        let secret_versions = Some(versions(picture, &part.secrets, before));
        Some((candidate.id.clone(), Origin { manager, secret_versions }))
    };
    Arc::new(candidates.iter().filter_map(of).collect())
}

/// The versions in which Secrets have the values of these documents, as far as they are known.
fn versions(picture: &Picture, secrets: &[Value], before: Option<&Origin>) -> BTreeMap<String, String> {
    let version = |document: &Value| {
        let [namespace, name] = [text(document, "/metadata/namespace")?, name(document)].map(str::to_owned);
        let id = format!("{namespace}/{name}");
        let version = match picture.secrets.get(&SecretName { namespace, name }) {
            Some(SecretState::Present { values, resource_version, .. }) if has(values, document) => {
                resource_version.clone()
            }
            // What nodes have of it is from before.
            _ => before.and_then(|before| before.secret_versions.as_ref()?.get(&id).cloned()),
        };
        Some((id, version?))
    };
    secrets.iter().filter_map(version).collect()
}

/// Whether a Secret has all values of a document.
fn has(values: &BTreeMap<String, String>, document: &Value) -> bool {
    let mut wanted = document["data"].as_object().into_iter().flatten();
    wanted.all(|(key, value)| values.get(key).map(String::as_str) == value.as_str())
}

/// What all pipelines that run need together, and their signals.
fn needs(decided: &[Decided<'_>]) -> (Needs, BTreeSet<Signal>) {
    let running = || decided.iter().filter(|decided| decided.runs);
    let needs = running().map(|decided| decided.needs).fold(Needs::default(), Needs::and);
    (needs, running().map(|decided| decided.id.signal).collect())
}

fn layout(picture: &Picture, options: &Options, decided: &[Decided<'_>], configuration: &Configuration) -> Layout {
    let (needs, signals) = needs(decided);
    Layout::of(&options.scale, (needs, &signals), picture, &configuration.revision)
}

impl Decision {
    /// What there has to be for the nodes, and what has to go.
    fn decide_on_nodes(
        &mut self,
        picture: &Picture,
        options: &Options,
        decided: &[Decided<'_>],
        (configuration, layout, overrides): (&Configuration, &Layout, &Overrides),
        now: SystemTime,
    ) {
        if overrides.nodes_paused {
            return;
        }
        let stay_until = picture.idle_since.unwrap_or(now) + IDLE;
        // Nobody changes their mind about a Telemetry that is being deleted.
        let is_leaving = picture.telemetry.as_deref().is_some_and(is_being_deleted) && picture.pipelines.is_empty();
        if self.is_idle && now < stay_until && !is_leaving {
            self.again = self.again.into_iter().chain([stay_until]).min();
            return;
        }
        let running = || decided.iter().filter(|decided| decided.runs);
        let (needs, signals) = needs(decided);
        let nodes = Nodes {
            options,
            needs,
            signals,
            layout,
            ports: running().filter_map(|decided| decided.port).collect(),
            istio: picture.apis.istio,
            owner: picture.telemetry.as_deref().filter(|telemetry| !is_being_deleted(telemetry)),
        };
        self.apply = vec![manifests::class(options)];
        if !self.is_idle {
            let settings = settings(overrides);
            let labels = manifests::labels(names::NODE, "gateway");
            let mut secret = configuration.manifest(&options.namespace, &settings, labels);
            nodes.own(&mut secret);
            // Whoever starts finds it.
            self.apply.push(secret);
            self.apply.extend(nodes.manifests());
            self.scale = replicas(picture, options, layout);
        }
        let mut wanted: BTreeSet<_> = self.apply.iter().filter_map(manifests::key).collect();
        if !self.is_idle {
            wanted.extend(layout.left.iter().map(|workload| manifests::key_of(*workload, &options.namespace)));
        }
        let ours = manifests::all(&options.namespace, picture.apis.istio);
        // Pods that are going give a Lease back, and say what they have.
        let is_needed = |key: &ObjectKey| !picture.pods.is_empty() && RIGHTS_OF_PODS.contains(&key.kind);
        self.delete = ours.into_iter().filter(|key| !wanted.contains(key) && !is_needed(key)).collect();
    }

    fn decide_on_statuses(
        &mut self,
        picture: &Picture,
        options: &Options,
        decided: &[Decided<'_>],
        (telemetry, layout, overrides): (&TelemetryOfNodes, &Layout, &Overrides),
        now: SystemTime,
    ) {
        let mut bad = self.decide_on_pipelines(picture, options, decided, layout, now);
        let (Some(object), false) = (picture.telemetry.as_deref(), overrides.telemetry_paused) else { return };
        // Those that were not decided on, or are being deleted, still are there, and keep the Telemetry.
        for id in picture.pipelines.keys() {
            bad.entry(id).or_default();
        }
        let undecided = decided.iter().filter(|decided| decided.verdict.is_none());
        let components = Components {
            pipelines: &bad,
            undecided: &undecided.map(|decided| decided.id.signal).collect(),
            is_being_deleted: is_being_deleted(object),
            problem: telemetry.problem.as_ref(),
        };
        let waits_until = picture.deleting_since.map(|since| since + PATIENCE_WITH_PODS);
        let has_pods = !picture.pods.is_empty() && !overrides.nodes_paused && waits_until.is_none_or(|end| now < end);
        if has_pods {
            self.again = self.again.into_iter().chain(waits_until).min();
        }
        self.decide_on_telemetry(options, object, (&components, has_pods), now);
    }

    /// What the statuses of pipelines say. Returns each of these with its conditions that are bad.
    fn decide_on_pipelines<'a>(
        &mut self,
        picture: &Picture,
        options: &Options,
        decided: &[Decided<'a>],
        layout: &Layout,
        now: SystemTime,
    ) -> BTreeMap<&'a PipelineId, Vec<Condition>> {
        // Where no pipeline takes what clients push, no gateway is missing.
        let belongs = |workload: Workload| workload != layout.gateway || layout.has(workload);
        let health = |workload: Workload| (workload, workload::health(workload, belongs(workload), picture, now));
        let health: BTreeMap<_, _> = Workload::ALL.into_iter().map(health).collect();
        let is_written = !picture.refused.contains_key(&configuration::key(&options.namespace));
        let mut bad = BTreeMap::new();
        for decided in decided {
            let Decided { id, object, needs, verdict: Some(verdict), runs, .. } = decided else { continue };
            let agent = if id.signal == Signal::Logs { layout.log_agent } else { layout.metric_agent };
            let mut conditions = Standings {
                signal: id.signal,
                needs: *needs,
                runs: *runs,
                is_right: verdict.runs,
                is_written,
                finding: verdict.finding.as_ref(),
                stale: &decided.stale,
                gateway: &health[&layout.gateway],
                agent: &health[&agent],
                flow: picture.flow.get(*id),
                delivers: picture.delivering.contains(*id),
                probing: [layout.gateway, agent].map(|part| picture.probing.get(&part).copied().unwrap_or_default()),
                flow_before: condition::reason(object, pipeline::FLOW),
                configuration_before: condition::message(object, pipeline::CONFIGURATION),
            }
            .conditions();
            let mut status = json!({});
            if needs.fluent_bit {
                status["unsupportedMode"] = verdict.unsupported_mode.into();
            }
            let key = ObjectKey::cluster(kind_of(id.signal), id.name.as_str());
            status["conditions"] = condition::written(object, &conditions, &pipeline::KINDS, now);
            self.say(key, object, &conditions, &status);
            // Of a thousand pipelines that are well nothing has to be kept.
            conditions.retain(telemetry::is_bad);
            conditions.shrink_to_fit();
            bad.insert(*id, conditions);
        }
        bad
    }

    fn decide_on_telemetry(
        &mut self,
        options: &Options,
        object: &Value,
        (components, has_pods): (&Components<'_>, bool),
        now: SystemTime,
    ) {
        let is_being_deleted = components.is_being_deleted;
        let key = ObjectKey::cluster(kinds::TELEMETRY, name(object)).within(options.namespace.as_str());
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_kept = finalizers.iter().any(|finalizer| finalizer == names::FINALIZER);
        // The rights of the pods are the cluster's, so they do not go with it: they are removed after the last pod.
        let must_stay = !components.pipelines.is_empty() || has_pods;
        if is_being_deleted && !must_stay && is_kept {
            let others = finalizers.into_iter().filter(|finalizer| finalizer != names::FINALIZER);
            self.finalizers = Some((key, others.collect()));
            return;
        }
        if !is_being_deleted && !is_kept {
            let all = finalizers.into_iter().chain([names::FINALIZER.into()]);
            self.finalizers = Some((key.clone(), all.collect()));
        }
        let conditions = components.conditions();
        let written = condition::written(object, &conditions, &telemetry::KINDS, now);
        let endpoints = if self.is_idle { Value::Null } else { telemetry::endpoints(&options.namespace) };
        let state = telemetry::state(&written, is_being_deleted);
        let status = json!({ "state": state, "endpoints": endpoints, "conditions": written });
        self.say(key, object, &conditions, &status);
    }

    /// Notes a status if the object has another one.
    fn say(&mut self, key: ObjectKey, object: &Value, conditions: &[Condition], status: &Value) {
        let is_there = |(field, value): (&String, &Value)| {
            let found = object.pointer("/status").and_then(|status| status.get(field)).unwrap_or(&Value::Null);
            found == value
        };
        if status.as_object().is_some_and(|fields| fields.iter().all(is_there)) {
            return;
        }
        self.statuses.push(Status::new(key, object, conditions, status));
    }
}

/// How many replicas there have to be if there are others. Their number is no part of a manifest, so that an autoscaler
/// may have it when there is one. Those that only deliver what they have stay as many as they are.
fn replicas(picture: &Picture, options: &Options, layout: &Layout) -> Option<(ObjectKey, u32)> {
    let wanted = options.scale.gateway.as_ref().filter(|replicas| replicas.autoscaling.is_none())?;
    let (gateway, _) = layout.workloads.get_key_value(&layout.gateway)?;
    let status = picture.workloads.get(gateway)?;
    let key = manifests::key_of(*gateway, &options.namespace);
    (status.desired != i64::from(wanted.count)).then_some((key, wanted.count))
}

/// What nodes get that is no document.
fn settings(overrides: &Overrides) -> Value {
    let mut settings = json!({});
    if let Some(level) = &overrides.log_level {
        settings["logLevel"] = level.as_str().into();
    }
    if overrides.collect_agent_logs {
        settings["collectAgentLogs"] = true.into();
    }
    settings
}
