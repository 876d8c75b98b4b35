"""An API server that has nodes and a Telemetry, and refuses whatever an operator wants to write but its Lease."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

# Nobody listens there.
_NODE_IP = "127.0.0.9"
TELEMETRY = {
    "apiVersion": "operator.kyma-project.io/v1beta1",
    "kind": "Telemetry",
    "metadata": {"name": "default", "namespace": "kyma-system", "uid": "t", "resourceVersion": "1", "generation": 1},
    "spec": {},
}


class ApiServer:
    """With `forgets`, each watch ends at once, and there are no Leases. With `objects` of one's own, by their plurals, it
    takes whatever is written, and changes nothing."""

    def __init__(self, forgets: bool = False, objects: dict[str, list[dict[str, Any]]] | None = None) -> None:
        self.forgets = forgets
        self.takes_writes = objects is not None
        self.objects = objects or {"pods": [_node(number) for number in range(4)], "telemetries": [TELEMETRY]}
        self.leases: dict[str, dict[str, Any]] = {}
        self.closing = threading.Event()
        api = self

        class Handler(_Handler):
            of = api

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of: ApiServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        kind = url.path.rstrip("/").rpartition("/")[2]
        if url.path == "/apis":
            self._answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
        elif "/leases/" in url.path:
            lease = self.of.leases.get(kind)
            self._answer(200, lease) if lease else self._refuse(404, "NotFound")
        elif "watch" in parse_qs(url.query):
            self._watch()
        else:
            items = self.of.objects.get(kind, [])
            self._answer(200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})

    def do_POST(self) -> None:
        self._write()

    def do_PUT(self) -> None:
        self._write()

    def do_PATCH(self) -> None:
        self._write()

    def do_DELETE(self) -> None:
        self._write()

    def _write(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        is_lease = "/leases" in self.path and not self.of.forgets
        if self.command == "DELETE" or not (is_lease or self.of.takes_writes):
            return self._refuse(403, "Forbidden")
        written = json.loads(body)
        written.setdefault("metadata", {})["resourceVersion"] = str(time.monotonic_ns())
        if is_lease:
            self.of.leases[written["metadata"]["name"]] = written
        return self._answer(200, written)

    def _watch(self) -> None:
        """Nothing ever changes."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        if self.of.forgets:
            self.wfile.write(json.dumps({"type": "ERROR", "object": _status(410, "Expired")}).encode() + b"\n")
        else:
            self.of.closing.wait(60)

    def _refuse(self, code: int, reason: str) -> None:
        self._answer(code, _status(code, reason))

    def _answer(self, code: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def _status(code: int, reason: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": reason,
    }


def _node(number: int) -> dict[str, Any]:
    """A pod that is ready, and does not answer."""
    labels = {"app.kubernetes.io/name": "telemetry-otlp-gateway"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"node-{number}", "namespace": "kyma-system", "uid": f"u{number}", "labels": labels},
        "spec": {"nodeName": f"node-{number}", "containers": []},
        "status": {"phase": "Running", "podIP": _NODE_IP, "conditions": ready},
    }


def write_kubeconfig(path: Path, url: str) -> Path:
    """Of somebody without a password."""
    lists = {
        "clusters": [{"name": "cluster", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "nobody"}}],
    }
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "context", **lists}))
    return path
