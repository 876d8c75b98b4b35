"""The chart: what it makes, takes over from an older installation, and leaves."""

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from cluster import HELM, Cluster, Refused, pack, wait_until
from installation import NAMESPACE, NODES, Installation
from scenarios import GROUP, NOBODY

_OPERATORS = ("--namespace", NAMESPACE, "--selector", "app.kubernetes.io/name=telemetry-manager")
_NODES = ("--namespace", NAMESPACE, "--selector", f"app.kubernetes.io/name={NODES}")
_ADMIN_PORT = 55679
# Where deploy/README.md has a registry, and what a newcomer runs there.
_REGISTRY = "registry.example.com"
_NEWCOMER_S = 240
# A kubelet looks at the Secrets of a pod once a minute or so. Four times that.
_MOUNTED_S = 240
_OLD: list[tuple[str, str]] = [
    ("Deployment", "telemetry-trace-gateway"),
    ("DaemonSet", "telemetry-log-agent"),
    ("DaemonSet", "telemetry-metric-agent"),
    ("DaemonSet", "telemetry-fluent-bit"),
    ("Deployment", "telemetry-self-monitor"),
]


# What belonged to these programs, to the gateway that goes on, and to the manager: what one of 1.69 had made for a pipeline of
# each kind and one with `output.http`, and what is of earlier versions alone. Some of it is of the whole cluster.
_LEFT: dict[tuple[str, str], list[str]] = {
    ("v1", "ServiceAccount"): [
        "telemetry-trace-gateway",
        "telemetry-fluent-bit",
        "telemetry-log-agent",
        "telemetry-metric-agent",
        "telemetry-self-monitor",
    ],
    ("v1", "ConfigMap"): [
        "telemetry-metric-gateway",
        "telemetry-fluent-bit",
        "telemetry-fluent-bit-files",
        "telemetry-fluent-bit-luascripts",
        "telemetry-fluent-bit-sections",
        "telemetry-log-agent",
        "telemetry-metric-agent",
        "telemetry-otlp-gateway",
        "telemetry-otlp-gateway-coordination",
        "telemetry-self-monitor",
        "telemetry-logpipeline-lock",
        "telemetry-logpipeline-sync-syncer",
        "telemetry-metricpipeline-lock",
        "telemetry-metricpipeline-sync-syncer",
        "telemetry-tracepipeline-lock",
        "telemetry-tracepipeline-sync-syncer",
    ],
    ("v1", "Secret"): [
        "telemetry-fluent-bit-env",
        "telemetry-fluent-bit-output-tls-config",
        "telemetry-log-agent",
        "telemetry-metric-agent",
        "telemetry-otlp-gateway",
    ],
    ("v1", "Service"): [
        "telemetry-fluent-bit-exporter-metrics",
        "telemetry-fluent-bit-metrics",
        "telemetry-self-monitor",
    ],
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): [
        "telemetry-trace-gateway",
        "telemetry-fluent-bit",
        "telemetry-log-agent",
        "telemetry-metric-agent",
    ],
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): [
        "telemetry-trace-gateway",
        "telemetry-fluent-bit",
        "telemetry-log-agent",
        "telemetry-metric-agent",
    ],
    ("rbac.authorization.k8s.io/v1", "Role"): [
        "telemetry-fluent-bit",
        "telemetry-metric-agent",
        "telemetry-self-monitor",
        "telemetry-manager-leader-election-role",
    ],
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): [
        "telemetry-fluent-bit",
        "telemetry-metric-agent",
        "telemetry-self-monitor",
        "telemetry-manager-leader-election-rolebinding",
    ],
    ("networking.k8s.io/v1", "NetworkPolicy"): [
        "kyma-project.io--telemetry-fluent-bit",
        "kyma-project.io--telemetry-fluent-bit-metrics",
        "kyma-project.io--telemetry-log-agent",
        "kyma-project.io--telemetry-log-agent-metrics",
        "kyma-project.io--telemetry-metric-agent",
        "kyma-project.io--telemetry-metric-agent-metrics",
        "kyma-project.io--telemetry-self-monitor",
        "kyma-project.io--telemetry-self-monitor-metrics",
        "kyma-project.io--allow-telemetry-manager-metrics",
        "kyma-project.io--allow-telemetry-manager-webhooks",
        "kyma-project.io--allow-telemetry-to-apiserver",
        "kyma-project.io--allow-telemetry-to-dns",
    ],
}
# A dashboard shows pipelines by these, and whoever may see pipelines may see these.
_STAYS = [
    ("v1", "ConfigMap", "telemetry-logpipelines"),
    ("v1", "ConfigMap", "telemetry-module"),
    ("rbac.authorization.k8s.io/v1", "Role", "kyma-telemetry-view"),
]
_OF_MODULE = {"app.kubernetes.io/managed-by": "kyma", "kyma-project.io/module": "telemetry"}


def _left(api_version: str, kind: str, name: str) -> dict[str, object]:
    made: dict[str, object] = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": _OF_MODULE}}
    if not kind.startswith("Cluster"):
        made["metadata"]["namespace"] = NAMESPACE
    if kind.endswith("Binding"):
        role = kind.removesuffix("Binding")
        made["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
        made["subjects"] = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]
    if kind == "NetworkPolicy":
        made["spec"] = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    if kind == "Service":
        made["spec"] = {"selector": {"app.kubernetes.io/name": name}, "ports": [{"port": 2020}]}
    return made


def _of_the_manager() -> list[dict[str, object]]:
    """What the chart has under the same names, with other values, which whoever applied them owns."""
    service = _left("v1", "Service", "telemetry-manager-webhook")
    selector = {"app.kubernetes.io/instance": "telemetry", "app.kubernetes.io/name": "manager"}
    service["spec"] = {"selector": selector, "ports": [{"port": 443, "targetPort": 9443}]}
    role = _left("rbac.authorization.k8s.io/v1", "ClusterRole", "telemetry-manager-role")
    role["rules"] = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    return [_left("v1", "ServiceAccount", "telemetry-manager"), service, role]


def _pipeline(name: str, version: str = "v1beta1") -> dict[str, object]:
    spec = {"output": {"otlp": {"endpoint": {"value": NOBODY}}}}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "TracePipeline", "metadata": {"name": name}, "spec": spec}


def _workload(kind: str, name: str) -> dict[str, object]:
    labels = {"app.kubernetes.io/name": name}
    container = {"name": "collector", "image": "weir.test/busybox:1", "command": ["sleep", "100000"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _webhook(kind: str) -> dict[str, object]:
    """As the module has them: at paths that nobody serves any more."""
    service = {"namespace": NAMESPACE, "name": "telemetry-manager-webhook", "path": "/old", "port": 443}
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["v1beta1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["tracepipelines"],
    }
    webhook = {
        "name": f"{kind}-tracepipeline.kyma-project.io",
        "clientConfig": {"service": service},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind.capitalize()}WebhookConfiguration",
        "metadata": {"name": f"telemetry-{kind}-webhook.kyma-project.io"},
        "webhooks": [webhook],
    }


def test_an_older_installation_is_taken_over(cluster: Cluster, installation: Installation) -> None:
    """Nobody who pushes notices: Services keep their addresses, and pipelines stay as they are."""
    wait_until(lambda: not cluster.find("daemonset/telemetry-otlp-gateway", NAMESPACE), "nothing runs on nodes")
    installation.uninstall()
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "telemetry-otlp", "namespace": NAMESPACE},
        "spec": {"selector": {"app.kubernetes.io/name": "old"}, "ports": [{"name": "old", "port": 4317}]},
    }
    gateway = _workload("DaemonSet", "telemetry-otlp-gateway")
    cluster.apply(service, gateway, *(_workload(*old) for old in _OLD))
    left = [(*kind, name) for kind, names in _LEFT.items() for name in names]
    cluster.apply(*(_left(*it) for it in [*left, *_STAYS]))
    of_the_manager = {"apiVersion": "v1", "kind": "List", "items": _of_the_manager()}
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(of_the_manager))
    # Stored before: with a finalizer, as earlier versions had it, and what the module said of it.
    stored = _pipeline("stored")
    stored["metadata"] = {"name": "stored", "finalizers": ["telemetry.kyma-project.io/finalizer"]}
    cluster.apply(stored)
    told = {"type": "GatewayHealthy", "status": "True", "reason": "GatewayReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = json.dumps({"status": {"conditions": [told]}})
    cluster.kubectl("patch", "tracepipeline", "stored", "--subresource=status", "--type=merge", f"--patch={status}")
    cluster.apply(_webhook("validating"), _webhook("mutating"))
    before = {name: cluster.find(name, NAMESPACE) for name in ("service/telemetry-otlp", "daemonset/telemetry-otlp-gateway")}
    installation.install("--take-ownership", "--force-conflicts")
    cluster.apply(_pipeline("taken-over"))
    for kind, name in _OLD:
        wait_until(lambda: not cluster.find(f"{kind}/{name}", NAMESPACE), f"{kind} {name} is gone")
    for _, kind, name in left:
        wait_until(lambda: not cluster.find(f"{kind}/{name}", NAMESPACE), f"{kind} {name} is gone")
    for _, kind, name in _STAYS:
        assert cluster.find(f"{kind}/{name}", NAMESPACE), f"{kind} {name} was removed"
    _wait_for_reason(cluster, "stored", "GatewayConfigured")
    cluster.kubectl("patch", "tracepipeline", "stored", "--type=merge", '--patch={"metadata": {"finalizers": null}}')
    after = {name: cluster.find(name, NAMESPACE) for name in before}
    for name, now in after.items():
        assert now["metadata"]["uid"] == before[name]["metadata"]["uid"], f"{name} was made anew"
    assert [port["name"] for port in after["service/telemetry-otlp"]["spec"]["ports"]] == ["grpc-collector", "http-collector"]
    image = after["daemonset/telemetry-otlp-gateway"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == installation.image
    cluster.kubectl("delete", "kyma-telemetry-pipelines", "--all", "--timeout=60s")
    for _, kind, name in _STAYS:
        cluster.kubectl("delete", f"{kind}/{name}", "--namespace", NAMESPACE)


def test_two_commands_are_enough(cluster: Cluster, installation: Installation, tmp_path: Path) -> None:
    """Those of deploy/README.md as they are there, but for the registry: spans, metrics and log records arrive."""
    installation.uninstall()
    cluster.run("load-image", pack(tmp_path / "weir.tar", f"{_REGISTRY}/weir:0.1.0"))
    install, example = _commands_of_the_readme()
    _as_a_newcomer(cluster, install)
    _as_a_newcomer(cluster, example)
    sink = ("--namespace", "telemetry-backend", "deployment/sink")
    cluster.kubectl("wait", *sink, "--for=condition=Available", "--timeout=120s")
    arrived = re.compile(r"received [1-9]\d* spans, [1-9]\d* points, [1-9]\d* records")
    wait_until(lambda: arrived.search(cluster.kubectl("logs", *sink)), "all three arrive", _NEWCOMER_S)
    _as_a_newcomer(cluster, "kubectl delete --filename examples/cluster.yaml")
    installation.uninstall()
    installation.install()


def _commands_of_the_readme() -> list[str]:
    """Of the three lines, the last one shows what arrives, for ever."""
    readme = (Installation.chart.parent / "README.md").read_text()
    return readme.split("```sh\n")[1].replace("REGISTRY", _REGISTRY).splitlines()[:2]


def _as_a_newcomer(cluster: Cluster, line: str) -> None:
    """A line in a shell, at the root of the repository."""
    path = f"{Path(HELM).parent}:{os.environ['PATH']}"
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig), "PATH": path}
    root = Installation.chart.parents[1]
    ended = subprocess.run(
        line, shell=True, cwd=root, env=environment, capture_output=True, text=True, timeout=_NEWCOMER_S, check=False
    )
    assert ended.returncode == 0, f"{line}: {ended.stderr}"


def test_max_pipelines(cluster: Cluster, installation: Installation) -> None:
    """The oldest run; when one goes, another takes its place."""
    installation.install(maxPipelines=2)
    for name in ("first", "second", "third"):
        cluster.apply(_pipeline(name))
        # Their age is told by whole seconds, and then by their names.
        _wait_for_reason(cluster, name, "MaxPipelinesExceeded" if name == "third" else "GatewayConfigured")
    cluster.kubectl("delete", "tracepipeline", "first")
    _wait_for_reason(cluster, "third", "GatewayConfigured")
    cluster.kubectl("delete", "kyma-telemetry-pipelines", "--all", "--timeout=60s")
    installation.install()


def _wait_for_reason(cluster: Cluster, name: str, reason: str) -> None:
    def reasons() -> list[str]:
        found = cluster.find(f"tracepipeline/{name}") or {}
        return [condition["reason"] for condition in found.get("status", {}).get("conditions", [])]

    wait_until(lambda: reason in reasons(), f"{name} says {reason}")


def test_the_admin_port_of_a_node_wants_a_token(cluster: Cluster, installation: Installation) -> None:
    """From a Secret, which may change while pods run. Whoever may forward a port, and has none, sees no telemetry."""
    cluster.apply(_tokens("first"))
    try:
        installation.install(nodes=installation.values["nodes"] | {"adminTokenSecret": {"name": "admin-tokens"}})
        cluster.apply(_pipeline("guarded"))
        _wait_for_reason(cluster, "guarded", "GatewayConfigured")
        pod = wait_until(lambda: _node_with_tokens(cluster), "a node that wants tokens is ready", 180)
        # Nobody can read the log of a pod that is being made.
        cluster.kubectl("rollout", "status", "daemonset/telemetry-otlp-gateway", "--namespace", NAMESPACE, "--timeout=180s")
        asked = lambda token=None: _status(cluster, pod, "/api/recent?pipeline=traces/guarded", token)
        wait_until(lambda: asked("first") == 200, "it shows telemetry to whoever has the token")
        assert (asked(), asked("second")) == (401, 401)
        looks = lambda: [line.get("token") for line in installation.logs(NODES) if line.get("target") == "audit"]
        assert wait_until(looks, "the log says who has looked") == [1]

        cluster.apply(_tokens("second"))
        wait_until(lambda: asked("second") == 200, "the other token is taken", _MOUNTED_S)
        assert asked("first") == 401
    finally:
        cluster.kubectl("delete", "kyma-telemetry-pipelines", "--all", "--timeout=60s")
        installation.install()
        cluster.kubectl("delete", "secret/admin-tokens", "--namespace", NAMESPACE)


def _tokens(token: str) -> dict[str, object]:
    metadata = {"name": "admin-tokens", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"tokens": f"{token}\n"}}


def _node_with_tokens(cluster: Cluster) -> str | None:
    """The name of a pod that is ready."""
    for pod in cluster.get("pods", *_NODES)["items"]:
        is_ready = any(it["type"] == "Ready" and it["status"] == "True" for it in pod["status"].get("conditions", []))
        has_tokens = "--admin-token-file" in pod["spec"]["containers"][0]["args"]
        if is_ready and has_tokens and "deletionTimestamp" not in pod["metadata"]:
            return pod["metadata"]["name"]
    return None


def _status(cluster: Cluster, pod: str, path: str, token: str | None) -> int:
    """Of the answer of a pod's admin port. Each time with another `kubectl port-forward`."""
    head = {"authorization": f"Bearer {token}"} if token else {}
    with cluster.forwarded(pod, _ADMIN_PORT, NAMESPACE) as admin:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"http://{admin}{path}", headers=head), timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code


def test_values_that_are_wrong_are_refused(cluster: Cluster, installation: Installation) -> None:
    for values, words in (
        ({"logLevel": "loud"}, "logLevel"),
        ({"unknown": 1}, "unknown"),
        ({"image": {"repository": ""}}, "image.repository"),
    ):
        given = cluster.state / "wrong.json"
        given.write_text(json.dumps(installation.values | values))
        with pytest.raises(AssertionError, match=words):
            cluster.helm("template", "weir", installation.chart, "--values", given)


def test_what_is_left_and_comes_back(cluster: Cluster, installation: Installation) -> None:
    """Definitions and pipelines stay, and can be changed and deleted without anybody who answers webhooks."""
    cluster.apply(_pipeline("left"))
    _wait_for_reason(cluster, "left", "GatewayConfigured")
    installation.uninstall()
    assert not cluster.find("deployment/telemetry-manager", NAMESPACE)
    assert cluster.find("tracepipeline/left")
    assert cluster.find("daemonset/telemetry-otlp-gateway", NAMESPACE), "nodes go on"
    wait_until(lambda: not cluster.get("pods", *_OPERATORS)["items"], "operators are gone", 40)
    assert not cluster.get("validatingwebhookconfigurations")["items"], "an operator has made them again while it ended"
    cluster.kubectl("label", "tracepipeline", "left", "changed=yes")
    installation.install()
    _wait_for_reason(cluster, "left", "GatewayConfigured")
    cluster.kubectl("delete", "tracepipeline", "left")
    cluster.kubectl("delete", "telemetry", "default", "--namespace", NAMESPACE, "--timeout=60s")
    wait_until(lambda: not cluster.find("daemonset/telemetry-otlp-gateway", NAMESPACE), "nothing runs on nodes")
    installation.uninstall()
    # One that is going still answers.
    wait_until(lambda: not cluster.get("pods", *_OPERATORS)["items"], "operators are gone", 40)
    with pytest.raises(Refused, match="deprecated|conversion|telemetry-manager-webhook"):
        cluster.apply(_pipeline("unreadable", "v1alpha1"))
    installation.install()


def test_rendered_manifests_are_up_to_date_and_accepted(tmp_path: Path) -> None:
    deploy = Installation.chart.parent
    subprocess.run([deploy / "render.sh", "--check"], check=True, env={**os.environ, "HELM": str(HELM)}, timeout=60)
    cluster = Cluster(tmp_path / "state")
    try:
        cluster.run("api")
        cluster.kubectl("apply", "--server-side", f"--filename={deploy / 'weir.yaml'}")
        wait_until(lambda: _is_accepted(cluster, deploy / "telemetry.yaml"), "the Telemetry is accepted", 20)
    finally:
        cluster.run("down")


def _is_accepted(cluster: Cluster, file: Path) -> bool:
    try:
        return "created" in cluster.kubectl("apply", f"--filename={file}")
    except AssertionError:
        return False
