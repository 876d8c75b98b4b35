//! Which part of a request a pipeline takes, decided by resource before anything is processed for it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use weir_otlp::common::{AnyValue, Message, Resource};
use weir_otlp::field::{request, resource_data};
use weir_otlp::{Signal, count};
use weir_plan::{
    Input, IstioInput, Multiline, OtlpInput, PrometheusInput, RecordShape, RuntimeInput, RuntimeMetrics, Selector,
};

use crate::inlet::InputKind;

/// Compiled from a plan's input.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// Of what clients push.
    otlp: Option<Resources>,
    /// Of what containers print.
    container_logs: Option<ContainerLogs>,
    /// Of what is scraped.
    prometheus: Option<Scraped>,
    /// Of what is scraped from Istio's proxies.
    istio: Option<Scraped>,
    /// Of metrics of nodes and workloads.
    runtime: Option<Runtime>,
    /// Of the status of resources: all of it.
    status: Option<Resources>,
    pub(crate) drop_noise: bool,
}

/// Which resources a pipeline takes from one input.
#[derive(Debug, Clone)]
struct Resources {
    namespaces: Wanted,
    containers: Wanted,
}

#[derive(Debug, Clone)]
struct ContainerLogs {
    resources: Resources,
    shape: RecordShape,
    multiline: Multiline,
}

#[derive(Debug, Clone)]
struct Scraped {
    resources: Resources,
    diagnostics: bool,
    envoy: bool,
}

#[derive(Debug, Clone)]
struct Runtime {
    resources: Resources,
    metrics: RuntimeMetrics,
}

#[derive(Debug, Clone)]
enum Wanted {
    All,
    Only(HashSet<String>),
    Except(HashSet<String>),
}

/// What a pipeline takes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    All,
    Nothing,
    /// Some of its resources.
    Some(Part),
}

/// Resources of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) items: u64,
    /// From the first to the last of them.
    pub(crate) span: Range<usize>,
    /// Bytes of them all: as many as in the span, if nothing else is between them.
    pub(crate) bytes: usize,
}

impl Selection {
    pub(crate) fn new(input: &Input) -> Self {
        let otlp = |input: &OtlpInput| Resources::in_namespaces(&input.namespaces);
        let container_logs = |input: &weir_plan::ContainerLogs| ContainerLogs {
            resources: Resources {
                namespaces: Wanted::new(&input.namespaces),
                containers: Wanted::new(&input.containers),
            },
            shape: input.shape,
            multiline: input.multiline,
        };
        let prometheus = |input: &PrometheusInput| Scraped {
            resources: Resources::in_namespaces(&input.namespaces),
            diagnostics: input.diagnostic_metrics,
            envoy: false,
        };
        let istio = |input: &IstioInput| Scraped {
            resources: Resources::in_namespaces(&input.namespaces),
            diagnostics: input.diagnostic_metrics,
            envoy: input.envoy_metrics,
        };
        let runtime = |input: &RuntimeInput| Runtime {
            resources: Resources::in_namespaces(&input.namespaces),
            metrics: input.metrics,
        };
        Self {
            otlp: input.otlp.as_ref().map(otlp),
            prometheus: input.prometheus.as_ref().map(prometheus),
            istio: input.istio.as_ref().map(istio),
            runtime: input.runtime.as_ref().map(runtime),
            status: Some(Resources { namespaces: Wanted::All, containers: Wanted::All }),
            container_logs: input.container_logs.as_ref().map(container_logs),
            drop_noise: input.drop_istio_noise,
        }
    }

    /// Of a pipeline that takes no requests.
    pub(crate) fn nothing() -> Self {
        Self {
            otlp: None,
            container_logs: None,
            prometheus: None,
            istio: None,
            runtime: None,
            status: None,
            drop_noise: false,
        }
    }

    /// Whether there is an input that it takes from, apart from the status of resources.
    pub(crate) fn takes_anything(&self) -> bool {
        self.takes_what_is_pushed() || self.takes_what_is_collected()
    }

    /// Whether it takes what clients push.
    pub(crate) fn takes_what_is_pushed(&self) -> bool {
        self.otlp.is_some()
    }

    /// Whether it takes what sources in this process collect, apart from the status of resources.
    pub(crate) fn takes_what_is_collected(&self) -> bool {
        let is_scraping = self.prometheus.is_some() || self.istio.is_some();
        self.container_logs.is_some() || is_scraping || self.runtime.is_some()
    }

    /// Whether it takes from this input.
    pub(crate) fn takes_from(&self, input: InputKind) -> bool {
        self.resources(input).is_some()
    }

    /// What it takes from this input.
    fn resources(&self, input: InputKind) -> Option<&Resources> {
        match input {
            InputKind::Otlp => self.otlp.as_ref(),
            InputKind::ContainerLogs(shape, multiline) => {
                let logs = self.container_logs.as_ref()?;
                (logs.shape == shape && logs.multiline == multiline).then_some(&logs.resources)
            }
            InputKind::Prometheus => scraped(self.prometheus.as_ref(), |_| true),
            InputKind::PrometheusDiagnostics => scraped(self.prometheus.as_ref(), |wanted| wanted.diagnostics),
            InputKind::Istio => scraped(self.istio.as_ref(), |_| true),
            InputKind::IstioDiagnostics => scraped(self.istio.as_ref(), |wanted| wanted.diagnostics),
            InputKind::Envoy => scraped(self.istio.as_ref(), |wanted| wanted.envoy),
            InputKind::Runtime(metrics, _) => {
                self.runtime.as_ref().filter(|runtime| runtime.metrics == metrics).map(|runtime| &runtime.resources)
            }
            InputKind::ResourceStatus => self.status.as_ref(),
        }
    }

    /// Whether it takes metrics of Istio's proxies from some namespaces only, so that not all noise in them is its own.
    pub(crate) fn takes_some_proxies(&self) -> bool {
        self.istio.as_ref().is_some_and(|istio| !istio.resources.are_all())
    }

    /// Whether it takes only some resources of what clients push. A request of container logs is of one container.
    pub(crate) fn is_selective(&self) -> bool {
        self.otlp.as_ref().is_some_and(|resources| !resources.are_all())
    }

    /// Looks at the resources of a valid request from this input.
    pub(crate) fn of(&self, signal: Signal, input: InputKind, request: &[u8]) -> Selected {
        let Some(wanted) = self.resources(input) else { return Selected::Nothing };
        if wanted.are_all() {
            return Selected::All;
        }
        let resources = Message::request(request).messages(request::RESOURCES).count();
        let (mut taken, mut part) = (0, Part { items: 0, span: 0..0, bytes: 0 });
        for range in wanted.of(request) {
            let start = if taken == 0 { range.start } else { part.span.start };
            part.bytes += range.len();
            part.span = start..range.end;
            taken += 1;
        }
        // Nothing is counted where that is known.
        if taken == resources {
            return Selected::All;
        }
        part.items = wanted.of(request).map(|range| u64::from(count(signal, &request[range]))).sum();
        if part.items == 0 { Selected::Nothing } else { Selected::Some(part) }
    }

    /// Where the resources are that the pipeline takes of a request from this input. They are searched for each time,
    /// because a list of them could be larger than the request.
    pub(crate) fn ranges(&self, input: InputKind, request: &[u8]) -> impl Iterator<Item = Range<usize>> {
        self.resources(input).into_iter().flat_map(|wanted| wanted.of(request))
    }
}

/// Stretches of a valid request from this input that none of these takes: resources that follow each other. They are
/// searched for as they are asked for, because a list of them could be larger than the request.
pub(super) fn unclaimed<'a>(
    selections: impl Iterator<Item = &'a Selection> + Clone,
    input: InputKind,
    request: &'a [u8],
) -> impl Iterator<Item = Range<usize>> {
    let wanted = selections.filter_map(move |selection| selection.resources(input));
    // Most often one pipeline takes all of it.
    let request: &'a [u8] = if wanted.clone().any(Resources::are_all) { &[] } else { request };
    let is_left = move |holder: &Message<'_>| !wanted.clone().any(|wanted| wanted.takes(holder));
    let resources = Message::request(request).messages(request::RESOURCES);
    let mut left = resources.filter(is_left).map(Message::field_range).peekable();
    std::iter::from_fn(move || {
        let mut stretch = left.next()?;
        while let Some(next) = left.next_if(|next| next.start == stretch.end) {
            stretch.end = next.end;
        }
        Some(stretch)
    })
}

/// What is taken of a scraped input, if it is wanted.
fn scraped(input: Option<&Scraped>, is_wanted: impl Fn(&Scraped) -> bool) -> Option<&Resources> {
    input.filter(|scraped| is_wanted(scraped)).map(|scraped| &scraped.resources)
}

impl Resources {
    fn in_namespaces(namespaces: &Selector) -> Self {
        Self { namespaces: Wanted::new(namespaces), containers: Wanted::All }
    }

    fn are_all(&self) -> bool {
        matches!((&self.namespaces, &self.containers), (Wanted::All, Wanted::All))
    }

    fn of(&self, request: &[u8]) -> impl Iterator<Item = Range<usize>> {
        let takes = |holder: &Message<'_>| self.takes(holder);
        Message::request(request).messages(request::RESOURCES).filter(takes).map(Message::field_range)
    }

    fn takes(&self, holder: &Message<'_>) -> bool {
        self.take(holder.message(resource_data::RESOURCE).map(Resource))
    }

    /// Telemetry that does not say where it is from is always taken.
    fn take(&self, resource: Option<Resource<'_>>) -> bool {
        let takes = |wanted: &Wanted, key| match wanted {
            Wanted::All => true,
            Wanted::Only(names) => text(resource, key).is_none_or(|name| names.contains(name.as_ref())),
            Wanted::Except(names) => text(resource, key).is_none_or(|name| !names.contains(name.as_ref())),
        };
        takes(&self.namespaces, "k8s.namespace.name") && takes(&self.containers, "k8s.container.name")
    }
}

impl Wanted {
    fn new(selector: &Selector) -> Self {
        let set = |names: &Vec<String>| names.iter().cloned().collect();
        match selector {
            Selector::All => Self::All,
            Selector::Only(names) => Self::Only(set(names)),
            Selector::Except(names) => Self::Except(set(names)),
        }
    }
}

/// The last attribute with this key counts if it is text.
fn text<'a>(resource: Option<Resource<'a>>, key: &str) -> Option<Cow<'a, str>> {
    let found = resource?.attributes().filter(|attribute| attribute.key() == key).last()?;
    match found.value() {
        AnyValue::String("") => None,
        AnyValue::String(name) => Some(name.into()),
        _ => None,
    }
}
