//! Strategies: requests whose keys and values matter to enrichment, or do not.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::key_value;

const RESOURCE_KEYS: &[&str] = &[
    "k8s.pod.ip",
    "k8s.pod.uid",
    "k8s.pod.name",
    "k8s.namespace.name",
    "k8s.deployment.name",
    "k8s.daemonset.name",
    "k8s.cluster.name",
    "k8s.container.name",
    "k8s.node.name",
    "k8s.pod.label.team",
    "cloud.region",
    "service.name",
    "service.namespace",
    "service.version",
    "service.instance.id",
    "service.other",
    "kyma.x",
    "kyma.input.name",
    "host.name",
    "zone",
];
const ITEM_KEYS: &[&str] = &[
    "component",
    "istio.canonical_service",
    "http.method",
    "http.url",
    "upstream_cluster.name",
    "user_agent",
    "kyma.module",
    "server.address",
    "http.request.method",
    "http.direction",
    "user_agent.original",
    "url.path",
    "network.protocol.name",
    "network.protocol.version",
    "client.address",
    "client.port",
    "other",
];
const VALUES: &[&str] = &[
    "",
    "proxy",
    "istio",
    "GET",
    "POST",
    "inbound|1",
    "outbound|1",
    "inbound",
    "outbound",
    "kyma-otelcol/1",
    "telemetry-otlp.kyma-system",
    "http://telemetry-otlp.kyma-system:4317/x",
    "kyma-system",
    "telemetry-log-agent",
    "istio-system",
    "istio-ingressgateway",
    "10.0.0.1",
    "uid-of-cart",
    "node-1",
    "unknown_service",
    "unknown_service:java",
    "HTTP/1.1",
    "10.0.0.1:80",
    "app",
    "mine",
];

fn value() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        8 => select(VALUES).prop_map(|text| Some(Value::StringValue(text.into()))),
        1 => any::<i64>().prop_map(|number| Some(Value::IntValue(number))),
        1 => Just(Some(Value::BytesValue(Vec::new()))),
        1 => Just(None),
    ]
}

/// Attributes in any order, no key twice.
fn attributes(keys: &'static [&'static str]) -> impl Strategy<Value = Vec<KeyValue>> {
    let map = btree_map(select(keys), value(), 0..8);
    let list = |map: BTreeMap<_, _>| map.into_iter().map(|(key, value)| key_value(key, value)).collect::<Vec<_>>();
    map.prop_map(list).prop_shuffle()
}

fn resource() -> impl Strategy<Value = Option<Resource>> {
    let resource = (attributes(RESOURCE_KEYS), 0..2u32).prop_map(|(attributes, dropped_attributes_count)| Resource {
        attributes,
        dropped_attributes_count,
        ..Resource::default()
    });
    option::weighted(0.9, resource)
}

fn scope() -> impl Strategy<Value = Option<InstrumentationScope>> {
    let scope = ("[a-z]{0,3}", attributes(ITEM_KEYS)).prop_map(|(name, attributes)| InstrumentationScope {
        name,
        attributes,
        ..InstrumentationScope::default()
    });
    option::of(scope)
}

pub(crate) fn traces() -> impl Strategy<Value = ExportTraceServiceRequest> {
    let span = (attributes(ITEM_KEYS), "[a-z]{0,3}").prop_map(|(attributes, name)| Span {
        name,
        attributes,
        ..Span::default()
    });
    let scope_spans =
        (scope(), vec(span, 0..4)).prop_map(|(scope, spans)| ScopeSpans { scope, spans, ..ScopeSpans::default() });
    let holder = (resource(), vec(scope_spans, 0..3)).prop_map(|(resource, scope_spans)| ResourceSpans {
        resource,
        scope_spans,
        ..ResourceSpans::default()
    });
    vec(holder, 0..3).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}

pub(crate) fn logs() -> impl Strategy<Value = ExportLogsServiceRequest> {
    let record = (attributes(ITEM_KEYS), 0..2u64, 0..20i32).prop_map(|(attributes, observed, severity_number)| {
        LogRecord { attributes, observed_time_unix_nano: observed, severity_number, ..LogRecord::default() }
    });
    let scope_logs = (scope(), vec(record, 0..4)).prop_map(|(scope, log_records)| ScopeLogs {
        scope,
        log_records,
        ..ScopeLogs::default()
    });
    let holder = (resource(), vec(scope_logs, 0..3)).prop_map(|(resource, scope_logs)| ResourceLogs {
        resource,
        scope_logs,
        ..ResourceLogs::default()
    });
    vec(holder, 0..3).prop_map(|resource_logs| ExportLogsServiceRequest { resource_logs })
}
