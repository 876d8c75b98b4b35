"""One flat, comparable form of a span, and how it is read from OTLP/JSON (requests and the collector's files).

Values keep their OTLP type: an int stays an int, a double a float, bytes stay bytes.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Event:
    name: str
    time_ns: int
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Link:
    trace_id: str
    span_id: str
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Span:
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: tuple[int, str]
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: tuple[str, str]
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    trace_state: str = ""
    flags: int = 0
    dropped_attributes: int = 0


def value(any_value: dict[str, Any]) -> Any:
    """The Python value of an OTLP/JSON AnyValue."""
    match any_value:
        case {"stringValue": text}:
            return text
        case {"boolValue": flag}:
            return flag
        case {"intValue": number}:
            return int(number)
        case {"doubleValue": number}:
            return float(number)
        case {"bytesValue": encoded}:
            return base64.b64decode(encoded)
        case {"arrayValue": array}:
            return [value(item) for item in array.get("values", [])]
        case {"kvlistValue": pairs}:
            return attributes(pairs.get("values", []))
    assert any_value == {}, f"unknown AnyValue {any_value}"
    return None


def attributes(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    decoded = {pair.get("key", ""): value(pair.get("value", {})) for pair in pairs}
    assert len(decoded) == len(pairs), f"an attribute key occurs twice: {pairs}"
    return decoded


def from_json(request: dict[str, Any]) -> Iterator[Span]:
    """The spans of an OTLP/JSON request (or of a line of the collector's file exporter)."""
    for resource_spans in request.get("resourceSpans", []):
        resource = attributes(resource_spans.get("resource", {}).get("attributes", []))
        for scope_spans in resource_spans.get("scopeSpans", []):
            scope = scope_spans.get("scope", {})
            for span in scope_spans.get("spans", []):
                yield _span(span, resource, (scope.get("name", ""), scope.get("version", "")))


def _span(span: dict[str, Any], resource: dict[str, Any], scope: tuple[str, str]) -> Span:
    status = span.get("status", {})
    return Span(
        trace_id=span["traceId"].lower(),
        span_id=span["spanId"].lower(),
        parent_id=span.get("parentSpanId", "").lower(),
        name=span.get("name", ""),
        kind=span.get("kind", 0),
        start_ns=int(span.get("startTimeUnixNano", 0)),
        end_ns=int(span.get("endTimeUnixNano", 0)),
        status=(status.get("code", 0), status.get("message", "")),
        attributes=attributes(span.get("attributes", [])),
        resource=resource,
        scope=scope,
        events=tuple(
            Event(event.get("name", ""), int(event.get("timeUnixNano", 0)), attributes(event.get("attributes", [])))
            for event in span.get("events", [])
        ),
        links=tuple(
            Link(link["traceId"].lower(), link["spanId"].lower(), attributes(link.get("attributes", [])))
            for link in span.get("links", [])
        ),
        trace_state=span.get("traceState", ""),
        flags=span.get("flags", 0),
        dropped_attributes=span.get("droppedAttributesCount", 0),
    )


class RequestFile:
    """Requests in a growing file of JSON lines, read once each. A torn last line (the writer was killed while it wrote,
    so it never answered OK for it) is left out."""

    def __init__(self, path: Path):
        self.path = path
        self._offset = 0

    def read_new(self) -> Iterator[dict[str, Any]]:
        """The requests that were written since the last call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        complete = data.rfind(b"\n") + 1
        self._offset += complete
        yield from map(json.loads, data[:complete].splitlines())


def by_id(spans: list[Span]) -> dict[str, Span]:
    """Spans by their id; fails when one arrived twice."""
    indexed = {span.span_id: span for span in spans}
    assert len(indexed) == len(spans), f"{len(spans) - len(indexed)} of {len(spans)} spans are duplicates"
    return indexed


def assert_same(sent: list[Span], arrived: list[Span]) -> None:
    """Each sent span arrived exactly once with every field as it was, and nothing else did."""
    expected, actual = by_id(sent), by_id(arrived)
    missing, extra = expected.keys() - actual.keys(), actual.keys() - expected.keys()
    assert not missing, f"{len(missing)} of {len(expected)} spans are lost, for example {expected[min(missing)]}"
    assert not extra, f"{len(extra)} spans arrived that nobody sent, for example {actual[min(extra)]}"
    for span_id, span in expected.items():
        assert canonical(actual[span_id]) == canonical(span), f"span {span_id} was changed on its way"


def canonical(span: Span) -> str:
    """Text that is equal only for equal values of equal types: for Python, 1 == 1.0 == True."""
    return json.dumps(asdict(span), sort_keys=True, default=bytes.hex)
