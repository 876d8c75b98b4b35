"""Sends a known set of spans, metrics and log records with the OpenTelemetry SDK for Python.

    client.py grpc|http ENDPOINT...

Each batch goes to every endpoint (HOST:PORT), so that what one of them got is what all of them were sent.
The resource comes from OTEL_RESOURCE_ATTRIBUTES. Every part of the data model that the SDK has is used.
"""

import sys
from collections.abc import Sequence
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
    use_span,
)

SPANS = 200
LOG_RECORDS = 104
ROUNDS = 3
ROUTES = ("/orders", "/cart", "/healthz")
EPOCH_NS = 1_700_000_000_000_000_000
SCHEMA_URL = "https://opentelemetry.io/schemas/1.27.0"
HOUR_MS = 3_600_000


class MetricTee(MetricExporter):
    """One collection for all endpoints: two readers would send points of different times."""

    def __init__(self, exporters: Sequence[MetricExporter]):
        super().__init__()
        self.exporters = exporters

    def export(self, metrics_data: Any, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        results = [exporter.export(metrics_data, timeout_millis) for exporter in self.exporters]
        return max(results, key=lambda result: result.value)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return all(exporter.force_flush(timeout_millis) for exporter in self.exporters)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        for exporter in self.exporters:
            exporter.shutdown(timeout_millis)


def exporters(protocol: str, endpoints: Sequence[str], grpc: type, http: type, path: str) -> list[Any]:
    if protocol == "grpc":
        return [grpc(endpoint=f"http://{endpoint}", insecure=True) for endpoint in endpoints]
    return [http(endpoint=f"http://{endpoint}/v1/{path}") for endpoint in endpoints]


def send_spans(protocol: str, endpoints: Sequence[str]) -> None:
    provider = TracerProvider()
    for exporter in exporters(protocol, endpoints, GrpcSpans, HttpSpans, "traces"):
        provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("interop.traces", "0.1.0", SCHEMA_URL, {"scope.tier": 1, "scope.on": True})
    root = remote_parent()
    for index in range(SPANS):
        start_ns = EPOCH_NS + index * 1_000
        span = tracer.start_span(
            f"operation {index % 7}",
            context=set_span_in_context(root) if index == 0 or index % 5 else None,
            kind=list(SpanKind)[index % len(SpanKind)],
            attributes=span_attributes(index),
            links=[Link(root.get_span_context(), {"link.index": index})] if index % 4 == 0 else None,
            start_time=start_ns,
        )
        if index % 3 == 0:
            span.add_event("retried", {"attempt": index, "reasons": ["timeout", "reset"]}, timestamp=start_ns + 10)
            span.add_event("gave up", timestamp=start_ns + 20)
        if index % 5 == 1:
            span.set_status(Status(StatusCode.OK))
        if index % 5 == 2:
            span.set_status(Status(StatusCode.ERROR, f"failed: {index}"))
        span.end(start_ns + 500)
        if index % 5 == 0:
            root = span
    provider.shutdown()


def remote_parent() -> NonRecordingSpan:
    state = TraceState([("vendor", "interop"), ("other", "1")])
    return NonRecordingSpan(SpanContext(0xA1B2C3, 0xD4E5F6, True, TraceFlags(TraceFlags.SAMPLED), state))


def span_attributes(index: int) -> dict[str, Any]:
    return {
        "index": index,
        "negative": -index,
        "large": (1 << 62) + index,
        "ratio": index + 0.5,
        "even": index % 2 == 0,
        "text": f"žluťoučký kůň {index} 🚀",
        "empty": "",
        "url.path": "/healthz/ready" if index % 10 == 3 else f"/orders/{index}",
        "names": ["a", "b", str(index)],
        "numbers": [1, -2, index],
        "ratios": [0.5, -1.25],
        "flags": [True, False],
    }


def send_metrics(protocol: str, endpoints: Sequence[str]) -> None:
    tee = MetricTee(exporters(protocol, endpoints, GrpcMetrics, HttpMetrics, "metrics"))
    reader = PeriodicExportingMetricReader(tee, export_interval_millis=HOUR_MS)
    exponential = View(instrument_name="order.duration", aggregation=ExponentialBucketHistogramAggregation(max_size=8))
    provider = MeterProvider([reader], views=[exponential])
    meter = provider.get_meter("interop.metrics", "0.2.0", SCHEMA_URL, {"scope.tier": 2})
    placed = meter.create_counter("orders.placed", "{order}", "Orders placed")
    value = meter.create_counter("orders.value", "EUR", "What they are worth")
    opened = meter.create_up_down_counter("orders.open", "{order}", "Orders not closed")
    length = meter.create_gauge("queue.length", "{order}", "Orders that wait")
    size = meter.create_histogram("order.size", "By", "Size", explicit_bucket_boundaries_advisory=[1, 10, 100])
    duration = meter.create_histogram("order.duration", "s", "Time taken")
    ticks = iter(range(100, 1_000, 10))
    meter.create_observable_counter("cpu.time", [lambda options: observe(options, next(ticks))], "s")
    meter.create_observable_gauge("temperature", [lambda options: observe(options, 36.6)], "Cel")
    meter.create_observable_up_down_counter("connections", [lambda options: observe(options, -4)])
    # Inside of a sampled span, measurements become exemplars.
    with use_span(remote_parent()):
        for round_number in range(ROUNDS):
            for number, route in enumerate(ROUTES):
                attributes = {"http.route": route, "retry": number == 1, "shard": number, "weight": 0.25}
                placed.add(1 + round_number, attributes)
                value.add(0.5 + number, attributes)
                opened.add(3 - 2 * round_number, attributes)
                length.set(number * 10 + round_number, attributes)
                for step in range(5):
                    size.record(3 * step * (number + 1), attributes)
                    duration.record(0.001 * 7 ** (step + round_number), attributes)
            provider.force_flush()
    provider.shutdown()


def observe(_: CallbackOptions, value: float) -> list[Observation]:
    return [Observation(value, {"state": "user"})]


def send_logs(protocol: str, endpoints: Sequence[str]) -> None:
    provider = LoggerProvider()
    for exporter in exporters(protocol, endpoints, GrpcLogs, HttpLogs, "logs"):
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = provider.get_logger("interop.logs", "0.3.0", SCHEMA_URL, {"scope.tier": 3})
    severities = [None, *(number for number in SeverityNumber if number.value)]
    in_span = set_span_in_context(remote_parent())
    for index in range(LOG_RECORDS):
        severity = severities[index % len(severities)]
        logger.emit(
            LogRecord(
                timestamp=EPOCH_NS + index,
                observed_timestamp=EPOCH_NS + index + 5,
                context=in_span if index % 2 else None,
                severity_number=severity,
                severity_text=severity.name if severity else None,
                body=BODIES[index % len(BODIES)],
                attributes=log_attributes(index),
                event_name="order.placed" if index % 4 == 0 else None,
            )
        )
    provider.shutdown()


BODIES: tuple[Any, ...] = (
    "order placed: žluťoučký kůň",
    "GET /healthz/ready",
    -42,
    3.5,
    True,
    b"\x00\xff\xfe",
    ["a", 1, 2.5, False, None, ["nested"]],
    {"order": {"id": 7, "items": ["x", "y"]}, "ok": True, "none": None},
    None,
)


def log_attributes(index: int) -> dict[str, Any]:
    return {
        "index": index,
        "ratio": index + 0.5,
        "even": index % 2 == 0,
        "text": "line one\nline two\t\"quoted\"",
        "bytes": b"\x01\x02\xff",
        "list": ["a", "b"],
        "map": {"depth": {"more": [1, 2]}, "text": "t"},
    }


def main() -> None:
    protocol, *endpoints = sys.argv[1:]
    send_spans(protocol, endpoints)
    send_metrics(protocol, endpoints)
    send_logs(protocol, endpoints)


if __name__ == "__main__":
    main()
