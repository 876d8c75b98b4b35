"""What the chart makes of its values, without a cluster: each of them is found again, and the operator takes what it is started
with."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import HELM
from installation import NAMESPACE, Installation
from processes import weir

_DIGEST = f"sha256:{'5' * 64}"
_Given = list[tuple[str, Any, list[str]]]
# A value, what is given for it, and the words that are there then, and not without it.
_ALL: _Given = [
    ("image.repository", "registry.test/given", ["image: registry.test/given@"]),
    ("image.digest", _DIGEST, [_DIGEST]),
    ("image.pullPolicy", "Always", ["imagePullPolicy: Always"]),
    ("imagePullSecrets", ["given-pull"], ["--image-pull-secret-name=given-pull", "- name: given-pull"]),
    ("logLevel", "debug", ["--log-level=debug"]),
    ("maxPipelines", 7, ["--max-pipelines=7"]),
    ("clusterTrustBundle", "given-bundle", ["--cluster-trust-bundle-name=given-bundle"]),
    ("telemetry.annotations", {"given": "telemetry-annotation"}, ["given: telemetry-annotation"]),
    ("telemetry.spec", {"enrichments": {"cluster": {"name": "given-cluster"}}}, ["name: given-cluster"]),
    ("operator.replicas", 2, ["replicas: 2", "kind: PodDisruptionBudget"]),
    ("operator.resources", {"limits": {"memory": "771Mi"}}, ["memory: 771Mi"]),
    ("operator.nodeSelector", {"given": "operator-selector"}, ["given: operator-selector"]),
    ("operator.tolerations", [{"key": "given-operator-taint"}], ["key: given-operator-taint"]),
    ("operator.args", ["--health-port=8081"], ["--health-port=8081"]),
    ("operator.labels", {"given": "operator-label"}, ["given: operator-label"]),
    ("operator.annotations", {"given": "operator-annotation"}, ["given: operator-annotation"]),
    ("operator.podLabels", {"given": "operator-pod-label"}, ["given: operator-pod-label"]),
    ("operator.podAnnotations", {"given": "operator-pod-annotation"}, ["given: operator-pod-annotation"]),
    ("nodes.resources", {"limits": {"memory": "772Mi"}}, ['--node-resources={"limits":{"memory":"772Mi"}']),
    ("nodes.dataPath", "/given/data", ["--data-path=/given/data"]),
    ("nodes.tolerations", [{"key": "given-node-taint"}], ['--node-tolerations=[{"key":"given-node-taint"}]']),
    ("nodes.nodeSelector", {"given": "node-selector"}, ["--node-selector=given=node-selector"]),
    ("nodes.adminTokenSecret.name", "given-tokens", ["--admin-token-secret=given-tokens/"]),
    ("nodes.adminTokenSecret.key", "given-key", ["/given-key"]),
    ("nodes.args", ["--logs-start-at=end"], ["--node-arg=--logs-start-at=end"]),
    ("nodes.splitRoles", True, ["--split-roles"]),
    ("nodes.labels", {"given": "node-label"}, ["--additional-workload-label=given=node-label"]),
    ("nodes.annotations", {"given": "node-annotation"}, ["--additional-workload-annotation=given=node-annotation"]),
    ("nodes.podLabels", {"given": "node-pod-label"}, ["--additional-pod-label=given=node-pod-label"]),
    ("nodes.podAnnotations", {"given": "node-pod-annotation"}, ["--additional-pod-annotation=given=node-pod-annotation"]),
    ("gateway.mode", "replicas", ["--gateway-replicas="]),
    ("gateway.autoscaling.enabled", True, ["--gateway-replicas-max="]),
    ("gateway.autoscaling.minReplicas", 3, ["--gateway-replicas=3"]),
    ("gateway.autoscaling.maxReplicas", 9, ["--gateway-replicas-max=9"]),
    ("gateway.autoscaling.cpu", 55, ["--gateway-cpu-percent=55"]),
    ("gateway.autoscaling.pendingBytes", "65Mi", ["--gateway-pending-bytes=65Mi"]),
    ("gateway.autoscaling.serveMetrics", True, ["--serve-metrics", "kind: APIService", "resources: [apiservices]"]),
    ("gateway.storage.size", "11Gi", ["--gateway-storage=11Gi"]),
    ("gateway.storage.className", "given-storage", ["--gateway-storage-class=given-storage"]),
    ("gateway.resources", {"limits": {"memory": "773Mi"}}, ['--gateway-resources={"limits":{"memory":"773Mi"}']),
    ("gateway.tolerations", [{"key": "given-gateway-taint"}], ['--gateway-tolerations=[{"key":"given-gateway-taint"}]']),
    ("priorityClasses.high", "given-high", ["--high-priority-class-name=given-high", "resourceNames: [given-high]"]),
    ("priorityClasses.normal", "given-normal", ["priorityClassName: given-normal", "  name: given-normal"]),
    ("rbac.nodesProxy", True, ["--nodes-proxy", "- nodes/proxy"]),
    ("createNamespace", True, ["kind: Namespace"]),
]
# Those that the others above leave no room for.
_INSTEAD: _Given = [
    ("image.repository", "registry.test/given", []),
    ("image.tag", "given-tag", ["image: registry.test/given:given-tag"]),
    ("gateway.mode", "replicas", []),
    ("gateway.replicas", 5, ["--gateway-replicas=5"]),
]
# Those that take something away: the words are there without them.
_WITHOUT: _Given = [
    ("telemetry.create", False, ["helm.sh/hook: post-install"]),
    ("rbac.aggregate", False, ["aggregate-to-view", "aggregate-to-edit", "aggregate-to-admin"]),
    ("networkPolicy", False, ["kind: NetworkPolicy"]),
]
_NEEDED: _Given = [("image.repository", "registry.test/weir", [])]


def test_each_value_is_tried() -> None:
    known = _leaves(yaml.safe_load((Installation.chart / "values.yaml").read_text()))
    tried = [path for path, _, _ in _ALL + _INSTEAD + _WITHOUT]
    untried = [path for path in known if not any(f"{path}.".startswith(f"{it}.") for it in tried)]
    assert not untried, "add them to this test"


def _leaves(values: dict[str, Any], above: str = "") -> list[str]:
    paths = []
    for key, value in values.items():
        paths += _leaves(value, f"{above}{key}.") if isinstance(value, dict) and value else [f"{above}{key}"]
    return paths


@pytest.mark.parametrize("given", [_ALL, _INSTEAD], ids=["all", "instead"])
def test_each_value_is_found_again(given: _Given, tmp_path: Path) -> None:
    with_it, without = _rendered(given, tmp_path), _rendered(_NEEDED, tmp_path)
    for path, value, words in given:
        for word in words:
            assert word in with_it, f"{path}={value}"
            assert word not in without, f"{path}: {word!r} says nothing"
    _operator_takes(with_it)


def test_what_a_value_takes_away_is_gone(tmp_path: Path) -> None:
    with_it, without = _rendered(_NEEDED + _WITHOUT, tmp_path), _rendered(_NEEDED, tmp_path)
    for path, _, words in _WITHOUT:
        for word in words:
            assert word in without, f"{path}: {word!r} says nothing"
            assert word not in with_it, path
    _operator_takes(with_it)


@pytest.mark.parametrize(("version", "asked", "expected"), [
    ("1.32.0", "auto", True),
    ("1.33.0", "auto", False),
    ("1.32.0", False, False),
])
def test_nodes_get_only_rights_that_the_operator_has(version: str, asked: bool | str, expected: bool, tmp_path: Path) -> None:
    """Whoever gives a right must have it: the API server refuses the whole role otherwise."""
    rendered = _rendered([*_NEEDED, ("rbac.nodesProxy", asked, [])], tmp_path, version)
    assert ("--nodes-proxy" in rendered, "- nodes/proxy" in rendered) == (expected, expected)


def _rendered(given: _Given, directory: Path, version: str = "1.33.0") -> str:
    values: dict[str, Any] = {}
    for path, value, _ in given:
        *above, last = path.split(".")
        within = values
        for key in above:
            within = within.setdefault(key, {})
        within[last] = value
    file = directory / "values.json"
    file.write_text(json.dumps(values))
    options = ["--namespace", NAMESPACE, "--kube-version", version, "--values", str(file)]
    command = [str(HELM), "template", "weir", str(Installation.chart), *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def _operator_takes(rendered: str) -> None:
    """It gets as far as to look for its cluster. Whether it understands its arguments is known before."""
    [text] = [it for it in rendered.split("\n---\n") if "\nkind: Deployment\n" in it]
    container = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]
    env = {it["name"]: it["value"] for it in container["env"] if "value" in it}
    command = [weir(), *container["args"], "--kubeconfig=/none"]
    ended = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, "the kubeconfig /none" in ended.stderr) == (1, True), ended.stderr
