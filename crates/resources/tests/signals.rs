//! What pipelines of every kind, `Telemetry` and objects of a cluster become in the plan, and what findings know.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use weir_plan::{
    Backlog, Cluster, Enrichment, Filter, Input, Namespaces, Pipeline, Plan, Pod, PodLabels, Processing,
    ServiceEnrichment, Signal, Temporality, Transform, Workload, WorkloadKind,
};
use weir_resources::{Loaded, PipelineRef, Reason, Report, Severity, Source, load};

/// The day on which certificates are judged.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_272_000)
}

fn try_load(text: &str) -> Result<Loaded, Report> {
    load(&[Source { name: "x.yaml".to_owned(), text: text.to_owned() }], now())
}

fn plan(text: &str) -> Plan {
    try_load(text).unwrap_or_else(|report| panic!("{report}\n{text}")).plan
}

/// A pipeline of this kind with the fields of its `spec` in braces, its output left out.
fn pipeline(kind: &str, version: &str, spec: &str) -> Pipeline {
    let output = "output: {otlp: {endpoint: {value: 'b:1'}}}";
    let text = format!(
        "apiVersion: telemetry.kyma-project.io/{version}\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n  {output}\n{spec}"
    );
    plan(&text).pipelines.pop().expect("the text has a pipeline")
}

fn only(names: &[&str]) -> Namespaces {
    Namespaces::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

fn except(names: &[&str]) -> Namespaces {
    Namespaces::Except(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn every_kind_takes_its_signal_and_all_of_it_by_default() {
    for (kind, signal, id) in [
        ("TracePipeline", Signal::Traces, "otlp_grpc/tracepipeline-x"),
        ("MetricPipeline", Signal::Metrics, "otlp_grpc/metricpipeline-x"),
        ("LogPipeline", Signal::Logs, "otlp_grpc/logpipeline-x"),
    ] {
        for version in ["v1beta1", "v1alpha1"] {
            let pipeline = pipeline(kind, version, "");
            assert_eq!(pipeline, Pipeline::new(signal, "x", pipeline.output.clone()));
            assert_eq!(pipeline.exporter_id(), id);
        }
    }
}

#[test]
fn http_paths_follow_the_signal() {
    for (kind, path) in
        [("TracePipeline", "/v1/traces"), ("MetricPipeline", "/v1/metrics"), ("LogPipeline", "/v1/logs")]
    {
        let text = format!(
            "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: {kind}\nmetadata: {{name: x}}\n\
             spec: {{output: {{otlp: {{protocol: http, endpoint: {{value: 'http://b:1/base'}}}}}}}}\n"
        );
        assert_eq!(plan(&text).pipelines[0].output.endpoint.path, format!("/base{path}"));
    }
}

#[test]
fn otlp_input_selects() {
    for kind in ["MetricPipeline", "LogPipeline"] {
        let beta = |otlp: &str| pipeline(kind, "v1beta1", &format!("  input: {{otlp: {otlp}}}\n")).input;
        let alpha = |otlp: &str| pipeline(kind, "v1alpha1", &format!("  input: {{otlp: {otlp}}}\n")).input;
        let off = Input { otlp: false, ..Input::default() };
        assert_eq!(beta("{enabled: false}"), off);
        assert_eq!(alpha("{disabled: true}"), off);
        assert_eq!(beta("{enabled: true}"), Input::default());
        assert_eq!(alpha("{disabled: false}"), Input::default());
        assert_eq!(beta("{namespaces: {include: [b, a]}}").namespaces, only(&["b", "a"]));
        assert_eq!(alpha("{namespaces: {exclude: [a]}}").namespaces, except(&["a"]));
        for all in ["{namespaces: {}}", "{namespaces: {include: []}}", "{namespaces: {exclude: []}}", "{}"] {
            assert_eq!(beta(all).namespaces, Namespaces::All, "{all}");
        }
    }
}

#[test]
fn rules_keep_their_text_and_order() {
    let spec = "  transform:
    - conditions: ['IsMatch(span.name, \"a\")', 'true']
      statements: ['set(span.name, \"b\")']
    - statements: [one(), two()]
  filter:
    - conditions: [' span.name == \"c\"']
    - conditions: [a == 1, b == 2]
";
    let text = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let expected = Processing {
        transforms: vec![
            Transform {
                conditions: text(&["IsMatch(span.name, \"a\")", "true"]),
                statements: text(&["set(span.name, \"b\")"]),
            },
            Transform { conditions: Vec::new(), statements: text(&["one()", "two()"]) },
        ],
        filters: vec![
            Filter { conditions: text(&[" span.name == \"c\""]) },
            Filter { conditions: text(&["a == 1", "b == 2"]) },
        ],
        temporality: Temporality::Preserve,
    };
    for kind in ["TracePipeline", "MetricPipeline", "LogPipeline"] {
        assert_eq!(pipeline(kind, "v1beta1", spec).processing, expected);
    }
}

#[test]
fn temporality_belongs_to_metrics() {
    for (temporality, expected) in [("delta", Temporality::Delta), ("preserve", Temporality::Preserve)] {
        let text = format!(
            "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: MetricPipeline\nmetadata: {{name: x}}\n\
             spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}, temporality: {temporality}}}}}}}\n"
        );
        assert_eq!(plan(&text).pipelines[0].processing.temporality, expected);
    }
}

#[test]
fn annotations_work_for_every_kind() {
    for kind in ["TracePipeline", "MetricPipeline", "LogPipeline"] {
        let text = format!(
            "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: {kind}\n\
             metadata: {{name: x, annotations: {{weir.dev/istio-noise-filter: disabled, weir.dev/backlog-max-age: 1h}}}}\n\
             spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}}}\n"
        );
        let pipeline = plan(&text).pipelines.pop().unwrap();
        assert!(!pipeline.input.drop_istio_noise);
        assert_eq!(pipeline.backlog, Backlog { max_age: Duration::from_secs(60 * 60), ..Backlog::default() });
    }
}

#[test]
fn kinds_may_share_a_name() {
    let text: String = ["TracePipeline", "MetricPipeline", "LogPipeline"]
        .iter()
        .map(|kind| {
            format!(
                "---\napiVersion: telemetry.kyma-project.io/v1beta1\nkind: {kind}\nmetadata: {{name: x}}\n\
                 spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}}}\n"
            )
        })
        .collect();
    assert_eq!(plan(&text).pipelines.len(), 3);
}

#[test]
fn a_log_pipeline_for_fluent_bit_leaves_the_others_alone() {
    let text = "
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {name: old}
spec: {output: {http: {host: {value: a}}}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {name: new}
spec: {output: {otlp: {endpoint: {value: 'b:1'}}}, input: {runtime: {enabled: false}}}
";
    let Loaded { plan, warnings } = try_load(text).unwrap();
    let names: Vec<_> = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
    assert_eq!(names, ["new"]);
    let old = Some(PipelineRef { signal: Signal::Logs, name: "old".to_owned() });
    assert!(warnings.len() == 2 && warnings.iter().all(|warning| warning.pipeline == old), "{warnings:?}");
}

/// A pipeline and this document.
fn with_pipeline(document: &str) -> String {
    format!(
        "{document}\n---\napiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\nmetadata: {{name: x}}\n\
         spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}}}\n"
    )
}

#[test]
fn telemetry_says_how_to_enrich() {
    let enrichment = |metadata: &str, spec: &str| {
        plan(&with_pipeline(&format!(
            "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {metadata}\nspec: {spec}"
        )))
        .enrichment
    };
    let annotated = |value: &str| {
        format!("{{name: default, annotations: {{telemetry.kyma-project.io/service-enrichment: {value}}}}}")
    };
    assert_eq!(enrichment(&annotated("otel"), "{}").service, ServiceEnrichment::Otel);
    assert_eq!(enrichment(&annotated("kyma-legacy"), "{}").service, ServiceEnrichment::KymaLegacy);
    assert_eq!(enrichment("{name: default}", "").service, ServiceEnrichment::KymaLegacy);
    assert_eq!(enrichment("{name: other}", "{enrichments: {cluster: {name: a}}}"), Enrichment::default());
    assert_eq!(plan(&with_pipeline("")).enrichment.service, ServiceEnrichment::Otel, "no Telemetry at all");

    let spec = "{enrichments: {cluster: {name: prod}, extractPodLabels: [{key: team}, {keyPrefix: app/}]}}";
    let expected = Enrichment {
        service: ServiceEnrichment::Otel,
        cluster: Cluster { name: Some("prod".to_owned()), ..Cluster::default() },
        pod_labels: vec![PodLabels::Key("team".to_owned()), PodLabels::Prefix("app/".to_owned())],
    };
    assert_eq!(enrichment(&annotated("otel"), spec), expected);
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn workload(kind: WorkloadKind, name: &str) -> Workload {
    Workload { kind, name: name.to_owned() }
}

const OBJECTS: &str = include_str!("cluster.yaml");

#[test]
fn objects_of_a_cluster_become_metadata() {
    let plan = plan(&with_pipeline(OBJECTS));
    let cluster = Cluster {
        name: None,
        uid: Some("5f2a8c0e-7d1b-4f3a-9a6e-1c2d3e4f5a6b".to_owned()),
        cloud_provider: Some("sap".to_owned()),
    };
    assert_eq!(plan.enrichment.cluster, cluster);

    let node_labels = map(&[
        ("kubernetes.io/arch", "amd64"),
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/region", "eu-central-1"),
        ("topology.kubernetes.io/zone", "eu-central-1a"),
    ]);
    let cart = Pod {
        name: "cart-7d9c5b6f4-x2x8p".to_owned(),
        namespace: "shop".to_owned(),
        uid: "0b5d1f0e-98d2-4e5a-8c43-6a7c1ce9a001".to_owned(),
        ips: vec!["10.96.3.17".parse().unwrap(), "fd00::311".parse().unwrap()],
        labels: map(&[("app.kubernetes.io/name", "cart"), ("pod-template-hash", "7d9c5b6f4")]),
        annotations: map(&[("resource.opentelemetry.io/service.name", "shopping-cart")]),
        node: Some("node-1".to_owned()),
        node_labels: node_labels.clone(),
        workloads: vec![workload(WorkloadKind::Deployment, "cart")],
        containers: [("cart", "registry.example.com/cart:1.4.2"), ("proxy", "proxy:2"), ("init", "busybox")]
            .map(|(name, image)| (name.to_owned(), image.to_owned()))
            .to_vec(),
    };
    let pods = plan.metadata.pods;
    assert_eq!(pods[0], cart);
    let workloads: Vec<_> = pods.iter().map(|pod| (pod.name.as_str(), pod.workloads.as_slice())).collect();
    use WorkloadKind::{CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet};
    assert_eq!(
        workloads,
        [
            ("cart-7d9c5b6f4-x2x8p", [workload(Deployment, "cart")].as_slice()),
            ("bare-6c4-a", &[workload(ReplicaSet, "bare-6c4")]),
            ("report-29-b", &[workload(Job, "report-29"), workload(CronJob, "report")]),
            ("once-c", &[workload(Job, "once")]),
            ("db-0", &[workload(StatefulSet, "db")]),
            ("agent-d", &[workload(DaemonSet, "agent")]),
            ("alone", &[]),
        ]
    );
    let ips: Vec<_> = pods.iter().map(|pod| pod.ips.len()).collect();
    assert_eq!(ips, [2, 1, 0, 1, 1, 0, 0], "none once a pod has ended, in the host's network, and before there is one");
    assert_eq!(pods[6].namespace, "default");
}

#[test]
fn objects_may_come_from_files_of_their_own() {
    let file = |name: &str, text: &str| Source { name: name.to_owned(), text: text.to_owned() };
    let (pipelines, pods) = (with_pipeline(""), OBJECTS);
    let sources = [file("pods.yaml", pods), file("pipelines.yaml", &pipelines)];
    let loaded = load(&sources, now()).unwrap();
    assert_eq!(loaded.plan.metadata.pods.len(), 7);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn findings_know_their_pipeline_and_their_reason() {
    let certificates = include_str!("certificates.yaml");
    let text = format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {{name: address}}
spec: {{output: {{otlp: {{endpoint: {{value: b}}}}}}}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: MetricPipeline
metadata: {{name: secret}}
spec: {{output: {{otlp: {{endpoint: {{valueFrom: {{secretKeyRef: {{name: a, namespace: b, key: c}}}}}}}}}}}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: MetricPipeline
metadata: {{name: key}}
spec: {{output: {{otlp: {{endpoint: {{valueFrom: {{secretKeyRef: {{name: tls, namespace: default, key: c}}}}}}}}}}}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {{name: rule}}
spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}, input: {{runtime: {{enabled: false}}}}, filter: [{{conditions: ['']}}]}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: MetricPipeline
metadata: {{name: metric}}
spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}, input: {{runtime: {{enabled: true, additionalMetrics: [a]}}}}}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {{name: expired}}
spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}, tls: {{ca: {{valueFrom: {{secretKeyRef: {{name: tls, namespace: default, key: ca-expired}}}}}}}}}}}}}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {{name: soon}}
spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}, tls: {{ca: {{valueFrom: {{secretKeyRef: {{name: tls, namespace: default, key: ca-soon}}}}}}}}}}}}}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {{name: tls}}
spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}, tls: {{ca: {{value: a}}}}}}}}}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {{name: field}}
spec: {{outputs: {{}}, output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}}}
---
kind: nothing
---
{certificates}"
    );
    let report = try_load(&text).unwrap_err();
    let found: Vec<_> = report
        .iter()
        .map(|found| (found.pipeline.as_ref().map(ToString::to_string), found.reason.map(Reason::name), found.severity))
        .collect();
    let of = |pipeline: &str, reason| (Some(pipeline.to_owned()), reason, Severity::Error);
    let expected = [
        of("TracePipeline address", Some("EndpointInvalid")),
        of("MetricPipeline secret", Some("ReferencedSecretMissing")),
        of("MetricPipeline key", Some("ReferencedSecretMissing")),
        of("LogPipeline rule", Some("OTTLSpecInvalid")),
        (Some("MetricPipeline metric".to_owned()), None, Severity::Warning),
        of("MetricPipeline metric", Some("RuntimeAdditionalMetricInvalid")),
        of("TracePipeline expired", Some("TLSCertificateExpired")),
        (Some("TracePipeline soon".to_owned()), Some("TLSCertificateAboutToExpire"), Severity::Warning),
        of("TracePipeline tls", Some("TLSConfigurationInvalid")),
        of("TracePipeline field", None),
        (None, None, Severity::Error),
        (None, None, Severity::Error),
    ];
    assert_eq!(found, expected);
}

#[test]
fn certificates_are_judged_at_the_time_given() {
    let text = with_pipeline("").replace(
        "endpoint: {value: 'b:1'}",
        "endpoint: {value: 'b:1'}, tls: {ca: {valueFrom: {secretKeyRef: {name: tls, namespace: default, key: ca-soon}}}}",
    ) + "---\n" + include_str!("certificates.yaml");
    let source = [Source { name: "x.yaml".to_owned(), text }];
    // Valid until 2026-06-10 00:00:00.
    let end = now() + Duration::from_secs(9 * 24 * 60 * 60);
    let two_weeks = Duration::from_secs(14 * 24 * 60 * 60);
    let second = Duration::from_secs(1);
    let warnings = |at| load(&source, at).unwrap().warnings.len();
    assert_eq!(warnings(end - two_weeks - second), 0);
    assert_eq!(warnings(end - two_weeks), 1);
    assert_eq!(warnings(end), 1);
    assert!(load(&source, end + second).is_err());
}
