"""The short form: what a newcomer does by hand with the rendered manifests, on a fresh cluster of one node."""

import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import client
from backend import Backend, Item
from certificates import Certificates
from cluster import Cluster, Refused, pack, wait_until
from harness import monitoring
from harness.process import Lab
from harness.prometheus import Prometheus
from processes import page
from scenarios import GROUP, NAMESPACE

_ROOT = Path(__file__).parents[2]
_DEPLOY = _ROOT / "deploy"
_IMAGE = "registry.example.com/weir:0.1.0"
_GATEWAYS = ("--namespace", NAMESPACE, "--selector", "app.kubernetes.io/name=telemetry-otlp-gateway")
_ADMIN_PORT = 55679
# It takes a second or two, but a busy machine may stand still for some. What a kubelet brings would take a minute.
_SECRET_S = 30
# A node knows it within 30 s, the operator asks each node every 5 s, and to write it down takes a moment. Three times
# that.
_TOLD_S = 120
_OVER_S = 120
_DOCTOR_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With Weir in it."""
    cluster = Cluster(tmp_path_factory.mktemp("short"))
    try:
        cluster.run("up", "1")
        cluster.run("load-image", pack(tmp_path_factory.mktemp("image") / "weir.tar", _IMAGE))
        cluster.kubectl("apply", "--server-side", f"--filename={_DEPLOY / 'weir.yaml'}")
        cluster.kubectl("rollout", "status", "deployment/telemetry-manager", f"--namespace={NAMESPACE}", "--timeout=240s")
        cluster.kubectl("apply", f"--filename={_DEPLOY / 'telemetry.yaml'}")
        yield cluster
    finally:
        cluster.run("down")


def test_the_example_runs_as_it_is(cluster: Cluster) -> None:
    """The second command of a newcomer, with the backend that comes with it, and what `weir doctor` says."""
    example = f"--filename={_ROOT / 'examples/cluster.yaml'}"
    cluster.kubectl("apply", example)
    wait_until(lambda: _are_ready(cluster), "every condition of every pipeline is True, and nothing is being rolled out", 240)
    cluster.kubectl("wait", "deployment/sink", "--namespace=telemetry-backend", "--for=condition=Available", "--timeout=120s")
    delivered = lambda: {it["pipeline"] for it in _books(cluster) if it["delivered"] > 0 and it["pending"] == 0}
    wait_until(lambda: delivered() == {f"{signal}/backend" for signal in ("traces", "metrics", "logs")}, "all three deliver", 240)
    seen = lambda: cluster.kubectl("logs", "--namespace=telemetry-backend", "deployment/sink")
    arrived = re.compile(r"received \d+ spans, \d+ points, \d+ records")
    wait_until(lambda: arrived.search(seen()), "the sink says what has arrived", 120)
    said = _doctor(cluster, lambda it: it.returncode == 0)
    assert said.returncode == 0, said.stdout
    assert "All is well" in said.stdout, said.stdout
    assert "http://sink" not in said.stdout, "a value of a Secret"
    cluster.kubectl("delete", example, "--timeout=120s")
    wait_until(lambda: not cluster.get("pods", *_GATEWAYS)["items"], "the pods are gone", 180)


@pytest.fixture
def backends(cluster: Cluster) -> Iterator[list[Backend]]:
    backends = [Backend(cluster.address) for _ in range(2)]
    yield backends
    for backend in backends:
        backend.stop()


def test_everything_arrives_and_goes_where_a_secret_says(cluster: Cluster, backends: list[Backend]) -> None:
    cluster.apply(_secret(backends[0]))
    pipelines = [_pipeline(kind) for kind in ("TracePipeline", "MetricPipeline", "LogPipeline")]
    cluster.apply(*pipelines)
    cluster.apply(_writer())
    wait_until(lambda: _are_ready(cluster), "every condition of every pipeline is True, and nothing is being rolled out", 240)
    pods = _pods(cluster)

    wait_until(lambda: _push_all(cluster, pods) or _pushed(backends[0], "metrics"), "the pipelines run")
    _arrive(backends[0])
    lines = lambda: [it for it in backends[0].items("logs") if it["item"].get("body") == "a line of a container"]
    line = wait_until(lines, "the line of a container arrives")[0]
    assert line["resource"]["attributes"]["k8s.container.name"] == "main", line
    usage = lambda: [it for it in backends[0].items("metrics") if it["metric"]["name"] == "k8s.pod.cpu.usage"]
    wait_until(usage, "the kubelet's metrics arrive", 180)

    cluster.apply(_secret(backends[1]))
    began = time.monotonic()
    wait_until(lambda: _push_all(cluster, pods) or backends[1].items("traces"), "spans go where the Secret says", _SECRET_S)
    print(f"a changed Secret had its effect after {time.monotonic() - began:.1f} s")
    _arrive(backends[1])
    assert _pods(cluster) == pods, "pods were restarted"


@pytest.fixture
def expiring(cluster: Cluster) -> Iterator[Backend]:
    """A backend that wants certificates, and a pipeline to it with one that ends in a week."""
    certificates = Certificates([cluster.address])
    backend = Backend(cluster.address, certificates)
    authority, identity = certificates.authority.certificate, certificates.expiring
    secret = _secret(backend, "expiring", ca=authority, cert=identity.certificate, key=identity.key)
    pipeline = _pipeline("TracePipeline", "expiring", secret="expiring")
    reference = lambda key: {"valueFrom": {"secretKeyRef": {"name": "expiring", "namespace": "default", "key": key}}}
    pipeline["spec"]["output"]["otlp"]["tls"] = {key: reference(key) for key in ("ca", "cert", "key")}
    cluster.apply(secret, pipeline)
    yield backend
    backend.stop()
    cluster.kubectl("delete", "tracepipeline/expiring", "secret/expiring", "--ignore-not-found", "--timeout=60s")


def test_the_status_tells_of_a_backend_that_refuses(
    cluster: Cluster, backends: list[Backend], expiring: Backend
) -> None:
    """Some, and then all, of what clients push and of what a container prints; and so does `weir doctor`."""
    cluster.apply(_secret(backends[0]), _load())
    parts = {"tracepipeline/short": "Gateway", "logpipeline/short": "Agent", "tracepipeline/expiring": "Gateway"}
    are = lambda reasons: all(reason in _reasons(cluster, pipeline) for pipeline, reason in reasons.items())
    arrive = lambda: backends[0].items("traces") and backends[0].items("logs") and expiring.items("traces")
    flows = lambda: are(dict.fromkeys(parts, "FlowHealthy")) and arrive()
    wait_until(flows, "data flows", 180)
    for share, word in ((0.3, "Some"), (1.0, "All")):
        backends[0].refuses = expiring.refuses = share
        told = {pipeline: f"{part}{word}TelemetryDataDropped" for pipeline, part in parts.items()}
        wait_until(lambda: are(told), f"the statuses say {told}", _TOLD_S)
    [message] = [it["message"] for it in _conditions(cluster, "tracepipeline/short") if it["type"] == "TelemetryFlowHealthy"]
    assert "spans" in message and "are kept" in message, message
    _doctor_tells(cluster)
    backends[0].refuses = expiring.refuses = 0.0
    wait_until(flows, "that is over", _OVER_S)


def _doctor_tells(cluster: Cluster) -> None:
    """Of each pipeline what its status says, and the words of its backend; and when the certificate ends."""
    wanted = (
        r"TracePipeline short: TelemetryFlowHealthy is False, GatewayAllTelemetryDataDropped: ",
        r"LogPipeline short: TelemetryFlowHealthy is False, AgentAllTelemetryDataDropped: ",
        r"the backend of traces/short is not well, as node \S+ sees it: .*refused on purpose",
        r"the backend of logs/short is not well, as node \S+ sees it: .*refused on purpose",
        r"the backend of traces/expiring is not well, as node \S+ sees it: .*refused on purpose",
        r"the certificate of TracePipeline expiring, key cert of the Secret default/expiring expires in 6 days",
        r"TracePipeline expiring, key cert of the Secret default/expiring: CN=expiring, 6 days left",
        r"the webhooks, key ca\.crt of the Secret kyma-system/telemetry-webhook-cert: CN=\S+, \d+ days left",
        r"the webhooks, key tls\.crt of the Secret kyma-system/telemetry-webhook-cert: CN=\S+, \d+ days left",
    )
    said = _doctor(cluster, lambda it: all(re.search(pattern, it.stdout) for pattern in wanted))
    for pattern in wanted:
        assert re.search(pattern, said.stdout), f"not {pattern!r} in {said.stdout}"
    assert said.returncode == 1
    assert "PRIVATE KEY" not in said.stdout, "a value of a Secret"


def test_the_admin_port_of_a_node_is_there_by_way_of_kubectl(cluster: Cluster) -> None:
    """The page, and a tap that shows what passes, as docs/operations.md has it."""
    pod = next(it for it in cluster.get("pods", *_GATEWAYS)["items"] if "deletionTimestamp" not in it["metadata"])
    with cluster.forwarded(pod["metadata"]["name"], _ADMIN_PORT, NAMESPACE) as admin:
        assert "<!doctype html>" in wait_until(lambda: page(admin, "/"), "the page is there")
        configured = json.loads(wait_until(lambda: page(admin, "/api/configuration"), "so are its data"))["pipelines"]
        changed_by = {it["pipeline"]: it["changed_by"] for it in configured}
        assert changed_by["traces/short"]["manager"] == "kubectl-client-side-apply", changed_by
        tap = _post(admin, "/api/taps", {"pipeline": "traces/short", "where": 'span.name == "tapped"'})["tap"]
        client.push(f"{pod['status']['podIP']}:4317", "traces", {"service.name": "shop"}, {"name": "tapped"})
        shown = lambda: json.loads(page(admin, f"/api/taps/{tap}") or "{}").get("items")
        [item] = wait_until(shown, "the tap shows the span")
        assert '"tapped"' in json.dumps(item["item"]), item


@pytest.fixture
def prometheus(cluster: Cluster, tmp_path: Path) -> Iterator[Prometheus]:
    """Scrapes the operator and the node, and has the rules with times that a test can wait for."""
    operators = cluster.get("pods", "--namespace", NAMESPACE, "--selector", "app.kubernetes.io/name=telemetry-manager")["items"]
    nodes = enumerate(_pods(cluster).values())
    others = {f"node-{number}": f"{address}:8888" for number, address in nodes}
    lab = Lab(tmp_path)
    rules = monitoring.write_scaled_rules(tmp_path / "rules.yaml")
    yield Prometheus(lab, f"{operators[0]['status']['podIP']}:8080", "operator", others, rules)
    lab.close()


def test_dashboards_of_a_cluster_answer(prometheus: Prometheus) -> None:
    """Those queries that only a cluster has answers to; the others are asked in tests/interop/test_monitoring.py."""
    dashboards = [monitoring.load(path) for path in monitoring.DASHBOARDS]
    ours, empty = monitoring.of_clusters(), {}
    for dashboard in dashboards:
        for query in monitoring.queries(dashboard):
            if monitoring.metrics_of(query.expression) & ours:
                empty[query] = monitoring.substituted(query.expression, {"instance": ".*"})
    assert len(empty) > 10, "the queries were not found"

    def all_answer() -> bool:
        for query in [query for query, expression in empty.items() if prometheus.query(expression)]:
            del empty[query]
        return not empty

    wait_until(all_answer, f"all of {empty} answer", 90)
    # A minute is a second here, for which a busy machine may well stand still: such an alert ends.
    firing = 'ALERTS{alertstate="firing", alertname=~"Weir(Operator|Nodes|Nobody|Watch|Runtime).*"}'
    wait_until(lambda: not prometheus.query(firing), f"{firing} is empty")


def test_what_is_wrong_is_refused_or_said(cluster: Cluster) -> None:
    wrong = _pipeline("TracePipeline", transform=[{"statements": ["set(span.name"]}])
    with pytest.raises(Refused, match="transform"):
        cluster.apply(wrong)
    missing = _pipeline("TracePipeline", "missing", secret="nowhere")
    cluster.apply(missing)
    reason = lambda: "ReferencedSecretMissing" in _reasons(cluster, "tracepipeline/missing")
    wait_until(reason, "the status says what is missing")
    message = next(it["message"] for it in _conditions(cluster, "tracepipeline/missing") if it["reason"] == "ReferencedSecretMissing")
    described = lambda: cluster.kubectl("describe", "tracepipeline", "missing")
    wait_until(lambda: re.search(r"Warning +ReferencedSecretMissing ", described()), "there is an event of it")
    assert re.search(rf"Message: +{re.escape(message)}", described()), described()
    assert "GatewayConfigured" in _reasons(cluster, "tracepipeline/short"), "another pipeline is not affected"
    said = _doctor(cluster)
    assert (said.returncode, "nowhere" in said.stdout) == (1, True), said.stdout


def test_without_pipelines_nothing_is_left_on_nodes(cluster: Cluster) -> None:
    cluster.kubectl("delete", "kyma-telemetry-pipelines", "--all", "--timeout=120s")
    wait_until(lambda: not cluster.get("pods", *_GATEWAYS)["items"], "the pods are gone", 180)


def _doctor(
    cluster: Cluster, is_right: Callable[[subprocess.CompletedProcess[str]], bool] = bool
) -> subprocess.CompletedProcess[str]:
    """Asks for a while until the answer is right: a node that answers late is not well for a moment. Returns the last."""
    command = [os.environ["WEIR"], "doctor", f"--kubeconfig={cluster.kubeconfig}"]
    end = time.monotonic() + _DOCTOR_S
    while True:
        said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if is_right(said) or time.monotonic() > end:
            return said


def _books(cluster: Cluster) -> list[dict[str, int]]:
    """What each node says of each pipeline."""
    pages = [page(f"{address}:8888", "/node") for address in _pods(cluster).values()]
    return [pipeline for text in pages if text for pipeline in json.loads(text)["pipelines"]]


def _post(address: str, path: str, document: object) -> dict[str, object]:
    head = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://{address}{path}", json.dumps(document).encode(), head)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def _secret(backend: Backend, name: str = "backend", **more: str) -> dict[str, object]:
    metadata, data = {"name": name, "namespace": "default"}, {"endpoint": backend.endpoint, **more}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def _pipeline(kind: str, name: str = "short", secret: str = "backend", **spec: object) -> dict[str, object]:
    endpoint = {"valueFrom": {"secretKeyRef": {"name": secret, "namespace": "default", "key": "endpoint"}}}
    match kind:
        case "LogPipeline":
            spec["input"] = {"runtime": {"namespaces": {"include": ["default"]}}}
        case "MetricPipeline":
            spec["input"] = {"runtime": {"enabled": True}}
    spec["output"] = {"otlp": {"endpoint": endpoint}}
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _writer() -> dict[str, object]:
    """A hundred lines a second: in each moment there are requests of which some can be refused."""
    loop = "i=0; while true; do echo a line of a container; i=$((i+1)); [ $((i%20)) != 0 ] || sleep 0.2; done"
    container = {"name": "main", "image": "weir.test/busybox:1", "command": ["sh", "-c", loop]}
    metadata = {"name": "writer", "namespace": "default", "labels": {"app": "shop"}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _load() -> dict[str, object]:
    send = ["load", "traces", f"--endpoint=telemetry-otlp.{NAMESPACE}:4317", "--rate=100", "--batch=10", "--items=1000000", "--retry"]
    metadata = {"name": "load", "namespace": "default"}
    spec = {"containers": [{"name": "main", "image": _IMAGE, "args": send}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _push_all(cluster: Cluster, pods: dict[str, str]) -> None:
    """One item of each signal, as if the writer had sent it."""
    writer = cluster.get("pod", "writer")["status"]["podIP"]
    for address in pods.values():
        for signal in ("traces", "metrics", "logs"):
            client.push(f"{address}:4317", signal, {"k8s.pod.ip": writer}, {"name": "pushed", "body": "pushed"})


def _arrive(backend: Backend) -> None:
    for signal in ("traces", "metrics", "logs"):
        resource = wait_until(lambda: _pushed(backend, signal), f"{signal} arrive")[0]["resource"]["attributes"]
        assert (resource["k8s.pod.name"], resource["k8s.namespace.name"]) == ("writer", "default"), resource
        assert resource["service.name"], resource


def _pushed(backend: Backend, signal: str) -> list[Item]:
    named = {"traces": ("item", "name"), "metrics": ("metric", "name"), "logs": ("item", "body")}
    part, key = named[signal]
    return [it for it in backend.items(signal) if it[part].get(key) == "pushed"]


def _are_ready(cluster: Cluster) -> bool:
    found = cluster.get("kyma-telemetry-pipelines")["items"]
    conditions = [it.get("status", {}).get("conditions", []) for it in found]
    is_well = lambda it: it["status"] == "True" and it["reason"] != "RolloutInProgress"
    return all(of and all(map(is_well, of)) for of in conditions)


def _reasons(cluster: Cluster, of: str) -> list[str]:
    return [condition["reason"] for condition in _conditions(cluster, of)]


def _conditions(cluster: Cluster, of: str) -> list[dict[str, str]]:
    return (cluster.find(of) or {}).get("status", {}).get("conditions", [])


def _pods(cluster: Cluster) -> dict[str, str]:
    """Addresses of the pods that collect, by their uids."""
    found = cluster.get("pods", *_GATEWAYS)["items"]
    return {it["metadata"]["uid"]: it["status"]["podIP"] for it in found if "deletionTimestamp" not in it["metadata"]}
