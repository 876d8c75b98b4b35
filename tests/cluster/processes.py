"""Processes of Weir on this machine, beside a cluster of an API server alone, and what they cost."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from cluster import wait_until

_TICKS = os.sysconf("SC_CLK_TCK")


def weir() -> str:
    binary = os.environ.get("WEIR")
    assert binary, "set WEIR to the weir binary, or use tests/cluster/run.sh"
    return binary


class Process:
    """`weir` with some arguments, until it is stopped. Its log is read, not its ports: that costs it nothing."""

    def __init__(self, directory: Path, name: str, *arguments: str, env: dict[str, str] | None = None):
        self.log = directory / f"{name}.log"
        self.began = time.time()
        with self.log.open("wb") as log:
            command = [weir(), *arguments, "--log-format=json"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(env or {})})

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        self.stop()
        self.wait()

    def wait(self) -> None:
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def rss_mb(self) -> float:
        return self._status("VmRSS")

    def own_mb(self) -> float:
        """Without the pages of its program, which all processes of a machine share."""
        return self._status("RssAnon")

    def peak_mb(self) -> float:
        return self._status("VmHWM")

    def _status(self, field: str) -> float:
        assert self._process.poll() is None, f"ended with {self._process.returncode}: {self.log.read_text()[-2000:]}"
        return memory_mb(self._process.pid, field)

    def cpu_s(self) -> float:
        """All that it used since its start."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def connections(self) -> int:
        """Sockets of every kind."""
        return sum(os.readlink(file).startswith("socket:") for file in Path(f"/proc/{self._process.pid}/fd").iterdir())


def memory_mb(process: int, field: str = "VmRSS") -> float:
    """A figure of memory of a process, as the kernel names it: `VmHWM` is the most that it had."""
    return int(re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) * 1024 / 1e6


def processes_of(pod_uid: str) -> Iterator[int]:
    """Nodes of the cluster are processes of this machine, and so is what runs in their pods."""
    for groups in Path("/proc").glob("[0-9]*/cgroup"):
        with suppress(OSError):
            if pod_uid in groups.read_text() or pod_uid.replace("-", "_") in groups.read_text():
                yield int(groups.parent.name)


def started_at(process: int) -> float:
    """When a process began, as `time.time()` has it, to a tick of the kernel (10 ms)."""
    # The name of the program, in brackets, may have spaces.
    ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / _TICKS
    return time.time() - age


def seconds_of(line: dict[str, object]) -> float:
    """When a line of a log was written, as `time.time()` has it."""
    return datetime.fromisoformat(str(line["timestamp"])).timestamp()


def first_ok(address: str, deadline_s: float = 30) -> float:
    """Asks until a request over OTLP/HTTP is taken. Returns when."""
    span = {"traceId": "01" * 16, "spanId": "01" * 8, "name": "a", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    request = urllib.request.Request(f"http://{address}/v1/traces", body, {"Content-Type": "application/json"})
    end = time.time() + deadline_s
    while time.time() < end:
        try:
            with urllib.request.urlopen(request, timeout=5):
                return time.time()
        except OSError:
            time.sleep(0.002)
    raise AssertionError(f"nothing was taken within {deadline_s} s")


def page(address: str, path: str) -> str | None:
    """Nothing if nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return None


def figure(text: str, name: str) -> float:
    """The sum of a metric of a page."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(rf"{name}[ {{]", line))


def cpu_share(process: Process, seconds: float) -> float:
    """The part of a core that a process uses from now on."""
    began, used = time.monotonic(), process.cpu_s()
    time.sleep(seconds)
    return (process.cpu_s() - used) / (time.monotonic() - began)


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def stop_all(processes: list[Process]) -> None:
    for process in processes:
        process.stop()
    for process in processes:
        process.wait()


def until_ready(process: Process, address: str) -> None:
    wait_until(lambda: page(address, "/readyz") or page(address, "/"), f"{process.log.stem} is ready", 120)
