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

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/interop"))

from harness.api_server import TELEMETRY, ApiServer, write_kubeconfig

_NODE_PORT = 8888
_METRICS_PORT, _HEALTH_PORT = 18080, 18081
_GROUP = "telemetry.kyma-project.io/v1beta1"
_TICKS = os.sysconf("SC_CLK_TCK")


def _object(kind: str, name: str, namespace: str | None = None, **fields: object) -> dict:
    metadata = {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "1", "generation": 1}
    if namespace:
        metadata["namespace"] = namespace
    return {"kind": kind, "metadata": metadata, **fields}


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


class Node(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: list[bytes] = []
    asked = 0

    def do_GET(self) -> None:
        Node.asked += 1
        body = self.answers[Node.asked % len(self.answers)]
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


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


def _serve_nodes() -> None:
    server = _Server(("0.0.0.0", _NODE_PORT), Node)
    server.daemon_threads = True
    server.socket.listen(1024)
    threading.Thread(target=server.serve_forever, daemon=True).start()


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
    Node.answers = _answers(args.pipelines)
    _serve_nodes()
    api = ApiServer(objects={"pods": pods, "telemetries": [TELEMETRY], "tracepipelines": pipelines})
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = write_kubeconfig(Path(directory, "kubeconfig"), api.url)
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
