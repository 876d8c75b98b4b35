//! The tables against the definitions as protoc compiled them.

use std::collections::BTreeSet;

use opentelemetry_proto::DESCRIPTORS;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind as Defined, MessageDescriptor};

use super::{Kind, Message};
use crate::signal::Signal;

#[test]
fn the_tables_are_the_definitions() {
    let otlp = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let mut seen = BTreeSet::new();
    for (signal, name) in [
        (Signal::Traces, "trace.v1.ExportTraceServiceRequest"),
        (Signal::Metrics, "metrics.v1.ExportMetricsServiceRequest"),
        (Signal::Logs, "logs.v1.ExportLogsServiceRequest"),
    ] {
        let definition = otlp.get_message_by_name(&format!("opentelemetry.proto.collector.{name}")).unwrap();
        check(signal.schema(), &definition, &mut seen);
    }
    assert!(seen.len() > 30, "only {} messages were compared", seen.len());
}

#[test]
fn the_numbers_of_responses_are_the_definitions() {
    use crate::field::export_partial_success::{ERROR_MESSAGE, REJECTED};
    use crate::field::export_response::PARTIAL_SUCCESS;

    let otlp = DescriptorPool::decode(DESCRIPTORS).unwrap();
    for (package, message, rejected) in [
        ("trace", "ExportTrace", "rejected_spans"),
        ("metrics", "ExportMetrics", "rejected_data_points"),
        ("logs", "ExportLogs", "rejected_log_records"),
    ] {
        for (rest, ours) in [
            ("ServiceResponse", vec![(PARTIAL_SUCCESS, "partial_success")]),
            ("PartialSuccess", vec![(REJECTED, rejected), (ERROR_MESSAGE, "error_message")]),
        ] {
            let name = format!("opentelemetry.proto.collector.{package}.v1.{message}{rest}");
            let definition = otlp.get_message_by_name(&name).unwrap();
            let fields: Vec<FieldDescriptor> = definition.fields().collect();
            let theirs: Vec<(u32, &str)> = fields.iter().map(|field| (field.number(), field.name())).collect();
            assert_eq!(ours, theirs, "{name}");
        }
    }
}

/// Compares a message and all that it leads to.
fn check(ours: &'static Message, definition: &MessageDescriptor, seen: &mut BTreeSet<String>) {
    if !seen.insert(definition.full_name().to_owned()) {
        return;
    }
    let numbers: Vec<u32> = ours.fields().iter().map(|field| field.number).collect();
    assert_eq!(numbers, definition.fields().map(|field| field.number()).collect::<Vec<_>>(), "{definition:?}");
    for field in definition.fields() {
        let our_field = ours.field(field.number()).unwrap();
        let names = (our_field.name, our_field.json_name);
        assert_eq!(names, (field.name(), field.json_name()), "{field:?}");
        assert_eq!(ours.field_named(field.name()).map(|found| found.number), Some(field.number()));
        assert_eq!((our_field.repeated, our_field.may_be_packed()), (field.is_list(), field.is_packed()), "{field:?}");
        assert_eq!(ours.rivals(our_field), rivals(&field), "{field:?}");
        match (our_field.kind, field.kind()) {
            (Kind::Message(ours), Defined::Message(inner)) => check(ours, &inner, seen),
            (ours, theirs) => assert_eq!(Some(name(ours)), expected_name(&field), "{field:?}: {theirs:?}"),
        }
        if let (Kind::Enum(names), Defined::Enum(definition)) = (our_field.kind, field.kind()) {
            let theirs: Vec<_> = definition.values().map(|value| (value.number(), value.name().to_owned())).collect();
            let ours: Vec<_> = (0..).zip(names.iter().map(|name| (*name).to_owned())).collect();
            assert_eq!(ours, theirs);
        }
    }
}

/// The members of the field's oneof, a bit each; the field itself if it is in none. What is `optional` is in a oneof of
/// its own.
fn rivals(field: &FieldDescriptor) -> u32 {
    match field.containing_oneof() {
        Some(oneof) => oneof.fields().fold(0, |all, member| all | 1 << member.number()),
        None => 1 << field.number(),
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Int32 => "int32",
        Kind::Uint32 => "uint32",
        Kind::Int64 => "int64",
        Kind::Uint64 => "uint64",
        Kind::Sint32 => "sint32",
        Kind::Enum(_) => "enum",
        Kind::Fixed32 => "fixed32",
        Kind::Fixed64 => "fixed64",
        Kind::Sfixed64 => "sfixed64",
        Kind::Double => "double",
        Kind::String => "string",
        Kind::Bytes => "bytes",
        Kind::Id => "id",
        Kind::Message(_) => "message",
    }
}

/// The name of the type we should have; none for types that OTLP does not use.
fn expected_name(field: &FieldDescriptor) -> Option<&'static str> {
    const IDS: [&str; 3] = ["trace_id", "span_id", "parent_span_id"];
    Some(match field.kind() {
        Defined::Bool => "bool",
        Defined::Int32 => "int32",
        Defined::Uint32 => "uint32",
        Defined::Int64 => "int64",
        Defined::Uint64 => "uint64",
        Defined::Sint32 => "sint32",
        Defined::Enum(_) => "enum",
        Defined::Fixed32 => "fixed32",
        Defined::Fixed64 => "fixed64",
        Defined::Sfixed64 => "sfixed64",
        Defined::Double => "double",
        Defined::String => "string",
        Defined::Bytes if IDS.contains(&field.name()) => "id",
        Defined::Bytes => "bytes",
        Defined::Message(_) => "message",
        Defined::Float | Defined::Sint64 | Defined::Sfixed32 => return None,
    })
}
