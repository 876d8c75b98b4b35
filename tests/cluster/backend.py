"""Backends of this process, on the address by which pods reach this machine: OTLP over gRPC, and a server that is sent JSON."""

import itertools
import json
import re
import ssl
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from certificates import Certificates
from tokens import TokenServer

sys.path.append(str(Path(__file__).parents[1] / "interop"))

from harness.items import Item, items  # noqa: E402

_ANSWERS = {
    "traces": trace_service_pb2.ExportTraceServiceResponse,
    "metrics": metrics_service_pb2.ExportMetricsServiceResponse,
    "logs": logs_service_pb2.ExportLogsServiceResponse,
}
_SERVICES = {
    "traces": trace_service_pb2_grpc.add_TraceServiceServicer_to_server,
    "metrics": metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server,
    "logs": logs_service_pb2_grpc.add_LogsServiceServicer_to_server,
}


class Backend:
    """Keeps what arrives, or so many of the newest items of each signal. `certificates`: it speaks TLS, and wants a certificate
    of the same authority from clients."""

    def __init__(self, address: str, certificates: Certificates | None = None, keeps: int | None = None):
        # The share of requests that it refuses, with INVALID_ARGUMENT: 400 over HTTP.
        self.refuses = 0.0
        # As if somebody before it could not reach it: UNAVAILABLE, 503 over HTTP.
        self.is_away = False
        # Of which it wants a token with each request.
        self.tokens: TokenServer | None = None
        self._items: dict[str, deque[Item]] = {signal: deque(maxlen=keeps) for signal in _SERVICES}
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(4))
        for signal, add in _SERVICES.items():
            add(_Service(self, signal), self._server)
        if certificates:
            server, authority = certificates.server, certificates.authority.certificate.encode()
            pair = (server.key.encode(), server.certificate.encode())
            credentials = grpc.ssl_server_credentials([pair], authority, require_client_auth=True)
            port = self._server.add_secure_port(f"{address}:0", credentials)
        else:
            port = self._server.add_insecure_port(f"{address}:0")
        self.endpoint = f"{'https' if certificates else 'http'}://{address}:{port}"
        self._server.start()

    def take(self, signal: str, request: Any) -> None:
        arrived = [item for kind, item in items(MessageToDict(request)) if kind == signal]
        with self._lock:
            self._items[signal] += arrived

    def items(self, signal: str) -> list[Item]:
        with self._lock:
            return list(self._items[signal])

    def stop(self) -> None:
        self._server.stop(None)


class _Service:
    def __init__(self, backend: Backend, signal: str):
        self._backend, self._signal, self._numbers = backend, signal, itertools.count()

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 (the name is gRPC's)
        if self._backend.is_away:
            context.abort(grpc.StatusCode.UNAVAILABLE, "away on purpose")
        tokens, authorization = self._backend.tokens, dict(context.invocation_metadata()).get("authorization", "")
        if tokens and not tokens.has_issued(authorization):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token of the token server")
        # Evenly: chance would leave out some of few requests for long.
        number, share = next(self._numbers), self._backend.refuses
        if int((number + 1) * share) > int(number * share):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused on purpose")
        self._backend.take(self._signal, request)
        return _ANSWERS[self._signal]()


class HttpServer:
    """Takes requests, as an output of Fluent Bit sends them, and keeps so many of the newest. `certificates`: as of `Backend`."""

    def __init__(self, address: str, certificates: Certificates | None = None, keeps: int = 0):
        # The status with which the request of a number is answered.
        self.answers: Callable[[int], int] = lambda _: 200
        # Before it takes something.
        self.pause_s = 0.0
        self.numbers = itertools.count()
        # Requests that it took.
        self.taken = 0
        self.bodies: deque[bytes] = deque(maxlen=keeps)
        self._server = ThreadingHTTPServer((address, 0), partial(_Handler, self))
        if certificates:
            # Whoever has the wrong certificate keeps nobody else waiting: threads of their own talk to clients.
            tls = {"server_side": True, "do_handshake_on_connect": False}
            self._server.socket = _context(certificates).wrap_socket(self._server.socket, **tls)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def items(self, _: str) -> list[Item]:
        """The records of what it keeps."""
        return [record for body in list(self.bodies) for record in json.loads(body)]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _context(certificates: Certificates) -> ssl.SSLContext:
    """Of a server that wants a certificate of the same authority from clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=certificates.authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    # The library reads its own pair from a file alone.
    with tempfile.NamedTemporaryFile("w") as pair:
        pair.write(certificates.server.certificate + certificates.server.key)
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, server: HttpServer, *arguments: Any):
        self._of = server
        super().__init__(*arguments)

    def do_POST(self) -> None:  # noqa: N802 (the name is the library's)
        body = self.rfile.read(int(self.headers["content-length"]))
        status = self._of.answers(next(self._of.numbers))
        if status == 200:
            time.sleep(self._of.pause_s)
            self._of.taken += 1
            self._of.bodies.append(body)
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def matches(found: Any, wanted: Any) -> bool:
    """Whether a value has all that is wanted. A text that begins with ~ is a pattern; null is what must not be there."""
    match wanted:
        case None:
            return found is None
        case dict():
            return isinstance(found, dict) and all(matches(found.get(key), value) for key, value in wanted.items())
        case str() if wanted.startswith("~"):
            return isinstance(found, str) and re.search(wanted[1:], found) is not None
    return found == wanted
