"""Weir in a cluster: the chart, and what its operator and nodes say of themselves."""

import json
from pathlib import Path
from typing import Any

from cluster import Cluster, wait_until
from processes import memory_mb, processes_of

NAMESPACE = "kyma-system"
OPERATORS = "telemetry-manager"
NODES = "telemetry-otlp-gateway"
_OWN = "app.kubernetes.io/name"


class Installation:
    chart = Path(__file__).parents[2] / "deploy" / "chart"

    def __init__(self, cluster: Cluster, image: str):
        self.cluster = cluster
        self.image = image
        repository, _, tag = image.rpartition(":")
        self.values: dict[str, Any] = {
            "image": {"repository": repository, "tag": tag},
            "nodes": {
                "labels": {"my-workload-label": "workload-label", _OWN: "not-ours"},
                "annotations": {"my-workload-annotation": "workload-annotation"},
                "podLabels": {"my-pod-label": "pod-label"},
                "podAnnotations": {"my-pod-annotation": "pod-annotation"},
            },
        }

    def install(self, *options: str, **values: Any) -> None:
        """Installs it, or upgrades it to other values."""
        given = self.cluster.state / "values.json"
        given.write_text(json.dumps(self.values | values))
        options = (*options, "--namespace", NAMESPACE, "--create-namespace", "--values", given)
        self.cluster.helm("upgrade", "--install", "weir", self.chart, *options, "--wait", "--timeout=120s")
        self.wait_until_ready()

    def uninstall(self) -> None:
        self.cluster.helm("uninstall", "weir", "--namespace", NAMESPACE, "--wait", "--timeout=120s")

    def restore_telemetry(self) -> None:
        """What a test that failed has left deleted: others need it."""
        if not self.cluster.find("telemetry/default", NAMESPACE):
            metadata = {"name": "default", "namespace": NAMESPACE}
            self.cluster.apply({"apiVersion": "operator.kyma-project.io/v1beta1", "kind": "Telemetry", "metadata": metadata, "spec": {}})

    def wait_until_ready(self) -> None:
        """Until pipelines are checked and statuses are written."""
        self.cluster.kubectl(
            "rollout", "status", "deployment/telemetry-manager", "--namespace", NAMESPACE, "--timeout=120s"
        )
        state = lambda: (self.cluster.find("telemetry/default", NAMESPACE) or {}).get("status", {}).get("state")
        wait_until(state, "the Telemetry has a state", 60)

    def logs(self, of: str = OPERATORS) -> list[dict[str, Any]]:
        """What the pods of a part have logged."""
        said = self.cluster.kubectl("logs", "--namespace", NAMESPACE, "--selector", f"{_OWN}={of}", "--tail=-1")
        return [json.loads(line) for line in said.splitlines()]

    def memory_mb(self, of: str = OPERATORS, field: str = "VmRSS") -> list[float]:
        """What the process in each pod of a part takes. The other one of a pod does nothing, and takes next to nothing."""
        pods = self.cluster.get("pods", "--namespace", NAMESPACE, "--selector", f"{_OWN}={of}")["items"]
        taken = [[memory_mb(process, field) for process in processes_of(pod["metadata"]["uid"])] for pod in pods]
        return [max(of_pod) for of_pod in taken if of_pod]
