"""The status tells of backends that refuse some or all, or close connections, and of their recovery; in how many seconds."""

import json
import time
from collections.abc import Iterator

import pytest

from backend import Backend, HttpServer
from cluster import Cluster, Object, wait_until
from installation import NAMESPACE, Installation
from scenarios import GROUP

pytestmark = pytest.mark.nodes

_TOLD_S = 30
_OVER_S = 60
_HEALTHY_S = 60
# Each is a page, and a request to the backend, every second.
_TARGETS = 15
_KINDS = {"traces": "TracePipeline", "metrics": "MetricPipeline", "logs": "LogPipeline"}


@pytest.fixture
def backend(installation: Installation) -> Iterator[Backend]:
    cluster = installation.cluster
    backend = Backend(cluster.address)
    yield backend
    backend.stop()
    _clean(cluster)


@pytest.fixture
def server(installation: Installation) -> Iterator[HttpServer]:
    server = HttpServer(installation.cluster.address)
    yield server
    server.stop()
    _clean(installation.cluster)


def _clean(cluster: Cluster) -> None:
    cluster.kubectl("delete", "kyma-telemetry-pipelines", "--all", "--timeout=60s")
    cluster.kubectl("delete", "pods", "--all", "--namespace=default", "--force", "--grace-period=0")
    cluster.kubectl("delete", "services", "--namespace=default", "--selector=of=page")
    _collects_every(cluster, None)


def test_what_is_well_stays_healthy_and_what_is_refused_is_told(installation: Installation, backend: Backend) -> None:
    """Of pushed traces, metrics and logs, of lines of containers and of pages that are scraped: well, then 30 % refused, then
    all, then well again."""
    cluster = installation.cluster
    parts = {_pushed(installation, backend, signal): "Gateway" for signal in _KINDS}
    parts[_printed(installation, backend)] = "Agent"
    parts[_scraped(installation, backend)] = "Agent"
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


def test_what_was_refused_from_the_start_is_told(installation: Installation, backend: Backend) -> None:
    backend.refuses = 1.0
    parts = {_pushed(installation, backend, signal): "Gateway" for signal in _KINDS}
    parts[_printed(installation, backend)] = "Agent"
    expected = {pipeline: f"{part}AllTelemetryDataDropped" for pipeline, part in parts.items()}
    # Pods and images take their time before there is anything to refuse.
    _all_become(installation.cluster, expected, 120)


def test_servers_that_refuse_logs_or_take_them_slowly_are_told(installation: Installation, server: HttpServer) -> None:
    """As pipelines of Fluent Bit have it: three of ten requests refused, then all; one of fifty taken, and slowly."""
    cluster, pipeline = installation.cluster, "logpipeline/server"
    output = {"http": {"host": {"value": cluster.address}, "port": str(server.port), "tls": {"insecure": True}}}
    cluster.apply(_pipeline("LogPipeline", "server", output, {"runtime": {"namespaces": {"include": ["default"]}}}))
    _prints(cluster)
    wait_until(lambda: next(server.numbers) > 10, "data flows", 120)
    _wait_for(cluster, pipeline, "FlowHealthy", 60)
    server.answers = lambda number: 400 if number % 10 < 3 else 200
    _all_become(cluster, {pipeline: "AgentSomeTelemetryDataDropped"}, _TOLD_S)
    server.answers = lambda _: 400
    _all_become(cluster, {pipeline: "AgentAllTelemetryDataDropped"}, _TOLD_S)
    server.answers = lambda _: 200
    _all_become(cluster, {pipeline: "FlowHealthy"}, _OVER_S)
    server.answers, server.pause_s = lambda number: 200 if number % 50 == 49 else 429, 3.0
    _all_become(cluster, {pipeline: "AgentBufferFillingUp"}, _TOLD_S)
    server.answers, server.pause_s = lambda _: 200, 0.0
    _all_become(cluster, {pipeline: "FlowHealthy"}, _OVER_S)


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


def _scraped(installation: Installation, backend: Backend) -> str:
    """A pod behind many services, each of which is a target."""
    cluster, output = installation.cluster, {"otlp": {"endpoint": {"value": backend.endpoint}}}
    write = 'mkdir /tmp/www; for i in $(seq 300); do echo "things{number=\\"$i\\"} $i"; done > /tmp/www/metrics'
    command = ["sh", "-c", f"{write}; exec httpd -f -p 8080 -h /tmp/www"]
    page = _pod("page", {"name": "main", "image": "weir.test/busybox:1", "command": command})
    page["metadata"]["labels"] = {"of": "page"}
    cluster.apply(page, *(_service(f"page-{number}") for number in range(_TARGETS)))
    _collects_every(cluster, "1s")
    inputs = {"otlp": {"enabled": False}, "prometheus": {"enabled": True}}
    cluster.apply(_pipeline("MetricPipeline", "agent-metrics", output, inputs))
    return "metricpipeline/agent-metrics"


def _service(name: str) -> Object:
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/param_of": name}
    metadata = {"name": name, "namespace": "default", "labels": {"of": "page"}, "annotations": annotations}
    spec = {"selector": {"of": "page"}, "ports": [{"name": "http-metrics", "port": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _collects_every(cluster: Cluster, interval: str | None) -> None:
    patch = {"spec": {"metric": {"prometheus": {"collectionInterval": interval}}}}
    cluster.kubectl("patch", "telemetry/default", f"--namespace={NAMESPACE}", "--type=merge", f"--patch={json.dumps(patch)}")


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
