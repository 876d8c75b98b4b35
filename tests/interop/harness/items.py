"""Spans, data points and log records in one comparable form: each item with all that encloses it.

The form is the OTLP/JSON that the collector's file exporter writes, with every list of attributes as a mapping, so that
no field is left out of a comparison and the order of attributes does not matter.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .spans import attributes, value

Item = dict[str, Any]

_LEVELS = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}
_POINTS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")
_ATTRIBUTES = ("attributes", "filteredAttributes", "metadata")


def items(request: dict[str, Any]) -> Iterator[tuple[str, Item]]:
    """Every item of a request, with its signal."""
    for signal, (resources, scopes, leaves) in _LEVELS.items():
        for resource in request.get(resources, []):
            for scope in resource.get(scopes, []):
                outer = _outer("resource", resource) | _outer("scope", scope)
                for leaf in scope.get(leaves, []):
                    for inner in _points(leaf) if signal == "metrics" else [{"item": _plain(leaf)}]:
                        yield signal, {**outer, **inner}


def _outer(name: str, level: dict[str, Any]) -> Item:
    return {name: {"attributes": {}, **_plain(level.get(name, {}))}, f"{name}_schema_url": level.get("schemaUrl", "")}


def _points(metric: dict[str, Any]) -> Iterator[Item]:
    """The data points of a metric; a metric without any is one item with an empty point."""
    kind = next((kind for kind in _POINTS if kind in metric), "")
    about = {**metric, "type": kind}
    data = dict(about.pop(kind, {}))
    points = data.pop("dataPoints", [{}])
    for point in points:
        yield {"metric": _plain({**about, **data}), "item": _plain(point)}


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(child) for child in node]
    if not isinstance(node, dict):
        return node
    plain = {}
    for name, child in node.items():
        if name in _ATTRIBUTES:
            plain[name] = attributes(child)
        else:
            plain[name] = value(child) if name == "body" else _plain(child)
    return plain


def assert_same_items(expected: Iterable[Item], arrived: Iterable[Item]) -> None:
    """Each expected item arrived exactly as often as it was sent, with every field as it was, and nothing else did."""
    wanted, found = Counter(map(_text, expected)), Counter(map(_text, arrived))
    assert wanted, "nothing was sent: a comparison with nothing proves nothing"
    missing, extra = wanted - found, found - wanted
    if missing or extra:
        first = min(missing, default="")
        nearest = min(extra, key=lambda text: _distance(first, text), default="")
        raise AssertionError(
            f"of {wanted.total()} items {missing.total()} did not arrive as expected, "
            f"and {extra.total()} arrived that were not expected, for example\nexpected: {first}\narrived:  {nearest}"
        )


def _distance(one: str, other: str) -> int:
    """How many fields are in one of the two only, about: enough to find the item that was changed."""
    return len(set(one.split(", ")) ^ set(other.split(", ")))


def _text(item: Item) -> str:
    """Text that is equal only for equal values of equal types: for Python, 1 == 1.0 == True."""
    return json.dumps(item, sort_keys=True, ensure_ascii=False, default=lambda octets: {"bytes": octets.hex()})
