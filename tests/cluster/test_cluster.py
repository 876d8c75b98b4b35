"""The cluster itself: it has what the tests of Weir need, recovers when parts are killed, and leaves nothing behind."""

import json
import re
import subprocess
from pathlib import Path

from cluster import Cluster, Object, wait_until

_SERVICE = "web"
_NAMESPACE = "names"
_SPANS = 1_000
_WITHOUT_RIGHTS: Object = {
    "runAsNonRoot": True,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def _pod(
    name: str,
    namespace: str = "default",
    node: str | None = None,
    volumes: list[Object] | None = None,
    **container: object,
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 1,
            "volumes": volumes,
            "containers": [{"name": "main", "image": "weir.test/busybox:1"} | container],
        },
    }


def _service(name: str, namespace: str, port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": port}]},
    }


def _fetch(url: str) -> list[str]:
    """A command that gives a server the time that it and the rules of its Service need to come."""
    return ["sh", "-c", f"until wget -q -O - {url}; do sleep 0.2; done"]


def test_nodes_are_ready_and_have_addresses_of_their_own(cluster: Cluster) -> None:
    nodes = cluster.get("nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["node1", "node2"]
    addresses = {address["address"] for node in nodes for address in node["status"]["addresses"][:1]}
    assert len(addresses) == 2
    for node in nodes:
        conditions = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
        assert conditions["Ready"] == "True", conditions


def test_the_name_of_a_service_leads_to_its_pod_on_another_node(cluster: Cluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
    serve = ["sh", "-c", "echo found > /tmp/index.html; exec httpd -f -p 4318 -h /tmp"]
    cluster.apply(
        _pod(_SERVICE, _NAMESPACE, "node2", command=serve),
        _service(_SERVICE, _NAMESPACE, 4318),
        _pod("client", node="node1", command=_fetch(f"http://{_SERVICE}.{_NAMESPACE}:4318/")),
    )
    cluster.wait_for("pod/client", "jsonpath={.status.phase}=Succeeded")
    assert cluster.kubectl("logs", "client") == "found\n"


def test_lines_of_containers_are_files_of_the_node(cluster: Cluster) -> None:
    cluster.apply(_pod("one-line", node="node2", command=["echo", "a line"]))
    cluster.wait_for("pod/one-line", "jsonpath={.status.phase}=Succeeded")
    uid = cluster.get("pod", "one-line")["metadata"]["uid"]
    line = cluster.file("node2", f"/var/log/pods/default_one-line_{uid}/main/0.log").read_text()
    assert line.endswith(" stdout F a line\n"), line
    assert not cluster.file("node1", f"/var/log/pods/default_one-line_{uid}").exists()


def test_spans_go_through_weir_with_names_of_services(cluster: Cluster, weir_image: str) -> None:
    """From a pod to the gateway to a backend, all three of the image, and none with a right that it does not need."""
    listen = "--listen=0.0.0.0"
    pipeline = {
        "apiVersion": "telemetry.kyma-project.io/v1beta1",
        "kind": "TracePipeline",
        "metadata": {"name": "backend"},
        "spec": {"output": {"otlp": {"endpoint": {"value": "http://backend.default:14317"}}}},
    }
    configuration = {"name": "configuration", "configMap": {"name": "pipelines"}}
    mount = {"name": "configuration", "mountPath": "/pipelines"}
    run = ["run", "/pipelines", "--no-data-dir", listen]
    send = ["load", "traces", "--endpoint=gateway:4317", f"--items={_SPANS}", "--retry"]
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pipelines"},
         "data": {"pipeline.json": json.dumps(pipeline)}},
        _service("backend", "default", 14317),
        _service("gateway", "default", 4317),
        _pod("backend", image=weir_image, args=["sink", listen], securityContext=_WITHOUT_RIGHTS),
        _pod("gateway", volumes=[configuration],
             image=weir_image, args=run, volumeMounts=[mount], securityContext=_WITHOUT_RIGHTS),
    )
    cluster.wait_for("pod/backend", "condition=Ready")
    cluster.wait_for("pod/gateway", "condition=Ready")
    cluster.apply(_pod("sender", image=weir_image, args=send, securityContext=_WITHOUT_RIGHTS))
    cluster.wait_for("pod/sender", "jsonpath={.status.phase}=Succeeded")
    report = "/api/v1/namespaces/default/pods/backend:14319/proxy/report"
    wait_until(lambda: json.loads(cluster.kubectl("get", "--raw", report))["unique"] == _SPANS, "all spans arrived")


def test_the_api_server_comes_back_with_what_it_knew(cluster: Cluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"key": "value"}})
    cluster.run("kill", "kube-apiserver")
    cluster.run("start", "kube-apiserver")
    assert cluster.get("configmap", "kept")["data"] == {"key": "value"}


def test_a_node_that_is_killed_is_noticed_and_comes_back(cluster: Cluster) -> None:
    cluster.run("kill", "node2")
    cluster.wait_for("node/node2", "condition=Ready=Unknown")
    cluster.run("start", "node2")
    cluster.wait_for("node/node2", "condition=Ready")
    cluster.apply(_pod("after", node="node2", command=["echo", "again"]))
    cluster.wait_for("pod/after", "jsonpath={.status.phase}=Succeeded")


def test_api_servers_without_nodes_run_beside_each_other(tmp_path: Path) -> None:
    clusters = [Cluster(tmp_path / name) for name in ("one", "other")]
    try:
        for cluster in clusters:
            cluster.run("api")
        clusters[0].kubectl("create", "namespace", "only-here")
        names = [item["metadata"]["name"] for item in clusters[1].get("namespaces")["items"]]
        assert "default" in names and "only-here" not in names
    finally:
        for cluster in clusters:
            cluster.run("down")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left(tmp_path: Path) -> None:
    """Not even of a cluster whose processes were killed."""
    cluster = Cluster(tmp_path / "state")
    try:
        cluster.run("up", "1")
        network = re.search("network=(.*)", (cluster.state / "settings").read_text())[1]
        traces = _traces(cluster.state, f"weir{network}")
        assert traces["processes"] and traces["links"] and traces["routes"] and traces["cgroups"], traces
        for name in ("node1", "kube-apiserver", "etcd"):
            cluster.run("kill", name)
    finally:
        cluster.run("down")
    assert not cluster.state.exists()
    wait_until(lambda: not any(_traces(cluster.state, f"weir{network}").values()), "nothing is left", deadline_s=5)


def _traces(state: Path, name: str) -> dict[str, list[str]]:
    """What a cluster adds to this machine."""
    return {
        "processes": [directory.name for directory in Path("/proc").glob("[0-9]*") if _belongs(directory, state, name)],
        "links": [line for line in _lines("ip", "-oneline", "link") if re.search(rf"\b{name}\b", line)],
        "routes": [line for line in _lines("ip", "route") if re.search(rf"\b{name}\b", line)],
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(state) in line],
        "cgroups": _lines("find", "/sys/fs/cgroup", "-type", "d", "-name", f"{name}-*"),
    }


def _belongs(process: Path, state: Path, name: str) -> bool:
    try:
        in_cgroup = f"/{name}-" in (process / "cgroup").read_text()
        return in_cgroup or str(state).encode() in (process / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
