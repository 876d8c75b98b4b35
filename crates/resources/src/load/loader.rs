//! The documents of all files together: each is of a kind, and some things must be true of all of them.

use std::collections::HashMap;
use std::rc::Rc;

use weir_plan::{Enrichment, PipelineId, Plan, Signal};

use super::{Foreign, Loaded, Options, Source};
use crate::diagnostic::{Diagnostic, Findings, Place, quoted};
use crate::document::{Fields, Located, Node, suggest, yaml};
use crate::kinds::cluster::{self, Objects};
use crate::kinds::pipeline::Pipeline;
use crate::kinds::secret::Secrets;
use crate::kinds::telemetry::{self, Telemetry};
use crate::kinds::value::Resolver;
use crate::kinds::{self, LogOutputs, Version};

/// Kinds of pipelines.
const PIPELINES: &[(&str, Signal)] =
    &[("TracePipeline", Signal::Traces), ("MetricPipeline", Signal::Metrics), ("LogPipeline", Signal::Logs)];

fn kind_of(signal: Signal) -> &'static str {
    PIPELINES.iter().find(|(_, of)| *of == signal).map_or("", |(kind, _)| kind)
}

const PIPELINE_VERSIONS: &[(&str, Version)] = &[
    ("telemetry.kyma-project.io/v1beta1", Version::V1Beta1),
    ("telemetry.kyma-project.io/v1alpha1", Version::V1Alpha1),
];

const TELEMETRY_VERSIONS: &[(&str, Version)] =
    &[("operator.kyma-project.io/v1beta1", Version::V1Beta1), ("operator.kyma-project.io/v1alpha1", Version::V1Alpha1)];

pub(super) struct Loader<'a> {
    findings: &'a Findings,
    options: &'a Options,
    /// There is more that is not given: what is missing here may be there.
    partial: bool,
    secrets: Secrets,
    pipelines: Vec<Pipeline>,
    telemetry: Option<Telemetry>,
    objects: Objects,
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
        let (pipelines, telemetry) = (Vec::new(), None);
        Self { findings, options, partial, secrets, pipelines, telemetry, objects, skipped, found: false }
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
        let cluster = self.objects.compile();
        let (service, spec) = self.telemetry.map(|Telemetry { service, spec, .. }| (service, spec)).unwrap_or_default();
        let telemetry::Spec { enrichments, intervals } = spec;
        let telemetry::Enrichments { cluster_name, pod_labels } = enrichments;
        let cluster_name = cluster_name.or_else(|| self.options.api_server.clone());
        let plan = Plan { pipelines, enrichment: Enrichment { service, cluster_name, pod_labels }, intervals };
        Loaded { plan, cluster, warnings: Vec::new(), log_outputs, idle }
    }

    /// There is nothing to run: a mistake only if there is nothing at all.
    fn idle(&self, sources: &[Source]) -> Diagnostic {
        let file = sources.first().map_or("configuration", |source| source.name.as_str());
        let message = match self.pipelines.as_slice() {
            [] => "no pipeline is defined",
            _ => "no pipeline is defined but those that are not active yet",
        };
        let note = if self.found { Diagnostic::warning } else { Diagnostic::error };
        let expected = "at least one TracePipeline, MetricPipeline or LogPipeline";
        note(&Place::start_of(file), message).expected(expected)
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

    /// Reads one document, or an item of a list, which may be no list itself: the API server prints no such thing.
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
        if let Some((_, signal)) = PIPELINES.iter().find(|(kind, _)| *kind == name) {
            if let Some(version) = version(api_version, &name, PIPELINE_VERSIONS) {
                self.pipeline(fields, *signal, version);
            }
            return;
        }
        if let Some((_, group)) = cluster::KINDS.iter().find(|(kind, _)| *kind == name) {
            if is_version(api_version, &name, group) {
                self.objects.add(&name, node);
            }
            return;
        }
        match name.as_str() {
            "Telemetry" if version(api_version, &name, TELEMETRY_VERSIONS).is_some() => self.telemetry(fields),
            "Secret" if is_version(api_version, &name, "v1") => self.secrets.add(fields),
            "List" if lists && is_version(api_version, &name, "v1") => self.list(fields),
            "Telemetry" | "Secret" => {}
            "List" if lists => {}
            _ => self.refuse(&kind, &name, lists),
        }
    }

    fn pipeline(&mut self, fields: Fields<'_>, signal: Signal, version: Version) {
        let mark = self.findings.mark();
        let Some(pipeline) = Pipeline::decode(fields, signal, version) else { return };
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
        fields.ignore(&["metadata"]);
        fields.finish();
        for item in items.map(|items| items.list()).unwrap_or_default() {
            self.document(&item, false);
        }
    }

    fn refuse(&self, kind: &Node<'_>, name: &str, lists: bool) {
        let known = kinds::known(lists);
        let message = format!("{} is not a supported kind", kind.place().shown(name));
        self.findings.push(kind.error(message).value(name).expected(suggest::one_of(&known, name)));
    }

    /// Names are unique per kind.
    fn check_names(&self) {
        let mut seen: HashMap<PipelineId, &Place> = HashMap::new();
        for pipeline in &self.pipelines {
            let id = pipeline.id();
            let kind = kind_of(id.signal);
            let mark = self.findings.mark();
            let Located { value: name, place } = &pipeline.metadata.name;
            if let Some(namespace) = &pipeline.metadata.namespace {
                let message = format!("the namespace has no effect: {kind} is cluster-scoped");
                self.findings.push(Diagnostic::warning(&namespace.place, message).value(&namespace.value));
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
        let resolver = Resolver { secrets: &self.secrets, now: self.options.now, findings: self.findings };
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
        Some(Diagnostic::warning(&first, message))
    }
}

/// The version a document is written in; reports an unknown one, and a deprecated one as a warning.
fn version(api_version: Option<&Node<'_>>, kind: &str, versions: &[(&str, Version)]) -> Option<Version> {
    let node = api_version?;
    let version = node.choice(&format!("version of {kind}"), versions)?;
    if version == Version::V1Alpha1 {
        let group = node.string()?.value;
        let current = group.replace("v1alpha1", "v1beta1");
        let diagnostic = Diagnostic::warning(&node.place(), format!("{group} is deprecated")).expected(current);
        node.findings().push(diagnostic);
    }
    Some(version)
}

/// Whether a document is of the only version its kind has; reports it when it is not.
fn is_version(api_version: Option<&Node<'_>>, kind: &str, version: &str) -> bool {
    api_version.and_then(|node| node.choice(&format!("version of {kind}"), &[(version, ())])).is_some()
}
