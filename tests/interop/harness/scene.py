"""What the tests of the SDKs share: a gateway for each mode of enrichment, pipelines of all kinds, and their backends.

A client sends to both gateways and straight to a backend, the *reference*: what that one stored is what was sent.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import clients, cluster, rules
from .collector import RUN, SIGNALS, Backend
from .items import Item
from .process import Lab
from .weir import Weir, pipeline

# Of Kyma itself: not for backends.
_INTERNAL = {"kyma.input.name": "otlp"}


@dataclass(frozen=True)
class Run:
    """One run of a client. Without a service name, its SDK says that the service is unknown."""

    language: str
    protocol: str
    pod: str
    service: str | None = None

    @property
    def name(self) -> str:
        return f"{self.language}-{self.protocol}"

    @property
    def resource(self) -> dict[str, str]:
        """The attributes it sends beside those of its SDK."""
        service = {"service.name": self.service} if self.service else {}
        return {RUN: self.name, **_INTERNAL, **service, **cluster.PODS[self.pod].sends}

    def enriched(self, item: Item, mode: str) -> Item:
        """The item as docs/enrichment.md says it arrives."""
        sent = dict(item["resource"]["attributes"])
        for key in _INTERNAL:
            del sent[key]
        if sent["service.name"].startswith("unknown_service"):
            del sent["service.name"]
        attributes = {**cluster.PODS[self.pod].added(mode), **sent}
        return {**item, "resource": {**item["resource"], "attributes": attributes}}


class Scene:
    """Started once; every run is sent once, when the first test asks for it."""

    def __init__(self, lab: Lab, weir_binary: Path):
        self.lab = lab
        self._weir_binary = weir_binary
        self._sent: set[Run] = set()
        self.reference = Backend(lab, "reference")
        self.enriched = {mode: Backend(lab, mode) for mode in cluster.MODES}
        self.ruled = Backend(lab, "ruled")
        self.delta = Backend(lab, "delta")

    @cached_property
    def weirs(self) -> list[Weir]:
        """A gateway for each mode; the first one has pipelines with rules and one for deltas, too."""
        more = [rules.pipeline(signal, self.ruled.grpc) for signal in SIGNALS]
        more.append(pipeline("metrics", "delta", self.delta.grpc, temporality="delta"))
        weirs = []
        for mode, backend in self.enriched.items():
            plain = [pipeline(signal, "plain", backend.grpc) for signal in SIGNALS]
            weirs.append(Weir(self.lab, self._weir_binary, *plain, *more, *cluster.documents(mode)))
            more = []
        return weirs

    def send(self, run: Run) -> None:
        """Sends the run unless that was done before, and waits until all of it is where it belongs."""
        if run in self._sent:
            return
        self._sent.add(run)
        targets = [self.reference, *self.weirs]
        endpoints = [target.grpc if run.protocol == "grpc" else target.http for target in targets]
        clients.send(self.lab, run.language, run.protocol, endpoints, run.resource)
        for weir in self.weirs:
            weir.wait_until_delivered()
