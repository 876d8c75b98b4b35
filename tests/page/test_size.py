"""Many pipelines, many files. The bounds are ten times what it takes: they find what has gone wrong, and measure
nothing. What takes too long is tried again: a browser may stand still for seconds on a busy machine."""

import json
from collections.abc import Callable
from pathlib import Path

from browser import Page
from harness.process import Lab
from scenes import Scene, Sick, many, write_log_files

PIPELINES = 50
PODS, CONTAINERS = 20, 100
FILES = PODS * CONTAINERS
FIRST_PAINT_MS = 3_000
ACT_MS = 1_000
TRIES = 5


def test_fifty_pipelines_and_two_thousand_files(page: Page, lab: Lab, binary: Path, tmp_path: Path, pictures: Path) -> None:
    write_log_files(tmp_path / "pods", PODS, CONTAINERS)
    sink = Sick(lab, binary)
    documents = list(many(f"http://{sink.grpc}", PIPELINES))
    scene = Scene(lab, binary, "--pod-logs", str(tmp_path / "pods"), sink=sink, documents=documents)

    def first_paint() -> float:
        page.open(scene.weir.admin)
        page.wait(lambda: len(page.all("#pipelines .list:not(#events) tr[data-key]")) == PIPELINES, "all pipelines")
        paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        return page.wait(lambda: page.driver.execute_script(paint), "a first paint")

    figures = {"first paint ms": least(FIRST_PAINT_MS, first_paint)}
    page.go("logs")
    page.wait_text("#logs .bar", f"{FILES:,} rows, 100 shown")
    page.wait_text("#logs > p", f"{FILES:,} containers with {FILES:,} files")
    field = "const at = document.querySelector('#logs input')"
    filters = f"{field}; at.value = 'container-15'; at.dispatchEvent(new Event('input'))"
    figures["filter ms"] = least(ACT_MS, lambda: timed(page, filters))
    page.wait_text("#logs .bar", f"{PODS} of {FILES:,} rows")
    figures["sort ms"] = least(ACT_MS, lambda: timed(page, "document.querySelector('#logs thead button').click()"))
    (pictures / "size.json").write_text(json.dumps(figures))
    assert figures["first paint ms"] < FIRST_PAINT_MS
    assert max(figures["filter ms"], figures["sort ms"]) < ACT_MS
    scene.weir.stop()


def least(bound: float, measure: Callable[[], float]) -> float:
    """What it takes, at the first time that is within the bound, or else at the best of some."""
    figures: list[float] = []
    while len(figures) < TRIES and not any(figure < bound for figure in figures):
        figures.append(measure())
    return min(figures)


def timed(page: Page, script: str) -> float:
    return page.driver.execute_script(f"const began = performance.now(); {script}; return performance.now() - began")
