"""A real Prometheus that scrapes one address every second, asked through its HTTP API."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import requests

from .process import Lab, free_port

_UNPACKED = Path(__file__).resolve().parents[3] / ".venv" / "prometheus" / "usr" / "bin" / "prometheus"


def binary() -> str:
    return shutil.which("prometheus") or os.fspath(_UNPACKED)


class Prometheus:
    """Scrapes `target` as service `service`, as a Kubernetes service discovery would label it."""

    def __init__(self, lab: Lab, target: str, service: str):
        self.address = f"127.0.0.1:{free_port()}"
        static = {"targets": [target], "labels": {"service": service}}
        job = {"job_name": "weir", "scrape_interval": "1s", "scrape_timeout": "1s", "static_configs": [static]}
        config = lab.directory / "prometheus.yaml"
        config.write_text(json.dumps({"scrape_configs": [job]}))
        argv = [binary(), "--config.file", config, "--storage.tsdb.path", lab.directory / "prometheus"]
        self.process = lab.start("prometheus", [*argv, "--web.listen-address", self.address])
        self.process.wait_for_log("Server is ready to receive web requests")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result vector of an instant query."""
        answer = requests.get(f"http://{self.address}/api/v1/query", params={"query": expression}, timeout=10).json()
        assert answer["status"] == "success", f"{expression}: {answer}"
        assert answer["data"]["resultType"] == "vector"
        return answer["data"]["result"]

    def value(self, expression: str) -> float | None:
        """The only sample of the result; None when there is none."""
        result = self.query(expression)
        assert len(result) <= 1, f"{expression} has more than one result: {result}"
        return float(result[0]["value"][1]) if result else None
