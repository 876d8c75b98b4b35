"""The OpenTelemetry Collector as a backend (writes what it receives to a file) and as a client (relays).

The file is written without a buffer in between and before the receiver answers, so that what the collector
acknowledged is in the file even when it is killed right after.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from .process import Lab, Process, free_port
from .items import Item, items
from .spans import RequestFile, Span, from_json

OTELCOL = Path(__file__).resolve().parents[3] / "bench" / "peers" / "bin" / "otelcol"

Config = dict[str, Any]

SIGNALS = ("traces", "metrics", "logs")
# The resource attribute that tells the runs of clients apart which send to the same backends.
RUN = "interop.run"

# Its own metrics would need one more port and nobody reads them.
_TELEMETRY = {"metrics": {"level": "none"}}
# Of its exporters: 5 s are too few on a busy machine, and what is sent again arrives twice.
PATIENCE = {"timeout": "60s"}


class _Collector:
    """One configuration, started and stopped any number of times on the same ports."""

    def __init__(self, lab: Lab, name: str):
        self.lab = lab
        self.name = name
        self.grpc = f"127.0.0.1:{free_port()}"
        self.http = f"127.0.0.1:{free_port()}"
        self.process: Process | None = None

    def _start(self, config: Config) -> None:
        path = self.lab.directory / f"{self.name}-{len(self.lab.processes)}.yaml"
        path.write_text(json.dumps(config, indent=2))
        self.process = self.lab.start(self.name, [OTELCOL, "--config", path])
        self.process.wait_for_log("Everything is ready")

    def _receivers(self, extra: Config) -> Config:
        protocols = {protocol: {"endpoint": getattr(self, protocol), **extra} for protocol in ("grpc", "http")}
        return {"otlp": {"protocols": protocols}}

    def stop(self) -> None:
        """Shuts down cleanly."""
        code = self.process.terminate()
        assert code == 0, f"{self.name} exited with {code} after SIGTERM"

    def kill(self) -> None:
        self.process.kill()


class Backend(_Collector):
    """A collector that stores what it gets of all signals. `tls` and `auth` are settings of its OTLP receivers."""

    def __init__(self, lab: Lab, name: str = "backend", *, tls: Config | None = None, users: str | None = None):
        super().__init__(lab, name)
        self._tls = tls
        self._users = users
        self._files: list[RequestFile] = []
        self._requests: list[Config] = []
        self._spans: list[Span] = []
        self._spans_of_requests = 0
        self._items: dict[tuple[str, str | None], list[Item]] = defaultdict(list)
        self._items_of_requests = 0
        self.start()

    def start(self) -> None:
        """Starts it, or starts it again on the same ports; what it got in earlier runs is kept."""
        file = self.lab.directory / f"{self.name}-{len(self._files)}.jsonl"
        self._files.append(RequestFile(file))
        extra: Config = {}
        service: Config = {"telemetry": _TELEMETRY}
        config: Config = {"service": service}
        if self._tls:
            extra["tls"] = self._tls
        if self._users:
            extra["auth"] = {"authenticator": "basicauth"}
            config["extensions"] = {"basicauth": {"htpasswd": {"inline": self._users}}}
            service["extensions"] = ["basicauth"]
        config["receivers"] = self._receivers(extra)
        config["exporters"] = {"file": {"path": str(file), "rotation": {"max_megabytes": 10_000}}}
        service["pipelines"] = {signal: {"receivers": ["otlp"], "exporters": ["file"]} for signal in SIGNALS}
        self._start(config)

    def requests(self) -> list[Config]:
        """Everything it has stored so far, over all its runs, as OTLP/JSON."""
        self._requests.extend(request for file in self._files for request in file.read_new())
        return self._requests

    def spans(self) -> list[Span]:
        """The spans of all requests."""
        for request in self.requests()[self._spans_of_requests :]:
            self._spans.extend(from_json(request))
        self._spans_of_requests = len(self._requests)
        return self._spans

    def items(self, signal: str, run: str | None = None) -> list[Item]:
        """The items of a signal; with `run`, those whose resource says that they are of it. Not to be changed."""
        for request in self.requests()[self._items_of_requests :]:
            for of, item in items(request):
                for key in {item["resource"]["attributes"].get(RUN), None}:
                    self._items[of, key].append(item)
        self._items_of_requests = len(self._requests)
        return self._items[signal, run]

    def count(self) -> int:
        return len(self.spans())

    def wait_for_spans(self, count: int, deadline_s: float = 90.0) -> None:
        self.process.wait_for(lambda: self.count() >= count, f"stores {count} spans", deadline_s)


class Relay(_Collector):
    """A collector that sends what it receives on over OTLP/gRPC, with a queue and fast retries."""

    def __init__(self, lab: Lab, endpoint: str, *, tls: Config | None = None, headers: dict[str, str] | None = None):
        super().__init__(lab, "relay")
        exporter = {
            **PATIENCE,
            "endpoint": endpoint,
            "tls": tls or {"insecure": True},
            "headers": headers or {},
            "sending_queue": {"queue_size": 10_000, "num_consumers": 4},
            "retry_on_failure": {"initial_interval": "100ms", "max_interval": "500ms", "max_elapsed_time": "0s"},
        }
        pipeline = {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}
        self._start(
            {
                "receivers": self._receivers({}),
                "exporters": {"otlp_grpc": exporter},
                "service": {"telemetry": _TELEMETRY, "pipelines": {"traces": pipeline}},
            }
        )
