//! From texts to a plan: which document is of which kind, and what must be true of all of them together.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use weir_plan::Plan;

use crate::diagnostic::{Diagnostic, Excerpt, Findings, Place, Report, quoted};
use crate::node::{Fields, Located, Node};
use crate::secret::Secrets;
use crate::source::Source;
use crate::suggest;
use crate::trace_pipeline::TracePipeline;
use crate::value::Resolver;
use crate::yaml;

/// Kinds that are read.
const KINDS: &[&str] = &["TracePipeline", "Secret", "List"];

/// Kinds that may be items of a list. A list within a list is nothing the API server prints.
const ITEM_KINDS: &[&str] = &["TracePipeline", "Secret"];

/// Kinds of the same API groups that will be read one day.
const KINDS_TO_COME: &[&str] = &["MetricPipeline", "LogPipeline", "Telemetry"];

const PIPELINE_VERSIONS: &[(&str, Version)] = &[
    ("telemetry.kyma-project.io/v1beta1", Version::V1Beta1),
    ("telemetry.kyma-project.io/v1alpha1", Version::V1Alpha1),
];

/// Version of the pipeline API a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// Deprecated.
    V1Alpha1,
    /// Current.
    V1Beta1,
}

/// A configuration that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What to run; at least one pipeline.
    pub plan: Plan,
    /// What deserves attention, by file, line and column.
    pub warnings: Vec<Diagnostic>,
}

/// Compiles configuration texts to a plan.
///
/// # Errors
/// Everything that is wrong, in one report: syntax, unknown fields, types, rules, references.
pub fn load(sources: &[Source]) -> Result<Loaded, Report> {
    let findings = Findings::default();
    let plan = Loader { findings: &findings, secrets: Secrets::default(), traces: Vec::new() }.load(sources);
    let failed = findings.has_errors();
    let diagnostics = findings.into_sorted();
    if failed { Err(Report { diagnostics }) } else { Ok(Loaded { plan, warnings: diagnostics }) }
}

struct Loader<'a> {
    findings: &'a Findings,
    secrets: Secrets,
    traces: Vec<TracePipeline>,
}

impl Loader<'_> {
    fn load(mut self, sources: &[Source]) -> Plan {
        for source in sources {
            let documents = yaml::parse(&source.text);
            let file: Rc<str> = source.name.as_str().into();
            for yaml::SyntaxError { at, message } in documents.errors {
                let yaml::At { line, column, width, .. } = at;
                let field = String::new();
                let place = Place { file: file.clone(), line, column, width, field, excerpt: Excerpt::Key };
                self.findings.push(Diagnostic::error(&place, message));
            }
            for root in &documents.roots {
                self.document(&Node::root(file.clone(), root, self.findings), KINDS);
            }
        }
        self.check_names();
        let resolver = Resolver { secrets: &self.secrets, findings: self.findings };
        let pipelines: Vec<_> = self.traces.iter().filter_map(|pipeline| pipeline.compile(resolver)).collect();
        if pipelines.is_empty() && !self.findings.has_errors() {
            let file = sources.first().map_or("configuration", |source| source.name.as_str());
            let place = Place::start_of(file);
            self.findings
                .push(Diagnostic::error(&place, "no pipeline is defined").expected("at least one TracePipeline"));
        }
        Plan { pipelines, ..Plan::default() }
    }

    /// Reads one document of one of `kinds`.
    fn document(&mut self, node: &Node<'_>, kinds: &[&str]) {
        let Some(mut fields) = node.fields() else { return };
        let api_version = fields.required("apiVersion");
        let Some(kind) = fields.required("kind") else { return };
        let Some(name) = kind.string().map(|name| name.value) else { return };
        match name.as_str() {
            _ if !kinds.contains(&name.as_str()) => self.refuse(&kind, &name, kinds),
            "TracePipeline" => {
                let Some(version) = pipeline_version(api_version.as_ref(), &name) else { return };
                self.traces.extend(TracePipeline::decode(fields, version));
            }
            "Secret" if is_core(api_version.as_ref(), &name) => self.secrets.add(fields),
            "List" if is_core(api_version.as_ref(), &name) => self.list(fields),
            _ => {}
        }
    }

    fn list(&mut self, mut fields: Fields<'_>) {
        let items = fields.required("items");
        fields.ignore(&["metadata"]);
        fields.finish();
        for item in items.map(|items| items.list()).unwrap_or_default() {
            self.document(&item, ITEM_KINDS);
        }
    }

    fn refuse(&self, kind: &Node<'_>, name: &str, kinds: &[&str]) {
        let (message, expected) = if KINDS_TO_COME.contains(&name) {
            (format!("{name} is not yet supported"), suggest::one_of(kinds, ""))
        } else {
            (format!("{} is not a supported kind", kind.place().shown(name)), suggest::one_of(kinds, name))
        };
        self.findings.push(kind.error(message).value(name).expected(expected));
    }

    /// Names are unique per kind.
    fn check_names(&self) {
        let mut seen = HashMap::new();
        for pipeline in &self.traces {
            let Located { value: name, place } = &pipeline.metadata.name;
            if let Some(namespace) = &pipeline.metadata.namespace {
                let message = "the namespace has no effect: TracePipeline is cluster-scoped";
                self.findings.push(Diagnostic::warning(&namespace.place, message).value(&namespace.value));
            }
            match seen.entry(name.as_str()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(place);
                }
                Entry::Occupied(first) => {
                    let message =
                        format!("TracePipeline {} is defined twice, first at {}", quoted(name), first.get().position());
                    self.findings.push(Diagnostic::error(place, message).value(name).expected("a unique name"));
                }
            }
        }
    }
}

/// The version a pipeline is written in; reports an unknown one, and a deprecated one as a warning.
fn pipeline_version(api_version: Option<&Node<'_>>, kind: &str) -> Option<Version> {
    let node = api_version?;
    let version = node.choice(&format!("version of {kind}"), PIPELINE_VERSIONS)?;
    if version == Version::V1Alpha1 {
        let message = "telemetry.kyma-project.io/v1alpha1 is deprecated";
        let diagnostic = Diagnostic::warning(&node.place(), message).expected("telemetry.kyma-project.io/v1beta1");
        node.findings().push(diagnostic);
    }
    Some(version)
}

/// Whether a document is of the core API; reports it when it is not.
fn is_core(api_version: Option<&Node<'_>>, kind: &str) -> bool {
    api_version.and_then(|node| node.choice(&format!("version of {kind}"), &[("v1", ())])).is_some()
}
