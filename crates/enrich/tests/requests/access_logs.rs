//! Access logs of Istio's proxies get the form of other log records, and log records their time of observation.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message as _;
use weir_enrich::Noise;
use weir_otlp::Signal;

use crate::support::{NOW, Pairs, attributes, enrich, enricher, key_value, legacy, logs};

const NAMED: Pairs<'_> = &[("service.name", "mine")];
const ISTIO: (&str, &str) = ("kyma.module", "istio");

fn enriched(request: &ExportLogsServiceRequest) -> ExportLogsServiceRequest {
    let enricher = enricher(&legacy(), &[]);
    let request = request.encode_to_vec();
    let (bytes, gone) = enrich(&enricher, Signal::Logs, &request, None, Noise::Drop);
    assert_eq!(gone, 0);
    ExportLogsServiceRequest::decode(&bytes[..]).unwrap()
}

fn istio_scope(attributes: Pairs<'_>) -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: "io.kyma-project.telemetry/istio".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        attributes: self::attributes(attributes),
        dropped_attributes_count: 0,
    })
}

/// The attributes of an access log record with these, afterwards.
fn check_attributes(own: Pairs<'_>, expected: Pairs<'_>) {
    let request = logs(NAMED, &[&[&[ISTIO], own].concat()]);
    let record = enriched(&request).resource_logs.remove(0).scope_logs.remove(0).log_records.remove(0);
    assert_eq!(record.attributes, attributes(expected));
    assert_eq!((record.severity_number, record.severity_text.as_str()), (9, "INFO"));
}

#[test]
fn attributes_are_split() {
    check_attributes(&[], &[]);
    check_attributes(
        &[("network.protocol.name", "HTTP/1.1"), ("a", "b")],
        &[("a", "b"), ("network.protocol.name", "HTTP"), ("network.protocol.version", "1.1")],
    );
    check_attributes(
        &[("network.protocol.version", "old"), ("network.protocol.name", "HTTP/2")],
        &[("network.protocol.name", "HTTP"), ("network.protocol.version", "2")],
    );
    check_attributes(&[("network.protocol.name", "HTTP")], &[("network.protocol.name", "HTTP")]);
    check_attributes(&[("network.protocol.name", "a/b/c")], &[("network.protocol.name", "a/b/c")]);
    check_attributes(
        &[("client.address", "10.0.0.1:80"), ("client.port", "old"), ("a", "b")],
        &[("a", "b"), ("client.address", "10.0.0.1"), ("client.port", "80")],
    );
    check_attributes(&[("client.address", "[fd00::1]:80")], &[("client.address", "fd00::1"), ("client.port", "80")]);
    check_attributes(&[("client.address", "10.0.0.1")], &[("client.address", "10.0.0.1")]);
    check_attributes(&[("client.port", "80")], &[("client.port", "80")]);
}

#[test]
fn all_else_in_a_record_stays() {
    let mut request = logs(NAMED, &[&[ISTIO, ("x", "y")]]);
    let full = LogRecord {
        time_unix_nano: 1,
        observed_time_unix_nano: 2,
        severity_number: 17,
        severity_text: "ERROR".into(),
        body: key_value("", Some(Value::StringValue("GET /".into()))).value,
        attributes: attributes(&[ISTIO, ("x", "y")]),
        dropped_attributes_count: 3,
        flags: 4,
        trace_id: vec![5; 16],
        span_id: vec![6; 8],
        event_name: "event".into(),
    };
    request.resource_logs[0].scope_logs[0].log_records = vec![full.clone()];
    request.resource_logs[0].scope_logs[0].schema_url = "schema".into();
    let mut expected = request.clone();
    let scope = &mut expected.resource_logs[0].scope_logs[0];
    scope.scope = istio_scope(&[]);
    scope.log_records = vec![LogRecord {
        severity_number: 9,
        severity_text: "INFO".into(),
        attributes: attributes(&[("x", "y")]),
        ..full
    }];
    assert_eq!(enriched(&request), expected);

    let enricher = enricher(&legacy(), &[]);
    let (bytes, _) = enrich(&enricher, Signal::Logs, &request.encode_to_vec(), None, Noise::Drop);
    assert_eq!(bytes.len(), expected.encoded_len(), "nothing is left over on the wire");
}

#[test]
fn the_scope_is_named_and_keeps_its_attributes() {
    let mut request = logs(NAMED, &[&[("a", "b")], &[ISTIO]]);
    let old = InstrumentationScope {
        name: "old".into(),
        version: "0".into(),
        attributes: attributes(&[("k", "v")]),
        dropped_attributes_count: 0,
    };
    request.resource_logs[0].scope_logs[0].scope = Some(old);
    let enriched = enriched(&request);
    let scope = &enriched.resource_logs[0].scope_logs[0];
    assert_eq!(scope.scope, istio_scope(&[("k", "v")]));
    assert_eq!(scope.log_records[0], request.resource_logs[0].scope_logs[0].log_records[0], "no access log");
}

/// ENRICH-3
#[test]
fn other_records_and_scopes_stay() {
    for own in [&[][..], &[("kyma.module", "other")], &[("kyma.modules", "istio")], &[("module", "istio")]] {
        let request = logs(NAMED, &[own]);
        assert_eq!(enriched(&request), request);
    }
    let mut request = logs(NAMED, &[&[]]);
    let number = key_value("kyma.module", Some(Value::IntValue(1)));
    request.resource_logs[0].scope_logs[0].log_records[0].attributes.push(number);
    assert_eq!(enriched(&request), request);
}

#[test]
fn records_nobody_observed_were_observed_now() {
    let mut request = logs(NAMED, &[&[], &[("a", "b")], &[ISTIO], &[ISTIO]]);
    let records = &mut request.resource_logs[0].scope_logs[0].log_records;
    for index in [1, 3] {
        records[index].observed_time_unix_nano = 0;
    }
    let mut expected = request.clone();
    let scope = &mut expected.resource_logs[0].scope_logs[0];
    scope.scope = istio_scope(&[]);
    for index in [1, 3] {
        scope.log_records[index].observed_time_unix_nano = NOW;
    }
    for index in [2, 3] {
        let record = &mut scope.log_records[index];
        record.attributes.clear();
        (record.severity_number, record.severity_text) = (9, "INFO".into());
    }
    assert_eq!(enriched(&request), expected);
}

#[test]
fn a_zero_on_the_wire_is_no_time() {
    let record = [&[0x12, 0x09, 0x59][..], &[0; 8]].concat();
    let named = logs(NAMED, &[]).resource_logs.remove(0).resource.unwrap().encode_to_vec();
    let holder = [&[0x0a, u8::try_from(named.len()).unwrap()][..], &named, &[0x12, 0x0b], &record].concat();
    let request = [&[0x0a, u8::try_from(holder.len()).unwrap()][..], &holder].concat();
    let request = ExportLogsServiceRequest::decode(&request[..]).map(|decoded| (decoded, request)).unwrap();
    assert_eq!(request.0.resource_logs[0].scope_logs[0].log_records.len(), 1);
    let enricher = enricher(&legacy(), &[]);
    let (bytes, _) = enrich(&enricher, Signal::Logs, &request.1, None, Noise::Drop);
    let enriched = ExportLogsServiceRequest::decode(&bytes[..]).unwrap();
    assert_eq!(enriched.resource_logs[0].scope_logs[0].log_records[0].observed_time_unix_nano, NOW);
}
