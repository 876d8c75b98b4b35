"""A client that pushes one item over OTLP/gRPC."""

import json
import time
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

_PARTS = {
    "traces": (trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2_grpc.TraceServiceStub),
    "metrics": (metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2_grpc.MetricsServiceStub),
    "logs": (logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2_grpc.LogsServiceStub),
}
_TIMEOUT_S = 60


def push(address: str, signal: str, resource: dict[str, Any], item: dict[str, Any]) -> None:
    """`item`: `name` (of a span or a metric) or `body`, `attributes`, and for a metric `sum` or `gauge`."""
    request, stub = _PARTS[signal]
    with grpc.insecure_channel(address) as channel:
        stub(channel).Export(ParseDict(_document(signal, resource, item), request()), timeout=_TIMEOUT_S, wait_for_ready=True)


def _document(signal: str, resource: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    of = {"attributes": _attributes(resource)}
    now = str(time.time_ns())
    attributes = _attributes(item.get("attributes", {}))
    match signal:
        case "traces":
            ids = {"traceId": "AAAAAAAAAAAAAAAAAAAAAQ==", "spanId": "AAAAAAAAAAE="}
            times = {"startTimeUnixNano": now, "endTimeUnixNano": now}
            span = {**ids, **times, "name": item.get("name", "a span"), "kind": item.get("kind", 1), "attributes": attributes}
            return {"resourceSpans": [{"resource": of, "scopeSpans": [{"spans": [span]}]}]}
        case "metrics":
            metric = {"name": item.get("name", "a.metric"), **_data(item, now, attributes)}
            return {"resourceMetrics": [{"resource": of, "scopeMetrics": [{"metrics": [metric]}]}]}
    record = {"timeUnixNano": now, "body": _value(item.get("body", "a line")), "attributes": attributes}
    return {"resourceLogs": [{"resource": of, "scopeLogs": [{"logRecords": [record]}]}]}


def _data(item: dict[str, Any], now: str, attributes: list[dict[str, Any]]) -> dict[str, Any]:
    point = {"timeUnixNano": now, "startTimeUnixNano": item.get("start", "1"), "attributes": attributes}
    if "sum" in item:
        point["asDouble"] = item["sum"]
        return {"sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [point]}}
    return {"gauge": {"dataPoints": [{**point, "asDouble": item.get("gauge", 1.0)}]}}


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case str():
            return {"stringValue": value}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": json.dumps(value)}
