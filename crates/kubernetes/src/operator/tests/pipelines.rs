//! Conditions of pipelines: every reason, and which of them counts.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::json;
use time_of_certificate::{day, expired};

use super::*;
use crate::operator::flow::Amounts;

/// Certificates and the days they end on.
mod time_of_certificate {
    use super::*;

    /// A self-signed certificate that is valid until a number of days from now, and its key.
    pub(super) fn day(days: i64, is_ca: bool) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["backend".to_owned()]).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let seconds = i64::try_from(now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap() + days * 86_400;
        let date =
            k8s_openapi::jiff::Timestamp::from_second(seconds).unwrap().to_zoned(k8s_openapi::jiff::tz::TimeZone::UTC);
        let part = |number: i8| u8::try_from(number).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(date.year().into(), part(date.month()), part(date.day()));
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    pub(super) fn expired() -> (String, String) {
        day(-10, false)
    }
}

fn with_tls(tls: Value) -> Value {
    json!({ "output": { "otlp": { "endpoint": { "value": "https://backend.shop:4317" }, "tls": tls } } })
}

fn identity(cert: &str, key: &str) -> Value {
    json!({ "cert": { "value": cert }, "key": { "value": key } })
}

#[test]
fn every_reason_why_a_pipeline_is_not_configured() {
    let (good, key) = day(300, false);
    let (_, other_key) = day(300, false);
    let (expired, expired_key) = expired();
    let (soon, soon_key) = day(5, false);
    let (ca_soon, _) = day(5, true);
    let (ca_expired, _) = day(-5, true);
    let ca = |pem: &str| json!({ "ca": { "value": pem } });
    let rule = |field: &str, rule: Value| json!({ "output": otlp("http://backend:4317"), field: [rule] });
    let cases = [
        ("well", with_tls(identity(&good, &key)), "True GatewayConfigured", "successfully applied"),
        (
            "expired",
            with_tls(identity(&expired, &expired_key)),
            "False TLSCertificateExpired",
            "TLS certificate expired on ",
        ),
        ("ca-expired", with_tls(ca(&ca_expired)), "False TLSCertificateExpired", "TLS CA certificate expired on "),
        ("soon", with_tls(identity(&soon, &soon_key)), "True TLSCertificateAboutToExpire", "is valid until 2026-"),
        (
            "ca-soon",
            with_tls(ca(&ca_soon)),
            "True TLSCertificateAboutToExpire",
            "TLS CA certificate is about to expire",
        ),
        (
            "mismatch",
            with_tls(identity(&good, &other_key)),
            "False TLSConfigurationInvalid",
            "TLS configuration invalid",
        ),
        ("no-pem", with_tls(identity("nonsense", &key)), "False TLSConfigurationInvalid", "TLS configuration invalid"),
        ("no-ca", with_tls(ca(&good)), "False TLSConfigurationInvalid", "not a CA certificate"),
        ("endpoint", json!({ "output": otlp("backend") }), "False EndpointInvalid", "spec.output.otlp.endpoint"),
        (
            "transform",
            rule("transform", json!({ "statements": ["set(span.name,"] })),
            "False OTTLSpecInvalid",
            "spec.transform",
        ),
        ("filter", rule("filter", json!({ "conditions": ["span.nam == 1"] })), "False OTTLSpecInvalid", "spec.filter"),
        ("field", json!({ "output": otlp("http://b:4317"), "outputs": 7 }), "False ValidationFailed", "outputs"),
    ];
    let mut cluster = Cluster::new();
    for (name, spec, ..) in &cases {
        cluster.pipeline(Signal::Traces, name, spec.clone());
    }
    let decision = cluster.decide();
    for (name, _, expected, part) in &cases {
        assert_eq!(brief(&decision, name, "ConfigurationGenerated"), *expected, "{name}");
        let (.., message) = condition(&decision, name, "ConfigurationGenerated");
        assert!(message.contains(part), "{name}: {message}");
        assert!(!message.contains("cluster:") && !message.contains("items"), "{name}: {message}");
        assert!(!message.contains("PRIVATE KEY"), "{name}: {message}");
    }
    // Data for a backend whose certificate has expired waits on the nodes.
    assert_eq!(configured(&decision), ["ca-expired", "ca-soon", "expired", "soon", "well"]);
}

#[test]
fn what_follows_from_a_pipeline_that_is_not_configured() {
    let mut cluster = Cluster::new();
    let (cert, key) = expired();
    cluster.pipeline(Signal::Traces, "bad", json!({ "output": otlp("nowhere") }));
    cluster.pipeline(Signal::Traces, "old", with_tls(identity(&cert, &key)));
    cluster.trace("good");
    let decision = cluster.decide();
    assert_eq!(brief(&decision, "bad", "GatewayHealthy"), "False GatewayConfigurationNotGenerated");
    assert_eq!(brief(&decision, "bad", "TelemetryFlowHealthy"), "False ConfigurationNotGenerated");
    assert_eq!(brief(&decision, "old", "GatewayHealthy"), "True GatewayReady");
    let (status, reason, message) = condition(&decision, "old", "TelemetryFlowHealthy");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ConfigurationNotGenerated"));
    assert!(message.contains("expired on"), "{message}");
    for kind in ["ConfigurationGenerated", "GatewayHealthy", "TelemetryFlowHealthy"] {
        assert!(brief(&decision, "good", kind).starts_with("True"), "{kind}");
    }
    let conditions = |name: &str| {
        let status = decision.statuses.iter().find(|status| status.object.name == name).unwrap();
        status.status["conditions"].as_array().unwrap().clone()
    };
    assert!(conditions("good").iter().all(|condition| condition["observedGeneration"] == 3));
    assert!(conditions("good").iter().all(|condition| condition["lastTransitionTime"] == "2026-09-21T14:13:20Z"));
}

#[test]
fn a_missing_secret_a_missing_key_and_then_both_there() {
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": of_secret("backend", "endpoint") })).trace("other");
    assert_eq!(cluster.decide().statuses.len(), 1, "nothing is known of the Secret yet");

    let missing = "One or more referenced Secrets are missing: Secret 'backend' of Namespace 'shop'";
    let no_key =
        "One or more keys in a referenced Secret are missing: Key 'endpoint' in Secret 'backend' of Namespace 'shop'";
    cluster.state("backend", SecretState::Missing);
    let decision = cluster.settle();
    let reason = ("False".to_owned(), "ReferencedSecretMissing".to_owned());
    let (status, why, message) = condition(&decision, "shop", "ConfigurationGenerated");
    assert_eq!(((status, why), message.as_str()), (reason.clone(), missing));
    assert_eq!(configured(&decision), ["other"]);
    assert!(decision.events.iter().any(|event| event.reason == "ReferencedSecretMissing" && event.is_warning));

    cluster.secret("backend", &[("url", "http://b:4317")]);
    let (status, why, message) = condition(&cluster.settle(), "shop", "ConfigurationGenerated");
    assert_eq!(((status, why), message.as_str()), (reason, no_key));

    cluster.secret("backend", &[("endpoint", "http://b:4317"), ("more", "not for nodes")]);
    let decision = cluster.settle();
    assert_eq!(brief(&decision, "shop", "ConfigurationGenerated"), "True GatewayConfigured");
    assert_eq!(configured(&decision), ["other", "shop"]);
    let configuration = json!(documents(&decision)).to_string();
    assert!(!configuration.contains(&BASE64_STANDARD.encode("not for nodes")), "only what is referred to");

    let again = cluster.decide();
    assert_eq!((again.statuses.len(), again.events.len()), (0, 0), "nothing is said twice");
}

#[test]
fn a_rotated_secret_is_another_configuration() {
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": of_secret("backend", "endpoint") }));
    let mut revision = |value: &str| {
        cluster.secret("backend", &[("endpoint", value)]);
        cluster.settle().configuration.unwrap().revision
    };
    let (first, second) = (revision("http://one:4317"), revision("http://two:4317"));
    assert_ne!(first, second);
    assert_eq!(revision("http://one:4317"), first, "equal input, equal bytes");
    assert_eq!(first.len(), 16);
}

#[test]
fn secrets_that_cannot_be_read_leave_what_nodes_have() {
    let spec = json!({ "output": of_secret("backend", "endpoint") });
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "shop", spec.clone()).secret("backend", &[("endpoint", "http://b:4317")]);
    let before = cluster.settle().configuration.unwrap();
    // A new operator, which may not look.
    cluster.picture.secrets.clear();
    assert_eq!(cluster.decide().configuration.unwrap(), before, "not looked up yet");
    cluster.state("backend", SecretState::Unreadable("forbidden".to_owned()));
    assert_eq!(cluster.decide().configuration.unwrap(), before);

    let mut fresh = Cluster::new();
    fresh.pipeline(Signal::Traces, "shop", spec).state("backend", SecretState::Unreadable("forbidden".to_owned()));
    let (status, reason, message) = condition(&fresh.decide(), "shop", "ConfigurationGenerated");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ValidationFailed"));
    assert_eq!(message, "cannot read Secret 'backend' of Namespace 'shop': forbidden");
}

#[test]
fn certificates_expire_while_nobody_changes_anything() {
    let (cert, key) = day(20, false);
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "shop", with_tls(identity(&cert, &key)));
    let decision = cluster.settle();
    assert_eq!(brief(&decision, "shop", "ConfigurationGenerated"), "True GatewayConfigured");
    assert_eq!(decision.again, Some(cluster.now + Duration::from_secs(3600)));
    let mut after = |days: u64| {
        cluster.now = now() + Duration::from_secs(days * 86_400);
        brief(&cluster.settle(), "shop", "ConfigurationGenerated")
    };
    assert_eq!(after(10), "True TLSCertificateAboutToExpire");
    assert_eq!(after(21), "False TLSCertificateExpired");
}

#[test]
fn transitions_keep_their_time_while_the_status_is_the_same() {
    let mut cluster = Cluster::new();
    cluster.trace("shop");
    cluster.settle();
    cluster.picture.workloads.insert(Workload::Node, WorkloadStatus { updated: 1, ..settled(2) });
    cluster.now += Duration::from_secs(60);
    let decision = cluster.settle();
    let conditions = &decision.statuses[0].status["conditions"];
    assert_eq!(conditions[1]["reason"], "RolloutInProgress");
    assert_eq!(conditions[1]["lastTransitionTime"], "2026-09-21T14:13:20Z", "it was met before");
    let reasons: Vec<_> = decision.events.iter().map(|event| (event.action, event.reason, event.is_warning)).collect();
    assert_eq!(reasons, [("GatewayHealthy", "RolloutInProgress", false)]);

    cluster.picture.workloads.clear();
    cluster.now += Duration::from_secs(60);
    let conditions = &cluster.settle().statuses[0].status["conditions"];
    assert_eq!(conditions[1]["reason"], "GatewayNotReady");
    assert_eq!(conditions[1]["lastTransitionTime"], "2026-09-21T14:15:20Z");
}

#[test]
fn conditions_depend_on_the_kind_and_its_inputs() {
    let output = otlp("http://backend:4317");
    let off = json!({ "enabled": false });
    let on = json!({ "enabled": true });
    let http = json!({ "http": { "host": { "value": "backend" } } });
    let cases = [
        (Signal::Traces, json!({ "output": output }), "- True GatewayReady -"),
        (Signal::Metrics, json!({ "output": output }), "True AgentNotRequired True GatewayReady -"),
        (
            Signal::Metrics,
            json!({ "input": { "runtime": on }, "output": output }),
            "True AgentReady True GatewayReady -",
        ),
        (Signal::Logs, json!({ "output": output }), "True AgentReady True GatewayReady -"),
        (
            Signal::Logs,
            json!({ "input": { "runtime": off }, "output": output }),
            "True AgentNotRequired True GatewayReady -",
        ),
        (Signal::Logs, json!({ "output": http }), "True AgentReady - false"),
        (Signal::Logs, json!({ "output": { "custom": "name null" } }), "True AgentReady - true"),
    ];
    for (signal, spec, expected) in cases {
        let mut cluster = Cluster::new();
        let decision = cluster.pipeline(signal, "one", spec.clone()).decide();
        let status = &decision.statuses[0].status;
        let of = |kind: &str| {
            let found = status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == kind);
            found.map_or("-".to_owned(), |it| {
                format!("{} {}", it["status"].as_str().unwrap(), it["reason"].as_str().unwrap())
            })
        };
        let mode = status.get("unsupportedMode").map_or("-".to_owned(), ToString::to_string);
        assert_eq!(format!("{} {} {mode}", of("AgentHealthy"), of("GatewayHealthy")), expected, "{spec}");
        let configured =
            if spec["output"]["otlp"].is_null() { "True AgentConfigured" } else { "True GatewayConfigured" };
        assert_eq!(of("ConfigurationGenerated"), configured, "{spec}");
    }
}

#[test]
fn the_flow_is_what_the_books_say() {
    let some = |delivered, lost| Some(Amounts { delivered, lost });
    let cases = [
        (None, "True FlowHealthy", "No problems"),
        (some(10, 0), "True FlowHealthy", "No problems"),
        (some(0, 1234), "False GatewayAllTelemetryDataDropped", "about 1,200 in the last 5 minutes"),
        (some(50, 3), "False GatewaySomeTelemetryDataDropped", "3 in the last 5 minutes, while 50 were delivered"),
    ];
    for (amounts, expected, part) in cases {
        let mut cluster = Cluster::new();
        cluster.trace("shop").picture.flow =
            amounts.map(|amounts| (PipelineId::new(Signal::Traces, "shop"), amounts)).into_iter().collect();
        let decision = cluster.decide();
        assert_eq!(brief(&decision, "shop", "TelemetryFlowHealthy"), expected);
        let (.., message) = condition(&decision, "shop", "TelemetryFlowHealthy");
        assert!(message.contains(part), "{message}");
    }
    let mut silent = Cluster::new();
    silent.trace("shop").picture.answers.clear();
    assert_eq!(brief(&silent.decide(), "shop", "TelemetryFlowHealthy"), "Unknown GatewayProbingFailed");
    let mut logs = Cluster::new();
    logs.pipeline(Signal::Logs, "shop", json!({ "output": otlp("http://b:4317") }));
    logs.picture.flow = BTreeMap::from([(PipelineId::new(Signal::Logs, "shop"), Amounts { delivered: 0, lost: 7 })]);
    assert_eq!(brief(&logs.decide(), "shop", "TelemetryFlowHealthy"), "False AgentAllTelemetryDataDropped");
}

#[test]
fn with_a_limit_the_oldest_run() {
    let mut cluster = Cluster::new();
    for (name, created) in [("c", "2026-01-01T00:00:00Z"), ("a", "2026-01-03T00:00:00Z"), ("b", "2026-01-02T00:00:00Z")]
    {
        let mut pipeline =
            object(super::super::object::kinds::TRACE_PIPELINE, name, json!({ "output": otlp("http://b:4317") }));
        pipeline["metadata"]["creationTimestamp"] = created.into();
        cluster.object(Signal::Traces, pipeline);
    }
    cluster.pipeline(Signal::Logs, "a", json!({ "output": otlp("http://b:4317") }));
    assert_eq!(configured(&cluster.decide()), ["a", "a", "b", "c"], "without a limit");
    cluster.options.max_pipelines = Some(2);
    let decision = cluster.decide();
    assert_eq!(configured(&decision), ["a", "b", "c"], "the limit is that of a kind");
    let of_trace =
        decision.statuses.iter().find(|status| status.object.kind == "TracePipeline" && status.object.name == "a");
    assert_eq!(of_trace.unwrap().status["conditions"][0]["reason"], "MaxPipelinesExceeded");
    cluster.picture.pipelines.remove(&PipelineId::new(Signal::Traces, "c"));
    assert_eq!(configured(&cluster.decide()), ["a", "a", "b"], "one that goes makes room");
}

#[test]
fn a_pipeline_that_is_being_deleted_is_gone() {
    let mut going =
        object(super::super::object::kinds::TRACE_PIPELINE, "going", json!({ "output": otlp("http://b:4317") }));
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut cluster = Cluster::new();
    let decision = cluster.trace("shop").object(Signal::Traces, going).decide();
    assert_eq!(configured(&decision), ["shop"]);
    assert_eq!(decision.statuses.len(), 1);
}

#[test]
fn what_is_paused_stays_as_it_is() {
    let mut cluster = Cluster::new();
    cluster.trace("shop").pipeline(Signal::Logs, "shop", json!({ "output": otlp("http://b:4317") }));
    let before = cluster.settle().configuration.unwrap();
    cluster.picture.overrides =
        Some("tracing: {paused: true}\nglobal: {logLevel: debug}\nlogging: {collectAgentLogs: true}".to_owned());
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": otlp("http://other:4317") }));
    cluster.pipeline(Signal::Traces, "new", json!({ "output": otlp("http://other:4317") }));
    let paused = cluster.decide();
    assert_eq!(paused.configuration.as_ref(), Some(&before));
    assert!(paused.statuses.is_empty(), "{:?}", paused.statuses);
    let settings = manifest(&paused, "Secret", "telemetry-node").unwrap()["data"]["settings.json"].as_str().unwrap();
    let settings: Value = serde_json::from_slice(&BASE64_STANDARD.decode(settings).unwrap()).unwrap();
    assert_eq!(settings, json!({ "logLevel": "debug", "collectAgentLogs": true }));

    cluster.picture.overrides = Some("otlpGateway: {paused: true}".to_owned());
    let paused = cluster.decide();
    assert_eq!((paused.apply.len(), paused.delete.len(), paused.configuration.is_none()), (0, 0, true));
    cluster.picture.overrides = None;
    assert_eq!(configured(&cluster.decide()), ["shop", "new", "shop"]);
}

#[test]
fn annotations_of_others_do_not_reach_nodes() {
    let mut pipeline =
        object(super::super::object::kinds::TRACE_PIPELINE, "shop", json!({ "output": otlp("http://b:4317") }));
    pipeline["metadata"]["annotations"] = json!({ "weir.dev/istio-noise-filter": "disabled", "other": "secret" });
    let mut cluster = Cluster::new();
    let decision = cluster.object(Signal::Traces, pipeline).decide();
    let documents = documents(&decision);
    assert_eq!(documents[0]["metadata"]["annotations"], json!({ "weir.dev/istio-noise-filter": "disabled" }));
    assert_eq!(documents[0]["metadata"]["generation"], 3);
}
