"""Prometheus scrapes Weir, and the KPI queries of the Kyma Telemetry load tests answer."""

from collections.abc import Callable

import pytest

from harness import sdk, telemetrygen
from harness.collector import Backend
from harness.process import Lab, free_port
from harness.prometheus import Prometheus
from harness.weir import Weir, trace_pipeline

SPANS = 10_000
SERVICE = "telemetry-otlp-gateway-metrics"
SELECTOR = f'service="{SERVICE}", exporter=~"otlp_grpc/tracepipeline-load-test.*"'

RECEIVED = f'round(sum(rate(otelcol_receiver_accepted_spans_total{{service="{SERVICE}"}}[20m])))'
EXPORTED = 'round(sum(rate(otelcol_exporter_sent_spans_total{exporter=~"otlp_grpc/tracepipeline-load-test.*"}[20m])))'
QUEUE = f"avg(sum(otelcol_exporter_queue_size{{{SELECTOR}}}))"


@pytest.fixture
def weir(backend: Backend, start_weir: Callable[..., Weir]) -> Weir:
    return start_weir(trace_pipeline("load-test-1", backend.grpc))


def test_kpi_queries_answer_under_load(lab: Lab, backend: Backend, weir: Weir) -> None:
    prometheus = Prometheus(lab, weir.metrics_address, SERVICE)
    prometheus.process.wait_for(lambda: prometheus.value(f'up{{service="{SERVICE}"}}') == 1, "scrapes Weir")
    generator = telemetrygen.start(lab, weir.grpc, 0, rate=5_000)
    for kpi in (RECEIVED, EXPORTED):
        prometheus.process.wait_for(lambda: (prometheus.value(kpi) or 0) > 0, f"answers {kpi}", 60)
    assert generator.running
    backend.wait_for_spans(SPANS)
    # A scrape that is too late takes every series away until the next one.
    prometheus.process.wait_for(lambda: prometheus.value(QUEUE) is not None, "answers the queue")
    capacity = f"sum(otelcol_exporter_queue_capacity{{{SELECTOR}}})"
    prometheus.process.wait_for(lambda: prometheus.value(capacity), "answers the capacity of the queue")


def test_counters_are_exact(lab: Lab, backend: Backend, weir: Weir) -> None:
    prometheus = Prometheus(lab, weir.metrics_address, SERVICE)
    sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), SPANS)
    sdk.send(sdk.http_exporter(weir.http, gzip=False), SPANS)
    backend.wait_for_spans(2 * SPANS)
    for transport in ("grpc", "http"):
        accepted = f'sum(otelcol_receiver_accepted_spans_total{{receiver="otlp", transport="{transport}"}})'
        prometheus.process.wait_for(lambda: prometheus.value(accepted) == SPANS, f"sees {accepted} = {SPANS}")
    sent = f"sum(otelcol_exporter_sent_spans_total{{{SELECTOR}}})"
    prometheus.process.wait_for(lambda: prometheus.value(sent) == 2 * SPANS, f"sees {sent} = {2 * SPANS}")
    for never in ("otelcol_exporter_send_failed_spans_total", "otelcol_exporter_enqueue_failed_spans_total"):
        assert prometheus.value(f"sum({never}{{{SELECTOR}}})") in (None, 0)
    queue = f"sum(otelcol_exporter_queue_size{{{SELECTOR}}})"
    prometheus.process.wait_for(lambda: prometheus.value(queue) == 0, "sees the queue empty")


def test_a_growing_queue_is_visible(lab: Lab, start_weir: Callable[..., Weir]) -> None:
    weir = start_weir(trace_pipeline("load-test-dead", f"127.0.0.1:{free_port()}"))
    prometheus = Prometheus(lab, weir.metrics_address, SERVICE)
    sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), 1_000)
    prometheus.process.wait_for(lambda: (prometheus.value(QUEUE) or 0) > 0, "sees a queue")
