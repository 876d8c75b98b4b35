"""telemetrygen -> Weir -> OpenTelemetry Collector."""

from collections.abc import Callable

import pytest

from harness import telemetrygen
from harness.collector import Backend
from harness.process import Lab
from harness.weir import Weir, trace_pipeline

SPANS = 20_000


@pytest.mark.parametrize("http", [False, True], ids=["grpc", "http"])
def test_every_span_arrives_once_and_unchanged(
    lab: Lab, backend: Backend, start_weir: Callable[..., Weir], http: bool
) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    generator = telemetrygen.start(lab, weir.http if http else weir.grpc, SPANS, http=http)
    telemetrygen.wait_until_all_acknowledged(generator)
    weir.stop()
    telemetrygen.assert_as_sent(backend.spans(), SPANS)
