//! The table of fields is enough for a schema of each kind, in the form in which an API server wants it (OpenAPI v3):
//! documents that load keep to it, and documents that lack something, or have too much, do not. What an API server makes
//! of it is tested with one, by the crate of the operator.

use std::fs;
use std::io;

use serde_json::{Map, Value, json};
use weir_resources::schema::{ConversionWebhook, custom_resource_definitions, of_kind, of_type};
use weir_resources::table::{DefaultValue, Field, Group, Object, Older, Rule, Type};
use weir_resources::{
    Files, KINDS, Source, Version, convert, errors as errors_of_text, is_convertible, load, with_defaults,
};

use crate::examples::examples;
use crate::rules::{cases, document};
use crate::{options, plan};

/// The schema of what a field takes. Rules, which the library writes in a language that this test does not speak, are
/// added in the words of JSON Schema.
fn schema(of: Type, version: Version) -> Value {
    match of {
        Type::List(of) => json!({"type": "array", "items": schema(*of, version)}),
        Type::Map(of) => json!({"type": "object", "additionalProperties": schema(*of, version)}),
        Type::Object(object) => of_object(object, version),
        of => of_type(of, "", version),
    }
}

fn of_object(object: &'static Object, version: Version) -> Value {
    let fields: Vec<_> = object.fields().filter_map(|field| Some((field.key(version)?, field))).collect();
    let properties: Map<_, _> =
        fields.iter().map(|(key, field)| ((*key).to_owned(), of_field(field, version))).collect();
    let required: Vec<_> = fields.iter().filter(|(_, field)| field.required).map(|(key, _)| key).collect();
    let groups: Vec<_> = object.groups_in(version).map(|group| of_group(object, group, version)).collect();
    let others = if object.open { json!({"type": "string"}) } else { json!(false) };
    json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": others,
        "required": required,
        "allOf": groups,
    })
}

fn of_field(field: &Field, version: Version) -> Value {
    let mut schema = schema(field.of, version);
    match field.default {
        DefaultValue::Text(text) => schema["default"] = text.into(),
        DefaultValue::Boolean(value) => {
            let says_opposite = version == Version::V1Alpha1 && matches!(field.older, Older::Opposite(_));
            schema["default"] = (value != says_opposite).into();
        }
        DefaultValue::None | DefaultValue::Words(_) => {}
    }
    schema
}

fn of_group(object: &'static Object, group: &Group, version: Version) -> Value {
    let given: Vec<_> = group.names.iter().map(|name| is_given(object, group, name, version)).collect();
    let none = json!({"not": {"anyOf": given}});
    match group.rule {
        Rule::ExactlyOne => json!({"oneOf": given}),
        Rule::AtLeastOne => json!({"anyOf": given}),
        Rule::AtMostOne => {
            let one_or_none: Vec<_> = given.into_iter().chain([none]).collect();
            json!({"oneOf": one_or_none})
        }
        Rule::AllOrNone => json!({"oneOf": [{"allOf": given}, none]}),
    }
}

/// Whether a field of a group counts as given.
fn is_given(object: &'static Object, group: &Group, name: &str, version: Version) -> Value {
    let field = object.fields().find(|field| field.name == name).expect("a group names fields of its mapping");
    let key = field.key(version).expect("the version has all fields of the group");
    let says_something = match field.of {
        Type::Text(_) | Type::Formed(_) => json!({"minLength": 1}),
        Type::Object(object) => {
            let texts = |field: &Field| matches!(field.of, Type::Text(_) | Type::Formed(_));
            let given = object.fields().filter_map(|field| Some((field.key(version)?, texts(field))));
            let given = given.map(|(key, is_text)| {
                let inner = if is_text { json!({"minLength": 1}) } else { json!({}) };
                json!({"required": [key], "properties": {key: inner}})
            });
            json!({"anyOf": given.collect::<Vec<_>>()})
        }
        _ => json!({}),
    };
    let inner = if group.empty_is_missing { says_something } else { json!({}) };
    json!({"required": [key], "properties": {key: inner}})
}

/// What is wrong with a value, with the path of it.
fn errors(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let mut wrong = |what: &str| found.push(format!("{path}: {what}"));
    let is_type = |name: &str| match name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the schema has the type {other}"),
    };
    if schema["type"].as_str().is_some_and(|name| !is_type(name)) {
        return wrong(&format!("is not of type {}", schema["type"]));
    }
    if schema["enum"].as_array().is_some_and(|names| !names.contains(value)) {
        wrong("is none of the names");
    }
    if schema["minimum"].as_u64().is_some_and(|least| value.as_u64() < Some(least)) {
        wrong("is too small");
    }
    let length = value.as_str().map(|text| text.chars().count() as u64);
    if length.is_some() && (schema["minLength"].as_u64() > length) {
        wrong("is too short");
    }
    if schema["maxLength"].as_u64().is_some_and(|most| length > Some(most)) {
        wrong("is too long");
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            wrong(&format!("{key} is missing"));
        }
    }
    let fits = |schema: &Value| {
        let mut found = Vec::new();
        errors(schema, value, path, &mut found);
        found.is_empty()
    };
    let fitting = |key: &str| schema[key].as_array().map(|all| all.iter().filter(|schema| fits(schema)).count());
    if fitting("oneOf").is_some_and(|fitting| fitting != 1) || fitting("anyOf") == Some(0) {
        wrong("has too many or too few fields of a group");
    }
    if schema.get("not").is_some_and(fits) {
        wrong("has what it must not have");
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        errors(part, value, path, found);
    }
    inner_errors(schema, value, path, found);
}

fn inner_errors(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let (Some(of), Some(items)) = (schema.get("items"), value.as_array()) {
        items.iter().enumerate().for_each(|(index, item)| errors(of, item, &format!("{path}[{index}]"), found));
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        match (schema["properties"].get(key), schema.get("additionalProperties")) {
            (Some(of), _) => errors(of, inner, &path, found),
            (None, Some(Value::Bool(false))) => found.push(format!("{path}: is not known")),
            (None, Some(of)) => errors(of, inner, &path, found),
            // An API server drops it.
            (None, None) if schema["type"] == "object" && schema.get("properties").is_some() => {
                found.push(format!("{path}: is dropped"))
            }
            (None, None) => {}
        }
    }
}

/// A field that is null counts as not given.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let given = map.into_iter().filter(|(_, value)| !value.is_null());
            given.map(|(key, value)| (key, without_nulls(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        value => value,
    }
}

/// What its kind may have, and its version; nothing if its kind is not in the table.
fn kind_of(document: &Value) -> Option<(&'static Object, Version)> {
    let kind = KINDS.iter().find(|kind| document["kind"] == kind.name)?;
    let (_, version) = kind.versions.iter().find(|(name, _)| document["apiVersion"] == *name)?;
    Some((kind.fields?, *version))
}

fn source(text: String) -> Source {
    Source { name: "x.yaml".to_owned(), text }
}

/// The documents in a text whose kinds are in the table.
fn documents(text: String) -> Vec<Value> {
    let mut files = Files::read(&[]);
    files.sources.push(source(text));
    let read = files.documents().expect("the text can be read");
    let all = read.into_iter().flat_map(|(_, documents)| documents).map(without_nulls);
    all.filter(|document| kind_of(document).is_some()).collect()
}

fn complaints(document: &Value) -> Vec<String> {
    let (object, version) = kind_of(document).expect("the kind is in the table");
    let mut found = Vec::new();
    errors(&of_object(object, version), document, "", &mut found);
    if let Some(kind) = KINDS.iter().find(|kind| is_convertible(document) && document["kind"] == kind.name) {
        // An operator writes the status; what people write there is not looked at.
        let mut document = document.clone();
        document.as_object_mut().into_iter().for_each(|document| drop(document.remove("status")));
        errors(&of_kind(kind, version), &document, "", &mut found);
    }
    found
}

/// Texts that load, at most with warnings.
fn accepted() -> Vec<String> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = fs::read_dir(directory).expect("the cases are there");
    let read = |entry: io::Result<fs::DirEntry>| entry.and_then(|entry| fs::read_to_string(entry.path()));
    let files = entries.map(|entry| read(entry).expect("a file of cases can be read"));
    let of_cases = |file: String| cases(&file).iter().map(document).collect::<Vec<_>>();
    let of_cases: Vec<_> = files.flat_map(of_cases).collect();
    let loads = |text: &String| load(&[source(text.clone())], &options()).is_ok();
    let of_examples = Files::read(&[examples()]).sources.into_iter().map(|source| source.text);
    of_cases.into_iter().filter(loads).chain(of_examples).collect()
}

#[test]
fn what_loads_keeps_to_the_schema() {
    let mut count = 0;
    for document in accepted().into_iter().flat_map(documents) {
        let complaints = complaints(&document);
        assert!(complaints.is_empty(), "{complaints:#?}\n{document:#}");
        count += 1;
    }
    assert!(count > 100, "only {count} documents found");
}

/// The same document without one field, for each field in it.
fn each_without_a_field(of: Type, version: Version, value: &Value) -> Vec<Value> {
    let put = |key: &str, inner: Value| {
        let mut whole = value.clone();
        whole[key] = inner;
        whole
    };
    match (of, value) {
        (Type::List(of), Value::Array(items)) => {
            let without = |(index, item)| {
                let items_with = move |inner| {
                    let mut items = items.clone();
                    items[index] = inner;
                    Value::Array(items)
                };
                each_without_a_field(*of, version, item).into_iter().map(items_with)
            };
            items.iter().enumerate().flat_map(without).collect()
        }
        (Type::Object(object), Value::Object(map)) => {
            let mut found = Vec::new();
            for (key, field) in object.fields().filter_map(|field| Some((field.key(version)?, field))) {
                let Some(inner) = map.get(key) else { continue };
                let without = each_without_a_field(field.of, version, inner);
                found.extend(without.into_iter().map(|inner| put(key, inner)));
                found.push(put(key, Value::Null));
            }
            found
        }
        _ => Vec::new(),
    }
}

fn is_refused(document: &Value) -> bool {
    !errors_of_text(&source(document.to_string()), &options()).is_empty()
}

/// Whether code refuses a document because of one field that another mapping, or a text, makes necessary. The table has
/// no such rules.
fn breaks_a_rule_of_code(document: &Value) -> bool {
    let errors = errors_of_text(&source(document.to_string()), &options());
    let of_code = ["variable \"TENANT\" is not defined", "Path is only available with HTTP protocol"];
    errors.iter().any(|error| of_code.iter().any(|message| error.message.contains(message)))
}

fn is_refused_by_schema(document: &Value) -> bool {
    let document = without_nulls(document.clone());
    kind_of(&document).is_none() || !complaints(&document).is_empty()
}

#[test]
fn a_field_that_is_missing_is_refused_by_both_or_by_none() {
    let mut count = 0;
    let texts = Files::read(&[examples()]).sources.into_iter().map(|source| source.text);
    for document in texts.flat_map(documents) {
        let (object, version) = kind_of(&document).expect("the kind is in the table");
        let without = each_without_a_field(Type::Object(object), version, &document).into_iter();
        for document in without.filter(|document| !breaks_a_rule_of_code(document)) {
            let (by_code, by_schema) = (is_refused(&document), is_refused_by_schema(&document));
            assert_eq!(by_code, by_schema, "by code, by schema:\n{:#}", without_nulls(document));
            count += usize::from(by_code);
        }
    }
    assert!(count > 100, "only {count} fields found without which documents are refused");
}

#[test]
fn too_many_or_too_few_of_a_group_are_refused_by_both() {
    let api = "telemetry.kyma-project.io";
    let pipeline = |kind: &str, version: &str, spec: Value| json!({"apiVersion": format!("{api}/{version}"), "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    let trace = |otlp: Value| pipeline("TracePipeline", "v1beta1", json!({"output": {"otlp": otlp}}));
    let reference = json!({"secretKeyRef": {"name": "a", "namespace": "b", "key": "c"}});
    let (both, otlp) = (json!(["a"]), json!({"endpoint": {"value": "b:1"}}));
    let login = json!({"user": {"value": "a"}, "password": {"value": "b"}});
    let with = |key: &str, value: Value| json!({"endpoint": {"value": "b:1"}, key: value});
    let log_input = |version: &str, key: &str, namespaces: Value| {
        pipeline("LogPipeline", version, json!({"input": {key: {"namespaces": namespaces}}, "output": {"otlp": otlp}}))
    };
    for document in [
        trace(json!({"endpoint": {}})),
        trace(json!({"endpoint": {"value": "b:1", "valueFrom": reference}})),
        trace(with("headers", json!([{"name": "a"}]))),
        trace(with("authentication", json!({"basic": {"user": {}, "password": {"value": "a"}}}))),
        trace(with("authentication", json!({"basic": login, "oauth2": {}}))),
        trace(with("tls", json!({"cert": {"value": "a"}, "key": {"value": ""}}))),
        pipeline("LogPipeline", "v1beta1", json!({"output": {}})),
        pipeline("LogPipeline", "v1beta1", json!({"output": {"otlp": otlp, "http": {"host": {"value": "a"}}}})),
        log_input("v1beta1", "runtime", json!({"include": both, "exclude": both})),
        log_input("v1alpha1", "application", json!({"include": both, "system": true})),
        json!({"apiVersion": "operator.kyma-project.io/v1beta1", "kind": "Telemetry", "metadata": {"name": "default"},
            "spec": {"enrichments": {"extractPodLabels": [{"key": ""}]}}}),
    ] {
        assert!(is_refused(&document), "it loads:\n{document:#}");
        assert!(is_refused_by_schema(&document), "it keeps to the schema:\n{document:#}");
    }
}

/// A default that is not a right value would go unnoticed until somebody leaves the field out.
#[test]
fn every_default_can_be_written() {
    fn check(of: Type, version: Version, path: &str) {
        match of {
            Type::List(of) | Type::Map(of) => check(*of, version, path),
            Type::Object(object) => {
                for field in object.fields().filter(|field| field.key(version).is_some()) {
                    let path = format!("{path}.{}", field.name);
                    let schema = of_field(field, version);
                    let mut found = Vec::new();
                    schema.get("default").into_iter().for_each(|value| errors(&schema, value, &path, &mut found));
                    assert!(found.is_empty(), "{found:?}");
                    check(field.of, version, &path);
                }
            }
            _ => {}
        }
    }
    for kind in KINDS {
        let object = kind.fields.into_iter();
        object.for_each(|object| kind.versions.iter().for_each(|(_, v)| check(Type::Object(object), *v, kind.name)));
    }
}

/// An API server writes defaults into documents.
#[test]
fn a_default_that_is_written_changes_nothing() {
    fn filled(of: Type, version: Version, value: Value) -> Value {
        match (of, value) {
            (Type::Object(object), Value::Object(mut map)) => {
                for field in object.fields() {
                    let Some(key) = field.key(version) else { continue };
                    if let Some(default) = of_field(field, version).get("default") {
                        map.entry(key).or_insert_with(|| default.clone());
                    } else if let Some(inner) = map.remove(key) {
                        map.insert(key.to_owned(), filled(field.of, version, inner));
                    }
                }
                Value::Object(map)
            }
            (_, value) => value,
        }
    }
    let name = json!({"name": "a", "annotations": {}});
    let otlp = json!({"endpoint": {"value": "b:1"}, "tls": {}});
    let on = || json!({"resources": {"pod": {}, "job": {}}, "enabled": true});
    let specs = [
        ("TracePipeline", json!({"output": {"otlp": otlp}})),
        (
            "MetricPipeline",
            json!({"input": {"otlp": {}, "runtime": on(), "istio": {"envoyMetrics": {}}}, "output": {"otlp": otlp}}),
        ),
        ("LogPipeline", json!({"input": {"otlp": {}, "runtime": {}}, "output": {"otlp": otlp}})),
        ("LogPipeline", json!({"input": {"runtime": {}}, "output": {"http": {"host": {"value": "b"}, "tls": {}}}})),
    ];
    for (kind, spec) in specs {
        for version in [Version::V1Beta1, Version::V1Alpha1] {
            let api = format!("telemetry.kyma-project.io/{}", version.name());
            let mut bare = json!({"apiVersion": api, "kind": kind, "metadata": name, "spec": spec});
            if version == Version::V1Alpha1 && kind == "LogPipeline" {
                let input = bare["spec"]["input"].as_object_mut().expect("the input is there");
                let runtime = input.remove("runtime").expect("the input is there");
                input.insert("application".to_owned(), runtime);
            }
            let (object, version) = kind_of(&bare).expect("the kind is in the table");
            let whole = filled(Type::Object(object), version, bare.clone());
            assert_ne!(whole, bare);
            assert_eq!(plan(&whole.to_string()), plan(&bare.to_string()), "{whole:#}");
        }
    }
}

/// The documents of a text with what is written into them.
fn with_all_defaults(text: &str) -> String {
    let mut files = Files::read(&[]);
    files.sources.push(source(text.to_owned()));
    let read = files.documents().expect("the text can be read");
    let documents = read.into_iter().flat_map(|(_, documents)| documents);
    documents.map(|document| format!("---\n{}\n", with_defaults(document))).collect()
}

#[test]
fn what_is_written_into_objects_changes_nothing_and_is_written_once() {
    let mut changed = 0;
    for text in accepted() {
        let written = with_all_defaults(&text);
        let [before, after] = [&text, &written].map(|text| load(&[source(text.clone())], &options()));
        let plan = |loaded: Result<weir_resources::Loaded, _>| loaded.map(|loaded| loaded.plan).ok();
        assert_eq!(plan(after), plan(before), "{text}\n{written}");
        assert_eq!(with_all_defaults(&written), written, "{text}");
    }
    for document in accepted().into_iter().flat_map(documents).filter(is_convertible) {
        let written = with_defaults(document.clone());
        changed += usize::from(written != document);
        let complaints = complaints(&written);
        assert!(complaints.is_empty(), "{complaints:#?}\n{written:#}");
        let current = |document: Value| {
            let converted = convert(document, Version::V1Beta1).expect("it can be converted");
            with_defaults(converted)["spec"].take()
        };
        assert_eq!(current(written), current(document.clone()), "{document:#}");
    }
    assert!(changed > 50, "only {changed} documents had something written into them");
}

/// The defaults that people and their tools know of the pipeline API.
#[test]
fn the_published_defaults_are_written() {
    let otlp = json!({"endpoint": {"value": "b:1"}});
    let system = json!({"exclude": ["kyma-system", "kube-system", "istio-system"]});
    let on = json!({"enabled": true, "namespaces": {}});
    let off = json!({"enabled": false});
    let resources: Map<_, _> = ["pod", "container", "node", "volume", "daemonset", "deployment", "statefulset", "job"]
        .map(|name| (name.to_owned(), json!({"enabled": name != "pod"})))
        .into_iter()
        .collect();
    let grpc = json!({"otlp": {"endpoint": {"value": "b:1"}, "protocol": "grpc"}});
    let metrics = json!({"otlp": {"endpoint": {"value": "b:1"}, "protocol": "grpc", "temporality": "preserve"}});
    let logs = json!({"enabled": true, "namespaces": system, "keepOriginalBody": true});
    for (kind, version, spec, expected) in [
        ("TracePipeline", "v1beta1", json!({"output": {"otlp": otlp}}), json!({"output": grpc})),
        (
            "MetricPipeline",
            "v1beta1",
            json!({"output": {"otlp": otlp}}),
            json!({"input": {"otlp": on}, "output": metrics}),
        ),
        (
            "MetricPipeline",
            "v1beta1",
            json!({"input": {"prometheus": {}, "istio": {"enabled": true}, "runtime": {"enabled": true, "resources": {"pod": off}}},
                "output": {"otlp": otlp}}),
            json!({"input": {
                "otlp": on,
                "prometheus": off,
                "istio": {"enabled": true, "namespaces": system, "diagnosticMetrics": off, "envoyMetrics": off},
                "runtime": {"enabled": true, "namespaces": system, "resources": resources},
            }, "output": metrics}),
        ),
        (
            "MetricPipeline",
            "v1alpha1",
            json!({"output": {"otlp": otlp}}),
            json!({"input": {"otlp": {"namespaces": {}}}, "output": metrics}),
        ),
        (
            "LogPipeline",
            "v1beta1",
            json!({"output": {"otlp": otlp}}),
            json!({"input": {"otlp": on, "runtime": logs}, "output": grpc}),
        ),
        (
            "LogPipeline",
            "v1beta1",
            json!({"output": {"http": {"host": {"value": "b"}}}}),
            json!({"input": {"runtime": logs}, "output": {"http": {"host": {"value": "b"}}}}),
        ),
        (
            "LogPipeline",
            "v1alpha1",
            json!({"input": {"application": {"namespaces": {"system": true}}}, "output": {"otlp": otlp}}),
            json!({"input": {
                "otlp": {"namespaces": {}},
                "application": {"enabled": true, "namespaces": {"system": true}, "keepOriginalBody": true},
            }, "output": grpc}),
        ),
    ] {
        let api = format!("telemetry.kyma-project.io/{version}");
        let document = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        assert_eq!(with_defaults(document)["spec"], expected, "{kind} {spec}");
    }
}

/// What an API server asks of every part of a schema: a type, and nothing that contradicts a default of its own.
#[test]
fn schemas_are_structural() {
    fn check(schema: &Value, path: &str) {
        let has_type = schema["type"].is_string() || schema["x-kubernetes-preserve-unknown-fields"] == true;
        assert!(has_type, "{path} has no type");
        assert!(schema.get("properties").is_none() || schema.get("additionalProperties").is_none(), "{path}");
        for key in ["allOf", "anyOf", "oneOf", "not", "$ref"] {
            assert!(schema.get(key).is_none(), "{path} has {key}");
        }
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            check(inner, &format!("{path}.{key}"));
        }
        for key in ["items", "additionalProperties"] {
            schema.get(key).into_iter().for_each(|inner| check(inner, &format!("{path}.{key}")));
        }
    }
    let definitions = custom_resource_definitions(&ConversionWebhook::url("https://localhost:1/convert"));
    let names: Vec<_> = definitions.iter().map(|definition| definition["metadata"]["name"].as_str()).collect();
    let expected =
        ["tracepipelines.telemetry", "metricpipelines.telemetry", "logpipelines.telemetry", "telemetries.operator"];
    assert_eq!(
        names,
        expected.map(|name| format!("{name}.kyma-project.io")).each_ref().map(|name| Some(name.as_str()))
    );
    for definition in definitions {
        for version in definition["spec"]["versions"].as_array().expect("there are versions") {
            let schema = &version["schema"]["openAPIV3Schema"];
            check(schema, definition["metadata"]["name"].as_str().expect("it has a name"));
            let keys: Vec<_> = schema["properties"]["metadata"].as_object().into_iter().flatten().collect();
            assert_eq!(keys, [(&"type".to_owned(), &json!("object"))], "metadata is the API server's");
        }
    }
}

/// By the published words: columns of `kubectl get`, short names and categories.
#[test]
fn kubectl_shows_the_published_columns_and_knows_the_names() {
    let pipelines = json!(["kyma-telemetry", "kyma-telemetry-pipelines"]);
    let telemetry = json!(["kyma-modules", "kyma-telemetry"]);
    let [configuration, gateway, agent, flow] =
        ["Configuration Generated", "Gateway Healthy", "Agent Healthy", "Flow Healthy"];
    let all = vec![configuration, gateway, agent, flow, "Age"];
    let expected = [
        ("TracePipeline", "tp", &pipelines, vec![configuration, gateway, flow, "Age"]),
        ("MetricPipeline", "mp", &pipelines, all.clone()),
        ("LogPipeline", "lp", &pipelines, all),
        ("Telemetry", "tel", &telemetry, vec!["State", "Age"]),
    ];
    let definitions = custom_resource_definitions(&ConversionWebhook::url("https://localhost:1/convert"));
    for (definition, (kind, short, categories, columns)) in definitions.iter().zip(expected) {
        let names = &definition["spec"]["names"];
        assert_eq!((&names["kind"], &names["shortNames"]), (&json!(kind), &json!([short])));
        assert_eq!(&names["categories"], categories, "{kind}");
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let shown = version["additionalPrinterColumns"].as_array().unwrap().iter();
            let shown: Vec<_> = shown.map(|column| column["name"].as_str().unwrap()).collect();
            let mut columns = columns.clone();
            if kind == "LogPipeline" && version["name"] == "v1alpha1" {
                columns.insert(4, "Unsupported Mode");
            }
            assert_eq!(shown, columns, "{kind} {}", version["name"]);
        }
    }
}
