//! Whole requests: what is dropped, counted, limited and left alone.

use serde_json::{Value, json};
use weir_otlp::build::Encoder;
use weir_otlp::{from_json, to_json};
use weir_ottl::{Context, Filter, Filtered, Limits, Options, Origin, Signal, Transform, signatures};

use crate::plain::{from_otlp, to_otlp};
use crate::table::LIMITS;

pub(crate) fn request(signal: Signal, plain: &Value) -> Vec<u8> {
    from_json(signal, to_otlp(plain).to_string().as_bytes(), &weir_otlp::Limits::default(), 1 << 24).unwrap()
}

fn plain(signal: Signal, request: &[u8]) -> Value {
    from_otlp(&serde_json::from_slice(&to_json(signal, request, &weir_otlp::Limits::default()).unwrap().text).unwrap())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn filter(signal: Signal, conditions: &[&str], request: &[u8]) -> Filtered {
    Filter::compile(signal, &Options::filter(signal), &texts(conditions)).unwrap().apply(request, &LIMITS)
}

fn traces() -> Value {
    let span = |name: &str, service: &str| json!({"name": name, "attributes": {"peer": service}});
    json!({"resourceSpans": [
        {"resource": {"attributes": {"service.name": "a"}}, "scopeSpans": [
            {"scope": {"name": "one"}, "spans": [span("x", "p"), span("y", "q")]},
            {"scope": {"name": "two"}, "spans": [span("x", "r")]},
        ]},
        {"resource": {"attributes": {"service.name": "b"}}, "scopeSpans": [
            {"scope": {"name": "one"}, "spans": [span("z", "s")]},
        ]},
    ]})
}

#[test]
fn a_filter_drops_items_and_what_is_left_empty() {
    let bytes = request(Signal::Traces, &traces());
    let done = filter(Signal::Traces, &["span.name == \"y\"", "span.name == \"x\" or span.name == \"y\""], &bytes);
    assert_eq!(plain(Signal::Traces, &done.request.unwrap()), json!({"resourceSpans": [traces()["resourceSpans"][1]]}));
    assert_eq!((done.dropped, done.conditions[0].matched, done.conditions[1].matched), (vec![1, 2], 1, 2));

    let some = filter(Signal::Traces, &["span.attributes[\"peer\"] == \"q\""], &bytes);
    let mut expected = traces();
    expected["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array_mut().unwrap().remove(1);
    assert_eq!(plain(Signal::Traces, &some.request.unwrap()), expected);

    let none = filter(Signal::Traces, &["span.attributes[\"peer\"][\"deep\"] == 1", "span.name == nil"], &bytes);
    assert_eq!((none.request, none.dropped, none.conditions[0].errors), (None, vec![0, 0], 4));

    let all = filter(Signal::Traces, &["IsMatch(resource.attributes[\"service.name\"], \"^[ab]$\")"], &bytes);
    assert_eq!((all.request, all.dropped, all.conditions[0].matched), (Some(Vec::new()), vec![4], 2));

    let scopes = filter(Signal::Traces, &["scope.name == \"one\""], &bytes);
    assert_eq!((&scopes.dropped[..], scopes.conditions[0].matched), (&[3][..], 2));
    assert_eq!(plain(Signal::Traces, &scopes.request.unwrap())["resourceSpans"].as_array().unwrap().len(), 1);
}

#[test]
fn a_metric_without_points_goes_away() {
    let point = |value: i64| json!({"asInt": value.to_string(), "attributes": {"v": value}});
    let metrics = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [
        {"name": "g", "gauge": {"dataPoints": [point(1), point(2)]}},
        {"name": "s", "sum": {"dataPoints": [point(1)], "isMonotonic": true}},
        {"name": "empty"},
    ]}]}]});
    let bytes = request(Signal::Metrics, &metrics);
    let points = filter(Signal::Metrics, &["datapoint.value_int == 1"], &bytes);
    let left = &plain(Signal::Metrics, &points.request.unwrap())["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    assert_eq!(left, &json!([{"name": "g", "gauge": {"dataPoints": [point(2)]}}, {"name": "empty"}]));
    assert_eq!(points.dropped, [2]);

    let whole = filter(Signal::Metrics, &["metric.name == \"g\""], &bytes);
    assert_eq!((whole.dropped, whole.conditions[0].matched), (vec![2], 1));
}

/// Whatever a condition is about, what it removes is counted in items, and for no other condition.
#[test]
fn drops_are_counted_for_the_condition_that_comes_first() {
    let bytes = request(Signal::Traces, &traces());
    let done = filter(
        Signal::Traces,
        &[
            "span.name == \"x\"",
            "resource.attributes[\"service.name\"] == \"b\"",
            "scope.name == \"two\"",
            "span.kind == SPAN_KIND_UNSPECIFIED",
            "resource.attributes[\"service.name\"] != nil and false",
        ],
        &bytes,
    );
    assert_eq!((done.request.as_deref(), &done.dropped[..]), (Some(&[][..]), &[1, 1, 1, 1, 0][..]));
}

/// The conditions of a published configuration of the collector, on a span for each of them and on those of others.
#[test]
fn the_proxy_spans_of_a_published_configuration() {
    let conditions: Vec<String> = include_str!("cases/relay.txt").lines().map(str::to_owned).collect();
    let filter = Filter::compile(Signal::Traces, &Options::fixed(Context::Span), &conditions).unwrap();
    let data = |service: &str, spans: &[[&str; 4]]| {
        let span = |[method, operation, url, agent]: &[&str; 4]| {
            json!({"attributes": {"http.method": method, "component": "proxy", "OperationName": operation,
                "http.url": url, "user_agent": agent}})
        };
        let resource = json!({"attributes": {"service.name": service, "k8s.namespace.name": "kyma-system"}});
        json!({"resource": resource, "scopeSpans": [{"spans": spans.iter().map(span).collect::<Value>()}]})
    };
    let api = "http://x/api";
    let proxy = [
        data("jaeger.kyma-system", &[["POST", "Ingress", api, ""], ["GET", "Ingress", api, ""]]),
        data("grafana.kyma-system", &[["GET", "Egress", api, ""], ["GET", "Ingress", api, ""]]),
        data("loki.kyma-system", &[["GET", "Ingress", api, ""], ["POST", "Ingress", api, ""]]),
        data("telemetry-fluent-bit.kyma-system", &[["POST", "Egress", api, ""]]),
        data(
            "any",
            &[
                ["GET", "Ingress", "http://x/metrics", ""],
                ["GET", "Ingress", "http://x/healthz", ""],
                ["GET", "Ingress", "http://x/healthz/ready", ""],
                ["GET", "Ingress", api, "vm_promscrape"],
                ["POST", "Egress", "https://telemetry-otlp-traces.kyma-system.svc:4317/v1", ""],
                ["POST", "Egress", "http://telemetry-trace-collector-internal.kyma-system:55678", ""],
            ],
        ),
    ];
    let others = [
        data("jaeger.kyma-system", &[["PUT", "Ingress", api, ""], ["POST", "Egress", api, ""]]),
        data(
            "shop",
            &[["POST", "Egress", "https://shop.default:4317/v1", ""], ["GET", "Egress", "http://x/metrics", ""]],
        ),
        json!({"scopeSpans": [{"spans": [{"name": "an application's own"}]}]}),
    ];
    let all = [&proxy[..], &others[..]].concat();
    let request = request(Signal::Traces, &json!({ "resourceSpans": all }));
    let done = filter.apply(&request, &LIMITS);
    let matched: Vec<u64> = done.conditions.iter().map(|tally| tally.matched).collect();
    assert_eq!(matched, [1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1]);
    assert_eq!(plain(Signal::Traces, &done.request.unwrap()), json!({"resourceSpans": others}));
}

#[test]
fn statements_see_what_earlier_ones_did_to_what_they_share() {
    let bytes = request(Signal::Traces, &traces());
    let statements = texts(&[
        "set(resource.attributes[\"seen\"], 0) where resource.attributes[\"seen\"] == nil",
        "set(resource.attributes[\"seen\"], resource.attributes[\"seen\"] + 1) where span.name != \"\"",
        "set(span.attributes[\"number\"], resource.attributes[\"seen\"])",
    ]);
    let transform = Transform::compile(Signal::Traces, &Options::transform(Signal::Traces), &[], &statements).unwrap();
    let done = transform.apply(&bytes, &LIMITS);
    assert_eq!(done.statements.iter().map(|tally| tally.matched).collect::<Vec<_>>(), [2, 4, 4]);
    let result = plain(Signal::Traces, &done.request.unwrap());
    assert_eq!(result["resourceSpans"][0]["resource"]["attributes"]["seen"], 3);
    assert_eq!(result["resourceSpans"][0]["scopeSpans"][1]["spans"][0]["attributes"]["number"], 3);
    assert_eq!(result["resourceSpans"][1]["scopeSpans"][0]["spans"][0]["attributes"]["number"], 1);
}

#[test]
fn resources_and_scopes_that_are_absent_are_made() {
    let bytes = request(Signal::Logs, &json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": "x"}]}]}]}));
    let statements = texts(&[
        "set(resource.attributes[\"a\"], log.body)",
        "set(scope.name, \"made\")",
        "set(scope.schema_url, \"u\")",
        "set(log.attributes[\"b\"], 1)",
    ]);
    let transform = Transform::compile(Signal::Logs, &Options::transform(Signal::Logs), &[], &statements).unwrap();
    let done = transform.apply(&bytes, &LIMITS);
    assert_eq!(
        plain(Signal::Logs, &done.request.unwrap()),
        json!({"resourceLogs": [{"resource": {"attributes": {"a": "x"}}, "scopeLogs": [
            {"scope": {"name": "made"}, "logRecords": [{"body": "x", "attributes": {"b": 1}}], "schemaUrl": "u"}]}]})
    );
}

#[test]
fn conditions_of_a_group_are_alternatives_and_their_errors_are_counted() {
    let bytes = request(Signal::Traces, &traces());
    let conditions = texts(&["span.name[\"x\"] == 1", "span.name == \"z\""]);
    let statements = texts(&["set(span.name, \"found\")"]);
    let options = Options::transform(Signal::Traces);
    let errors = Transform::compile(Signal::Traces, &options, &conditions, &statements).unwrap_err();
    assert_eq!((errors.len(), errors[0].origin()), (1, Origin::Condition(0)));
    let conditions = texts(&["span.attributes[\"peer\"][0] == 1", "span.name == \"z\""]);
    let done = Transform::compile(Signal::Traces, &options, &conditions, &statements).unwrap().apply(&bytes, &LIMITS);
    assert_eq!((done.conditions[0].errors, done.conditions[1].matched, done.statements[0].matched), (4, 1, 1));
    assert_eq!(done.conditions[0].first_error.as_deref(), Some("a string cannot be indexed"));
}

#[test]
fn growth_is_limited() {
    let bytes = request(Signal::Traces, &traces());
    let long = "x".repeat(100);
    let statements = [format!("set(span.attributes[\"long\"], \"{long}\")"), "set(span.name, \"ok\")".to_owned()];
    let options = Options::transform(Signal::Traces);
    let transform = Transform::compile(Signal::Traces, &options, &[], &statements).unwrap();
    let limits = Limits { max_growth: 300, ..LIMITS };
    let done = transform.apply(&bytes, &limits);
    let counts = |index: usize| (done.statements[index].matched, done.statements[index].errors);
    assert_eq!((counts(0), counts(1)), ((2, 2), (4, 0)));
    assert_eq!(done.statements[0].first_error.as_deref(), Some("the request would grow beyond its limit"));
    assert!(done.request.unwrap().len() <= bytes.len() + limits.max_growth);

    // What is overwritten or removed again does not count.
    let statements = [
        format!("set(resource.attributes[\"long\"], \"{long}\") where span.name != nil"),
        "delete_key(resource.attributes, \"long\") where span.name != \"z\"".to_owned(),
        format!("set(scope.schema_url, \"{long}\")"),
    ];
    let transform = Transform::compile(Signal::Traces, &options, &[], &statements).unwrap();
    let done = transform.apply(&bytes, &Limits { max_growth: 500, ..LIMITS });
    assert!(done.statements.iter().all(|tally| tally.errors == 0), "{:?}", done.statements);

    let doubling = vec!["set(span.cache[\"x\"], Concat([span.cache[\"x\"], span.cache[\"x\"]], \"\"))".to_owned(); 64];
    let transform = Transform::compile(Signal::Traces, &options, &[], &doubling).unwrap();
    let done = transform.apply(&bytes, &LIMITS);
    assert!(done.statements[63].errors == 4 && done.request.is_none());
}

/// The reference leaves it as it is too, but says nothing.
#[test]
fn a_malformed_trace_state_is_not_changed() {
    let spans = json!([{"traceState": "foo,a=1"}]);
    let bytes = request(Signal::Traces, &json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}));
    let statements = texts(&["set(span.trace_state[\"c\"], \"3\")"]);
    let transform = Transform::compile(Signal::Traces, &Options::transform(Signal::Traces), &[], &statements).unwrap();
    let done = transform.apply(&bytes, &LIMITS);
    assert_eq!((done.request, done.statements[0].errors), (None, 1));
    assert_eq!(done.statements[0].first_error.as_deref(), Some("the trace state is not valid"));
}

/// Two bytes of a request must not become some dozen bytes of memory without an end.
#[test]
fn what_is_too_large_to_look_into_is_left_alone() {
    let mut many = weir_otlp::build::Encoder::default();
    let resource = many.open(1, 0);
    let scope = many.open(2, 0);
    let span = many.open(2, 0);
    (0..70_000).for_each(|_| many.bytes(9, b""));
    many.close(span);
    many.bytes(2, b"\x2a\x01n");
    many.close(scope);
    many.close(resource);
    let statements = texts(&["set(span.attributes[\"a\"], 1)", "set(span.name, \"x\")"]);
    let options = Options::transform(Signal::Traces);
    let done =
        Transform::compile(Signal::Traces, &options, &[], &statements).unwrap().apply(&many.into_bytes(), &LIMITS);
    assert_eq!((done.statements[0].errors, done.statements[1].errors, done.statements[0].matched), (1, 1, 1));
    assert_eq!(done.statements[0].first_error.as_deref(), Some("the item has too many fields"));

    let long = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": vec![Value::Null; 600_000]}]}]}]});
    let bytes = request(Signal::Logs, &long);
    let statements = texts(&["set(log.attributes[\"a\"], Len(log.body))", "set(log.severity_text, \"x\")"]);
    let options = Options::transform(Signal::Logs);
    let done = Transform::compile(Signal::Logs, &options, &[], &statements).unwrap().apply(&bytes, &LIMITS);
    assert_eq!((done.statements[0].errors, done.statements[1].matched), (1, 1));
    assert_eq!(done.request.unwrap().len(), bytes.len() + 3);
}

#[test]
fn groups_are_equal_when_their_texts_are() {
    let compile = |text: &str| {
        Transform::compile(Signal::Traces, &Options::transform(Signal::Traces), &[], &texts(&[text])).unwrap()
    };
    assert_eq!(compile("set(span.name, \"a\")"), compile("set(span.name, \"a\")").clone());
    assert_ne!(compile("set(span.name, \"a\")"), compile("set(span.name, \"b\")"));
}

#[test]
fn contexts_are_inferred_as_the_reference_does() {
    let context = |signal, conditions: &[&str], statements: &[&str]| {
        let options = Options::transform(signal);
        Transform::compile(signal, &options, &texts(conditions), &texts(statements)).unwrap().context()
    };
    let resource = "set(resource.attributes[\"a\"], 1)";
    assert_eq!(context(Signal::Traces, &[], &[resource]), Context::Resource);
    assert_eq!(context(Signal::Traces, &["span.name == \"x\""], &[resource]), Context::Span);
    assert_eq!(context(Signal::Traces, &[], &[resource, "set(spanevent.name, span.name)"]), Context::SpanEvent);
    assert_eq!(context(Signal::Metrics, &["metric.name == \"x\""], &["set(datapoint.flags, 0)"]), Context::DataPoint);
    // The resource context has no IsRootSpan: the first context inside that has it is taken.
    assert_eq!(context(Signal::Traces, &[], &["set(resource.attributes[\"a\"], IsRootSpan())"]), Context::Span);
}

#[test]
fn the_supported_functions_can_be_listed() {
    let signatures = signatures();
    let set = signatures.iter().find(|signature| signature.name == "set").unwrap();
    assert_eq!((set.signature.as_str(), set.is_editor), ("set(target: path, value: value)", true));
    let limit = signatures.iter().find(|signature| signature.name == "truncate_all").unwrap();
    assert_eq!(
        limit.signature,
        "truncate_all(target: path to a map, limit: int literal, utf8_safe?: bool literal, \
         truncation_marker?: string literal)"
    );
    assert!(signatures.is_sorted_by_key(|signature| (!signature.is_editor, signature.name)));
}

/// OTTL-4
#[test]
fn copies_of_copies_end_at_the_limit() {
    let metric = json!({"name": "m", "gauge": {"dataPoints": [{"asInt": "1"}]}});
    let metrics = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}, {"metrics": [metric]}]}]});
    let bytes = request(Signal::Metrics, &metrics);
    let statements = texts(&["copy_metric() where metric.name == \"m\""]);
    let transform =
        Transform::compile(Signal::Metrics, &Options::transform(Signal::Metrics), &[], &statements).unwrap();
    let done = transform.apply(&bytes, &Limits { max_growth: 4096, ..LIMITS });
    let grown = done.request.unwrap();
    assert!(grown.len() > bytes.len() + 2048 && grown.len() <= bytes.len() + 4096, "{}", grown.len());
    let tally = &done.statements[0];
    assert!(tally.errors > 1 && tally.first_error.as_deref().unwrap().contains("grow beyond its limit"));
    let plain = plain(Signal::Metrics, &grown);
    let scopes = &plain["resourceMetrics"][0]["scopeMetrics"];
    assert_eq!(scopes[0]["metrics"].as_array().unwrap().len() as u64, tally.matched + 1);
    assert_eq!(scopes[1]["metrics"].as_array().unwrap().len(), 1);
}

#[test]
fn metrics_added_come_behind_those_of_their_scope_and_keep_the_rest() {
    let metric =
        |name: &str| json!({"name": name, "sum": {"aggregationTemporality": 2, "dataPoints": [{"asInt": "1"}]}});
    let scope = |names: &[&str]| json!({"metrics": names.iter().map(|name| metric(name)).collect::<Value>()});
    let metrics = json!({"resourceMetrics": [{"scopeMetrics": [scope(&["a", "b"]), scope(&["b"]), scope(&["a"])]}]});
    let bytes = request(Signal::Metrics, &metrics);
    let statements = texts(&[
        "copy_metric(\"copy\") where metric.name == \"a\"",
        "convert_sum_to_gauge() where metric.name == \"copy\"",
        "set(scope.schema_url, \"seen\") where metric.name == \"copy\"",
    ]);
    let transform =
        Transform::compile(Signal::Metrics, &Options::transform(Signal::Metrics), &[], &statements).unwrap();
    let done = transform.apply(&bytes, &LIMITS);
    assert!(done.statements.iter().all(|tally| tally.errors == 0));
    let mut expected = metrics.clone();
    for index in [0, 2] {
        let scope = &mut expected["resourceMetrics"][0]["scopeMetrics"][index];
        let copy = json!({"name": "copy", "gauge": {"dataPoints": [{"asInt": "1"}]}});
        scope["metrics"].as_array_mut().unwrap().push(copy);
        scope["schemaUrl"] = json!("seen");
    }
    assert_eq!(plain(Signal::Metrics, &done.request.unwrap()), expected);
}

/// Encoders write the scope first; those that do not are right, too.
#[test]
fn a_scope_may_stand_behind_the_metrics_that_are_added_to() {
    let metric = json!({"name": "m", "gauge": {"dataPoints": [{"asInt": "1"}]}});
    let with = |scope: &Value| json!({"resourceMetrics": [{"scopeMetrics": [scope]}]});
    let [metrics, scope] = [json!({"metrics": [metric]}), json!({"scope": {"name": "s"}})];
    // Of a message that occurs twice, the fields of both are one message.
    let body = |part: &Value| request(Signal::Metrics, &with(part))[4..].to_vec();
    let scope_metrics = [body(&metrics), body(&scope)].concat();
    let mut bytes = Encoder::default();
    let resource = bytes.open(1, 0);
    bytes.bytes(2, &scope_metrics);
    bytes.close(resource);
    let bytes = bytes.into_bytes();
    let statements =
        texts(&["set(scope.attributes[\"last\"], metric.name)", "copy_metric(\"copy\") where metric.name == \"m\""]);
    let transform =
        Transform::compile(Signal::Metrics, &Options::transform(Signal::Metrics), &[], &statements).unwrap();
    let done = transform.apply(&bytes, &LIMITS);
    assert!(done.statements.iter().all(|tally| tally.errors == 0), "{done:?}");
    let copy = json!({"name": "copy", "gauge": {"dataPoints": [{"asInt": "1"}]}});
    let expected = json!({"scope": {"name": "s", "attributes": {"last": "copy"}}, "metrics": [metric, copy]});
    assert_eq!(plain(Signal::Metrics, &done.request.unwrap()), with(&expected));
}

/// OTTL-3
#[test]
fn editors_of_whole_metrics_write_what_the_type_has_and_keep_what_they_do_not_know() {
    const UNKNOWN: &[u8] = b"\xfa\x07\x03abc";
    // A metric with the name `m` and a sum, which has a point, a temporality and a field that is unknown.
    let point = b"\x09\x21\0\0\0\0\0\0\x10\x40";
    let sum = |point: &[u8]| [&b"\x0a"[..], point, b"\x10\x02", UNKNOWN].concat();
    let metric = |number: u8, data: &[u8]| {
        [&b"\x0a\x01m"[..], &[number << 3 | 2, u8::try_from(data.len()).unwrap()], data, UNKNOWN].concat()
    };
    let around = |body: &[u8], key: u8| [&[key, u8::try_from(body.len()).unwrap()], body].concat();
    let request = |metric: &[u8]| around(&around(&around(metric, 0x12), 0x12), 0x0a);
    let apply = |statement: &str| {
        let statements = texts(&[statement]);
        let options = Options::transform(Signal::Metrics);
        let transform = Transform::compile(Signal::Metrics, &options, &[], &statements).unwrap();
        transform.apply(&request(&metric(7, &sum(point))), &LIMITS).request.unwrap()
    };
    let gauge = apply("convert_sum_to_gauge() where metric.name == \"m\"");
    assert_eq!(gauge, request(&metric(5, &[&b"\x0a"[..], point].concat())));
    let doubled = b"\x09\x21\0\0\0\0\0\0\x20\x40";
    assert_eq!(apply("scale_metric(2.0) where metric.name == \"m\""), request(&metric(7, &sum(doubled))));
}

#[test]
fn conditions_have_no_functions_of_transforms() {
    let conditions = texts(&["ParseCEF(log.body)[\"a\"] == 1"]);
    let refused = Filter::compile(Signal::Logs, &Options::filter(Signal::Logs), &conditions).unwrap_err();
    assert!(refused[0].message().contains("exists in the statements of transforms only"), "{}", refused[0]);
}

/// Views read damaged bytes as far as they go; so must editors of whole metrics.
#[test]
fn damaged_metrics_do_not_panic() {
    let buckets = json!({"offset": -1, "bucketCounts": ["1", "2"]});
    let metrics = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [
        {"name": "g", "gauge": {"dataPoints": [{"asInt": "1"}, {"asDouble": 2.0}]}},
        {"name": "h", "histogram": {"aggregationTemporality": 1, "dataPoints": [
            {"count": "3", "sum": 2.0, "bucketCounts": ["1", "2"], "explicitBounds": [1.0]}, {"count": "1"}]}},
        {"name": "e", "exponentialHistogram": {"aggregationTemporality": 2, "dataPoints": [
            {"count": "3", "scale": 1, "positive": buckets, "negative": buckets}, {"count": "3", "positive": buckets}]}},
        {"name": "s", "summary": {"dataPoints": [{"count": "1", "quantileValues": [{"quantile": 0.5}]}]}},
    ]}]}]});
    let bytes = request(Signal::Metrics, &metrics);
    let whole = texts(&[
        "extract_percentile_metric(50.0) where metric.name != \"c\"",
        "extract_sum_metric(true) where metric.name != \"c\"",
        "convert_summary_quantile_val_to_gauge() where metric.name != \"c\"",
        "copy_metric(\"c\") where metric.name != \"c\"",
        "aggregate_on_attributes(\"median\", []) where metric.name != \"c\"",
        "convert_exponential_histogram_to_histogram(\"random\", [0.0, 1.0, 2.0]) where metric.name == \"c\"",
        "scale_metric(2.0) where metric.name == \"c\"",
    ]);
    let points = texts(&[
        "convert_summary_count_val_to_sum(\"delta\", true) where datapoint.flags == 0",
        "merge_histogram_buckets(1.0) where datapoint.count > 0",
    ]);
    let options = Options::transform(Signal::Metrics);
    let transforms = [&whole, &points].map(|all| Transform::compile(Signal::Metrics, &options, &[], all).unwrap());
    for index in 0..bytes.len() {
        for byte in [0, 1, 0x0a, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[index] = byte;
            for transform in &transforms {
                transform.apply(&damaged, &Limits { max_growth: 4096, ..LIMITS });
            }
        }
    }
}

/// A condition with the first thing that is wrong with it done as the error says, again and again.
fn mended(signal: Signal, condition: &str) -> String {
    let mut condition = condition.to_owned();
    while let Err(errors) = Filter::compile(signal, &Options::filter(signal), std::slice::from_ref(&condition)) {
        let help = errors[0].help().unwrap_or_else(|| panic!("no help: {}", errors[0]));
        let path = help.strip_prefix("write \"").and_then(|path| path.strip_suffix('"'));
        condition.replace_range(errors[0].range(), path.unwrap_or_else(|| panic!("{condition}: {help}")));
    }
    condition
}

#[test]
fn the_context_that_an_error_proposes_is_the_one_that_was_meant() {
    for (signal, condition, expected) in [
        (Signal::Traces, "attributes[\"a\"] == 1", "span.attributes[\"a\"] == 1"),
        (Signal::Traces, "name == \"a\" and scope.name == \"b\"", "span.name == \"a\" and scope.name == \"b\""),
        (
            Signal::Traces,
            "status.code == 2 and resource.schema_url == \"\"",
            "span.status.code == 2 and resource.schema_url == \"\"",
        ),
        (Signal::Traces, "version == \"1\" and span.name == \"a\"", "scope.version == \"1\" and span.name == \"a\""),
        (Signal::Traces, "cache[\"a\"] == nil", "span.cache[\"a\"] == nil"),
        (
            Signal::Metrics,
            "attributes[\"a\"] == 1 and metric.name == \"b\"",
            "datapoint.attributes[\"a\"] == 1 and metric.name == \"b\"",
        ),
        (
            Signal::Metrics,
            "name == \"a\" and type == 1 and value_int == 1",
            "metric.name == \"a\" and metric.type == 1 and datapoint.value_int == 1",
        ),
        (
            Signal::Metrics,
            "name == \"a\" and datapoint.value_int == 1",
            "metric.name == \"a\" and datapoint.value_int == 1",
        ),
        (
            Signal::Logs,
            "body == \"a\" and resource.attributes[\"b\"] == 1",
            "log.body == \"a\" and resource.attributes[\"b\"] == 1",
        ),
        (
            Signal::Logs,
            "IsMatch(body, \"a\") and Any(attributes, (k, v) => v == body)",
            "IsMatch(log.body, \"a\") and Any(log.attributes, (k, v) => v == log.body)",
        ),
    ] {
        assert_eq!(mended(signal, condition), expected);
    }
    let errors =
        Filter::compile(Signal::Traces, &Options::filter(Signal::Traces), &texts(&["body == \"a\""])).unwrap_err();
    assert_eq!(errors[0].help(), Some("none of span, resource, scope has it"));
}

#[test]
fn pasted_conditions_of_a_collector_match_once_they_have_the_context_that_is_proposed() {
    let conditions: Vec<String> =
        include_str!("cases/relay.txt").lines().map(|condition| mended(Signal::Traces, condition)).collect();
    assert_eq!(conditions.len(), 12);
    for (resource, span) in [
        (json!({"service.name": "jaeger.kyma-system"}), json!({"http.method": "POST", "OperationName": "Ingress"})),
        (json!({}), json!({"http.method": "GET", "OperationName": "Ingress", "user_agent": "vm_promscrape"})),
        (
            json!({"k8s.namespace.name": "kyma-system"}),
            json!({"http.method": "GET", "OperationName": "Ingress", "http.url": "http://a/metrics"}),
        ),
    ] {
        let mut span = span;
        span["component"] = json!("proxy");
        let bytes = request(
            Signal::Traces,
            &json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [
                {"spans": [{"name": "noise", "attributes": span}, {"name": "kept"}]},
            ]}]}),
        );
        let filter = Filter::compile(Signal::Traces, &Options::filter(Signal::Traces), &conditions).unwrap();
        assert_eq!(filter.apply(&bytes, &LIMITS).dropped.iter().sum::<u64>(), 1, "{resource} {span}");
    }
}
