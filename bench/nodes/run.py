#!/usr/bin/env python3
"""What many nodes cost the operator that asks each of them how its pipelines stand.

    bench/nodes/run.py target/release/weir                        1,000 nodes with 50 pipelines
    bench/nodes/run.py target/release/weir --nodes 5000 --seconds 120
    bench/nodes/run.py target/release/weir --nodes 1000 --pipelines 1000
    bench/nodes/run.py target/release/weir --nodes 1000 --pipelines 1000 --troubles 100

The API server and the nodes are made up: it has pods with addresses of 127.0.0.0/8, at all of which this script answers
at the port that nodes have. That port, 8888, must be free. Every node says that so many of the pipelines lose data,
others on each; the backend's words have 200 characters, and differ from node to node.
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


def _number(address: str) -> int:
    """Of the pod with this address."""
    _, _, high, low = map(int, address.split("."))
    return high * 250 + low - 1


class Node(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    well: list[str] = []
    troubled: list[str] = []
    troubles = 1
    asked = 0

    def do_GET(self) -> None:
        Node.asked += 1
        body = self._page(_number(self.connection.getsockname()[0])).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _page(self, number: int) -> str:
        """All pipelines deliver, and a few of them lose some: on each node those after those of the one before."""
        told, node = list(self.well), f"{number:06}"
        for count in range(self.troubles):
            at = (number * self.troubles + count) % len(told)
            told[at] = self.troubled[at].replace("NODE##", node)
        head = '{"revision":"ab","error":null,"roles":["gateway","logs","metrics"],"connections":3,"pipelines":['
        return head + ",".join(told) + "]}"

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def _told(number: int, is_troubled: bool) -> str:
    """What a node says of a pipeline, with as many fields as it has."""
    verdict: dict = {"roles": {"gateway": True, "agent": False}, "delivers": True}
    if is_troubled:
        words = "503: no room for the request NODE##, come again later ".ljust(200, ".")
        amounts = {"delivered": 31415, "dropped": 0, "rejected": 5271, "refused": 0, "requests": 927, "turned_away": 0}
        kept = {"items": 12, "bytes": 3440, "room_bytes": 10 << 30, "room_seconds": 86400, "disk_free_bytes": 5 << 30}
        trouble = {"state": "some_dropped", "since": 1790000000, "amounts": amounts, "kept": kept, "words": words}
        verdict["trouble"] = trouble
    told = {
        "pipeline": f"traces/p{number}",
        "delivered": 31415,
        "dropped": {},
        "rejected": {"400": 5271} if is_troubled else {},
        "pending": 12,
        "pending_bytes": 3440,
        "backend": {"state": "ok", "tried": True, "code": "", "message": ""},
        "verdict": verdict,
    }
    return json.dumps(told, separators=(",", ":"))


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
    parser.add_argument("--troubles", type=int, default=1, help="pipelines in trouble on each node")
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    pipelines = [_pipeline(number) for number in range(args.pipelines)]
    pods = [_pod(number) for number in range(args.nodes)]
    Node.well, Node.troubled = ([_told(number, bad) for number in range(args.pipelines)] for bad in (False, True))
    Node.troubles = min(args.troubles, args.pipelines)
    _serve_nodes()
    api = ApiServer(objects={"pods": pods, "telemetries": [TELEMETRY], "tracepipelines": pipelines})
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = write_kubeconfig(Path(directory, "kubeconfig"), api.url)
        ports = ["--listen", "127.0.0.1", "--metrics-port", str(_METRICS_PORT), "--health-port", str(_HEALTH_PORT)]
        # A pipeline takes 1 MiB of three quarters of it.
        memory = json.dumps({"limits": {"memory": f"{max(1024, 2 * args.pipelines)}Mi"}})
        options = ["--no-webhooks", "--image", "weir:1", f"--node-resources={memory}", *ports]
        command = [args.weir, "operator", "--kubeconfig", kubeconfig, *options]
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
    print(f"in trouble on each node       {Node.troubles:8}")
    print(f"nodes asked a second          {rate:8.1f}")
    print(f"each node is asked every      {args.nodes / rate:8.1f} s")
    print(f"CPU of the operator           {share:8.1f} % of a core")
    print(f"memory (RSS), at most         {_mb(process.pid, 'VmRSS'):8.1f} MB, {_mb(process.pid, 'VmHWM'):.1f} MB")
    print(f"decisions, writes             {grown('decisions'):8.0f}, {grown('writes'):.0f}, in {args.seconds:.0f} s")


if __name__ == "__main__":
    main()
