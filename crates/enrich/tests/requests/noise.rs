//! The rules by which spans and access logs are noise, each from both sides.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};
use prost::Message as _;
use weir_enrich::{Enricher, NoRoom, Noise};
use weir_otlp::Signal;
use weir_otlp::build::Encoder;
use weir_otlp::splice::splice;
use weir_plan::{Enrichment, Pod, WorkloadKind};

use crate::support::{
    NOW, Pairs, ROOM, attributes, cart, enrich, enricher, legacy, logs, resource, resource_pairs, traces, workload,
};

const KYMA: Pairs<'_> = &[("k8s.namespace.name", "kyma-system")];
const INGRESS: Pairs<'_> = &[("k8s.namespace.name", "istio-system")];
const SHOP: Pairs<'_> = &[("k8s.namespace.name", "shop")];

const PROXY: (&str, &str) = ("component", "proxy");
const ISTIO: (&str, &str) = ("kyma.module", "istio");

/// A base case that is noise, and the same with one attribute changed, which is not.
struct Rule<'a> {
    resource: Pairs<'a>,
    item: Pairs<'a>,
    /// Attributes of the item that decide, with a value that makes it no noise.
    decisive: Pairs<'a>,
}

fn unknown() -> Enricher {
    enricher(&legacy(), &[])
}

fn is_noise(signal: Signal, resource: Pairs<'_>, item: Pairs<'_>) -> bool {
    let request = match signal {
        Signal::Traces => traces(resource, &[item]).encode_to_vec(),
        _ => logs(resource, &[item]).encode_to_vec(),
    };
    let (kept, gone) = enrich(&unknown(), signal, &request, None, Noise::Keep);
    assert_eq!((kept.is_empty(), gone), (false, 0), "noise that shall be kept");
    let (kept, gone) = enrich(&unknown(), signal, &request, None, Noise::Drop);
    assert_eq!(kept.is_empty(), gone == 1);
    gone == 1
}

fn check(signal: Signal, rules: &[Rule<'_>]) {
    for Rule { resource, item, decisive } in rules {
        assert!(is_noise(signal, resource, item), "{item:?} of {resource:?}");
        for (key, value) in *decisive {
            let with = |(own, old)| if own == *key { (own, *value) } else { (own, old) };
            let other: Vec<_> = item.iter().copied().map(with).collect();
            assert_ne!(&other, item, "{key} decides nothing");
            assert!(!is_noise(signal, resource, &other), "{other:?} of {resource:?}");
        }
    }
}

#[test]
fn spans_of_telemetry_traffic_are_noise() {
    const GATEWAY_URL: &str = "http://telemetry-otlp.kyma-system:4317/opentelemetry.proto";
    check(
        Signal::Traces,
        &[
            Rule {
                resource: KYMA,
                item: &[PROXY, ("istio.canonical_service", "telemetry-otlp-gateway")],
                decisive: &[("component", "grpc"), ("component", ""), ("istio.canonical_service", "my-gateway")],
            },
            Rule {
                resource: SHOP,
                item: &[
                    PROXY,
                    ("http.method", "POST"),
                    ("upstream_cluster.name", "outbound|4317||telemetry-otlp"),
                    ("http.url", GATEWAY_URL),
                ],
                decisive: &[
                    ("component", "app"),
                    ("http.method", "GET"),
                    ("upstream_cluster.name", "inbound|4317||"),
                    ("http.url", "http://backend.kyma-system:4317/"),
                    ("http.url", "http://telemetry-otlp.kyma-system.a\nb:4317/"),
                ],
            },
            Rule {
                resource: SHOP,
                item: &[
                    PROXY,
                    ("http.method", "GET"),
                    ("upstream_cluster.name", "inbound|8080||"),
                    ("user_agent", "kyma-otelcol/0.158.0"),
                ],
                decisive: &[
                    ("component", "app"),
                    ("http.method", "POST"),
                    ("upstream_cluster.name", "outbound|8080||"),
                    ("user_agent", "curl/8"),
                    ("user_agent", "kyma-otelcol"),
                ],
            },
            Rule {
                resource: INGRESS,
                item: &[
                    PROXY,
                    ("istio.canonical_service", "istio-ingressgateway"),
                    ("http.method", "GET"),
                    ("upstream_cluster.name", "outbound|15021||istio"),
                    ("http.url", "https://healthz.my.domain/healthz/ready"),
                ],
                decisive: &[
                    ("component", "app"),
                    ("istio.canonical_service", "other"),
                    ("http.method", "POST"),
                    ("upstream_cluster.name", "inbound|15021||"),
                    ("http.url", "https://shop.my.domain/healthz/ready"),
                    ("http.url", "https://healthz./healthz/ready"),
                    ("http.url", "https://healthz.a\nb/healthz/ready"),
                    ("http.url", "http://healthz.my.domain/healthz/ready"),
                    ("http.url", "https://healthz.my.domain/healthz"),
                ],
            },
        ],
    );
}

#[test]
fn access_logs_of_telemetry_traffic_are_noise() {
    let get = ("http.request.method", "GET");
    check(
        Signal::Logs,
        &[
            Rule {
                resource: SHOP,
                item: &[ISTIO, ("server.address", "telemetry-otlp.kyma-system:4317")],
                decisive: &[("kyma.module", "other"), ("server.address", "shop.kyma-system:4317")],
            },
            Rule {
                resource: SHOP,
                item: &[ISTIO, get, ("http.direction", "inbound"), ("user_agent.original", "kyma-otelcol/0.158.0")],
                decisive: &[
                    ("kyma.module", ""),
                    ("http.request.method", "POST"),
                    ("http.direction", "outbound"),
                    ("user_agent.original", "curl/8"),
                ],
            },
            Rule {
                resource: SHOP,
                item: &[
                    ISTIO,
                    get,
                    ("http.direction", "outbound"),
                    ("server.address", "healthz.my.domain:443"),
                    ("url.path", "/healthz/ready"),
                ],
                decisive: &[
                    ("kyma.module", "x"),
                    ("http.request.method", "HEAD"),
                    ("http.direction", "inbound"),
                    ("server.address", "shop.my.domain:443"),
                    ("url.path", "/healthz/ready/not"),
                ],
            },
        ],
    );
}

#[test]
fn components_of_telemetry_are_known_by_name_in_their_namespace() {
    let names = [
        "telemetry-log-gateway",
        "telemetry-metric-gateway",
        "telemetry-trace-gateway",
        "telemetry-otlp-gateway",
        "telemetry-gateway",
        "telemetry-gateway-stateful",
        "telemetry-log-agent",
        "telemetry-metric-agent",
        "telemetry-fluent-bit",
        "telemetry-agent",
    ];
    for name in names {
        let span = &[PROXY, ("istio.canonical_service", name)];
        assert!(is_noise(Signal::Traces, KYMA, span), "{name}");
        assert!(!is_noise(Signal::Traces, SHOP, span), "{name}");
        assert!(!is_noise(Signal::Traces, &[], span), "{name}");

        let resource = |namespace, kind| [("k8s.namespace.name", namespace), (kind, name)];
        assert!(is_noise(Signal::Logs, &resource("kyma-system", "k8s.daemonset.name"), &[ISTIO]), "{name}");
        assert!(!is_noise(Signal::Logs, &resource("shop", "k8s.daemonset.name"), &[ISTIO]), "{name}");
        for owner in ["k8s.deployment.name", "k8s.statefulset.name"] {
            let is_gateway = is_noise(Signal::Logs, &resource("kyma-system", owner), &[ISTIO]);
            assert_eq!(is_gateway, name.contains("-gateway"), "{owner} {name}");
            assert!(!is_noise(Signal::Logs, &resource("shop", owner), &[ISTIO]), "{owner} {name}");
        }
    }
    assert!(!is_noise(Signal::Logs, &[KYMA[0], ("k8s.daemonset.name", "other")], &[ISTIO]));
}

#[test]
fn addresses_of_the_gateway() {
    let cases = [
        ("http://telemetry-otlp.kyma-system:4317", true),
        ("https://telemetry-otlp.kyma-system:4318/v1/traces", true),
        ("http://telemetry-otlp-logs.kyma-system:4317/x", true),
        ("http://telemetry-otlp-metrics.kyma-system.svc:4317/x", true),
        ("http://telemetry-otlp-traces.kyma-system.svc.cluster.local:4317/x", true),
        ("http://telemetry-otlp-other.kyma-system:4317/x", false),
        ("http://telemetry-otlp.kyma-system", false),
        ("http://telemetry-otlp.kyma-system:43170/x", false),
        ("http://telemetry-otlp.kyma-system:8080/x", false),
        ("http://telemetry-otlp.kyma-system.svc/x:4317", false),
        ("http://telemetry-otlp.kyma-systems:4317", false),
        ("http://my-telemetry-otlp.kyma-system:4317", false),
        ("ftp://telemetry-otlp.kyma-system:4317", false),
        ("", false),
    ];
    for (url, expected) in cases {
        let span = &[PROXY, ("http.method", "POST"), ("upstream_cluster.name", "outbound|1"), ("http.url", url)];
        assert_eq!(is_noise(Signal::Traces, SHOP, span), expected, "{url}");
    }
    let cases = [
        ("telemetry-otlp.kyma-system", true),
        ("telemetry-otlp-traces.kyma-system.svc:4317", true),
        ("telemetry-otlp.kyma-systems", false),
        ("telemetry-otlp.shop", false),
        ("x.telemetry-otlp.kyma-system", false),
    ];
    for (server, expected) in cases {
        assert_eq!(is_noise(Signal::Logs, SHOP, &[ISTIO, ("server.address", server)]), expected, "{server}");
    }
}

#[test]
fn other_scrapes_are_noise_too() {
    let get = ("http.request.method", "GET");
    let cases = [("vm_promscrape", true), ("vm_promscrape/1", true), ("weir/0.1.0", true), ("weir", false)];
    for (agent, expected) in cases {
        let span = &[PROXY, ("http.method", "GET"), ("upstream_cluster.name", "inbound|1"), ("user_agent", agent)];
        assert_eq!(is_noise(Signal::Traces, SHOP, span), expected, "{agent}");
        let record = &[ISTIO, get, ("http.direction", "inbound"), ("user_agent.original", agent)];
        assert_eq!(is_noise(Signal::Logs, SHOP, record), expected, "{agent}");
    }
}

#[test]
fn probes_are_known_at_the_ingress_gateway_only() {
    let span = &[
        PROXY,
        ("istio.canonical_service", "istio-ingressgateway"),
        ("http.method", "GET"),
        ("upstream_cluster.name", "outbound|1"),
        ("http.url", "https://healthz.my.domain/healthz/ready"),
    ];
    assert!(is_noise(Signal::Traces, INGRESS, span));
    assert!(!is_noise(Signal::Traces, SHOP, span));
}

/// Where a proxy runs is known from the pod as well as from its resource.
#[test]
fn noise_is_decided_on_the_enriched_resource() {
    let gateway = Pod {
        namespace: "kyma-system".into(),
        workloads: [workload(WorkloadKind::DaemonSet, "telemetry-otlp-gateway")].into(),
        ..cart()
    };
    let enricher = enricher(&legacy(), &[gateway]);
    let request = logs(&[], &[&[ISTIO]]).encode_to_vec();
    let (kept, gone) = enrich(&enricher, Signal::Logs, &request, Some("10.0.0.1"), Noise::Drop);
    assert_eq!((kept.len(), gone), (0, 1));
    let (_, gone) = enrich(&enricher, Signal::Logs, &request, Some("10.0.0.2"), Noise::Drop);
    assert_eq!(gone, 0);
    // What the resource says itself counts first.
    let request = logs(SHOP, &[&[ISTIO]]).encode_to_vec();
    assert_eq!(enrich(&enricher, Signal::Logs, &request, Some("10.0.0.1"), Noise::Drop).1, 0);
}

const NOISE: Pairs<'_> = &[PROXY, ("istio.canonical_service", "telemetry-log-agent")];

#[test]
fn what_noise_leaves_empty_goes_with_it() {
    let mut request = traces(KYMA, &[NOISE, NOISE]);
    let holder = request.resource_spans[0].clone();
    let spans = |own: &[Pairs<'_>]| {
        let spans = own.iter().map(|own| Span { attributes: attributes(own), ..Span::default() });
        ScopeSpans { spans: spans.collect(), schema_url: "s".into(), ..ScopeSpans::default() }
    };
    // A resource with a scope of noise, a mixed one, one without any spans; then one with noise and nothing.
    request.resource_spans[0].scope_spans = vec![spans(&[NOISE, NOISE]), spans(&[NOISE, &[PROXY]]), spans(&[])];
    request.resource_spans.push(holder.clone());
    request.resource_spans[1].scope_spans.push(spans(&[]));
    let bytes = request.encode_to_vec();

    let (kept, gone) = enrich(&unknown(), Signal::Traces, &bytes, None, Noise::Drop);
    let kept = ExportTraceServiceRequest::decode(&kept[..]).unwrap();
    assert_eq!(gone, 5);
    assert_eq!(kept.resource_spans.len(), 1);
    assert_eq!(kept.resource_spans[0].scope_spans, [spans(&[&[PROXY]]), spans(&[])]);
    let pairs = resource_pairs(kept.resource_spans[0].resource.as_ref());
    assert!(pairs.contains(&("service.name".into(), "unknown_service".into())), "what is kept is enriched");
}

#[test]
fn other_items_of_a_scope_stay_as_they_are() {
    let items: &[Pairs<'_>] = &[&[("component", "grpc")], NOISE, &[PROXY, ("x", "y")], &[]];
    let request = traces(&[KYMA[0], ("service.name", "mine")], items);
    let (kept, gone) = enrich(&unknown(), Signal::Traces, &request.encode_to_vec(), None, Noise::Drop);
    let mut expected = request;
    expected.resource_spans[0].scope_spans[0].spans.remove(1);
    assert_eq!((ExportTraceServiceRequest::decode(&kept[..]).unwrap(), gone), (expected, 1));

    let items: &[Pairs<'_>] = &[&[("kyma.module", "x")], &[ISTIO, ("server.address", "telemetry-otlp.kyma-system")]];
    let request = logs(&[KYMA[0], ("service.name", "mine")], items);
    let (kept, gone) = enrich(&unknown(), Signal::Logs, &request.encode_to_vec(), None, Noise::Drop);
    let mut expected = request;
    expected.resource_logs[0].scope_logs[0].log_records.remove(1);
    assert_eq!((ExportLogsServiceRequest::decode(&kept[..]).unwrap(), gone), (expected, 1));
}

/// Attributes may stand in the other order on the wire, value first.
#[test]
fn unusual_encodings_are_read() {
    let value_first = |(key, value): &(&str, &str)| {
        let mut attribute = Encoder::default();
        let any_value = attribute.open(2, 0);
        attribute.bytes(1, value.as_bytes());
        attribute.close(any_value);
        attribute.bytes(1, key.as_bytes());
        attribute.into_bytes()
    };
    let mut request = Encoder::default();
    let holder = request.open(1, 0);
    request.bytes(1, &resource(KYMA).unwrap().encode_to_vec());
    let scope = request.open(2, 0);
    let span = request.open(2, 0);
    NOISE.iter().for_each(|pair| request.bytes(9, &value_first(pair)));
    request.close(span);
    request.close(scope);
    request.close(holder);
    let request = request.into_bytes();
    assert_eq!(ExportTraceServiceRequest::decode(&request[..]).unwrap(), traces(KYMA, &[NOISE]));
    assert_eq!(enrich(&unknown(), Signal::Traces, &request, None, Noise::Drop), (Vec::new(), 1));
}

/// ENRICH-4
#[test]
fn edits_are_held_to_their_room() {
    let holders = |count: usize| {
        let mut request = traces(&[], &[&[]]);
        request.resource_spans = vec![request.resource_spans[0].clone(); count];
        request.encode_to_vec()
    };
    // What is added to a resource is larger than the edit that adds it.
    let enricher = enricher(&Enrichment { cluster_name: Some("prod".repeat(50)), ..legacy() }, &[]);
    let arrival = enricher.arrival(None, NOW);
    let request = holders(100);
    let changes =
        |room| enricher.edits(Signal::Traces, &request, &arrival, Noise::Drop, room).map(|changes| changes.edits);
    let (mut too_little, mut needed) = (0, ROOM);
    while too_little + 1 < needed {
        let room = too_little.midpoint(needed);
        *(if changes(room).is_ok() { &mut needed } else { &mut too_little }) = room;
    }
    assert_eq!(changes(needed - 1).unwrap_err(), NoRoom { max_bytes: needed - 1 });
    let spliced = splice(Signal::Traces, &request, changes(needed).unwrap()).unwrap();
    let plenty = enricher.edits(Signal::Traces, &request, &arrival, Noise::Drop, ROOM).unwrap();
    assert_eq!(plenty.bytes(), needed);
    let grown = spliced.len() - request.len();
    assert!((1..=needed).contains(&grown), "{grown} of {needed}");
    let larger = holders(101);
    assert!(enricher.edits(Signal::Traces, &larger, &arrival, Noise::Drop, needed).is_err());
}
