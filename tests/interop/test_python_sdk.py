"""OpenTelemetry SDK for Python -> Weir -> OpenTelemetry Collector, each span compared field by field."""

from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace.export import SpanExporter

from harness import sdk
from harness.collector import Backend
from harness.spans import assert_same
from harness.weir import Weir, trace_pipeline

SPANS = 10_000
SPANS_IN_MATRIX = 1_000

Client = Callable[[Weir], SpanExporter]

CLIENTS: dict[str, Client] = {
    "grpc": lambda weir: sdk.grpc_exporter(weir.grpc, gzip=False),
    "grpc-gzip": lambda weir: sdk.grpc_exporter(weir.grpc, gzip=True),
    "http": lambda weir: sdk.http_exporter(weir.http, gzip=False),
    "http-gzip": lambda weir: sdk.http_exporter(weir.http, gzip=True),
}


def endpoint(backend: Backend, protocol: str) -> str:
    return f"http://{backend.http}" if protocol == "http" else backend.grpc


@pytest.mark.parametrize("protocol", ["grpc", "http"], ids="to-{}".format)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_span_arrives_once_and_unchanged(
    backend: Backend, start_weir: Callable[..., Weir], client: str, protocol: str
) -> None:
    weir = start_weir(trace_pipeline("backend", endpoint(backend, protocol), protocol=protocol))
    sent = sdk.send(CLIENTS[client](weir), SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "zstd"])
@pytest.mark.parametrize("protocol", ["grpc", "http"], ids="to-{}".format)
def test_the_collector_reads_every_compression(
    backend: Backend, start_weir: Callable[..., Weir], protocol: str, compression: str
) -> None:
    pipeline = trace_pipeline("backend", endpoint(backend, protocol), protocol=protocol, compression=compression)
    weir = start_weir(pipeline)
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), SPANS_IN_MATRIX)
    weir.stop()
    assert_same(sent, backend.spans())


def test_three_pipelines_each_get_every_span(lab, start_weir: Callable[..., Weir]) -> None:
    backends = [Backend(lab, f"backend-{number}") for number in range(3)]
    weir = start_weir(*(trace_pipeline(backend.name, backend.grpc) for backend in backends))
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), SPANS)
    weir.stop()
    for backend in backends:
        assert_same(sent, backend.spans())
