"""telemetrygen -> Weir -> OpenTelemetry Collector."""

from collections import Counter
from collections.abc import Callable

import pytest

from harness import telemetrygen
from harness.collector import Backend
from harness.items import Item
from harness.process import Lab
from harness.weir import Weir, pipeline, trace_pipeline

SPANS = 20_000
LOG_RECORDS = 20_000
# Of every type and temporality.
DATA_POINTS = 2_000

each_protocol = pytest.mark.parametrize("http", [False, True], ids=["grpc", "http"])


@each_protocol
def test_every_span_arrives_once_and_unchanged(
    lab: Lab, backend: Backend, start_weir: Callable[..., Weir], http: bool
) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    generator = telemetrygen.start(lab, weir.http if http else weir.grpc, SPANS, http=http)
    telemetrygen.wait_until_all_acknowledged(generator)
    weir.stop()
    telemetrygen.assert_as_sent(backend.spans(), SPANS)


@each_protocol
def test_data_points_of_every_type_arrive(
    lab: Lab, backend: Backend, start_weir: Callable[..., Weir], http: bool
) -> None:
    weir = start_weir(pipeline("metrics", "backend", backend.grpc))
    endpoint = weir.http if http else weir.grpc
    generators = [
        telemetrygen.start_metrics(lab, endpoint, DATA_POINTS, *metric, http=http) for metric in telemetrygen.METRICS
    ]
    for generator in generators:
        telemetrygen.wait_until_all_acknowledged(generator)
    weir.stop()
    points = backend.items("metrics")
    names = [telemetrygen.metric_name(*metric) for metric in telemetrygen.METRICS]
    assert Counter(point["metric"]["name"] for point in points) == dict.fromkeys(names, DATA_POINTS)
    for point in points:
        assert_point(point)
    for name in names[:3]:
        # A gauge or sum of each worker counts up from 0.
        values = Counter(int(point["item"]["asInt"]) for point in points if point["metric"]["name"] == name)
        assert values == dict.fromkeys(range(DATA_POINTS // telemetrygen.WORKERS), telemetrygen.WORKERS)


def assert_point(point: Item) -> None:
    metric, item = point["metric"], point["item"]
    metric_type, temporality = metric["name"].split(".")
    assert metric["type"].lower() == metric_type.lower()
    sent = None if metric_type == "Gauge" else telemetrygen.TEMPORALITIES[temporality]
    assert metric.get("aggregationTemporality") == sent
    assert metric.get("isMonotonic", False) == (metric_type == "Sum")
    assert point["resource"]["attributes"] == telemetrygen.RESOURCE
    assert item["attributes"] == telemetrygen.ATTRIBUTES
    if "Histogram" in metric_type:
        buckets = item.get("bucketCounts") or item["positive"]["bucketCounts"]
        assert sum(map(int, buckets)) + int(item.get("zeroCount", 0)) == int(item["count"])


@each_protocol
def test_every_log_record_arrives(lab: Lab, backend: Backend, start_weir: Callable[..., Weir], http: bool) -> None:
    weir = start_weir(pipeline("logs", "backend", backend.grpc))
    generator = telemetrygen.start_logs(lab, weir.http if http else weir.grpc, LOG_RECORDS, http=http)
    telemetrygen.wait_until_all_acknowledged(generator)
    weir.stop()
    records = backend.items("logs")
    assert len(records) == LOG_RECORDS
    for record in records:
        assert record["resource"]["attributes"] == telemetrygen.RESOURCE
        item = record["item"]
        assert {field: item[field] for field in telemetrygen.LOG} == telemetrygen.LOG
        assert item["attributes"] == {"app": "server", **telemetrygen.ATTRIBUTES}
        assert int(item["observedTimeUnixNano"]) >= int(item["timeUnixNano"]), "Weir says when it arrived"
