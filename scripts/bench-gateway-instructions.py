#!/usr/bin/env python3
"""How many instructions two programs run for the same requests: in turn, some times.

  apt-get install gcc qemu-user
  scripts/bench-gateway-instructions.py --b old/weir                # target/release/weir beside it: 5 minutes

What a part of the program costs is seen beside a program without it: bench/without has patches that take one out.

On a machine that others use, times of one program differ by more than a small change costs, and processors of virtual
machines often count nothing. Under QEMU's emulation of user programs all instructions are counted; those of the kernel
are not, and what a cache or a branch costs is not seen. One connection sends one request after the other, and the
gateway has one processor and so one thread for them: runs of one program differ by half a percent or so. What the
gateway does every second weighs more than in a run at full speed, which takes a twentieth of the time.

Each run has a gateway without a data directory and a `weir sink` of its own; the load is `weir load traces` with spans
of some 200 bytes over OTLP/HTTP. What the start and the end of the process take is part of it.
"""

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import ask, end_with_sigterm, free_ports, pipeline, started, until

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "target/release/weir"
# Without fast strings of the processor, whose one instruction is one for each byte in the emulation.
EMULATOR = ["qemu-x86_64", "-cpu", "max,-erms,-fsrm"]


# The first version of QEMU that wants another version of the plugin's interface.
SECOND_INTERFACE = 9


def plugin(directory):
    path = directory / "count.so"
    source = ROOT / "bench/instructions/count.c"
    try:
        said = subprocess.run([EMULATOR[0], "--version"], check=True, capture_output=True, text=True).stdout
        version = re.search(r"version (\d+)", said)
        interface = 2 if version and int(version[1]) >= SECOND_INTERFACE else 1
        command = ["gcc", "-O2", "-shared", "-fPIC", f"-DINTERFACE={interface}", "-o", path, source]
        subprocess.run(command, check=True)
    except FileNotFoundError as error:
        sys.exit(f"{error.filename} is not installed: apt-get install gcc qemu-user")
    return path


def instructions(program, args, directory, counter):
    """What this program runs to take and deliver all items."""
    grpc, http, metrics, health, admin, sink, sink_http, control = free_ports(8)
    config, said = directory / "pipelines.yaml", directory / "gateway.log"
    config.write_text(pipeline("TracePipeline", "all", f"http://127.0.0.1:{sink}", "none"), encoding="utf-8")
    ports = {"grpc": grpc, "http": http, "metrics": metrics, "health": health, "admin": admin}
    flags = [word for name, port in ports.items() for word in (f"--{name}-port", port)]
    words = ["taskset", "-c", args.core, *EMULATOR, "-plugin", counter]
    words += [program, "run", config, "--no-data-dir", "--memory", "512MiB", *flags]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with contextlib.ExitStack() as stack:
        of_sink = [args.judge, "sink", "--grpc-port", sink, "--http-port", sink_http, "--control-port", control]
        stack.enter_context(started(of_sink, **silent))
        until(lambda: ask(control, "/healthz"), "the sink answers")
        with open(said, "wb") as log, started(words, stdout=log, stderr=log) as gateway:

            def is_up():
                if gateway.poll() is not None:
                    sys.exit(f"{text_of(said)}\nthe gateway ended with {gateway.returncode}: see its log above")
                return ask(metrics, "/metrics")

            until(is_up, "the gateway answers")
            load = [args.judge, "load", "traces", "--http", "--endpoint", f"127.0.0.1:{http}", "--items", args.items]
            load += ["--concurrency", 1, "--batch", args.batch, "--attributes", 5, "--attribute-bytes", 16]
            subprocess.run([str(word) for word in load], check=True, **silent)
            delivered = f'weir_pipeline_delivered_items_total{{pipeline="all",signal="traces"}} {args.items}\n'
            until(lambda: delivered in ask(metrics, "/metrics").decode(), "all items are delivered")
    found = re.search(r"^instructions: (\d+)$", text_of(said), re.MULTILINE)
    if not found:
        sys.exit(f"{text_of(said)}\nthe gateway did not end well: see its log above")
    return int(found[1])


def text_of(log):
    return log.read_text(encoding="utf-8", errors="replace")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a", default=PROGRAM, help=f"what comes first; {PROGRAM} unless it is named")
    parser.add_argument("--b", required=True, help="what is beside it")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--items", type=int, default=100_000, help="spans of each run (100,000)")
    parser.add_argument("--batch", type=int, default=20, help="spans of a request (20)")
    parser.add_argument("--core", default="0", help="of the gateway, as taskset names cores (0)")
    parser.add_argument("--judge", default=PROGRAM, help=f"the program of sink and load ({PROGRAM})")
    args = parser.parse_args()
    for program in (args.a, args.b, args.judge):
        if not os.path.isfile(program):
            parser.error(f"there is no program {program!r}: is it built?")
    if min(args.rounds, args.items, args.batch) <= 0:
        parser.error("--rounds, --items and --batch must be more than 0")
    return args


def main():
    args = arguments()
    end_with_sigterm()
    taken = {"A": [], "B": []}
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        counter = plugin(directory)
        for number in range(args.rounds):
            for name, program in (("A", args.a), ("B", args.b)):
                taken[name].append(instructions(program, args, directory, counter) / args.items)
                print(f"round {number + 1} {name} {taken[name][-1]:,.0f} instructions for each span", flush=True)
    for name, each in taken.items():
        print(f"{name} median {statistics.median(each):,.0f}, lowest {min(each):,.0f}, highest {max(each):,.0f}")
    print(f"B / A {statistics.median(taken['B']) / statistics.median(taken['A']):.4f}, of medians")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; everything that was started has ended")
