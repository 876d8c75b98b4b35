"""The API server without kubectl, which takes a quarter of a second for each call: for thousands of them."""

import http.client
import json
import re
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import Cluster, Object

_AT_ONCE = 4


class Rest:
    """One connection for each thread."""

    def __init__(self, cluster: Cluster):
        pki = cluster.state / "pki"
        self._address = re.search("server: https://(.*)", cluster.kubeconfig.read_text())[1]
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._of_thread = threading.local()

    def call(self, method: str, path: str, body: Object | None = None) -> str:
        """Raises what is no success."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = (method, path, json.dumps(body) if body else None, {"Content-Type": kind})
        try:
            answer = self._send(request)
        except (OSError, http.client.HTTPException):
            # The API server has closed a connection that nobody used.
            self._of_thread.connection = None
            answer = self._send(request)
        text = answer.read().decode()
        assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
        return text

    def _send(self, request: tuple) -> http.client.HTTPResponse:
        connection = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(self._address, context=self._tls, timeout=60)
            self._of_thread.connection = connection
        connection.request(*request)
        return connection.getresponse()

    def create(self, path: str, objects: Iterable[Object]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda it: self.call("POST", path, it), objects))


class Asked:
    """What the API server was asked by users whose names begin with `weir-`: it writes that down."""

    def __init__(self, directory: Path):
        self._log = directory / "audit.log"
        rule = {"level": "Metadata", "users": ["weir-operator", "weir-node"]}
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"],
            "rules": [rule, {"level": "None"}],
        }
        file = directory / "audit.json"
        file.write_text(json.dumps(policy))
        self.arguments = f"--audit-policy-file={file} --audit-log-path={self._log}"

    def by(self, user: str) -> Counter[str]:
        """How often this was asked so far: verbs and kinds."""
        events = (json.loads(line) for line in self._log.read_text().splitlines())
        return Counter(
            f"{event['verb']} {event.get('objectRef', {}).get('resource', event['requestURI'])}"
            for event in events
            if event["user"]["username"] == user
        )


def identity(cluster: Cluster, user: str) -> Path:
    """A kubeconfig of somebody who may do everything and has this name."""
    pki = cluster.state / "pki"
    key, certificate = pki / f"{user}.key", pki / f"{user}.crt"
    request = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    request += ["-keyout", str(key), "-subj", f"/O=system:masters/CN={user}"]
    extensions = pki / f"{user}.extensions"
    extensions.write_text("extendedKeyUsage = clientAuth\n")
    sign = ["openssl", "x509", "-req", "-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key"), "-out", str(certificate)]
    sign += ["-extfile", str(extensions)]
    wanted = subprocess.run(request, capture_output=True, check=True).stdout
    subprocess.run(sign, input=wanted, capture_output=True, check=True)
    server = re.search("server: (.*)", cluster.kubeconfig.read_text())[1]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": server, "certificate-authority": str(pki / "ca.crt")}}],
        "users": [{"name": "a", "user": {"client-certificate": str(certificate), "client-key": str(key)}}],
    }
    file = pki / f"{user}.kubeconfig"
    file.write_text(json.dumps(config))
    return file
