"""Fixtures, and the logs of every process a failed test started."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.collector import Backend
from harness.process import Lab
from harness.scene import Scene
from harness.weir import Document, Sink, Weir

_LOG_TAIL_BYTES = 4_000


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    fixtures = getattr(item, "funcargs", {}).values()
    labs = [getattr(fixture, "lab", fixture) for fixture in fixtures]
    for lab in {id(lab): lab for lab in labs if report.failed and isinstance(lab, Lab)}.values():
        for process in lab.processes:
            report.sections.append((f"log of {process.name}: {process.log}", process.log_text()[-_LOG_TAIL_BYTES:]))


@pytest.fixture(scope="session")
def weir_binary() -> Path:
    path = os.environ.get("WEIR")
    assert path, "set WEIR to the weir binary, or use tests/interop/run.sh"
    return Path(path)


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory, weir_binary: Path) -> Iterator[Scene]:
    scene = Scene(Lab(tmp_path_factory.mktemp("scene")), weir_binary)
    yield scene
    scene.lab.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.close()


@pytest.fixture
def backend(lab: Lab) -> Backend:
    return Backend(lab)


@pytest.fixture
def start_weir(lab: Lab, weir_binary: Path) -> Callable[..., Weir]:
    def start(*documents: Document, **options: object) -> Weir:
        return Weir(lab, weir_binary, *documents, **options)

    return start


@pytest.fixture
def start_sink(lab: Lab, weir_binary: Path) -> Callable[..., Sink]:
    def start(grpc_port: int = 0) -> Sink:
        return Sink(lab, weir_binary, grpc_port)

    return start
