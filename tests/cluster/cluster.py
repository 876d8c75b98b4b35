"""A cluster that `cluster.sh` runs, as tests see it: kubectl, files of nodes, and waiting for what becomes true."""

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Object = dict[str, object]

_HERE = Path(__file__).parent
_CACHE = Path(os.environ.get("WEIR_CLUSTER_CACHE", _HERE / ".cache"))
HELM = _CACHE / "bin/helm"
_POLL_S = 0.1
# No command takes longer, not even on a busy machine: `up` and image imports are the slowest.
_COMMAND_S = 900
_FORWARDED_S = 90


class Refused(AssertionError):
    """What the API server said."""


def wait_until(condition: Callable[[], T], what: str, deadline_s: float = 60.0) -> T:
    """Polls until `condition` returns something true and returns that."""
    end = time.monotonic() + deadline_s
    while not (result := condition()):
        assert time.monotonic() < end, f"not within {deadline_s:.0f} s: {what} (last: {result!r})"
        time.sleep(_POLL_S)
    return result


def pack(file: Path, name: str) -> Path:
    """Makes an image of the binary under test."""
    binary = os.environ.get("WEIR")
    assert binary, "set WEIR to the weir binary, or use tests/cluster/run.sh"
    _run([_HERE.parents[1] / "deploy/image/build.sh", binary, file, name])
    assert file.stat().st_size < 40_000_000
    return file


class Cluster:
    """One cluster, with a state directory of its own."""

    def __init__(self, state: Path):
        self.state = state

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def address(self) -> str:
        """Where pods reach this machine."""
        return f"10.88.{re.search('network=(.*)', (self.state / 'settings').read_text())[1]}.1"

    def run(self, *arguments: str | Path, **variables: str) -> str:
        """A command of cluster.sh."""
        variables["WEIR_CLUSTER_STATE"] = str(self.state)
        return _run([_HERE / "cluster.sh", *arguments], env={**os.environ, **variables})

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return _run([*self._kubectl(), *arguments], stdin=stdin)

    def _kubectl(self) -> list[str]:
        return [str(_CACHE / "bin/kubectl"), "--kubeconfig", str(self.kubeconfig)]

    def helm(self, *arguments: str | Path) -> str:
        return _run([HELM, "--kubeconfig", self.kubeconfig, *arguments])

    def can(self, user: str, verb: str, resource: str) -> bool:
        """Whether a user may do something, in the namespace `default`."""
        question = [*self._kubectl(), "auth", "can-i", verb, resource, f"--as={user}", "--quiet"]
        return subprocess.run(question, timeout=_COMMAND_S, capture_output=True, check=False).returncode == 0

    def get(self, *arguments: str) -> Object:
        return json.loads(self.kubectl("get", "--output=json", *arguments))

    def find(self, kind_and_name: str, namespace: str | None = None) -> Object | None:
        """An object, or nothing if there is none."""
        where = ["--namespace", namespace] if namespace else []
        found = self.kubectl("get", kind_and_name, *where, "--ignore-not-found", "--output=json")
        return json.loads(found) if found.strip() else None

    def apply(self, *objects: Object) -> str:
        """Returns what kubectl says, warnings among it. Raises `Refused` when the API server refuses one."""
        documents = {"apiVersion": "v1", "kind": "List", "items": objects}
        command = [*self._kubectl(), "apply", "--filename=-"]
        ended = subprocess.run(
            command, input=json.dumps(documents), capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
        if ended.returncode != 0:
            raise Refused(ended.stderr)
        return ended.stdout + ended.stderr

    def wait_for(self, kind_and_name: str, condition: str, namespace: str = "default", deadline_s: int = 60) -> None:
        """Waits for what `kubectl wait --for` knows, like `condition=Ready`."""
        options = (f"--for={condition}", f"--namespace={namespace}", f"--timeout={deadline_s}s")
        self.kubectl("wait", kind_and_name, *options)

    @contextmanager
    def forwarded(self, pod: str, port: int, namespace: str) -> Iterator[str]:
        """A port of a pod as an address of this machine, on a port that is free, as long as `kubectl port-forward` runs."""
        where = (f"--namespace={namespace}", "--address=127.0.0.1", f"pod/{pod}", f":{port}")
        command = [*self._kubectl(), "port-forward", *where]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            late = threading.Timer(_FORWARDED_S, process.kill)
            late.start()
            try:
                said = ""
                while not (found := re.search(r"Forwarding from (\S+) ->", said)):
                    line = process.stdout.readline()
                    assert line, f"not within {_FORWARDED_S} s: {command} said {said!r}"
                    said += line
                late.cancel()
                yield found[1]
            finally:
                late.cancel()
                process.kill()

    def file(self, node: str, path: str) -> Path:
        """A file of a node, seen from this machine."""
        return self.state / node / "root" / path.lstrip("/")


def _run(command: list[str | Path], stdin: str | None = None, env: dict[str, str] | None = None) -> str:
    ended = subprocess.run(
        [str(word) for word in command], input=stdin, env=env, capture_output=True, text=True,
        timeout=_COMMAND_S, check=False,
    )
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}: {ended.stderr}{ended.stdout}"
    return ended.stdout
