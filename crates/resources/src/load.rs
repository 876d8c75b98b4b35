//! From texts to a plan: which document is of which kind, and what must be true of all of them together.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::SystemTime;

use weir_plan::{ClusterFacts, Enrichment, PipelineId, Plan, Signal};

use crate::change::LogOutputs;
use crate::cluster::{self, Objects};
use crate::diagnostic::{Diagnostic, Findings, Place, Reason, Report, Severity, quoted, sorted};
use crate::kind;
use crate::node::{Fields, Located, Node};
use crate::pipeline::Pipeline;
use crate::secret::Secrets;
use crate::source::Source;
use crate::suggest;
use crate::telemetry::{self, Telemetry};
use crate::value::Resolver;
use crate::yaml;

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

/// Version of an API a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Deprecated.
    V1Alpha1,
    /// Current.
    V1Beta1,
}

impl Version {
    /// `v1alpha1` or `v1beta1`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// What becomes of objects of kinds that mean nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// They are skipped, with one warning for each file.
    Skip,
    /// Each is an error.
    Refuse,
}

/// A configuration without mistakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What to run.
    pub plan: Plan,
    /// What is known of the cluster.
    pub cluster: ClusterFacts,
    /// What deserves attention, by file, line and column.
    pub warnings: Vec<Diagnostic>,
    /// What the next configuration must not change.
    pub log_outputs: LogOutputs,
    /// Of the warnings, the one that says that there is nothing to run.
    idle: Option<Diagnostic>,
}

impl Loaded {
    /// For whoever wants to run it: the same with at least one pipeline.
    ///
    /// # Errors
    /// When there is none.
    pub fn runnable(self) -> Result<Self, Report> {
        let Some(idle) = self.idle else { return Ok(self) };
        let others = self.warnings.into_iter().filter(|warning| *warning != idle);
        let mut error = idle.clone();
        error.severity = Severity::Error;
        Err(Report { diagnostics: sorted(others.chain([error]).collect()) })
    }
}

/// Compiles configuration texts to a plan. Certificates are judged as of `now`.
///
/// # Errors
/// Everything that is wrong, in one report: syntax, unknown fields, types, rules, references, certificates.
pub fn load(sources: &[Source], now: SystemTime) -> Result<Loaded, Report> {
    load_with(sources, now, Foreign::Skip)
}

/// The same, with a say in what becomes of objects that mean nothing here.
///
/// # Errors
/// As [`load`].
pub fn load_with(sources: &[Source], now: SystemTime, foreign: Foreign) -> Result<Loaded, Report> {
    let findings = Findings::default();
    let mut loaded = Loader::new(&findings, foreign).load(sources, now);
    let failed = findings.has_errors();
    let diagnostics = findings.into_sorted();
    if failed {
        return Err(Report { diagnostics });
    }
    loaded.warnings = diagnostics;
    Ok(loaded)
}

/// The errors of a text whatever stands in others: not those about Secrets that it refers to and does not define.
pub fn errors(source: &Source, now: SystemTime) -> Vec<Diagnostic> {
    let findings = Findings::default();
    let Loaded { idle, .. } = Loader::new(&findings, Foreign::Skip).load(std::slice::from_ref(source), now);
    let elsewhere = |finding: &Diagnostic| {
        finding.reason == Some(Reason::ReferencedSecretMissing) || idle.as_ref() == Some(finding)
    };
    let found = findings.into_sorted().into_iter();
    found.filter(|finding| finding.severity == Severity::Error && !elsewhere(finding)).collect()
}

struct Loader<'a> {
    findings: &'a Findings,
    secrets: Secrets,
    pipelines: Vec<Pipeline>,
    telemetry: Option<Telemetry>,
    objects: Objects,
    foreign: Foreign,
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
    fn new(findings: &'a Findings, foreign: Foreign) -> Self {
        let (secrets, objects, skipped) = (Secrets::default(), Objects::default(), Skipped::default());
        let (pipelines, telemetry) = (Vec::new(), None);
        Self { findings, secrets, pipelines, telemetry, objects, foreign, skipped, found: false }
    }

    /// All but what deserves attention.
    fn load(mut self, sources: &[Source], now: SystemTime) -> Loaded {
        for source in sources {
            self.read(source);
        }
        self.check_names();
        let pipelines = self.compile(now);
        let idle = (pipelines.is_empty() && !self.findings.has_errors()).then(|| self.idle(sources));
        self.findings.extend(idle.clone());
        let log_outputs = self.log_outputs();
        let cluster = self.objects.compile();
        let (service, spec) = self.telemetry.map(|Telemetry { service, spec, .. }| (service, spec)).unwrap_or_default();
        let telemetry::Spec { enrichments, intervals } = spec;
        let telemetry::Enrichments { cluster_name, pod_labels } = enrichments;
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
            self.findings.push(Diagnostic::syntax(&file, error));
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
        if api_version.and_then(Node::text).is_some_and(|version| kind::is_foreign(version, &name)) {
            match self.foreign {
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
        let known = kind::known(lists);
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

    fn compile(&self, now: SystemTime) -> Vec<weir_plan::Pipeline> {
        let service = self.telemetry.as_ref().map(|telemetry| telemetry.service).unwrap_or_default();
        let resolver = Resolver { secrets: &self.secrets, now, findings: self.findings };
        let compile = |pipeline: &Pipeline| {
            let mark = self.findings.mark();
            let compiled = pipeline.compile(resolver);
            pipeline.warn_of_removed(service, self.findings);
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
