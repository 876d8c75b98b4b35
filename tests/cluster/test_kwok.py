"""A thousand nodes and ten thousand pods that kwok makes up: what the operator and one node that runs cost there, and how
much they ask of the API server. Pods of fake nodes answer nobody."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster, Object, wait_until
from processes import Process, figure, page, stop_all
from rest import Asked, Rest
from scenarios import GROUP
from test_fleet import address, node, operator, pipeline, set_up

_NODES = 1000
_PODS = 10_000
_ON_ONE = 110
_IDLE_S = 60
# What must not be exceeded: what was measured, and half of that.
_OPERATOR_MB = 46
_NODE_MB = 57
# 28 are for the Lease. All watches are made anew every few minutes: with those it was 56.
_REQUESTS_A_MINUTE = 80
_PROGRAMS = Path(os.environ.get("WEIR_CLUSTER_CACHE", Path(__file__).parent / ".cache"))
_REAL = "fake-1"

pytestmark = pytest.mark.skipif(not (_PROGRAMS / "bin/kwok").exists(), reason="no kwok: tests/cluster/build.sh kwok")


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster")
    try:
        set_up(cluster, Asked(tmp_path))
        cluster.run("kwok", str(_NODES))
        yield cluster
    finally:
        cluster.run("down")


def _pod(number: int) -> Object:
    """As a Deployment makes them. The first are on the node that is real, the others anywhere else."""
    node = 1 if number < _ON_ONE - 1 else 2 + number % (_NODES - 1)
    app = f"app-{number // 10}"
    containers = [{
        "name": "main",
        "image": f"registry.example.com/{app}:1.2.3",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "env": [{"name": f"VARIABLE_{each}", "value": "x" * 40} for each in range(10)],
    }]
    metadata = {
        "name": f"{app}-7d4b9c6f5d-{number:05}",
        "labels": {"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": "7d4b9c6f5d"},
        "annotations": {"checksum/config": "d0f" * 20},
    }
    tolerations = [{"operator": "Exists"}]
    spec = {"nodeName": f"fake-{node}", "containers": containers, "tolerations": tolerations}
    return {"metadata": metadata, "spec": spec}


def _watch_figure(number: int, kind: str, scope: str) -> float:
    text = page(f"{address(number)}:8888", "/metrics") or ""
    lines = (line for line in text.splitlines() if f'"{kind}"' in line and f'"{scope}"' in line)
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("weir_watch_objects"))


def test_a_large_cluster(large: Cluster, tmp_path: Path) -> None:
    rest, asked = Rest(large), Asked(tmp_path)
    began = time.monotonic()
    rest.create("/api/v1/namespaces/default/pods", (_pod(number) for number in range(_PODS)))
    print(f"{_PODS} pods made in {time.monotonic() - began:.0f} s")
    rest.call("POST", f"/apis/{GROUP}/v1beta1/tracepipelines", pipeline("one", "http://127.0.0.1:1"))
    first = operator(large, tmp_path)
    processes = [first]
    try:
        _the_operator(first)
        _is_idle(asked, "operator alone", {"weir-operator": first})
        assert first.peak_mb() < _OPERATOR_MB
        one = node(large, tmp_path, 1, _REAL)
        processes.append(one)
        both = {"weir-operator": first, "weir-node": one}
        wait_until(lambda: _watch_figure(1, "Pod", "node") >= _ON_ONE, "the node knows its pods", 120)
        time.sleep(10)
        print(f"node with {_watch_figure(1, 'Pod', 'node'):.0f} pods: {one.rss_mb():.1f} MB, {one.peak_mb():.1f} MB at most")
        _is_idle(asked, "with a node", both)
        assert one.peak_mb() < _NODE_MB
        metrics = pipeline("state", "http://127.0.0.1:1")
        metrics["kind"], metrics["spec"]["input"] = "MetricPipeline", {"runtime": {"enabled": True}}
        rest.call("POST", f"/apis/{GROUP}/v1beta1/metricpipelines", metrics)
        wait_until(lambda: _watch_figure(1, "Pod", "cluster") >= _PODS, "the leader knows all pods", 600)
        time.sleep(60)
        print(
            f"the one that speaks for {_watch_figure(1, 'Pod', 'cluster'):.0f} pods and {_watch_figure(1, 'Node', 'cluster'):.0f} "
            f"nodes: {one.rss_mb():.1f} MB, {one.peak_mb():.1f} MB at most"
        )
        _is_idle(asked, "with a node that leads", both)
    finally:
        stop_all(processes)


def _the_operator(process: Process) -> None:
    """It sees a pod of each node, of which none answers."""
    metrics = lambda name: figure(page("127.0.9.1:8080", "/metrics") or "", name)
    wait_until(lambda: metrics("weir_operator_nodes") >= _NODES, "each node has a pod", 600)
    wait_until(lambda: any(line.get("reason") == "GatewayReady" for line in process.lines()), "the status says so", 600)
    print(f"operator with {metrics('weir_operator_nodes'):.0f} pods: {process.rss_mb():.1f} MB, {process.peak_mb():.1f} MB at most")


def _is_idle(asked: Asked, what: str, processes: dict[str, Process]) -> None:
    before = {user: asked.by(user) for user in processes}
    used = {user: process.cpu_s() for user, process in processes.items()}
    time.sleep(_IDLE_S)
    for user, process in processes.items():
        share = 100 * (process.cpu_s() - used[user]) / _IDLE_S
        wanted = asked.by(user) - before[user]
        a_minute = wanted.total() / _IDLE_S * 60
        print(
            f"{what}, idle: {user} {process.rss_mb():.1f} MB, {share:.2f} % of a core, "
            f"{a_minute:.0f} requests a minute {dict(wanted)}"
        )
        assert a_minute < _REQUESTS_A_MINUTE, what
