"""The OpenTelemetry SDKs for Python, Node.js and Java as clients: the programs in `programs`, each run as a process."""

import sys
from collections.abc import Sequence
from pathlib import Path

from .process import Lab

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
_VENV = Path(__file__).resolve().parents[3] / ".venv"

def java(program: str) -> list[str | Path]:
    """Starts one of the programs in Java."""
    return ["java", "-cp", f"{_VENV / 'java' / 'classes'}:{_VENV / 'java' / 'lib' / '*'}", program]


# Writes pages in protobuf.
GO_PAGES = _VENV / "go" / "pages"


_COMMANDS: dict[str, list[str | Path]] = {
    "python": [sys.executable, PROGRAMS / "python" / "client.py"],
    "node": ["node", PROGRAMS / "node" / "client.js"],
    "java": java("Client"),
}

NODE_ENVIRONMENT = {"NODE_PATH": str(_VENV / "node" / "node_modules")}

# What is not answered in time is lost, and 10 s are too few on a busy machine. In seconds, and in milliseconds.
_PATIENCE = {"python": "60", "node": "60000"}

# What each of them sends.
SPANS = 200
LOG_RECORDS = 104
METRIC_TYPES = {"sum", "gauge", "histogram", "exponentialHistogram"}


def send(lab: Lab, language: str, protocol: str, endpoints: Sequence[str], resource: dict[str, str]) -> None:
    """Sends the known set to all endpoints, with these resource attributes beside those of the SDK."""
    environment = {
        **NODE_ENVIRONMENT,
        "OTEL_RESOURCE_ATTRIBUTES": ",".join(f"{key}={value}" for key, value in resource.items()),
        # Less than a span has, so that some are dropped and counted.
        "OTEL_SPAN_EVENT_COUNT_LIMIT": "1",
        "OTEL_EXPORTER_OTLP_TIMEOUT": _PATIENCE.get(language, "60000"),
    }
    client = lab.start(f"{language}-{protocol}", [*_COMMANDS[language], protocol, *endpoints], environment)
    code = client.wait_exit()
    assert code == 0, f"the client for {language} exited with {code}:\n{client.log_text()[-2000:]}"
