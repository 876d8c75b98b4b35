"""The same log files -> Weir, and the Collector's file log receiver as the Kyma Telemetry module configures it: the same
records, field by field. What docs/logs.md lists under "Differences from the Collector" is told apart by rule."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from harness.collector import OTELCOL, PATIENCE, Backend
from harness.items import Item
from harness.log_files import Line, Writer
from harness.process import Lab
from harness.weir import Weir, pipeline

OPERATORS = Path(__file__).resolve().parents[2] / "crates" / "loadtest" / "data" / "filelog-operators.yaml"
SEED = int(os.environ.get("LOGS_SEED", "13"))
LINES = int(os.environ.get("LOGS_LINES", "2000"))
SHOWN = 5
_PATH_ATTRIBUTES = (
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.container.name",
    "k8s.container.restart_count",
)


def test_records_are_those_of_the_file_log_receiver(lab: Lab, start_weir: Callable[..., Weir]) -> None:
    pods = lab.directory / "pods"
    writer = Writer(pods, SEED, LINES)
    theirs, ours = Backend(lab, "theirs"), Backend(lab, "ours")
    start_file_log(lab, pods, theirs)
    logs = pipeline("logs", "backend", ours.grpc)
    logs["spec"]["input"] = {"runtime": {"enabled": True}}
    start_weir(logs, flags=("--pod-logs", str(pods)))
    for backend in (theirs, ours):
        # Empty lines of plain files are no records in either.
        backend.process.wait_for(lambda: len(backend.items("logs")) >= len(writer.lines), "has a record of every line")
    compare(writer.lines, by_line(theirs), by_line(ours))


def start_file_log(lab: Lab, pods: Path, backend: Backend) -> None:
    """A receiver for each format, because the module's operators are for the files of containerd alone."""
    formats = {"cri": "containerd", "docker": "docker", "plain": None}
    config = {
        "receivers": {f"file_log/{name}": receiver(pods, name, form) for name, form in formats.items()},
        "exporters": {"otlp_grpc": {"endpoint": backend.grpc, "tls": {"insecure": True}, **PATIENCE}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                "logs": {"receivers": [f"file_log/{name}" for name in formats], "exporters": ["otlp_grpc"]},
            },
        },
    }
    path = lab.directory / "file-log.yaml"
    path.write_text(json.dumps(config))
    lab.start("file-log", [OTELCOL, "--config", path]).wait_for_log("Everything is ready")


def receiver(pods: Path, name: str, form: str | None) -> dict[str, Any]:
    operators = yaml.safe_load(OPERATORS.read_text())
    if form is None:
        # Nothing but the parser of the runtime's format is left out.
        operators = operators[1:]
    else:
        operators[0]["format"] = form
    if form == "docker":
        # The collector keeps the line feed that Docker writes, and with it no text looks like JSON.
        operators.insert(1, {"type": "regex_replace", "field": "body", "regex": r"[ \t\r]*\n$", "replace_with": ""})
    return {
        "include": [f"{pods}/*_{name}-*/*/*.log"],
        "start_at": "beginning",
        "include_file_path": True,
        "include_file_name": False,
        "operators": operators,
    }


def by_line(backend: Backend) -> dict[str, Item]:
    """Records by what tells lines apart: the time, or the number that a plain line begins with."""
    found: dict[str, Item] = {}
    for record in backend.items("logs"):
        item = record["item"]
        key = item.get("timeUnixNano") or str(item.get("body"))[:6]
        assert key not in found, f"two records of one line: {found[key]} and {record}"
        found[key] = record
    return found


def compare(lines: list[Line], theirs: dict[str, Item], ours: dict[str, Item]) -> None:
    different = list(differences(lines, theirs, ours))
    shown = "\n\n".join(different[:SHOWN])
    assert not different, f"seed {SEED}: {len(different)} of {len(lines)} lines became different records:\n{shown}"


def differences(lines: list[Line], theirs: dict[str, Item], ours: dict[str, Item]) -> Iterator[str]:
    for line in lines:
        if was_joined_differently(line):
            continue
        key = line.text[:6].decode() if "_plain-" in line.path else str(line.time_ns)
        wanted, found = theirs.get(key), ours.get(key)
        if wanted is None or found is None or expected(line, wanted) != comparable(found):
            shown = [json.dumps(record and comparable(record), sort_keys=True, ensure_ascii=False) for record in (wanted, found)]
            yield f"line:      {line.text!r} of {line.path}\ncollector: {shown[0]}\nweir:      {shown[1]}"


def was_joined_differently(line: Line) -> bool:
    """Whether the collector changed parts before it joined them: it leaves out spaces at the end of each, and replaces
    halves of characters. In Weir, both are done to the whole line."""
    cleaned = [part.rstrip(b" \t\r").decode("utf-8", "replace") for part in line.parts]
    return "".join(cleaned) != line.text.rstrip(b" \t\r").decode("utf-8", "replace")


def comparable(record: Item) -> Item:
    """A record without what is of the agent and not of the line: when it was read, who read it, what was enriched."""
    item = {key: value for key, value in record["item"].items() if key != "observedTimeUnixNano"}
    resource = record["resource"]["attributes"]
    return item | {"resource": {key: resource.get(key) for key in _PATH_ATTRIBUTES}}


def expected(line: Line, record: Item) -> Item:
    """The collector's record, with the documented differences undone."""
    item = comparable(record)
    attributes = item.get("attributes", {})
    if "_plain-" in line.path:
        # Without the parser of a runtime's format, nothing reads the path.
        item["resource"] = dict.fromkeys(_PATH_ATTRIBUTES) | path_attributes(line)
    if was_not_parsed(item):
        item["body"] = attributes["log.original"]
        item["attributes"] = {key: value for key, value in attributes.items() if key != "log.original"}
    return item


def was_not_parsed(item: Item) -> bool:
    """Whether a text that looks like JSON was none for the collector: it becomes an attribute. In Weir it stays the body."""
    attributes = item.get("attributes", {})
    if item.get("body") is not None or set(attributes) - {"log.file.path", "log.iostream"} != {"log.original"}:
        return False
    if {"severityNumber", "severityText", "traceId", "spanId"} & set(item):
        return False
    try:
        members = json.loads(attributes["log.original"], strict=False)
    except ValueError:
        return True
    # Of these, nothing can be seen when nothing could be made of them.
    gone = {"level", "log.level", "log.file.path", "log.iostream"}
    return bool(set(members) - gone - ({"trace_id", "span_id", "trace_flags"} if "trace_id" in members else set()))


def path_attributes(line: Line) -> dict[str, str]:
    pod, container, file = Path(line.path).parts[-3:]
    namespace, name, uid = pod.split("_")
    return dict(zip(_PATH_ATTRIBUTES, (namespace, name, uid, container, file.removesuffix(".log"))))

