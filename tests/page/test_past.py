"""The hour of a page that stays open while points become coarser, or another process comes."""

import re
from datetime import datetime
from pathlib import Path

import requests

from browser import Page
from harness.process import Lab, free_port
from harness.weir import Weir
from scenes import shop

NOWHERE = "http://127.0.0.1:9"
PIPELINE = "traces/shop"
PLOT = "#detail svg.hour"
# So many seconds are known before something happens: more than the page and the process may differ by.
BEFORE_S = 8
DIFFER_S = 4


def value(page: Page, name: str) -> int:
    return int(page.one(PLOT).get_attribute(f"aria-value{name}"))


def opens(page: Page, weir: Weir) -> None:
    page.open(weir.metrics_address)
    page.click(f"#pipelines tr[data-key='{PIPELINE}']")
    page.wait(lambda: value(page, "max") - value(page, "min") >= BEFORE_S, "some seconds are known")


def oldest(weir: Weir) -> float:
    """When the oldest point ended that the process knows."""
    known = requests.get(f"http://{weir.metrics_address}/api/history?pipeline={PIPELINE}", timeout=60).json()
    [line] = known["pipelines"]
    return datetime.fromisoformat(known["ends_at"]).timestamp() - (len(line["points"]) - 1) * known["step_seconds"]


def test_coarser_points_are_all_there(page: Page, lab: Lab, binary: Path) -> None:
    # That has room for seconds of four pipelines.
    weir = Weir(lab, binary, shop(NOWHERE), flags=("--memory", "64MiB"))
    opens(page, weir)
    weir.configure(*(shop(NOWHERE, name) for name in ("shop", "a", "b", "c", "d", "e")))
    page.wait(lambda: re.match(r"[\d:]+ to [\d:]+: ", page.one(PLOT).get_attribute("aria-valuetext")), "points of two seconds")
    page.wait(lambda: abs(value(page, "min") - oldest(weir)) <= DIFFER_S, "those of before as well")
    weir.stop()


def test_another_process_has_an_hour_of_its_own(page: Page, lab: Lab, binary: Path) -> None:
    port = free_port()
    first = Weir(lab, binary, shop(NOWHERE), metrics_port=port)
    opens(page, first)
    first.stop()
    second = Weir(lab, binary, shop(NOWHERE), metrics_port=port)
    page.wait(lambda: abs(value(page, "min") - oldest(second)) <= DIFFER_S, "nothing is left of the first one's")
    second.stop()
