"""OTLP/JSON written by hand as the specification shows it -> Weir -> OpenTelemetry Collector."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
import requests

from harness import json_payloads
from harness.collector import Backend
from harness.items import assert_same_items, items
from harness.spans import assert_same, from_json
from harness.weir import Weir, pipeline, trace_pipeline

REQUESTS = 20
SPANS_PER_REQUEST = 500


def span(number: int) -> dict[str, Any]:
    """A span with every field of the model; ids in upper and lower case, 64-bit numbers as text and as numbers."""
    trace_id = f"{number + 1:032x}"
    return {
        "traceId": trace_id.upper() if number % 2 else trace_id,
        "spanId": f"{number + 0xEE00000001:016X}",
        "parentSpanId": f"{number + 0xAB:016x}",
        "traceState": "vendor=value",
        "flags": 257,
        "name": f"POST /orders/{number}",
        "kind": 2,
        "startTimeUnixNano": str(1_700_000_000_000_000_000 + number),
        "endTimeUnixNano": str(1_700_000_000_500_000_000 + number),
        "attributes": [*json_payloads.ATTRIBUTES, {"key": "index", "value": {"intValue": number}}],
        "droppedAttributesCount": 1,
        "events": [
            {
                "timeUnixNano": "1700000000000000001",
                "name": "exception",
                "attributes": [{"key": "exception.type", "value": {"stringValue": "IOError"}}],
            }
        ],
        "links": [
            {
                "traceId": "0af7651916cd43dd8448eb211c80319c",
                "spanId": "b7ad6b7169203331",
                "attributes": [{"key": "why", "value": {"stringValue": "batch"}}],
            }
        ],
        "status": {"code": 2, "message": "out of stock"},
        "aFieldOfTheFuture": {"is": ["ignored"]},
    }


def request(number: int) -> dict[str, Any]:
    first = number * SPANS_PER_REQUEST
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": f"shop {number}"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "by hand", "version": "2"},
                        "spans": [span(first + offset) for offset in range(SPANS_PER_REQUEST)],
                    }
                ],
            }
        ]
    }


def post(weir: Weir, body: bytes, signal: str = "traces", **headers: str) -> requests.Response:
    all_headers = {"content-type": "application/json", **headers}
    return requests.post(f"http://{weir.http}/v1/{signal}", data=body, headers=all_headers, timeout=30)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_every_field_arrives(backend: Backend, start_weir: Callable[..., Weir], compressed: bool) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    payloads = [request(number) for number in range(REQUESTS)]
    for payload in payloads:
        body = json.dumps(payload).encode()
        response = post(weir, gzip.compress(body), **{"content-encoding": "gzip"}) if compressed else post(weir, body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/json"
        assert response.json() in ({}, {"partialSuccess": {}})
    weir.stop()
    sent = [sent_span for payload in payloads for sent_span in from_json(payload)]
    assert len(sent) == REQUESTS * SPANS_PER_REQUEST
    assert_same(sent, backend.spans())


@pytest.mark.parametrize("signal", ["metrics", "logs"])
def test_every_field_of_metrics_and_logs_arrives(backend: Backend, start_weir: Callable[..., Weir], signal: str) -> None:
    weir = start_weir(pipeline(signal, "backend", backend.grpc))
    payloads = [getattr(json_payloads, signal)(number) for number in range(REQUESTS)]
    for payload in payloads:
        response = post(weir, json.dumps(payload).encode(), signal)
        assert response.status_code == 200, response.text
        assert response.json() in ({}, {"partialSuccess": {}})
    weir.stop()
    assert_same_items((item for payload in payloads for _, item in items(payload)), backend.items(signal))


def test_broken_json_is_refused_and_harms_nobody(backend: Backend, start_weir: Callable[..., Weir]) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    whole = json.dumps(request(0)).encode()
    response = post(weir, whole[: len(whole) // 2])
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.json()["message"], "the answer is a google.rpc.Status that says what is wrong"
    assert post(weir, whole).status_code == 200
    weir.stop()
    assert_same(list(from_json(request(0))), backend.spans())
