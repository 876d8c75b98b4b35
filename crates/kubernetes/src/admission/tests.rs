use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use weir_resources::schema::{ConversionWebhook, custom_resource_definitions};
use weir_resources::{Version, convert as converted};

use super::*;

/// 2026-06-01.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_780_272_000)
}

fn pipeline(kind: &str, version: &str, spec: Value) -> Value {
    let api_version = format!("telemetry.kyma-project.io/{version}");
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "uid": "1"}, "spec": spec})
}

fn trace(otlp: Value) -> Value {
    pipeline("TracePipeline", "v1beta1", json!({"output": {"otlp": otlp}}))
}

fn good() -> Value {
    trace(json!({"endpoint": {"value": "localhost:4317"}}))
}

fn review(object: &Value, old: &Value) -> Vec<u8> {
    let request = json!({"uid": "u", "operation": "UPDATE", "object": object, "oldObject": old});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string().into_bytes()
}

fn judged(object: &Value, old: &Value) -> Value {
    let answer = validate(&review(object, old), now()).unwrap();
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    assert_eq!(answer["response"]["uid"], "u");
    answer["response"].clone()
}

fn created(object: &Value) -> Value {
    judged(object, &Value::Null)
}

#[test]
fn an_object_that_is_right_may_be_stored() {
    assert_eq!(created(&good()), json!({"uid": "u", "allowed": true}));
    assert_eq!(judged(&Value::Null, &good()), json!({"uid": "u", "allowed": true}), "it is deleted");
}

#[test]
fn all_that_is_wrong_is_said_at_once_with_its_field() {
    let object = pipeline(
        "LogPipeline",
        "v1beta1",
        json!({
            "input": {"otlp": {"namespaces": {"include": ["a"], "exclude": ["b"]}}},
            "output": {"otlp": {"endpoint": {"value": "a:1"}, "path": "/x"}},
            "filter": [{"conditions": ["log.bdy == 1"]}],
            "variables": [],
        }),
    );
    let response = created(&object);
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    let lines: Vec<_> = status["message"].as_str().unwrap().lines().collect();
    for expected in [
        "spec.input.otlp.namespaces: Only one of 'include' or 'exclude' can be defined",
        "spec.output.otlp.path: Path is only available with HTTP protocol; expected protocol: http",
        "spec.variables: variables not supported with otlp output",
        "spec.filter[0].conditions[0]: OTTL specification is invalid",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(expected)), "{lines:#?}");
    }
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), lines.len());
    assert_eq!((&status["details"]["name"], &status["details"]["kind"]), (&json!("x"), &json!("LogPipeline")));
    assert!(causes.iter().any(|cause| cause["field"] == "spec.input.otlp.namespaces"), "{causes:#?}");
}

#[test]
fn what_a_condition_reports_is_a_warning() {
    let secret = json!({"valueFrom": {"secretKeyRef": {"name": "a", "namespace": "b", "key": "c"}}});
    assert_eq!(created(&trace(json!({"endpoint": secret}))), json!({"uid": "u", "allowed": true}), "it may come");
    for (otlp, warning) in [
        (
            json!({"endpoint": {"value": "localhost"}}),
            "EndpointInvalid: spec.output.otlp.endpoint.value: OTLP output endpoint invalid: missing port: \"localhost\"; \
             expected HOST:PORT, for example backend.example.com:4317",
        ),
        (
            json!({"endpoint": {"value": "a:1"}, "tls": {"ca": {"value": "x"}}}),
            "TLSConfigurationInvalid: spec.output.otlp.tls.ca.value: TLS configuration invalid: failed to decode PEM block \
             containing CA certificate",
        ),
    ] {
        let response = created(&trace(otlp));
        assert_eq!(response["allowed"], true, "{response}");
        let warnings = response["warnings"].as_array().unwrap();
        let (reason, _) = warning.split_once(": ").unwrap();
        assert!(warnings[0].as_str().unwrap().starts_with(reason), "{warnings:?}\n{warning}");
    }
}

#[test]
fn deprecated_attributes_are_warned_of() {
    let spec = json!({
        "input": {"runtime": {"keepAnnotations": true, "dropLabels": false}},
        "output": {"http": {"host": {"value": "a"}}},
        "filters": [{"custom": "Name grep\nExclude $a b"}],
        "variables": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "namespace": "b", "key": "c"}}}],
        "files": [{"name": "a", "content": "hunter2"}],
    });
    let response = created(&pipeline("LogPipeline", "v1beta1", spec));
    assert_eq!(response["allowed"], true, "{response}");
    let warnings: Vec<_> =
        response["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap()).collect();
    for attribute in
        ["filters", "output.http", "variables", "files", "input.runtime.dropLabels", "input.runtime.keepAnnotations"]
    {
        let text = format!(
            "LogPipeline 'x' uses the attribute '{attribute}' which is based on the deprecated FluentBit technology stack"
        );
        assert!(warnings.iter().any(|warning| warning.contains(&text)), "{warnings:#?}");
    }
}

/// The API server says it, too, and says what is said twice once.
#[test]
fn a_deprecated_version_is_warned_of_as_the_definition_does() {
    let definitions = custom_resource_definitions(&ConversionWebhook::url("https://localhost/"));
    let versions = definitions[0]["spec"]["versions"].as_array().unwrap();
    let older = versions.iter().find(|version| version["name"] == "v1alpha1").unwrap();
    let object = pipeline("TracePipeline", "v1alpha1", good()["spec"].clone());
    assert_eq!(created(&object)["warnings"], json!([older["deprecationWarning"]]));
}

/// Who sets a label, or lets go of an object, need not know how to write pipelines.
#[test]
fn what_stays_as_it_is_is_not_judged() {
    let bad = trace(json!({}));
    assert_eq!(created(&bad)["allowed"], false);
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    labelled["metadata"]["annotations"] = json!({"somebody.else/a": "b"});
    assert_eq!(judged(&labelled, &bad), json!({"uid": "u", "allowed": true}));
    assert_eq!(mutate(&review(&labelled, &bad)).unwrap()["response"], json!({"uid": "u", "allowed": true}));

    let mut annotated = bad.clone();
    annotated["metadata"]["annotations"] = json!({"weir.dev/backlog-max-age": "x"});
    assert_eq!(judged(&annotated, &bad)["allowed"], false);
    let mut published = bad.clone();
    published["metadata"]["annotations"] = json!({"telemetry.kyma-project.io/service-enrichment": "otel"});
    assert_eq!(judged(&published, &bad)["allowed"], false);
    let mut leaving = annotated;
    leaving["metadata"]["deletionTimestamp"] = json!("2026-06-01T00:00:00Z");
    assert_eq!(judged(&leaving, &bad)["allowed"], true);
}

#[test]
fn no_secret_is_quoted() {
    let value = json!({"value": "hunter2\u{1}"});
    let response = created(&trace(json!({
        "endpoint": {"value": "https://user:hunter2@a:1"},
        "headers": [{"name": "a", "value": "hunter2\u{1}"}, {"name": "b b", "value": ["hunter2"]}],
        "authentication": {"basic": {"user": {"value": "hunter2:"}, "password": 1}},
        "tls": {"cert": value, "key": value},
        "hunter2 is a secret": 1,
    })));
    assert_eq!(response["allowed"], false);
    assert!(!response.to_string().contains("hunter2"), "{response:#}");
}

#[test]
fn many_findings_are_cut_short() {
    let spec = json!({"output": {"otlp": {"endpoint": {"value": "a:1"}, "headers": vec![json!({}); 100]}}});
    let response = created(&pipeline("TracePipeline", "v1beta1", spec));
    let message = response["status"]["message"].as_str().unwrap();
    assert_eq!(message.lines().count(), MAX_SHOWN + 1);
    assert!(message.ends_with("more are not shown"), "{message}");
}

/// What an API server makes of an answer of `mutate`.
fn patched(object: &Value) -> Value {
    let response = mutate(&review(object, &Value::Null)).unwrap()["response"].clone();
    assert_eq!(response["allowed"], true);
    let mut patched = object.clone();
    let Some(patch) = response.get("patch") else { return patched };
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = BASE64_STANDARD.decode(patch.as_str().unwrap()).unwrap();
    for operation in serde_json::from_slice::<Vec<Value>>(&patch).unwrap() {
        assert_eq!(operation["op"], "add");
        let (parent, key) = operation["path"].as_str().unwrap().rsplit_once('/').unwrap();
        patched.pointer_mut(parent).unwrap()[key] = operation["value"].clone();
    }
    patched
}

#[test]
fn defaults_are_written_once() {
    let metrics = json!({"input": {"runtime": {"enabled": true}}, "output": {"otlp": {"endpoint": {"value": "a:1"}}}});
    for object in [good(), pipeline("MetricPipeline", "v1beta1", metrics)] {
        let once = patched(&object);
        assert_ne!(once, object);
        assert_eq!(once, with_defaults(object));
        assert_eq!(patched(&once), once);
        assert_eq!(created(&once)["allowed"], true);
    }
}

/// The text of an object is read as YAML, which knows more than JSON.
#[test]
fn every_character_may_stand_in_a_text() {
    let characters: Vec<_> = (0..=0xffff_u32).filter_map(char::from_u32).chain(['\u{1f600}', '\u{10ffff}']).collect();
    for characters in characters.chunks(64) {
        let texts = characters.iter().map(|character| (format!("{character}b"), json!(format!("a{character}"))));
        let mut object = good();
        object["metadata"]["annotations"] = texts.collect::<serde_json::Map<_, _>>().into();
        let response = created(&object);
        assert_eq!(response["allowed"], true, "{characters:?}: {response}");
    }
}

#[test]
fn what_is_no_review_is_refused() {
    for (body, error) in [
        ("", "no AdmissionReview"),
        ("{}", "no AdmissionReview"),
        ("[1]", "no AdmissionReview"),
        (
            r#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "u"}}"#,
            "v1beta1",
        ),
        (r#"{"apiVersion": "admission.k8s.io/v1", "kind": "Pod", "request": {"uid": "u"}}"#, "Pod"),
    ] {
        for answer in [validate(body.as_bytes(), now()), mutate(body.as_bytes())] {
            let message = answer.unwrap_err().to_string();
            assert!(message.contains(error), "{message}");
        }
        assert!(convert(body.as_bytes()).is_err());
    }
    let deep = "[".repeat(100_000);
    assert!(validate(deep.as_bytes(), now()).is_err());
    for object in [json!({}), json!(1), json!({"apiVersion": "v1", "kind": "Secret"}), json!({"kind": {}})] {
        let response = created(&object);
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)), "{response}");
        assert_eq!(mutate(&review(&object, &Value::Null)).unwrap()["response"]["allowed"], false);
    }
}

fn conversion(objects: &[Value], desired: &str) -> Value {
    let request = json!({"uid": "u", "desiredAPIVersion": desired, "objects": objects});
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    let answer = convert(review.to_string().as_bytes()).unwrap();
    assert_eq!((&answer["kind"], &answer["response"]["uid"]), (&json!("ConversionReview"), &json!("u")));
    answer["response"].clone()
}

#[test]
fn objects_are_converted_down_and_up_again() {
    let mut other = trace(json!({"endpoint": {"value": "a:1"}, "compression": "zstd"}));
    other["metadata"]["name"] = json!("y");
    let objects = [good(), other];
    let down = conversion(&objects, "telemetry.kyma-project.io/v1alpha1");
    assert_eq!(down["result"], json!({"status": "Success"}));
    let down = down["convertedObjects"].as_array().unwrap().clone();
    let expected = objects.clone().map(|object| converted(object, Version::V1Alpha1).unwrap());
    assert_eq!(down, expected);
    let up = conversion(&down, "telemetry.kyma-project.io/v1beta1");
    assert_eq!(up["convertedObjects"], json!(objects));
}

#[test]
fn a_conversion_fails_as_a_whole_and_says_why() {
    for (objects, desired, message) in [
        (
            vec![good(), json!({"kind": "Pod", "metadata": {"name": "p"}})],
            "telemetry.kyma-project.io/v1alpha1",
            "\"p\": cannot convert \"Pod\"",
        ),
        (vec![good()], "telemetry.kyma-project.io/v1", "cannot convert \"x\" to \"telemetry.kyma-project.io/v1\""),
        (vec![good()], "operator.kyma-project.io/v1alpha1", "the kind is of another group"),
        (vec![json!(null)], "telemetry.kyma-project.io/v1alpha1", "cannot convert"),
    ] {
        let response = conversion(&objects, desired);
        assert_eq!(response["result"]["status"], "Failure");
        assert!(response["result"]["message"].as_str().unwrap().contains(message), "{response}");
        assert_eq!(response.get("convertedObjects"), None);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = [
        "apiVersion",
        "kind",
        "metadata",
        "annotations",
        "spec",
        "output",
        "otlp",
        "input",
        "runtime",
        "endpoint",
        "value",
        "namespaces",
        "telemetry.kyma-project.io/v1alpha1",
        "telemetry.kyma-project.io/v1beta1",
        "LogPipeline",
        "MetricPipeline",
        "telemetry.kyma-project.io/conversion-data",
        "{\"spec\":[]}",
        "deletionTimestamp",
        "enabled",
    ];
    let word = proptest::sample::select(words.to_vec()).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(word.clone(), inner, 0..8)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_in_a_review_makes_it_panic(
        spec in any_json(),
        metadata in any_json(),
        old in any_json(),
        kind in 0..2_usize,
        version in 0..2_usize,
    ) {
        let api_version = format!("telemetry.kyma-project.io/{}", ["v1beta1", "v1alpha1"][version]);
        let kind = ["LogPipeline", "MetricPipeline"][kind];
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
        let body = review(&object, &old);
        prop_assert!(validate(&body, now()).is_ok());
        prop_assert!(mutate(&body).is_ok());
        for desired in ["v1beta1", "v1alpha1"] {
            conversion(&[object.clone(), old.clone()], &format!("telemetry.kyma-project.io/{desired}"));
        }
    }

    #[test]
    fn nothing_that_arrives_makes_it_panic(body in any::<Vec<u8>>(), review in any_json()) {
        for body in [body, review.to_string().into_bytes()] {
            let _ = (validate(&body, now()), mutate(&body), convert(&body));
        }
    }
}
