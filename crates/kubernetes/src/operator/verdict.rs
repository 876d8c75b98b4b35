//! Whether a pipeline can run: each is compiled alone, so that none can spoil another.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weir_plan::{PipelineId, Signal};
use weir_resources::{Diagnostic, Loaded, Options, Reason, Severity, Source};

use super::object::{is_our_annotation, switch, text};

/// A verdict is as old as this at most: certificates expire without anybody's doing. They say a date, so an hour more or
/// less is no matter.
const LASTS: Duration = Duration::from_secs(3600);

/// Findings that are told in one message.
const MAX_TOLD: usize = 3;

/// What was found out about a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether the nodes get it.
    pub(crate) runs: bool,
    /// What its condition has to say, unless all is well.
    pub(crate) finding: Option<Finding>,
    /// The port of its backend, if it runs and has one.
    pub(crate) port: Option<u16>,
    /// Whether it has text in Fluent Bit's own language.
    pub(crate) unsupported_mode: bool,
}

impl Verdict {
    /// Of a pipeline that does not run.
    pub(crate) fn refused(finding: Finding) -> Self {
        Self { runs: false, finding: Some(finding), port: None, unsupported_mode: false }
    }
}

/// The reason of a condition, and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Finding {
    /// Whether all is well until a day that is told.
    pub(crate) fn is_of_later(&self) -> bool {
        self.reason == Reason::TlsCertificateAboutToExpire.name()
    }
}

/// Which parts of a node a pipeline needs, as its document says, right or wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// What clients push.
    pub(crate) otlp: bool,
    /// What containers print.
    pub(crate) container_logs: bool,
    /// Pages of pods and services.
    pub(crate) scrapes: bool,
    /// Pages of Istio's proxies.
    pub(crate) istio: bool,
    /// Metrics of nodes and workloads.
    pub(crate) runtime: bool,
    /// It sends what Fluent Bit would send.
    pub(crate) fluent_bit: bool,
}

impl Needs {
    pub(crate) fn of(signal: Signal, pipeline: &Value) -> Self {
        let is_on = |input: &str, default| switch(pipeline, &format!("/spec/input/{input}/enabled"), default);
        match signal {
            Signal::Traces => Self { otlp: true, ..Self::default() },
            Signal::Metrics => Self {
                otlp: is_on("otlp", true),
                scrapes: is_on("prometheus", false),
                istio: is_on("istio", false),
                runtime: is_on("runtime", false),
                ..Self::default()
            },
            Signal::Logs => {
                let fluent_bit = pipeline.pointer("/spec/output/otlp").is_none();
                let otlp = !fluent_bit && is_on("otlp", true);
                Self { otlp, container_logs: is_on("runtime", true), fluent_bit, ..Self::default() }
            }
        }
    }

    /// Whether something must be collected for it.
    pub(crate) fn agent(self) -> bool {
        self.container_logs || self.scrapes || self.istio || self.runtime
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            otlp: self.otlp || other.otlp,
            container_logs: self.container_logs || other.container_logs,
            scrapes: self.scrapes || other.scrapes,
            istio: self.istio || other.istio,
            runtime: self.runtime || other.runtime,
            fluent_bit: self.fluent_bit || other.fluent_bit,
        }
    }
}

/// Verdicts that are still true.
#[derive(Default)]
pub(crate) struct Verdicts {
    now: Judged,
    last_good: Judged,
}

/// By what was judged, and when.
type Judged = BTreeMap<PipelineId, ([u8; 32], SystemTime, Verdict)>;

impl Verdicts {
    /// The verdict on documents: a pipeline, and what it needs.
    pub(crate) fn of(&mut self, id: &PipelineId, documents: &[&Value], now: SystemTime) -> Verdict {
        known(&mut self.now, id, documents, now)
    }

    /// The same of a pipeline as it was when it was right, while it is not.
    pub(crate) fn of_last_good(&mut self, id: &PipelineId, documents: &[&Value], now: SystemTime) -> Verdict {
        known(&mut self.last_good, id, documents, now)
    }

    /// Forgets those that are gone.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&PipelineId) -> bool) {
        self.now.retain(|id, _| is_there(id));
        self.last_good.retain(|id, _| is_there(id));
    }

    /// When the first of them is too old.
    pub(crate) fn next(&self) -> Option<SystemTime> {
        self.now.values().map(|(_, judged, _)| *judged + LASTS).min()
    }
}

fn known(all: &mut Judged, id: &PipelineId, documents: &[&Value], now: SystemTime) -> Verdict {
    let text = list(documents);
    let fingerprint: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    if let Some((known, judged, verdict)) = all.get(id)
        && *known == fingerprint
        && now.duration_since(*judged).is_ok_and(|age| age < LASTS)
    {
        return verdict.clone();
    }
    let verdict = judge(text, now);
    all.insert(id.clone(), (fingerprint, now, verdict.clone()));
    verdict
}

/// What is wrong with documents that belong to no pipeline, such as a Telemetry.
pub(crate) fn problem(document: &Value, now: SystemTime) -> Option<Finding> {
    let source = Source { name: SOURCE.to_owned(), text: list(&[document]) };
    let report = weir_resources::load(&[source], &Options::at(now)).err()?;
    finding(&report.diagnostics, Severity::Error)
}

/// Nobody sees it: positions in a text that nobody wrote mean nothing.
const SOURCE: &str = "cluster";

fn list(documents: &[&Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": documents }).to_string()
}

fn judge(text: String, now: SystemTime) -> Verdict {
    let source = Source { name: SOURCE.to_owned(), text };
    match weir_resources::load(&[source], &Options::at(now)) {
        Ok(Loaded { plan, warnings, .. }) => {
            let pipeline = plan.pipelines.first();
            let output = pipeline.map(|pipeline| &pipeline.output);
            Verdict {
                runs: pipeline.is_some(),
                finding: finding(&warnings, Severity::Warning),
                port: output.filter(|output| output.is_remote()).map(|output| output.endpoint.port),
                unsupported_mode: pipeline.is_some_and(|pipeline| pipeline.unsupported_mode),
            }
        }
        Err(report) => {
            let finding = finding(&report.diagnostics, Severity::Error);
            Verdict { runs: false, finding, port: None, unsupported_mode: false }
        }
    }
}

/// How much a reason says of what to do first: a Secret that is missing has no certificate that could be wrong.
fn rank(reason: Option<Reason>) -> u8 {
    match reason {
        Some(Reason::ReferencedSecretMissing) => 0,
        Some(Reason::EndpointInvalid) => 1,
        Some(Reason::TlsConfigurationInvalid) => 2,
        Some(Reason::TlsCertificateExpired) => 3,
        Some(Reason::TlsCertificateAboutToExpire) => 4,
        Some(Reason::OttlSpecInvalid) => 5,
        Some(Reason::RuntimeAdditionalMetricInvalid) => 6,
        None => 7,
    }
}

/// The finding of the first rank; with errors, all have to be told, and of warnings those that have a reason.
fn finding(diagnostics: &[Diagnostic], severity: Severity) -> Option<Finding> {
    let counts =
        |found: &&Diagnostic| found.severity == severity && (severity == Severity::Error || found.reason.is_some());
    let first = diagnostics.iter().filter(counts).min_by_key(|found| rank(found.reason))?;
    let alike = diagnostics.iter().filter(counts).filter(|found| found.reason == first.reason);
    let mut told: Vec<String> = Vec::new();
    for message in alike.map(told_of) {
        if !told.contains(&message) {
            told.push(message);
        }
    }
    let more = told.len().saturating_sub(MAX_TOLD);
    told.truncate(MAX_TOLD);
    let mut message = told.join("; ");
    if more > 0 {
        message = format!("{message}; and {more} more");
    }
    // What the API server would have refused has no reason of its own.
    let reason = first.reason.map_or("ValidationFailed", Reason::name);
    Some(Finding { reason, message })
}

/// OPERATOR-5: messages quote no values. What a condition says of a diagnostic: where it is in the object, and what would be right.
fn told_of(found: &Diagnostic) -> String {
    let mut message = found.message.clone();
    // Where a Secret or a certificate comes from is in the message, and files are nothing to an API server.
    let is_of_secret = found.reason == Some(Reason::ReferencedSecretMissing);
    if !found.expected.is_empty() && !is_of_secret {
        message = format!("{message}; expected {}", found.expected);
    }
    match found.field.strip_prefix("items") {
        _ if found.field.is_empty() || is_of_secret => message,
        // A path begins with its place in the list.
        Some(path) => match path.split_once("].") {
            Some((_, field)) => format!("{field}: {message}"),
            None => message,
        },
        None => format!("{}: {message}", found.field),
    }
}

/// A copy of a document with nothing but what means something to a node.
pub(crate) fn document(object: &Value) -> Value {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    // Other annotations belong to others, and may hold a copy of the whole object.
    let annotations = annotations.into_iter().flatten().filter(|(key, _)| is_our_annotation(key));
    let annotations: serde_json::Map<_, _> = annotations.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut metadata = json!({ "name": text(object, "/metadata/name") });
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    for key in ["generation", "uid"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let mut document = json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata });
    if let Some(spec) = object.get("spec") {
        document["spec"] = spec.clone();
    }
    document
}

/// A Secret with some of its keys.
pub(crate) fn secret<'a>(namespace: &str, name: &str, values: impl Iterator<Item = (&'a String, &'a String)>) -> Value {
    let data: BTreeMap<_, _> = values.collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": namespace },
        "data": data,
    })
}
