"""Child processes on free loopback ports, with their logs kept, and waiting by polling a condition.

Every wait has a deadline and ends early when the process it waits for has exited. Only processes started
here are ever signalled, by their pid.
"""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.02
# Far more than anything takes: processes of a busy machine stand still for seconds.
DEFAULT_DEADLINE_S = 90.0


class Gone(AssertionError):
    """A process ended, or a condition did not come true, before its deadline."""


def wait_until(condition: Callable[[], T], what: str, deadline_s: float = DEFAULT_DEADLINE_S) -> T:
    """Polls until `condition` returns something true and returns that."""
    end = time.monotonic() + deadline_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise Gone(f"not within {deadline_s:.0f} s: {what} (last: {result!r})")
        time.sleep(POLL_S)


def free_port() -> int:
    """A loopback port nobody listens on, below the range outgoing connections take theirs from."""
    for _ in range(200):
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Gone("cannot find a free port between 20000 and 32000")


class Process:
    """A started child: its log file, and how to end it."""

    def __init__(self, name: str, argv: Sequence[str | Path], log: Path, env: dict[str, str] | None = None):
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self.child = subprocess.Popen(
                [str(arg) for arg in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )

    @property
    def running(self) -> bool:
        return self.child.poll() is None

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, condition: Callable[[], T], what: str, deadline_s: float = DEFAULT_DEADLINE_S) -> T:
        """`wait_until`, but fails at once when this process has exited."""

        def checked() -> T:
            result = condition()
            if not result and not self.running:
                raise Gone(f"{self.name} exited with {self.child.returncode} while waiting: {what}")
            return result

        return wait_until(checked, f"{self.name}: {what}", deadline_s)

    def wait_for_log(self, text: str, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        self.wait_for(lambda: text in self.log_text(), f"log line with {text!r}", deadline_s)

    def wait_exit(self, deadline_s: float = DEFAULT_DEADLINE_S) -> int:
        """Waits for the process to end by itself and returns its exit code."""
        try:
            return self.child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise Gone(f"{self.name} did not exit within {deadline_s:.0f} s") from None

    def terminate(self, deadline_s: float = DEFAULT_DEADLINE_S) -> int:
        """Asks it to stop (SIGTERM) and returns its exit code."""
        if self.running:
            self.child.send_signal(signal.SIGTERM)
        return self.wait_exit(deadline_s)

    def kill(self) -> None:
        """Ends it at once (SIGKILL); harmless when it has ended already."""
        if self.running:
            self.child.kill()
        self.child.wait()


class Lab:
    """Everything one test starts; what is left running when the test ends is killed."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.processes: list[Process] = []

    def start(self, name: str, argv: Sequence[str | Path], env: dict[str, str] | None = None) -> Process:
        log = self.directory / f"{len(self.processes):02}-{name}.log"
        process = Process(name, argv, log, env)
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
