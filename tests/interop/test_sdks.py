"""OpenTelemetry SDKs for Python, Node.js and Java -> Weir -> OpenTelemetry Collector, field by field, all signals.

What was sent is what the same client sent straight to a collector at the same time; what must arrive is that, with the
documented enrichment, transforms and filters.
"""

import pytest

from harness import clients, cluster, rules
from harness.collector import SIGNALS
from harness.items import assert_same_items
from harness.scene import Run, Scene

RUNS = [
    Run("python", "grpc", "uid", "orders"),
    Run("python", "http", "ip"),
    Run("node", "grpc", "ip", "orders"),
    Run("node", "http", "peer"),
    Run("node", "json", "uid"),
    Run("java", "grpc", "peer", "orders"),
    Run("java", "http", "uid"),
]

each_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
each_signal = pytest.mark.parametrize("signal", SIGNALS)


@each_run
def test_clients_send_the_known_set(scene: Scene, run: Run) -> None:
    """Guards the tests below, which take what was sent for granted."""
    scene.send(run)
    spans, points, records = (scene.reference.items(signal, run.name) for signal in SIGNALS)
    assert (len(spans), len(records)) == (clients.SPANS, clients.LOG_RECORDS)
    assert {point["metric"]["type"] for point in points} == clients.METRIC_TYPES
    assert any(span["item"].get("droppedEventsCount") for span in spans)
    assert {type(value) for value in spans[0]["item"]["attributes"].values()} >= {str, bool, int, float, list}
    assert {type(record["item"].get("body")) for record in records} == {str, int, float, bool, bytes, list, dict, type(None)}
    assert {record["item"].get("severityNumber", 0) for record in records} == set(range(25))


@pytest.mark.parametrize("mode", cluster.MODES)
@each_signal
@each_run
def test_every_item_arrives_with_the_documented_attributes(scene: Scene, run: Run, signal: str, mode: str) -> None:
    scene.send(run)
    sent = scene.reference.items(signal, run.name)
    assert_same_items((run.enriched(item, mode) for item in sent), scene.enriched[mode].items(signal, run.name))


@each_signal
@each_run
def test_transforms_and_filters_do_what_they_say(scene: Scene, run: Run, signal: str) -> None:
    scene.send(run)
    sent = scene.reference.items(signal, run.name)
    expected = [rules.expected(signal, run.enriched(item, "otel")) for item in sent]
    assert None in expected, "something is filtered out"
    assert_same_items(filter(None, expected), scene.ruled.items(signal, run.name))
