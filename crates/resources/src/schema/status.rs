//! `status` of the kinds, and the columns in which `kubectl get` shows it. An operator writes it; nothing here reads it
//! by these schemas.

use serde_json::{Value, json};
use weir_plan::Signal;

use crate::document::Version;
use crate::kinds::{Kind, Role};

/// The schema of `status`.
pub(super) fn of_kind(kind: &Kind) -> Value {
    let mut properties = json!({"conditions": conditions()});
    match kind.role {
        Role::Pipeline(Signal::Logs) => {
            properties["unsupportedMode"] = json!({
                "type": "boolean",
                "description": "Whether filters or the output are in Fluent Bit's own language.",
            });
        }
        Role::Telemetry => {
            properties["state"] = json!({
                "type": "string",
                "enum": ["Deleting", "Ready", "Warning"],
                "description": "All conditions in one word.",
            });
            properties["endpoints"] = endpoints();
        }
        _ => {}
    }
    json!({"type": "object", "description": "What became of it. An operator writes this.", "properties": properties})
}

/// As all of Kubernetes has them.
fn conditions() -> Value {
    let text = |description: &str, max: usize, pattern: &str| {
        let mut schema = json!({"type": "string", "description": description, "maxLength": max});
        if !pattern.is_empty() {
            schema["minLength"] = 1.into();
            schema["pattern"] = pattern.into();
        }
        schema
    };
    json!({
        "type": "array",
        "description": "What is true of it, one condition for each type.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": text("What it is about.", 316, "^([A-Za-z0-9][-A-Za-z0-9_./]*)?[A-Za-z0-9]$"),
                "status": {
                    "type": "string",
                    "description": "Whether it is so.",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": text("Why, in one word.", 1024, "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
                "message": text("Why, for people.", 32_768, ""),
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The `metadata.generation` that this is about.",
                },
            },
        },
    })
}

/// Where clients send telemetry to.
fn endpoints() -> Value {
    let of = |description: &str| {
        let text = |description: &str| json!({"type": "string", "description": description});
        let properties = json!({"grpc": text("For OTLP/gRPC."), "http": text("For OTLP/HTTP.")});
        json!({"type": "object", "description": description, "properties": properties})
    };
    json!({
        "type": "object",
        "description": "Where clients send telemetry to.",
        "properties": {
            "otlp": of("Of all signals."),
            "traces": of("Of traces. Deprecated: `otlp` takes them."),
            "metrics": of("Of metrics. Deprecated: `otlp` takes them."),
            "logs": of("Of logs. Deprecated: `otlp` takes them."),
        },
    })
}

/// What `kubectl get` shows beside the name.
pub(super) fn columns(kind: &Kind, version: Version) -> Vec<Value> {
    let condition = |name: &str, of: &str| {
        let path = format!(".status.conditions[?(@.type==\"{of}\")].status");
        json!({"name": name, "type": "string", "jsonPath": path})
    };
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    let Role::Pipeline(signal) = kind.role else {
        return vec![json!({"name": "State", "type": "string", "jsonPath": ".status.state"}), age];
    };
    let mut columns = vec![
        condition("Configuration Generated", "ConfigurationGenerated"),
        condition("Gateway Healthy", "GatewayHealthy"),
        condition("Agent Healthy", "AgentHealthy"),
        condition("Flow Healthy", "TelemetryFlowHealthy"),
    ];
    if signal == Signal::Traces {
        columns.remove(2);
    }
    if signal == Signal::Logs && version == Version::V1Alpha1 {
        columns.push(json!({"name": "Unsupported Mode", "type": "boolean", "jsonPath": ".status.unsupportedMode"}));
    }
    columns.push(age);
    columns
}
