"""Clients -> Weir with TLS, client certificates and tokens on its OTLP ports."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from harness import sdk, telemetrygen
from harness.certificates import Authority
from harness.collector import Backend, Relay
from harness.process import Lab
from harness.sdk import Access
from harness.spans import assert_same
from harness.weir import Weir, trace_pipeline

SPANS = 1_000
FEW_SPANS = 20
TOKEN = "interop-token"
# For clients that are to fail without an answer.
SOON_S = 1

PROTOCOLS = pytest.mark.parametrize("protocol", ["grpc", "http"])


@dataclass
class Doors:
    """The authorities of a test, and the flags that lock Weir's ports with them."""

    lab: Lab
    servers: Authority
    clients: Authority

    def flags(self, *, tls: bool = False, mutual: bool = False, token: bool = False) -> tuple[str, ...]:
        flags: list[str] = []
        if tls or mutual:
            server = self.servers.issue("server")
            flags += ["--tls-cert", str(server.cert), "--tls-key", str(server.key)]
        if mutual:
            flags += ["--tls-client-ca", str(self.clients.cert)]
        if token:
            file = self.lab.directory / "tokens"
            file.write_text(f"old-token\n{TOKEN}\n")
            flags += ["--bearer-token-file", str(file)]
        return tuple(flags)

    def access(self, *, tls: bool = False, mutual: bool = False, token: bool = False) -> Access:
        """What lets a client in where Weir was started with `flags` of the same arguments."""
        return Access(
            ca=self.servers.cert if tls or mutual else None,
            identity=self.clients.issue("client") if mutual else None,
            token=TOKEN if token else None,
        )


@pytest.fixture
def doors(lab: Lab) -> Doors:
    return Doors(lab, Authority(lab.directory, "servers-ca"), Authority(lab.directory, "clients-ca"))


def address(weir: Weir, protocol: str) -> str:
    return weir.grpc if protocol == "grpc" else weir.http


LOCKS: dict[str, dict[str, bool]] = {
    "tls": {"tls": True},
    "mutual-tls": {"mutual": True},
    "token": {"token": True},
    "mutual-tls-and-token": {"mutual": True, "token": True},
}


@PROTOCOLS
@pytest.mark.parametrize("lock", LOCKS)
def test_who_has_the_key_comes_in(
    doors: Doors, backend: Backend, start_weir: Callable[..., Weir], protocol: str, lock: str
) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc), flags=doors.flags(**LOCKS[lock]))
    access = doors.access(**LOCKS[lock])
    sent = sdk.send(sdk.secure_exporter(protocol, address(weir, protocol), access), SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


@PROTOCOLS
def test_everybody_else_stays_out(
    doors: Doors, backend: Backend, start_weir: Callable[..., Weir], protocol: str
) -> None:
    lock = LOCKS["mutual-tls-and-token"]
    weir = start_weir(trace_pipeline("backend", backend.grpc), flags=doors.flags(**lock))
    right = doors.access(**lock)
    stranger = Authority(doors.lab.directory, "strangers-ca").issue("client")
    unanswered = [Access(right.ca, None, TOKEN), Access(right.ca, stranger, TOKEN), Access(None, None, TOKEN)]
    answered = [Access(right.ca, right.identity), Access(right.ca, right.identity, "guess")]
    # Who is told so does not try until its timeout.
    for wrong, timeout in ((unanswered, {"timeout_s": SOON_S}), (answered, {})):
        for access in wrong:
            exporter = sdk.secure_exporter(protocol, address(weir, protocol), access, **timeout)
            assert sdk.offer(exporter, FEW_SPANS) == [], f"{access} does not let a client in"
    assert weir.metrics().sum("weir_receiver_refused_requests_total", reason="unauthenticated") == 2
    sent = sdk.send(sdk.secure_exporter(protocol, address(weir, protocol), right), FEW_SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


def test_clients_do_not_talk_to_a_server_they_do_not_trust(
    doors: Doors, backend: Backend, start_weir: Callable[..., Weir]
) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc), flags=doors.flags(tls=True))
    for protocol in ("grpc", "http"):
        exporter = sdk.secure_exporter(protocol, address(weir, protocol), Access(ca=doors.clients.cert), SOON_S)
        assert sdk.offer(exporter, FEW_SPANS) == []
    assert weir.metrics().sum("otelcol_receiver_accepted_spans_total") == 0


def test_a_new_token_is_taken_up_while_running(
    doors: Doors, backend: Backend, start_weir: Callable[..., Weir]
) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc), flags=doors.flags(token=True))
    (doors.lab.directory / "tokens").write_text("another\n")
    weir.process.wait_for_log("certificates and tokens are read again")
    assert sdk.offer(sdk.secure_exporter("grpc", weir.grpc, Access(token=TOKEN)), FEW_SPANS) == []
    sent = sdk.send(sdk.secure_exporter("grpc", weir.grpc, Access(token="another")), FEW_SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


def test_a_collector_comes_in(doors: Doors, backend: Backend, start_weir: Callable[..., Weir]) -> None:
    lock = LOCKS["mutual-tls-and-token"]
    weir = start_weir(trace_pipeline("backend", backend.grpc), flags=doors.flags(**lock))
    access = doors.access(**lock)
    tls = {"ca_file": str(access.ca), "cert_file": str(access.identity.cert), "key_file": str(access.identity.key)}
    relay = Relay(doors.lab, weir.grpc, tls=tls, headers=access.headers)
    generator = telemetrygen.start(doors.lab, relay.grpc, SPANS)
    telemetrygen.wait_until_all_acknowledged(generator)
    relay.stop()
    weir.stop()
    telemetrygen.assert_as_sent(backend.spans(), SPANS)
