"""The clients straight to the backend, without Weir: what fails here is the harness or a peer, not Weir."""

from dataclasses import replace

import pytest

from harness import sdk, telemetrygen
from harness.collector import Backend
from harness.items import assert_same_items, items
from harness.process import Lab
from harness.spans import assert_same

SPANS = 1_000


def test_telemetrygen_to_collector(lab: Lab, backend: Backend) -> None:
    generator = telemetrygen.start(lab, backend.grpc, SPANS)
    telemetrygen.wait_until_all_acknowledged(generator)
    telemetrygen.assert_as_sent(backend.spans(), SPANS)


def test_python_sdk_to_collector(backend: Backend) -> None:
    sent = sdk.send(sdk.http_exporter(backend.http, gzip=True), SPANS)
    assert_same(sent, backend.spans())


def test_the_comparison_notices_every_kind_of_difference(backend: Backend) -> None:
    sent = sdk.send(sdk.grpc_exporter(backend.grpc, gzip=False), 20)
    arrived = backend.spans()
    assert_same(sent, arrived)
    changed = replace(arrived[0], attributes={**arrived[0].attributes, "index": 0.0})
    for wrong in (arrived[1:], [*arrived, arrived[0]], [changed, *arrived[1:]], [*arrived, replace(changed, span_id="f" * 16)]):
        with pytest.raises(AssertionError):
            assert_same(sent, wrong)


def test_the_comparison_of_items_notices_every_kind_of_difference(backend: Backend) -> None:
    sdk.send(sdk.grpc_exporter(backend.grpc, gzip=False), 20)
    sent = [item for request in backend.requests() for _, item in items(request)]
    assert_same_items(sent, reversed(sent))
    one, rest = sent[0], sent[1:]
    wrong = [rest, [*sent, one], [*sent, {**one, "scope": {}}], [], [{**one, "item": {**one["item"], "kind": True}}, *rest]]
    for arrived in wrong:
        with pytest.raises(AssertionError):
            assert_same_items(sent, arrived)
    with pytest.raises(AssertionError):
        assert_same_items([], [])
