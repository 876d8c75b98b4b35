"""A real node_exporter."""

import os
import shutil
from pathlib import Path

import requests

from .process import Lab, free_port

_UNPACKED = Path(__file__).resolve().parents[3] / ".venv" / "node-exporter" / "usr" / "bin" / "prometheus-node-exporter"


def binary() -> str:
    found = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    return found or os.fspath(_UNPACKED)


class NodeExporter:
    def __init__(self, lab: Lab):
        self.address = f"127.0.0.1:{free_port()}"
        # What needs more than any machine has is left out.
        argv = [binary(), f"--web.listen-address={self.address}", "--no-collector.systemd", "--no-collector.textfile"]
        self.process = lab.start("node-exporter", argv)
        self.process.wait_for(self._is_there, "serves its page")

    def _is_there(self) -> bool:
        try:
            return requests.get(f"http://{self.address}/metrics", timeout=60).ok
        except requests.ConnectionError:
            return False
