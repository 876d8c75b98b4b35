"""The status tells of backends that refuse some or all, or close connections, and of their recovery; in how many seconds."""

import json
import time
from collections.abc import Iterator

import pytest

from backend import Backend, HttpServer
from cluster import Cluster, Object, wait_until
from installation import NAMESPACE, NODES, OPERATORS, Installation
from processes import seconds_of
from scenarios import GROUP

pytestmark = pytest.mark.nodes

_GATEWAY = "daemonset/telemetry-otlp-gateway"
# A node knows it within 30 s, the operator asks each node every 5 s, and to write it down takes a moment.
_TOLD_S = 40
_OVER_S = 60
_HEALTHY_S = 180
# From the conditions of pipelines to those of the Telemetry, while pods may still start.
_WRITTEN_S = 30
# As many items of each signal as a test looks at: of hundreds of thousands.
_KEPT = 100
# Nodes warn of it when it is new to them, and again after 12 h. One that starts while all is well has not said it before.
_DEPRECATED = "deprecated FluentBit technology stack"
# Of an operator that serves webhooks: the goal of docs/operations.md.
_OPERATOR_MB = 60
# Each is a page, and a request to the backend, every second.
_TARGETS = 15
_KINDS = {"traces": "TracePipeline", "metrics": "MetricPipeline", "logs": "LogPipeline"}


@pytest.fixture
def backend(installation: Installation) -> Iterator[Backend]:
    cluster = installation.cluster
    backend = Backend(cluster.address, keeps=_KEPT)
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


def test_what_is_well_stays_healthy_and_what_is_refused_is_told(
    installation: Installation, backend: Backend, server: HttpServer
) -> None:
    """Of pushed traces, metrics and logs, of lines of containers, as OTLP and as Fluent Bit has them, and of pages that are
    scraped: well, and nothing in the logs, then 30 % refused, then all, then well again."""
    cluster = installation.cluster
    parts = {_pushed(installation, backend, signal): "Gateway" for signal in _KINDS}
    parts[_printed(installation, backend)] = "Agent"
    parts[_scraped(installation, backend)] = "Agent"
    parts[_served(installation, server)] = "Agent"
    healthy = dict.fromkeys(parts, "FlowHealthy")
    _all_become(cluster, healthy, 120)
    wait_until(lambda: all(backend.items(signal) for signal in _KINDS) and server.taken > 10, "data flows", 90)
    wait_until(lambda: any(it["metric"]["name"] == "things" for it in backend.items("metrics")), "pages are scraped", 60)
    _stay_well(installation, healthy)
    _take_little(installation)
    for share, word in ((0.3, "Some"), (1.0, "All")):
        _refuse(share, backend, server)
        _all_become(cluster, {pipeline: f"{part}{word}TelemetryDataDropped" for pipeline, part in parts.items()}, _TOLD_S)
    _refuse(0.0, backend, server)
    _all_become(cluster, healthy, _OVER_S)


def test_what_was_refused_from_the_start_is_told(installation: Installation, backend: Backend) -> None:
    backend.refuses = 1.0
    parts = {_pushed(installation, backend, signal): "Gateway" for signal in _KINDS}
    parts[_printed(installation, backend)] = "Agent"
    expected = {pipeline: f"{part}AllTelemetryDataDropped" for pipeline, part in parts.items()}
    # Pods and images take their time before there is anything to refuse.
    _all_become(installation.cluster, expected, 120)


def test_servers_that_refuse_logs_or_take_them_slowly_are_told(installation: Installation, server: HttpServer) -> None:
    """As pipelines of Fluent Bit have it: three of ten requests refused, then all; one of fifty taken, and slowly."""
    cluster, pipeline = installation.cluster, _served(installation, server)
    wait_until(lambda: server.taken > 10, "data flows", 120)
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
    cluster.apply(_fluent_bit("away", cluster.address, 9))
    _prints(cluster)
    _all_become(cluster, {"logpipeline/away": "AgentNoLogsDelivered"}, 120)
    message = _condition(cluster, "logpipeline/away")["message"]
    assert "Nothing is lost" in message and "are kept until" in message, message


def _stay_well(installation: Installation, healthy: dict[str, str]) -> None:
    """No status changes, and neither nodes nor operators log a warning."""
    cluster = installation.cluster
    # The first pipeline that reads logs changes the pods, and a pod that starts finds data of pipelines that are gone.
    cluster.kubectl("rollout", "status", _GATEWAY, "--namespace", NAMESPACE, "--timeout=300s")
    began = time.time()
    while time.time() < began + _HEALTHY_S:
        assert {pipeline: _reason(cluster, pipeline) for pipeline in healthy} == healthy
        time.sleep(1)
    _whole_becomes(cluster, healthy)
    lines = [line for of in (OPERATORS, NODES) for line in installation.logs(of) if line["level"] in ("WARN", "ERROR")]
    said = [line for line in lines if seconds_of(line) >= began and _DEPRECATED not in line.get("message", "")]
    assert not said, "\n".join(map(json.dumps, said))


def _take_little(installation: Installation) -> None:
    """After some minutes with six pipelines, and whatever tests there were before."""
    for part in (OPERATORS, NODES):
        now, most = installation.memory_mb(part), installation.memory_mb(part, "VmHWM")
        in_words = [f"{mb:.1f} MB, {peak:.1f} MB at most" for mb, peak in zip(now, most, strict=True)]
        print(f"pods of {part} with six pipelines: {'; '.join(in_words)}")
        assert now, f"no process of {part} was found"
    assert max(installation.memory_mb(OPERATORS)) <= _OPERATOR_MB


def _refuse(share: float, backend: Backend, server: HttpServer) -> None:
    backend.refuses = share
    server.answers = lambda number: 400 if number % 10 < share * 10 else 200


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


def _served(installation: Installation, server: HttpServer) -> str:
    installation.cluster.apply(_fluent_bit("server", installation.cluster.address, server.port))
    _prints(installation.cluster)
    return "logpipeline/server"


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


def _fluent_bit(name: str, address: str, port: int) -> Object:
    output = {"http": {"host": {"value": address}, "port": str(port), "tls": {"insecure": True}}}
    return _pipeline("LogPipeline", name, output, {"runtime": {"namespaces": {"include": ["default"]}}})


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
    """All pipelines that there are, and then the Telemetry. Prints how long each takes."""
    began, left = time.monotonic(), dict(expected)
    while left:
        for pipeline, reason in list(left.items()):
            if _reason(cluster, pipeline) == reason:
                print(f"{pipeline}: {reason} after {time.monotonic() - began:.0f} s")
                del left[pipeline]
        if time.monotonic() - began >= deadline_s:
            found = {pipeline: _condition(cluster, pipeline) for pipeline in left}
            pods = {it["metadata"]["name"]: it["status"]["phase"] for it in cluster.get("pods")["items"]}
            raise AssertionError(f"not within {deadline_s} s: {left}, but {found}, while the pods that send data are {pods}")
        time.sleep(0.5)
    _whole_becomes(cluster, expected)


def _whole_becomes(cluster: Cluster, pipelines: dict[str, str]) -> None:
    """The Telemetry says of each kind what is wrong with its pipelines: of several, the first by its name counts."""
    wanted = {"state": "Ready" if set(pipelines.values()) == {"FlowHealthy"} else "Warning"}
    for kind in _KINDS.values():
        reasons = [reason for pipeline, reason in sorted(pipelines.items()) if pipeline.startswith(f"{kind.lower()}/")]
        well = "ComponentsRunning" if reasons else "NoPipelineDeployed"
        component = kind.replace("Pipeline", "ComponentsHealthy")
        wanted[component] = next((reason for reason in reasons if reason != "FlowHealthy"), well)
    end = time.monotonic() + _WRITTEN_S
    while (found := _whole(cluster)) != wanted:
        assert time.monotonic() < end, f"the Telemetry says {found}, and not {wanted}"
        time.sleep(0.5)


def _whole(cluster: Cluster) -> dict[str, str]:
    """The state of the Telemetry, and the reason of each of its conditions."""
    status = cluster.find("telemetry/default", NAMESPACE)["status"]
    return {"state": status["state"], **{it["type"]: it["reason"] for it in status["conditions"]}}
