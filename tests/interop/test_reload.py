"""The configuration file is edited while Weir runs: backends move, pipelines come and go."""

from collections.abc import Callable

from harness import sdk, telemetrygen
from harness.collector import Backend
from harness.process import Lab
from harness.spans import assert_same
from harness.weir import Weir, pipeline, trace_pipeline

SPANS = 10_000
FEW_SPANS = 1_000
POINTS = 1_000


def test_a_backend_moves_under_load(lab: Lab, backend: Backend, start_weir: Callable[..., Weir]) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    moved = Backend(lab, "moved")
    load = telemetrygen.Load(lab, weir.grpc, SPANS, rate=2_000)
    backend.wait_for_spans(SPANS // 10)
    weir.configure(trace_pipeline("backend", moved.grpc))
    moved.process.wait_for(lambda: load.goes_on() and moved.count() > 0, "gets spans once the pipeline has moved", 60)
    assert load.goes_on(), "the move has to happen before the load ends"
    backend.stop()
    sent = load.end()
    weir.stop()
    telemetrygen.assert_as_sent([*backend.spans(), *moved.spans()], sent)


def test_a_backlog_follows_its_backend(lab: Lab, backend: Backend, start_weir: Callable[..., Weir]) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    backend.stop()
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    moved = Backend(lab, "moved")
    weir.configure(trace_pipeline("backend", f"http://{moved.http}", protocol="http"))
    moved.wait_for_spans(FEW_SPANS)
    weir.stop()
    assert_same(sent, moved.spans())


def test_an_invalid_edit_changes_nothing(backend: Backend, start_weir: Callable[..., Weir]) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    weir.configure(trace_pipeline("backend", backend.grpc, protocol="grcp"))
    weir.process.wait_for_log("the last good one goes on")
    assert "did you mean" in weir.process.log_text()
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    weir.stop()
    assert_same(sent, backend.spans())


def test_a_signal_takes_the_place_of_another(lab: Lab, backend: Backend, start_weir: Callable[..., Weir]) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), FEW_SPANS)
    weir.configure(pipeline("metrics", "backend", backend.grpc))
    weir.process.wait_for_log("configuration reloaded")
    generator = telemetrygen.start_metrics(lab, weir.grpc, POINTS, "Sum", "cumulative", http=False)
    telemetrygen.wait_until_all_acknowledged(generator)
    weir.stop()
    assert_same(sent, backend.spans())
    assert len(backend.items("metrics")) == POINTS
