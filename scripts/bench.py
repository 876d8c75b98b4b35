"""What the bench scripts in Python share: processes that end with the script, their CPU time, what they answer, and
pipelines for them. Those in Bash have beside.sh for it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

PATIENCE_S = 30
# Whatever proxy the environment names: it is this machine that is asked.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def end_with_sigterm():
    """SIGTERM ends a script as Ctrl-C does, with what it has started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def started(words, **more):
    """A process that ends with the block. Ctrl-C is for the script alone, which ends what it started in good order."""
    process = subprocess.Popen([str(word) for word in words], start_new_session=True, **more)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(pid):
    """Seconds that a process has run, as user and in the kernel."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(condition, what, patience_s=PATIENCE_S):
    """Waits for something that must come; what does not answer yet is asked again."""
    deadline = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(OSError):
            if condition():
                return
        if time.monotonic() > deadline:
            sys.exit(f"not within {patience_s} s: {what}")
        time.sleep(0.1)


def pipeline(kind, name, endpoint, compression, **spec):
    """A pipeline that sends OTLP to this endpoint, with what else its `spec` has. JSON, and so YAML, too."""
    output = {"otlp": {"compression": compression, "endpoint": {"value": endpoint}}}
    document = {
        "apiVersion": "telemetry.kyma-project.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"output": output, **spec},
    }
    return f"---\n{json.dumps(document)}\n"


def ask(port, path, document=None, method=None):
    """What a port of this machine answers."""
    data = None if document is None else json.dumps(document).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers, method=method)
    with _OPENER.open(request, timeout=10) as answer:
        return answer.read()
