"""A tiny OTLP/HTTP backend for what others do not show: the headers of its requests, and a dislike of some items."""

import gzip
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .certificates import Identity


class HttpBackend:
    """Answers every POST with an empty success and keeps path and headers (lower-case names). A body with the bytes
    `refused` in it, without or with gzip, is a bad request. The first requests are answered with the statuses `first`,
    whatever they are. With an identity it wants TLS."""

    def __init__(self, refused: bytes | None = None, identity: Identity | None = None, first: tuple[int, ...] = ()) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        statuses = iter(first)
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                if headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                backend.requests.append((self.path, headers))
                self.send_response(next(statuses, 400 if refused and refused in body else 200))
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """The requests kept are the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if identity:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity.cert, identity.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.endpoint = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
