"""Transforms and filters of the pipelines, and the same written in Python: what must arrive behind them."""

import copy
from collections.abc import Callable
from typing import Any

from . import weir
from .items import Item

_SPAN_KIND_SERVER = 2
_SEVERITY_INFO = 9

_TEAM = 'resource.attributes["k8s.namespace.name"]'

_TRANSFORMS: dict[str, list[dict[str, Any]]] = {
    "traces": [
        {
            "conditions": ["span.kind == SPAN_KIND_SERVER"],
            "statements": [f'set(span.attributes["team"], {_TEAM})', 'delete_key(span.attributes, "empty")'],
        },
        {
            "statements": [
                'set(span.attributes["order.index"], span.attributes["index"])',
                'delete_key(span.attributes, "index")',
                'set(span.name, Concat([span.name, "ordered"], ", "))',
            ]
        },
    ],
    "metrics": [
        {
            "conditions": ['IsMatch(metric.name, "^orders[.]")'],
            "statements": [f'set(datapoint.attributes["team"], {_TEAM})', 'set(metric.description, "by team")'],
        }
    ],
    "logs": [
        {
            "statements": [
                'set(log.severity_text, "NONE") where log.severity_number == SEVERITY_NUMBER_UNSPECIFIED',
                'set(log.attributes["seen"], true)',
            ]
        }
    ],
}

_FILTERS: dict[str, list[str]] = {
    "traces": ['IsMatch(span.attributes["url.path"], "^/healthz")'],
    "metrics": ["metric.type == METRIC_DATA_TYPE_GAUGE", 'datapoint.attributes["http.route"] == "/healthz"'],
    "logs": [
        "log.severity_number != SEVERITY_NUMBER_UNSPECIFIED and log.severity_number < SEVERITY_NUMBER_INFO",
        'IsMatch(log.body, "healthz")',
    ],
}


def pipeline(signal: str, endpoint: str) -> weir.Document:
    """The pipeline of a signal with its transforms and filters."""
    document = weir.pipeline(signal, "ruled", endpoint)
    document["spec"] |= {"transform": _TRANSFORMS[signal], "filter": [{"conditions": _FILTERS[signal]}]}
    return document


def expected(signal: str, item: Item) -> Item | None:
    """What the pipeline of the signal makes of an enriched item; None when it is filtered out."""
    item = copy.deepcopy(item)
    return item if _RULES[signal](item, item["item"], item["item"]["attributes"]) else None


def _span(item: Item, span: dict[str, Any], attributes: dict[str, Any]) -> bool:
    if span["kind"] == _SPAN_KIND_SERVER:
        attributes["team"] = item["resource"]["attributes"]["k8s.namespace.name"]
        del attributes["empty"]
    attributes["order.index"] = attributes.pop("index")
    span["name"] += ", ordered"
    return not attributes["url.path"].startswith("/healthz")


def _point(item: Item, _: dict[str, Any], attributes: dict[str, Any]) -> bool:
    if item["metric"]["name"].startswith("orders."):
        attributes["team"] = item["resource"]["attributes"]["k8s.namespace.name"]
        item["metric"]["description"] = "by team"
    return item["metric"]["type"] != "gauge" and attributes.get("http.route") != "/healthz"


def _record(_: Item, record: dict[str, Any], attributes: dict[str, Any]) -> bool:
    severity = record.get("severityNumber", 0)
    if not severity:
        record["severityText"] = "NONE"
    attributes["seen"] = True
    body = record.get("body")
    return not (0 < severity < _SEVERITY_INFO or isinstance(body, str) and "healthz" in body)


_RULES: dict[str, Callable[[Item, dict[str, Any], dict[str, Any]], bool]] = {
    "traces": _span,
    "metrics": _point,
    "logs": _record,
}
