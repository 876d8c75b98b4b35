"""The same pages in protobuf -> Weir, and the Collector's Prometheus receiver, both with native histograms: the same
metrics, point by point. What docs/metrics-agent.md lists under "Where Weir differs from the Collector's receiver" is
told apart by rule."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.comparison import assert_same, assert_same_values
from harness.node_exporter import NodeExporter
from harness.page_messages import pages
from harness.pages import PROTOBUF, Page, targets
from harness.process import Lab
from harness.prometheus import Prometheus
from harness.receiver import Scrapers, in_time
from harness.scrapes import brief, last_page

SEED = int(os.environ.get("PAGES_SEED", "14"))
SEQUENCES = 20
LIBRARY = "client_golang"
# What is said of the last page: by the receiver, and by Weir.
DIFFERENT = {
    "gauge histogram": (
        ["gauge g{a=b,le=+Inf} 7", "gauge g{a=b,le=0.1} 3", "gauge g{a=b,le=1.0} 7", "gauge g{a=b} 1"],
        [
            "gauge g_gcount{a=b} 7",
            "gauge g_gsum{a=b} 1",
            "gauge g{a=b,le=+Inf} 7",
            "gauge g{a=b,le=0.1} 3",
            "gauge g{a=b,le=1.0} 7",
        ],
    ),
    "native gauge histogram": (
        ["exponentialHistogram g{a=b} count 13 zero 1 1.5 -1[1, 5] -3[1, 3, 0, 0, 0, 2]"],
        ["gauge g_gcount{a=b} 13", "gauge g_gsum{a=b} 1.5"],
    ),
    "native that is stale": (
        ["exponentialHistogram h{a=b} gone"],
        ["exponentialHistogram h{a=b} count 15 zero 3 NaN -1[1, 5] -3[1, 3, 0, 0, 0, 2]"],
    ),
    "native with empty buckets": (
        ["exponentialHistogram h{a=b} count 13 zero 1 1.5 -1[1, 5] 2[2, 0, 0, 0, 3]"],
        ["exponentialHistogram h{a=b} count 13 zero 1 1.5 -1[1, 5] 1[0, 2, 0, 0, 0, 3, 0]"],
    ),
    "native with fractions": (
        ["exponentialHistogram h{a=b} count 7 zero 1 2 0[2, 3]"],
        ["exponentialHistogram h{a=b} count 8 zero 1 2 0[3, 4]"],
    ),
}


class Scene:
    """Everything is scraped at once. Each test looks at a part of it."""

    def __init__(self, lab: Lab, weir: Path, interval_s: int):
        self.lab = lab
        written = pages(lab, SEED, SEQUENCES)
        of_library = written[LIBRARY]
        written["cut off"] = [of_library[0], Page(of_library[1].body[:9], PROTOBUF), *of_library[1:]]
        self.targets = targets(written)
        self.node_exporter = NodeExporter(lab)
        self.prometheus = Prometheus(lab, self.node_exporter.address, "nodes")
        addresses = [self.node_exporter.address, self.prometheus.address]
        self.scrapers = Scrapers(lab, weir, self.targets, addresses, interval_s, native=True)
        self.scrapers.wait_for_pages()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, weir_binary: Path) -> Iterator[Scene]:
    yield from in_time(lambda lab, interval_s: Scene(lab, weir_binary, interval_s), tmp_path_factory.mktemp("protobuf"))


def test_pages_of_the_client_library(scene: Scene) -> None:
    assert_same(scene.scrapers, [target for target in scene.targets if target.name == LIBRARY], SEED)


def test_pages_by_hand(scene: Scene) -> None:
    others = [target for target in scene.targets if target.name not in (LIBRARY, *DIFFERENT)]
    assert_same(scene.scrapers, [target for target in others if not target.name.startswith("seed ")], SEED)


def test_what_is_different_is_as_documented(scene: Scene) -> None:
    different = [target for target in scene.targets if target.name in DIFFERENT]
    assert len(different) == len(DIFFERENT)
    for target in different:
        said = tuple(brief(last_page(items, len(target.pages))) for items in scene.scrapers.said(target))
        assert said == DIFFERENT[target.name], target.name


def test_pages_by_chance(scene: Scene) -> None:
    assert_same(scene.scrapers, [target for target in scene.targets if target.name.startswith("seed ")], SEED)


@pytest.mark.parametrize("component", ["node_exporter", "prometheus", "collector"])
def test_real_components(scene: Scene, component: str) -> None:
    address = scene.scrapers.own if component == "collector" else getattr(scene, component).address
    assert_same_values(scene.scrapers, address)
