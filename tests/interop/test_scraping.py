"""The same pages -> Weir, and the Collector's Prometheus receiver: the same metrics, point by point. What
docs/metrics-agent.md lists under "Where Weir differs from the Collector's receiver" is told apart by rule."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.comparison import assert_same, assert_same_values, is_of_scrape, of_target
from harness.items import Item
from harness.node_exporter import NodeExporter
from harness.page_cases import CASES, DIFFERENT, LABELS
from harness.page_generator import Sequence
from harness.page_libraries import pages as pages_of_libraries
from harness.pages import Target, targets
from harness.process import Lab
from harness.prometheus import Prometheus
from harness.receiver import Scrapers, in_time
from harness.scrapes import OF_SCRAPES, Point, brief, last_page, scrape_times, time

SEED = int(os.environ.get("PAGES_SEED", "14"))
SEQUENCES, LENGTH = 20, 10


class Scene:
    """Everything is scraped at once. Each test looks at a part of it."""

    def __init__(self, lab: Lab, weir: Path, interval_s: int):
        self.lab = lab
        seeds = range(SEED, SEED + SEQUENCES)
        self.by_hand = targets(CASES)
        self.by_chance = targets({f"seed {seed}": Sequence(seed, LENGTH).pages for seed in seeds})
        self.of_libraries = targets(pages_of_libraries(lab))
        self.of_labels = targets(LABELS)
        self.different = targets({name: pages for name, (pages, _, _) in DIFFERENT.items()})
        self.node_exporter = NodeExporter(lab)
        self.prometheus = Prometheus(lab, self.node_exporter.address, "nodes")
        self.targets = [*self.by_hand, *self.by_chance, *self.of_libraries, *self.of_labels, *self.different]
        addresses = [self.node_exporter.address, self.prometheus.address]
        self.scrapers = Scrapers(lab, weir, self.targets, addresses, interval_s)
        self.scrapers.wait_for_pages()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, weir_binary: Path) -> Iterator[Scene]:
    yield from in_time(lambda lab, interval_s: Scene(lab, weir_binary, interval_s), tmp_path_factory.mktemp("scraping"))


def test_pages_by_hand(scene: Scene) -> None:
    assert_same(scene.scrapers, scene.by_hand, SEED)


def test_pages_by_chance(scene: Scene) -> None:
    assert_same(scene.scrapers, scene.by_chance, SEED)


def test_pages_of_client_libraries(scene: Scene) -> None:
    assert_same(scene.scrapers, scene.of_libraries, SEED)


def test_labels_of_targets_and_scopes(scene: Scene) -> None:
    assert_same(scene.scrapers, scene.of_labels, SEED)


def test_metrics_about_scrapes_are_of_the_target_alone(scene: Scene) -> None:
    """In the receiver, target_info is in their resource, as documented."""
    target = next(target for target in scene.of_labels if target.name == "target_info")
    theirs, ours = (resources_of_scrapes(items)[: len(target.pages)] for items in scene.scrapers.said(target))
    own = of_target(target.port)
    said = {"exported_job": "j", "exported_instance": "i", "service_version": "1", "host_name": "h"}
    assert theirs == [own | said, own | {"service_version": "2"}, own]
    assert ours == [own, own, own]


def resources_of_scrapes(items: list[Item]) -> list[Point]:
    """The one resource of all metrics about each scrape."""
    found: list[Point] = []
    for at in scrape_times(items):
        about = [item for item in items if time(item) == at and is_of_scrape(item)]
        assert {item["metric"]["name"] for item in about} == set(OF_SCRAPES)
        found.append(about[0]["resource"]["attributes"])
        assert all(item["resource"] == about[0]["resource"] for item in about)
    return found


def test_what_is_different_is_as_documented(scene: Scene) -> None:
    for target in scene.different:
        said = tuple(brief(last_page(items, len(target.pages))) for items in scene.scrapers.said(target))
        assert said == DIFFERENT[target.name][1:], target.name


@pytest.mark.parametrize("component", ["node_exporter", "prometheus", "collector"])
def test_real_components(scene: Scene, component: str) -> None:
    address = scene.scrapers.own if component == "collector" else getattr(scene, component).address

    assert_same_values(scene.scrapers, address)
