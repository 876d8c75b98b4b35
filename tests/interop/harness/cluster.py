"""Objects of a small cluster, as documents, and the attributes that docs/enrichment.md promises for their pods.

One pod is found by its uid, one by its address, and one because clients of these tests send from its address.
"""

from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]

MODES = ("otel", "kyma-legacy")


@dataclass(frozen=True)
class Pod:
    """What a client sends to be taken for this pod, and what must be added in both modes and in each of them."""

    sends: dict[str, str]
    everywhere: dict[str, str]
    services: dict[str, dict[str, str]] = field(default_factory=dict)

    def added(self, mode: str) -> dict[str, str]:
        return {**_CLUSTER, **_NODE, **self.everywhere, **self.services[mode]}


_CLUSTER = {
    "k8s.cluster.name": "interop",
    "k8s.cluster.uid": "5f2a8c0e-7d1b-4f3a-9a6e-1c2d3e4f5a6b",
    "cloud.provider": "aws",
}
_NODE = {
    "k8s.node.name": "node-1",
    "cloud.region": "eu-central-1",
    "cloud.availability_zone": "eu-central-1a",
    "host.type": "m5.large",
    "host.arch": "amd64",
}

PODS = {
    "uid": Pod(
        sends={"k8s.pod.uid": "0b5d1f0e-98d2-4e5a-8c43-6a7c1ce9a001"},
        everywhere={
            "k8s.pod.name": "cart-7d9c5b6f4-x2x8p",
            "k8s.namespace.name": "shop",
            "k8s.deployment.name": "cart",
            "k8s.pod.label.team": "checkout",
            "k8s.pod.label.app.kubernetes.io/name": "cart-service",
        },
        services={
            "otel": {
                "service.name": "cart-service",
                "service.namespace": "shop",
                "service.version": "1.4",
                "service.instance.id": "shop.cart-7d9c5b6f4-x2x8p.cart",
            },
            "kyma-legacy": {"service.name": "cart-service"},
        },
    ),
    "ip": Pod(
        sends={"k8s.pod.ip": "10.96.3.18"},
        everywhere={
            "k8s.pod.name": "node-agent-4k2lp",
            "k8s.namespace.name": "infra",
            "k8s.daemonset.name": "node-agent",
        },
        services={
            "otel": {
                "service.name": "node-agent",
                "service.namespace": "infra",
                "service.version": "2.0",
                "service.instance.id": "infra.node-agent-4k2lp.agent",
            },
            "kyma-legacy": {"service.name": "agent"},
        },
    ),
    "peer": Pod(
        sends={"k8s.container.name": "main"},
        everywhere={
            "k8s.pod.name": "db-0",
            "k8s.namespace.name": "data",
            "k8s.statefulset.name": "db",
            "k8s.pod.label.app.kubernetes.io/instance": "db-main",
        },
        services={
            "otel": {
                "service.name": "db-main",
                "service.namespace": "data",
                "service.version": "16",
                "service.instance.id": "data.db-0.main",
                "deployment.environment.name": "staging",
            },
            "kyma-legacy": {"service.name": "db"},
        },
    ),
}


def documents(mode: str) -> list[Document]:
    """The Telemetry document for this mode of service attributes, and the objects."""
    annotations = {"telemetry.kyma-project.io/service-enrichment": mode}
    labels = [{"key": "team"}, {"keyPrefix": "app.kubernetes.io/"}]
    enrichments = {"cluster": {"name": _CLUSTER["k8s.cluster.name"]}, "extractPodLabels": labels}
    telemetry = _object("Telemetry", "default", "default", annotations=annotations)
    telemetry |= {"apiVersion": "operator.kyma-project.io/v1beta1", "spec": {"enrichments": enrichments}}
    return [telemetry, *_pods(), *_others()]


def _pods() -> list[Document]:
    cart = _pod(
        "shop",
        "cart-7d9c5b6f4-x2x8p",
        "10.96.3.17",
        _owner("ReplicaSet", "cart-7d9c5b6f4"),
        {"cart": "registry.example.com/cart:1.4.2"},
        uid=PODS["uid"].sends["k8s.pod.uid"],
        labels={"app.kubernetes.io/name": "cart-service", "team": "checkout", "pod-template-hash": "7d9c5b6f4"},
        annotations={"resource.opentelemetry.io/service.version": "1.4"},
    )
    agent = _pod(
        "infra",
        "node-agent-4k2lp",
        PODS["ip"].sends["k8s.pod.ip"],
        _owner("DaemonSet", "node-agent"),
        {"agent": "registry.example.com:5000/agent:2.0"},
        labels={"app": "agent"},
    )
    database = _pod(
        "data",
        "db-0",
        "127.0.0.1",
        _owner("StatefulSet", "db"),
        {"main": "registry.example.com/db:16", "backup": "registry.example.com/backup:3"},
        labels={"app.kubernetes.io/instance": "db-main"},
        annotations={"resource.opentelemetry.io/deployment.environment.name": "staging"},
    )
    return [cart, agent, database]


def _pod(namespace: str, name: str, ip: str, owner: Document, images: dict[str, str], **metadata: Any) -> Document:
    containers = [{"name": container, "image": image} for container, image in images.items()]
    return _object("Pod", name, namespace, ownerReferences=[owner], **metadata) | {
        "spec": {"nodeName": "node-1", "containers": containers},
        "status": {"phase": "Running", "podIPs": [{"ip": ip}]},
    }


def _others() -> list[Document]:
    replicas = _object("ReplicaSet", "cart-7d9c5b6f4", "shop", ownerReferences=[_owner("Deployment", "cart")])
    replicas["apiVersion"] = "apps/v1"
    node = _object("Node", "node-1")
    node["metadata"]["labels"] = {
        "kubernetes.io/arch": _NODE["host.arch"],
        "node.kubernetes.io/instance-type": _NODE["host.type"],
        "topology.kubernetes.io/region": _NODE["cloud.region"],
        "topology.kubernetes.io/zone": _NODE["cloud.availability_zone"],
    }
    shoot = _object("ConfigMap", "shoot-info", "kube-system") | {"data": {"provider": _CLUSTER["cloud.provider"]}}
    return [replicas, node, _object("Namespace", "kube-system", uid=_CLUSTER["k8s.cluster.uid"]), shoot]


def _object(kind: str, name: str, namespace: str | None = None, **metadata: Any) -> Document:
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


def _owner(kind: str, name: str) -> Document:
    return {"kind": kind, "name": name, "controller": True}
