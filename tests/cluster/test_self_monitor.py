"""The status tells of backends that refuse some or all, or close connections, and of their recovery; in how many seconds."""

import time
from collections.abc import Iterator

import pytest

from backend import Backend
from cluster import Cluster, Object, wait_until
from installation import NAMESPACE, Installation
from scenarios import GROUP

pytestmark = pytest.mark.nodes

_TOLD_S = 40
_OVER_S = 60
_HEALTHY_S = 60
_KINDS = {"traces": "TracePipeline", "metrics": "MetricPipeline", "logs": "LogPipeline"}


@pytest.fixture
def backend(installation: Installation) -> Iterator[Backend]:
    cluster = installation.cluster
    backend = Backend(cluster.address)
    yield backend
    backend.stop()
    cluster.kubectl("delete", "kyma-telemetry-pipelines", "--all", "--timeout=60s")
    cluster.kubectl("delete", "pods", "--all", "--namespace=default", "--force", "--grace-period=0")


def test_what_is_well_stays_healthy_and_what_is_refused_is_told(installation: Installation, backend: Backend) -> None:
    """Of pushed traces, metrics and logs, and of lines of containers: well, then 30 % refused, then all, then well again."""
    cluster = installation.cluster
    parts = {_pushed(installation, backend, signal): "Gateway" for signal in _KINDS}
    parts[_printed(installation, backend)] = "Agent"
    for pipeline in parts:
        _wait_for(cluster, pipeline, "FlowHealthy", 120)
    wait_until(lambda: all(backend.items(signal) for signal in _KINDS), "data flows", 90)
    ends = time.monotonic() + _HEALTHY_S
    while time.monotonic() < ends:
        for pipeline in parts:
            assert _reason(cluster, pipeline) == "FlowHealthy", pipeline
        time.sleep(1)
    for share, word in ((0.3, "Some"), (1.0, "All")):
        backend.refuses = share
        _all_become(cluster, {pipeline: f"{part}{word}TelemetryDataDropped" for pipeline, part in parts.items()}, _TOLD_S)
        state = cluster.find("telemetry/default", NAMESPACE)["status"]
        assert state["state"] == "Warning", state
        reasons = {it["type"]: it["reason"] for it in state["conditions"]}
        assert reasons["TraceComponentsHealthy"] == f"Gateway{word}TelemetryDataDropped", reasons
    backend.refuses = 0.0
    _all_become(cluster, dict.fromkeys(parts, "FlowHealthy"), _OVER_S)


def test_logs_of_a_server_that_is_away_are_kept(installation: Installation, backend: Backend) -> None:
    """As a pipeline of Fluent Bit has it: a server whose port nobody has."""
    cluster = installation.cluster
    output = {"http": {"host": {"value": cluster.address}, "port": "9", "tls": {"insecure": True}}}
    cluster.apply(_pipeline("LogPipeline", "away", output, {"runtime": {"namespaces": {"include": ["default"]}}}))
    _prints(cluster)
    _wait_for(cluster, "logpipeline/away", "AgentNoLogsDelivered", 120)
    message = _condition(cluster, "logpipeline/away")["message"]
    assert "Nothing is lost" in message and "are kept until" in message, message


def _pushed(installation: Installation, backend: Backend, signal: str) -> str:
    kind, name = _KINDS[signal], f"gateway-{signal}"
    inputs = {"runtime": {"enabled": False}} if signal == "logs" else None
    installation.cluster.apply(_pipeline(kind, name, {"otlp": {"endpoint": {"value": backend.endpoint}}}, inputs))
    send = ["load", signal, f"--endpoint=telemetry-otlp.{NAMESPACE}:4317", "--rate=100", "--batch=10", "--items=1000000", "--retry"]
    container = {"name": "main", "image": installation.image, "args": send}
    installation.cluster.apply(_pod(name, container))
    return f"{kind.lower()}/{name}"


def _printed(installation: Installation, backend: Backend) -> str:
    output = {"otlp": {"endpoint": {"value": backend.endpoint}}}
    inputs = {"otlp": {"enabled": False}, "runtime": {"namespaces": {"include": ["default"]}}}
    installation.cluster.apply(_pipeline("LogPipeline", "agent-logs", output, inputs))
    _prints(installation.cluster)
    return "logpipeline/agent-logs"


def _prints(cluster: Cluster) -> None:
    loop = "i=0; while true; do echo line $i; i=$((i+1)); [ $((i%20)) != 0 ] || sleep 0.2; done"
    cluster.apply(_pod("writer", {"name": "main", "image": "weir.test/busybox:1", "command": ["sh", "-c", loop]}))


def _pipeline(kind: str, name: str, output: Object, inputs: Object | None = None) -> Object:
    spec = {"output": output} if inputs is None else {"input": inputs, "output": output}
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _pod(name: str, container: Object) -> Object:
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _condition(cluster: Cluster, pipeline: str) -> Object:
    conditions = (cluster.find(pipeline) or {}).get("status", {}).get("conditions", [])
    return next((it for it in conditions if it["type"] == "TelemetryFlowHealthy"), {})


def _reason(cluster: Cluster, pipeline: str) -> str:
    return _condition(cluster, pipeline).get("reason", "")


def _wait_for(cluster: Cluster, pipeline: str, reason: str, deadline_s: float) -> None:
    wait_until(lambda: _reason(cluster, pipeline) == reason, f"{pipeline}: {reason}", deadline_s)


def _all_become(cluster: Cluster, expected: dict[str, str], deadline_s: float) -> None:
    """Prints how long each takes."""
    began, left = time.monotonic(), dict(expected)
    while left:
        for pipeline, reason in list(left.items()):
            if _reason(cluster, pipeline) == reason:
                print(f"{pipeline}: {reason} after {time.monotonic() - began:.0f} s")
                del left[pipeline]
        found = {pipeline: _condition(cluster, pipeline) for pipeline in left}
        assert time.monotonic() - began < deadline_s, f"not within {deadline_s} s: {left}, but {found}"
        time.sleep(0.5)
