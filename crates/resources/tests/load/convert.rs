//! Conversion between versions: field by field, and there and back again without loss.

use std::time::SystemTime;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use weir_resources::{ConversionError, Options, Source, Version, convert, is_convertible, load};

const DATA: &str = "telemetry.kyma-project.io/conversion-data";

fn document(kind: &str, version: Version, spec: &Value) -> Value {
    // The only Telemetry that has an effect is the one of this name.
    let (group, name) = if kind == "Telemetry" { ("operator", "default") } else { ("telemetry", "x") };
    let api_version = format!("{group}.kyma-project.io/{}", version.name());
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec, "status": {"a": 1}})
}

fn down(document: &Value) -> Value {
    convert(document.clone(), Version::V1Alpha1).expect("it is a resource with versions")
}

fn up(document: &Value) -> Value {
    convert(document.clone(), Version::V1Beta1).expect("it is a resource with versions")
}

/// Two specs that say the same, each in its version, with no need for an annotation.
fn check_pair(kind: &str, older: &Value, newer: &Value) {
    let (older, newer) = (document(kind, Version::V1Alpha1, older), document(kind, Version::V1Beta1, newer));
    assert_eq!(up(&older), newer, "{kind} up");
    assert_eq!(down(&newer), older, "{kind} down");
}

#[test]
fn what_both_versions_can_say() {
    let output = json!({"otlp": {"endpoint": {"value": "a:1"}, "protocol": "grpc"}});
    for kind in ["TracePipeline", "MetricPipeline", "LogPipeline"] {
        check_pair(kind, &json!({"output": output, "filter": [{}]}), &json!({"output": output, "filter": [{}]}));
    }
    for kind in ["MetricPipeline", "LogPipeline"] {
        for (older, newer) in [
            (json!({}), json!({"enabled": true})),
            (json!({"disabled": true}), json!({"enabled": false})),
            (json!({"namespaces": {"include": ["a"]}}), json!({"enabled": true, "namespaces": {"include": ["a"]}})),
            (json!({"namespaces": {}}), json!({"enabled": true, "namespaces": {}})),
        ] {
            check_pair(kind, &json!({"input": {"otlp": older}}), &json!({"input": {"otlp": newer}}));
        }
    }
    let telemetry = json!({"metric": {"collectionInterval": "30s"}});
    check_pair("Telemetry", &telemetry, &telemetry);
}

#[test]
fn container_logs_and_http() {
    let system = ["kyma-system", "kube-system", "istio-system"];
    for (older, newer) in [
        (json!({"system": true}), json!({})),
        (json!({"include": ["a"]}), json!({"include": ["a"]})),
        (json!({"exclude": ["a"]}), json!({"exclude": ["a"]})),
        (json!({"exclude": system}), json!({"exclude": system})),
    ] {
        let older = json!({"input": {"application": {"enabled": true, "namespaces": older}}});
        let newer = json!({"input": {"runtime": {"enabled": true, "namespaces": newer}}});
        check_pair("LogPipeline", &older, &newer);
    }
    let all = json!({
        "enabled": false, "namespaces": {"include": ["a"]}, "containers": {"exclude": ["c"]}, "keepOriginalBody": false,
        "keepAnnotations": true, "dropLabels": true,
    });
    check_pair("LogPipeline", &json!({"input": {"application": all}}), &json!({"input": {"runtime": all}}));
    check_pair(
        "LogPipeline",
        &json!({"output": {"http": {"tls": {"disabled": true, "skipCertificateValidation": false, "ca": {"value": "a"}}}}}),
        &json!({"output": {"http": {"tls": {"insecure": true, "insecureSkipVerify": false, "ca": {"value": "a"}}}}}),
    );
    // The same names elsewhere stay.
    let tls = json!({"output": {"otlp": {"tls": {"insecure": true, "insecureSkipVerify": true}}}});
    check_pair("LogPipeline", &tls, &tls);
    check_pair("TracePipeline", &tls, &tls);
}

#[test]
fn what_one_version_cannot_say_is_kept() {
    let compressed = document(
        "TracePipeline",
        Version::V1Beta1,
        &json!({"output": {"otlp": {"endpoint": {"value": "a:1"}, "compression": "zstd"}}}),
    );
    let older = down(&compressed);
    assert_eq!(older["spec"], json!({"output": {"otlp": {"endpoint": {"value": "a:1"}}}}));
    let kept: Value = serde_json::from_str(older["metadata"]["annotations"][DATA].as_str().unwrap()).unwrap();
    let api_version = "telemetry.kyma-project.io/v1beta1";
    assert_eq!(kept, json!({"apiVersion": api_version, "kind": "TracePipeline", "spec": compressed["spec"]}));
    assert_eq!(up(&older), compressed);

    let system = json!(["kyma-system", "kube-system", "istio-system"]);
    let default = document("LogPipeline", Version::V1Alpha1, &json!({"input": {"application": {}}}));
    let newer = up(&default);
    assert_eq!(newer["spec"], json!({"input": {"runtime": {"namespaces": {"exclude": system}}}}));
    assert_eq!(down(&newer), default);

    let empty = json!({"output": {"otlp": {"endpoint": {"value": "", "valueFrom": {"secretKeyRef": {"name": "a"}}}}}});
    let empty = document("MetricPipeline", Version::V1Alpha1, &empty);
    let newer = up(&empty);
    assert_eq!(newer["spec"]["output"]["otlp"]["endpoint"], json!({"valueFrom": {"secretKeyRef": {"name": "a"}}}));
    assert_eq!(down(&newer), empty);
}

#[test]
fn an_edit_wins_over_what_was_kept() {
    let newer = document(
        "MetricPipeline",
        Version::V1Beta1,
        &json!({"input": {"otlp": {}}, "output": {"otlp": {"endpoint": {"value": "a:1"}, "compression": "none"}}}),
    );
    let mut older = down(&newer);
    older["spec"]["output"]["otlp"]["endpoint"]["value"] = "b:2".into();
    older["spec"]["input"]["otlp"]["disabled"] = true.into();
    let expected = json!({
        "input": {"otlp": {"enabled": false}},
        "output": {"otlp": {"endpoint": {"value": "b:2"}, "compression": "none"}},
    });
    assert_eq!(up(&older)["spec"], expected);
    assert_eq!(up(&older)["metadata"], json!({"name": "x"}), "nothing is left that could come back later");

    let mut older = down(&newer);
    older["spec"]["output"] = json!({});
    assert_eq!(up(&older)["spec"]["output"], json!({}), "nothing to compress");
}

#[test]
fn annotations_of_other_implementations_are_understood() {
    let mut newer = document(
        "LogPipeline",
        Version::V1Beta1,
        &json!({"input": {"runtime": {"namespaces": {"exclude": ["kyma-system", "kube-system", "istio-system"]}}}}),
    );
    let older = json!({"input": {"application": {"namespaces": {}, "containers": {}}}});
    let data = json!({"apiVersion": "telemetry.kyma-project.io/v1alpha1", "kind": "LogPipeline",
        "metadata": {"name": "x", "generation": 3}, "spec": {"input": {"application": {"namespaces": {}}}}});
    newer["metadata"]["annotations"] = json!({DATA: data.to_string(), "a": "b"});
    let converted = down(&newer);
    assert_eq!(converted["spec"], json!({"input": {"application": {"namespaces": {}}}}));
    assert_ne!(converted["spec"], older);
    assert!(converted["metadata"]["annotations"]["a"] == "b");
    assert_eq!(up(&converted)["spec"], newer["spec"]);
}

#[test]
fn only_documents_with_two_versions() {
    for (document, error) in [
        (json!(null), "cannot convert \"\" of \"\": it is no pipeline or Telemetry in v1alpha1 or v1beta1"),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}}),
            "cannot convert \"Secret\" of \"v1\": it is no pipeline or Telemetry in v1alpha1 or v1beta1",
        ),
        (
            json!({"apiVersion": "operator.kyma-project.io/v1beta1", "kind": "LogPipeline"}),
            "cannot convert \"LogPipeline\" of \"operator.kyma-project.io/v1beta1\": it is no pipeline or Telemetry in v1alpha1 or v1beta1",
        ),
        (
            json!({"apiVersion": "telemetry.kyma-project.io/v1", "kind": ["LogPipeline"]}),
            "cannot convert \"\" of \"telemetry.kyma-project.io/v1\": it is no pipeline or Telemetry in v1alpha1 or v1beta1",
        ),
    ] {
        assert!(!is_convertible(&document));
        assert_eq!(convert(document, Version::V1Beta1).unwrap_err().to_string(), error);
    }
    let with = |metadata: Value| {
        let mut document = document("LogPipeline", Version::V1Alpha1, &json!({}));
        document["metadata"] = metadata;
        convert(document, Version::V1Beta1)
    };
    assert_eq!(with(json!("x")), Err(ConversionError::NotAnObject("metadata")));
    assert_eq!(with(json!({"annotations": [1]})), Err(ConversionError::NotAnObject("metadata.annotations")));
    for unreadable in [json!(1), json!("{hunter2")] {
        let converted = with(json!({"annotations": {DATA: unreadable}})).unwrap();
        assert!(!converted.to_string().contains("hunter2"), "it counts as absent");
    }
    assert!(with(json!({"annotations": null})).is_ok());
    assert!(with(json!({"annotations": {DATA: "{}"}})).is_ok());

    let same = document("LogPipeline", Version::V1Beta1, &json!({"input": {"application": 1}}));
    assert_eq!(up(&same), same, "nothing to do");
}

/// An object of some of these fields.
fn some_of(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> =
        fields.into_iter().map(|(name, value)| option::of(value).prop_map(move |value| (name, value))).collect();
    fields
        .prop_map(|fields| {
            let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(given.collect::<Map<_, _>>())
        })
        .boxed()
}

fn one_of(values: &[Value]) -> BoxedStrategy<Value> {
    prop::sample::select(values.to_vec()).boxed()
}

fn boolean() -> BoxedStrategy<Value> {
    one_of(&[json!(true), json!(false)])
}

fn names() -> BoxedStrategy<Value> {
    vec("[a-z]{1,3}", 0..3).prop_map(|names| json!(names)).boxed()
}

/// OTTL that every kind of pipeline takes.
fn conditions() -> BoxedStrategy<Value> {
    let condition = "[a-z]{1,3}".prop_map(|key| format!("resource.attributes[\"{key}\"] == nil"));
    vec(condition, 0..3).prop_map(|conditions| json!(conditions)).boxed()
}

fn namespaces(version: Version) -> BoxedStrategy<Value> {
    let mut kinds = vec![some_of(vec![("include", names())]), some_of(vec![("exclude", names())])];
    if version == Version::V1Alpha1 {
        kinds.push(some_of(vec![("system", boolean())]));
    }
    prop::strategy::Union::new(kinds).boxed()
}

fn value(version: Version) -> BoxedStrategy<Value> {
    value_like("a:1", "k", version)
}

/// A value that is this text, or that of a key in the Secret.
fn value_like(text: &str, key: &str, version: Version) -> BoxedStrategy<Value> {
    let reference = json!({"secretKeyRef": {"name": "s", "namespace": "default", "key": key}});
    let mut values = vec![json!({"value": text}), json!({"valueFrom": reference})];
    if version == Version::V1Alpha1 {
        values.push(json!({"value": "", "valueFrom": reference}));
    }
    one_of(&values)
}

/// Specs as the API allows them.
fn valid_spec(kind: &'static str, version: Version) -> BoxedStrategy<Value> {
    match kind {
        "Telemetry" => telemetry_spec(),
        "LogPipeline" => prop_oneof![3 => otlp_spec(kind, version), 1 => fluent_bit_spec(version)].boxed(),
        _ => otlp_spec(kind, version),
    }
}

/// Of a pipeline with `output.otlp`.
fn otlp_spec(kind: &'static str, version: Version) -> BoxedStrategy<Value> {
    let older = version == Version::V1Alpha1;
    let switch = if older { "disabled" } else { "enabled" };
    let otlp_input = some_of(vec![
        (switch, boolean()),
        ("namespaces", {
            prop::strategy::Union::new([some_of(vec![("include", names())]), some_of(vec![("exclude", names())])])
                .boxed()
        }),
    ]);
    let input = match kind {
        "LogPipeline" => some_of(vec![("otlp", otlp_input), runtime(version)]),
        _ => some_of(vec![("otlp", otlp_input)]),
    };
    let filter = vec(some_of(vec![("conditions", conditions())]), 0..2).prop_map(Value::from);
    (otlp_output(version), option::of(input), option::of(filter))
        .prop_map(move |(otlp, input, filter)| {
            let mut spec = json!({"output": {"otlp": otlp}});
            if let Some(input) = input.filter(|_| kind != "TracePipeline") {
                spec["input"] = input;
            }
            if let Some(filter) = filter {
                spec["filter"] = filter;
            }
            spec
        })
        .boxed()
}

/// The container logs of a LogPipeline.
fn runtime(version: Version) -> (&'static str, BoxedStrategy<Value>) {
    let runtime = some_of(vec![
        ("enabled", boolean()),
        ("keepOriginalBody", boolean()),
        ("namespaces", namespaces(version)),
        ("containers", some_of(vec![("include", names())])),
    ]);
    (if version == Version::V1Alpha1 { "application" } else { "runtime" }, runtime)
}

fn otlp_output(version: Version) -> BoxedStrategy<Value> {
    let mut fields = vec![("tls", some_of(vec![("insecure", boolean()), ("insecureSkipVerify", boolean())]))];
    if version == Version::V1Beta1 {
        fields.push(("compression", one_of(&[json!("none"), json!("gzip"), json!("zstd")])));
    }
    let headers = vec(value(version), 0..2).prop_map(|values| {
        let name = |(at, mut value): (usize, Value)| {
            value["name"] = format!("x-{at}").into();
            value
        };
        values.into_iter().enumerate().map(name).collect::<Value>()
    });
    fields.push(("headers", headers.boxed()));
    fields.push(("authentication", authentication(version)));
    (value(version), some_of(fields))
        .prop_map(|(endpoint, mut otlp)| {
            otlp["endpoint"] = endpoint;
            // A token is not sent in plain text.
            if otlp["authentication"]["oauth2"].is_object() && otlp["tls"].is_object() {
                otlp["tls"]["insecure"] = false.into();
            }
            otlp
        })
        .boxed()
}

fn authentication(version: Version) -> BoxedStrategy<Value> {
    let basic = (value_like("weir", "user", version), value(version))
        .prop_map(|(user, password)| json!({"basic": {"user": user, "password": password}}));
    let required = (value_like("https://a/token", "url", version), value(version), value(version));
    let params = btree_map("[a-z]{1,3}", "[a-z]{1,3}", 0..3).prop_map(|params| json!(params));
    let oauth2 = (required, some_of(vec![("scopes", names()), ("params", params.boxed())]));
    let oauth2 = oauth2.prop_map(|((url, id, secret), mut oauth2)| {
        oauth2["tokenURL"] = url;
        oauth2["clientID"] = id;
        oauth2["clientSecret"] = secret;
        json!({"oauth2": oauth2})
    });
    prop_oneof![Just(json!({})), basic, oauth2].boxed()
}

/// Of a LogPipeline with `output.http`.
fn fluent_bit_spec(version: Version) -> BoxedStrategy<Value> {
    let [insecure, skip_verify] = match version {
        Version::V1Alpha1 => ["disabled", "skipCertificateValidation"],
        Version::V1Beta1 => ["insecure", "insecureSkipVerify"],
    };
    let output = some_of(vec![
        ("user", value_like("shop", "user", version)),
        ("password", value(version)),
        ("uri", one_of(&[json!("/"), json!("/logs")])),
        ("port", one_of(&[json!("443")])),
        ("compress", one_of(&[json!("gzip")])),
        ("format", one_of(&[json!("json")])),
        ("dedot", boolean()),
        ("tls", some_of(vec![(insecure, boolean()), (skip_verify, boolean())])),
    ]);
    (output, option::of(some_of(vec![runtime(version)])))
        .prop_map(|(mut http, input)| {
            http["host"] = json!({"value": "logs.example.com"});
            let spec = json!({"output": {"http": http}});
            match input {
                Some(input) => json!({"output": spec["output"], "input": input}),
                None => spec,
            }
        })
        .boxed()
}

fn telemetry_spec() -> BoxedStrategy<Value> {
    let interval = || one_of(&[json!("30s"), json!("1m30s")]);
    let input = || some_of(vec![("collectionInterval", interval())]);
    let metric = some_of(vec![
        ("collectionInterval", interval()),
        ("runtime", input()),
        ("prometheus", input()),
        ("istio", input()),
    ]);
    let labels = vec(one_of(&[json!({"key": "app"}), json!({"keyPrefix": "team/"})]), 0..3).prop_map(Value::from);
    let cluster = some_of(vec![("name", one_of(&[json!("shoot")]))]);
    let enrichments = some_of(vec![("extractPodLabels", labels.boxed()), ("cluster", cluster)]);
    some_of(vec![("metric", metric), ("enrichments", enrichments)])
}

/// Any JSON, with the names of our fields in any place.
fn noise() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "input",
        "output",
        "otlp",
        "http",
        "tls",
        "runtime",
        "application",
        "namespaces",
        "include",
        "exclude",
        "system",
        "enabled",
        "disabled",
        "compression",
        "value",
        "valueFrom",
        "insecure",
        "skipCertificateValidation",
        "x",
    ]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

fn any_spec(kind: &'static str, version: Version) -> BoxedStrategy<Value> {
    prop_oneof![3 => valid_spec(kind, version), 1 => noise()].boxed()
}

fn any_document(version: Version) -> BoxedStrategy<Value> {
    prop::sample::select(vec!["TracePipeline", "MetricPipeline", "LogPipeline", "Telemetry"])
        .prop_flat_map(move |kind| any_spec(kind, version).prop_map(move |spec| document(kind, version, &spec)))
        .boxed()
}

fn valid_document(version: Version) -> BoxedStrategy<Value> {
    prop::sample::select(vec!["TracePipeline", "MetricPipeline", "LogPipeline", "Telemetry"])
        .prop_flat_map(move |kind| valid_spec(kind, version).prop_map(move |spec| document(kind, version, &spec)))
        .boxed()
}

fn plan(document: &Value) -> weir_plan::Plan {
    let data = json!({"k": "b:2", "user": "shop", "url": "https://b/token"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": data});
    // A plan has a pipeline, which neither a Telemetry is nor a LogPipeline for Fluent Bit.
    let other = json!({
        "apiVersion": "telemetry.kyma-project.io/v1beta1", "kind": "TracePipeline", "metadata": {"name": "other"},
        "spec": {"output": {"otlp": {"endpoint": {"value": "c:3"}}}},
    });
    let source = Source { name: "x.yaml".to_owned(), text: format!("{document}\n---\n{secret}\n---\n{other}\n") };
    load(&[source], &Options::at(SystemTime::UNIX_EPOCH)).unwrap_or_else(|report| panic!("{report}\n{document:#}")).plan
}

proptest! {
    #[test]
    fn down_and_up_again_is_the_same(newer in any_document(Version::V1Beta1)) {
        prop_assert_eq!(up(&down(&newer)), newer);
    }

    #[test]
    fn up_and_down_again_is_the_same(older in any_document(Version::V1Alpha1)) {
        prop_assert_eq!(down(&up(&older)), older);
    }

    #[test]
    fn the_plan_stays_the_same_on_the_way_up(older in valid_document(Version::V1Alpha1)) {
        prop_assert_eq!(plan(&up(&older)), plan(&older));
    }

    #[test]
    fn the_plan_stays_the_same_on_the_way_down(newer in valid_document(Version::V1Beta1)) {
        let (mut older, mut newer) = (plan(&down(&newer)), plan(&newer));
        for pipeline in older.pipelines.iter_mut().chain(&mut newer.pipelines) {
            pipeline.output.compression = weir_plan::Compression::Gzip;
        }
        prop_assert_eq!(older, newer);
    }
}
