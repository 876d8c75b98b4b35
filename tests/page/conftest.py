"""One browser for all tests, and processes that are busy, sick or idle. The logs of those that a failed test used."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from selenium import webdriver

from browser import Page, chromium
from harness.process import Lab
from harness.weir import pipeline
from scenes import Scene, Sick, Traffic, send_log, shop

_LOG_TAIL_BYTES = 3_000
_REFUSED_WITHIN_S = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", type=Path, help="a directory for pictures of the busy, the sick and the idle process")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    scenes = [one for one in getattr(item, "funcargs", {}).values() if isinstance(one, Scene)]
    for process in [scene.weir.process for scene in scenes] if report.failed else ():
        report.sections.append((f"log of {process.name}", process.log_text()[-_LOG_TAIL_BYTES:]))


@pytest.fixture(scope="session")
def binary() -> Path:
    path = os.environ.get("WEIR")
    assert path, "set WEIR to the weir binary, or use tests/page/run.sh"
    return Path(path)


@pytest.fixture(scope="session")
def driver() -> Iterator[webdriver.Chrome]:
    driver = chromium()
    yield driver
    driver.quit()


@pytest.fixture
def page(driver: webdriver.Chrome) -> Iterator[Page]:
    page = Page(driver)
    page.complaints()
    yield page
    complaints = page.complaints()
    # Taps end, and the next test begins with nothing.
    driver.get("about:blank")
    assert not complaints, "the browser complains"


@pytest.fixture(scope="session")
def pictures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = request.config.getoption("--screenshots") or tmp_path_factory.mktemp("screenshots")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.close()


@pytest.fixture(scope="session")
def idle(lab: Lab, binary: Path) -> Scene:
    return Scene(lab, binary)


@pytest.fixture(scope="session")
def busy(lab: Lab, binary: Path) -> Iterator[Scene]:
    """Spans and log records flow; health checks are removed."""
    scene = Scene(lab, binary)
    traffic = Traffic(scene.weir)
    yield scene
    traffic.close()


@pytest.fixture(scope="session")
def sick(lab: Lab, binary: Path) -> Scene:
    """The backend of log records refuses every second request for good, and nothing listens where spans go."""
    sink = Sick(lab, binary)
    documents = [shop("http://127.0.0.1:9"), pipeline("logs", "shop", f"http://{sink.grpc}")]
    scene = Scene(lab, binary, sink=sink, documents=documents)
    sink.refuse("400:50")
    deadline = time.monotonic() + _REFUSED_WITHIN_S
    number = 0
    # Chance says which requests are refused: until one of them is refused for good.
    while number < 20 or not requests.get(f"http://{scene.weir.admin}/rejected", timeout=60).json():
        assert time.monotonic() < deadline, "nothing was refused for good"
        send_log(scene.weir, f"a record that may be refused, {number}")
        number += 1
    return scene
