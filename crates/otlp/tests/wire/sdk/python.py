"""Writes the payloads of this directory that begin with `python`: what the Python SDK sends, and the same as JSON by
protobuf's own runtime, with ids in hexadecimal as OTLP has them.

    pip install opentelemetry-sdk==1.45.* opentelemetry-exporter-otlp-proto-common==1.45.*
    python python.py
"""

import base64
import json
import pathlib

from google.protobuf import json_format
from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

HERE = pathlib.Path(__file__).parent
RESOURCE = Resource({"service.name": "warehouse", "host.cpus": 4, "labels": ["a", "b"]}, "https://example.com/schema")


def traces():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("stock", "2.1", attributes={"team": "logistics"})
    with tracer.start_as_current_span("receive", kind=trace.SpanKind.SERVER) as span:
        span.set_attributes({"pallets": 12, "weight": 480.25, "fragile": True, "aisles": [3, -7]})
        links = [trace.Link(span.get_span_context(), {"why": "audit"})]
        with tracer.start_as_current_span("weigh", links=links) as inner:
            inner.add_event("scale adjusted", {"by": 0.5})
            inner.set_status(trace.StatusCode.ERROR, "out of range")
    return encode_spans(exporter.get_finished_spans())


def metrics():
    reader = InMemoryMetricReader(preferred_temporality={Histogram: AggregationTemporality.DELTA})
    views = [View(instrument_name="scan.duration", aggregation=ExponentialBucketHistogramAggregation())]
    provider = MeterProvider([reader], RESOURCE, views=views, exemplar_filter=AlwaysOnExemplarFilter())
    meter = provider.get_meter("stock", "2.1")
    tracer = TracerProvider().get_tracer("stock")
    with tracer.start_as_current_span("receive"):
        meter.create_counter("pallets", "{pallet}", "Pallets received").add(12, {"dock": "north"})
        meter.create_up_down_counter("weight", "kg").add(-3.75, {"dock": "south", "sealed": False})
        waiting = meter.create_histogram("waiting", "s", explicit_bucket_boundaries_advisory=[1.0, 2.5, 10.0])
        for seconds in (0.25, 2.0, 64.0):
            waiting.record(seconds, {"dock": "north"})
        scan = meter.create_histogram("scan.duration", "ms", "How long a scan takes")
        for milliseconds in (0, 1, 1.5, 900):
            scan.record(milliseconds)
    meter.create_gauge("temperature", "Cel").set(-18)
    return encode_metrics(reader.get_metrics_data())


def logs():
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("stock", "2.1")
    pallet = {"pallet": 12, "weights": [1.5, None]}
    bodies = ["pallet 12 \u00e9t\u00e9", pallet, [1, "two", True], b"\xff\x00", -5, 0.5, True, None]
    for index, body in enumerate(bodies):
        logger.emit(LogRecord(
            timestamp=1_760_000_000_000_000_000 + index, observed_timestamp=1_760_000_000_500_000_000,
            severity_number=SeverityNumber.WARN, severity_text="warning", body=body,
            attributes={"index": index, "dock": "north"}, event_name="pallet.received" if index == 0 else None,
        ))
    return encode_logs(exporter.get_finished_logs())


def with_hexadecimal_ids(value):
    if isinstance(value, list):
        return [with_hexadecimal_ids(element) for element in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        name: base64.b64decode(inner).hex() if name in ids else with_hexadecimal_ids(inner)
        for name, inner in value.items()
    }


for name, request in {"traces": traces(), "metrics": metrics(), "logs": logs()}.items():
    (HERE / f"python-{name}.pb").write_bytes(request.SerializeToString())
    fields = with_hexadecimal_ids(json_format.MessageToDict(request, use_integers_for_enums=True))
    (HERE / f"python-{name}.json").write_text(json.dumps(fields, ensure_ascii=False) + "\n")
