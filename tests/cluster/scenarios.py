"""Scenarios as data: what is applied, step after step, and what must become true.

`scenarios/*.yaml` has lists of cases. A case with `signals` is run once for each of them, with these words replaced:
$kind (TracePipeline), $signal (traces), $Signal (Trace), $items (spans), $name (a name for the objects of this run),
$endpoint (of nobody), $certificate.NAME and $key.NAME (a PEM of `certificates.py`), $backend.NAME, the endpoint of a
backend of this process, and $port.NAME, the port of one that is sent JSON, at $address; of a NAME that ends with -tls, it
speaks TLS and wants a certificate. A backend whose NAME begins with guarded- wants a token of the server at $tokens, whose
client is $client-id with $client-secret and $scope.

The first key of a step says what it does: see the methods of `Run`.
"""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml

import client
from backend import Backend, HttpServer, matches
from certificates import Certificates
from cluster import Cluster, Refused, wait_until
from processes import page
from tokens import TokenServer

Step = dict[str, Any]

NAMESPACE = "kyma-system"
GROUP = "telemetry.kyma-project.io"
NOBODY = "http://nobody.example.com:4317"
_WORDS = {
    "traces": {"$signal": "traces", "$kind": "TracePipeline", "$Signal": "Trace", "$items": "spans"},
    "metrics": {"$signal": "metrics", "$kind": "MetricPipeline", "$Signal": "Metric", "$items": "metrics"},
    "logs": {"$signal": "logs", "$kind": "LogPipeline", "$Signal": "Log", "$items": "logs"},
}
# Statuses take a second; pods that start, and the removal of what nobody needs, some more.
_DEADLINE_S = 30.0
# Until a trouble that a load makes is told: a node knows of it within 30 s, and is asked every 5 s.
_TROUBLE_S = 90.0
# Long enough for a decision that should not be made, and to be written.
_STAYS_S = 3.0
# So many characters of what arrived are shown: an item may be large.
_SHOWN = 5000
# More requests than a case makes.
_KEPT = 1000


@dataclass(frozen=True)
class Case:
    """One run of a case."""

    title: str
    name: str
    signal: str | None
    steps: list[Step]

    @property
    def kind(self) -> str | None:
        return _WORDS.get(self.signal, {}).get("$kind")

    @property
    def id(self) -> str:
        return re.sub(r"[^a-zA-Z0-9]+", "-", self.title).strip("-")


def cases(file: str) -> Iterator[Case]:
    path = Path(__file__).parent / "scenarios" / file
    for number, case in enumerate(yaml.safe_load(path.read_text())):
        for signal in case.get("signals", [None]):
            name = f"{path.stem}-{number}" + (f"-{signal}" if signal else "")
            words = {"$name": name, "$endpoint": NOBODY, **_WORDS.get(signal, {})}
            words = {word: words[word] for word in sorted(words, key=len, reverse=True)}
            title = case["case"] + (f" ({signal})" if signal else "")
            yield Case(title, name, signal, [_filled(step, words) for step in case["steps"]])


def _filled(node: Any, words: dict[str, str]) -> Any:
    match node:
        case dict():
            return {_filled(key, words): _filled(child, words) for key, child in node.items()}
        case list():
            return [_filled(child, words) for child in node]
        case str():
            for word, value in words.items():
                node = node.replace(word, value)
    return node


class Run:
    """A case on a cluster. What it has applied is gone at the end."""

    def __init__(self, cluster: Cluster, certificates: Certificates, case: Case):
        self._cluster = cluster
        self._case = case
        self._certificates = certificates
        self._words = certificates.words()
        self._backends: dict[str, Backend | HttpServer] = {}
        self._tokens: TokenServer | None = None
        self._applied: list[tuple[str, str, str | None]] = []

    def __call__(self) -> None:
        self._start_backends()
        for number, step in enumerate(self._case.steps, 1):
            step = _filled(step, self._words)
            try:
                self._do(dict(step))
            except AssertionError as error:
                error.add_note(f"step {number} of {len(self._case.steps)}: {json.dumps(step)[:500]}")
                raise

    def _start_backends(self) -> None:
        address, steps = self._cluster.address, json.dumps(self._case.steps)
        self._words["$address"] = address
        # The longest first: one may begin like another.
        named = lambda word: sorted(set(re.findall(rf"\${word}\.([a-z-]+)", steps)), key=len, reverse=True)
        certificates = lambda name: self._certificates if name.endswith("-tls") else None
        if "$tokens" in steps:
            self._tokens = TokenServer(address)
            self._words |= self._tokens.words()
        for name in named("backend"):
            backend = self._backends[name] = Backend(address, certificates(name))
            backend.tokens = self._tokens if name.startswith("guarded-") else None
            self._words[f"$backend.{name}"] = backend.endpoint
        for name in named("port"):
            server = self._backends[name] = HttpServer(address, certificates(name), _KEPT)
            self._words[f"$port.{name}"] = str(server.port)

    def clean(self) -> None:
        for server in [*self._backends.values(), *filter(None, [self._tokens])]:
            server.stop()
        for kind, name, namespace in reversed(self._applied):
            where = ["--namespace", namespace] if namespace else []
            self._cluster.kubectl("delete", kind, name, *where, "--ignore-not-found", "--wait=true", "--timeout=60s")

    def _do(self, step: Step) -> None:
        for made in ("pipeline", "secret", "pod", "apply"):
            if made in step:
                self._apply(step, self._object(made, step))
                return
        # `who` comes first for those who read.
        verb = next(verb for verb in step if verb != "who")
        getattr(self, f"_{verb.replace('-', '_')}")(step.pop(verb), step)

    def _object(self, made: str, step: Step) -> dict[str, Any]:
        name = step.get("named", self._case.name)
        match made:
            case "pipeline":
                metadata = {"name": name, "annotations": step.get("annotations", {})}
                kind, version = step.get("kind", self._case.kind), step.get("version", "v1beta1")
                return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": step[made]}
            case "secret":
                metadata = {"name": name, "namespace": "default"}
                return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": step[made]}
            case "pod":
                return self._pod(name, step)
        return step[made]

    def _pod(self, name: str, step: Step) -> dict[str, Any]:
        """A pod in the namespace of its name, or `in`, whose container `main` prints lines and then does nothing."""
        lines = "\n".join(step.get("prints", []))
        command = ["sh", "-c", 'test -z "$LINES_TO_PRINT" || echo "$LINES_TO_PRINT"; exec sleep 100000']
        container = {
            "name": "main",
            "image": "weir.test/busybox:1",
            "command": command,
            "env": [{"name": "LINES_TO_PRINT", "value": lines}],
        }
        metadata = {"name": name, "namespace": step.get("in", "default"), **step["pod"]}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _apply(self, step: Step, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        kind = f"{manifest['kind']}.{manifest['apiVersion'].rpartition('/')[0]}".rstrip(".")
        if not step.get("keep"):
            self._applied.append((kind, metadata["name"], metadata.get("namespace")))
        try:
            said = self._cluster.apply(manifest)
        except Refused as refusal:
            assert "refused" in step, f"refused: {refusal}"
            assert re.search(step["refused"], str(refusal)), f"refused with other words: {refusal}"
            return
        assert "refused" not in step, f"was accepted: {said}"
        assert re.search(step.get("warns", ""), said), f"warns not: {said}"

    def _pipeline_of(self, step: Step) -> str:
        return f"{step.get('kind', self._case.kind)}.{GROUP}/{step.get('named', self._case.name)}"

    def _push(self, item: dict[str, Any], step: Step) -> None:
        """One item to a node, as if a pod had sent it: `from`, its name, by default that of the case. Or to a Service, `through`."""
        namespace, name = step.get("in", "default"), step.get("from", self._case.name)

        def pod() -> tuple[str, str] | None:
            """Its address and its node."""
            found = self._cluster.find(f"pod/{name}", namespace) or {"status": {}}
            address = found["status"].get("podIP")
            return (address, found["spec"]["nodeName"]) if address else None

        resource, node = dict(item.get("resource", {})), None
        if "bytes" in step:
            item = {**item, "attributes": {**item.get("attributes", {}), "filler": "x" * step["bytes"]}}
        if name != "nobody":
            address, node = wait_until(pod, f"pod {name} has an address", _DEADLINE_S)
            resource = {"k8s.pod.ip": address, **resource}
        to = self._service(step["through"]) if "through" in step else self._receiver(node)
        client.push(f"{to}:4317", step.get("signal", self._case.signal), resource, item)

    def _service(self, name: str) -> str:
        """The address of a Service, which this machine reaches as a process of node1 does."""
        found = wait_until(lambda: self._cluster.find(f"service/{name}", NAMESPACE), f"service {name} is there", _DEADLINE_S)
        return found["spec"]["clusterIP"]

    def _receiver(self, node: str | None) -> str:
        """The address of the pod that clients on a node reach: it knows the pods of that node."""
        selector = ("--selector", "app.kubernetes.io/name=telemetry-otlp-gateway")

        def ready() -> list[str]:
            pods = self._cluster.get("pods", "--namespace", NAMESPACE, *selector)["items"]
            return [pod["status"]["podIP"] for pod in pods if is_ready(pod) and node in (None, pod["spec"]["nodeName"])]

        return wait_until(ready, "a pod of a node is ready", _DEADLINE_S)[0]

    def _arrives(self, wanted: dict[str, Any], step: Step) -> None:
        """An item that has all of this, at the backend `at`."""
        backend, signal = self._backends[step["at"]], step.get("signal", self._case.signal)
        try:
            wait_until(
                lambda: any(matches(item, wanted) for item in backend.items(signal)),
                "it arrives",
                step.get("within", _DEADLINE_S),
            )
        except AssertionError as error:
            error.add_note(f"of {len(backend.items(signal))}, the last are {str(backend.items(signal)[-3:])[:_SHOWN]}")
            raise

    def _is_refused(self, item: dict[str, Any], step: Step) -> None:
        """Again and again, one after the other, `until` the pipeline has a condition. A node that has room takes it;
        otherwise its client is asked to come again, three times at least."""
        refused = 0

        def push() -> None:
            nonlocal refused
            try:
                self._push(item, step)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE, f"refused with {error}"
                refused += 1

        self._has_condition(self._pipeline_of(step), None, step["until"], _TROUBLE_S, push)
        assert refused >= 3, f"told after {refused} refusals"

    def _keeps_pushing(self, item: dict[str, Any], step: Step) -> None:
        """Until it arrives at the backend `until-at`."""
        backend, signal = self._backends[step["until-at"]], step.get("signal", self._case.signal)

        def arrived() -> bool:
            self._push(item, {"from": "nobody", **step})
            return any(matches(found, {"item": item}) for found in backend.items(signal))

        wait_until(arrived, f"something arrives at {step['until-at']}", _DEADLINE_S)

    def _absent(self, unwanted: dict[str, Any], step: Step) -> None:
        """No item that arrived until now has all of this."""
        found = [item for item in self._backends[step["at"]].items(step.get("signal", self._case.signal)) if matches(item, unwanted)]
        assert not found, f"{len(found)} arrived, the first is {found[0]}"

    # What must become true.

    def _condition(self, wanted: list[str], step: Step) -> None:
        """[TYPE, STATUS, REASON, PATTERN OF THE MESSAGE]"""
        self._has_condition(self._pipeline_of(step), None, wanted, step.get("within", _DEADLINE_S))

    def _telemetry(self, wanted: list[str], _: Step) -> None:
        self._has_condition("telemetry/default", NAMESPACE, wanted)

    def _has_condition(
        self,
        of: str,
        namespace: str | None,
        wanted: list[str],
        within_s: float = _DEADLINE_S,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        kind, status, reason, *message = wanted

        def holds() -> bool:
            nonlocal found
            meanwhile()
            conditions = (self._cluster.find(of, namespace) or {}).get("status", {}).get("conditions", [])
            found = next((it for it in conditions if it["type"] == kind), {})
            is_it = [found.get("status"), found.get("reason")] == [status, reason]
            return is_it and (not message or re.search(message[0], found["message"]) is not None)

        found: dict[str, Any] = {}
        try:
            wait_until(holds, f"{of} has {wanted}", within_s)
        except AssertionError as error:
            error.add_note(f"it has {found}")
            raise

    def _becomes(self, value: Any, step: Step) -> None:
        """The value at a path of keys of an object; a text that begins with ~ is a pattern. `decoded`: of a Secret."""
        of, namespace, keys = step["of"], step.get("in", NAMESPACE), step["at"]

        def found() -> Any:
            node: Any = self._cluster.find(of, namespace)
            for key in keys:
                if isinstance(node, list):
                    node = node[key] if isinstance(key, int) and key < len(node) else None
                else:
                    node = (node or {}).get(key)
            return base64.b64decode(node).decode() if node and step.get("decoded") else node

        def holds() -> bool:
            nonlocal last
            last = found()
            if isinstance(value, str) and value.startswith("~"):
                return isinstance(last, str) and re.search(value[1:], last) is not None
            return last == value

        last: Any = None
        try:
            wait_until(holds, f"{of} at {keys} is {value!r}", _DEADLINE_S)
        except AssertionError as error:
            error.add_note(f"it is {last!r}")
            raise

    def _exist(self, objects: list[str], step: Step) -> None:
        for of in objects:
            wait_until(lambda: self._cluster.find(of, step.get("in", NAMESPACE)), f"{of} exists", _DEADLINE_S)

    def _gone(self, objects: list[str], step: Step) -> None:
        for of in objects:
            wait_until(lambda: not self._cluster.find(of, step.get("in", NAMESPACE)), f"{of} is gone", _DEADLINE_S)

    def _recreated(self, objects: list[str], _: Step) -> None:
        """Each is deleted, and another of its name takes its place."""
        for of in objects:
            before = self._cluster.find(of, NAMESPACE)
            assert before, f"{of} is not there"
            self._cluster.kubectl("delete", of, "--namespace", NAMESPACE, "--wait=false")

            def is_new() -> bool:
                now = self._cluster.find(of, NAMESPACE)
                return now is not None and now["metadata"]["uid"] != before["metadata"]["uid"]

            wait_until(is_new, f"{of} is made again", _DEADLINE_S)

    def _page(self, patterns: list[str], step: Step) -> None:
        """The page of metrics behind the Service `of`. Each of its pods has one: a line of any of them will do."""
        address, text = f"{self._service(step['of'])}:8888", ""

        def has(pattern: str) -> bool:
            nonlocal text
            text = page(address, "/metrics") or ""
            return re.search(pattern, text) is not None

        for pattern in patterns:
            what = f"the page of {step['of']} has {pattern}"
            try:
                wait_until(lambda pattern=pattern: has(pattern), what, _DEADLINE_S)
            except AssertionError as error:
                name = re.match(r"\w*", pattern)[0]
                lines = [line for line in text.splitlines() if line.startswith(name)]
                error.add_note(f"the last one has {len(text)} letters, and of {name} {lines}")
                raise

    def _delete(self, objects: list[str], step: Step) -> None:
        for of in objects:
            self._cluster.kubectl("delete", of, "--namespace", step.get("in", NAMESPACE), "--wait=false")

    def _patch(self, patch: dict[str, Any], step: Step) -> None:
        where = ["--namespace", step.get("in", NAMESPACE)]
        self._cluster.kubectl("patch", step["of"], *where, "--type=merge", f"--patch={json.dumps(patch)}")

    def _stays(self, unchanged: list[str], step: Step) -> None:
        """Nobody writes these objects for a moment."""

        def versions() -> list[str]:
            found = [self._cluster.find(of, step.get("in", NAMESPACE)) for of in unchanged]
            return [it["metadata"]["resourceVersion"] if it else "none" for it in found]

        before, end = versions(), time.monotonic() + _STAYS_S
        while time.monotonic() < end:
            assert versions() == before, f"{unchanged} changed"
            time.sleep(0.5)

    def _can(self, answers: dict[str, bool], step: Step) -> None:
        """What a user with a ClusterRole may do: {VERB RESOURCE: whether}."""
        for question, expected in answers.items():
            verb, resource = question.split()
            allowed = self._cluster.can(step["who"], verb, resource)
            assert allowed == expected, f"{step['who']} {'may' if allowed else 'may not'} {question}"


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    says_so = any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)
    return says_so and "deletionTimestamp" not in pod["metadata"]
