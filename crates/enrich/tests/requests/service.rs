//! `service.*` in both modes.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;
use weir_enrich::Noise;
use weir_otlp::Signal;
use weir_plan::ServiceEnrichment::{KymaLegacy, Otel};
use weir_plan::{Pod, ServiceEnrichment, WorkloadKind};

use crate::support::{
    Pairs, cart, enrich, enriched_resource, enricher, key_value, legacy, mode, resource_pairs, strings, traces,
    workload,
};

/// What a resource of `pod` that says `own` says of its service when enriched: key and value, `service.` left out.
fn service(service: ServiceEnrichment, pod: Option<Pod>, own: Pairs<'_>) -> Vec<(String, String)> {
    let pods: Vec<_> = pod.into_iter().collect();
    let enriched = enriched_resource(&mode(service), &pods, own, Some("10.0.0.1"));
    let of_service = |(key, value): (String, String)| Some((key.strip_prefix("service.")?.to_owned(), value));
    enriched.into_iter().filter_map(of_service).collect()
}

fn name(mode: ServiceEnrichment, pod: Option<Pod>, own: Pairs<'_>) -> Option<String> {
    let attributes = service(mode, pod, own);
    attributes.into_iter().find(|(key, _)| key == "name").map(|(_, value)| value)
}

fn named(workloads: &[(WorkloadKind, &str)], labels: Pairs<'_>) -> Option<Pod> {
    let workloads = workloads.iter().map(|(kind, name)| workload(*kind, name)).collect();
    Some(Pod { name: "pod".into(), workloads, labels: strings(labels), ..cart() })
}

#[test]
fn legacy_names_come_from_labels_then_owners_then_the_pod() {
    let all = [(WorkloadKind::Deployment, "deployment")];
    let labels: Pairs<'_> = &[("app", "app"), ("app.kubernetes.io/name", "name"), ("app.kubernetes.io/instance", "no")];
    let cases = [
        (named(&all, labels), "name"),
        (named(&all, &labels[..1]), "app"),
        (named(&all, &[("app", "app"), ("app.kubernetes.io/name", "")]), "app"),
        (named(&all, &labels[2..]), "deployment"),
        (named(&[(WorkloadKind::DaemonSet, "daemonset")], &[]), "daemonset"),
        (named(&[(WorkloadKind::StatefulSet, "statefulset")], &[]), "statefulset"),
        (named(&[(WorkloadKind::Job, "job"), (WorkloadKind::CronJob, "cronjob")], &[]), "job"),
        (named(&[(WorkloadKind::ReplicaSet, "replicaset")], &[]), "pod"),
        (named(&[], &[]), "pod"),
        (None, "unknown_service"),
    ];
    for (pod, expected) in cases {
        for own in [&[][..], &[("service.name", "")], &[("service.name", "unknown_service")]] {
            assert_eq!(name(KymaLegacy, pod.clone(), own).as_deref(), Some(expected), "{own:?}");
        }
        let own: Pairs<'_> = &[("service.name", "mine")];
        assert_eq!(name(KymaLegacy, pod.clone(), own).as_deref(), Some("mine"));
        let added = service(KymaLegacy, pod, &[]);
        assert_eq!(added.len(), 1, "only the name is added: {added:?}");
    }
}

#[test]
fn legacy_names_come_from_what_the_resource_says_too() {
    let cases: [(Option<Pod>, Pairs<'_>, &str); 6] = [
        (None, &[("k8s.pod.name", "p")], "p"),
        (None, &[("k8s.pod.name", "p"), ("k8s.job.name", "j")], "j"),
        (None, &[("k8s.statefulset.name", "s"), ("k8s.daemonset.name", "d")], "d"),
        (None, &[("k8s.deployment.name", "x"), ("service.name", "unknown_service:java")], "x"),
        (named(&[(WorkloadKind::StatefulSet, "s")], &[]), &[("k8s.deployment.name", "x")], "x"),
        (named(&[(WorkloadKind::Deployment, "d")], &[]), &[("k8s.deployment.name", "x")], "x"),
    ];
    for (pod, own, expected) in cases {
        assert_eq!(name(KymaLegacy, pod, own).as_deref(), Some(expected), "{own:?}");
    }
}

#[test]
fn legacy_names_do_not_come_from_internal_attributes_or_from_what_is_no_name() {
    let internal: Pairs<'_> = &[("kyma.kubernetes_io_app_name", "k"), ("kyma.app_name", "a"), ("k8s.pod.name", "p")];
    assert_eq!(name(KymaLegacy, None, internal).as_deref(), Some("p"));
    for key in ["k8s.deployment.name", "k8s.daemonset.name", "k8s.statefulset.name", "k8s.job.name"] {
        assert_eq!(name(KymaLegacy, None, &[(key, ""), ("k8s.pod.name", "p")]).as_deref(), Some("p"), "{key}");
    }
}

#[test]
fn unknown_services_are_told_from_named_ones() {
    // Own name; what is left of it without a pod; and with one.
    let cases = [
        (KymaLegacy, "unknown_service", Some("unknown_service"), "cart"),
        (KymaLegacy, "unknown_service:java", Some("unknown_service:java"), "cart"),
        (KymaLegacy, "unknown_service:", Some("unknown_service:"), "unknown_service:"),
        (KymaLegacy, "unknown_service:a\nb", Some("unknown_service:a\nb"), "unknown_service:a\nb"),
        (KymaLegacy, "unknown_services", Some("unknown_services"), "unknown_services"),
        (KymaLegacy, "my unknown_service", Some("my unknown_service"), "my unknown_service"),
        (Otel, "unknown_service", None, "cart"),
        (Otel, "unknown_service:java", None, "cart"),
        (Otel, "unknown_services", None, "cart"),
        (Otel, "my unknown_service", Some("my unknown_service"), "my unknown_service"),
    ];
    for (mode, own, without, with) in cases {
        let own: Pairs<'_> = &[("service.name", own)];
        assert_eq!(name(mode, None, own).as_deref(), without, "{mode:?} {own:?}");
        assert_eq!(name(mode, Some(cart()), own).as_deref(), Some(with), "{mode:?} {own:?}");
    }
}

#[test]
fn otel_names_come_from_annotations_then_labels_then_owners_then_the_pod() {
    let labels: Pairs<'_> =
        &[("app.kubernetes.io/name", "name"), ("app.kubernetes.io/instance", "instance"), ("app", "no")];
    let annotated = |value: &str| {
        let pod = named(&[(WorkloadKind::Deployment, "deployment")], labels);
        let annotations = strings(&[("resource.opentelemetry.io/service.name", value)]);
        pod.map(|pod| Pod { annotations, ..pod })
    };
    let cases = [
        (annotated("annotation"), "annotation"),
        (annotated(""), "instance"),
        (named(&[(WorkloadKind::Deployment, "deployment")], labels), "instance"),
        (named(&[(WorkloadKind::Deployment, "deployment")], &labels[..1]), "name"),
        (named(&[(WorkloadKind::Deployment, "deployment")], &labels[2..]), "deployment"),
        (named(&[(WorkloadKind::ReplicaSet, "replicaset")], &[]), "replicaset"),
        (named(&[(WorkloadKind::StatefulSet, "statefulset")], &[]), "statefulset"),
        (named(&[(WorkloadKind::DaemonSet, "daemonset")], &[]), "daemonset"),
        (named(&[(WorkloadKind::Job, "job"), (WorkloadKind::CronJob, "cronjob")], &[]), "cronjob"),
        (named(&[(WorkloadKind::Job, "job")], &[]), "job"),
        (named(&[], &[]), "pod"),
    ];
    for (pod, expected) in cases {
        assert_eq!(name(Otel, pod.clone(), &[]).as_deref(), Some(expected));
        assert_eq!(name(Otel, pod, &[("service.name", "mine")]).as_deref(), Some("mine"));
    }
    assert_eq!(name(Otel, None, &[]), None);
}

#[test]
fn otel_adds_namespace_version_and_instance() {
    let all: Pairs<'_> =
        &[("instance.id", "shop.cart-5d9c-x2x4z.app"), ("name", "cart"), ("namespace", "shop"), ("version", "1.4")];
    assert_eq!(service(Otel, Some(cart()), &[]), strings::<Vec<_>>(all));

    let labels = strings(&[("app.kubernetes.io/version", "label")]);
    let pod = Pod { labels, ..cart() };
    let version = |pod: &Pod, own: Pairs<'_>| service(Otel, Some(pod.clone()), own).pop().unwrap().1;
    assert_eq!(version(&pod, &[]), "label");
    let annotations = strings(&[
        ("resource.opentelemetry.io/service.version", "annotation"),
        ("resource.opentelemetry.io/service.instance.id", "i"),
        ("resource.opentelemetry.io/service.namespace", "ns"),
        ("resource.opentelemetry.io/service.name", "n"),
    ]);
    let pod = Pod { annotations, ..pod };
    let annotated: Pairs<'_> = &[("instance.id", "i"), ("name", "n"), ("namespace", "ns"), ("version", "annotation")];
    assert_eq!(service(Otel, Some(pod.clone()), &[]), strings::<Vec<_>>(annotated));
    assert_eq!(version(&pod, &[("service.version", "mine")]), "mine");
}

#[test]
fn otel_versions_are_those_of_images() {
    let cases = [
        ("cart:1.4", Some("1.4")),
        ("registry:5000/shop/cart:1.4", Some("1.4")),
        ("registry:5000/shop/cart", None),
        ("cart", None),
        ("cart:", None),
        ("cart@sha256:12", Some("sha256:12")),
        ("r:1/cart:1.4@sha256:12", Some("1.4@sha256:12")),
        ("", None),
    ];
    for (image, expected) in cases {
        let pod = Pod { containers: [("app".into(), image.into())].into(), ..cart() };
        let attributes = service(Otel, Some(pod), &[]);
        let version = attributes.iter().find(|(key, _)| key == "version").map(|(_, value)| value.as_str());
        assert_eq!(version, expected, "{image}");
    }
}

#[test]
fn otel_containers_are_found_by_name_or_alone() {
    let (one, two): (Pairs<'_>, Pairs<'_>) = (&[("app", "app:1")], &[("app", "app:1"), ("proxy", "proxy:2")]);
    let cases: [(Pairs<'_>, Pairs<'_>, Option<&str>); 5] = [
        (two, &[("k8s.container.name", "proxy")], Some("2")),
        (two, &[("k8s.container.name", "other")], None),
        (two, &[], None),
        (one, &[], Some("1")),
        (one, &[("k8s.container.name", "other")], None),
    ];
    for (containers, own, expected) in cases {
        let named = containers.iter().map(|(name, image)| ((*name).into(), (*image).into())).collect();
        let pod = Pod { containers: named, ..cart() };
        let attributes = service(Otel, Some(pod), own);
        let version = attributes.iter().find(|(key, _)| key == "version").map(|(_, value)| value.as_str());
        assert_eq!(version, expected, "{own:?} of {containers:?}");
    }
}

#[test]
fn otel_annotations_become_attributes_of_any_name() {
    let annotations = strings(&[
        ("resource.opentelemetry.io/deployment.environment", "prod"),
        ("resource.opentelemetry.io/k8s.node.name", "annotated"),
        ("resource.opentelemetry.io/kyma.module", "internal"),
        ("resource.opentelemetry.io/", "nameless"),
        ("other/deployment.environment", "other"),
    ]);
    let pod = Pod { annotations, ..cart() };
    let added = enriched_resource(&mode(Otel), std::slice::from_ref(&pod), &[], Some("10.0.0.1"));
    assert!(added.contains(&("deployment.environment".into(), "prod".into())));
    assert!(added.contains(&("k8s.node.name".into(), "annotated".into())));
    assert!(!added.iter().any(|(key, _)| key.starts_with("kyma.") || key.is_empty()));
    let legacy = enriched_resource(&legacy(), &[pod], &[], Some("10.0.0.1"));
    assert!(!legacy.iter().any(|(key, _)| key == "deployment.environment"));
}

#[test]
fn otel_namespace_of_the_service_is_that_of_the_resource() {
    let own: Pairs<'_> = &[("k8s.namespace.name", "mine")];
    assert_eq!(service(Otel, None, own), strings::<Vec<_>>(&[("namespace", "mine")]));
    assert!(service(Otel, Some(cart()), own).contains(&("namespace".into(), "shop".into())));
    assert_eq!(service(KymaLegacy, None, own), strings::<Vec<_>>(&[("name", "unknown_service")]));
}

/// A proxy speaks of the service it stands before; the pod knows better.
#[test]
fn otel_proxies_have_no_say_about_the_service() {
    let own: Pairs<'_> = &[("service.name", "theirs"), ("service.criticality", "theirs"), ("services", "kept")];
    let (proxy, app): (Pairs<'_>, Pairs<'_>) = (&[("component", "proxy")], &[("component", "grpc")]);
    let spans_and_names: [(&[Pairs<'_>], &str); 4] =
        [(&[proxy], "cart"), (&[app, proxy, app], "cart"), (&[app], "theirs"), (&[], "theirs")];
    for (spans, expected) in spans_and_names {
        for noise in [Noise::Drop, Noise::Keep] {
            let request = traces(own, spans).encode_to_vec();
            let enricher = enricher(&mode(Otel), &[cart()]);
            let (bytes, _) = enrich(&enricher, Signal::Traces, &request, Some("10.0.0.1"), noise);
            let decoded = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
            let pairs = resource_pairs(decoded.resource_spans[0].resource.as_ref());
            let has = |key: &str, value: &str| pairs.contains(&(key.into(), value.into()));
            assert!(has("service.name", expected), "{pairs:?}");
            assert_eq!(has("service.criticality", "theirs"), expected == "theirs", "{pairs:?}");
            assert!(has("services", "kept"));
        }
    }
    let request = traces(own, &[proxy]).encode_to_vec();
    let legacy = enricher(&legacy(), &[]);
    assert_eq!(enrich(&legacy, Signal::Traces, &request, None, Noise::Drop).0, request, "a rule of the other mode");
}

#[test]
fn names_that_are_no_text() {
    let enriched = |key: &str| {
        let mut request = traces(&[("k8s.pod.name", "p")], &[&[]]);
        let resource = request.resource_spans[0].resource.as_mut().unwrap();
        resource.attributes.push(key_value(key, Some(Value::IntValue(5))));
        let enricher = enricher(&legacy(), &[cart()]);
        let (bytes, _) = enrich(&enricher, Signal::Traces, &request.encode_to_vec(), Some("10.0.0.1"), Noise::Drop);
        let enriched = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
        resource_pairs(enriched.resource_spans[0].resource.as_ref())
    };
    let name = |name: &str| ("service.name".to_owned(), name.to_owned());
    assert!(enriched("service.name").contains(&name("Some(IntValue(5))")), "it is a name");
    assert!(enriched("k8s.deployment.name").contains(&name("p")), "it names no service");
}
