"""The published acceptance scenarios, as the tables in scenarios/ have them; and what is no table."""

import base64
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from certificates import Certificates
from cluster import Cluster, wait_until
from installation import NAMESPACE, NODES, OPERATORS, Installation
from scenarios import GROUP, NOBODY, Case, Run, cases, is_ready
from test_faults import Scene

# Until a line is in the log of its pod.
_LOGGED_S = 1.0
# HTTP/2: the preface and empty settings, and then the answer to a ping that nobody has sent.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_UNASKED = bytes([0, 0, 8, 6, 1, 0, 0, 0, 0]) + b"unasked!"

_OPERATOR = list(cases("operator.yaml"))
_FLOW = list(cases("flow.yaml"))


@pytest.fixture
def run(installation: Installation, certificates: Certificates, request: pytest.FixtureRequest) -> Iterator[Run]:
    run = Run(installation.cluster, certificates, request.param)
    yield run
    run.clean()
    installation.restore_telemetry()


@pytest.mark.parametrize("run", _OPERATOR, ids=lambda case: case.id, indirect=True)
def test_operator(run: Run) -> None:
    run()


@pytest.mark.nodes
@pytest.mark.parametrize("run", _FLOW, ids=lambda case: case.id, indirect=True)
def test_flow(run: Run) -> None:
    run()


@pytest.fixture
def scene(installation: Installation) -> Iterator[Scene]:
    scene = Scene(installation)
    yield scene
    scene.close()
    scene.cluster.kubectl("delete", "configmap/telemetry-overrides", "--namespace", NAMESPACE, "--ignore-not-found")


@pytest.mark.nodes
def test_the_log_level_is_overridden_while_they_run(scene: Scene) -> None:
    """What an operator and a node say of clients that talk nonsense is for those who look for a fault. Of a well node nothing
    else is: it is a library that warns there."""
    cluster = scene.cluster
    spec = {"output": {"otlp": {"endpoint": {"value": NOBODY}}}}
    cluster.apply({"apiVersion": f"{GROUP}/v1beta1", "kind": "TracePipeline", "metadata": {"name": "level"}, "spec": spec})
    scene.wait_for("tracepipeline/level", "GatewayHealthy", "GatewayReady")
    settings = lambda: base64.b64decode(cluster.find("secret/telemetry-node", NAMESPACE)["data"]["settings.json"]).decode()
    say = lambda: [
        _says(cluster, OPERATORS, _talk_to_webhooks, "DEBUG", "a connection to the webhooks failed"),
        _says(cluster, NODES, _talk_to_receiver, "WARN", "PING ack that we never sent"),
    ]
    before = settings()
    assert say() == [False, False]
    cluster.apply(_overrides("global: {logLevel: debug}"))
    wait_until(lambda: say() == [True, True], "both of them say more")
    assert "debug" in settings()
    cluster.apply(_overrides(""))
    wait_until(lambda: say() == [False, False], "both of them say no more than before")
    assert settings() == before


@pytest.mark.nodes
def test_nodes_collect_their_own_lines_when_that_is_overridden(scene: Scene) -> None:
    cluster, backend = scene.cluster, scene.backend()
    spec = {
        "input": {"runtime": {"namespaces": {"include": [NAMESPACE]}}},
        "output": {"otlp": {"endpoint": {"value": backend.endpoint}}},
    }
    cluster.apply({"apiVersion": f"{GROUP}/v1beta1", "kind": "LogPipeline", "metadata": {"name": "own"}, "spec": spec})
    scene.wait_for("logpipeline/own", "AgentHealthy", "AgentReady")
    cluster.kubectl("rollout", "status", f"daemonset/{NODES}", "--namespace", NAMESPACE, "--timeout=120s")
    nodes = set(_ready_pods(cluster, NODES))
    read = lambda: {it["resource"]["attributes"].get("k8s.pod.name", "") for it in backend.items("logs")}
    wait_until(lambda: any(name.startswith(OPERATORS) for name in read()), "lines of the operator arrive")
    assert nodes and not nodes & read()
    cluster.apply(_overrides("logging: {collectAgentLogs: true}"))
    wait_until(lambda: nodes <= read(), f"lines of {nodes} arrive")


def _overrides(text: str) -> dict[str, object]:
    metadata = {"name": "telemetry-overrides", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"overrides": text}}


def _says(cluster: Cluster, of: str, talk: Callable[[str], None], level: str, words: str) -> bool:
    """Whether a pod of a part logs a line when somebody talks to it."""
    name, address = next(iter(_ready_pods(cluster, of).items()))

    def said() -> int:
        lines = map(json.loads, cluster.kubectl("logs", name, "--namespace", NAMESPACE).splitlines())
        return sum(line["level"] == level and words in line.get("message", "") for line in lines)

    before = said()
    talk(address)
    return said() > before


def _ready_pods(cluster: Cluster, of: str) -> dict[str, str]:
    """Names and addresses of those of a part."""
    pods = cluster.get("pods", "--namespace", NAMESPACE, "--selector", f"app.kubernetes.io/name={of}")["items"]
    return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in pods if is_ready(pod)}


def _talk_to_webhooks(address: str) -> None:
    """What is no HTTP."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection((address, 9443), timeout=10) as plain, context.wrap_socket(plain) as webhooks:
        webhooks.sendall(b"nonsense\r\n\r\n")
        # It refuses that, or closes the connection.
        with suppress(OSError):
            webhooks.recv(1)
    time.sleep(_LOGGED_S)


def _talk_to_receiver(address: str) -> None:
    with socket.create_connection((address, 4317), timeout=10) as receiver:
        receiver.sendall(_HELLO + _UNASKED)
        time.sleep(_LOGGED_S)


def test_what_the_operator_logged_is_no_surprise(cluster: Cluster, installation: Installation) -> None:
    """After all of the above: what it warns of are faults that were made on purpose."""
    said = [line for line in installation.logs() if line["level"] in ("WARN", "ERROR")]
    assert [line for line in said if "overrides" not in str(line)] == []
