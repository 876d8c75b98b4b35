//! Logs requests.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{any_value, attributes, id, resource, scope, text};

fn log_record() -> impl Strategy<Value = LogRecord> {
    let ids = (id(16), id(8));
    let texts = (text(), text());
    let scalars = (any::<u64>(), any::<u64>(), any::<u32>(), -1..27);
    // Bodies of every type: text, numbers, bytes, arrays, maps, and nothing at all.
    (ids, texts, option::weighted(0.9, any_value()), attributes(), scalars).prop_map(
        |(ids, texts, body, attributes, scalars)| LogRecord {
            time_unix_nano: scalars.0,
            observed_time_unix_nano: scalars.1,
            severity_number: scalars.3,
            severity_text: texts.0,
            body,
            attributes,
            dropped_attributes_count: scalars.2 & 0xff,
            flags: scalars.2,
            trace_id: ids.0,
            span_id: ids.1,
            event_name: texts.1,
        },
    )
}

fn scope_logs() -> impl Strategy<Value = ScopeLogs> {
    (option::of(scope()), vec(log_record(), 0..5), text()).prop_map(|(scope, log_records, schema_url)| ScopeLogs {
        scope,
        log_records,
        schema_url,
    })
}

fn resource_logs() -> impl Strategy<Value = ResourceLogs> {
    (option::of(resource()), vec(scope_logs(), 0..4), text())
        .prop_map(|(resource, scope_logs, schema_url)| ResourceLogs { resource, scope_logs, schema_url })
}

pub(super) fn request() -> impl Strategy<Value = ExportLogsServiceRequest> {
    vec(resource_logs(), 0..4).prop_map(|resource_logs| ExportLogsServiceRequest { resource_logs })
}
