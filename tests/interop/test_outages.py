"""What was acknowledged arrives although a side of Weir was away for a while."""

from collections.abc import Callable

from harness import sdk, telemetrygen
from harness.collector import Backend, Relay
from harness.process import Lab, free_port
from harness.spans import assert_same
from harness.weir import Sink, Weir, trace_pipeline

SPANS = 10_000
# The least that Weir takes, and a request limit that fits it.
SMALL_MEMORY_BYTES = 32 << 20
SMALL_MEMORY = ("--memory", str(SMALL_MEMORY_BYTES), "--max-request-size", "8MiB")


def test_a_killed_backend_gets_everything_after_its_return(
    lab: Lab, backend: Backend, start_weir: Callable[..., Weir]
) -> None:
    weir = start_weir(trace_pipeline("backend", backend.grpc))
    load = telemetrygen.Load(lab, weir.grpc, SPANS, rate=2_000)
    backend.wait_for_spans(SPANS // 5)
    backend.kill()
    enough = accepted(weir) + SPANS // 5
    weir.process.wait_for(lambda: load.goes_on() and accepted(weir) >= enough, "accepts during the outage")
    assert load.goes_on(), "the outage has to end before the load does"
    backend.start()
    sent = load.end()
    weir.stop()
    # A batch whose answer was lost with the backend is sent again: at least once, here.
    arrived = {span.span_id: span for span in backend.spans()}
    telemetrygen.assert_as_sent(list(arrived.values()), sent)


def accepted(weir: Weir) -> float:
    return weir.metrics().sum("otelcol_receiver_accepted_spans_total")


def test_a_collector_delivers_through_weir_that_starts_later(
    lab: Lab, start_weir: Callable[..., Weir], start_sink: Callable[..., Sink]
) -> None:
    port = free_port()
    sink = start_sink()
    relay = Relay(lab, f"127.0.0.1:{port}")
    generator = telemetrygen.start(lab, relay.grpc, SPANS)
    telemetrygen.wait_until_all_acknowledged(generator)
    relay.process.wait_for_log("Exporting failed. Will retry")
    weir = start_weir(trace_pipeline("sink", sink.grpc), grpc_port=port)
    sink.process.wait_for(lambda: sink.report()["unique"] >= SPANS, f"receives {SPANS} spans")
    relay.stop()
    weir.stop()
    report = sink.report()
    assert (report["unique"], report["received"], report["duplicates"]) == (SPANS, SPANS, 0)


def test_a_collector_retries_what_weir_refuses(
    lab: Lab, start_weir: Callable[..., Weir], start_sink: Callable[..., Sink]
) -> None:
    """Weir's backend is away and its memory small, so that it holds some, then refuses; the backend comes."""
    sink_port = free_port()
    weir = start_weir(trace_pipeline("sink", f"127.0.0.1:{sink_port}"), flags=(*SMALL_MEMORY, "--no-data-dir"))
    relay = Relay(lab, weir.grpc)
    generator = telemetrygen.start(lab, relay.grpc, 2 * SPANS, padding_bytes=SMALL_MEMORY_BYTES // SPANS)
    telemetrygen.wait_until_all_acknowledged(generator)
    weir.process.wait_for(lambda: weir.metrics().sum("otelcol_receiver_refused_spans_total") > 0, "refuses spans")
    relay.process.wait_for_log("Exporting failed. Will retry")
    sink = start_sink(sink_port)
    sink.process.wait_for(lambda: sink.report()["unique"] >= 2 * SPANS, f"receives {2 * SPANS} spans", 90)
    relay.stop()
    weir.stop()
    report = sink.report()
    assert (report["unique"], report["received"], report["duplicates"]) == (2 * SPANS, 2 * SPANS, 0)
    assert "Dropping data" not in relay.process.log_text()


def test_a_dead_pipeline_does_not_touch_the_others(lab: Lab, backend: Backend, start_weir: Callable[..., Weir]) -> None:
    dead = f"127.0.0.1:{free_port()}"
    weir = start_weir(trace_pipeline("alive", backend.grpc), trace_pipeline("dead", dead))
    sent = sdk.send(sdk.grpc_exporter(weir.grpc, gzip=False), SPANS)
    backend.wait_for_spans(SPANS)
    assert_same(sent, backend.spans())
