"""Log files of containers, written as the runtimes do, from a seed: ordinary lines and odd ones.

Every line has a time of its own, so that a record can be compared with the one that another agent made of the same line.
Lines of plain files have no time; each begins with a number instead.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

_BEGIN = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
_TRACE = "0af7651916cd43dd8448eb211c80319c"
_SPAN = "b7ad6b7169203331"
_TRACEPARENT = f"00-{_TRACE}-{_SPAN}-01"

_LEVELS: list[Any] = [
    *("trace", "debug", "info", "warn", "warning", "error", "err", "fatal", "critical", "notice", "panic", "verbose"),
    *("INFO", "Warn", "eRRor", "trace2", "DEBUG3", "info4", "info5", "warn1", "fatal4", "i n f o", " info", "", "true"),
    *(1, 9, 17, 24, 25, 0, -1, 9.0, 9.5, "9", "24", "25", True, False, None, [], ["info"], {}, {"name": "info"}),
]
_MESSAGES: list[Any] = [
    *("cart is empty", "", " spaces ", "two\nlines", 'quotes " and \\', "ž and 😀", "{\"a\":1}", "\u0000nul", "tab\t"),
    *(42, 1.5, 1e300, True, None, [], [1, "a", None], {}, {"text": "x", "n": 1}),
]
_TRACES: list[dict[str, Any]] = [
    {"trace_id": _TRACE, "span_id": _SPAN},
    {"trace_id": _TRACE, "span_id": _SPAN, "trace_flags": "01"},
    {"trace_id": _TRACE.upper(), "span_id": _SPAN},
    {"trace_id": _TRACE},
    {"span_id": _SPAN, "trace_flags": "01"},
    {"trace_id": _TRACE, "span_id": "short"},
    {"trace_id": "not hex", "span_id": _SPAN},
    {"trace_id": "0" * 32, "span_id": "0" * 16},
    {"trace_id": "", "span_id": ""},
    {"trace_id": None, "span_id": None},
    {"trace_id": 7, "span_id": 8},
    {"trace_id": _TRACE, "span_id": _SPAN, "trace_flags": "zz"},
    {"trace_id": _TRACE, "span_id": _SPAN, "trace_flags": 1},
    {"traceparent": _TRACEPARENT},
    {"traceparent": _TRACEPARENT, "trace_id": _TRACE[::-1], "span_id": _SPAN[::-1]},
    {"traceparent": _TRACEPARENT.upper()},
    {"traceparent": "00-0-0-0"},
    {"traceparent": 5},
    {"traceparent": None},
]
_VALUES: list[Any] = [
    *("text", "", 0, -1, 7, 1 << 53, 1 << 64, -(1 << 63), 0.1, -0.0, 1e-7, 1e21, True, False, None),
    *([], {}, [1, [2, {"a": None}]], {"a": {"b": {"c": [1.5, "x"]}}}, [{}, []], {"": "no name", "a.b": 1}),
]
_KEYS = ["user", "a.b", "log.iostream", "log.file.path", "logtag", "stream", "time", "k8s.pod.name", "ž", "", "log", "body"]
_TEXTS = [
    *("GET /orders/7 took 12 ms", "", " ", "   indented", "trailing   ", "tab\there", "\ttab", "carriage return\r"),
    *("{", "}", "{}", "{ }", " {\"a\":1}", "[1,2]", "null", "\"text\"", "{\"a\":1} {\"b\":2}", "P", "F", "stdout F x"),
    *("ž 😀 \u2028", "nul \x00 inside", "esc \x1b[31mred\x1b[0m", "x" * 5_000, "level=info msg=\"a b\"", "{a}", "{\"a\":1,}"),
    *("{\"a\":NaN}", "{'a':1}", "{\"a\":01}", "{\"a\":\"\x01\"}", "{\"a\":1}\t", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\x\"}"),
    *("{\"a\":1,\"a\":2}", "{\"level\":\"info\",\"level\":\"warn\"}", "{\"a\":1e400}", "{\"a\":tru}", "{\"a\" 1}", "{,}"),
]
_BYTES = [b"caf\xe9", b"\xff\xfe", b"\xf0\x9f\x98", b"{\"a\":\"\xe9\"}", b"\xed\xa0\x80", b"\xc0\xaf"]


@dataclass(frozen=True)
class Line:
    """A line as the application wrote it."""

    time_ns: int
    stream: str
    text: bytes
    path: str
    # The parts into which the runtime split it.
    parts: tuple[bytes, ...]


class Writer:
    """Writes one file for each format and remembers its lines."""

    def __init__(self, pods: Path, seed: int, lines: int):
        self._random = random.Random(seed)
        self._now = _BEGIN
        self.lines: list[Line] = []
        for number, (name, write) in enumerate({"cri": _cri, "docker": _docker, "plain": _plain}.items()):
            directory = pods / f"shop_{name}-0_0f3b9f6e-5a7c-4a6e-9b1d-2a3c4d5e6f7{number}" / "app"
            directory.mkdir(parents=True)
            self._write(directory / "0.log", lines, write)

    def _write(self, path: Path, count: int, write: Callable[[Line], Iterator[bytes]]) -> None:
        with path.open("wb") as file:
            for number in range(count):
                text = self._text(number)
                if write is _plain:
                    text = b"%06d " % number + text
                text = text.replace(b"\n", b" ")
                parts = self._parts(text) if write is _cri else (text,)
                line = Line(self._tick(), self._random.choice(["stdout", "stderr"]), text, str(path), parts)
                self.lines.append(line)
                file.writelines(write(line))

    def _tick(self) -> int:
        self._now += timedelta(microseconds=self._random.randrange(1, 2_000_000))
        return int(self._now.timestamp()) * 10**9 + self._now.microsecond * 1_000

    def _text(self, number: int) -> bytes:
        fixed = [text.encode() for text in _TEXTS] + _BYTES
        if number < len(fixed):
            return fixed[number]
        if number < len(fixed) + len(_LEVELS):
            return _json({"level": _LEVELS[number - len(fixed)], "message": "x"})
        if self._random.random() < 0.2:
            return self._random.choice(fixed)
        return _json(self._object())

    def _object(self) -> dict[str, Any]:
        pick = self._random
        fields: dict[str, Any] = {}
        for key, values in (("level", _LEVELS), ("log.level", _LEVELS), ("message", _MESSAGES), ("msg", _MESSAGES)):
            if pick.random() < 0.4:
                fields[key] = pick.choice(values)
        if pick.random() < 0.5:
            fields |= pick.choice(_TRACES)
        for _ in range(pick.randrange(4)):
            fields[pick.choice(_KEYS)] = pick.choice(_VALUES)
        members = list(fields.items())
        pick.shuffle(members)
        return dict(members)

    def _parts(self, text: bytes) -> tuple[bytes, ...]:
        """The text in one part, mostly, or in some."""
        if self._random.random() > 0.2 or len(text) < 2:
            return (text,)
        cuts = sorted(self._random.randrange(len(text)) for _ in range(self._random.randrange(1, 4)))
        return tuple(text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)]))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _stamp(time_ns: int) -> bytes:
    seconds = datetime.fromtimestamp(time_ns // 10**9, timezone.utc)
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{time_ns % 10**9:09d}Z".encode()


def _cri(line: Line) -> Iterator[bytes]:
    *parts, last = line.parts
    for part, tag in [(part, b"P") for part in parts] + [(last, b"F")]:
        yield b" ".join([_stamp(line.time_ns), line.stream.encode(), tag, part]) + b"\n"


def _docker(line: Line) -> Iterator[bytes]:
    # What is not UTF-8 never gets into Docker's files.
    log = line.text.decode("utf-8", "replace") + "\n"
    yield _json({"log": log, "stream": line.stream, "time": _stamp(line.time_ns).decode()}) + b"\n"


def _plain(line: Line) -> Iterator[bytes]:
    yield line.text + b"\n"
