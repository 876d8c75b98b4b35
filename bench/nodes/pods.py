#!/usr/bin/env python3
"""What pods of a whole cluster take of a gateway's memory: `weir node --all-pods`. What its Services take of a node's.

    bench/nodes/pods.py target/release/weir                       without pods, and with 10,000 of 100 nodes
    bench/nodes/pods.py target/release/weir --pods 2745
    bench/nodes/pods.py target/release/weir --services 5000       a node that scrapes, without Services and with 5,000

The API server is made up, and nothing is sent: it is the memory of knowing who might send, or may be scraped. Each
Service has four endpoints on nodes of their own, and one of twenty is to be scraped.
"""

import argparse
import base64
import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/interop"))

from harness.api_server import ApiServer, write_kubeconfig

_METRICS_PORT, _HEALTH_PORT = 18080, 18081
_NODES = 100
_OF_NODE = {
    "kubernetes.io/arch": "amd64",
    "node.kubernetes.io/instance-type": "m5.2xlarge",
    "topology.kubernetes.io/region": "eu-central-1",
    "topology.kubernetes.io/zone": "eu-central-1a",
}


def _uid(kind: int, number: int) -> str:
    return str(uuid.UUID(int=kind << 64 | number))


def _node(number: int) -> dict:
    metadata = {"name": f"ip-10-250-0-{number}.eu-central-1.compute.internal", "uid": _uid(1, number), "labels": _OF_NODE}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {}}


def _pod(number: int) -> dict:
    app, of_app = divmod(number, 4)
    image = "registry.example.com/team-of-the-shop"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"checkout-{app}-7d8b49557f-{of_app:05}",
            "namespace": f"shop-{app % 50}",
            "uid": _uid(2, number),
            "resourceVersion": "1",
            "labels": {
                "app.kubernetes.io/name": f"checkout-{app}",
                "app.kubernetes.io/instance": f"checkout-{app}",
                "app.kubernetes.io/version": "1.14.2",
                "app.kubernetes.io/managed-by": "Helm",
                "pod-template-hash": "7d8b49557f",
            },
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"checkout-{app}-7d8b49557f"}],
        },
        "spec": {
            "nodeName": _node(number % _NODES)["metadata"]["name"],
            "containers": [
                {"name": "checkout", "image": f"{image}/checkout:1.14.2", "ports": [{"containerPort": 8080}]},
                {"name": "istio-proxy", "image": f"{image}/proxy:1.29.0", "ports": [{"containerPort": 15090}]},
            ],
        },
        "status": {"phase": "Running", "podIPs": [{"ip": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"}]},
    }


def _service(number: int) -> dict:
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"} if number % 20 == 0 else {}
    metadata = {"name": f"checkout-{number}", "namespace": f"shop-{number % 50}", "uid": _uid(3, number)}
    metadata |= {"resourceVersion": "1", "annotations": annotations, "labels": {"app.kubernetes.io/name": "checkout"}}
    ports = [{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": 8080}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}


def _endpoints(number: int) -> dict:
    service, namespace = f"checkout-{number}", f"shop-{number % 50}"
    metadata = {"name": f"{service}-x7k2p", "namespace": namespace, "uid": _uid(4, number), "resourceVersion": "1"}
    metadata["labels"] = {"kubernetes.io/service-name": service}

    def endpoint(of_service: int) -> dict:
        one = 4 * number + of_service
        target = {"kind": "Pod", "name": f"{service}-7d8b49557f-{of_service:05}", "namespace": namespace, "uid": _uid(2, one)}
        address = f"10.{one >> 16}.{one >> 8 & 255}.{one & 255}"
        node = _node(one % _NODES)["metadata"]["name"]
        return {"addresses": [address], "conditions": {"ready": True}, "nodeName": node, "targetRef": target}

    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    endpoints = [endpoint(of_service) for of_service in range(4)]
    version = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    return {**version, "metadata": metadata, "ports": ports, "endpoints": endpoints}


def _secret(kind: str) -> dict:
    """What an operator says of one pipeline."""
    pipeline = {
        "apiVersion": "telemetry.kyma-project.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "backend"},
        "spec": {"output": {"otlp": {"endpoint": {"value": "http://127.0.0.1:1"}}}},
    }
    if kind == "MetricPipeline":
        pipeline["spec"]["input"] = {"prometheus": {"enabled": True}}
    packed = base64.b64encode(gzip.compress(json.dumps(pipeline).encode(), mtime=0)).decode()
    metadata = {"name": "telemetry-node", "namespace": "kyma-system", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"configuration.json.gz": packed}}


def _known(kind: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{_METRICS_PORT}/metrics", timeout=5) as page:
        found = re.search(rf'^weir_watch_objects\{{[^}}]*"{kind}"[^}}]*\}} (\d+)', page.read().decode(), re.M)
    return int(found.group(1)) if found else -1


def _kb(pid: int, field: str) -> int:
    return int(re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M).group(1))


def _wait_for(process: subprocess.Popen, kind: str, count: int) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            if _known(kind) == count:
                return
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > end:
            sys.exit(f"the process does not know of {count} objects of kind {kind}; see its log above")
        time.sleep(0.2)


def _memory(weir: Path, objects: dict, known: tuple[str, int], arguments: list[str], seconds: float) -> tuple[int, int]:
    """RSS at rest, when so many objects of a kind are known, and at most, in KiB."""
    api = ApiServer(objects={"nodes": [_node(n) for n in range(_NODES)], **objects})
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = write_kubeconfig(Path(directory, "kubeconfig"), api.url)
        ports = ["--grpc-port", "0", "--http-port", "0", "--admin-port", "0", "--metrics-port", str(_METRICS_PORT)]
        ports += ["--health-port", str(_HEALTH_PORT), "--listen", "127.0.0.1"]
        node = _node(0)["metadata"]["name"]
        command = [weir, "node", "--kubeconfig", kubeconfig, "--node-name", node, "--memory", "256MiB", *arguments]
        process = subprocess.Popen([*command, "--data-dir", f"{directory}/data", *ports], stderr=subprocess.DEVNULL)
        try:
            _wait_for(process, *known)
            time.sleep(seconds)
            return _kb(process.pid, "VmRSS"), _kb(process.pid, "VmHWM")
        finally:
            process.terminate()
            process.wait(30)
            api.close()


def _of_pods(weir: Path, pods: int, seconds: float) -> tuple[int, int]:
    objects = {"pods": [_pod(n) for n in range(pods)], "secrets": [_secret("TracePipeline")]}
    return _memory(weir, objects, ("Pod", pods), ["--roles", "gateway", "--all-pods"], seconds)


def _of_services(weir: Path, services: int, seconds: float) -> tuple[int, int]:
    objects = {"services": [_service(n) for n in range(services)], "endpointslices": [_endpoints(n) for n in range(services)]}
    objects |= {"pods": [_pod(n) for n in range(0, 110 * _NODES, _NODES)], "secrets": [_secret("MetricPipeline")]}
    return _memory(weir, objects, ("Service", -(-services // 20)), ["--roles", "gateway,metrics"], seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weir", type=Path)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--services", type=int, help="so many Services instead of pods")
    parser.add_argument("--seconds", type=float, default=15, help="how long it rests before its memory is read")
    args = parser.parse_args()
    of, name = (_of_services, "Services") if args.services else (_of_pods, "pods")
    count = args.services or args.pods
    without, most_without = of(args.weir, 0, args.seconds)
    rest, most = of(args.weir, count, args.seconds)
    print(f"without {name:12}  {without / 1024:8.1f} MiB, {most_without / 1024:.1f} MiB at most")
    print(f"with {count:6,} {name:8}  {rest / 1024:8.1f} MiB, {most / 1024:.1f} MiB at most")
    print(f"each                  {(rest - without) * 1024 / count:8.0f} bytes")


if __name__ == "__main__":
    main()
