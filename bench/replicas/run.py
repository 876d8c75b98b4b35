#!/usr/bin/env python3
"""Replicas of the gateway behind one address, as a Service leads to them: throughput, and how evenly they share clients.

    unshare --net bench/replicas/run.py target/release/weir              1, 2 and 4 replicas, each for --seconds
    unshare --net bench/replicas/run.py target/release/weir --grow       2 replicas, and two more while clients send

It changes rules of iptables, so it wants a network namespace of its own, and root. A connection goes to a replica by chance,
as kube-proxy has it, and stays there; the clients connect again when they are asked to.
"""

import argparse
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

_SERVICE = 4317
_SINK = 9000
_PIPELINE = """\
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {{name: backend}}
spec: {{output: {{otlp: {{compression: none, endpoint: {{value: "http://127.0.0.1:{sink}"}}}}}}}}
"""


class Replica:
    """One gateway, with a data directory of its own."""

    def __init__(self, weir: Path, work: Path, number: int, options: list[str]):
        self.otlp, self._metrics = 14300 + number, 18800 + number
        ports = {"grpc": self.otlp, "http": 14400 + number, "metrics": self._metrics, "health": 13100 + number, "admin": 0}
        arguments = [f"--{name}-port={port}" for name, port in ports.items()]
        command = [weir, "run", work / "pipeline.yaml", "--data-dir", work / f"data-{number}", *arguments, *options]
        log = (work / f"log-{number}").open("w")
        self.process = subprocess.Popen(command, stderr=log, stdout=log)
        self._wait(f"http://127.0.0.1:{13100 + number}/")
        self.mark()

    def _wait(self, url: str) -> None:
        end = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(url, timeout=1):
                    return
            except OSError:
                assert time.monotonic() < end, f"{url} does not answer"
                time.sleep(0.05)

    def _figures(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=5) as page:
            text = page.read().decode()
        find = lambda name: sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M))
        return {
            "spans": find("otelcol_receiver_accepted_spans_total"),
            "cpu": find("otelcol_process_cpu_seconds_total"),
            "connections": find("weir_receiver_connections"),
            "retired": find("weir_receiver_connections_retired_total"),
        }

    def mark(self) -> None:
        self._before = self._figures()

    def since(self) -> dict[str, float]:
        """What has grown since the mark; connections are those of now."""
        now = self._figures()
        return {key: value - self._before[key] for key, value in now.items()} | {"connections": now["connections"]}


def lead_to(replicas: list[Replica]) -> None:
    """New connections to the service go to one of these, each as likely as the others. All rules change at once."""
    rules = []
    for place, replica in enumerate(replicas):
        left = len(replicas) - place
        chance = f"-m statistic --mode random --probability {1 / left:.6f} " if left > 1 else ""
        rules.append(f"-A OUTPUT -p tcp --dport {_SERVICE} {chance}-j REDIRECT --to-ports {replica.otlp}")
    table = "\n".join(["*nat", ":OUTPUT ACCEPT", *rules, "COMMIT", ""])
    subprocess.run(["iptables-restore"], input=table, text=True, check=True)


def _load(weir: Path, arguments: argparse.Namespace, seconds: float) -> subprocess.Popen:
    rate = [f"--rate={arguments.rate}"] if arguments.rate else []
    of_load = [f"--endpoint=127.0.0.1:{_SERVICE}", f"--concurrency={arguments.connections}", f"--duration={seconds}s", *rate]
    return subprocess.Popen([weir, "load", "traces", *of_load], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _shares(replicas: list[Replica]) -> str:
    figures = [replica.since() for replica in replicas]
    total = sum(of["spans"] for of in figures) or 1
    part = lambda of: f"{100 * of['spans'] / total:.0f} % ({of['connections']:.0f} connections, {of['retired']:.0f} retired)"
    return ", ".join(map(part, figures))


def throughput(weir: Path, work: Path, arguments: argparse.Namespace) -> None:
    for count in arguments.replicas:
        replicas = [Replica(weir, work, 10 * count + number, arguments.option) for number in range(count)]
        lead_to(replicas)
        load = _load(weir, arguments, arguments.seconds)
        # What the beginning costs is not what is asked.
        time.sleep(2)
        for replica in replicas:
            replica.mark()
        began = time.monotonic()
        time.sleep(arguments.seconds - 4)
        took = time.monotonic() - began
        figures = [replica.since() for replica in replicas]
        spans, cpu = (sum(of[key] for of in figures) for key in ("spans", "cpu"))
        print(f"{count} replicas: {spans / took:,.0f} spans/s, {spans / cpu:,.0f} for each CPU second, {cpu / took:.2f} cores", end="; ")
        print(_shares(replicas))
        said, _ = load.communicate()
        if arguments.verbose:
            print(said)
        end(replicas)


def grow(weir: Path, work: Path, arguments: argparse.Namespace) -> None:
    replicas = [Replica(weir, work, number, arguments.option) for number in range(2)]
    lead_to(replicas)
    load = _load(weir, arguments, 3 * arguments.seconds)
    time.sleep(arguments.seconds)
    replicas += [Replica(weir, work, number, arguments.option) for number in range(2, 4)]
    lead_to(replicas)
    began = time.monotonic()
    while (left := began + 2 * arguments.seconds - time.monotonic()) > 0:
        for replica in replicas:
            replica.mark()
        time.sleep(min(arguments.seconds / 4, left))
        print(f"{time.monotonic() - began:3.0f} s after two more: {_shares(replicas)}", flush=True)
    print(load.communicate()[0])
    end(replicas)


def end(replicas: list[Replica]) -> None:
    for replica in replicas:
        replica.process.send_signal(signal.SIGTERM)
    for replica in replicas:
        replica.process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weir", type=Path)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rate", type=int, help="spans per second; as many as are answered without it")
    parser.add_argument("--grow", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--option", action="append", default=[], help="of weir run, as --option=--rebalance")
    arguments = parser.parse_args()
    if len(socket.if_nameindex()) > 1:
        sys.exit("bench/replicas/run.py: run it in a network namespace of its own: unshare --net ...")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        (work / "pipeline.yaml").write_text(_PIPELINE.format(sink=_SINK))
        ports = [f"--grpc-port={_SINK}", "--http-port=0"]
        sink = subprocess.Popen([arguments.weir, "sink", *ports], stdout=subprocess.DEVNULL, stderr=(work / "sink").open("w"))
        try:
            time.sleep(0.5)
            assert sink.poll() is None, (work / "sink").read_text()
            (grow if arguments.grow else throughput)(arguments.weir, work, arguments)
        finally:
            sink.kill()


main()
