"""Ways to run it: roles in DaemonSets of their own, replicas of the gateway, and changing from one to another under load."""

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster, Object, wait_until
from installation import NAMESPACE, Installation
from load import assert_once, ended, flow_on
from processes import figure, page
from resource_metrics import ResourceMetrics
from scenarios import GROUP, NOBODY, is_ready
from test_faults import Scene

_RECORDS = 500 * 20
_STATEFUL = "telemetry-gateway-stateful"
_REPLICAS = f"statefulset/{_STATEFUL}"
_STATELESS = "telemetry-gateway"
_NODES = "daemonset/telemetry-otlp-gateway"
_SERVICE = f"telemetry-otlp.{NAMESPACE}:4317"
_CLASS = "scale"
_STORAGE = {"size": "1Gi", "className": _CLASS}
_NO_STORAGE = {"size": ""}
_USER = 10001
# As many volumes on each node as there may be replicas by then.
_EACH = 2
# Longer than it takes to end for a replica that has nothing to deliver: for 5 s of that it serves its clients.
_STAYS_S = 12


@pytest.fixture
def scene(installation: Installation) -> Iterator[Scene]:
    scene = Scene(installation)
    yield scene
    scene.close()
    installation.install()
    # Replicas that still have something deliver for minutes, and nothing of what they need goes before they do.
    replicas = f"--selector=app.kubernetes.io/name in ({_STATELESS},{_STATEFUL})"
    scene.cluster.kubectl("delete", "pods", replicas, "--namespace", NAMESPACE, "--force", "--grace-period=0")


def _pipeline(endpoint: str, **inputs: Object) -> Object:
    return _of_kind("LogPipeline", endpoint, input=inputs)


def _of_kind(kind: str, endpoint: str, **spec: Object) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": kind,
        "metadata": {"name": "flow"},
        "spec": {"output": {"otlp": {"endpoint": {"value": endpoint}}}, **spec},
    }


def _volumes(cluster: Cluster) -> None:
    """Nobody makes volumes in the cluster of a test: some on each node, for whoever comes first."""
    volumes: list[Object] = []
    nodes = [node["metadata"]["name"] for node in cluster.get("nodes")["items"]]
    for node, number in itertools.product(nodes, range(_EACH)):
        path = f"/var/lib/{_CLASS}-{number}"
        directory = cluster.file(node, path)
        directory.mkdir(parents=True, exist_ok=True)
        os.chown(directory, _USER, _USER)
        where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        volumes.append({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{_CLASS}-{node}-{number}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": _CLASS,
                "local": {"path": path},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
            },
        })
    cluster.apply(*volumes, {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": _CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    })


def _ready(cluster: Cluster, workload: str) -> int:
    status = (cluster.find(workload, NAMESPACE) or {}).get("status", {})
    return status.get("readyReplicas", status.get("numberReady", 0))


def _served_by(cluster: Cluster) -> str:
    return cluster.find("service/telemetry-otlp", NAMESPACE)["spec"]["selector"]["app.kubernetes.io/name"]


def _all_arrived(scene: Scene, most_twice: int) -> None:
    arrived = lambda: [it["item"]["spanId"] for backend in scene.backends for it in backend.items("logs")]
    wait_until(lambda: len(set(arrived())) >= _RECORDS, f"{_RECORDS} records arrived, and not {len(set(arrived()))}", 90)
    twice = len(arrived()) - _RECORDS
    print(f"{twice} of {_RECORDS} records arrived twice")
    assert twice <= most_twice


@pytest.mark.nodes
def test_from_nodes_to_replicas_and_back_under_load(scene: Scene) -> None:
    """What was acknowledged arrives, whoever took it; a replica that is killed comes back to its volume."""
    installation, cluster, backend = scene.installation, scene.cluster, scene.backend()
    _volumes(cluster)
    cluster.apply(_pipeline(backend.endpoint, runtime={"enabled": False}))
    scene.wait_for("logpipeline/flow", "GatewayHealthy", "GatewayReady")
    scene.pushes(_SERVICE)
    wait_until(lambda: backend.items("logs"), "data flows")
    _two_replicas(installation)
    wait_until(lambda: not cluster.find(_NODES, NAMESPACE), "nodes owe nothing, and are gone", 120)
    scene.wait_for_success("load")
    _all_arrived(scene, most_twice=0)

    scene.pushes(_SERVICE, "again")
    wait_until(lambda: len(backend.items("logs")) > _RECORDS + 1000, "data flows")
    cluster.kubectl("delete", "pod", f"{_STATEFUL}-0", "--namespace", NAMESPACE, "--force", "--grace-period=0")
    wait_until(lambda: _ready(cluster, _REPLICAS) == 2, "it is there again", 120)
    scene.wait_for_success("again")
    # The same numbers once more.
    times = lambda: Counter(it["item"]["spanId"] for it in backend.items("logs"))
    wait_until(lambda: min(times().values()) >= 2, f"{_RECORDS} records arrived once more", 90)
    print(f"{times().total() - 2 * _RECORDS} records arrived twice")

    installation.install()
    wait_until(lambda: _served_by(cluster) == "telemetry-otlp-gateway", "clients are led to nodes", 120)
    wait_until(lambda: not cluster.find(_REPLICAS, NAMESPACE), "replicas owe nothing, and are gone", 300)
    of_replicas = ("--namespace", NAMESPACE, "--selector", f"app.kubernetes.io/name={_STATEFUL}")
    wait_until(lambda: not cluster.get("pods", *of_replicas)["items"], "and so are their pods", 120)
    claims = {it["metadata"]["name"] for it in cluster.get("persistentvolumeclaims", *of_replicas)["items"]}
    assert claims >= {f"data-{_STATEFUL}-{number}" for number in range(2)}, "volumes are the user's"


def _two_replicas(installation: Installation, storage: Object = _STORAGE, **values: Object) -> None:
    """With volumes, as the chart has it, unless it is told otherwise."""
    cluster = installation.cluster
    replicas, name = (_REPLICAS, _STATEFUL) if storage["size"] else (f"deployment/{_STATELESS}", _STATELESS)
    installation.install(gateway={"mode": "replicas", "replicas": 2, "storage": storage}, **values)
    wait_until(lambda: _ready(cluster, replicas) == 2, "there are two replicas", 120)
    wait_until(lambda: _served_by(cluster) == name, "clients are led to them")


def _updated(installation: Installation) -> Object:
    """The value that changes pods, and nothing of what they do."""
    return installation.values["nodes"] | {"podLabels": {"updated": "yes"}}


def _pods(cluster: Cluster, selector: str) -> list[Object]:
    return cluster.get("pods", "--namespace", NAMESPACE, "--selector", selector)["items"]


def _metric(pods: list[Object], name: str) -> list[float]:
    """Of each pod; of one that does not answer, 0."""
    return [figure(page(f"{pod['status'].get('podIP')}:8888", "/metrics") or "", name) for pod in pods]


@pytest.mark.nodes
def test_replicas_are_updated_under_load(scene: Scene) -> None:
    """One after the other ends, and the next of its name takes its volume; the other one serves clients meanwhile. What was
    acknowledged arrives, and once, unless a client had to send it again."""
    installation, cluster, backend = scene.installation, scene.cluster, scene.backend()
    _volumes(cluster)
    cluster.apply(_of_kind("TracePipeline", backend.endpoint), _pipeline(backend.endpoint, runtime={"enabled": False}))
    _two_replicas(installation)
    for pipeline in ("tracepipeline/flow", "logpipeline/flow"):
        scene.wait_for(pipeline, "GatewayHealthy", "GatewayReady")
    loads = scene.pushes_until_stopped()
    flow_on(loads, backend)
    began = time.monotonic()
    _two_replicas(installation, nodes=_updated(installation))
    before = f"app.kubernetes.io/name={_STATEFUL},updated!=yes"
    # Each serves for 5 s after it is told to end, and may deliver for 60 s then.
    wait_until(lambda: not _pods(cluster, before), "all pods are new", 240)
    cluster.kubectl("rollout", "status", _REPLICAS, "--namespace", NAMESPACE, "--timeout=120s")
    print(f"updated in {time.monotonic() - began:.1f} s")
    flow_on(loads, backend)
    assert_once(ended(loads, backend), backend)


@pytest.mark.nodes
def test_replicas_without_volumes_deliver_before_they_end(scene: Scene) -> None:
    """What they acknowledged while the backend was away is in nobody else's hands: one that is told to end stays until the
    backend is back, and another one serves clients meanwhile. Nothing is lost."""
    installation, cluster, backend = scene.installation, scene.cluster, scene.backend()
    cluster.apply(_of_kind("TracePipeline", backend.endpoint), _pipeline(backend.endpoint, runtime={"enabled": False}))
    _two_replicas(installation, _NO_STORAGE)
    for pipeline in ("tracepipeline/flow", "logpipeline/flow"):
        scene.wait_for(pipeline, "GatewayHealthy", "GatewayReady")
    loads = scene.pushes_until_stopped()
    flow_on(loads, backend)
    before = f"app.kubernetes.io/name={_STATELESS},updated!=yes"
    backend.is_away = True
    # Of connections that are spread by chance, each replica has some.
    is_owed = lambda: all(items > 100 for items in _metric(_pods(cluster, before), "weir_pipeline_pending_items"))
    wait_until(is_owed, "each replica has something to deliver")
    _two_replicas(installation, _NO_STORAGE, nodes=_updated(installation))
    leaving = lambda: {pod["metadata"]["uid"] for pod in _pods(cluster, before) if "deletionTimestamp" in pod["metadata"]}
    first = wait_until(leaving, "one of them is told to end", 120)
    time.sleep(_STAYS_S)
    assert first <= leaving(), "it has left what nobody else has"
    backend.is_away = False
    # Each may deliver for 300 s, and has no reason to take as long.
    wait_until(lambda: not _pods(cluster, before), "all pods are new", 240)
    flow_on(loads, backend)
    assert_once(ended(loads, backend), backend)


@pytest.mark.nodes
def test_roles_that_are_split_read_on_where_the_one_before_stopped(scene: Scene) -> None:
    installation, cluster, backend = scene.installation, scene.cluster, scene.backend()
    cluster.apply(_pipeline(backend.endpoint, runtime={"namespaces": {"include": ["default"]}}))
    scene.wait_for("logpipeline/flow", "AgentHealthy", "AgentReady")
    lines = 4000
    loop = f"i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); [ $((i%100)) != 0 ] || sleep 1; done; sleep 600"
    scene.start("writer", "weir.test/busybox:1", ["sh", "-c", loop])
    wait_until(lambda: backend.items("logs"), "lines flow")
    installation.install(nodes=installation.values["nodes"] | {"splitRoles": True})
    agent = "daemonset/telemetry-log-agent"
    nodes = len(cluster.get("nodes")["items"])
    wait_until(lambda: _ready(cluster, agent) == nodes, "there are log agents", 120)
    installation.install()
    wait_until(lambda: not cluster.find(agent, NAMESPACE), "log agents owe nothing, and are gone", 120)
    bodies = lambda: [it["item"].get("body", "") for it in backend.items("logs")]
    wanted = {f"line {number}" for number in range(lines)}
    wait_until(lambda: wanted <= set(bodies()), "every line arrived", 120)
    twice = [body for body in bodies() if body in wanted]
    assert len(twice) == lines, f"{len(twice) - lines} lines arrived twice"


@pytest.mark.nodes
def test_an_autoscaler_counts_replicas_by_what_waits_in_them(scene: Scene) -> None:
    """The operator serves the metric. A backend that takes its time is one that more replicas help with. One that is new takes
    items of clients that were connected before it came: whoever is busy asks them to connect again."""
    installation, cluster = scene.installation, scene.cluster
    scene.start("slow", installation.image, None, ["sink", "--listen=0.0.0.0", "--delay=5s:100"])
    address = lambda: (cluster.find("pod/slow", "default") or {}).get("status", {}).get("podIP")
    backend = f"http://{wait_until(address, 'the backend has an address')}:14317"
    scaling = {"enabled": True, "minReplicas": 2, "maxReplicas": 3, "cpu": 0, "pendingBytes": "200Ki", "serveMetrics": True}
    # Any work is much of that.
    resources = {"requests": {"cpu": "10m", "memory": "64Mi"}}
    gateway = {"mode": "replicas", "storage": _NO_STORAGE, "autoscaling": scaling, "resources": resources}
    installation.install(gateway=gateway)
    cluster.apply(_pipeline(backend, runtime={"enabled": False}))
    replicas = f"deployment/{_STATELESS}"
    wait_until(lambda: _ready(cluster, replicas) == 2, "there are as many as there have to be", 120)

    def is_active() -> bool:
        autoscaler = cluster.find("horizontalpodautoscaler/telemetry-gateway", NAMESPACE) or {}
        conditions = autoscaler.get("status", {}).get("conditions", [])
        return any(it["type"] == "ScalingActive" and it["status"] == "True" for it in conditions)

    wait_until(is_active, "the autoscaler knows what waits", 120)
    running = lambda: [pod for pod in _pods(cluster, f"app.kubernetes.io/name={_STATELESS}") if is_ready(pod)]
    cluster.kubectl("rollout", "status", replicas, "--namespace", NAMESPACE, "--timeout=120s")
    before = running()
    send = ["load", "logs", f"--endpoint={_SERVICE}", "--rate=1000", "--duration=420s", "--retry", "--size=1000", "--concurrency=16"]
    scene.start("load", installation.image, None, send)
    wait_until(lambda: _ready(cluster, replicas) == 3, "there are more", 180)

    old = {pod["metadata"]["uid"] for pod in before}
    new = wait_until(lambda: [pod for pod in running() if pod["metadata"]["uid"] not in old], "the new one is seen")
    began = time.monotonic()
    accepted = lambda: _metric(new, "otelcol_receiver_accepted_log_records_total")
    # Connections live for 12 s where there is that much to do, and for two minutes where there is nothing.
    wait_until(lambda: min(accepted()) > 0, "the new one takes items", 90)
    print(f"a new replica takes items {time.monotonic() - began:.1f} s after it was ready")
    retired = sum(_metric(before, "weir_receiver_connections_retired_total"))
    assert retired > 0, "clients came to the new one without having been asked to connect again"


@pytest.mark.nodes
def test_an_autoscaler_counts_replicas_by_their_cpu(scene: Scene, tmp_path: Path) -> None:
    """As many as it takes, and not the most there may be: each then uses less than it may."""
    installation, cluster = scene.installation, scene.cluster
    metrics = ResourceMetrics(cluster, tmp_path)
    try:
        metrics.millicores = 80
        scaling = {"enabled": True, "minReplicas": 2, "maxReplicas": 5, "cpu": 70}
        resources = {"requests": {"cpu": "200m", "memory": "64Mi"}}
        gateway = {"mode": "replicas", "storage": {"size": ""}, "autoscaling": scaling, "resources": resources}
        installation.install(gateway=gateway)
        cluster.apply(_pipeline(NOBODY, runtime={"enabled": False}))
        replicas = "deployment/telemetry-gateway"
        # What another test needed stays for five minutes: that is how long an autoscaler waits before there are fewer.
        few = [(20, 2), (13, 3)]
        wait_until(lambda: _ready(cluster, replicas) in (2, 3), "there are as many as there have to be", 240)
        wait_until(lambda: _counted(cluster) in few, "the autoscaler has seen how little they use", 240)
        metrics.millicores = 480
        wait_until(lambda: _counted(cluster) == (60, 4), "it has made two more", 240)
        wait_until(lambda: _ready(cluster, replicas) == 4, "they are ready", 120)
    finally:
        metrics.stop()


@pytest.mark.nodes
def test_an_autoscaler_counts_replicas_with_volumes_by_their_cpu(scene: Scene, tmp_path: Path) -> None:
    """The default of the chart but for the class of the volumes, which is of this cluster, and its numbers."""
    installation, cluster = scene.installation, scene.cluster
    _volumes(cluster)
    metrics = ResourceMetrics(cluster, tmp_path)
    try:
        metrics.millicores = 80
        scaling = {"enabled": True, "minReplicas": 2, "maxReplicas": 4, "cpu": 70}
        resources = {"requests": {"cpu": "200m", "memory": "64Mi"}}
        gateway = {"mode": "replicas", "storage": _STORAGE, "autoscaling": scaling, "resources": resources}
        installation.install(gateway=gateway)
        cluster.apply(_pipeline(NOBODY, runtime={"enabled": False}))
        wait_until(lambda: _ready(cluster, _REPLICAS) == 2, "there are as many as there have to be", 240)
        wait_until(lambda: _counted(cluster, _STATEFUL) == (20, 2), "the autoscaler has seen how little they use", 240)
        target = cluster.find(f"horizontalpodautoscaler/{_STATEFUL}", NAMESPACE)["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == ("StatefulSet", _STATEFUL)
        metrics.millicores = 360
        wait_until(lambda: _counted(cluster, _STATEFUL) == (60, 3), "it has made one more", 240)
        wait_until(lambda: _ready(cluster, _REPLICAS) == 3, "it is ready", 120)
        claims = cluster.get("persistentvolumeclaims", "--namespace", NAMESPACE)["items"]
        assert f"data-{_STATEFUL}-2" in {it["metadata"]["name"] for it in claims}
    finally:
        metrics.stop()


def _counted(cluster: Cluster, name: str = "telemetry-gateway") -> tuple[int | None, int | None]:
    """How much of its CPU a replica uses, in percent, and how many there should be."""
    status = (cluster.find(f"horizontalpodautoscaler/{name}", NAMESPACE) or {}).get("status", {})
    cpu = [it["resource"] for it in status.get("currentMetrics") or [] if it.get("resource", {}).get("name") == "cpu"]
    return cpu[0]["current"].get("averageUtilization") if cpu else None, status.get("desiredReplicas")
