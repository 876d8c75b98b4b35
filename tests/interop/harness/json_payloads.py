"""OTLP/JSON requests written by hand as the specification shows it, with every field of the data model.

64-bit numbers are text and nothing has its default value, as the collector writes it, so that what it stores can be
compared with what is here.
"""

from typing import Any

Json = dict[str, Any]

_TIME_NS = 1_700_000_000_000_000_000
_TRACE = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331"}

ATTRIBUTES: list[Json] = [
    {"key": "text", "value": {"stringValue": 'quotes " and \\ and \n and ž and \u0001'}},
    {"key": "flag", "value": {"boolValue": True}},
    {"key": "number as text", "value": {"intValue": str(-(1 << 63))}},
    {"key": "number", "value": {"intValue": 42}},
    {"key": "ratio", "value": {"doubleValue": 1 / 7}},
    {"key": "bytes", "value": {"bytesValue": "/wABAv4="}},
    {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "2"}, {}]}}},
    {"key": "map", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"doubleValue": 1.5}}]}}},
    {"key": "nothing", "value": {}},
]


def metrics(number: int) -> Json:
    """A request with a metric of every type; `number` is in all of them."""
    return _request("resourceMetrics", "scopeMetrics", "metrics", [_about(metric, number) for metric in _metrics(number)])


def logs(number: int) -> Json:
    """A request with a log record of every type of body."""
    bodies = [attribute["value"] for attribute in ATTRIBUTES]
    records = [_record(body, number * len(bodies) + index) for index, body in enumerate(bodies)]
    return _request("resourceLogs", "scopeLogs", "logRecords", records)


def _request(resources: str, scopes: str, leaves: str, items: list[Json]) -> Json:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}, *ATTRIBUTES[1:]]}
    scope = {"name": "by hand", "version": "2", "attributes": ATTRIBUTES[:2], "droppedAttributesCount": 1}
    inner = {"scope": scope, leaves: items, "schemaUrl": "https://example.com/scope/1.0.0"}
    outer = {
        "resource": {**resource, "droppedAttributesCount": 2},
        scopes: [inner],
        "schemaUrl": "https://example.com/resource/1.0.0",
    }
    return {resources: [outer], "aFieldOfTheFuture": {"is": ["ignored"]}}


def _about(metric: Json, number: int) -> Json:
    about = {"name": f"{'.'.join(metric)}.{number}", "description": "A metric", "unit": "{thing}"}
    return {**about, **metric, "metadata": ATTRIBUTES[:1]}


def _point(number: int, **fields: Any) -> Json:
    times = {"startTimeUnixNano": str(_TIME_NS), "timeUnixNano": str(_TIME_NS + 1_000 + number)}
    return {"attributes": ATTRIBUTES, **times, **fields}


def _metrics(number: int) -> list[Json]:
    exemplar = {"filteredAttributes": ATTRIBUTES[:3], "timeUnixNano": str(_TIME_NS + 5), **_TRACE}
    exemplars = [{**exemplar, "asDouble": 0.25}, {**exemplar, "asInt": "-7"}]
    whole, ratio = {"asInt": str(-(1 << 62) + number)}, {"asDouble": 0.1 + number}
    values = [_point(number, **whole, exemplars=exemplars), _point(number, **ratio), _point(number, flags=1)]
    spread = {"count": "6", "sum": 7.5, "min": -1.5, "max": 4.25, "exemplars": exemplars}
    buckets = {"bucketCounts": ["1", "2", "3"], "explicitBounds": [0.5, 2.5]}
    scaled = {
        "scale": -3,
        "zeroCount": "1",
        "zeroThreshold": 0.001,
        "positive": {"offset": -2, "bucketCounts": ["1", "0", "2"]},
        "negative": {"offset": 3, "bucketCounts": ["2"]},
    }
    quantiles = [{"quantile": 0.5, "value": 1.5}, {"quantile": 1, "value": 9}]
    summary = _point(number, count="3", sum=4.5, quantileValues=quantiles)
    return [
        {"gauge": {"dataPoints": values}},
        {"sum": {"aggregationTemporality": 1, "isMonotonic": True, "dataPoints": values}},
        {"sum": {"aggregationTemporality": 2, "dataPoints": values}},
        {"histogram": {"aggregationTemporality": 1, "dataPoints": [_point(number, **spread, **buckets)]}},
        {"histogram": {"aggregationTemporality": 2, "dataPoints": [_point(number, count="2")]}},
        {"exponentialHistogram": {"aggregationTemporality": 2, "dataPoints": [_point(number, **spread, **scaled)]}},
        {"summary": {"dataPoints": [summary]}},
    ]


def _record(body: Json, number: int) -> Json:
    return {
        "timeUnixNano": str(_TIME_NS + number),
        "observedTimeUnixNano": str(_TIME_NS + number + 1),
        "severityNumber": 1 + number % 24,
        "severityText": "NOTICE",
        "body": body,
        "attributes": ATTRIBUTES,
        "droppedAttributesCount": 3,
        "flags": 1,
        **_TRACE,
        "eventName": "order.placed",
    }
