"""The resource metrics API of a cluster, in place of metrics-server: pods use as much CPU as the test says."""

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from certificates import Certificates
from cluster import Cluster, Object
from rest import Rest

_VERSION = "metrics.k8s.io/v1beta1"
_API_SERVICE = "v1beta1.metrics.k8s.io"
_SERVICE, _NAMESPACE = "metrics-server", "kube-system"
# How long the use was measured: what is older than a pod that is ready counts for nothing.
_WINDOW_S = 1


class ResourceMetrics:
    """`millicores`: what all pods that were asked for use together, each of them the same."""

    def __init__(self, cluster: Cluster, directory: Path):
        self.millicores = 0
        self._cluster, self._rest = cluster, Rest(cluster)
        certificates = Certificates([f"{_SERVICE}.{_NAMESPACE}.svc"])
        self._server = ThreadingHTTPServer((cluster.address, 0), lambda *arguments: _Handler(self, *arguments))
        self._server.socket = _tls(certificates, directory).wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        cluster.apply(*_registration(cluster.address, self._server.server_port, certificates))

    def stop(self) -> None:
        # An API that nobody answers would keep namespaces from going.
        self._cluster.kubectl("delete", "apiservice", _API_SERVICE)
        self._cluster.kubectl("delete", "service", _SERVICE, "--namespace", _NAMESPACE)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def pods(self, path: str, query: str) -> Object:
        """Of those that run. The path and the query are those of pods themselves, in another API."""
        pods = json.loads(self._rest.call("GET", f"/api/v1{path}?{query}"))["items"]
        is_leaving = lambda pod: "deletionTimestamp" in pod["metadata"]
        running = [pod for pod in pods if pod["status"]["phase"] == "Running" and not is_leaving(pod)]
        return {"kind": "PodMetricsList", "items": [self._pod(pod, len(running)) for pod in running]}

    def _pod(self, pod: Object, of: int) -> Object:
        usage = {"cpu": f"{self.millicores // of}m", "memory": "64Mi"}
        return {
            "metadata": {key: pod["metadata"][key] for key in ("name", "namespace", "labels")},
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "window": f"{_WINDOW_S}s",
            "containers": [{"name": it["name"], "usage": usage} for it in pod["spec"]["containers"]],
        }


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, metrics: ResourceMetrics, *arguments: object):
        self._metrics = metrics
        super().__init__(*arguments)

    def do_GET(self) -> None:  # noqa: N802 (the name is the library's)
        asked = urlsplit(self.path)
        within = asked.path.removeprefix(f"/apis/{_VERSION}")
        if asked.path == within:
            self.send_error(404)
        elif not within.strip("/"):
            self._answer(_kinds())
        else:
            self._answer({"apiVersion": _VERSION, **self._metrics.pods(within, asked.query)})

    def _answer(self, document: Object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not on the terminal of the tests."""


def _kinds() -> Object:
    pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _VERSION, "resources": [pods]}


def _registration(address: str, port: int, certificates: Certificates) -> tuple[Object, Object]:
    """The API server needs no node to come here: it goes where the name of the Service stands for."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _SERVICE, "namespace": _NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": address, "ports": [{"port": port}]},
    }
    group, version = _VERSION.split("/")
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": base64.b64encode(certificates.authority.certificate.encode()).decode(),
        "service": {"name": _SERVICE, "namespace": _NAMESPACE, "port": port},
    }
    api_service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": _API_SERVICE},
        "spec": spec,
    }
    return service, api_service


def _tls(certificates: Certificates, directory: Path) -> ssl.SSLContext:
    """It reads files alone."""
    file = directory / "metrics-server.pem"
    file.write_text(certificates.server.certificate + certificates.server.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
