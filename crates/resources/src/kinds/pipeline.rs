//! A pipeline of any kind: its document once it is read, and its part of the plan.
//!
//! The kinds differ in the fields of their `spec`, which `trace`, `metric` and `log` read; everything else is here.

mod backlog;
mod change;
mod fluent_bit;
mod input;
mod log;
mod metric;
mod removed;
mod rules;
mod selector;
mod static_targets;
mod trace;

use weir_plan::{Backlog, Input, Multiline, PipelineId, Processing, PrometheusInput, ServiceEnrichment, Signal};

use crate::diagnostic::{Diagnostic, Findings, Place, Severity};
use crate::document::{Fields, Node};
use crate::kinds::multiline;
use crate::kinds::object::{self, Metadata};
use crate::kinds::output::{self, OtlpOutput, tls};
use crate::kinds::reference::SecretKeyRef;
use crate::kinds::value::{Resolver, Value};
use crate::kinds::{KINDS, Role};

pub(crate) use backlog::OVERFLOWS;
pub use change::LogOutputs;
use fluent_bit::FluentBit;
pub(crate) use fluent_bit::{COMPRESSIONS, FORMATS};
pub(crate) use metric::TEMPORALITIES;
use removed::Removed;

/// The annotation about noise that telemetry causes in a service mesh.
const ISTIO_NOISE_FILTER: &str = "weir.dev/istio-noise-filter";

/// Whether such noise is left out.
pub(crate) const NOISE_FILTER: [(&str, bool); 2] = [("enabled", true), ("disabled", false)];

/// Whether targets are asked for native histograms.
pub(crate) const NATIVE_HISTOGRAMS: [(&str, bool); 2] = [("true", true), ("false", false)];

const NO_NOISE: &str = "the annotation has no effect: of a MetricPipeline's inputs, only input.istio has such noise";

const NO_SCRAPES: &str = "the annotation has no effect: only a MetricPipeline with input.prometheus.enabled scrapes";

/// A checked document.
pub(crate) struct Pipeline {
    pub(crate) signal: Signal,
    pub(crate) metadata: Metadata,
    /// Nothing when it was reported.
    spec: Option<Spec>,
    /// Nothing when it was reported.
    backlog: Option<Backlog>,
    /// The authorities of the token server: the pipeline API has no field for them.
    oauth2_ca: Option<SecretKeyRef>,
}

/// What the `spec` of a pipeline says. References are not followed yet.
pub(crate) struct Spec {
    pub(crate) input: Input,
    pub(crate) processing: Processing,
    pub(crate) output: Output,
    /// Where the output stands.
    pub(crate) output_place: Place,
    /// What rules ask for that enrichment has removed by then, and where.
    pub(crate) asked_in_vain: Vec<(Removed, Place)>,
}

/// Where a pipeline delivers to.
pub(crate) enum Output {
    /// An OTLP backend.
    Otlp(Box<OtlpOutput>),
    /// What Fluent Bit does in the Kyma Telemetry module.
    FluentBit(Box<FluentBit>),
}

/// What our annotations on a pipeline say; nothing where it was reported.
#[derive(Default)]
struct Annotations {
    backlog: Option<Backlog>,
    /// Whether noise is left out, and where that stands if somebody says so.
    drop_istio_noise: Option<bool>,
    noise_filter: Option<Place>,
    oauth2_ca: Option<SecretKeyRef>,
    multiline: Multiline,
    /// What to scrape, and where that stands.
    static_targets: Option<(Vec<String>, Place)>,
    /// Whether to ask for native histograms, and where that stands.
    native_histograms: Option<(bool, Place)>,
}

impl Pipeline {
    /// Reads a document. Nothing comes back only for one without a valid name, which is reported.
    pub(crate) fn decode(mut document: Fields<'_>, signal: Signal) -> Option<Self> {
        let mut annotations = Annotations::default();
        let metadata = object::metadata(&mut document, |found| annotations = decode_annotations(found, signal));
        let name = metadata.as_ref().map_or("", |metadata| &metadata.name.value);
        let mut spec = document.required("spec").and_then(|spec| match signal {
            Signal::Traces => trace::decode(&spec),
            Signal::Metrics => metric::decode(&spec),
            Signal::Logs => log::decode(&spec, name),
        });
        let findings = document.findings();
        document.finish();
        if let Some(spec) = &mut spec {
            spec.input.drop_istio_noise = annotations.drop_istio_noise.unwrap_or_default();
            spec.input.container_logs.iter_mut().for_each(|logs| logs.multiline = annotations.multiline);
        }
        let Annotations { backlog, oauth2_ca, static_targets, native_histograms, noise_filter, .. } = annotations;
        if let (Signal::Metrics, Some(place), Some(spec)) = (signal, noise_filter, &spec)
            && spec.input.istio.is_none()
        {
            findings.push(Diagnostic::warning(&place, NO_NOISE, "input.istio.enabled: true, or no annotation"));
        }
        if let (Some((targets, place)), Some(spec)) = (static_targets, &mut spec) {
            set(spec, &place, findings, |prometheus| prometheus.static_targets = targets);
        }
        if let (Some((is_wanted, place)), Some(spec)) = (native_histograms, &mut spec) {
            set(spec, &place, findings, |prometheus| prometheus.native_histograms = is_wanted);
        }
        Some(Self { signal, metadata: metadata?, spec, backlog, oauth2_ca })
    }

    /// The name of its kind.
    pub(crate) fn kind(&self) -> &'static str {
        let kind = KINDS.iter().find(|kind| kind.role == Role::Pipeline(self.signal));
        kind.map_or("", |kind| kind.name)
    }

    pub(crate) fn id(&self) -> PipelineId {
        PipelineId { signal: self.signal, name: self.metadata.name.value.clone() }
    }

    /// Whether its output is OTLP, and where that stands; nothing when it was reported.
    pub(crate) fn output(&self) -> Option<(bool, &Place)> {
        let spec = self.spec.as_ref()?;
        Some((matches!(spec.output, Output::Otlp(_)), &spec.output_place))
    }

    /// Warns of rules that ask for what enrichment removes before, in this mode.
    pub(crate) fn warn_of_removed(&self, mode: ServiceEnrichment, findings: &Findings) {
        let asked = self.spec.iter().flat_map(|spec| &spec.asked_in_vain);
        let removed = asked.filter(|(removed, _)| removed.is_removed(mode));
        findings.extend(removed.map(|(removed, place)| removed.warning(place)));
    }

    /// Follows references. `None` has been reported.
    pub(crate) fn compile(&self, resolver: Resolver<'_>) -> Option<weir_plan::Pipeline> {
        let Spec { input, processing, output, .. } = self.spec.as_ref()?;
        let (mut output, sections, unsupported_mode) = match output {
            Output::Otlp(output) => {
                (output::compile(output, &format!("/v1/{}", self.signal.name()), resolver)?, Vec::new(), false)
            }
            Output::FluentBit(fluent_bit) => {
                let (output, sections) = fluent_bit.compile(resolver)?;
                (output, sections, fluent_bit.is_unsupported_mode())
            }
        };
        self.trust_token_server(&mut output, resolver);
        Some(weir_plan::Pipeline {
            id: self.id(),
            input: input.clone(),
            processing: Processing { sections, ..processing.clone() },
            output,
            backlog: self.backlog?,
            unsupported_mode,
        })
    }

    /// Adds the authorities of the token server to an output.
    fn trust_token_server(&self, output: &mut weir_plan::Output, resolver: Resolver<'_>) {
        let Some(reference) = &self.oauth2_ca else { return };
        let ca_pem = tls::ca(&Value::Reference(reference.clone()), resolver);
        let (without_effect, expected) = match &mut output.oauth2 {
            Some(oauth2) if oauth2.token_url.starts_with("https:") => {
                oauth2.ca_pem = ca_pem;
                return;
            }
            Some(_) => ("the scheme of tokenURL is http://", "https://, or no annotation"),
            None => ("the output has no authentication.oauth2", "authentication.oauth2, or no annotation"),
        };
        let message = format!("the annotation has no effect: {without_effect}");
        resolver.findings.push(Diagnostic::warning(&reference.place, message, expected));
    }
}

/// Sets what an annotation says of pages that are scraped.
fn set(spec: &mut Spec, place: &Place, findings: &Findings, set: impl FnOnce(&mut PrometheusInput)) {
    match &mut spec.input.prometheus {
        Some(prometheus) => set(prometheus),
        None => findings.push(Diagnostic::warning(place, NO_SCRAPES, "such a pipeline, or no annotation")),
    }
}

fn decode_annotations(annotations: &mut Fields<'_>, signal: Signal) -> Annotations {
    let drop_istio_noise = annotations.choice(ISTIO_NOISE_FILTER, &NOISE_FILTER);
    let noise_filter = annotations.optional(ISTIO_NOISE_FILTER).filter(|_| drop_istio_noise.is_some());
    let noise_filter = noise_filter.map(|node| node.place());
    let oauth2_ca = annotations.optional("weir.dev/oauth2-ca").and_then(|node| decode_reference(&node));
    let multiline = annotations.optional(multiline::ANNOTATION);
    let multiline = multiline.and_then(|node| decode_multiline(&node, signal)).unwrap_or_default();
    let static_targets = annotations.optional("weir.dev/static-targets");
    let static_targets = static_targets.and_then(|node| Some((static_targets::decode(&node)?, node.place())));
    let native_histograms = annotations.optional("weir.dev/native-histograms");
    let native_histograms = native_histograms.and_then(|node| Some((node.choice(&NATIVE_HISTOGRAMS)?, node.place())));
    let backlog = backlog::decode(annotations);
    Annotations { backlog, drop_istio_noise, noise_filter, oauth2_ca, multiline, static_targets, native_histograms }
}

/// A key of a Secret as a text.
fn decode_reference(node: &Node<'_>) -> Option<SecretKeyRef> {
    let text = node.string()?;
    if let [namespace, name, key] = text.value.split('/').collect::<Vec<_>>()[..]
        && ![namespace, name, key].contains(&"")
    {
        let [namespace, name, key] = [namespace, name, key].map(str::to_owned);
        return Some(SecretKeyRef { namespace, name, key, place: text.place });
    }
    let message = format!("{} does not name a key of a Secret", text.place.shown(&text.value));
    let expected = "NAMESPACE/NAME/KEY, for example default/backend/ca.crt";
    node.findings().push(Diagnostic::error(&text.place, message).value(&text.value).expected(expected));
    None
}

fn decode_multiline(node: &Node<'_>, signal: Signal) -> Option<Multiline> {
    let multiline = multiline::decode(node, Severity::Error)?;
    if signal != Signal::Logs {
        let message = "the annotation has no effect: only a LogPipeline takes what containers print";
        node.findings().push(Diagnostic::warning(&node.place(), message, "a LogPipeline, or no annotation"));
    }
    Some(multiline)
}
