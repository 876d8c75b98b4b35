#!/usr/bin/env python3
"""What two programs, or two configurations of one program, take of a core for the same load: in turn, many times.

  cargo build --release --package weir
  scripts/bench-gateway-cpu.py --b old/weir                         # two programs, ten rounds of 20 s each: 8 minutes
  scripts/bench-gateway-cpu.py --b target/release/weir              # the same one twice: what is noise
  scripts/bench-gateway-cpu.py --b old/weir --batch 512 --rate 500000
  scripts/bench-gateway-cpu.py --tap                                # with a tap open at `in`, beside none
  scripts/bench-gateway-cpu.py --b old/weir --tap out --rounds 20 --minutes 30
  scripts/bench-gateway-cpu.py --a old/weir:half --b target/release/weir:half --namespaces 50
  scripts/bench-gateway-cpu.py --a target/release/weir:each --b target/release/weir:half --namespaces 50
  scripts/bench-gateway-cpu.py --a target/release/weir:one.yaml --b target/release/weir:other.yaml

Each window has processes of its own: `weir sink`, then the gateway without a data directory on core --core, and a load at
a fixed rate; sink and load run on --others, and are always those of --judge. What comes first changes from round to round.
After a warm-up, the gateway's CPU time in the window (user and system, from /proc, in steps of 10 ms) is divided by what
was acknowledged. Each window is printed as it ends, and figures of all whole rounds come last, also after Ctrl-C: median,
lowest, highest and quartiles for each, the ratio of the medians, and the ratio in the same round.

The load is `weir load traces` with spans of some 200 bytes. With --namespaces, it is `weir load logs --namespaces`: log
records over OTLP/HTTP, as many of each of so many namespaces (shop-0, shop-1, ...) in every request, because
TracePipelines select no namespaces.

CONFIG is a file for `weir run` whose pipelines send to http://127.0.0.1:14317, in whose place comes the sink, or one of:

  all    a pipeline of each signal takes everything; this is the default
  each   --pipelines LogPipelines with selectors, each of which takes its part of the namespaces, and together all
  half   the same, but no pipeline takes every second namespace

What `half` does not take is not delivered either, so beside `each` the figure is about both. What it costs to count what
no pipeline takes is the difference of two programs with `half`.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench import PATIENCE_S, ask, cpu_seconds, end_with_sigterm, free_ports, pipeline, started, until

PROGRAM = "target/release/weir"
# Where `weir sink` listens unless it is told otherwise: what examples name.
SINK = "http://127.0.0.1:14317"
BUILT_IN = ("all", "each", "half")
EDGES = ("in", "removed", "out", "received", "unclaimed")
# For how long a tap may be open.
TAP_S = 900
# Of a log record.
BODY_BYTES = 60
# What a window takes beside its seconds and the warm-up, about.
AROUND_S = 2
LOG_TAIL = 2_000


@dataclass(frozen=True)
class Subject:
    name: str
    program: str
    config: str
    # The edge at which a tap is open.
    tap: str | None = None

    def describe(self):
        tap = f", with a tap open at {self.tap}" if self.tap else ""
        return f"{self.name}: {self.program} with {self.config}{tap}"


@dataclass(frozen=True)
class Window:
    cpu_each: float
    cores: float
    rate: float
    unclaimed: float
    delivered: float
    troubles: list
    # What the tap said at its end.
    tap: str | None

    def describe(self):
        notes = "".join(f"; {note}" for note in [*self.troubles, self.tap] if note)
        return (
            f"{self.cpu_each:8.3f} CPU s / million, {self.cores:.3f} cores, {self.rate:,.0f} items/s, "
            f"{self.delivered:.0%} delivered, {self.unclaimed:.0%} unclaimed{notes}"
        )


def log_pipeline(name, **otlp):
    return pipeline("LogPipeline", name, SINK, "none", input={"runtime": {"enabled": False}, "otlp": otlp})


def configuration(config, args):
    """The text of a configuration, with the address of the usual sink in it."""
    if config not in BUILT_IN:
        return Path(config).read_text(encoding="utf-8")
    if config == "all":
        return pipeline("TracePipeline", "all", SINK, "none") + log_pipeline("all")
    claimed = range(0, args.namespaces, 2 if config == "half" else 1)

    def part(number):
        names = [f"shop-{one}" for one in claimed[number :: args.pipelines]]
        return log_pipeline(f"part-{number}", namespaces={"include": names})

    return "".join(part(number) for number in range(args.pipelines))


class Gateway:
    """The program of a subject while it runs, with a sink behind it."""

    def __init__(self, stack, subject, args, directory):
        self.args, self.directory = args, directory
        grpc, http, self.metrics, health, self.admin, sink, sink_http, self.control = free_ports(8)
        self.grpc, self.http = f"127.0.0.1:{grpc}", f"127.0.0.1:{http}"
        words = [args.judge, "sink", "--grpc-port", sink, "--http-port", sink_http, "--control-port", self.control]
        self._start(stack, "sink", words, lambda: ask(self.control, "/healthz"))
        path = directory / "pipelines.yaml"
        path.write_text(configuration(subject.config, args).replace(SINK, f"http://127.0.0.1:{sink}"), encoding="utf-8")
        ports = {"grpc": grpc, "http": http, "metrics": self.metrics, "health": health, "admin": self.admin}
        flags = [word for name, port in ports.items() for word in (f"--{name}-port", port)]
        words = ["taskset", "-c", args.core, subject.program, "run", path, "--no-data-dir", "--memory", "512MiB", *flags]
        self.process = self._start(stack, "gateway", words, lambda: ask(self.metrics, "/metrics"))

    def _start(self, stack, name, words, answers):
        with open(self._log(name), "wb") as log:
            process = stack.enter_context(started(words, stdout=log, stderr=log))

        def is_up():
            if process.poll() is not None:
                self._fail(name, f"it ended with {process.returncode}")
            return answers()

        until(is_up, f"the {name} answers")
        return process

    def _log(self, name):
        return self.directory / f"{name}.log"

    def _fail(self, name, why):
        said = self._log(name).read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:]
        sys.exit(f"{said}\nthe {name} failed, {why}: see its log above")

    def load(self, seconds, tap=None):
        """What the load of so many seconds says of itself."""
        args, report = self.args, self.directory / "report.json"
        if args.namespaces:
            what = ["logs", "--http", "--endpoint", self.http, "--namespaces", args.namespaces, "--size", BODY_BYTES]
        else:
            what = ["traces", "--endpoint", self.grpc]
        words = [args.judge, "load", *what, "--attributes", 5, "--attribute-bytes", 16]
        words += ["--rate", args.rate, "--batch", args.batch, "--concurrency", args.connections]
        words += ["--duration", f"{seconds:g}s", "--report", report]
        deadline = time.monotonic() + seconds + PATIENCE_S
        with open(self._log("load"), "wb") as log, started(words, stdout=log, stderr=log) as process:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    self._fail("load", f"it had not ended {PATIENCE_S} s after its time")
                if self.process.poll() is not None:
                    self._fail("gateway", f"it ended with {self.process.returncode}")
                if tap:
                    tap.read()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
        if process.returncode != 0:
            self._fail("load", f"it ended with {process.returncode}")
        said = json.loads(report.read_text(encoding="utf-8"))
        if not said["acked_items"]:
            self._fail("gateway", "it took nothing")
        return said

    def received(self):
        return json.loads(ask(self.control, "/report"))["received"]

    def unclaimed(self):
        lines = ask(self.metrics, "/metrics").decode().splitlines()
        counts = [line.split()[-1] for line in lines if line.startswith("weir_receiver_unclaimed_items_total")]
        return sum(map(float, counts))

    def settle(self):
        """Waits until nothing more arrives."""
        seen = [self.received()]

        def is_still():
            time.sleep(0.2)
            seen.append(self.received())
            return seen[-1] == seen[-2]

        until(is_still, "what was acknowledged is delivered")


class Tap:
    """An open tap, which is asked as one who looks at it does."""

    def __init__(self, gateway, subject, args):
        self.port, self.last, self.said = gateway.admin, 0, None
        wish = {"pipeline": "logs/*" if args.namespaces else "traces/*", "edge": subject.tap, "seconds": TAP_S}
        if args.tap_text:
            wish["text"] = args.tap_text
        self.path = f"/api/taps/{json.loads(ask(self.port, '/api/taps', wish))['tap']}"

    def read(self):
        self.said = json.loads(ask(self.port, f"{self.path}?after={self.last}"))
        self.last = self.said["last"]

    def close(self):
        self.read()
        ask(self.port, self.path, method="DELETE")
        said = self.said
        return f"tap {said['state']}: {said['seen']:,} items passed, {said['matched']:,} caught, {said['left_out']:,} left out"


def troubles_of(said):
    """What went wrong in a window."""
    ends = {"refused_items": "refused", "unknown_items": "without an answer", "partial_rejected": "rejected"}
    troubles = [f"{said[key]:,} items {words}" for key, words in ends.items() if said[key]]
    return [*troubles, said["bottleneck"]] if said["bottleneck"] else troubles


def window(subject, args):
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        gateway = Gateway(stack, subject, args, directory)
        gateway.load(args.warmup)
        gateway.settle()
        unclaimed, received = gateway.unclaimed(), gateway.received()
        tap = Tap(gateway, subject, args) if subject.tap else None
        cpu = cpu_seconds(gateway.process.pid)
        said = gateway.load(args.seconds, tap)
        gateway.settle()
        cpu = cpu_seconds(gateway.process.pid) - cpu
        if cpu <= 0:
            sys.exit("/proc counts no CPU time in this window: make it longer with --seconds, or raise --rate")
        items, tap_said = said["acked_items"], tap.close() if tap else None
        return Window(
            cpu_each=cpu / items * 1e6,
            cores=cpu / args.seconds,
            rate=items / args.seconds,
            unclaimed=(gateway.unclaimed() - unclaimed) / items,
            delivered=(gateway.received() - received) / items,
            troubles=troubles_of(said),
            tap=tap_said,
        )


def measure(subjects, args, rounds):
    """Adds to `rounds` what each subject took in each."""
    began, longest = time.monotonic(), 0
    for number in range(args.rounds):
        if args.minutes and time.monotonic() - began + longest > args.minutes * 60:
            print(f"no more than {number} rounds end within {args.minutes:g} minutes", flush=True)
            return
        round_began, taken = time.monotonic(), {}
        for subject in subjects if number % 2 == 0 else reversed(subjects):
            taken[subject.name] = window(subject, args)
            print(f"round {number + 1} {subject.name:5} {taken[subject.name].describe()}", flush=True)
        rounds.append(taken)
        longest = max(longest, time.monotonic() - round_began)


def quartiles(values):
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def summary(subjects, rounds):
    print(f"\nCPU seconds per million items, whole rounds: {len(rounds)}; divided by those of A, and by A in the same round")
    head = f"{'':5} {'median':>8} {'lowest':>8} {'highest':>8} {'quartiles':>19}"
    print(f"{head} {'medians / A':>14} {'rounds / A':>10} {'quartiles':>13}")
    first = [taken[subjects[0].name].cpu_each for taken in rounds]
    for subject in subjects:
        each = [taken[subject.name].cpu_each for taken in rounds]
        ratios = [one / other for one, other in zip(each, first)]
        (low, high), (low_ratio, high_ratio) = quartiles(each), quartiles(ratios)
        median = statistics.median(each)
        print(
            f"{subject.name:5} {median:8.3f} {min(each):8.3f} {max(each):8.3f} ({low:8.3f} {high:8.3f}) "
            f"{median / statistics.median(first):14.3f} {statistics.median(ratios):10.3f} ({low_ratio:.3f} {high_ratio:.3f})"
        )
    for subject in subjects:
        troubled = sum(1 for taken in rounds if taken[subject.name].troubles)
        if troubled:
            print(f"{subject.name}: {troubled} of {len(rounds)} windows had a trouble; their lines above say which")


def program(text):
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"there is no program {text!r}: is it built?")
    return os.path.abspath(text)


def program_and_config(text):
    """Of PROGRAM or PROGRAM:CONFIG."""
    if os.path.isfile(text) or ":" not in text:
        return program(text), "all"
    path, _, config = text.rpartition(":")
    if config not in BUILT_IN and not os.path.isfile(config):
        raise argparse.ArgumentTypeError(f"there is no file {config!r}; built in are {', '.join(BUILT_IN)}")
    return program(path), config


def parser_of_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compared = {"type": program_and_config, "metavar": "PROGRAM[:CONFIG]"}
    parser.add_argument("--a", default=PROGRAM, **compared, help=f"what comes first; {PROGRAM} unless it is named")
    parser.add_argument("--b", **compared, help="what is beside it")
    edge = {"nargs": "?", "const": "in", "choices": EDGES, "metavar": "EDGE"}
    parser.add_argument("--tap", **edge, help="add another: the last one with a tap open at this edge (in)")
    parser.add_argument("--tap-text", metavar="TEXT", help="what the tap looks for; without, it shows ten items a second")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20, help="of each window (20)")
    parser.add_argument("--warmup", type=float, default=2, help="seconds of load before each (2)")
    parser.add_argument("--minutes", type=float, help="begin no round that would not end within this time")
    parser.add_argument("--rate", type=int, help="items a second (100,000; with --namespaces 200,000)")
    parser.add_argument("--batch", type=int, help="items of a request (20; with --namespaces 10 of each)")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--namespaces", type=int, help="send log records of so many namespaces in each request")
    parser.add_argument("--pipelines", type=int, default=5, help="of `each` and `half` (5)")
    parser.add_argument("--judge", default=PROGRAM, type=program, help=f"the program of sink and load ({PROGRAM})")
    parser.add_argument("--core", default="0", help="of the gateway, as taskset names cores (0)")
    parser.add_argument("--others", default="1", help="of sink and load (1)")
    return parser


def arguments():
    parser = parser_of_arguments()
    args = parser.parse_args()
    subjects = [Subject(name, *given) for name, given in zip("AB", (args.a, args.b)) if given]
    if args.tap:
        last = subjects[-1]
        subjects.append(Subject(f"{last.name}+tap", last.program, last.config, args.tap))
    if len(subjects) < 2:
        parser.error("there is nothing to compare: name another one with --b, or open a tap with --tap")
    for config in (subject.config for subject in subjects):
        if config in ("each", "half") and not args.namespaces:
            parser.error(f"{config} selects namespaces: say how many with --namespaces")
        if config not in BUILT_IN and SINK not in Path(config).read_text(encoding="utf-8"):
            parser.error(f"no pipeline of {config} sends to {SINK}")
    if args.namespaces and (args.namespaces % 2 or args.namespaces < 2 * args.pipelines):
        parser.error(f"--namespaces must be even, and at least twice --pipelines ({args.pipelines})")
    args.rate = args.rate or (200_000 if args.namespaces else 100_000)
    args.batch = args.batch or (10 * args.namespaces if args.namespaces else 20)
    if args.namespaces and args.batch % args.namespaces:
        parser.error(f"--batch {args.batch} must be a multiple of --namespaces {args.namespaces}")
    if min(args.rounds, args.seconds, args.warmup) <= 0:
        parser.error("--rounds, --seconds and --warmup must be more than 0")
    if args.tap and args.seconds > TAP_S - PATIENCE_S:
        parser.error(f"no tap is open for long enough: with --tap, --seconds is at most {TAP_S - PATIENCE_S}")
    return args, subjects


def main():
    args, subjects = arguments()
    end_with_sigterm()
    # Whatever is started is there, too, but for the gateway.
    if subprocess.run(["taskset", "-pc", args.others, str(os.getpid())], stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"cannot use cores {args.others}: name others with --others")
    for subject in subjects:
        print(subject.describe())
    load = f"log records of {args.namespaces} namespaces" if args.namespaces else "spans"
    minutes = args.rounds * len(subjects) * (args.seconds + args.warmup + AROUND_S) / 60
    print(f"{args.rate:,} {load} a second, {args.batch} in a request")
    print(f"{args.rounds} rounds take about {minutes:.0f} minutes", flush=True)
    rounds = []
    try:
        measure(subjects, args, rounds)
    finally:
        if rounds:
            summary(subjects, rounds)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; everything that was started has ended")
