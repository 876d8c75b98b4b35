//! Which part of a request a pipeline takes, decided by resource before anything is processed for it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use weir_otlp::common::{AnyValue, Message, Resource};
use weir_otlp::field::{request, resource_data};
use weir_otlp::{Signal, count};
use weir_plan::{Input, OtlpInput, Selector};

use crate::inlet::InputKind;

/// Compiled from a plan's input.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    otlp: bool,
    pub(crate) drop_noise: bool,
    namespaces: Wanted,
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
        let Some(OtlpInput { namespaces }) = &input.otlp else { return Self::nothing() };
        let set = |names: &Vec<String>| names.iter().cloned().collect();
        let namespaces = match namespaces {
            Selector::All => Wanted::All,
            Selector::Only(names) => Wanted::Only(set(names)),
            Selector::Except(names) => Wanted::Except(set(names)),
        };
        Self { otlp: true, drop_noise: input.drop_istio_noise, namespaces }
    }

    /// Of a pipeline that takes no requests.
    pub(crate) fn nothing() -> Self {
        Self { otlp: false, drop_noise: false, namespaces: Wanted::All }
    }

    /// Whether there is an input that it takes from.
    pub(crate) fn takes_anything(&self) -> bool {
        self.otlp
    }

    /// Whether it takes from this input.
    pub(crate) fn takes_from(&self, input: InputKind) -> bool {
        match input {
            InputKind::Otlp => self.otlp,
            // Plans have these inputs, but nothing collects for them yet. The first source brings an `Option<Wanted>` for
            // each kind: making them selective raises `Copies`, and so lowers the largest request.
            InputKind::Runtime | InputKind::Prometheus | InputKind::Istio | InputKind::ContainerLogs => false,
        }
    }

    /// Whether it takes some namespaces only.
    pub(crate) fn is_selective(&self) -> bool {
        !matches!(self.namespaces, Wanted::All)
    }

    /// Looks at the resources of a valid request.
    pub(crate) fn of(&self, signal: Signal, request: &[u8]) -> Selected {
        if matches!(self.namespaces, Wanted::All) {
            return Selected::All;
        }
        let resources = Message::request(request).messages(request::RESOURCES).count();
        let (mut taken, mut part) = (0, Part { items: 0, span: 0..0, bytes: 0 });
        for range in self.resources(request) {
            let start = if taken == 0 { range.start } else { part.span.start };
            part.items += u64::from(count(signal, &request[range.clone()]));
            part.bytes += range.len();
            part.span = start..range.end;
            taken += 1;
        }
        match part.items {
            _ if taken == resources => Selected::All,
            0 => Selected::Nothing,
            _ => Selected::Some(part),
        }
    }

    /// Where the resources are that the pipeline takes. They are searched for each time, because a list of them could
    /// be larger than the request.
    pub(crate) fn resources(&self, request: &[u8]) -> impl Iterator<Item = Range<usize>> {
        let takes = |holder: &Message<'_>| {
            self.takes(holder.message(resource_data::RESOURCE).map(Resource).and_then(namespace).as_deref())
        };
        Message::request(request).messages(request::RESOURCES).filter(takes).map(Message::field_range)
    }

    /// Telemetry that does not say where it is from is always taken.
    fn takes(&self, namespace: Option<&str>) -> bool {
        let Some(namespace) = namespace else { return true };
        match &self.namespaces {
            Wanted::All => true,
            Wanted::Only(names) => names.contains(namespace),
            Wanted::Except(names) => !names.contains(namespace),
        }
    }
}

/// The last `k8s.namespace.name` counts if it is text.
fn namespace(resource: Resource<'_>) -> Option<Cow<'_, str>> {
    let found = resource.attributes().filter(|attribute| attribute.key() == "k8s.namespace.name").last()?;
    match found.value() {
        AnyValue::String("") => None,
        AnyValue::String(name) => Some(name.into()),
        _ => None,
    }
}
