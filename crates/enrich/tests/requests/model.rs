//! What a resource becomes, said again as the Collector does it: step by step, on a map.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use weir_plan::ServiceEnrichment;

use crate::support::Pairs;

type Map = BTreeMap<String, Option<Value>>;

const OF_NODE: Pairs<'_> = &[
    ("cloud.availability_zone", "eu-1a"),
    ("cloud.region", "eu-1"),
    ("host.arch", "amd64"),
    ("host.type", "m5.large"),
];
const OF_CART: Pairs<'_> = &[
    ("k8s.deployment.name", "cart"),
    ("k8s.namespace.name", "shop"),
    ("k8s.node.name", "node-1"),
    ("k8s.pod.label.a.b/c", "d"),
    ("k8s.pod.label.team", "blue"),
    ("k8s.pod.name", "cart-5d9c-x2x4z"),
];
const OF_CLUSTER: Pairs<'_> =
    &[("cloud.provider", "sap"), ("k8s.cluster.name", "prod"), ("k8s.cluster.uid", "uid-of-kube-system")];
const OWNERS: [&str; 5] =
    ["k8s.deployment.name", "k8s.daemonset.name", "k8s.statefulset.name", "k8s.job.name", "k8s.pod.name"];

/// Attributes as a map.
pub(crate) fn map(resource: Option<&Resource>) -> Map {
    let value = |attribute: &KeyValue| attribute.value.as_ref().and_then(|value| value.value.clone());
    let attributes = resource.map_or(&[][..], |resource| &resource.attributes);
    attributes.iter().map(|attribute| (attribute.key.clone(), value(attribute))).collect()
}

/// A resource enriched with `full_enrichment` and the only pod `cart`, which may be the peer.
pub(crate) fn enriched(resource: Option<&Resource>, mode: ServiceEnrichment, is_peer: bool, proxied: bool) -> Map {
    let mut map = map(resource);
    let otel = mode == ServiceEnrichment::Otel;
    map.retain(|key, _| !(otel && proxied && key.starts_with("service.")));
    if otel && text(&map, "service.name").starts_with("unknown_service") {
        map.remove("service.name");
    }
    let is_cart = match (text(&map, "k8s.pod.ip"), text(&map, "k8s.pod.uid")) {
        ("", "") => is_peer,
        ("", uid) => uid == "uid-of-cart",
        (ip, _) => ip == "10.0.0.1",
    };
    if is_cart {
        set_all(&mut map, OF_CART);
    }
    if otel {
        service(&mut map, is_cart);
    }
    if is_cart || text(&map, "k8s.node.name") == "node-1" {
        set_all(&mut map, OF_NODE);
    }
    set_all(&mut map, OF_CLUSTER);
    if !otel {
        legacy_name(&mut map);
    }
    map.retain(|key, _| !key.starts_with("kyma."));
    map
}

fn service(map: &mut Map, is_cart: bool) {
    if is_cart {
        set_all(map, &[("service.name", "cart"), ("service.namespace", "shop")]);
        if matches!(text(map, "k8s.container.name"), "" | "app") {
            set_all(map, &[("service.instance.id", "shop.cart-5d9c-x2x4z.app"), ("service.version", "1.4")]);
        }
    }
    match text(map, "k8s.namespace.name").to_owned() {
        namespace if namespace.is_empty() => {}
        namespace => set_all(map, &[("service.namespace", &namespace)]),
    }
}

fn legacy_name(map: &mut Map) {
    let own = text(map, "service.name").to_owned();
    let unknown =
        own == "unknown_service" || own.len() > 16 && own.starts_with("unknown_service:") && !own.contains('\n');
    if !unknown && !says_nothing(map.get("service.name").unwrap_or(&None)) {
        return;
    }
    let fallback = if unknown { &own } else { "unknown_service" };
    let owner = OWNERS.iter().map(|key| text(map, key)).find(|name| !name.is_empty());
    let name = owner.unwrap_or(fallback).to_owned();
    map.insert("service.name".into(), Some(Value::StringValue(name)));
}

fn set_all(map: &mut Map, pairs: Pairs<'_>) {
    for (key, value) in pairs {
        if map.get(*key).is_none_or(says_nothing) {
            map.insert((*key).into(), Some(Value::StringValue((*value).into())));
        }
    }
}

fn text<'a>(map: &'a Map, key: &str) -> &'a str {
    if let Some(Some(Value::StringValue(text))) = map.get(key) { text } else { "" }
}

/// Whether a value counts as missing.
pub(crate) fn says_nothing(value: &Option<Value>) -> bool {
    match value {
        None => true,
        Some(Value::StringValue(text)) => text.is_empty(),
        Some(Value::BytesValue(bytes)) => bytes.is_empty(),
        Some(_) => false,
    }
}
