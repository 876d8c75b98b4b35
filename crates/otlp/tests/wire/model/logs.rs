//! A logs request, from views to prost.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1 as pb;
use weir_otlp::logs::{self, LogRecord, ResourceLogs, ScopeLogs};

use super::common::{any_value, attributes, resource, scope};

/// Log records, resources and scopes.
pub(super) fn counts(request: &ExportLogsServiceRequest) -> (usize, usize, usize) {
    let scopes = || request.resource_logs.iter().flat_map(|resource| &resource.scope_logs);
    (scopes().map(|scope| scope.log_records.len()).sum(), request.resource_logs.len(), scopes().count())
}

pub(super) fn request(bytes: &[u8]) -> ExportLogsServiceRequest {
    ExportLogsServiceRequest { resource_logs: logs::resource_logs(bytes).map(resource_logs).collect() }
}

fn resource_logs(view: ResourceLogs<'_>) -> pb::ResourceLogs {
    pb::ResourceLogs {
        resource: view.resource().map(resource),
        scope_logs: view.scope_logs().map(scope_logs).collect(),
        schema_url: view.schema_url().to_owned(),
    }
}

fn scope_logs(view: ScopeLogs<'_>) -> pb::ScopeLogs {
    pb::ScopeLogs {
        scope: view.scope().map(scope),
        log_records: view.log_records().map(log_record).collect(),
        schema_url: view.schema_url().to_owned(),
    }
}

fn log_record(view: LogRecord<'_>) -> pb::LogRecord {
    pb::LogRecord {
        time_unix_nano: view.time_unix_nano(),
        observed_time_unix_nano: view.observed_time_unix_nano(),
        severity_number: view.severity_number(),
        severity_text: view.severity_text().to_owned(),
        // The view reads a body without a value as no body; prost tells them apart.
        body: view.0.message(5).map(|_| any_value(view.body())),
        attributes: attributes(view.attributes()),
        dropped_attributes_count: view.dropped_attributes_count(),
        flags: view.flags(),
        trace_id: view.trace_id().to_vec(),
        span_id: view.span_id().to_vec(),
        event_name: view.event_name().to_owned(),
    }
}
