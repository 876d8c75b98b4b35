"""Processes to look at: a busy one, a sick one, an idle one; and what is sent to them."""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import requests

from harness.process import Lab
from harness.weir import Document, Sink, Weir, pipeline

FILTER = 'IsMatch(span.attributes["url.path"], "^/healthz")'
STATEMENT = 'set(span.attributes["team"], "shop")'


class Sick(Sink):
    """A backend that refuses."""

    def refuse(self, *faults: str) -> None:
        requests.post(f"http://{self.control}/faults", json={"fault": list(faults)}, timeout=60).raise_for_status()


def shop(endpoint: str, name: str = "shop") -> Document:
    """Traces with a transform, and a filter that removes health checks."""
    document = pipeline("traces", name, endpoint)
    document["spec"]["transform"] = [{"statements": [STATEMENT]}]
    document["spec"]["filter"] = [{"conditions": [FILTER]}]
    return document


def scraping(name: str, endpoint: str, *targets: str) -> Document:
    """Metrics of the pages of these targets."""
    document = pipeline("metrics", name, endpoint)
    document["metadata"]["annotations"] = {"weir.dev/static-targets": ", ".join(targets)}
    document["spec"]["input"] = {"prometheus": {"enabled": True}}
    return document


def span(trace_id: str, path: str, number: int = 1) -> dict[str, Any]:
    now = time.time_ns()
    return {
        "traceId": trace_id,
        "spanId": f"{number:016x}",
        "name": f"GET {path}",
        "kind": 2,
        "startTimeUnixNano": str(now - 12_000_000),
        "endTimeUnixNano": str(now),
        "attributes": [_attribute("url.path", path)],
        "status": {"code": 2, "message": "no such cart"} if path == "/cart" else {},
    }


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def _resource(pod: str) -> dict[str, Any]:
    keys = {"service.name": pod, "k8s.namespace.name": "shop", "k8s.pod.name": f"{pod}-1"}
    return {"attributes": [_attribute(key, value) for key, value in keys.items()]}


def send_spans(weir: Weir, *spans: dict[str, Any], pod: str = "cart") -> None:
    _send(weir, "traces", {"resourceSpans": [{"resource": _resource(pod), "scopeSpans": [{"spans": list(spans)}]}]})


def send_log(weir: Weir, text: str, pod: str = "orders") -> None:
    record = {"timeUnixNano": str(time.time_ns()), "severityNumber": 17, "severityText": "ERROR", "body": {"stringValue": text}}
    _send(weir, "logs", {"resourceLogs": [{"resource": _resource(pod), "scopeLogs": [{"logRecords": [record]}]}]})


def _send(weir: Weir, signal: str, body: dict[str, Any]) -> None:
    requests.post(f"http://{weir.http}/v1/{signal}", json=body, timeout=60).raise_for_status()


class Traffic:
    """A client that sends spans and log records until it is closed."""

    def __init__(self, weir: Weir, every_s: float = 0.05):
        self.weir = weir
        self.every_s = every_s
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        for number in count(1):
            if self.over.wait(self.every_s):
                return
            paths = ("/orders", "/cart", "/healthz")
            # A client whose request takes too long goes on with the next.
            with suppress(requests.RequestException):
                send_spans(self.weir, *(span(secrets.token_hex(16), path, number) for path in paths))
                send_log(self.weir, f"order {number} of <b>somebody</b>")

    def close(self) -> None:
        self.over.set()
        self.thread.join(10)


def many(endpoint: str, pipelines: int) -> Iterator[Document]:
    for number in range(pipelines):
        document = pipeline("logs", f"team-{number}", endpoint)
        document["spec"]["input"] = {"runtime": {"enabled": number == 0}}
        yield document


def write_log_files(directory: Path, pods: int, containers: int) -> None:
    """One file of each container of so many pods, as the kubelet lays them out."""
    for pod in range(pods):
        for number in range(containers):
            container = directory / f"shop_pod-{pod}_{pod:08x}-0000-4000-8000-000000000000" / f"container-{number}"
            container.mkdir(parents=True)
            (container / "0.log").write_text(f"2026-01-01T00:00:00.000000000Z stdout F line {number}\n")


class Scene:
    """A sink and a process in front of it."""

    def __init__(self, lab: Lab, binary: Path, *flags: str, sink: Sick | None = None, documents: list[Document] | None = None):
        self.sink = sink or Sick(lab, binary)
        to = f"http://{self.sink.grpc}"
        self.weir = Weir(lab, binary, *(documents or [shop(to), pipeline("logs", "shop", to)]), flags=flags)
