#!/usr/bin/env python3
"""What the page and a tap cost the process that they look at.

  cargo build --release --package weir
  scripts/bench-page.py                           # 100,000 spans a second, 50 pipelines
  scripts/bench-page.py --rate 20000 --rounds 3
  scripts/bench-page.py --rate 100 --log-files 2000 --rounds 4
  tests/page/setup.sh                             # brings Chromium and its driver, which --paint needs
  .venv/bin/python scripts/bench-page.py --rate 100 --log-files 2000 --rounds 0 --paint 10

One of the pipelines gets spans; the others are there to be shown. Windows take turns, each as long as the others: nobody
looks; the page is open, which asks three questions a second and two more every five; the page asks ten and a hundred times as
often, so that what it costs stands out of the noise; so do all of its views at once; a tap is open that finds nothing. Of
each, the CPU time of the process per second and per million spans: medians, and the difference to nobody.

With --log-files the process reads so many log files of containers, ten of which grow by ten lines a second, and windows
are added in which the view of log files is open. Then come the bytes of its answers (the first rows, and all), of /logs as
people ask for it, and how long each takes. With --paint a fresh browser opens that view, each time anew: when it first
paints anything, when it first asks for figures, and when rows of log files are painted. What is painted before it asks
does not depend on any answer.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from bench import ask, cpu_seconds, end_with_sigterm, free_ports, pipeline, started, until

FIELDS = {"TracePipeline": "span.name", "LogPipeline": "log.body"}
# Log files that grow, by so many lines a second.
GROWING, LINES = 10, 10
LINE = "2026-01-01T00:00:00.000000000Z stdout F an order of the shop was taken, and its cart is empty again\n"
# Large enough for thousands of log files to be found and read.
FILES_PATIENCE_S = 120


def manifest(sink, pipelines, log_files):
    """The first pipeline takes spans; of the others, which take log records, one reads the log files."""
    kinds = ["TracePipeline"] + ["LogPipeline"] * (pipelines - 1)

    def one(number, kind):
        spec = {"filter": [{"conditions": [f'IsMatch({FIELDS[kind]}, "^never")']}]}
        if kind == "LogPipeline":
            spec["input"] = {"runtime": {"enabled": log_files > 0 and number == 1}}
        return pipeline(kind, f"p{number}", f"http://127.0.0.1:{sink}", "gzip", **spec)

    return "".join(one(number, kind) for number, kind in enumerate(kinds))


def write_log_files(directory, files):
    """One file of each container, two containers in a pod, as the kubelet lays them out."""
    for number in range(files):
        pod, container = divmod(number, 2)
        path = directory / f"shop_cart-{pod}_{uuid.UUID(int=pod + 1)}" / f"container-{container}"
        path.mkdir(parents=True)
        (path / "0.log").write_text(LINE * 10)


class Weir:
    def __init__(self, stack, args, directory):
        grpc, http, metrics, health, self.admin, sink, sink_http, control = free_ports(8)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        start = lambda *words: stack.enter_context(started([args.weir, *words], **quiet))
        path, pods, keeps = directory / "pipelines.yaml", directory / "pods", ["--no-data-dir"]
        path.write_text(manifest(sink, args.pipelines, args.log_files))
        start("sink", "--grpc-port", sink, "--http-port", sink_http, "--control-port", control)
        if args.log_files:
            growing = min(GROWING, args.log_files)
            pods.mkdir()
            write_log_files(pods, args.log_files - growing)
            start("load", "log-files", pods, "--containers", growing, "--rate", LINES)
            keeps = ["--pod-logs", pods, "--data-dir", directory / "data"]
        ports = zip(("grpc", "http", "metrics", "health", "admin"), (grpc, http, metrics, health, self.admin))
        flags = [word for name, port in ports for word in (f"--{name}-port", port)]
        self.process = start("run", path, *keeps, "--memory", "512MiB", *flags)
        until(lambda: self.ask("/api/now"), "weir answers: is it built, and are its flags right?")
        has_all = lambda: len(json.loads(self.ask("/logs"))) >= args.log_files
        until(has_all, f"{args.log_files} log files are found", FILES_PATIENCE_S)
        start("load", "traces", "--endpoint", f"127.0.0.1:{grpc}", "--rate", args.rate, "--duration", "3600s")

    looks = 0

    def ask(self, path, document=None, method=None):
        return ask(self.admin, path, document, method)

    def seen(self):
        """CPU seconds, and spans that came in."""
        cpu = cpu_seconds(self.process.pid)
        now = json.loads(self.ask("/api/now"))
        return cpu, sum(of["books"]["accepted"] for of in now["pipelines"] if of["signal"] == "traces")


def nobody(_, end):
    time.sleep(max(0, end - time.monotonic()))


# What is asked beside that, every so many looks: by the view Pipelines, by that of log files, and by all others.
PIPELINES = {"/health/changes": 5, "/api/configuration": 5}
FIRST_LOG_FILES, ALL_LOG_FILES = "/logs?first=40", f"/logs?first={2**53 - 1}"
LOG_FILES = {ALL_LOG_FILES: 3}
OTHERS = LOG_FILES | {"/api/talkers": 2, "/targets": 3, "/rejected": 5, "/dropped": 5, "/api/attributes?pipeline=traces/p0": 5}


def page(every_s, beside=PIPELINES):
    def look(weir, end):
        while time.monotonic() < end:
            began = time.monotonic()
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3))
            due = [path for path, looks in beside.items() if weir.looks % looks == 0]
            for path in ("/api/now", "/health/pipelines", f"/api/history?since={since}", *due):
                weir.ask(path)
            weir.looks += 1
            time.sleep(max(0, min(end, began + every_s) - time.monotonic()))

    return look


def tap(weir, end):
    opened = json.loads(weir.ask("/api/taps", {"pipeline": "traces/p0", "text": "what nobody says", "seconds": 300}))
    path = f"/api/taps/{opened['tap']}"
    while time.monotonic() < end:
        weir.ask(f"{path}?after=0")
        time.sleep(max(0, min(1, end - time.monotonic())))
    weir.ask(path, method="DELETE")


def window(weir, look, seconds):
    (cpu, spans), began, weir.looks = weir.seen(), time.monotonic(), 0
    look(weir, began + seconds)
    (cpu_after, spans_after), took = weir.seen(), time.monotonic() - began
    cpu, spans = cpu_after - cpu, spans_after - spans
    return cpu / took, cpu / max(spans, 1) * 1e6, spans / took, weir.looks / took


def answer(weir, path, times=20):
    """How large the answer is, how long it takes as a rule, and at most, in milliseconds."""
    sizes, took = [], []
    for _ in range(times):
        began = time.perf_counter()
        sizes.append(len(weir.ask(path)))
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(sizes), statistics.median(took), max(took)


# Notes when the frame was made in which a row of a log file is for the first time.
NOTE_ROWS = """
    const observer = new MutationObserver(() => {
      if (!document.querySelector("#logs tr[data-key]")) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => { window.rowsAt = performance.now(); }));
    });
    observer.observe(document, { childList: true, subtree: true });
"""
ASKED = "return performance.getEntriesByType('resource').find((one) => one.name.endsWith('/api/now'))?.startTime"
FIRST_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def browser():
    """What the tests of the page have, if it is there."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/page"))
    try:
        from browser import Page, chromium
    except ImportError:
        sys.exit("--paint needs selenium: run tests/page/setup.sh, and this script with .venv/bin/python")
    return Page, chromium


def paint(weir, Page, chromium):
    """Milliseconds to the first paint of anything, to the first question, and to the first paint of rows of log files, in a
    browser that has just begun."""
    driver = chromium()
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NOTE_ROWS})
        page = Page(driver)
        page.open(f"127.0.0.1:{weir.admin}", "logs")
        rows = page.wait(lambda: driver.execute_script("return window.rowsAt"), "rows of log files")
        anything = page.wait(lambda: driver.execute_script(FIRST_PAINT), "a first paint")
        return anything, driver.execute_script(ASKED), rows
    finally:
        driver.quit()


def views(args):
    looks = {
        "nobody looks": nobody,
        "page": page(1),
        "page, 10 times as often": page(0.1),
        "page, 100 times as often": page(0.01),
        "all views, 100 times as often": page(0.01, PIPELINES | OTHERS),
        "tap that finds nothing": tap,
    }
    if args.log_files:
        looks["log files"] = page(1, LOG_FILES)
        looks["log files, 10 times as often"] = page(0.1, LOG_FILES)
        looks["log files, 100 times as often"] = page(0.01, LOG_FILES)
    return looks


def show_figures(figures, args):
    print(f"{'':30} {'cores':>7} {'more':>8} {'CPU s / million':>16} {'spans/s':>9} {'looks/s':>8}")
    base = statistics.median(cores for cores, *_ in figures["nobody looks"])
    for name, of in figures.items():
        # Each round with itself: what the machine does beside it changes.
        more = statistics.median(one[0] - alone[0] for one, alone in zip(of, figures["nobody looks"]))
        cores, each, rate, seen = (statistics.median(column) for column in zip(*of))
        print(f"{name:30} {cores:7.3f} {more:+8.4f} {each:16.2f} {rate:9.0f} {seen:8.1f}")
    print(f"nobody looks: {base:.3f} cores in {args.rounds} windows of {args.seconds:g} s", flush=True)


def show_log_files(weir, args):
    for path in (FIRST_LOG_FILES, ALL_LOG_FILES, "/logs"):
        size, took, most = answer(weir, path)
        print(f"{path}: {size:,.0f} bytes in {took:.1f} ms, {most:.1f} ms at most, of 20 answers", flush=True)
    of_browser = browser() if args.paint else None
    for number in range(args.paint):
        anything, asked, rows = paint(weir, *of_browser)
        words = f"anything after {anything:.0f} ms, the first question after {asked:.0f} ms"
        print(f"paint {number + 1}: {words}, rows of log files after {rows:.0f} ms", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="target/release/weir")
    parser.add_argument("--rate", type=int, default=100_000, help="spans a second")
    parser.add_argument("--pipelines", type=int, default=50)
    parser.add_argument("--log-files", type=int, default=0, help="of containers, which the process reads")
    parser.add_argument("--seconds", type=float, default=5, help="of each window")
    parser.add_argument("--rounds", type=int, default=8, help="0 leaves the windows out")
    parser.add_argument("--paint", type=int, default=0, help="how often a browser opens the view of log files")
    args = parser.parse_args()
    if args.log_files and args.pipelines < 2:
        parser.error("--log-files needs two pipelines: the first one takes spans")
    if args.paint and not args.log_files:
        parser.error("--paint is of the view of log files: say how many with --log-files")
    return args


def main():
    args = arguments()
    end_with_sigterm()
    if args.paint:
        browser()
    looks = views(args)
    figures = {name: [] for name in looks}
    with contextlib.ExitStack() as stack:
        weir = Weir(stack, args, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        time.sleep(args.seconds)
        for _ in range(args.rounds):
            for name, look in looks.items():
                figures[name].append(window(weir, look, args.seconds))
        if args.rounds:
            show_figures(figures, args)
        if args.log_files:
            show_log_files(weir, args)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; everything that was started has ended")
