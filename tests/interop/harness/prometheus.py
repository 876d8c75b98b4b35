"""A real Prometheus that scrapes every second, asked through its HTTP API."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import requests

from .process import Lab, free_port

_UNPACKED = Path(__file__).resolve().parents[3] / ".venv" / "prometheus" / "usr" / "bin"


def binary(name: str = "prometheus") -> str:
    """Prometheus, or the tool that comes with it, `promtool`."""
    return shutil.which(name) or os.fspath(_UNPACKED / name)


class Prometheus:
    """Scrapes `target` as service `service`, as a Kubernetes service discovery would label it, and `others` alike."""

    def __init__(
        self, lab: Lab, target: str, service: str, others: dict[str, str] | None = None, rules: Path | None = None
    ):
        self.address = f"127.0.0.1:{free_port()}"
        services = {service: target, **(others or {})}
        static = [{"targets": [target], "labels": {"service": service}} for service, target in services.items()]
        job = {"job_name": "weir", "scrape_interval": "1s", "scrape_timeout": "1s", "static_configs": static}
        rules_config = {"global": {"evaluation_interval": "1s"}, "rule_files": [os.fspath(rules)]} if rules else {}
        name = f"prometheus-{len(lab.processes)}"
        config = lab.directory / f"{name}.yaml"
        config.write_text(json.dumps({"scrape_configs": [job], **rules_config}))
        argv = [binary(), "--config.file", config, "--storage.tsdb.path", lab.directory / name]
        self.process = lab.start("prometheus", [*argv, "--web.listen-address", self.address])
        self.process.wait_for_log("Server is ready to receive web requests")

    def wait_until_scraped(self, targets: int) -> None:
        """Waits until it has tried to scrape so many."""
        self.process.wait_for(lambda: len(self.query("up")) == targets, f"has scraped {targets} targets")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result vector of an instant query."""
        data = self.get("query", query=expression)
        assert data["resultType"] == "vector", f"{expression} is a {data['resultType']}"
        return data["result"]

    def get(self, path: str, **parameters: str) -> Any:
        """What its API says at that path."""
        answer = requests.get(f"http://{self.address}/api/v1/{path}", params=parameters, timeout=60).json()
        assert answer["status"] == "success", f"{path} {parameters}: {answer}"
        return answer["data"]

    def value(self, expression: str) -> float | None:
        """The only sample of the result; None when there is none."""
        result = self.query(expression)
        assert len(result) <= 1, f"{expression} has more than one result: {result}"
        return float(result[0]["value"][1]) if result else None
