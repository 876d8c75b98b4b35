//! What pipelines of every kind, `Telemetry` and objects of a cluster become in the plan, and what findings know.

use std::time::Duration;

use weir_plan::{
    Backlog, Body, CollectionIntervals, Compression, ContainerLogs, Endpoint, Enrichment, Filter, Input, IstioInput,
    Language, Multiline, OtlpInput, Output, Pipeline, PipelineId, Plan, PodLabels, Processing, PrometheusInput,
    Protocol, RecordShape, RuntimeInput, RuntimeMetrics, RuntimeResource, Selector, ServiceEnrichment, Signal,
    Temporality, Tls, Transform,
};
use weir_resources::{Loaded, Options, Reason, Report, Severity, Source, load};

use crate::{options, plan, with_pipeline};

fn try_load(text: &str) -> Result<Loaded, Report> {
    load(&[Source { name: "x.yaml".to_owned(), text: text.to_owned() }], &options())
}

/// A pipeline of this kind with the fields of its `spec` in braces, its output left out.
fn pipeline(kind: &str, version: &str, spec: &str) -> Pipeline {
    let output = "output: {otlp: {endpoint: {value: 'b:1'}}}";
    let text = format!(
        "apiVersion: telemetry.kyma-project.io/{version}\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n  {output}\n{spec}"
    );
    plan(&text).pipelines.pop().expect("the text has a pipeline")
}

fn only(names: &[&str]) -> Selector {
    Selector::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

fn except(names: &[&str]) -> Selector {
    Selector::Except(names.iter().map(|name| (*name).to_owned()).collect())
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
            let mut expected = Pipeline::new(signal, "x", pipeline.output.clone());
            expected.input.container_logs = (signal == Signal::Logs).then(container_logs);
            assert_eq!(pipeline, expected);
            assert_eq!(pipeline.exporter_label(), id);
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

/// Container logs as they are collected by default.
fn container_logs() -> ContainerLogs {
    ContainerLogs {
        namespaces: without_system(),
        containers: Selector::All,
        shape: RecordShape::Parsed { keep_original_body: true },
        multiline: Multiline::default(),
    }
}

#[test]
fn stack_traces_are_joined_as_an_annotation_says() {
    let text = "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: LogPipeline\nmetadata: {name: x, annotations: \
                {weir.dev/multiline: 'java, go'}}\nspec: {output: {otlp: {endpoint: {value: 'b:1'}}}}\n---\n\
                apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: u, annotations: {weir.dev/multiline: ''}}\n";
    let Loaded { plan, cluster, .. } = try_load(text).unwrap();
    let both = Multiline::of(Language::Java).with(Language::Go);
    let expected = ContainerLogs { multiline: both, ..container_logs() };
    assert_eq!(plan.pipelines[0].input.container_logs, Some(expected));
    assert_eq!(cluster.pods[0].multiline, Some(Multiline::default()), "none, whatever a pipeline says");
    assert_eq!(pipeline("LogPipeline", "v1beta1", "").input.container_logs, Some(container_logs()));
}

fn without_system() -> Selector {
    except(&["kyma-system", "kube-system", "istio-system"])
}

#[test]
fn otlp_input_selects() {
    for kind in ["MetricPipeline", "LogPipeline"] {
        let beta = |otlp: &str| pipeline(kind, "v1beta1", &format!("  input: {{otlp: {otlp}}}\n")).input.otlp;
        let alpha = |otlp: &str| pipeline(kind, "v1alpha1", &format!("  input: {{otlp: {otlp}}}\n")).input.otlp;
        let of = |namespaces| Some(OtlpInput { namespaces });
        assert_eq!(beta("{enabled: false, namespaces: {include: [a]}}"), None);
        assert_eq!(alpha("{disabled: true}"), None);
        assert_eq!(beta("{enabled: true}"), of(Selector::All));
        assert_eq!(alpha("{disabled: false}"), of(Selector::All));
        assert_eq!(beta("{namespaces: {include: [b, a]}}"), of(only(&["b", "a"])));
        assert_eq!(alpha("{namespaces: {exclude: [a]}}"), of(except(&["a"])));
        for all in ["{namespaces: {}}", "{namespaces: {include: []}}", "{namespaces: {exclude: []}}", "{}"] {
            assert_eq!(beta(all), of(Selector::All), "{all}");
        }
    }
}

#[test]
fn inputs_that_fetch_metrics_are_in_the_plan_with_their_defaults() {
    for version in ["v1beta1", "v1alpha1"] {
        let input = |inputs: &str| pipeline("MetricPipeline", version, &format!("  input: {{{inputs}}}\n")).input;
        assert_eq!(input("runtime: {}, prometheus: {}, istio: {enabled: false, envoyMetrics: {}}"), Input::default());
        let all = "runtime: {enabled: true}, prometheus: {enabled: true}, istio: {enabled: true}";
        let expected = Input {
            runtime: Some(RuntimeInput {
                namespaces: without_system(),
                metrics: RuntimeMetrics::of(&RuntimeResource::ALL),
            }),
            prometheus: Some(PrometheusInput {
                namespaces: without_system(),
                diagnostic_metrics: false,
                static_targets: Vec::new(),
                native_histograms: false,
            }),
            istio: Some(IstioInput { namespaces: without_system(), diagnostic_metrics: false, envoy_metrics: false }),
            ..Input::default()
        };
        assert_eq!(input(all), expected);
        assert_eq!(input("runtime: {enabled: true, namespaces: {}}").runtime.unwrap().namespaces, Selector::All);
    }
}

#[test]
fn targets_are_asked_for_native_histograms_if_the_annotation_says_so() {
    let is_wanted = |annotations: &str| {
        let text = format!(
            "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: MetricPipeline\n\
             metadata: {{name: x, annotations: {{weir.dev/static-targets: 'http://a/'{annotations}}}}}\n\
             spec: {{input: {{prometheus: {{enabled: true}}}}, output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}}}\n"
        );
        let input = plan(&text).pipelines.remove(0).input.prometheus.unwrap();
        assert_eq!(input.static_targets, ["http://a/"]);
        input.native_histograms
    };
    assert!(!is_wanted(""));
    assert!(!is_wanted(", weir.dev/native-histograms: 'false'"));
    assert!(is_wanted(", weir.dev/native-histograms: 'true'"));
}

#[test]
fn inputs_that_fetch_metrics_are_in_the_plan_as_they_are_asked_for() {
    let input = "  input:
    otlp: {enabled: false}
    runtime:
      enabled: true
      namespaces: {include: [shop]}
      resources: {job: {enabled: true}, volume: {enabled: false}, node: {enabled: false}, pod: {}}
      additionalMetrics: [k8s.pod.uptime, k8s.node.uptime]
    prometheus: {enabled: true, namespaces: {exclude: [a]}, diagnosticMetrics: {enabled: true}}
    istio: {enabled: true, diagnosticMetrics: {enabled: true}, envoyMetrics: {enabled: true}}
";
    use RuntimeResource::{Container, DaemonSet, Deployment, Job, Pod, StatefulSet};
    let mut metrics = RuntimeMetrics::of(&[Pod, Container, DaemonSet, Deployment, StatefulSet, Job]);
    assert!(metrics.insert("k8s.pod.uptime") && metrics.insert("k8s.node.uptime"));
    let expected = Input {
        otlp: None,
        runtime: Some(RuntimeInput { namespaces: only(&["shop"]), metrics }),
        prometheus: Some(PrometheusInput {
            namespaces: except(&["a"]),
            diagnostic_metrics: true,
            static_targets: Vec::new(),
            native_histograms: false,
        }),
        istio: Some(IstioInput { namespaces: without_system(), diagnostic_metrics: true, envoy_metrics: true }),
        ..Input::default()
    };
    assert_eq!(pipeline("MetricPipeline", "v1beta1", input).input, expected);
}

#[test]
fn container_logs_are_in_the_plan() {
    let logs = |version, runtime: &str| pipeline("LogPipeline", version, &format!("  input: {{{runtime}}}\n")).input;
    let beta = |runtime: &str| logs("v1beta1", &format!("runtime: {{{runtime}}}")).container_logs;
    let alpha = |runtime: &str| logs("v1alpha1", &format!("application: {{{runtime}}}")).container_logs;
    let of = |namespaces| Some(ContainerLogs { namespaces, ..container_logs() });

    assert_eq!(logs("v1beta1", "otlp: {}").container_logs, of(without_system()));
    for default in ["", "enabled: true", "containers: {}"] {
        assert_eq!((beta(default), alpha(default)), (of(without_system()), of(without_system())), "{default}");
    }
    let off = "enabled: false, namespaces: {include: [a]}";
    assert_eq!((beta(off), alpha(off)), (None, None));
    let some = "namespaces: {include: [a]}, containers: {exclude: [c]}, keepOriginalBody: false";
    let (namespaces, containers) = (only(&["a"]), except(&["c"]));
    let expected = Some(ContainerLogs {
        namespaces,
        containers,
        shape: RecordShape::Parsed { keep_original_body: false },
        ..container_logs()
    });
    assert_eq!((beta(some), alpha(some)), (expected.clone(), expected));
    // The versions differ in what asks for all.
    assert_eq!((beta("namespaces: {}"), alpha("namespaces: {}")), (of(Selector::All), of(without_system())));
    assert_eq!(alpha("namespaces: {system: true}"), of(Selector::All));
    assert_eq!(alpha("namespaces: {system: false}"), of(without_system()));
}

/// What is blamed is the word in the document, if the text stands there as it is.
#[test]
fn wrong_rules_are_found_where_they_are_wrong() {
    let report = |rules: &str| {
        let text = format!(
            "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: LogPipeline\nmetadata: {{name: x}}\nspec:\n  \
             input: {{runtime: {{enabled: false}}}}\n  output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}\n{rules}"
        );
        let mut found = try_load(&text).unwrap_err().diagnostics;
        found.retain(|diagnostic| diagnostic.reason == Some(Reason::OttlSpecInvalid));
        found.iter().map(|found| format!("{found}")).collect::<Vec<_>>()
    };
    let cases = [
        (
            "  filter:\n  - conditions:\n    - isMatch(log.body, \"x\")\n",
            "x.yaml:9:7: error: spec.filter[0].conditions[0]",
        ),
        (
            "  filter:\n  - conditions:\n    - log.severity_number > 1\n    - 'IsMatch(log.bodi, \"x\")'\n",
            "x.yaml:10:20: error: spec.filter[0].conditions[1]",
        ),
        (
            "  transform:\n  - statements:\n    - set(log.attributes[\"a\"], frobnicate)\n",
            "x.yaml:9:32: error: spec.transform[0].statements[0]",
        ),
    ];
    for (rules, expected) in cases {
        let found = report(rules);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:#?}");
        let published = "OTTL specification is invalid, ";
        let end = ". Fix the syntax error indicated by the message or see troubleshooting: names are case-sensitive, and functions, paths, enums and kinds of arguments are checked before anything runs (docs/ottl.md)";
        assert!(found[0].contains(published) && found[0].contains(end), "{found:#?}");
    }
    let found = report("  filter:\n  - conditions:\n    - isMatch(log.body, \"x\")\n");
    assert!(found[0].contains("IsMatch"), "what was meant is named: {found:#?}");
}

#[test]
fn rules_keep_their_text_and_order() {
    let spec = "  transform:
    - conditions: ['IsMatch(resource.attributes[\"a\"], \"a\")', 'true']
      statements: ['set(resource.attributes[\"a\"], \"b\")']
    - statements: ['delete_key(resource.attributes, \"b\")', 'set(resource.attributes[\"c\"], 1)']
  filter:
    - conditions: [' scope.name == \"c\"']
    - conditions: [scope.version == nil, resource.attributes == nil]
";
    let text = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let expected = Processing {
        transforms: vec![
            Transform {
                conditions: text(&["IsMatch(resource.attributes[\"a\"], \"a\")", "true"]),
                statements: text(&["set(resource.attributes[\"a\"], \"b\")"]),
            },
            Transform {
                conditions: Vec::new(),
                statements: text(&["delete_key(resource.attributes, \"b\")", "set(resource.attributes[\"c\"], 1)"]),
            },
        ],
        filters: vec![
            Filter { conditions: text(&[" scope.name == \"c\""]) },
            Filter { conditions: text(&["scope.version == nil", "resource.attributes == nil"]) },
        ],
        ..Processing::default()
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
fn a_log_pipeline_of_fluent_bits_language_leaves_the_others_alone() {
    let text = "
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {name: old}
spec: {output: {custom: name null}}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {name: new}
spec: {output: {otlp: {endpoint: {value: 'b:1'}}}, input: {runtime: {enabled: false}}}
";
    let Loaded { plan, warnings, .. } = try_load(text).unwrap();
    let names: Vec<_> = plan.pipelines.iter().map(|pipeline| pipeline.id.name.as_str()).collect();
    assert_eq!(names, ["old", "new"]);
    let old = Some(PipelineId::new(Signal::Logs, "old"));
    assert!(warnings.len() == 1 && warnings.iter().all(|warning| warning.pipeline == old), "{warnings:?}");
}

/// Kind, `spec`, and what is found in it.
type Case = (&'static str, &'static str, &'static [(Option<Reason>, Severity)]);

const FINDINGS: &[Case] = &[
    ("TracePipeline", "{output: {otlp: {endpoint: {value: b}}}}", &[(Some(Reason::EndpointInvalid), Severity::Error)]),
    (
        "MetricPipeline",
        "{output: {otlp: {endpoint: {valueFrom: {secretKeyRef: {name: a, namespace: b, key: c}}}}}}",
        &[(Some(Reason::ReferencedSecretMissing), Severity::Error)],
    ),
    (
        "MetricPipeline",
        "{output: {otlp: {endpoint: {valueFrom: {secretKeyRef: {name: tls, namespace: default, key: c}}}}}}",
        &[(Some(Reason::ReferencedSecretMissing), Severity::Error)],
    ),
    (
        "LogPipeline",
        "{output: {otlp: {endpoint: {value: 'b:1'}}}, input: {runtime: {enabled: false}}, filter: [{conditions: ['']}]}",
        &[(Some(Reason::OttlSpecInvalid), Severity::Error)],
    ),
    (
        "MetricPipeline",
        "{output: {otlp: {endpoint: {value: 'b:1'}}}, input: {runtime: {enabled: true, additionalMetrics: [a]}}}",
        &[(Some(Reason::RuntimeAdditionalMetricInvalid), Severity::Error)],
    ),
    (
        "TracePipeline",
        "{output: {otlp: {endpoint: {value: 'b:1'}, tls: {ca: {valueFrom: {secretKeyRef: {name: tls, namespace: default, key: ca-expired}}}}}}}",
        &[(Some(Reason::TlsCertificateExpired), Severity::Warning)],
    ),
    (
        "TracePipeline",
        "{output: {otlp: {endpoint: {value: 'b:1'}, tls: {ca: {valueFrom: {secretKeyRef: {name: tls, namespace: default, key: ca-soon}}}}}}}",
        &[(Some(Reason::TlsCertificateAboutToExpire), Severity::Warning)],
    ),
    (
        "LogPipeline",
        "{output: {http: {host: {value: a}, tls: {ca: {value: a}}}}}",
        &[(None, Severity::Warning), (Some(Reason::TlsConfigurationInvalid), Severity::Error)],
    ),
    ("TracePipeline", "{outputs: {}, output: {otlp: {endpoint: {value: 'b:1'}}}}", &[(None, Severity::Error)]),
];

#[test]
fn findings_know_their_pipeline_and_their_reason() {
    let mut text = String::new();
    let mut expected = Vec::new();
    for (number, (kind, spec, findings)) in FINDINGS.iter().enumerate() {
        text += &format!(
            "---\napiVersion: telemetry.kyma-project.io/v1beta1\nkind: {kind}\nmetadata: {{name: p{number}}}\nspec: {spec}\n"
        );
        let signal = match *kind {
            "TracePipeline" => Signal::Traces,
            "MetricPipeline" => Signal::Metrics,
            _ => Signal::Logs,
        };
        let pipeline = PipelineId::new(signal, format!("p{number}"));
        expected.extend(findings.iter().map(|(reason, severity)| (Some(pipeline.clone()), *reason, *severity)));
    }
    text += "---\napiVersion: nothing\n---\n";
    expected.push((None, None, Severity::Error));
    let report = try_load(&(text + include_str!("../certificates.yaml"))).unwrap_err();
    let found: Vec<_> = report.iter().map(|found| (found.pipeline.clone(), found.reason, found.severity)).collect();
    assert_eq!(found, expected);
}

#[test]
fn reasons_have_their_published_names() {
    let names: Vec<_> =
        FINDINGS.iter().flat_map(|(.., findings)| findings.iter().filter_map(|found| found.0)).collect();
    let names: Vec<_> = names.into_iter().map(Reason::name).collect();
    let expected = [
        "EndpointInvalid",
        "ReferencedSecretMissing",
        "ReferencedSecretMissing",
        "OTTLSpecInvalid",
        "RuntimeAdditionalMetricInvalid",
        "TLSCertificateExpired",
        "TLSCertificateAboutToExpire",
        "TLSConfigurationInvalid",
    ];
    assert_eq!(names, expected);
}

#[test]
fn certificates_are_judged_at_the_time_given() {
    let text = with_pipeline("").replace(
        "endpoint: {value: 'b:1'}",
        "endpoint: {value: 'b:1'}, tls: {ca: {valueFrom: {secretKeyRef: {name: tls, namespace: default, key: ca-soon}}}}",
    ) + "---\n" + include_str!("../certificates.yaml");
    let source = [Source { name: "x.yaml".to_owned(), text }];
    // Valid until 2026-06-10 00:00:00.
    let end = options().now + Duration::from_secs(9 * 24 * 60 * 60);
    let two_weeks = Duration::from_secs(14 * 24 * 60 * 60);
    let second = Duration::from_secs(1);
    let warnings = |at| load(&source, &Options::at(at)).unwrap().warnings.len();
    assert_eq!(warnings(end - two_weeks - second), 0);
    assert_eq!(warnings(end - two_weeks), 1);
    assert_eq!(warnings(end), 1);
    let expired = load(&source, &Options::at(end + second)).unwrap();
    assert_eq!(expired.warnings[0].reason, Some(Reason::TlsCertificateExpired));
    assert_eq!(expired.plan.pipelines.len(), 1, "it stays, and its data waits");
    // A clock that is late, or a certificate that was made for later.
    let early = load(&source, &Options::at(std::time::UNIX_EPOCH)).unwrap();
    let (message, reason) = (&early.warnings[0].message, early.warnings[0].reason);
    assert!(message.starts_with("TLS CA certificate is not valid before 20"), "{message}");
    assert_eq!(reason, Some(Reason::TlsConfigurationInvalid));
    assert_eq!(early.plan.pipelines.len(), 1);
}

/// A backend at an address, with TLS and the default of everything else.
fn backend(host: &str) -> Output {
    Output {
        body: Body::Otlp,
        protocol: Protocol::Grpc,
        endpoint: Endpoint { host: host.to_owned(), port: 4317, path: String::new() },
        compression: Compression::Gzip,
        headers: Vec::new(),
        oauth2: None,
        tls: Some(Tls::default()),
    }
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[test]
fn the_example_for_metrics() {
    let prometheus = PrometheusInput {
        namespaces: Selector::Only(texts(["shop"])),
        diagnostic_metrics: false,
        static_targets: texts(["http://localhost:8888/metrics"]),
        native_histograms: false,
    };
    let pipeline = Pipeline {
        input: Input {
            otlp: Some(OtlpInput { namespaces: except(&["sandbox"]) }),
            prometheus: Some(prometheus),
            ..Input::default()
        },
        processing: Processing {
            transforms: vec![Transform {
                conditions: texts(["IsMatch(metric.name, \"^http_.*\")"]),
                statements: texts(["set(datapoint.attributes[\"team\"], \"shop\")"]),
            }],
            filters: vec![Filter {
                conditions: texts([
                    "metric.type == METRIC_DATA_TYPE_SUMMARY",
                    "datapoint.attributes[\"http.route\"] == \"/healthz\"",
                ]),
            }],
            temporality: Temporality::Delta,
            ..Processing::default()
        },
        backlog: Backlog { max_bytes: 20 << 30, ..Backlog::default() },
        ..Pipeline::new(Signal::Metrics, "backend", backend("metrics.example.com"))
    };
    let enrichment = Enrichment {
        service: ServiceEnrichment::Otel,
        cluster_name: Some("production".to_owned()),
        pod_labels: vec![PodLabels::Key("team".to_owned()), PodLabels::Prefix("app.kubernetes.io/".to_owned())],
    };
    let [runtime, prometheus, istio] = [60, 15, 60].map(Duration::from_secs);
    let intervals = CollectionIntervals { runtime, prometheus, istio };
    let expected = Plan { pipelines: vec![pipeline], enrichment, intervals };
    assert_eq!(plan(include_str!("../../../../examples/metrics.yaml")), expected);
}

#[test]
fn the_example_for_logs() {
    let pipeline = Pipeline {
        input: Input {
            otlp: Some(OtlpInput { namespaces: only(&["shop", "payment"]) }),
            container_logs: Some(ContainerLogs {
                namespaces: only(&["shop", "payment"]),
                containers: except(&["istio-proxy"]),
                shape: RecordShape::Parsed { keep_original_body: false },
                multiline: Multiline::of(Language::Java).with(Language::Python),
            }),
            ..Input::default()
        },
        processing: Processing {
            transforms: vec![Transform {
                conditions: Vec::new(),
                statements: texts(["set(log.severity_text, \"INFO\") where log.severity_text == \"\""]),
            }],
            filters: vec![Filter {
                conditions: texts(["log.severity_number < SEVERITY_NUMBER_INFO", "IsMatch(log.body, \".*healthz.*\")"]),
            }],
            ..Processing::default()
        },
        ..Pipeline::new(Signal::Logs, "backend", backend("logs.example.com"))
    };
    let expected = Plan { pipelines: vec![pipeline], ..Plan::default() };
    assert_eq!(plan(include_str!("../../../../examples/logs.yaml")), expected);
}

/// The one rule about a change. Old and new are right by themselves.
#[test]
fn a_log_pipeline_is_not_switched_to_or_from_otlp() {
    let pipeline = |name: &str, output: &str| {
        format!(
            "---\napiVersion: telemetry.kyma-project.io/v1beta1\nkind: LogPipeline\nmetadata: {{name: {name}}}\nspec:\n  \
             output: {{{output}}}\n"
        )
    };
    let outputs = |pipelines: &[String]| try_load(&with_pipeline(&pipelines.concat())).unwrap().log_outputs;
    let [otlp, http, custom] = ["otlp: {endpoint: {value: 'b:1'}}", "http: {host: {value: b}}", "custom: name null"];
    let before = outputs(&[pipeline("a", otlp), pipeline("b", http), pipeline("c", otlp)]);
    for allowed in [
        vec![],
        vec![pipeline("a", otlp), pipeline("b", custom)],
        vec![pipeline("new", http), pipeline("other", otlp), pipeline("c", otlp)],
    ] {
        assert_eq!(outputs(&allowed).check_after(&before), Ok(()), "{allowed:?}");
    }
    let report = outputs(&[pipeline("b", otlp), pipeline("a", custom)]).check_after(&before).unwrap_err();
    let of = |name: &str| Some(PipelineId::new(Signal::Logs, name));
    let found: Vec<_> = report.iter().map(|found| (found.to_string(), found.pipeline.clone())).collect();
    let text = "Switching to or away from OTLP output is not supported. Please re-create the LogPipeline instead";
    assert_eq!(
        found,
        [
            (format!("x.yaml:6:11: error: spec.output: {text}"), of("b")),
            (format!("x.yaml:12:11: error: spec.output: {text}"), of("a"))
        ]
    );
}
