"""Weir -> backends that want TLS, client certificates, credentials or headers."""

from collections.abc import Callable, Iterator

import pytest

from harness import sdk
from harness.certificates import Authority
from harness.collector import Backend
from harness.http_backend import HttpBackend
from harness.process import Lab
from harness.spans import assert_same
from harness.token_server import CLIENT_ID, CLIENT_SECRET, SCOPE, TokenServer
from harness.weir import Weir, from_secret, secret, trace_pipeline

SPANS = 10_000
FEW_SPANS = 500

PROTOCOLS = pytest.mark.parametrize("protocol", ["grpc", "http"])


@pytest.fixture
def authority(lab: Lab) -> Authority:
    return Authority(lab.directory, "backend-ca")


def tls_endpoint(backend: Backend, protocol: str) -> str:
    return f"https://{backend.http if protocol == 'http' else backend.grpc}"


def secure_backend(lab: Lab, authority: Authority, *, clients: Authority | None = None) -> Backend:
    server = authority.issue("server")
    tls = {"cert_file": str(server.cert), "key_file": str(server.key)}
    if clients:
        tls["client_ca_file"] = str(clients.cert)
    return Backend(lab, tls=tls)


def ca_secret(authority: Authority) -> dict:
    return secret("backend-tls", ca=authority.cert.read_text())


CA = {"ca": from_secret("backend-tls", "ca")}


@PROTOCOLS
def test_tls_with_the_ca_from_a_secret(
    lab: Lab, authority: Authority, start_weir: Callable[..., Weir], protocol: str
) -> None:
    backend = secure_backend(lab, authority)
    pipeline = trace_pipeline("backend", tls_endpoint(backend, protocol), protocol=protocol, tls=CA)
    weir = start_weir(pipeline, ca_secret(authority))
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


@PROTOCOLS
def test_mutual_tls(lab: Lab, authority: Authority, start_weir: Callable[..., Weir], protocol: str) -> None:
    clients = Authority(lab.directory, "client-ca")
    backend = secure_backend(lab, authority, clients=clients)
    identity = clients.issue("weir")
    documents = (
        secret(
            "backend-tls",
            ca=authority.cert.read_text(),
            cert=identity.cert.read_text(),
            key=identity.key.read_text(),
        ),
    )
    tls = {name: from_secret("backend-tls", name) for name in ("ca", "cert", "key")}
    weir = start_weir(trace_pipeline("backend", tls_endpoint(backend, protocol), protocol=protocol, tls=tls), *documents)
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


def assert_kept(weir: Weir, pipeline: str) -> None:
    """A backend that cannot be talked to is no reason to lose anything."""
    assert weir.metrics().sum("weir_pipeline_pending_items", pipeline=pipeline) == FEW_SPANS


@PROTOCOLS
def test_a_certificate_of_an_unknown_ca_is_not_trusted(
    lab: Lab, authority: Authority, start_weir: Callable[..., Weir], protocol: str
) -> None:
    backend = secure_backend(lab, authority)
    other = Authority(lab.directory, "another-ca")
    pipeline = trace_pipeline("distrusting", tls_endpoint(backend, protocol), protocol=protocol, tls=CA)
    weir = start_weir(pipeline, ca_secret(other))
    sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    weir.process.wait_for(lambda: "invalid peer certificate" in weir.process.log_text(), "logs why it cannot deliver")
    assert_kept(weir, "distrusting")
    assert backend.spans() == []


def test_without_verification_an_unknown_ca_is_accepted(
    lab: Lab, authority: Authority, start_weir: Callable[..., Weir]
) -> None:
    backend = secure_backend(lab, authority)
    weir = start_weir(trace_pipeline("backend", tls_endpoint(backend, "grpc"), tls={"insecureSkipVerify": True}))
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


@PROTOCOLS
def test_mutual_tls_without_a_client_certificate_delivers_nothing(
    lab: Lab, authority: Authority, start_weir: Callable[..., Weir], protocol: str
) -> None:
    backend = secure_backend(lab, authority, clients=Authority(lab.directory, "client-ca"))
    pipeline = trace_pipeline("anonymous", tls_endpoint(backend, protocol), protocol=protocol, tls=CA)
    weir = start_weir(pipeline, ca_secret(authority))
    sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    weir.process.wait_for(
        lambda: weir.metrics().sum("weir_pipeline_retries_total", pipeline="anonymous") > 1, "tries more than once"
    )
    assert_kept(weir, "anonymous")
    assert backend.spans() == []


def basic(user: str, password_key: str) -> dict:
    return {"basic": {"user": {"value": user}, "password": from_secret("credentials", password_key)}}


CREDENTIALS = secret("credentials", right="pass:word", wrong="guess")


@PROTOCOLS
def test_basic_authentication(lab: Lab, start_weir: Callable[..., Weir], protocol: str) -> None:
    backend = Backend(lab, users="weir:pass:word")
    address = f"http://{backend.http}" if protocol == "http" else backend.grpc
    pipeline = trace_pipeline("backend", address, protocol=protocol, authentication=basic("weir", "right"))
    weir = start_weir(pipeline, CREDENTIALS)
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


def test_a_wrong_password_costs_nothing_and_is_seen(lab: Lab, start_weir: Callable[..., Weir]) -> None:
    backend = Backend(lab, users="weir:pass:word")
    pipeline = trace_pipeline("refused", backend.grpc, authentication=basic("weir", "wrong"))
    weir = start_weir(pipeline, CREDENTIALS)
    sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)

    def is_refused() -> bool:
        state = weir.metrics().sum("weir_pipeline_backend_state", pipeline="refused", state="refused")
        return state == 1

    weir.process.wait_for(is_refused, "says that it is refused by its backend")
    assert_kept(weir, "refused")
    assert backend.spans() == []


@pytest.fixture
def http_backend() -> Iterator[HttpBackend]:
    backend = HttpBackend()
    yield backend
    backend.close()


@pytest.mark.parametrize("compression", [None, "none", "gzip", "snappy", "zstd"])
def test_headers_path_and_encoding_of_requests(
    http_backend: HttpBackend, start_weir: Callable[..., Weir], compression: str | None
) -> None:
    headers = [
        {"name": "X-Scope-OrgID", "value": "tenant-1"},
        {"name": "Authorization", "prefix": "Bearer", **from_secret("credentials", "right")},
    ]
    pipeline = trace_pipeline("backend", http_backend.endpoint, protocol="http", headers=headers)
    if compression:
        pipeline["spec"]["output"]["otlp"]["compression"] = compression
    weir = start_weir(pipeline, CREDENTIALS)
    sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    weir.stop()
    assert http_backend.requests
    for path, seen in http_backend.requests:
        assert path == "/v1/traces"
        assert seen["x-scope-orgid"] == "tenant-1"
        assert seen["authorization"] == "Bearer pass:word"
        assert seen["content-type"] == "application/x-protobuf"
        assert seen.get("content-encoding", "none") == (compression or "gzip")


def oauth2(server: TokenServer, secret_key: str) -> dict:
    client = {"clientID": {"value": CLIENT_ID}, "clientSecret": from_secret("oauth2", secret_key)}
    return {"oauth2": {"tokenURL": {"value": f"{server.address}/token"}, **client, "scopes": [SCOPE]}}


OAUTH2_SECRETS = secret("oauth2", right=CLIENT_SECRET, wrong="guess")


def test_oauth2_with_a_token_server(lab: Lab, http_backend: HttpBackend, start_weir: Callable[..., Weir]) -> None:
    server = TokenServer(lab)
    authentication = oauth2(server, "right")
    pipeline = trace_pipeline("backend", http_backend.endpoint, protocol="http", authentication=authentication)
    weir = start_weir(pipeline, OAUTH2_SECRETS)
    for _ in range(2):
        sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    weir.stop()
    (authorization,) = {headers["authorization"] for _, headers in http_backend.requests}
    scheme, token = authorization.split()
    assert scheme == "Bearer"
    known = server.introspect(token)
    assert (known["active"], known["client_id"], known["scope"]) == (True, CLIENT_ID, SCOPE)


def test_oauth2_with_a_wrong_secret_delivers_nothing(
    lab: Lab, http_backend: HttpBackend, start_weir: Callable[..., Weir]
) -> None:
    authentication = oauth2(TokenServer(lab), "wrong")
    pipeline = trace_pipeline("refused", http_backend.endpoint, protocol="http", authentication=authentication)
    weir = start_weir(pipeline, OAUTH2_SECRETS)
    sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    weir.process.wait_for_log("the token server answered 401")
    assert_kept(weir, "refused")
    assert http_backend.requests == []
