"""Many pipelines, many files. The bounds are ten times what it takes: they find what has gone wrong, and measure nothing."""

import json
from pathlib import Path

from browser import Page
from harness.process import Lab
from scenes import Scene, Sick, many, write_log_files

PIPELINES = 50
PODS, CONTAINERS = 20, 100
FILES = PODS * CONTAINERS
FIRST_PAINT_MS = 3_000
ACT_MS = 1_000


def test_fifty_pipelines_and_two_thousand_files(page: Page, lab: Lab, binary: Path, tmp_path: Path, pictures: Path) -> None:
    write_log_files(tmp_path / "pods", PODS, CONTAINERS)
    sink = Sick(lab, binary)
    documents = list(many(f"http://{sink.grpc}", PIPELINES))
    scene = Scene(lab, binary, "--pod-logs", str(tmp_path / "pods"), sink=sink, documents=documents)
    page.open(scene.weir.admin)
    page.wait(lambda: len(page.all("#pipelines .list:not(#events) tr[data-key]")) == PIPELINES, "all pipelines")
    paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    figures = {"first paint ms": page.wait(lambda: page.driver.execute_script(paint), "a first paint")}
    page.go("logs")
    page.wait_text("#logs .bar", f"{FILES:,} rows, 100 shown")
    page.wait_text("#logs > p", f"{FILES:,} containers with {FILES:,} files")
    figures["filter ms"] = timed(page, "const at = document.querySelector('#logs input'); at.value = 'container-15'; at.dispatchEvent(new Event('input'))")
    page.wait_text("#logs .bar", f"{PODS} of {FILES:,} rows")
    figures["sort ms"] = timed(page, "document.querySelector('#logs thead button').click()")
    (pictures / "size.json").write_text(json.dumps(figures))
    assert figures["first paint ms"] < FIRST_PAINT_MS
    assert max(figures["filter ms"], figures["sort ms"]) < ACT_MS
    scene.weir.stop()


def timed(page: Page, script: str) -> float:
    return page.driver.execute_script(f"const began = performance.now(); {script}; return performance.now() - began")
