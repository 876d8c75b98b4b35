//! Loading: files to documents, documents to kinds, kinds to a plan.

mod files;
mod loader;

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::Value;
use weir_plan::{ClusterFacts, ClusterObject, ClusterState, PipelineId, Plan};

use crate::diagnostic::{Diagnostic, Findings, Report, Severity, sorted};
use crate::document;
use crate::kinds::LogOutputs;
use loader::Loader;

pub use files::{Files, MAX_BYTES, Source, Stamp, stamp};

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
    /// Facts about the cluster.
    pub cluster: ClusterFacts,
    /// What metrics tell of the cluster's objects, if a pipeline wants them, and of the status of resources.
    pub state: ClusterState,
    /// What deserves attention, by file, line and column.
    pub warnings: Vec<Diagnostic>,
    /// What the next configuration must not change.
    pub log_outputs: LogOutputs,
    /// The name of the source that each pipeline is in.
    pub sources: BTreeMap<PipelineId, String>,
    /// The warning that there is nothing to run, if it is among the warnings.
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

/// What a configuration is judged with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The time for certificates.
    pub now: SystemTime,
    /// What becomes of objects that mean nothing here.
    pub foreign: Foreign,
    /// The address of the API server. It names a cluster to which nobody gives another name.
    pub api_server: Option<String>,
}

impl Options {
    /// Outside of a cluster, at a time.
    pub fn at(now: SystemTime) -> Self {
        Self { now, foreign: Foreign::Skip, api_server: None }
    }
}

impl Files {
    /// Compiles a configuration to a plan.
    ///
    /// # Errors
    /// Everything that is wrong, in one report: files that cannot be read, syntax, unknown fields, types, rules,
    /// references, certificates. What is missing may be in a file that cannot be read, and is not reported then.
    pub fn load(&self, options: &Options) -> Result<Loaded, Report> {
        let findings = Findings::default();
        findings.extend(self.unreadable.iter().cloned());
        compile(&self.sources, options, !self.unreadable.is_empty(), findings)
    }

    /// The documents of each file as JSON. Of numbers, those that JSON can write stay numbers; others become text.
    ///
    /// # Errors
    /// All files that cannot be read, and all syntax errors of the others.
    pub fn documents(&self) -> Result<Vec<(&Source, Vec<Value>)>, Report> {
        let findings = Findings::default();
        findings.extend(self.unreadable.iter().cloned());
        let read = |source: &Source| document::json(&source.text, &source.name.as_str().into(), &findings);
        let documents = self.sources.iter().map(|source| (source, read(source))).collect();
        if findings.has_errors() { Err(Report { diagnostics: findings.into_sorted() }) } else { Ok(documents) }
    }
}

/// Compiles texts to a plan, as [`Files::load`] does.
///
/// # Errors
/// Everything that is wrong, in one report.
pub fn load(sources: &[Source], options: &Options) -> Result<Loaded, Report> {
    compile(sources, options, false, Findings::default())
}

/// What is known of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Facts about the cluster and its pods.
    pub facts: ClusterFacts,
    /// The state of objects, whether or not a pipeline wants it.
    pub objects: Vec<ClusterObject>,
    /// What is wrong with objects. That keeps nothing else from being known.
    pub findings: Vec<Diagnostic>,
}

/// Reads objects of a cluster, for whoever watches one. Nothing else may be in these texts.
pub fn observe(sources: &[Source]) -> Observed {
    let (findings, options) = (Findings::default(), Options::at(SystemTime::UNIX_EPOCH));
    let (facts, objects) = Loader::new(&findings, &options, true).observe(sources);
    Observed { facts, objects, findings: findings.into_sorted() }
}

/// The errors of a text on its own. Errors about Secrets that it refers to and does not define are left out.
pub fn errors(source: &Source, options: &Options) -> Vec<Diagnostic> {
    findings(source, options).into_iter().filter(|finding| finding.severity == Severity::Error).collect()
}

/// All that there is to say of a text on its own, except of Secrets that it refers to and does not define.
pub fn findings(source: &Source, options: &Options) -> Vec<Diagnostic> {
    match compile(std::slice::from_ref(source), options, true, Findings::default()) {
        Ok(loaded) => loaded.warnings,
        Err(report) => report.diagnostics,
    }
}

/// `partial`: there is more that is not given.
fn compile(sources: &[Source], options: &Options, partial: bool, findings: Findings) -> Result<Loaded, Report> {
    let mut loaded = Loader::new(&findings, options, partial).load(sources);
    let failed = findings.has_errors();
    let diagnostics = findings.into_sorted();
    if failed {
        return Err(Report { diagnostics });
    }
    loaded.warnings = diagnostics;
    Ok(loaded)
}
