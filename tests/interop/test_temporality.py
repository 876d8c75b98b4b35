"""Cumulative metrics of the SDKs -> Weir with `temporality: delta` -> OpenTelemetry Collector: the deltas add up."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from harness.items import Item, assert_same_items
from harness.scene import Run, Scene
from test_sdks import RUNS

DELTA, CUMULATIVE = 1, 2

Point = dict[str, Any]

each_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)


def is_converted(item: Item) -> bool:
    """As docs/temporality.md says: monotonic sums and histograms."""
    metric = item["metric"]
    return metric["type"] in ("histogram", "exponentialHistogram") or bool(metric.get("isMonotonic"))


def series(items: Iterable[Item], temporality: int) -> dict[str, list[Point]]:
    """The points of every series in the order of their times."""
    found: dict[str, list[Point]] = defaultdict(list)
    for item in items:
        if is_converted(item):
            metric, point = dict(item["metric"]), item["item"]
            assert metric.pop("aggregationTemporality") == temporality
            identity = {**item, "metric": metric, "item": point["attributes"]}
            found[json.dumps(identity, sort_keys=True)].append(point)
    for points in found.values():
        points.sort(key=lambda point: int(point["timeUnixNano"]))
    return found


def total(points: list[Point]) -> dict[str, float]:
    """What points of one series say together: value, or count, sum and every bucket."""
    scale = min(point.get("scale", 0) for point in points)
    sums: Counter[str] = Counter()
    for point in points:
        for field in ("asInt", "asDouble", "count", "sum", "zeroCount"):
            sums[field] += float(point.get(field, 0))
        for index, count in enumerate(point.get("bucketCounts", [])):
            sums[f"bucket {index}"] += int(count)
        for sign in ("positive", "negative"):
            buckets = point.get(sign, {})
            for index, count in enumerate(buckets.get("bucketCounts", []), buckets.get("offset", 0)):
                sums[f"{sign} {index >> (point.get('scale', 0) - scale)}"] += int(count)
    return {field: value for field, value in sums.items() if value}


@each_run
def test_deltas_add_up_to_the_last_cumulative_point(scene: Scene, run: Run) -> None:
    scene.send(run)
    sent = [run.enriched(item, "otel") for item in scene.reference.items("metrics", run.name)]
    cumulative = series(sent, CUMULATIVE)
    deltas = series(scene.delta.items("metrics", run.name), DELTA)
    assert max(map(len, cumulative.values())) > 1, "one point alone proves nothing"
    # A point that is nothing but a baseline is not sent.
    expected = {identity: sent for identity, sent in cumulative.items() if len(sent) > 1 or has_start(sent[0])}
    assert deltas.keys() == expected.keys()
    for identity, sent_points in expected.items():
        points = deltas[identity]
        baseline = [] if has_start(sent_points[0]) else [sent_points.pop(0)]
        assert total(baseline + points) == pytest.approx(total(sent_points[-1:])), identity
        begin = baseline[0]["timeUnixNano"] if baseline else sent_points[0]["startTimeUnixNano"]
        times = [begin, *(point["timeUnixNano"] for point in sent_points)]
        assert [(point["startTimeUnixNano"], point["timeUnixNano"]) for point in points] == list(pairwise(times))


def has_start(point: Point) -> bool:
    """Whether the first point of a series says since when it counts. The SDK for Node.js does not know that of observable
    counters, and gives them the time of their first point: it is the baseline, and not sent. The one for Java may give a
    series that begins while points are collected a start after its first point."""
    return int(point["startTimeUnixNano"]) < int(point["timeUnixNano"])


@each_run
def test_what_has_no_delta_is_passed_on(scene: Scene, run: Run) -> None:
    scene.send(run)
    sent = scene.reference.items("metrics", run.name)
    arrived = scene.delta.items("metrics", run.name)
    assert_same_items(
        (run.enriched(item, "otel") for item in sent if not is_converted(item)),
        (item for item in arrived if not is_converted(item)),
    )
