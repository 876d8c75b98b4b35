"""The OpenTelemetry Collector that scrapes, beside a Weir that scrapes the same targets."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from .collector import OTELCOL, PATIENCE, Backend, Config
from .items import Item
from .pages import COLLECTOR, WEIR, Target
from .process import Lab, free_port
from .scrapes import by_target, durations, scrape_times, told
from .weir import Document, Weir, pipeline

# The next one is for a machine on which the one before is too short; `told` knows none that is longer.
_INTERVALS_S = (1, 3, 8)
# What becomes of scrapes for which Weir had no time.
_LATE = ("timeout", "no_cpu", "no_memory")
JOB = "static"
_GATES = "receiver.prometheusreceiver"


class Scrapers:
    """Both scrape all targets, each for its own backend. The receiver's own metrics are a target, too. `native`: both
    want native histograms, and thus pages in protobuf."""

    def __init__(
        self,
        lab: Lab,
        weir: Path,
        targets: list[Target],
        addresses: Sequence[str],
        interval_s: int,
        native: bool = False,
    ):
        self.lab = lab
        self.interval_s = interval_s
        self.targets = targets
        self.native = native
        self.own = f"127.0.0.1:{free_port()}"
        self.ours, self.theirs = Backend(lab, "ours"), Backend(lab, "theirs")
        everything = [*(target.address for target in targets), *addresses, self.own]
        path = lab.directory / "receiver.yaml"
        path.write_text(json.dumps(_receiver(self.theirs.grpc, everything, self.own, interval_s, native)))
        # In protobuf, the receiver looks at times of creation only then.
        gates = ["--feature-gates", f"{_GATES}.EnableCreatedTimestampZeroIngestion"] if native else []
        lab.start("receiver", [OTELCOL, "--config", path, *gates]).wait_for_log("Everything is ready")
        self.weir = Weir(lab, weir, *_documents(self.ours.grpc, everything, interval_s, native))

    def wait_for_pages(self) -> None:
        """Waits until both have scraped every page, and delivered what came of it. There are no pages from then on."""
        longest = max(len(target.pages) for target in self.targets)
        deadline_s = 90 + 2 * longest * self.interval_s
        for backend, scraper in ((self.theirs, COLLECTOR), (self.ours, WEIR)):
            what = "has what came of every page"
            backend.process.wait_for(lambda: self._has_pages(backend, scraper), what, deadline_s)
        for target in self.targets:
            target.close()
        self._said = self._all()

    def were_late(self) -> bool:
        """Whether one of both was too late for some page: it is lost then, because a target serves each once."""
        metrics = self.weir.metrics()
        lost = metrics.sum("weir_scrape_lost_data_points_total")
        lost += sum(metrics.sum("weir_scrapes_total", result=result) for result in _LATE)
        return lost > 0 or max(durations(self.theirs.items("metrics"))) >= self.interval_s

    def said(self, target: Target) -> list[list[Item]]:
        """What the receiver and Weir said of the pages of a target."""
        return [told(said[target.port]) for said in self._said]

    def said_until_now(self, address: str) -> list[list[Item]]:
        """What the receiver and Weir have said of a real component."""
        return [said[address.split(":")[1]] for said in self._all()]

    def _all(self) -> list[dict[str, list[Item]]]:
        return [by_target(backend.items("metrics")) for backend in (self.theirs, self.ours)]

    def _has_pages(self, backend: Backend, scraper: str) -> bool:
        # One scrape more than there are pages: then nothing of the last one is missing.
        if any(target.served[scraper] <= len(target.pages) for target in self.targets):
            return False
        found = by_target(backend.items("metrics"))
        return all(len(scrape_times(found[target.port])) > len(target.pages) for target in self.targets)


class _Scene(Protocol):
    scrapers: Scrapers


S = TypeVar("S", bound=_Scene)


def in_time(make: Callable[[Lab, int], S], directory: Path) -> Iterator[S]:
    """A scene, with the shortest interval in which both are in time for every page. It ends with the iterator."""
    for interval_s in _INTERVALS_S:
        own = directory / f"every-{interval_s}-s"
        own.mkdir()
        lab = Lab(own)
        try:
            scene = make(lab, interval_s)
            if interval_s == _INTERVALS_S[-1] or not scene.scrapers.were_late():
                yield scene
                return
        finally:
            lab.close()


def _receiver(backend: str, addresses: list[str], own: str, interval_s: int, native: bool) -> Config:
    job = {
        "job_name": JOB,
        "scrape_interval": f"{interval_s}s",
        "scrape_timeout": f"{interval_s}s",
        # For pages without a content type, which are nothing otherwise.
        "fallback_scrape_protocol": "PrometheusText0.0.4",
        "static_configs": [{"targets": addresses}],
    }
    if native:
        job |= {"scrape_native_histograms": True, "scrape_protocols": ["PrometheusProto", "PrometheusText0.0.4"]}
    host, port = own.split(":")
    reader = {"pull": {"exporter": {"prometheus": {"host": host, "port": int(port)}}}}
    return {
        "receivers": {"prometheus": {"config": {"scrape_configs": [job]}}},
        "exporters": {"otlp_grpc": {"endpoint": backend, "tls": {"insecure": True}, **PATIENCE}},
        "service": {
            "telemetry": {"metrics": {"level": "detailed", "readers": [reader]}},
            "pipelines": {"metrics": {"receivers": ["prometheus"], "exporters": ["otlp_grpc"]}},
        },
    }


def _documents(backend: str, addresses: list[str], interval_s: int, native: bool) -> list[Document]:
    metrics = pipeline("metrics", "backend", backend)
    urls = ", ".join(f"http://{address}/metrics" for address in addresses)
    metrics["metadata"]["annotations"] = {"weir.dev/static-targets": urls}
    if native:
        metrics["metadata"]["annotations"]["weir.dev/native-histograms"] = "true"
    metrics["spec"]["input"] = {"prometheus": {"enabled": True, "diagnosticMetrics": {"enabled": True}}}
    telemetry = {
        "apiVersion": "operator.kyma-project.io/v1beta1",
        "kind": "Telemetry",
        "metadata": {"name": "default"},
        "spec": {"metric": {"prometheus": {"collectionInterval": f"{interval_s}s"}}},
    }
    return [metrics, telemetry]
