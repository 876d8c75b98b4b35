"""Processes of Weir, one that is well and others in all kinds of trouble, each under a gentle load."""

import base64
import gzip
import json
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests

from .api_server import ApiServer, write_kubeconfig
from .certificates import Authority
from .http_backend import HttpBackend
from .process import Lab, Process, free_port
from .weir import ANY_PORTS, Document, Sink, Weir, pipeline, ready_line

_TELEMETRY: Document = {
    "apiVersion": "operator.kyma-project.io/v1beta1",
    "kind": "Telemetry",
    "metadata": {"name": "default"},
    "spec": {"metric": {"prometheus": {"collectionInterval": "1s"}, "runtime": {"collectionInterval": "1s"}}},
}
# More than a process with little memory can read.
_CROWD = 2_000
# The attribute `load.drop` with the value "1", as protobuf.
_MARK = b"load.drop\x12\x03\x0a\x011"
_SMALL_MEMORY = ("--memory", "32MiB", "--max-request-size", "4MiB")


class Fleet:
    """The processes by the names that Prometheus gets as their service."""

    def __init__(self, lab: Lab, binary: Path):
        self.lab = lab
        self.binary = binary
        self.weirs: dict[str, Weir] = {}
        self._picky = HttpBackend(refused=_MARK)
        self._forgetful = ApiServer(forgets=True)
        self._authority = Authority(lab.directory, "backends-ca")
        self._over_tls: list[HttpBackend] = []
        # What is not started by `weir run`.
        self._beside: dict[str, str] = {}
        self._closing = threading.Event()
        self._restarts: threading.Thread | None = None

    def close(self) -> None:
        self._closing.set()
        if self._restarts:
            self._restarts.join()
        for backend in (self._picky, *self._over_tls):
            backend.close()
        self._forgetful.close()

    def addresses(self) -> dict[str, str]:
        return {**{service: weir.metrics_address for service, weir in self.weirs.items()}, **self._beside}

    def _start(self, service: str, *documents: Document, binary: Path | None = None, **options: Any) -> Weir:
        self.weirs[service] = Weir(self.lab, binary or self.binary, *documents, **options)
        return self.weirs[service]

    def _load(self, *arguments: str) -> Process:
        return self.lab.start("load", [self.binary, "load", *arguments])

    def _push(self, signal: str, weir: Weir, rate: int) -> None:
        """Two of a hundred items are marked, for filters and for a backend that does not like them."""
        self._load(signal, "--endpoint", weir.grpc, "--rate", str(rate), "--batch", "50", "-c", "2", "--marked", "2")

    def _sink(self, **faults: Any) -> str:
        """A backend with the faults that `weir sink` calls so."""
        sink = Sink(self.lab, self.binary)
        sink.set_faults(**faults)
        return sink.grpc

    def _secure(self, name: str, days: int, client_days: int | None = None, **tls: Any) -> Document:
        """A pipeline, and its backend with a certificate of so many days. The pipeline may have one, too."""
        backend = HttpBackend(identity=self._authority.issue(name, days))
        self._over_tls.append(backend)
        tls.setdefault("ca", {"value": self._authority.cert.read_text()})
        if client_days is not None:
            client = self._authority.issue(f"{name}-as-client", client_days)
            tls |= {"cert": {"value": client.cert.read_text()}, "key": {"value": client.key.read_text()}}
        return pipeline("traces", name, backend.endpoint, protocol="http", tls=tls)

    def _script(self, name: str, *lines: str, under: str = "") -> Path:
        return _script(self.lab, self.binary, name, *lines, under=under)

    def _pods(self, rate: int, rotate_size: str = "1GB") -> Path:
        pods = self.lab.directory / f"pods-{len(self.lab.processes)}"
        pods.mkdir()
        self._load("log-files", str(pods), "--rate", str(rate), "--containers", "2", "--rotate-size", rotate_size)
        return pods

    def start_healthy(self, service: str) -> None:
        """Every input and every kind of rule."""
        backend = self._sink()
        targets = self._targets(2)
        marked = {"traces": "span", "metrics": "datapoint", "logs": "log"}
        documents = [pipeline(signal, "load-test-1", backend) for signal in marked]
        for document, kind in zip(documents, marked.values(), strict=True):
            document["spec"]["filter"] = [{"conditions": [f'{kind}.attributes["load.drop"] == "1"']}]
        _, metrics, logs = documents
        metrics["spec"]["output"]["otlp"]["temporality"] = "delta"
        _scrapes(metrics, targets)
        logs["spec"]["input"] = {"runtime": {"enabled": True}}
        documents.append(_fluent_bit("load-test-2", self._picky.endpoint))
        documents.append(self._secure("over-tls", days=30, client_days=30))
        pods = self._pods(50, rotate_size="20kB")
        weir = self._start(service, *documents, _TELEMETRY, flags=("--pod-logs", str(pods)))
        for signal in marked:
            self._push(signal, weir, 200)

    def _targets(self, count: int) -> list[str]:
        port = free_port()
        self._load("scrape-targets", "--port", str(port), "--targets", str(count), "--metrics", "20")
        return [f"http://127.0.0.1:{port}/targets/{number}/metrics" for number in range(count)]

    def start_ill(self) -> None:
        """All troubles, at once."""
        self._start_ill_backends()
        self._start_with_old_certificates()
        self._start_other_side()
        self._start_elsewhere()
        self._start_full()
        self._start_crowded()
        self._start_without_disk()
        self._start_untidy()
        self._start_damaged()
        self._start_ended()
        self._start_restarting()
        self._start_without_cluster()

    def _start_ill_backends(self) -> None:
        """A process whose backends are away, refuse, fail, or reject; one pipeline for each."""
        away = f"127.0.0.1:{free_port()}"
        backends = {
            "unauthorized": self._sink(fault=["401:100"]),
            "some-rejected": self._sink(partial=50),
            "some-failed": self._sink(fault=["503:50"]),
            "one-sided": away,
        }
        documents = [pipeline("traces", name, backend) for name, backend in backends.items()]
        for name, size in (("full", "1Mi"), ("filling", "30Mi")):
            documents.append(_limited(pipeline("traces", name, away), size))
        documents.append(pipeline("traces", "some-refused", self._picky.endpoint, protocol="http"))
        documents.append(pipeline("traces", "untrusted", f"https://{away}", tls={}))
        without_roots = self._script("weir-without-roots", "export SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/nowhere")
        weir = self._start("backends", *documents, binary=without_roots)
        self._push("traces", weir, 200)
        # Without a type, no request can be taken.
        _again_and_again(weir.process, lambda: requests.post(f"http://{weir.http}/v1/traces", data=b"x", timeout=5))

    def _start_with_old_certificates(self) -> None:
        """A process whose backends take everything, with certificates that nobody renews: theirs, and its own. Those
        that have ended are believed because nobody looks at them."""
        backends = [
            self._secure("certificate-ends-soon", days=10),
            self._secure("certificate-ends-today", days=1),
            self._secure("certificate-ended", days=0, insecureSkipVerify=True),
        ]
        clients = [
            self._secure(f"client-certificate-{ends}", days=30, client_days=client_days)
            for ends, client_days in (("ends-soon", 10), ("ends-today", 1), ("ended", 0))
        ]
        self._push("traces", self._start("old-certificates", *backends, *clients), 200)

    def _start_other_side(self) -> None:
        """A process that reaches a backend that another one does not."""
        weir = self._start("other-side", pipeline("traces", "one-sided", self._sink()))
        self._push("traces", weir, 200)

    def _start_elsewhere(self) -> None:
        """A process whose only pipeline takes nothing from the namespace that clients are in."""
        document = pipeline("logs", "elsewhere", self._sink())
        document["spec"]["input"]["otlp"] = {"namespaces": {"include": ["elsewhere"]}}
        self._push("logs", self._start("elsewhere", document), 200)

    def _start_full(self) -> None:
        """Processes that may drop nothing and have no room: clients, containers and targets have to wait."""
        away = f"127.0.0.1:{free_port()}"
        metrics, logs, late = (
            _limited(pipeline(signal, name, away), "1Mi", "refuse")
            for signal, name in (("metrics", "no-room"), ("logs", "no-room"), ("logs", "late"))
        )
        closed = [f"http://127.0.0.1:{free_port()}/metrics" for _ in range(3)]
        _scrapes(metrics, [*self._targets(3), *closed])
        metrics["spec"]["input"]["runtime"] = {"enabled": True}
        for document in (logs, late):
            document["spec"]["input"] = {"runtime": {"enabled": True}}
        flags = ("--pod-logs", str(self._pods(2_000, rotate_size="200kB")), "--max-removed-logs", "100kB")
        deployments = [_deployment(f"deployment-{number}") for number in range(300)]
        weir = self._start("no-room", metrics, logs, _TELEMETRY, *deployments, flags=flags)
        self._push("logs", weir, 200)
        self._start("late", late, flags=("--pod-logs", str(self._pods(2_000))))

    def _start_crowded(self) -> None:
        """A process with more containers than it has memory for."""
        pods = self.lab.directory / "pods-of-crowd"
        for number in range(_CROWD):
            container = pods / f"default_pod-{number // 100}_uid-{number // 100}" / f"container-{number}"
            container.mkdir(parents=True)
            (container / "0.log").write_text("2026-11-23T12:00:00.123456789Z stdout F a line\n")
        document = pipeline("logs", "crowd", self._sink())
        document["spec"]["input"] = {"runtime": {"enabled": True}}
        self._start("crowd", document, flags=("--pod-logs", str(pods), *_SMALL_MEMORY))

    def _start_without_disk(self) -> None:
        """Processes that have to keep everything in memory, or must not write large files."""
        away = f"127.0.0.1:{free_port()}"
        memory = self._start("memory", pipeline("traces", "memory", away), flags=("--no-data-dir", *_SMALL_MEMORY))
        self._push("traces", memory, 1_000)
        small_files = self._script("weir-with-small-files", "trap '' XFSZ", "ulimit -f 256")
        disk = self._start("disk", pipeline("traces", "disk", away), binary=small_files)
        self._push("traces", disk, 200)

    def _start_untidy(self) -> None:
        """A process that has delivered what is in its journal, and may remove no file of it."""
        sink = Sink(self.lab, self.binary)
        sink.set_faults(outage=["0s..1000s"])
        data = self.lab.directory / "untidy"
        flags = ("--data-dir", str(data), "--spill-after", "10ms")
        weir = self._start("untidy", pipeline("traces", "untidy", sink.grpc), binary=self._without_rights(), flags=flags)
        sent = self._load("traces", "--endpoint", weir.grpc, "--items", "500", "--batch", "50", "-c", "2")
        assert sent.wait_exit() == 0
        (data / "journal").chmod(0o500)
        sink.set_faults()

    def _without_rights(self) -> Path:
        """The program without the right to write where nobody may, which root has."""
        without = "setpriv --bounding-set=-dac_override,-dac_read_search"
        return self._script("weir-without-rights", under=without if os.geteuid() == 0 else "")

    def _start_damaged(self) -> None:
        """A damaged journal, in which a pipeline that is gone has data; and a configuration that is wrong."""
        away = f"127.0.0.1:{free_port()}"
        data = self.lab.directory / "damaged"
        flags = ("--data-dir", str(data), "--drain-timeout", "0s")
        documents = [pipeline("traces", name, away) for name in ("gone", "damaged")]
        before = Weir(self.lab, self.binary, *documents, flags=flags)
        sent = self._load("traces", "--endpoint", before.grpc, "--items", "5000", "--batch", "50", "-c", "2")
        assert sent.wait_exit() == 0
        before.stop()
        _damage(data)
        weir = self._start("damaged", pipeline("traces", "damaged", self._sink()), flags=flags)
        weir.manifest.write_text("kind: TracePipeline\n")

    def _start_ended(self) -> None:
        """A process that is there no more."""
        self._start("ended", pipeline("traces", "ended", f"127.0.0.1:{free_port()}")).process.kill()

    def _start_restarting(self) -> None:
        """A process that ends every few seconds, and is started again at the same address."""
        document, port = pipeline("traces", "restarting", f"127.0.0.1:{free_port()}"), free_port()

        def start() -> Weir:
            return self._start("restarting", document, metrics_port=port)

        def run(weir: Weir) -> None:
            while not self._closing.wait(3):
                weir.process.kill()
                weir = start()

        self._restarts = threading.Thread(target=run, args=[start()], daemon=True)
        self._restarts.start()

    def _start_without_cluster(self) -> None:
        """An operator and a node whose API server is away, and a node whose watches end at once. Nodes have the
        configuration of an earlier process."""
        kubeconfig = write_kubeconfig(self.lab.directory / "kubeconfig.json", f"http://127.0.0.1:{free_port()}")
        self._beside["operator"] = start_operator(self.lab, self.binary, kubeconfig)
        self._start_node("node", kubeconfig)
        forgetful = write_kubeconfig(self.lab.directory / "forgetful.json", self._forgetful.url)
        self._start_node("blind-node", forgetful)

    def _start_node(self, name: str, kubeconfig: Path) -> None:
        data = self.lab.directory / f"data-{name}"
        _save_configuration(data, pipeline("metrics", "of-node", self._sink()))
        node = [self.binary, "node", "--kubeconfig", kubeconfig, "--node-name", name, "--data-dir", data]
        process = self.lab.start("node", [*node, "--listen", "127.0.0.1", *ANY_PORTS])
        ready = process.wait_for(lambda: ready_line(process, "ready"), "is ready")
        self._beside[name] = ready["metrics"]


def _script(lab: Lab, binary: Path, name: str, *lines: str, under: str = "") -> Path:
    """The program, started in some way, and by another program."""
    path = lab.directory / name
    path.write_text("\n".join(["#!/bin/sh", *lines, f'exec {under} {binary} "$@"', ""]))
    path.chmod(0o755)
    return path


def start_on_small_disk(lab: Lab, binary: Path, mebibytes: int, bytes_per_s: int) -> Weir | None:
    """A process whose backend is away, and whose disk fills so fast. Nothing where this user may mount no disk."""
    data = lab.directory / "small-disk"
    data.mkdir()
    mounted = f'mount -t tmpfs -o size={mebibytes}m weir {data} && exec "$0" "$@"'
    privileges = (["--mount"], ["--mount", "--user", "--map-root-user"])
    ways = [["unshare", *privilege, "sh", "-c", mounted] for privilege in privileges]
    may = lambda way: subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0
    under = next(filter(may, ways), None)
    if under is None:
        return None
    on_it = _script(lab, binary, "weir-on-small-disk", under=shlex.join(under))
    away = pipeline("logs", "small-disk", f"127.0.0.1:{free_port()}")
    weir = Weir(lab, on_it, away, flags=("--data-dir", str(data)))
    size = 2_000
    rate = ("--rate", str(bytes_per_s // size), "--size", str(size))
    lab.start("load", [binary, "load", "logs", "--endpoint", weir.grpc, *rate, "--batch", "50", "-c", "2"])
    return weir


def start_operator(lab: Lab, binary: Path, kubeconfig: Path) -> str:
    """Returns the address of its metrics."""
    metrics, health, webhooks = free_port(), free_port(), free_port()
    arguments = ["--kubeconfig", kubeconfig, "--image", "weir:1", "--listen", "127.0.0.1"]
    arguments += ["--metrics-port", str(metrics), "--health-port", str(health), "--webhook-port", str(webhooks)]
    lab.start("operator", [binary, "operator", *arguments])
    return f"127.0.0.1:{metrics}"


def _save_configuration(data: Path, *documents: Document) -> None:
    """As `weir node` keeps the last good one in its data directory."""
    items = {"apiVersion": "v1", "kind": "List", "items": documents}
    packed = base64.b64encode(gzip.compress(json.dumps(items).encode())).decode()
    (data / "state").mkdir(parents=True)
    saved = {"revision": "before", "settings": {}, "packed": packed}
    (data / "state" / "configuration").write_text(json.dumps(saved))


def _deployment(name: str) -> Document:
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": 2},
        "status": {"availableReplicas": 1},
    }


def _fluent_bit(name: str, endpoint: str) -> Document:
    """A LogPipeline with an output of Fluent Bit."""
    document = pipeline("logs", name, endpoint)
    host, port = endpoint.removeprefix("http://").split(":")
    http = {"host": {"value": host}, "port": port, "tls": {"insecure": True}}
    document["spec"] = {"input": {"runtime": {"enabled": True}}, "output": {"http": http}}
    return document


def _limited(document: Document, size: str, overflow: str = "drop_oldest") -> Document:
    document["metadata"]["annotations"] = {
        "weir.dev/backlog-max-bytes": size,
        "weir.dev/backlog-overflow": overflow,
    }
    return document


def _scrapes(document: Document, targets: list[str]) -> None:
    document["metadata"].setdefault("annotations", {})["weir.dev/static-targets"] = ", ".join(targets)
    document["spec"]["input"] = {"prometheus": {"enabled": True}}


def _damage(data: Path) -> None:
    """Other bytes in a place of the first segment of the journal."""
    segment = min(data.rglob("*.seg"))
    content = bytearray(segment.read_bytes())
    place = slice(len(content) // 4, len(content) // 4 + 64)
    content[place] = bytes(byte ^ 0xFF for byte in content[place])
    segment.write_bytes(content)


def _again_and_again(process: Process, do: Callable[[], object]) -> None:
    """Ten times a second, as long as the process runs."""

    def run() -> None:
        while process.running:
            with suppress(requests.RequestException):
                do()
            time.sleep(0.1)

    threading.Thread(target=run, daemon=True).start()
