//! Which part of a request a pipeline takes, decided by resource before anything is processed for it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use weir_otlp::common::{AnyValue, Message, Resource};
use weir_otlp::{Signal, count};
use weir_plan::{Input, Namespaces};

/// Compiled from a plan's input.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) otlp: bool,
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
    /// These parts, which hold so many items.
    Parts(Vec<Range<usize>>, u64),
}

impl Selection {
    pub(crate) fn new(input: &Input) -> Self {
        let set = |names: &Vec<String>| names.iter().cloned().collect();
        let namespaces = match &input.namespaces {
            Namespaces::All => Wanted::All,
            Namespaces::Only(names) => Wanted::Only(set(names)),
            Namespaces::Except(names) => Wanted::Except(set(names)),
        };
        Self { otlp: input.otlp, drop_noise: input.drop_istio_noise, namespaces }
    }

    /// Of a pipeline that takes no requests.
    pub(crate) fn nothing() -> Self {
        Self { otlp: false, drop_noise: false, namespaces: Wanted::All }
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
        let (mut parts, mut total, mut left_out): (Vec<Range<usize>>, _, _) = (Vec::new(), 0, false);
        for holder in Message::request(request).messages(1) {
            let resource = holder.message(1).map(Resource);
            if !self.takes(resource.and_then(namespace).as_deref()) {
                left_out = true;
                continue;
            }
            let range = holder.field_range();
            total += u64::from(count(signal, &request[range.clone()]));
            match parts.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => parts.push(range),
            }
        }
        match (left_out, total) {
            (false, _) => Selected::All,
            (true, 0) => Selected::Nothing,
            (true, total) => Selected::Parts(parts, total),
        }
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

/// The last `k8s.namespace.name` counts, if it is text.
fn namespace(resource: Resource<'_>) -> Option<Cow<'_, str>> {
    let found = resource.attributes().filter(|attribute| attribute.key() == "k8s.namespace.name").last()?;
    match found.value() {
        AnyValue::String("") => None,
        AnyValue::String(name) => Some(name.into()),
        _ => None,
    }
}
