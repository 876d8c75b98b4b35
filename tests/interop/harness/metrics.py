"""Reads a Prometheus text exposition as far as the tests need: sums of samples by metric name and labels."""

import re

import requests

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: \d+)?$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """One scrape."""

    def __init__(self, text: str):
        self.samples: list[tuple[str, dict[str, str], float]] = []
        for line in text.splitlines():
            if not line or line.startswith("#"):
                continue
            match = _SAMPLE.match(line)
            assert match, f"not a sample of the Prometheus text format: {line!r}"
            labels = dict(_LABEL.findall(match["labels"] or ""))
            self.samples.append((match["name"], labels, float(match["value"])))

    @classmethod
    def scrape(cls, address: str) -> "Metrics":
        response = requests.get(f"http://{address}/metrics", timeout=60)
        response.raise_for_status()
        return cls(response.text)

    def sum(self, name: str, **labels: str) -> float:
        """Sum of the samples with this name whose labels include the given ones; 0 when there are none."""
        wanted = labels.items()
        return sum(value for found, has, value in self.samples if found == name and wanted <= has.items())
