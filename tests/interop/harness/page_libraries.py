"""Pages that client libraries for Prometheus write, in both formats."""

from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, Summary
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from .clients import java
from .pages import OPENMETRICS, TEXT, Page
from .process import Lab

TRACE = {"trace_id": "0123456789abcdef0123456789abcdef", "span_id": "0123456789abcdef"}


def pages(lab: Lab) -> dict[str, list[Page]]:
    return {**_of_python(), **_of_java(lab)}


def _of_python() -> dict[str, list[Page]]:
    registry = CollectorRegistry()
    jobs = Counter("jobs", 'Time "spent" on\njobs\\.', ["kind"], unit="seconds", registry=registry)
    room = Gauge("temperature", "In the room.", registry=registry)
    latency = Histogram("latency", "Of requests.", ["path"], unit="seconds", buckets=(0.1, 1, 10), registry=registry)
    size = Summary("size", "Of answers.", unit="bytes", registry=registry)
    Info("build", "What runs.", registry=registry).info({"version": "1", "revision": "caf\u00e9"})
    Enum("feature", "What is on.", states=["a", "b"], registry=registry).state("b")
    found: dict[str, list[Page]] = {"Python, text": [], "Python, OpenMetrics": []}
    for _ in range(2):
        jobs.labels("quick").inc(1.5)
        jobs.labels('a "quoted"\nword\\').inc(2, exemplar=TRACE)
        room.dec(7.25)
        for seconds in (0.05, 0.5, 5, 50):
            latency.labels("/").observe(seconds, exemplar=TRACE)
            size.observe(seconds * 1000)
        found["Python, text"].append(Page(generate_latest(registry), TEXT))
        found["Python, OpenMetrics"].append(Page(generate_openmetrics(registry), OPENMETRICS))
    return found


def _of_java(lab: Lab) -> dict[str, list[Page]]:
    directory = lab.directory / "java"
    directory.mkdir()
    program = lab.start("pages-java", [*java("Pages"), directory])
    assert program.wait_exit() == 0, program.log_text()
    return {
        "Java, text": [Page((directory / f"text-{turn}").read_bytes(), TEXT) for turn in range(2)],
        "Java, OpenMetrics": [Page((directory / f"openmetrics-{turn}").read_bytes(), OPENMETRICS) for turn in range(2)],
    }
