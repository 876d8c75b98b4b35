"""The OpenTelemetry SDK for Python as a client: sends spans that use every part of the span model and
returns them as they must arrive."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from grpc import ChannelCredentials, ssl_channel_credentials
from grpc import Compression as GrpcCompression
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression as HttpCompression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link as SdkLink
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from .certificates import Identity
from .spans import Event, Link, Span

_KINDS = list(SpanKind)
_BATCH = 512
_TIMEOUT_S = 30
# SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK: all parents here are of this process.
_HAS_IS_REMOTE = 0x100
_EPOCH_NS = 1_700_000_000_000_000_000


def grpc_exporter(address: str, gzip: bool) -> SpanExporter:
    compression = GrpcCompression.Gzip if gzip else GrpcCompression.NoCompression
    return GrpcExporter(endpoint=f"http://{address}", insecure=True, compression=compression, timeout=_TIMEOUT_S)


def http_exporter(address: str, gzip: bool) -> SpanExporter:
    compression = HttpCompression.Gzip if gzip else HttpCompression.NoCompression
    return HttpExporter(endpoint=f"http://{address}/v1/traces", compression=compression, timeout=_TIMEOUT_S)


@dataclass(frozen=True)
class Access:
    """What a client needs to be let in: whom it trusts, who it is, and its token."""

    ca: Path | None = None
    identity: Identity | None = None
    token: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


def secure_exporter(protocol: str, address: str, access: Access, timeout_s: float = _TIMEOUT_S) -> SpanExporter:
    """An exporter with this access. One that gets no connection tries until its timeout."""
    url = f"{'https' if access.ca else 'http'}://{address}"
    common: dict[str, Any] = {"headers": access.headers, "timeout": timeout_s}
    if protocol == "grpc":
        return GrpcExporter(endpoint=url, credentials=_credentials(access), **common)
    if access.ca:
        common["certificate_file"] = str(access.ca)
    if access.identity:
        common |= {"client_certificate_file": str(access.identity.cert), "client_key_file": str(access.identity.key)}
    session = requests.Session()
    # Certificate bundles in the environment would take precedence over those given here.
    session.trust_env = False
    return HttpExporter(endpoint=f"{url}/v1/traces", session=session, **common)


def _credentials(access: Access) -> ChannelCredentials | None:
    if not access.ca:
        return None
    ca = access.ca.read_bytes()
    if not access.identity:
        return ssl_channel_credentials(ca)
    return ssl_channel_credentials(ca, access.identity.key.read_bytes(), access.identity.cert.read_bytes())


class _Recorder(SpanExporter):
    """Passes batches on and keeps those that were acknowledged."""

    def __init__(self, exporter: SpanExporter):
        self._exporter = exporter
        self.acknowledged: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.acknowledged.extend(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def send(exporter: SpanExporter, count: int) -> list[Span]:
    """Sends `count` spans in traces of ten and returns them; fails unless all were acknowledged."""
    acknowledged = offer(exporter, count)
    assert len(acknowledged) == count, f"{len(acknowledged)} of {count} spans were acknowledged"
    return acknowledged


def offer(exporter: SpanExporter, count: int) -> list[Span]:
    """Like `send`, and returns those that were acknowledged."""
    recorder = _Recorder(exporter)
    resource = Resource({"service.name": "orders", "service.version": "1.2.3", "host.cpus": 8, "tags": ["a", "ž"]})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(
        BatchSpanProcessor(recorder, max_queue_size=max(count, _BATCH), max_export_batch_size=_BATCH)
    )
    _make_traces(provider, count)
    assert provider.force_flush(60_000), "the SDK could not flush its spans within 60 s"
    provider.shutdown()
    return [_as_sent(span) for span in recorder.acknowledged]


def _make_traces(provider: TracerProvider, count: int) -> None:
    tracer = provider.get_tracer("interop", "0.1.0")
    parent = None
    for index in range(count):
        context = set_span_in_context(parent) if index % 10 else None
        links = [SdkLink(parent.get_span_context(), {"index": index})] if parent and index % 4 == 0 else None
        start_ns = _EPOCH_NS + index * 1_000
        span = tracer.start_span(
            f"operation {index % 7}",
            context=context,
            kind=_KINDS[index % len(_KINDS)],
            attributes=_attributes(index),
            links=links,
            start_time=start_ns,
        )
        if index % 3 == 0:
            span.add_event("retried", {"attempt": index, "reason": "timeout"}, timestamp=start_ns + 10)
        if index % 5 == 1:
            span.set_status(Status(StatusCode.OK))
        if index % 5 == 2:
            span.set_status(Status(StatusCode.ERROR, f"failed: {index}"))
        span.end(start_ns + 500)
        if index % 10 == 0:
            parent = span


def _attributes(index: int) -> dict[str, Any]:
    return {
        "index": index,
        "negative": -index,
        "large": (1 << 62) + index,
        "ratio": index / 8,
        "even": index % 2 == 0,
        "text": f"žluťoučký kůň {index} 🚀",
        "empty": "",
        "long": "x" * (index % 300),
        "names": ["a", "b", str(index)],
        "numbers": [1, 2, index],
        "ratios": [0.5, -1.25],
    }


def _as_sent(span: ReadableSpan) -> Span:
    context = span.get_span_context()
    return Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else "",
        name=span.name,
        # OTLP's SpanKind starts with "unspecified", the API's enum does not.
        kind=span.kind.value + 1,
        start_ns=span.start_time,
        end_ns=span.end_time,
        status=(span.status.status_code.value, span.status.description or ""),
        attributes=_plain(span.attributes),
        resource=_plain(span.resource.attributes),
        scope=(span.instrumentation_scope.name, span.instrumentation_scope.version),
        events=tuple(Event(event.name, event.timestamp, _plain(event.attributes)) for event in span.events),
        links=tuple(
            Link(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}", _plain(link.attributes))
            for link in span.links
        ),
        flags=_HAS_IS_REMOTE,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in (attributes or {}).items()}
