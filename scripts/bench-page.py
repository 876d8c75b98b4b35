#!/usr/bin/env python3
"""What the page and a tap cost the process that they look at.

  cargo build --release --package weir
  scripts/bench-page.py                           # 100,000 spans a second, 50 pipelines
  scripts/bench-page.py --rate 20000 --rounds 3

One of the pipelines gets spans; the others are there to be shown. Windows take turns, each as long as the others: nobody
looks; the page is open, which asks three questions a second and two more every five; the page asks ten and a hundred times as
often, so that what it costs stands out of the noise; so do all of its views at once; a tap is open that finds nothing. Of each, the CPU time of the process per second and per million spans: medians, and the difference to nobody.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PIPELINE = """---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: {kind}
metadata: {{name: p{number}}}
spec:
  output: {{otlp: {{endpoint: {{value: 'http://127.0.0.1:{sink}'}}}}}}
  filter:
  - conditions: ['{condition}']
"""
FIELDS = {"TracePipeline": "span.name", "LogPipeline": "log.body"}
PATIENCE_S = 30


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def manifest(sink, pipelines):
    kinds = ["TracePipeline"] + ["LogPipeline"] * (pipelines - 1)
    numbered = enumerate(kinds)
    return "".join(
        PIPELINE.format(kind=kind, number=number, sink=sink, condition=f'IsMatch({FIELDS[kind]}, "^never")') for number, kind in numbered
    )


class Weir:
    def __init__(self, stack, args, directory):
        grpc, http, metrics, health, self.admin, sink, sink_http, control = free_ports(8)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        start = lambda *words: stack.enter_context(ended(subprocess.Popen([args.weir, *map(str, words)], **quiet)))
        path = os.path.join(directory, "pipelines.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(manifest(sink, args.pipelines))
        start("sink", "--grpc-port", sink, "--http-port", sink_http, "--control-port", control)
        ports = zip(("grpc", "http", "metrics", "health", "admin"), (grpc, http, metrics, health, self.admin))
        flags = [word for name, port in ports for word in (f"--{name}-port", port)]
        self.process = start("run", path, "--no-data-dir", "--memory", "512MiB", *flags)
        self.wait()
        start("load", "traces", "--endpoint", f"127.0.0.1:{grpc}", "--rate", args.rate, "--duration", "3600s")

    looks = 0

    def wait(self):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.ask("/api/now")
            except OSError:
                if time.monotonic() > deadline:
                    sys.exit("weir does not answer: is it built, and are its flags right?")
                time.sleep(0.1)

    def ask(self, path, document=None, method=None):
        data = None if document is None else json.dumps(document).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()

    def seen(self):
        """CPU seconds, and spans that came in."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        now = json.loads(self.ask("/api/now"))
        spans = sum(of["books"]["accepted"] for of in now["pipelines"])
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), spans


@contextlib.contextmanager
def ended(process):
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def nobody(_, until):
    time.sleep(max(0, until - time.monotonic()))


# What is asked beside that, every so many seconds: by the view Pipelines, and by all others.
PIPELINES = {"/health/changes": 5, "/api/configuration": 5}
OTHERS = {"/api/talkers": 2, "/targets": 3, "/logs": 3, "/rejected": 5, "/dropped": 5, "/api/attributes?pipeline=traces/p0": 5}


def page(every_s, beside=PIPELINES):
    def look(weir, until):
        while time.monotonic() < until:
            began = time.monotonic()
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3))
            due = [path for path, seconds in beside.items() if weir.looks % seconds == 0]
            for path in ("/api/now", "/health/pipelines", f"/api/history?since={since}", *due):
                weir.ask(path)
            weir.looks += 1
            time.sleep(max(0, min(until, began + every_s) - time.monotonic()))

    return look


def tap(weir, until):
    opened = json.loads(weir.ask("/api/taps", {"pipeline": "traces/p0", "text": "what nobody says", "seconds": 300}))
    path = f"/api/taps/{opened['tap']}"
    while time.monotonic() < until:
        weir.ask(f"{path}?after=0")
        time.sleep(max(0, min(1, until - time.monotonic())))
    weir.ask(path, method="DELETE")


def window(weir, look, seconds):
    (cpu, spans), began, weir.looks = weir.seen(), time.monotonic(), 0
    look(weir, began + seconds)
    (cpu_after, spans_after), took = weir.seen(), time.monotonic() - began
    cpu, spans = cpu_after - cpu, spans_after - spans
    return cpu / took, cpu / max(spans, 1) * 1e6, spans / took, weir.looks / took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="target/release/weir")
    parser.add_argument("--rate", type=int, default=100_000, help="spans a second")
    parser.add_argument("--pipelines", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5, help="of each window")
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    looks = {
        "nobody looks": nobody,
        "page": page(1),
        "page, 10 times as often": page(0.1),
        "page, 100 times as often": page(0.01),
        "all views, 100 times as often": page(0.01, PIPELINES | OTHERS),
        "tap that finds nothing": tap,
    }
    figures = {name: [] for name in looks}
    with contextlib.ExitStack() as stack:
        weir = Weir(stack, args, stack.enter_context(tempfile.TemporaryDirectory()))
        time.sleep(args.seconds)
        for _ in range(args.rounds):
            for name, look in looks.items():
                figures[name].append(window(weir, look, args.seconds))
    print(f"{'':30} {'cores':>7} {'more':>8} {'CPU s / million':>16} {'spans/s':>9} {'looks/s':>8}")
    base = statistics.median(cores for cores, *_ in figures["nobody looks"])
    for name, of in figures.items():
        # Each round with itself: what the machine does beside it changes.
        more = statistics.median(one[0] - alone[0] for one, alone in zip(of, figures["nobody looks"]))
        cores, each, rate, seen = (statistics.median(column) for column in zip(*of))
        print(f"{name:30} {cores:7.3f} {more:+8.4f} {each:16.2f} {rate:9.0f} {seen:8.1f}")
    print(f"nobody looks: {base:.3f} cores in {args.rounds} windows of {args.seconds:g} s")


if __name__ == "__main__":
    main()
