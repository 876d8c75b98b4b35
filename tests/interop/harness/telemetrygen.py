"""telemetrygen as a client, and what its spans must look like when they arrive."""

import json
from collections import defaultdict
from pathlib import Path

from .process import Lab, Process
from .spans import Span, by_id

TELEMETRYGEN = Path(__file__).resolve().parents[3] / "bench" / "peers" / "bin" / "telemetrygen"

CHILDREN = 4
WORKERS = 2
SPANS_PER_TRACE = 1 + CHILDREN
SPAN_KIND_SERVER, SPAN_KIND_CLIENT = 2, 3
STATUS_OK = 1
DURATION_NS = 5_000_000

# What it sends with items of all signals.
RESOURCE = {"service.name": "checkout", "deployment.environment.name": "interop"}
ATTRIBUTES = {"http.route": "/cart/{id}", "retry": True, "http.response.status_code": 200}
LOG = {
    "body": "order placed: žluťoučký kůň",
    "severityNumber": 17,
    "severityText": "Error",
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
}

# Temporalities by their number in OTLP.
TEMPORALITIES = {"delta": 1, "cumulative": 2}
# In milliseconds. What is not answered in time is lost, and 10 s are too few on a busy machine.
_PATIENCE = {"OTEL_EXPORTER_OTLP_TIMEOUT": "60000"}
# Every type of metric that it has, with every temporality of it.
METRICS = [("Gauge", "cumulative")]
METRICS += [(kind, temporality) for kind in ("Sum", "Histogram", "ExponentialHistogram") for temporality in TEMPORALITIES]


def start(
    lab: Lab, endpoint: str, spans: int, *, http: bool = False, rate: int = 0, padding_bytes: int = 0
) -> Process:
    """Starts sending `spans` spans (0: until stopped), `rate` per second (0: as fast as it can).

    With `padding_bytes` each span has one more attribute of that size, which `assert_as_sent` does not expect.
    """
    argv = _command("traces", endpoint, http=http, rate=rate)
    argv += ["--child-spans", str(CHILDREN), "--status-code", "Ok", "--span-duration", "5ms", "--span-links", "1"]
    if spans:
        traces, rest = divmod(spans, SPANS_PER_TRACE * WORKERS)
        assert rest == 0, f"{spans} spans are not a whole number of traces for {WORKERS} workers"
        argv += ["--traces", str(traces)]
    else:
        argv += ["--duration", "inf"]
    if padding_bytes:
        argv += ["--telemetry-attributes", f'padding="{"x" * padding_bytes}"']
    # Its SDK drops spans when its own queue is full; with room for all of them it sends every one.
    return lab.start("telemetrygen", argv, {"OTEL_BSP_MAX_QUEUE_SIZE": "1000000", **_PATIENCE})


def start_metrics(lab: Lab, endpoint: str, points: int, metric_type: str, temporality: str, *, http: bool) -> Process:
    """Starts sending data points of one type; its metric has the name `metric_name`."""
    argv = _command("metrics", endpoint, http=http)
    argv += ["--metrics", str(points // WORKERS), "--metric-type", metric_type]
    argv += ["--aggregation-temporality", temporality, "--otlp-metric-name", metric_name(metric_type, temporality)]
    return lab.start("telemetrygen", argv, _PATIENCE)


def metric_name(metric_type: str, temporality: str) -> str:
    return f"{metric_type}.{temporality}"


def start_logs(lab: Lab, endpoint: str, records: int, *, http: bool) -> Process:
    """Starts sending log records."""
    argv = [*_command("logs", endpoint, http=http), "--logs", str(records // WORKERS), "--body", LOG["body"]]
    argv += ["--severity-number", str(LOG["severityNumber"]), "--severity-text", LOG["severityText"]]
    return lab.start("telemetrygen", [*argv, "--trace-id", LOG["traceId"], "--span-id", LOG["spanId"]], _PATIENCE)


def _command(signal: str, endpoint: str, *, http: bool, rate: int = 0) -> list[str | Path]:
    argv = [TELEMETRYGEN, signal, "--otlp-endpoint", endpoint, "--otlp-insecure", *(["--otlp-http"] if http else [])]
    argv += ["--workers", str(WORKERS), "--rate", str(rate / WORKERS), "--batch-size", "512"]
    argv += ["--service", RESOURCE["service.name"]]
    argv += ["--otlp-attributes", f'deployment.environment.name="{RESOURCE["deployment.environment.name"]}"']
    for key, value in ATTRIBUTES.items():
        argv += ["--telemetry-attributes", f"{key}={json.dumps(value)}"]
    return argv


def wait_until_all_acknowledged(generator: Process, deadline_s: float = 120.0) -> None:
    """Waits for its end and fails unless each of its exports was answered OK."""
    code = generator.wait_exit(deadline_s)
    log = generator.log_text()
    failed = code != 0 or "traces export:" in log or "partial success" in log
    assert not failed, f"telemetrygen failed ({code}):\n{log[-2000:]}"


class Load:
    """Generators one after the other: there is load until what has to happen under it has happened."""

    def __init__(self, lab: Lab, endpoint: str, spans: int, rate: int):
        self._spans = spans
        self._start = lambda: start(lab, endpoint, spans, rate=rate)
        self._generators = [self._start()]

    def goes_on(self) -> bool:
        """Starts the next generator once the last has ended."""
        if not self._generators[-1].running:
            self._generators.append(self._start())
        return True

    def end(self) -> int:
        """Waits until everything is acknowledged, and returns how many spans that is."""
        for generator in self._generators:
            wait_until_all_acknowledged(generator)
        return self._spans * len(self._generators)


def assert_as_sent(spans: list[Span], count: int) -> None:
    """All spans of a run arrived once, in whole traces, each with the content telemetrygen gives it."""
    assert len(by_id(spans)) == count
    traces: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        _assert_content(span)
        traces[span.trace_id].append(span)
    assert len(traces) == count / SPANS_PER_TRACE
    for trace in traces.values():
        _assert_shape(trace)


def _assert_content(span: Span) -> None:
    assert span.resource == RESOURCE
    assert span.scope == ("telemetrygen", "")
    assert span.status == (STATUS_OK, "")
    is_root = not span.parent_id
    assert span.kind == (SPAN_KIND_CLIENT if is_root else SPAN_KIND_SERVER)
    assert span.attributes == {
        "network.peer.address": "1.2.3.4",
        "service.peer.name": "telemetrygen-server" if is_root else "telemetrygen-client",
        **ATTRIBUTES,
    }
    for link in span.links:
        assert link.attributes == {"link.type": "random", "link.index": 0}


def _assert_shape(trace: list[Span]) -> None:
    (root,) = [span for span in trace if not span.parent_id]
    children = [span for span in trace if span.parent_id]
    assert root.name == "lets-go"
    assert {child.parent_id for child in children} == {root.span_id}
    assert sorted(child.name for child in children) == [f"okey-dokey-{number}" for number in range(CHILDREN)]
    assert all(child.end_ns - child.start_ns == DURATION_NS for child in children)
    assert all(len(child.links) == 1 for child in children)
