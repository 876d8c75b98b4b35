"""What must hold while parts fail: nothing is lost, nothing comes twice, and statuses are true again soon."""

import contextlib
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

import client
from backend import Backend, Item, matches
from cluster import Cluster, Object, pack, wait_until
from installation import NAMESPACE, NODES, OPERATORS, Installation
from load import Load, assert_once, ended, flow_on
from processes import figure, first_ok, page, processes_of, quantile, started_at
from scenarios import GROUP, NOBODY, is_ready

_KILLS = 50
# Of these, one of so many waits until it leads; the others are killed as they start.
_LEADS_EVERY = 5
_LINES_PER_SECOND = 200
_LOAD_S = 20
# Whoever is left without an answer waits longer, on a machine that has much else to do, too.
_LONGEST_WAIT_S = 5
# The kubelet waits longer before each of them.
_STARTS = 3
# Changes of a Secret, and how soon it has to be in effect, kubectl included.
_ROTATIONS, _ROTATED_S = 5, 5
# What a pipeline does that has changed.
_MARK = [{"statements": ['set(log.attributes["after"], "restart")']}]
_OPERATORS = "app.kubernetes.io/name=telemetry-manager"
_GATEWAY = "daemonset/telemetry-otlp-gateway"


def _pipeline(kind: str, name: str, endpoint: str | Object, **spec: object) -> Object:
    value = {"value": endpoint} if isinstance(endpoint, str) else endpoint
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"output": {"otlp": {"endpoint": value}}, **spec},
    }


def _secret(name: str, namespace: str = "default", **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "stringData": data}


def _pod(name: str, image: str, command: list[str] | None, args: list[str] | None = None) -> Object:
    container = {"name": "main", "image": image, "command": command, "args": args}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, "restartPolicy": "Never"},
    }


class Scene:
    """Pipelines and pods of one test, and what to wait for."""

    def __init__(self, installation: Installation):
        self.installation = installation
        self.cluster = installation.cluster
        self.backends: list[Backend] = []
        self.pods: list[str] = []

    def backend(self) -> Backend:
        self.backends.append(Backend(self.cluster.address))
        return self.backends[-1]

    def start(self, name: str, image: str, command: list[str] | None, args: list[str] | None = None, node: str | None = None) -> None:
        self.pods.append(name)
        pod = _pod(name, image, command, args)
        if node:
            pod["spec"]["nodeName"] = node
        self.cluster.apply(pod)

    def wait_for(self, pipeline: str, kind: str, reason: str) -> None:
        """Of the pipeline as it is now: what was said of an earlier version of it does not count."""

        def holds() -> bool:
            found = self.cluster.find(pipeline) or {"metadata": {}}
            wanted, now = (kind, reason), found["metadata"].get("generation")
            conditions = found.get("status", {}).get("conditions", [])
            return any((it["type"], it["reason"]) == wanted and it.get("observedGeneration") == now for it in conditions)

        wait_until(holds, f"{pipeline}: {kind} is {reason}", 90)

    def change(self, changed: Object) -> None:
        """The API server asks webhooks, and there may be none for a moment."""
        wait_until(lambda: _is_done(lambda: self.cluster.apply(changed)), "a change is taken")

    def wait_for_success(self, pod: str) -> None:
        self.cluster.wait_for(f"pod/{pod}", "jsonpath={.status.phase}=Succeeded", deadline_s=180)

    def pushes(self, endpoint: str, name: str = "load", node: str | None = None, seconds: int = _LOAD_S) -> None:
        """A client that pushes log records, each with a number, as fast as 500 a second, and again until it is told yes."""
        send = ["load", "logs", f"--endpoint={endpoint}", "--rate=500", f"--items={500 * seconds}", "--retry", "--size=100"]
        self.start(name, self.installation.image, None, send, node)

    def pushes_until_stopped(self) -> list[Load]:
        """A client of each signal on each node, until it is stopped."""
        places = [(number, node, signal) for number, node in enumerate(("node1", "node2")) for signal in Load.SIGNALS]
        loads = [Load(self.installation, node, signal, number) for number, node, signal in places]
        self.pods += [load.name for load in loads]
        return loads

    def close(self) -> None:
        for backend in self.backends:
            backend.stop()
        self.cluster.kubectl("delete", "kyma-telemetry-pipelines", "--all", "--timeout=60s")
        for pod in self.pods:
            self.cluster.kubectl("delete", "pod", pod, "--force", "--grace-period=0", "--ignore-not-found")


class Rights:
    """What the operator may do in the whole cluster. In its own namespace it may go on."""

    _USER = f"system:serviceaccount:{NAMESPACE}:{OPERATORS}"
    _SOME = "only-some-rights"

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._all = _again(cluster.find("clusterrolebinding/telemetry-manager-rolebinding"))
        self._role = _again(cluster.find("clusterrole/telemetry-manager-role"))

    def take(self) -> None:
        self._cluster.kubectl("delete", f"clusterrolebinding/{self._all['metadata']['name']}")
        self._wait_until_it_may("list", "tracepipelines", False)

    def give_all_but(self, resource: str) -> None:
        """By a role of the test: that of the installation stays as it is."""
        metadata = {"name": self._SOME}
        rules = [rule for rule in self._role["rules"] if rule.get("resources") != [resource]]
        assert len(rules) < len(self._role["rules"]), f"no rule is of {resource} alone"
        reference = {**self._all["roleRef"], "name": self._SOME}
        role, binding = {**self._role, "metadata": metadata, "rules": rules}, {**self._all, "metadata": metadata, "roleRef": reference}
        self._cluster.apply(role, binding)
        self._wait_until_it_may("list", "tracepipelines", True)
        assert not self._cluster.can(self._USER, "list", resource)

    def give_back(self) -> None:
        self._cluster.apply(self._all)
        self._cluster.kubectl("delete", f"clusterrole/{self._SOME}", f"clusterrolebinding/{self._SOME}", "--ignore-not-found")
        self._wait_until_it_may("list", "secrets", True)

    def _wait_until_it_may(self, verb: str, resource: str, expected: bool) -> None:
        words = "may" if expected else "may not"
        wait_until(lambda: self._cluster.can(self._USER, verb, resource) == expected, f"the operator {words} {verb} {resource}")


@pytest.fixture
def rights(installation: Installation) -> Iterator[Rights]:
    rights = Rights(installation.cluster)
    yield rights
    rights.give_back()


@pytest.fixture
def scene(installation: Installation) -> Iterator[Scene]:
    scene = Scene(installation)
    yield scene
    scene.close()


def test_operators_may_be_killed_at_any_time(scene: Scene) -> None:
    """Pipelines change meanwhile; the DaemonSet is not made anew, and what is said at the end is true."""
    cluster = scene.cluster
    cluster.apply(_pipeline("TracePipeline", "kept", NOBODY))
    before = wait_until(lambda: cluster.find(_GATEWAY, NAMESPACE), "the DaemonSet is there")["metadata"]
    began = time.monotonic()
    for kill in range(_KILLS):
        scene.change(_pipeline("TracePipeline", "changing", NOBODY if kill % 2 else "http://no-port.example.com"))
        if kill % _LEADS_EVERY == 0:
            wait_until(lambda: _leader(cluster) in _operators(cluster), "the operator leads", 60)
        _kill_operators(cluster)
    print(f"{_KILLS} operators killed in {time.monotonic() - began:.0f} s, of which {_KILLS // _LEADS_EVERY} led")
    scene.change(_pipeline("TracePipeline", "changing", "http://no-port.example.com"))
    scene.wait_for("tracepipeline/changing", "ConfigurationGenerated", "EndpointInvalid")
    scene.wait_for("tracepipeline/kept", "ConfigurationGenerated", "GatewayConfigured")
    after = cluster.find(_GATEWAY, NAMESPACE)["metadata"]
    assert (after["uid"], after["generation"]) == (before["uid"], before["generation"])


def test_another_operator_takes_over(scene: Scene) -> None:
    installation, cluster = scene.installation, scene.cluster
    installation.install(operator={"replicas": 2})
    leader = _leader(cluster)
    cluster.kubectl("delete", "pod", leader, "--namespace", NAMESPACE, "--grace-period=0", "--force", "--ignore-not-found")
    began = time.monotonic()
    wait_until(lambda: _leader(cluster) not in ("", leader), "another leads", 30)
    print(f"another leads after {time.monotonic() - began:.1f} s")
    cluster.apply(_pipeline("TracePipeline", "after", NOBODY))
    scene.wait_for("tracepipeline/after", "ConfigurationGenerated", "GatewayConfigured")
    installation.install()


@pytest.mark.nodes
def test_without_an_operator_changes_are_refused_and_data_flows(scene: Scene) -> None:
    """Nobody answers the webhooks: an object that nobody has judged is not stored, and the last words say why."""
    cluster, backend = scene.cluster, scene.backend()
    cluster.apply(_pipeline("LogPipeline", "flow", backend.endpoint, input={"runtime": {"enabled": False}}))
    scene.wait_for("logpipeline/flow", "GatewayHealthy", "GatewayReady")
    scale = ("scale", "deployment/telemetry-manager", "--namespace", NAMESPACE, "--replicas")
    cluster.kubectl(*scale, "0")
    cluster.kubectl("wait", "pod", "--namespace", NAMESPACE, "--selector", _OPERATORS, "--for=delete", "--timeout=60s")
    with pytest.raises(AssertionError, match="failed calling webhook"):
        cluster.apply(_pipeline("TracePipeline", "new", NOBODY))
    scene.pushes(f"telemetry-otlp.{NAMESPACE}:4317")
    scene.wait_for_success("load")
    _all_arrived_once([backend], 500 * _LOAD_S)
    cluster.kubectl(*scale, "1")
    scene.change(_pipeline("TracePipeline", "new", NOBODY))
    scene.wait_for("tracepipeline/new", "ConfigurationGenerated", "GatewayConfigured")


@pytest.mark.nodes
def test_a_namespace_may_be_deleted_with_what_pipelines_need_of_it(scene: Scene) -> None:
    cluster, backend = scene.cluster, scene.backend()
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}})
    cluster.apply(_secret("backend", "doomed", endpoint=backend.endpoint))
    reference = {"valueFrom": {"secretKeyRef": {"name": "backend", "namespace": "doomed", "key": "endpoint"}}}
    cluster.apply(_pipeline("TracePipeline", "doomed", reference))
    cluster.apply(_pipeline("LogPipeline", "other", backend.endpoint, input={"runtime": {"enabled": False}}))
    scene.wait_for("tracepipeline/doomed", "ConfigurationGenerated", "GatewayConfigured")
    cluster.kubectl("delete", "namespace", "doomed", "--timeout=60s")
    scene.wait_for("tracepipeline/doomed", "ConfigurationGenerated", "ReferencedSecretMissing")
    scene.pushes(f"telemetry-otlp.{NAMESPACE}:4317")
    scene.wait_for_success("load")
    _all_arrived_once([backend], 500 * _LOAD_S)
    scene.wait_for("logpipeline/other", "TelemetryFlowHealthy", "FlowHealthy")


@pytest.mark.nodes
def test_the_api_server_may_restart_while_data_flows(scene: Scene) -> None:
    cluster, backend = scene.cluster, scene.backend()
    cluster.apply(_pipeline("LogPipeline", "flow", backend.endpoint, input={"runtime": {"enabled": False}}))
    scene.wait_for("logpipeline/flow", "GatewayHealthy", "GatewayReady")
    scene.pushes(f"telemetry-otlp.{NAMESPACE}:4317")
    wait_until(lambda: backend.items("logs"), "data flows")
    cluster.run("kill", "kube-apiserver")
    count = len(backend.items("logs"))
    wait_until(lambda: len(backend.items("logs")) > count + 500, "data flows on without an API server")
    cluster.run("start", "kube-apiserver")
    # All that is said from here on is said after the restart: of a pipeline that is new, and of one that has changed.
    later = scene.backend()
    scene.change(_pipeline("LogPipeline", "later", later.endpoint, input={"runtime": {"enabled": False}}))
    scene.change(_pipeline("LogPipeline", "flow", backend.endpoint, input={"runtime": {"enabled": False}}, transform=_MARK))
    for pipeline in ("logpipeline/later", "logpipeline/flow"):
        scene.wait_for(pipeline, "ConfigurationGenerated", "GatewayConfigured")
        scene.wait_for(pipeline, "GatewayHealthy", "GatewayReady")
    scene.wait_for_success("load")
    _all_arrived_once([backend], 500 * _LOAD_S)
    count = len(later.items("logs"))
    scene.pushes(f"telemetry-otlp.{NAMESPACE}:4317", "load-later", seconds=2)
    wait_until(lambda: len(later.items("logs")) > count, "data flows to a pipeline that came after the restart")
    wait_until(lambda: any(map(_is_marked, backend.items("logs"))), "data is what a pipeline says that changed after the restart")
    scene.wait_for_success("load-later")
    # What is left in a journal goes to the next pipeline of that name.
    wait_until(lambda: len(backend.items("logs")) == 500 * (_LOAD_S + 2), "nothing is left")
    for pipeline in ("logpipeline/later", "logpipeline/flow"):
        scene.wait_for(pipeline, "TelemetryFlowHealthy", "FlowHealthy")


@pytest.mark.nodes
def test_a_node_may_be_killed_while_the_api_server_hangs(scene: Scene) -> None:
    """The kubelet starts its container again, and it goes on with its last good configuration. Nothing is lost, and what its
    clients push comes twice only if it was under way when it was killed; what others push comes once."""
    cluster, backend = scene.cluster, scene.backend()
    cluster.apply(_pipeline("TracePipeline", "spans", backend.endpoint))
    cluster.apply(_pipeline("LogPipeline", "records", backend.endpoint, input={"runtime": {"enabled": False}}))
    for pipeline in ("tracepipeline/spans", "logpipeline/records"):
        scene.wait_for(pipeline, "GatewayHealthy", "GatewayReady")
    cluster.kubectl("rollout", "status", _GATEWAY, "--namespace", NAMESPACE, "--timeout=120s")
    loads = scene.pushes_until_stopped()
    flow_on(loads, backend)
    of_node, others = [load for load in loads if load.node == "node1"], [load for load in loads if load.node != "node1"]
    pod = next(pod["metadata"] for pod in _pods_of_nodes(cluster) if is_ready(pod) and pod["spec"]["nodeName"] == "node1")
    with _hanging_api_server(cluster):
        killed = _programs(pod["uid"])
        assert killed, f"no process of {pod['name']} was found"
        began = time.monotonic()
        for process in killed:
            os.kill(process, signal.SIGKILL)
        wait_until(lambda: _programs(pod["uid"]) - killed, "the container starts again")
        flow_on(of_node, backend)
        print(f"data flows {time.monotonic() - began:.1f} s after a node was killed")
        flow_on(others, backend)
    wait_until(lambda: _is_done(lambda: cluster.kubectl("get", "--raw=/readyz")), "the API server answers again")
    said = cluster.kubectl("logs", pod["name"], "--namespace", NAMESPACE)
    assert "beginning with the last good one" in said, said
    scene.change(_pipeline("LogPipeline", "records", backend.endpoint, input={"runtime": {"enabled": False}}, transform=_MARK))
    of_logs = [load for load in loads if load.signal == "logs"]
    wait_until(lambda: all(any(map(_is_marked, load.items(backend))) for load in of_logs), "each node is told of a change", 90)
    pushed = ended(loads, backend)
    assert_once([(load, report) for load, report in pushed if load in others], backend)
    for load in of_node:
        print(f"{load.name}: {sum(count > 1 for count in load.arrived(backend).values())} items arrived twice")


@contextlib.contextmanager
def _hanging_api_server(cluster: Cluster) -> Iterator[None]:
    """The kernel goes on to take connections for it, and nobody is answered: whoever asks it waits, and kubectl, too."""
    process = int((cluster.state / "pid/kube-apiserver").read_text().split()[0])
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def _programs(pod_uid: str) -> set[int]:
    """The processes of a pod but for the one that holds its namespaces."""
    found = set()
    for process in processes_of(pod_uid):
        with contextlib.suppress(OSError):
            program = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]
            if program.endswith(b"weir"):
                found.add(process)
    return found


@pytest.mark.nodes
def test_a_container_that_starts_again_takes_data_soon(scene: Scene) -> None:
    """How soon counts from the start of its process. What the kubelet waits before that is its own."""
    cluster, backend = scene.cluster, scene.backend()
    cluster.apply(_pipeline("TracePipeline", "again", backend.endpoint))
    scene.wait_for("tracepipeline/again", "GatewayHealthy", "GatewayReady")
    pod = cluster.find(f"pod/{_pod_of_a_node(cluster)}", NAMESPACE)
    address, uid = f"{pod['status']['podIP']}:4318", pod["metadata"]["uid"]
    first_ok(address)
    starts = []
    for _ in range(_STARTS):
        before = _programs(uid)
        for process in before:
            os.kill(process, signal.SIGKILL)
        taken_at = first_ok(address, 90)
        [process] = _programs(uid) - before
        starts.append(1000 * (taken_at - started_at(process)))
    print(f"first OK after a container's process started: {', '.join(f'{start:.0f}' for start in starts)} ms")
    wait_until(lambda: len(backend.items("traces")) > _STARTS, "what was taken arrived")


@pytest.mark.nodes
def test_rights_may_be_taken_away_while_data_flows(scene: Scene, rights: Rights) -> None:
    """Nodes go on, and are told of changes; the operator says what it may not do, and does it when it may."""
    cluster, installation = scene.cluster, scene.installation
    backend, other = scene.backend(), scene.backend()
    cluster.apply(_pipeline("LogPipeline", "flow", backend.endpoint, input={"runtime": {"enabled": False}}))
    scene.wait_for("logpipeline/flow", "GatewayHealthy", "GatewayReady")
    node, operator = _address(cluster, _pod_of_a_node(cluster)), _address(cluster, _leader(cluster))
    errors = lambda: figure(page(f"{operator}:8080", "/metrics") or "", "weir_operator_write_errors_total")
    scene.pushes(f"telemetry-otlp.{NAMESPACE}:4317")
    wait_until(lambda: backend.items("logs"), "data flows")

    before = errors()
    rights.take()
    count = len(backend.items("logs"))
    wait_until(lambda: len(backend.items("logs")) > count + 500, "data flows on while the operator may do nothing")
    cluster.apply(_pipeline("TracePipeline", "untold", other.endpoint))
    says = lambda *words: any(all(word in str(line) for word in words) for line in installation.logs())
    wait_until(lambda: says("'WARN'", "TracePipeline untold", "tracepipelines/status", "forbidden"), "the log names what is forbidden")
    wait_until(lambda: errors() > before, "it is counted")
    wait_until(lambda: _is_pushed(node) and other.items("traces"), "nodes do what the pipeline says")
    assert "status" not in cluster.find("tracepipeline/untold")

    rights.give_all_but("secrets")
    cluster.apply(_secret("unread", endpoint=NOBODY))
    reference = {"valueFrom": {"secretKeyRef": {"name": "unread", "namespace": "default", "key": "endpoint"}}}
    cluster.apply(_pipeline("TracePipeline", "unread", reference))
    scene.wait_for("tracepipeline/untold", "ConfigurationGenerated", "GatewayConfigured")
    scene.wait_for("tracepipeline/unread", "ConfigurationGenerated", "ValidationFailed")
    told = [it["message"] for it in cluster.find("tracepipeline/unread")["status"]["conditions"]]
    assert any(re.search("cannot read Secret 'unread' of Namespace 'default': .*forbidden", message) for message in told), told

    rights.give_back()
    scene.wait_for("tracepipeline/unread", "ConfigurationGenerated", "GatewayConfigured")
    scene.wait_for_success("load")
    _all_arrived_once([backend], 500 * _LOAD_S)


@pytest.mark.nodes
def test_a_node_may_be_lost(scene: Scene) -> None:
    """What waits and runs on others goes on, and the status says what is missing. What waits on the disk of the lost one is
    delivered when it is back, and all is well."""
    cluster, backend, later = scene.cluster, scene.backend(), scene.backend()
    cluster.apply(_secret("kept", endpoint=NOBODY))
    reference = {"valueFrom": {"secretKeyRef": {"name": "kept", "namespace": "default", "key": "endpoint"}}}
    cluster.apply(_pipeline("TracePipeline", "kept", reference))
    cluster.apply(_pipeline("LogPipeline", "flow", backend.endpoint, input={"runtime": {"enabled": False}}))
    scene.wait_for("logpipeline/flow", "GatewayHealthy", "GatewayReady")
    endpoint, spans = f"telemetry-otlp.{NAMESPACE}:4317", 1000
    push = ["load", "traces", f"--endpoint={endpoint}", f"--items={spans}", "--attributes=2", "--retry"]
    scene.start("kept", scene.installation.image, None, push, "node2")
    scene.wait_for_success("kept")
    scene.pushes(endpoint, node="node1")
    wait_until(lambda: backend.items("logs"), "data flows")
    cluster.run("kill", "node2")
    cluster.apply(_secret("kept", endpoint=later.endpoint))
    scene.wait_for("logpipeline/flow", "GatewayHealthy", "RolloutInProgress")
    scene.wait_for_success("load")
    _all_arrived_once([backend], 500 * _LOAD_S)
    scene.wait_for("logpipeline/flow", "TelemetryFlowHealthy", "FlowHealthy")
    assert not later.items("traces"), "nobody else has them"
    cluster.run("start", "node2")
    scene.wait_for("logpipeline/flow", "GatewayHealthy", "GatewayReady")
    _all_arrived_once([later], spans, "traces")


@pytest.mark.nodes
def test_an_update_loses_nothing_and_keeps_no_client_waiting(scene: Scene) -> None:
    """Containers print and clients on both nodes push from before it until after it. Each line arrives once, and so does each
    item, unless its client had to send it again."""
    installation, cluster, backend = scene.installation, scene.cluster, scene.backend()
    cluster.apply(_pipeline("TracePipeline", "spans", backend.endpoint))
    cluster.apply(_pipeline("LogPipeline", "lines", backend.endpoint, input={"runtime": {"namespaces": {"include": ["default"]}}}))
    scene.wait_for("tracepipeline/spans", "GatewayHealthy", "GatewayReady")
    scene.wait_for("logpipeline/lines", "AgentHealthy", "AgentReady")
    loads = scene.pushes_until_stopped()
    pause = f"[ $((i%{_LINES_PER_SECOND})) != 0 ] || sleep 1"
    loop = f"i=0; until [ -e /tmp/enough ]; do echo line $i; i=$((i+1)); {pause}; done; echo $i >/tmp/lines; sleep 600"
    scene.start("writer", "weir.test/busybox:1", ["sh", "-c", loop])
    bodies = lambda: Counter(it["item"].get("body", "") for it in backend.items("logs"))
    flow_on(loads, backend)
    wait_until(lambda: bodies()["line 0"], "lines flow")
    _update(scene)
    flow_on(loads, backend)
    end = "touch /tmp/enough; until [ -s /tmp/lines ]; do sleep 1; done; cat /tmp/lines"
    lines = int(cluster.kubectl("exec", "writer", "--", "sh", "-c", end))
    pushed = ended(loads, backend)
    wanted = {f"line {number}" for number in range(lines)}
    wait_until(lambda: wanted <= bodies().keys(), f"all {lines} lines arrived", 120)
    installation.install()
    twice = [line for line, count in bodies().items() if count > 1 and line in wanted]
    assert not twice, f"{len(twice)} of {lines} lines arrived twice: {twice[:9]}"
    assert_once(pushed, backend)
    for load, report in pushed:
        assert report.longest_wait_s < _LONGEST_WAIT_S, f"{load.name} waited for {report.longest_wait_s:.1f} s"


def _update(scene: Scene) -> None:
    """Until nothing is left of the pods before."""
    installation, cluster, began = scene.installation, scene.cluster, time.monotonic()
    installation.install(nodes=installation.values["nodes"] | {"podLabels": {"updated": "yes"}})
    before = ("--namespace", NAMESPACE, "--selector", f"app.kubernetes.io/name={NODES},updated!=yes")
    wait_until(lambda: not cluster.get("pods", *before)["items"], "all pods are new", 180)
    cluster.kubectl("rollout", "status", _GATEWAY, "--namespace", NAMESPACE, "--timeout=120s")
    print(f"updated in {time.monotonic() - began:.1f} s")


@pytest.mark.nodes
def test_a_secret_may_change_under_load(scene: Scene) -> None:
    cluster, backends = scene.cluster, [scene.backend(), scene.backend()]
    reference = {"valueFrom": {"secretKeyRef": {"name": "rotated", "namespace": "default", "key": "endpoint"}}}
    cluster.apply(_secret("rotated", endpoint=backends[0].endpoint))
    cluster.apply(_pipeline("LogPipeline", "rotated", reference, input={"runtime": {"enabled": False}}))
    scene.wait_for("logpipeline/rotated", "GatewayHealthy", "GatewayReady")
    cluster.kubectl("rollout", "status", _GATEWAY, "--namespace", NAMESPACE, "--timeout=120s")
    pods = _pods(cluster)
    scene.pushes(f"telemetry-otlp.{NAMESPACE}:4317")
    wait_until(lambda: backends[0].items("logs"), "data flows")
    took = []
    for turn in range(1, _ROTATIONS + 1):
        backend = backends[turn % 2]
        count, began = len(backend.items("logs")), time.monotonic()
        cluster.apply(_secret("rotated", endpoint=backend.endpoint))
        wait_until(lambda: len(backend.items("logs")) > count, "data flows to where the Secret says")
        took.append(time.monotonic() - began)
    each = ", ".join(f"{seconds:.2f}" for seconds in took)
    print(f"from a change of a Secret until data flows there: median {quantile(took, 0.5):.2f} s of {each} s")
    assert max(took) < _ROTATED_S
    scene.wait_for_success("load")
    _all_arrived_once(backends, 500 * _LOAD_S)
    assert _pods(cluster) == pods, "pods were restarted"


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Scene]:
    """A scene in a cluster of its own: other tests need what this one loses."""
    cluster, image = Cluster(tmp_path / "cluster"), "weir.test/weir:1"
    try:
        cluster.run("up", "1")
        cluster.run("load-image", pack(tmp_path / "weir.tar", image))
        installation = Installation(cluster, image)
        installation.install()
        scene = Scene(installation)
        yield scene
        for backend in scene.backends:
            backend.stop()
    finally:
        cluster.run("down")


@pytest.mark.nodes
def test_what_waits_on_a_node_outlives_the_namespace_of_weir(doomed: Scene) -> None:
    """Somebody deletes it under load, and goes on as docs/operations.md says. Pipelines were never in it, and a Secret was."""
    installation, cluster, backend, later = doomed.installation, doomed.cluster, doomed.backend(), doomed.backend()
    reference = {"valueFrom": {"secretKeyRef": {"name": "kept", "namespace": NAMESPACE, "key": "endpoint"}}}
    cluster.apply(_secret("kept", NAMESPACE, endpoint=NOBODY))
    cluster.apply(_pipeline("TracePipeline", "kept", reference))
    cluster.apply(_pipeline("LogPipeline", "flow", backend.endpoint, input={"runtime": {"enabled": False}}))
    for pipeline in ("tracepipeline/kept", "logpipeline/flow"):
        doomed.wait_for(pipeline, "GatewayHealthy", "GatewayReady")
    spans = 1000
    push = ["load", "traces", f"--endpoint=telemetry-otlp.{NAMESPACE}:4317", f"--items={spans}", "--attributes=2", "--retry"]
    doomed.start("kept", installation.image, None, push)
    doomed.wait_for_success("kept")
    loads = [Load(installation, "node1", "logs", 0)]
    flow_on(loads, backend)

    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    wait_until(lambda: not cluster.get("pods", "--namespace", NAMESPACE)["items"], "nothing runs in it any more", 180)
    assert cluster.find("telemetry/default", NAMESPACE), "nothing keeps the namespace"
    no_finalizers = '{"metadata": {"finalizers": null}}'
    cluster.kubectl("patch", "telemetry", "default", "--namespace", NAMESPACE, "--type=merge", f"--patch={no_finalizers}")
    wait_until(lambda: not cluster.find(f"namespace/{NAMESPACE}"), "the namespace is gone", 120)
    installation.install()
    cluster.apply(_secret("kept", NAMESPACE, endpoint=later.endpoint))

    _all_arrived_once([later], spans, "traces")
    flow_on(loads, backend)


def _all_arrived_once(backends: list[Backend], items: int, signal: str = "logs") -> None:
    everything = lambda: [it["item"]["spanId"] for backend in backends for it in backend.items(signal)]
    wait_until(lambda: len(set(everything())) >= items, f"{items} items arrived")
    assert len(everything()) == items, f"{len(everything()) - items} arrived twice"


def _operators(cluster: Cluster) -> dict[str, str]:
    """Names and uids of their pods that are not about to go."""
    pods = (pod["metadata"] for pod in cluster.get("pods", "--namespace", NAMESPACE, "--selector", _OPERATORS)["items"])
    return {pod["name"]: pod["uid"] for pod in pods if "deletionTimestamp" not in pod}


def _kill_operators(cluster: Cluster) -> None:
    """Without a word: the kubelet would ask them to end. Their pods go, too, because a container would come back later each time."""
    for uid in _operators(cluster).values():
        for process in processes_of(uid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    selector = ("--namespace", NAMESPACE, "--selector", _OPERATORS)
    cluster.kubectl("delete", "pod", *selector, "--grace-period=0", "--force", "--wait=false")


def _leader(cluster: Cluster) -> str:
    """The pod that leads."""
    lease = cluster.find("lease/cdd7ef0b.kyma-project.io", NAMESPACE) or {}
    return ((lease.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]


def _address(cluster: Cluster, pod: str) -> str:
    return cluster.find(f"pod/{pod}", NAMESPACE)["status"]["podIP"]


def _pods_of_nodes(cluster: Cluster) -> list[Object]:
    return cluster.get("pods", "--namespace", NAMESPACE, "--selector", f"app.kubernetes.io/name={NODES}")["items"]


def _pod_of_a_node(cluster: Cluster) -> str:
    return next(pod["metadata"]["name"] for pod in _pods_of_nodes(cluster) if is_ready(pod))


def _is_marked(item: Item) -> bool:
    return matches(item, {"item": {"attributes": {"after": "restart"}}})


def _is_pushed(node: str) -> bool:
    """A span, which a node refuses as long as no pipeline wants any."""
    try:
        client.push(f"{node}:4317", "traces", {}, {})
    except grpc.RpcError:
        return False
    return True


def _again(found: Object) -> Object:
    """What makes the same object another time."""
    metadata = {key: found["metadata"][key] for key in ("name", "labels", "annotations") if key in found["metadata"]}
    return {**found, "metadata": metadata}


def _pods(cluster: Cluster) -> set[str]:
    staying = (pod["metadata"] for pod in _pods_of_nodes(cluster))
    return {pod["uid"] for pod in staying if "deletionTimestamp" not in pod}


def _is_done(what: Callable[[], object]) -> bool:
    try:
        what()
    except AssertionError:
        return False
    return True
