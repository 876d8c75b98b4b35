"""Clients in pods of their own, `weir load`, which know what became of each item that they pushed."""

import base64
import json
from collections import Counter
from dataclasses import dataclass

from backend import Backend, Item
from cluster import Object, wait_until
from installation import NAMESPACE, Installation

# Items in a second, and in a request.
_RATE, _BATCH = 100, 10
# No client sends so many.
_NUMBERS = 1_000_000
_SERVICE = f"telemetry-otlp.{NAMESPACE}"
# Spans over gRPC, and log records over HTTP.
_HOW = {
    "traces": [f"--endpoint={_SERVICE}:4317"],
    "logs": [f"--endpoint={_SERVICE}:4318", "--http", "--size=100"],
}
# On the node, where it stays when the pod is gone.
_REPORTS = "/var/lib/load"


@dataclass(frozen=True)
class Pushed:
    """What a client says at its end. Items are named by their numbers."""

    acknowledged: set[int]
    # Those of requests that were refused or had no answer, so that the client sent them again.
    sent_again: set[int]
    # From when a request was due until it was acknowledged, or until the end if it never was.
    longest_wait_s: float
    said: str


class Load:
    """Pushes items to the Service until it is stopped, as an exporter does: what is refused or has no answer is sent again
    until it is acknowledged. Clients of a signal differ by `number`, and so do the numbers of their items."""

    SIGNALS = tuple(_HOW)

    def __init__(self, installation: Installation, node: str, signal: str, number: int):
        self.name, self.node, self.signal = f"load-{signal}-{node}", node, signal
        self._cluster, self._first = installation.cluster, number * _NUMBERS + 1
        self._report = self._cluster.file(node, f"{_REPORTS}/{self.name}.json")
        self._report.unlink(missing_ok=True)
        send = ["load", signal, *_HOW[signal], f"--rate={_RATE}", f"--batch={_BATCH}", "--attributes=2", "--retry"]
        send += [f"--first-id={self._first}", f"--report={_REPORTS}/{self.name}.json"]
        self._cluster.apply(_pod(self.name, node, installation.image, send))

    def items(self, backend: Backend) -> list[Item]:
        """Those of its items that arrived."""
        return [it for it in backend.items(self.signal) if self._first <= _number(it) < self._first + _NUMBERS]

    def arrived(self, backend: Backend) -> Counter[int]:
        """How often each of its items arrived."""
        return Counter(map(_number, self.items(backend)))

    def stop(self) -> Pushed:
        status = self._cluster.find(f"pod/{self.name}", "default")["status"]
        assert status["phase"] == "Running", f"{self.name} has ended before: {status}"
        self._cluster.kubectl("delete", "pod", self.name, "--timeout=60s")
        report = json.loads(self._report.read_text())
        acknowledged = report["ids"]["acked"]
        assert acknowledged and acknowledged[0][0] == self._first, f"the first item of {self.name} was never acknowledged: {report}"
        # Each request is due at its time: the first one that was never acknowledged has waited since then.
        never_s = report["seconds"] - (acknowledged[0][1] - self._first + 1) / _RATE
        counts = {name: report[name] for name in ("requests", "refused", "errors", "connect_failures")}
        return Pushed(
            acknowledged=_numbers(acknowledged),
            sent_again=_numbers(report["ids"]["refused"] + report["ids"]["unknown"]),
            longest_wait_s=max(report["latency_ms"]["max"] / 1000, never_s),
            said=f"{self.name}: {counts}",
        )


def flow_on(loads: list[Load], backend: Backend) -> None:
    """Waits until more of each client has arrived."""
    before = [len(load.arrived(backend)) for load in loads]
    more = lambda: all(len(load.arrived(backend)) > count + 100 for load, count in zip(loads, before, strict=True))
    wait_until(more, "what each client pushes arrives")


def ended(loads: list[Load], backend: Backend) -> list[tuple[Load, Pushed]]:
    """Stops clients, and waits until all that was acknowledged to them has arrived."""
    pushed = [(load, load.stop()) for load in loads]
    for load, report in pushed:
        wait_until(lambda: report.acknowledged <= load.arrived(backend).keys(), f"all that {load.name} pushed arrived", 120)
    return pushed


def assert_once(pushed: list[tuple[Load, Pushed]], backend: Backend) -> None:
    """What a client had sent once has arrived once."""
    for load, report in pushed:
        twice = {number for number, count in load.arrived(backend).items() if count > 1}
        print(f"{report.said}, {len(report.acknowledged)} items, {len(twice)} twice, the longest wait {report.longest_wait_s:.3f} s")
        alone = sorted(twice - report.sent_again)[:9]
        assert not alone, f"arrived twice, and {load.name} had sent them once: {alone}"


def _number(item: Item) -> int:
    return int.from_bytes(base64.b64decode(item["item"].get("spanId", "")), "big")


def _numbers(ranges: list[list[int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def _pod(name: str, node: str, image: str, send: list[str]) -> Object:
    container = {
        "name": "main",
        "image": image,
        "args": send,
        # The kubelet makes the directory for root.
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "reports", "mountPath": _REPORTS}],
    }
    reports = {"name": "reports", "hostPath": {"path": _REPORTS, "type": "DirectoryOrCreate"}}
    spec = {"nodeName": node, "containers": [container], "volumes": [reports], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
