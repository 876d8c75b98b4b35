"""Targets for scrapers: each serves its pages one after the other, to every scraper on its own."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT_UTF8 = "text/plain; version=1.0.0; escaping=allow-utf-8; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

WEIR, COLLECTOR = "weir", "collector"


@dataclass(frozen=True)
class Page:
    """An answer to a scraper."""

    body: str | bytes
    content_type: str | None = TEXT
    status: int = 200


def text(*bodies: str) -> list[Page]:
    return [Page(body) for body in bodies]


def utf8_text(*bodies: str) -> list[Page]:
    return [Page(body, TEXT_UTF8) for body in bodies]


def openmetrics(*bodies: str) -> list[Page]:
    """Pages with their last line."""
    return [Page(body + "# EOF\n", OPENMETRICS) for body in bodies]


@dataclass
class Target:
    """Serves the n-th page to the n-th scrape, and the last one from then on."""

    name: str
    pages: list[Page]
    served: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def port(self) -> str:
        return str(self._server.server_port)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def next_page(self, scraper: str) -> Page:
        with self._lock:
            page = self.pages[min(self.served[scraper], len(self.pages) - 1)]
            self.served[scraper] += 1
        return page

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def targets(pages: dict[str, list[Page]]) -> list[Target]:
    return [Target(name, own) for name, own in pages.items()]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


def _handler(target: Target) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            scraper = WEIR if self.headers.get("user-agent", "").startswith("weir/") else COLLECTOR
            page = target.next_page(scraper)
            body = page.body if isinstance(page.body, bytes) else page.body.encode()
            self.send_response(page.status)
            if page.content_type is not None:
                self.send_header("content-type", page.content_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
