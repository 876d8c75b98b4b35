//! Conditions of pipelines: every reason, and which of them counts.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::json;
use time_of_certificate::{between, day, expired};

use super::*;
use weir_observe::{Amounts, Kept, Roles, State, Trouble, Verdict};

use crate::operator::flow::{Flow, Probing};
use crate::operator::picture::Refused;

/// Certificates and the days they end on.
mod time_of_certificate {
    use super::*;

    /// A self-signed certificate that is valid until a number of days from now, and its key.
    pub(super) fn day(days: i64, is_ca: bool) -> (String, String) {
        between([-2000, days], is_ca)
    }

    /// One that begins and ends so many days from now.
    pub(super) fn between(days: [i64; 2], is_ca: bool) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["backend".to_owned()]).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let today = i64::try_from(now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
        let part = |number: i8| u8::try_from(number).unwrap();
        [params.not_before, params.not_after] = days.map(|days| {
            let date = k8s_openapi::jiff::Timestamp::from_second(today + days * 86_400).unwrap();
            let date = date.to_zoned(k8s_openapi::jiff::tz::TimeZone::UTC);
            rcgen::date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
        });
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
    let (early, early_key) = between([5, 300], false);
    let (ca_early, _) = between([5, 300], true);
    let ca = |pem: &str| json!({ "ca": { "value": pem } });
    let rule = |field: &str, rule: Value| json!({ "output": otlp("http://backend:4317"), field: [rule] });
    let additional = json!({ "enabled": true, "additionalMetrics": ["k8s.pod.uptime", "k8s.pod.nonsense"] });
    let invalid = "False TLSConfigurationInvalid";
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
        ("mismatch", with_tls(identity(&good, &other_key)), invalid, "TLS configuration invalid"),
        ("early", with_tls(identity(&early, &early_key)), invalid, "TLS certificate is not valid before 2026-"),
        ("ca-early", with_tls(ca(&ca_early)), invalid, "TLS CA certificate is not valid before"),
        ("no-pem", with_tls(identity("nonsense", &key)), invalid, "TLS configuration invalid"),
        ("no-ca", with_tls(ca(&good)), invalid, "not a CA certificate"),
        ("endpoint", json!({ "output": otlp("backend") }), "False EndpointInvalid", "spec.output.otlp.endpoint"),
        (
            "transform",
            rule("transform", json!({ "statements": ["set(span.name,"] })),
            "False OTTLSpecInvalid",
            "spec.transform",
        ),
        ("filter", rule("filter", json!({ "conditions": ["span.nam == 1"] })), "False OTTLSpecInvalid", "spec.filter"),
        ("field", json!({ "output": otlp("http://b:4317"), "outputs": 7 }), "False ValidationFailed", "outputs"),
        (
            "metric",
            json!({ "input": { "runtime": additional }, "output": otlp("http://b:4317") }),
            "False RuntimeAdditionalMetricInvalid",
            "Invalid runtime additional metric: k8s.pod.nonsense. ",
        ),
    ];
    let mut cluster = Cluster::new();
    for (name, spec, ..) in &cases {
        let signal = if *name == "metric" { Signal::Metrics } else { Signal::Traces };
        cluster.pipeline(signal, name, spec.clone());
    }
    let decision = cluster.decide();
    for (name, _, expected, part) in &cases {
        assert_eq!(brief(&decision, name, "ConfigurationGenerated"), *expected, "{name}");
        let (.., message) = condition(&decision, name, "ConfigurationGenerated");
        assert!(message.contains(part), "{name}: {message}");
        assert!(!message.contains("cluster:") && !message.contains("items"), "{name}: {message}");
        assert!(!message.contains("PRIVATE KEY"), "{name}: {message}");
    }
    // Data for a backend whose certificate has expired, or is not valid yet, waits on the nodes.
    let on_nodes = ["ca-early", "ca-expired", "ca-soon", "early", "expired", "soon", "well"];
    assert_eq!(configured(&decision), on_nodes);
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
        status.value()["conditions"].as_array().unwrap().clone()
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
    cluster.state("backend", SecretState::Missing(None));
    let decision = cluster.settle();
    let reason = ("False".to_owned(), "ReferencedSecretMissing".to_owned());
    let (status, why, message) = condition(&decision, "shop", "ConfigurationGenerated");
    assert_eq!(((status, why), message.as_str()), (reason.clone(), missing));
    assert_eq!(configured(&decision), ["other"]);
    assert!(events(&decision).iter().any(|change| change.reason == "ReferencedSecretMissing" && change.is_warning));

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
    assert_eq!(again.statuses.len(), 0, "nothing is said twice");
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
    cluster.picture.secrets = Arc::default();
    assert_eq!(cluster.decide().configuration.unwrap(), before, "not looked up yet");
    cluster.refuse("backend");
    assert_eq!(cluster.decide().configuration.unwrap(), before);

    let mut fresh = Cluster::new();
    fresh.pipeline(Signal::Traces, "shop", spec).refuse("backend");
    let (status, reason, message) = condition(&fresh.decide(), "shop", "ConfigurationGenerated");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ValidationFailed"));
    assert_eq!(message, "cannot read Secret 'backend' of Namespace 'shop': forbidden");
}

/// What is said of a Secret whose last known values are used, after what is said otherwise.
fn stale(since: &str) -> String {
    format!(
        ". Secret shop/backend cannot be read since {since}: the values that were read last are used, and changes are \
         not followed. Let the operator get, list and watch Secrets again"
    )
}

#[test]
fn that_a_secret_must_not_be_read_any_more_is_said_and_its_values_stay() {
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": of_secret("backend", "endpoint") })).telemetry();
    cluster.secret("backend", &[("endpoint", "http://b:4317")]);
    let before = cluster.settle();
    let (.., well) = condition(&before, "shop", "ConfigurationGenerated");

    cluster.refuse("backend");
    let patience = cluster.now + Duration::from_secs(10);
    let decision = cluster.settle();
    assert_eq!((decision.statuses.len(), decision.again), (0, Some(patience)), "an API server may just have started");
    cluster.now = patience;
    // It is refused again and again.
    let decision = cluster.refuse("backend").settle();
    assert_eq!(decision.configuration, before.configuration, "nodes keep what they have");
    let (status, reason, message) = condition(&decision, "shop", "ConfigurationGenerated");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "GatewayConfigured"));
    assert_eq!(message, format!("{well}{}", stale("2026-09-21T14:13:20Z")));
    let begins = Change { condition: "ConfigurationGenerated", reason: "ReferencedSecretUnreadable", is_warning: true };
    assert_eq!(events(&decision), [begins]);

    // Somebody else leads, who never read it: the status remembers since when, and what was told.
    cluster.picture.secrets = Arc::default();
    assert_eq!(cluster.settle().statuses.len(), 0, "it was not asked for yet");
    for _ in 0..2 {
        cluster.now += Duration::from_secs(60);
        let decision = cluster.refuse("backend").settle();
        assert_eq!((decision.statuses.len(), &decision.configuration), (0, &before.configuration));
    }

    cluster.secret("backend", &[("endpoint", "http://b:4317")]);
    let decision = cluster.settle();
    assert_eq!(condition(&decision, "shop", "ConfigurationGenerated").2, well, "the right is back");
    assert_eq!(events(&decision), []);
}

#[test]
fn a_pipeline_that_is_wrong_says_so_of_its_secrets_too() {
    let (cert, key) = expired();
    let key_of =
        |key: &str| json!({ "valueFrom": { "secretKeyRef": { "name": "backend", "namespace": "shop", "key": key } } });
    let tls = json!({ "cert": key_of("cert"), "key": key_of("key") });
    let mut cluster = Cluster::new();
    cluster
        .pipeline(Signal::Traces, "shop", with_tls(tls))
        .secret("backend", &[("cert", cert.as_str()), ("key", key.as_str())]);
    cluster.refuse("backend").now += Duration::from_secs(10);
    let (status, reason, message) = condition(&cluster.settle(), "shop", "ConfigurationGenerated");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "TLSCertificateExpired"));
    assert!(message.ends_with(&stale("2026-09-21T14:13:20Z")), "the new one may be there: {message}");
}

/// Somebody may have made it by now.
#[test]
fn a_secret_that_must_not_be_read_is_not_called_missing() {
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": of_secret("backend", "endpoint") }));
    cluster.state("backend", SecretState::Missing(None));
    assert_eq!(brief(&cluster.settle(), "shop", "ConfigurationGenerated"), "False ReferencedSecretMissing");
    let (status, reason, message) = condition(&cluster.refuse("backend").settle(), "shop", "ConfigurationGenerated");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ValidationFailed"));
    assert_eq!(message, "cannot read Secret 'backend' of Namespace 'shop': forbidden");
    cluster.now += Duration::from_secs(60);
    assert_eq!(cluster.settle().statuses.len(), 0, "no values of it are used");
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
    let conditions = &decision.statuses[0].value()["conditions"];
    assert_eq!(conditions[1]["reason"], "RolloutInProgress");
    assert_eq!(conditions[1]["lastTransitionTime"], "2026-09-21T14:13:20Z", "it was met before");
    let told = decision.statuses[0].events();
    assert_eq!(told.len(), 1);
    let Event { change: Change { condition, reason, is_warning }, note, .. } = &told[0];
    assert_eq!((*condition, *reason, *is_warning), ("GatewayHealthy", "RolloutInProgress", false));
    assert_eq!(note, conditions[1]["message"].as_str().unwrap());

    cluster.picture.workloads.clear();
    cluster.now += Duration::from_secs(60);
    let conditions = &cluster.settle().statuses[0].value()["conditions"];
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
        let status = &decision.statuses[0].value();
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

/// What a node says of a pipeline.
fn says(state: State, gateway: bool, agent: bool) -> Verdict {
    let amounts =
        Amounts { delivered: 800, rejected: 200, refused: 900, requests: 100, turned_away: 20, ..Amounts::default() };
    let kept = Kept {
        items: 1234,
        bytes: 5 << 20,
        room_bytes: 10 << 30,
        room_seconds: Some(86_400),
        full_in_seconds: Some(7300),
        ..Kept::default()
    };
    let amounts = if state == State::SomeDropped { amounts } else { Amounts { rejected: 0, ..amounts } };
    let words = "503: overloaded".to_owned();
    let trouble = Trouble { state, since: 1_790_000_000, amounts, kept, words, ..Trouble::default() };
    Verdict { roles: Roles { gateway, agent }, delivers: !state.delivers_nothing(), trouble: Some(Box::new(trouble)) }
}

fn of_fluent_bit() -> Value {
    json!({ "output": { "http": { "host": { "value": "backend" } } } })
}

/// The condition of a pipeline of which one node says this.
fn flow(signal: Signal, spec: Value, verdicts: &[Verdict]) -> (String, String) {
    let mut cluster = Cluster::new();
    let id = PipelineId::new(signal, "shop");
    let flow = Flow::of_pods(&verdicts.iter().collect::<Vec<_>>());
    cluster.pipeline(signal, "shop", spec).picture.flow = BTreeMap::from([(id, flow)]);
    let decision = cluster.decide();
    let (status, reason, message) = condition(&decision, "shop", "TelemetryFlowHealthy");
    (format!("{status} {reason}"), message)
}

/// Every published reason, for each kind and part.
#[test]
fn what_nodes_find_has_the_published_reasons() {
    use State::{AllDropped, BufferFilling, NothingDelivered, SomeDropped, Throttling};
    let spec = || json!({ "output": otlp("http://backend:4317") });
    let cases = [
        (Signal::Traces, AllDropped, true, false, "GatewayAllTelemetryDataDropped"),
        (Signal::Traces, NothingDelivered, true, false, "GatewayAllTelemetryDataDropped"),
        (Signal::Traces, SomeDropped, true, false, "GatewaySomeTelemetryDataDropped"),
        (Signal::Traces, BufferFilling, true, false, "GatewaySomeTelemetryDataDropped"),
        (Signal::Traces, Throttling, true, false, "GatewayThrottling"),
        (Signal::Metrics, AllDropped, true, true, "GatewayAllTelemetryDataDropped"),
        (Signal::Metrics, SomeDropped, false, true, "AgentSomeTelemetryDataDropped"),
        (Signal::Metrics, AllDropped, false, true, "AgentAllTelemetryDataDropped"),
        (Signal::Metrics, Throttling, true, true, "GatewayThrottling"),
        (Signal::Logs, AllDropped, true, true, "AgentAllTelemetryDataDropped"),
        (Signal::Logs, AllDropped, true, false, "GatewayAllTelemetryDataDropped"),
        (Signal::Logs, NothingDelivered, false, true, "AgentAllTelemetryDataDropped"),
        (Signal::Logs, SomeDropped, true, false, "GatewaySomeTelemetryDataDropped"),
        (Signal::Logs, BufferFilling, false, true, "AgentSomeTelemetryDataDropped"),
        (Signal::Logs, Throttling, true, true, "GatewayThrottling"),
    ];
    for (signal, state, gateway, agent, reason) in cases {
        let (said, message) = flow(signal, spec(), &[says(state, gateway, agent)]);
        assert_eq!(said, format!("False {reason}"), "{signal:?} {state:?}: {message}");
        assert!(message.contains("2026-09-21T14:13:20Z"), "{message}");
    }
    let of_fluent_bit_cases = [
        (AllDropped, "AgentAllTelemetryDataDropped"),
        (SomeDropped, "AgentSomeTelemetryDataDropped"),
        (NothingDelivered, "AgentNoLogsDelivered"),
        (BufferFilling, "AgentBufferFillingUp"),
    ];
    for (state, reason) in of_fluent_bit_cases {
        let (said, message) = flow(Signal::Logs, of_fluent_bit(), &[says(state, false, true)]);
        assert_eq!(said, format!("False {reason}"), "{message}");
    }
    // A backend that answers 503 to everything: nothing is delivered. Fluent Bit has a reason of its own for a server
    // that answers, until it has taken nothing for minutes.
    let mut busy = says(NothingDelivered, true, true);
    busy.trouble.as_mut().unwrap().may_be_slow = true;
    let (said, message) = flow(Signal::Traces, spec(), std::slice::from_ref(&busy));
    assert_eq!(said, "False GatewayAllTelemetryDataDropped");
    let expected = "Backend is not reachable or rejecting spans. No spans were delivered since 2026-09-21T14:13:20Z.";
    assert!(message.starts_with(expected) && message.contains("it answers, and is overloaded"), "{message}");
    busy.roles.gateway = false;
    assert_eq!(flow(Signal::Logs, spec(), std::slice::from_ref(&busy)).0, "False AgentAllTelemetryDataDropped");
    assert_eq!(flow(Signal::Logs, of_fluent_bit(), std::slice::from_ref(&busy)).0, "False AgentBufferFillingUp");
    let away = says(NothingDelivered, false, true);
    assert_eq!(flow(Signal::Logs, of_fluent_bit(), &[busy, away]).0, "False AgentNoLogsDelivered");
    assert_eq!(flow(Signal::Traces, spec(), &[]).0, "True FlowHealthy");
    let mut silent = Cluster::new();
    silent.trace("shop").picture.probing.clear();
    let logs = json!({ "input": { "otlp": { "enabled": false } }, "output": otlp("http://backend:4317") });
    let metrics = json!({
        "input": { "otlp": { "enabled": false }, "runtime": { "enabled": true } },
        "output": otlp("http://backend:4317"),
    });
    silent.pipeline(Signal::Logs, "logs", logs).pipeline(Signal::Metrics, "metrics", metrics);
    silent.pipeline(Signal::Logs, "fluent-bit", of_fluent_bit());
    let decision = silent.decide();
    assert_eq!(brief(&decision, "shop", "TelemetryFlowHealthy"), "Unknown GatewayProbingFailed");
    for name in ["logs", "metrics", "fluent-bit"] {
        assert_eq!(brief(&decision, name, "TelemetryFlowHealthy"), "Unknown AgentProbingFailed", "{name}");
    }
}

/// Of several troubles on different nodes, the published order decides.
#[test]
fn the_published_order_of_reasons() {
    use State::{AllDropped, BufferFilling, NothingDelivered, SomeDropped, Throttling};
    let spec = || json!({ "output": otlp("http://backend:4317") });
    let of = |signal, spec, verdicts: &[(State, bool, bool)]| {
        let verdicts: Vec<_> = verdicts.iter().map(|(state, gateway, agent)| says(*state, *gateway, *agent)).collect();
        flow(signal, spec, &verdicts).0
    };
    let (gateway, agent) = ((true, false), (false, true));
    let at = |state, (gateway, agent)| (state, gateway, agent);
    let traces = |states: [State; 2]| of(Signal::Traces, spec(), &states.map(|state| at(state, gateway)));
    assert_eq!(traces([SomeDropped, Throttling]), "False GatewaySomeTelemetryDataDropped");
    assert_eq!(traces([BufferFilling, Throttling]), "False GatewayThrottling", "clients are turned away now");
    assert_eq!(traces([NothingDelivered, AllDropped]), "False GatewayAllTelemetryDataDropped");
    assert_eq!(traces([SomeDropped, AllDropped]), "False GatewaySomeTelemetryDataDropped", "a node delivers");
    let metrics = |one, other| of(Signal::Metrics, spec(), &[at(one, gateway), at(other, agent)]);
    assert_eq!(metrics(SomeDropped, AllDropped), "False GatewaySomeTelemetryDataDropped");
    assert_eq!(metrics(Throttling, SomeDropped), "False GatewayThrottling");
    let logs = |one, other| of(Signal::Logs, spec(), &[at(one, gateway), at(other, agent)]);
    assert_eq!(logs(SomeDropped, SomeDropped), "False AgentSomeTelemetryDataDropped");
    assert_eq!(logs(AllDropped, NothingDelivered), "False GatewayAllTelemetryDataDropped");
    assert_eq!(logs(Throttling, SomeDropped), "False AgentSomeTelemetryDataDropped");
    let fluent_bit = |states: [State; 2]| of(Signal::Logs, of_fluent_bit(), &states.map(|state| at(state, agent)));
    assert_eq!(fluent_bit([BufferFilling, SomeDropped]), "False AgentSomeTelemetryDataDropped");
    assert_eq!(fluent_bit([NothingDelivered, BufferFilling]), "False AgentBufferFillingUp", "a node delivers");
}

#[test]
fn what_is_said_of_a_trouble() {
    let spec = || json!({ "output": otlp("http://backend:4317") });
    let (_, message) = flow(Signal::Traces, spec(), &[says(State::NothingDelivered, true, false)]);
    let expected = "Backend is not reachable or rejecting spans. No spans were delivered since 2026-09-21T14:13:20Z. Nothing \
                    is lost: spans that are refused are sent again. At least 1,000 spans (5 MiB) are kept until they are 10 \
                    GiB or 24 h old, at this rate in about 2 hours, if the disk has room. The backend: 503: overloaded. \
                    Mend the backend, or the way to it: what is kept is delivered then.";
    assert_eq!(message, expected);
    let healthy = Verdict { delivers: true, ..Verdict::default() };
    let (_, message) = flow(Signal::Traces, spec(), &[says(State::SomeDropped, true, false), healthy]);
    assert!(message.contains("The backend refuses at least 50 % of the spans"), "{message}");
    assert!(
        message.contains("At least 200 spans were refused for good") && message.ends_with(" On Pod pod-0."),
        "{message}"
    );
}

/// The first by name, so that the message is the same for the same trouble.
#[test]
fn pods_with_a_trouble_are_named() {
    let cases = [
        (1, " On Pod pod-1."),
        (2, " On Pods pod-1, pod-2."),
        (3, " On Pods pod-1, pod-2, pod-3."),
        (4, " On Pods pod-1, pod-2, pod-3 and 1 more."),
        (9, " On Pods pod-1, pod-2, pod-3 and at least 5 more."),
    ];
    for (troubled, expected) in cases {
        let mut verdicts = vec![Verdict { delivers: true, ..Verdict::default() }];
        verdicts.extend((0..troubled).map(|_| says(State::SomeDropped, true, false)));
        let (_, message) = flow(Signal::Traces, json!({ "output": otlp("http://backend:4317") }), &verdicts);
        assert!(message.ends_with(expected), "{message}");
        verdicts.remove(0);
        let (_, message) = flow(Signal::Traces, json!({ "output": otlp("http://backend:4317") }), &verdicts);
        assert_eq!(message.ends_with(" On all nodes."), troubled > 1, "{message}");
    }
}

/// Amounts that grow are no news.
#[test]
fn a_status_is_not_written_in_each_round() {
    let mut cluster = Cluster::new();
    cluster.trace("shop");
    let mut written = 0;
    for round in 1..=1000 {
        let mut verdict = says(State::SomeDropped, true, false);
        let trouble = verdict.trouble.as_mut().unwrap();
        (trouble.amounts.delivered, trouble.amounts.rejected) = (1000 * round, 300 * round);
        (trouble.kept.items, trouble.kept.full_in_seconds) = (100 + round % 7, Some(7300 + round % 60));
        cluster.picture.flow = BTreeMap::from([(PipelineId::new(Signal::Traces, "shop"), Flow::of_pods(&[&verdict]))]);
        let decision = cluster.settle();
        written += decision.statuses.len();
        assert_eq!(events(&decision).len(), usize::from(round == 1) * 2, "at the beginning, and not again");
    }
    assert!((2..=12).contains(&written), "{written}");
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
    assert_eq!(of_trace.unwrap().value()["conditions"][0]["reason"], "MaxPipelinesExceeded");
    Arc::make_mut(&mut cluster.picture.pipelines).remove(&PipelineId::new(Signal::Traces, "c"));
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

/// A typing error costs nothing, and what was taken away ends.
#[test]
fn a_pipeline_that_becomes_wrong_goes_on_as_it_was() {
    let mut cluster = Cluster::new();
    cluster.trace("shop").settle();
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": otlp("nowhere") }));
    let decision = cluster.settle();
    assert_eq!(configured(&decision), ["shop"]);
    assert!(documents(&decision)[0].to_string().contains("backend.shop:4317"));
    let (status, reason, message) = condition(&decision, "shop", "ConfigurationGenerated");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "EndpointInvalid"));
    assert!(message.ends_with("; the nodes go on with the last specification that was right"), "{message}");
    assert_eq!(brief(&decision, "shop", "GatewayHealthy"), "True GatewayReady");
    assert_eq!(brief(&decision, "shop", "TelemetryFlowHealthy"), "True FlowHealthy");
    // The name of a Secret may be wrong as well.
    let reference = json!({ "valueFrom": { "secretKeyRef": { "name": "gone", "namespace": "shop", "key": "a" } } });
    let missing = json!({ "output": { "otlp": { "endpoint": reference } } });
    cluster.pipeline(Signal::Traces, "shop", missing).state("gone", SecretState::Missing(None));
    let decision = cluster.settle();
    assert_eq!(configured(&decision), ["shop"]);
    assert_eq!(brief(&decision, "shop", "ConfigurationGenerated"), "False ReferencedSecretMissing");
}

/// The API server refuses to write what nodes are to have.
#[test]
fn what_could_not_be_written_is_not_said_to_be_applied() {
    let mut cluster = Cluster::new();
    cluster.trace("shop").settle();
    cluster.trace("new");
    let key = super::super::configuration::key(&cluster.options.namespace);
    let since = cluster.now - std::time::Duration::from_secs(60);
    cluster.picture.refused = BTreeMap::from([(key, Refused { error: "forbidden (403)".to_owned(), since })]);
    let decision = cluster.decide();
    let (status, reason, message) = condition(&decision, "shop", "GatewayHealthy");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "GatewayNotReady"));
    assert!(message.contains("telemetry-node") && message.contains("forbidden (403)"), "{message}");
    let kinds = |name: &str| {
        let status = decision.statuses.iter().find(|status| status.object.name == name).unwrap().value();
        let all = status["conditions"].as_array().unwrap();
        all.iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("new"), ["GatewayHealthy", "TelemetryFlowHealthy"], "nothing is said of what never was");
    assert_eq!(kinds("shop"), ["ConfigurationGenerated", "GatewayHealthy", "TelemetryFlowHealthy"]);
}

/// What flows is seen in the books, whatever a certificate says: a CA that has expired is still believed.
#[test]
fn an_expired_certificate_is_no_trouble_while_data_is_delivered() {
    let mut cluster = Cluster::new();
    let (ca, _) = day(-5, true);
    cluster.pipeline(Signal::Traces, "shop", with_tls(json!({ "ca": { "value": ca } })));
    assert_eq!(brief(&cluster.decide(), "shop", "TelemetryFlowHealthy"), "False ConfigurationNotGenerated");
    cluster.picture.delivering.insert(PipelineId::new(Signal::Traces, "shop"));
    let decision = cluster.decide();
    assert_eq!(brief(&decision, "shop", "ConfigurationGenerated"), "False TLSCertificateExpired");
    assert_eq!(brief(&decision, "shop", "TelemetryFlowHealthy"), "True FlowHealthy");
}

#[test]
fn nodes_that_do_not_answer_are_told() {
    // Whoever leads anew has asked nobody yet: what was said stays.
    let mut anew = Cluster::new();
    anew.trace("shop").settle();
    anew.picture.probing.clear();
    anew.trace("other").pipeline(Signal::Traces, "shop", json!({ "output": otlp("http://other:4317") }));
    assert_eq!(brief(&anew.decide(), "other", "TelemetryFlowHealthy"), "Unknown GatewayProbingFailed");
    let mut cluster = Cluster::new();
    cluster.trace("shop");
    let mut flow = |answer, silent| {
        cluster.picture.probing = BTreeMap::from([(Workload::Node, Probing { answer, silent })]);
        let (status, reason, message) = condition(&cluster.decide(), "shop", "TelemetryFlowHealthy");
        (format!("{status} {reason}"), message)
    };
    assert_eq!(flow(2, 0).1, "No problems detected in the telemetry flow");
    let (said, message) = flow(97, 3);
    assert_eq!(said, "True FlowHealthy");
    assert!(message.ends_with("; 3 of 100 Pods do not answer"), "{message}");
    let (said, message) = flow(1, 99);
    assert_eq!(said, "Unknown GatewayProbingFailed");
    assert!(message.ends_with("because 99 of 100 Pods do not answer"), "{message}");
}

/// Two pipelines share a Secret: whatever one of them is like, the other has the values of now.
#[test]
fn a_pipeline_that_goes_on_as_it_was_does_not_bring_old_values_back() {
    let mut cluster = Cluster::new();
    let reference =
        |key: &str| json!({ "valueFrom": { "secretKeyRef": { "name": "shared", "namespace": "shop", "key": key } } });
    let spec = |more: Value| {
        let mut spec = json!({ "output": { "otlp": { "endpoint": reference("endpoint") } } });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    cluster.secret("shared", &[("endpoint", "http://old:4317")]);
    cluster.pipeline(Signal::Traces, "a-right", spec(json!({})));
    cluster.pipeline(Signal::Traces, "b-wrong", spec(json!({}))).settle();
    let wrong = json!({ "transform": [{ "statements": ["set(span.name"] }] });
    cluster.pipeline(Signal::Traces, "b-wrong", spec(wrong)).settle();
    cluster.secret("shared", &[("endpoint", "http://new:4317")]);
    let decision = cluster.settle();
    assert_eq!(configured(&decision), ["a-right", "b-wrong"]);
    let texts = documents(&decision).iter().map(Value::to_string).collect::<String>();
    let [old, new] = ["http://old:4317", "http://new:4317"].map(|value| BASE64_STANDARD.encode(value));
    assert!(texts.contains(&new) && !texts.contains(&old), "{texts}");
    // And it ends with the Secret, although its new specification refers to none.
    cluster.pipeline(Signal::Traces, "b-wrong", json!({ "output": otlp("nowhere") }));
    let decision = cluster.settle();
    assert!(decision.secrets.iter().any(|secret| secret.name == "shared"));
    assert_eq!(configured(&decision), ["a-right", "b-wrong"]);
    cluster.state("shared", SecretState::Missing(None));
    let decision = cluster.settle();
    assert_eq!(configured(&decision), Vec::<String>::new());
    assert_eq!(brief(&decision, "b-wrong", "TelemetryFlowHealthy"), "False ConfigurationNotGenerated");
}

#[test]
fn a_pipeline_that_is_made_anew_has_nothing_of_the_one_before() {
    let mut cluster = Cluster::new();
    let with_uid = |uid: &str, endpoint: &str| {
        let mut made = object(super::super::object::kinds::TRACE_PIPELINE, "shop", json!({ "output": otlp(endpoint) }));
        made["metadata"]["uid"] = uid.into();
        made
    };
    cluster.object(Signal::Traces, with_uid("one", "http://backend:4317")).settle();
    cluster.object(Signal::Traces, with_uid("two", "nowhere"));
    let decision = cluster.decide();
    assert_eq!(configured(&decision), Vec::<String>::new());
    cluster.object(Signal::Traces, with_uid("one", "nowhere"));
    assert_eq!(configured(&cluster.decide()), ["shop"]);
}
