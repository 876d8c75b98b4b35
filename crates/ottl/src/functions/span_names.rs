//! `set_semconv_span_name`: span names as the semantic conventions have them.
//!
//! Source of the semantics: `processor/transformprocessor/internal/traces` of the reference, version 0.158. It knows
//! the conventions 1.37.0 to 1.40.0, and the older names of the attributes that these conventions renamed.

use super::{Function, Kind, function, optional, required};
use crate::context::{Context, Level};
use crate::draft::Scalar;
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::wire::entry_len;
use crate::value::{Failure, Value, entry_heap};
use weir_otlp::field::span;

pub(super) const FUNCTIONS: &[Function] = &[function(
    "set_semconv_span_name",
    &[required("semconv_version", Kind::Text), optional("original_span_name_attribute", Kind::Text)],
    set_span_name,
)
.only_in_statements(&[Context::Span])
.checked(|arguments| {
    let version = arguments.literal_text(0).unwrap_or_default();
    if !is_known(version) {
        return Err(format!(
            "unsupported version \"{version}\" of the semantic conventions; 1.37.0 to 1.40.0 are known"
        ));
    }
    match arguments.literal_text(1) {
        Some("") => Err("the attribute for the original name must not be empty".to_owned()),
        _ => Ok(()),
    }
})];

fn is_known(version: &str) -> bool {
    let parts = version.strip_prefix('v').unwrap_or(version).split('.');
    let parts: Option<Vec<u32>> = parts.map(|part| part.parse().ok()).collect();
    let at = |parts: &[u32], index: usize| parts.get(index).copied().unwrap_or_default();
    parts.is_some_and(|parts| {
        let version = (at(&parts, 0), at(&parts, 1), at(&parts, 2));
        parts.len() <= 3 && ((1, 37, 0)..=(1, 40, 0)).contains(&version)
    })
}

fn set_span_name<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    const NAME: u32 = span::NAME;
    const KIND: u32 = span::KIND;
    let kind = match scene.draft(Level::Item).scalar(KIND) {
        Some(Scalar::Varint(kind)) => kind,
        _ => 0,
    };
    let original = match scene.draft(Level::Item).scalar(NAME) {
        Some(Scalar::Len(name)) => String::from_utf8_lossy(&name).into_owned(),
        _ => String::new(),
    };
    let Some(name) = derived(kind, &mut Attributes(scene)).filter(|name| *name != original) else {
        return Ok(Value::Nil);
    };
    let name = Some(Scalar::Len(name.into_bytes().into()));
    if let Some(key) = arguments.literal_text(1) {
        let original = Value::text(original);
        // Both changes or none.
        let name_grown = scene.draft(Level::Item).growth_of_scalar(NAME, name.as_ref());
        let name_heap = name.as_ref().map_or(0, Scalar::heap);
        scene.check_growth(name_grown + entry_len(key.len(), original.encoded_len()?).cast_signed())?;
        scene.check_held(name_heap + entry_heap(&key.into(), &original))?;
        scene.put_entry(Level::Item, key.into(), None, original)?;
    }
    scene.set_scalars(Level::Item, [(NAME, name)])?;
    Ok(Value::Nil)
}

/// Attributes of the current span as text.
struct Attributes<'s, 'a>(&'s mut Scene<'a>);

impl Attributes<'_, '_> {
    /// The first of these attributes that is there.
    fn first(&mut self, keys: &[&str]) -> Option<String> {
        let value = keys.iter().find_map(|key| self.0.entry(Level::Item, key, None))?;
        // A text that is too large to make names none.
        value.into_any_text(self.0.room()).ok().map(String::from)
    }

    fn is_true(&mut self, key: &str) -> bool {
        matches!(self.0.entry(Level::Item, key, None), Some(Value::Bool(true)))
    }

    fn server(&mut self) -> Option<String> {
        let address = self.first(&["server.address"])?;
        Some(match self.first(&["server.port"]) {
            Some(port) => format!("{address}:{port}"),
            None => address,
        })
    }
}

/// What names spans of one kind of operation.
type Convention = fn(&mut Attributes<'_, '_>) -> Option<String>;

/// The name by the conventions, those for the kind of span in their order.
fn derived(kind: u64, attributes: &mut Attributes<'_, '_>) -> Option<String> {
    const SERVER: u64 = 2;
    const CLIENT: u64 = 3;
    const PRODUCER: u64 = 4;
    const CONSUMER: u64 = 5;
    let conventions: &[Convention] = match kind {
        SERVER => &[http_server, rpc, messaging],
        CLIENT => &[http_client, rpc, database, messaging],
        PRODUCER | CONSUMER => &[messaging],
        _ => &[],
    };
    conventions.iter().find_map(|name| name(attributes).filter(|name| !name.is_empty()))
}

fn http_server(attributes: &mut Attributes<'_, '_>) -> Option<String> {
    http(attributes, "http.route")
}

fn http_client(attributes: &mut Attributes<'_, '_>) -> Option<String> {
    http(attributes, "url.template")
}

fn http(attributes: &mut Attributes<'_, '_>, target: &str) -> Option<String> {
    let method = attributes.first(&["http.request.method", "http.method"])?;
    Some(match attributes.first(&[target]) {
        Some(target) => format!("{method} {target}"),
        None => method,
    })
}

fn rpc(attributes: &mut Attributes<'_, '_>) -> Option<String> {
    let system = attributes.first(&["rpc.system.name", "rpc.system"])?;
    let method = attributes.first(&["rpc.method", "rpc.grpc.method"]);
    let service = attributes.first(&["rpc.service", "rpc.grpc.service"]);
    Some(match (service, method) {
        (Some(service), Some(method)) => format!("{service}/{method}"),
        (None, Some(method)) => method,
        (Some(service), None) => format!("{service}/*"),
        (None, None) => system,
    })
}

fn database(attributes: &mut Attributes<'_, '_>) -> Option<String> {
    let system = attributes.first(&["db.system.name", "db.system"])?;
    if let Some(summary) = attributes.first(&["db.query.summary"]) {
        return Some(summary);
    }
    let operation = attributes.first(&["db.operation.name", "db.operation"]).filter(|name| !name.is_empty());
    let target = database_target(attributes).filter(|target| !target.is_empty());
    Some(match (operation, target) {
        (Some(operation), Some(target)) => format!("{operation} {target}"),
        (one, other) => one.or(other).unwrap_or(system),
    })
}

fn database_target(attributes: &mut Attributes<'_, '_>) -> Option<String> {
    let namespace = attributes.first(&["db.namespace", "db.name"]).filter(|name| !name.is_empty());
    let object = attributes.first(&["db.collection.name", "db.stored_procedure.name"]);
    match (namespace, object) {
        (Some(namespace), Some(object)) => Some(format!("{namespace}.{object}")),
        (namespace, object) => object.or(namespace).or_else(|| attributes.server()),
    }
}

fn messaging(attributes: &mut Attributes<'_, '_>) -> Option<String> {
    let system = attributes.first(&["messaging.system"])?;
    let operation = attributes.first(&["messaging.operation.name", "messaging.operation"]);
    let destination = destination(attributes).filter(|name| !name.is_empty());
    Some(match (operation, destination) {
        (Some(operation), Some(destination)) => format!("{operation} {destination}"),
        (operation, destination) => destination.or(operation).unwrap_or(system),
    })
}

fn destination(attributes: &mut Attributes<'_, '_>) -> Option<String> {
    if attributes.is_true("messaging.destination.temporary") {
        return Some("(temporary)".to_owned());
    }
    if attributes.is_true("messaging.destination.anonymous") {
        return Some("(anonymous)".to_owned());
    }
    let names = ["messaging.destination.template", "messaging.destination.name", "messaging.destination"];
    attributes.first(&names).or_else(|| attributes.server())
}
