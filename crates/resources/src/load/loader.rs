//! The documents of all files together: each has a kind, and some things must be true of all of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use weir_plan::{ClusterFacts, ClusterObject, ClusterState, Enrichment, PipelineId, Plan, ResourceStatus, Signal};

use super::{Foreign, Loaded, Options, Source};
use crate::diagnostic::{Diagnostic, Findings, Place, Severity, quoted};
use crate::document::table::{Api, Version};
use crate::document::{Fields, Located, Node, suggest, yaml};
use crate::kinds::cluster::Objects;
use crate::kinds::pipeline::Pipeline;
use crate::kinds::secret::Secrets;
use crate::kinds::telemetry::{self, Telemetry};
use crate::kinds::value::Resolver;
use crate::kinds::{self, KINDS, Kind, LogOutputs, Role, status};

pub(super) struct Loader<'a> {
    findings: &'a Findings,
    options: &'a Options,
    /// There are more documents than these, so what is missing here may be there.
    partial: bool,
    secrets: Secrets,
    pipelines: Vec<Pipeline>,
    telemetry: Option<Telemetry>,
    objects: Objects,
    statuses: Vec<ResourceStatus>,
    /// Objects of the source being read that mean nothing here.
    skipped: Skipped,
    /// Something was read that means something.
    found: bool,
}

/// Objects that mean nothing here.
#[derive(Default)]
struct Skipped {
    first: Option<Place>,
    count: usize,
    /// Some of their kinds, each once.
    kinds: Vec<String>,
}

/// Kinds that are named in a message.
const MAX_KINDS_SHOWN: usize = 5;

impl<'a> Loader<'a> {
    pub(super) fn new(findings: &'a Findings, options: &'a Options, partial: bool) -> Self {
        let (secrets, objects, skipped) = (Secrets::new(partial), Objects::default(), Skipped::default());
        let (pipelines, telemetry, statuses) = (Vec::new(), None, Vec::new());
        Self { findings, options, partial, secrets, pipelines, telemetry, objects, statuses, skipped, found: false }
    }

    /// All but what deserves attention.
    pub(super) fn load(mut self, sources: &[Source]) -> Loaded {
        for source in sources {
            self.read(source);
        }
        self.check_names();
        let pipelines = self.compile();
        let nothing = pipelines.is_empty() && !self.findings.has_errors() && !self.partial;
        let idle = nothing.then(|| self.idle(sources));
        self.findings.extend(idle.clone());
        let log_outputs = self.log_outputs();
        let source = |pipeline: &Pipeline| (pipeline.id(), pipeline.metadata.name.place.file.to_string());
        let sources = self.pipelines.iter().map(source).collect();
        let (cluster, mut objects) = self.objects.compile();
        if pipelines.iter().all(|pipeline| pipeline.input.runtime.is_none()) {
            objects = Vec::new();
        }
        let state = ClusterState { objects, statuses: self.statuses };
        let (service, spec) = self.telemetry.map(|Telemetry { service, spec, .. }| (service, spec)).unwrap_or_default();
        let telemetry::Spec { enrichments, intervals } = spec;
        let telemetry::Enrichments { cluster_name, pod_labels } = enrichments;
        let cluster_name = cluster_name.or_else(|| self.options.api_server.clone());
        let plan = Plan { pipelines, enrichment: Enrichment { service, cluster_name, pod_labels }, intervals };
        Loaded { plan, cluster, state, warnings: Vec::new(), log_outputs, sources, idle }
    }

    /// What objects of a cluster say.
    pub(super) fn observe(mut self, sources: &[Source]) -> (ClusterFacts, Vec<ClusterObject>) {
        for source in sources {
            self.read(source);
        }
        self.objects.compile()
    }

    /// There is nothing to run: a mistake only if there is nothing at all.
    fn idle(&self, sources: &[Source]) -> Diagnostic {
        let file = sources.first().map_or("configuration", |source| source.name.as_str());
        let severity = if self.found { Severity::Warning } else { Severity::Error };
        let expected = "at least one TracePipeline, MetricPipeline or LogPipeline";
        Diagnostic::new(&Place::start_of(file), severity, "no pipeline is defined", expected)
    }

    fn log_outputs(&self) -> LogOutputs {
        let mut outputs = LogOutputs::default();
        for pipeline in self.pipelines.iter().filter(|pipeline| pipeline.signal == Signal::Logs) {
            let Some((otlp, place)) = pipeline.output() else { continue };
            outputs.add(&pipeline.metadata.name.value, otlp, place);
        }
        outputs
    }

    /// Reads all documents of a source.
    fn read(&mut self, source: &Source) {
        let file: Rc<str> = source.name.as_str().into();
        let errors = yaml::each(&source.text, |root| {
            self.document(&Node::root(file.clone(), &root, self.findings), true);
        });
        for error in errors {
            self.findings.push(error.diagnostic(&file));
        }
        self.findings.extend(std::mem::take(&mut self.skipped).into_warning());
    }

    /// Reads one document, or an item of a list. An item must not be a list itself: the API server prints no such
    /// thing.
    fn document(&mut self, node: &Node<'_>, lists: bool) {
        let Some(mut fields) = node.fields() else { return };
        let api_version = fields.required("apiVersion");
        let Some(kind) = fields.required("kind") else { return };
        let Some(name) = kind.string().map(|name| name.value) else { return };
        let api_version = api_version.as_ref();
        if api_version.and_then(Node::text).is_some_and(|version| kinds::is_foreign(version, &name)) {
            match self.options.foreign {
                Foreign::Skip => self.skipped.add(&kind, &name),
                Foreign::Refuse => self.refuse(&kind, &name, lists),
            }
            return;
        }
        self.found = true;
        let Some(known) = Kind::of(&name).filter(|kind| lists || kind.role != Role::List) else {
            return self.refuse(&kind, &name, lists);
        };
        let Some(api) = api_version.and_then(|node| api(node, known)) else { return };
        let Some(table) = known.fields else { return self.objects.add(&name, node) };
        let Some(fields) = node.of(table, api).fields() else { return };
        self.statuses.extend(status::decode(known, node));
        match known.role {
            Role::Pipeline(signal) => self.pipeline(fields, signal),
            Role::Telemetry => self.telemetry(fields),
            Role::Secret => self.secrets.add(fields),
            Role::List => self.list(fields),
            Role::Cluster => {}
        }
    }

    fn pipeline(&mut self, fields: Fields<'_>, signal: Signal) {
        let mark = self.findings.mark();
        let Some(pipeline) = Pipeline::decode(fields, signal) else { return };
        self.findings.attribute(mark, &pipeline.id());
        self.pipelines.push(pipeline);
    }

    fn telemetry(&mut self, fields: Fields<'_>) {
        let Some(telemetry) = telemetry::decode(fields) else { return };
        let Some(first) = &self.telemetry else {
            self.telemetry = Some(telemetry);
            return;
        };
        let Located { value: name, place } = &telemetry.metadata.name;
        let message =
            format!("Telemetry {} is defined twice, first at {}", quoted(name), first.metadata.name.place.position());
        self.findings.push(Diagnostic::error(place, message).value(name));
    }

    fn list(&mut self, mut fields: Fields<'_>) {
        let items = fields.required("items");
        fields.finish();
        for item in items.map(|items| items.list()).unwrap_or_default() {
            self.document(&item, false);
        }
    }

    fn refuse(&self, kind: &Node<'_>, name: &str, lists: bool) {
        let known =
            KINDS.iter().filter(|kind| lists || kind.role != Role::List).map(|kind| kind.name).collect::<Vec<_>>();
        let message = format!("{} is not a supported kind", kind.place().shown(name));
        self.findings.push(kind.error(message).value(name).expected(suggest::one_of(&known, name)));
    }

    /// Names are unique per kind.
    fn check_names(&self) {
        let mut seen: HashMap<PipelineId, &Place> = HashMap::new();
        for pipeline in &self.pipelines {
            let id = pipeline.id();
            let kind = pipeline.kind();
            let mark = self.findings.mark();
            let Located { value: name, place } = &pipeline.metadata.name;
            if let Some(namespace) = &pipeline.metadata.namespace {
                let message = format!("the namespace has no effect: {kind} is cluster-scoped");
                let warning = Diagnostic::warning(&namespace.place, message, "no namespace");
                self.findings.push(warning.value(&namespace.value));
            }
            if let Some(first) = seen.get(&id) {
                let message = format!("{kind} {} is defined twice, first at {}", quoted(name), first.position());
                self.findings.push(Diagnostic::error(place, message).value(name).expected("a unique name"));
            }
            self.findings.attribute(mark, &id);
            seen.entry(id).or_insert(place);
        }
    }

    fn compile(&self) -> Vec<weir_plan::Pipeline> {
        let service = self.telemetry.as_ref().map(|telemetry| telemetry.service).unwrap_or_default();
        let (secrets, findings, bundles) = (&self.secrets, self.findings, RefCell::default());
        let resolver = Resolver { secrets, now: self.options.now, findings, bundles: &bundles };
        let compile = |pipeline: &Pipeline| {
            let mark = self.findings.mark();
            let compiled = pipeline.compile(resolver);
            if !self.partial {
                pipeline.warn_of_removed(service, self.findings);
            }
            self.findings.attribute(mark, &pipeline.id());
            compiled
        };
        self.pipelines.iter().filter_map(compile).collect()
    }
}

impl Skipped {
    fn add(&mut self, kind: &Node<'_>, name: &str) {
        self.first.get_or_insert_with(|| Place { field: String::new(), ..kind.place() });
        self.count += 1;
        let shown = kind.place().shown(name);
        if !self.kinds.contains(&shown) && self.kinds.len() <= MAX_KINDS_SHOWN {
            self.kinds.push(shown);
        }
    }

    /// One for all of them.
    fn into_warning(mut self) -> Option<Diagnostic> {
        let first = self.first?;
        let more = if self.kinds.len() > MAX_KINDS_SHOWN { ", ..." } else { "" };
        self.kinds.truncate(MAX_KINDS_SHOWN);
        let (objects, kinds) = (if self.count == 1 { "object" } else { "objects" }, self.kinds.join(", "));
        let message = format!("skipped {} {objects} of kinds that mean nothing here: {kinds}{more}", self.count);
        Some(Diagnostic::warning(&first, message, "none of them, though they do no harm"))
    }
}

/// The API a document is written for; reports an unknown version, and a deprecated one as a warning.
fn api(node: &Node<'_>, kind: &Kind) -> Option<Api> {
    let names: Vec<_> = kind.versions.iter().map(|(name, _)| *name).collect();
    let (name, version) = *kind.versions.get(node.one_of(&format!("version of {}", kind.name), &names)?)?;
    if version == Version::V1Alpha1 {
        let current = names.first().copied().unwrap_or_default();
        let diagnostic = Diagnostic::warning(&node.place(), format!("{name} is deprecated"), current);
        node.findings().push(diagnostic);
    }
    Some(Api { group: kind.group(), version })
}
