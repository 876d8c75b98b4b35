#!/usr/bin/env python3
"""What many nodes cost the operator that asks each of them how its pipelines stand.

    bench/nodes/run.py target/release/weir                        1,000 nodes with 50 pipelines
    bench/nodes/run.py target/release/weir --nodes 5000 --seconds 120

The API server and the nodes are made up: it has pods with addresses of 127.0.0.0/8, at all of which this script answers at the
port that nodes have. That port, 8888, must be free. Every node says that one of the pipelines loses data, another one on each.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TextIO
from urllib.parse import parse_qs, urlsplit

_NODE_PORT = 8888
_METRICS_PORT, _HEALTH_PORT = 18080, 18081
_GROUP = "telemetry.kyma-project.io/v1beta1"
_TICKS = os.sysconf("SC_CLK_TCK")


def _object(kind: str, name: str, namespace: str | None = None, **fields: object) -> dict:
    metadata = {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "1", "generation": 1}
    if namespace:
        metadata["namespace"] = namespace
    return {"kind": kind, "metadata": metadata, **fields}


def _telemetry() -> dict:
    return _object("Telemetry", "default", "kyma-system", apiVersion="operator.kyma-project.io/v1beta1", spec={})


def _pipeline(number: int) -> dict:
    spec = {"output": {"otlp": {"endpoint": {"value": "http://127.0.0.1:1"}}}}
    return _object("TracePipeline", f"p{number}", apiVersion=_GROUP, spec=spec)


def _pod(number: int) -> dict:
    high, low = divmod(number, 250)
    status = {
        "phase": "Running",
        "podIP": f"127.1.{high}.{low + 1}",
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    pod = _object("Pod", f"gateway-{number}", "kyma-system", apiVersion="v1", status=status)
    pod["metadata"]["labels"] = {"app.kubernetes.io/name": "telemetry-otlp-gateway"}
    pod["spec"] = {"nodeName": f"node-{number}", "containers": []}
    return pod


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, document: object, code: int = 200) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


class ApiServer(_Handler):
    objects: dict[str, list] = {}
    leases: dict[str, dict] = {}

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        kind = url.path.rstrip("/").rpartition("/")[2]
        if url.path == "/apis":
            self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
        elif "/leases/" in url.path:
            self.answer(self.leases.get(kind) or _refusal(404), 200 if kind in self.leases else 404)
        elif "watch" in parse_qs(url.query):
            self._watch()
        else:
            items = self.objects.get(kind, [])
            version = {"resourceVersion": "1"}
            self.answer({"kind": "List", "apiVersion": "v1", "metadata": version, "items": items})

    def _watch(self) -> None:
        """Nothing ever changes."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        time.sleep(600)

    def do_PUT(self) -> None:
        """Whatever is written is taken, and forgotten."""
        written = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))))
        written.setdefault("metadata", {})["resourceVersion"] = str(time.monotonic_ns())
        if "/leases" in self.path:
            self.leases[written["metadata"]["name"]] = written
        self.answer(written)

    do_POST = do_PATCH = do_PUT

    def do_DELETE(self) -> None:
        self.answer(_refusal(404), 404)


def _refusal(code: int) -> dict:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "NotFound", "message": "none"}


class Node(_Handler):
    answers: list[bytes] = []
    asked = 0

    def do_GET(self) -> None:
        Node.asked += 1
        self.answer(self.answers[Node.asked % len(self.answers)])


def _answers(pipelines: int) -> list[bytes]:
    """Of each node: all pipelines deliver, and one of them loses some."""
    roles = {"gateway": True, "agent": False}

    def answer(bad: int) -> bytes:
        told = []
        for number in range(pipelines):
            verdict: dict = {"roles": roles, "delivers": True}
            if number == bad:
                verdict["trouble"] = {"state": "some_dropped", "since": 7, "amounts": {"rejected": 5}, "kept": {"items": 1}}
            told.append({"pipeline": f"traces/p{number}", "delivered": 3, "verdict": verdict})
        return json.dumps({"revision": "ab", "error": None, "pipelines": told}).encode()

    return [answer(bad) for bad in range(pipelines)]


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """The operator hangs up when it ends."""


def _serve(address: str, port: int, handler: type) -> int:
    server = _Server((address, port), handler)
    server.daemon_threads = True
    server.socket.listen(1024)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def _figures() -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{_METRICS_PORT}/metrics", timeout=5) as page:
        text = page.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(weir_operator_\w+) (\S+)$", text, re.M)}


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mb(pid: int, field: str) -> float:
    return int(re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M).group(1)) / 1000


def _wait(process: subprocess.Popen, nodes: int, log: TextIO) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            if _figures().get("weir_operator_nodes_answering", 0) >= nodes:
                return
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > end:
            log.seek(0)
            sys.exit(f"{log.read()}\nthe operator does not hear of all nodes: see its log above")
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weir", type=Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pipelines", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    pipelines = [_pipeline(number) for number in range(args.pipelines)]
    pods = [_pod(number) for number in range(args.nodes)]
    ApiServer.objects = {"pods": pods, "telemetries": [_telemetry()], "tracepipelines": pipelines}
    Node.answers = _answers(args.pipelines)
    _serve("0.0.0.0", _NODE_PORT, Node)
    url = f"http://127.0.0.1:{_serve('127.0.0.1', 0, ApiServer)}"
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        lists = {
            "clusters": [{"name": "cluster", "cluster": {"server": url}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "nobody"}}],
        }
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "context", **lists}))
        ports = ["--listen", "127.0.0.1", "--metrics-port", str(_METRICS_PORT), "--health-port", str(_HEALTH_PORT)]
        command = [args.weir, "operator", "--kubeconfig", kubeconfig, "--no-webhooks", "--image", "weir:1", *ports]
        log = Path(directory, "log").open("w+")
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait(process, args.nodes, log)
            _report(process, args)
        finally:
            process.terminate()
            process.wait(30)


def _report(process: subprocess.Popen, args: argparse.Namespace) -> None:
    cpu, asked, before = _cpu_s(process.pid), Node.asked, _figures()
    time.sleep(args.seconds)
    used, after = _cpu_s(process.pid) - cpu, _figures()
    share, rate = 100 * used / args.seconds, (Node.asked - asked) / args.seconds
    grown = lambda name: after[f"weir_operator_{name}_total"] - before[f"weir_operator_{name}_total"]
    print(f"nodes that answer             {after['weir_operator_nodes_answering']:8.0f}")
    print(f"pipelines                     {args.pipelines:8}")
    print(f"nodes asked a second          {rate:8.1f}")
    print(f"each node is asked every      {args.nodes / rate:8.1f} s")
    print(f"CPU of the operator           {share:8.1f} % of a core")
    print(f"memory (RSS), at most         {_mb(process.pid, 'VmRSS'):8.1f} MB, {_mb(process.pid, 'VmHWM'):.1f} MB")
    print(f"decisions, writes             {grown('decisions'):8.0f}, {grown('writes'):.0f}, in {args.seconds:.0f} s")


if __name__ == "__main__":
    main()
