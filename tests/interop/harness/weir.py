"""Weir as its user sees it: a manifest, `weir run`, the ports it reports, its metrics; and its `weir sink`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
import yaml

from .metrics import Metrics
from .process import Lab, Process

Document = dict[str, Any]


# Whatever is free; the line `ready` of the log says which.
ANY_PORTS = [
    argument
    for port in ("grpc", "http", "metrics", "health", "admin")
    for argument in (f"--{port}-port", "0")
]

KINDS = {"traces": "TracePipeline", "metrics": "MetricPipeline", "logs": "LogPipeline"}


def pipeline(signal: str, name: str, endpoint: str, **otlp: Any) -> Document:
    """A pipeline of that signal; further fields of `spec.output.otlp` as keywords. Plain text unless `tls` is given."""
    otlp.setdefault("tls", {"insecure": True})
    spec: Document = {"output": {"otlp": {"endpoint": {"value": endpoint}, **otlp}}}
    if signal == "logs":
        spec["input"] = {"runtime": {"enabled": False}}
    return {
        "apiVersion": "telemetry.kyma-project.io/v1beta1",
        "kind": KINDS[signal],
        "metadata": {"name": name},
        "spec": spec,
    }


def trace_pipeline(name: str, endpoint: str, **otlp: Any) -> Document:
    """A `pipeline` of traces."""
    return pipeline("traces", name, endpoint, **otlp)


def secret(name: str, **data: str) -> Document:
    """A Secret of the namespace `default`."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "stringData": data,
    }


def from_secret(name: str, key: str) -> Document:
    """A ValueType that refers to a `secret`."""
    return {"valueFrom": {"secretKeyRef": {"name": name, "namespace": "default", "key": key}}}


def ready_line(process: Process, message: str) -> dict[str, Any] | None:
    """The line of its log that says where it listens, once it is there."""
    for line in _json_lines(process.log_text()):
        fields = {**line, **line.get("fields", {})}
        if fields.get("message") == message:
            return fields
    return None


def _json_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{") and line.endswith("}"):
            yield json.loads(line)


class Weir:
    """A running gateway."""

    def __init__(
        self,
        lab: Lab,
        binary: Path,
        *documents: Document,
        grpc_port: int = 0,
        metrics_port: int = 0,
        flags: tuple[str, ...] = (),
    ):
        self.manifest = lab.directory / f"pipelines-{len(lab.processes)}.yaml"
        self.configure(*documents)
        argv = [binary, "run", self.manifest, "--listen", "127.0.0.1", "--grpc-port", str(grpc_port)]
        argv += ["--http-port", "0", "--metrics-port", str(metrics_port), "--health-port", "0", "--admin-port", "0"]
        if not {"--no-data-dir", "--data-dir"} & set(flags):
            argv += ["--data-dir", lab.directory / f"data-{len(lab.processes)}"]
        argv += flags
        self.process = lab.start("weir", argv)
        ready = self.process.wait_for(lambda: ready_line(self.process, "ready"), "is ready")
        self.grpc: str = ready["grpc"]
        self.http: str = ready["http"]
        self.metrics_address: str = ready["metrics"]
        self.health: str = ready["health"]
        self.admin: str = ready["admin"]

    def configure(self, *documents: Document) -> None:
        """Writes its file; while it runs, it takes the new one up by itself."""
        self.manifest.write_text(yaml.safe_dump_all(documents, sort_keys=False))

    def metrics(self) -> Metrics:
        return Metrics.scrape(self.metrics_address)

    def wait_until_delivered(self) -> None:
        """Waits until nothing that it has accepted is on its way any more."""
        self.process.wait_for(lambda: self.metrics().sum("weir_pipeline_pending_items") == 0, "delivers everything")

    def stop(self) -> None:
        """Shuts down as a user would; anything but a clean exit is a failure."""
        code = self.process.terminate()
        assert code == 0, f"weir exited with {code} after SIGTERM"


class Sink:
    """`weir sink`: counts what arrives and knows the ids."""

    def __init__(self, lab: Lab, binary: Path, grpc_port: int = 0):
        report = lab.directory / f"sink-{len(lab.processes)}.json"
        argv = [binary, "sink", "--grpc-port", str(grpc_port), "--http-port", "0", "--control-port", "0"]
        self.process = lab.start("sink", [*argv, "--report", report])
        ready = self.process.wait_for(lambda: ready_line(self.process, "sink ready"), "is ready")
        self.grpc: str = ready["grpc"]
        self.control: str = ready["control"]

    def set_faults(self, **faults: Any) -> None:
        """From now on it has these faults, and no others."""
        requests.post(f"http://{self.control}/faults", json=faults, timeout=60).raise_for_status()

    def report(self) -> dict[str, Any]:
        response = requests.get(f"http://{self.control}/report", timeout=60)
        response.raise_for_status()
        return response.json()
