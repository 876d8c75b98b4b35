"""A tiny OTLP/HTTP backend for what a collector does not show: the headers of the requests it gets."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HttpBackend:
    """Answers every POST with an empty success and keeps path and headers (lower-case names)."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                backend.requests.append((self.path, headers))
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """The requests kept are the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
