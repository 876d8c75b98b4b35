// Sends a known set of spans, metrics and log records with the OpenTelemetry SDK for Node.js.
//
//     node client.js grpc|http|json ENDPOINT...
//
// Each batch goes to every endpoint (HOST:PORT), so that what one of them got is what all of them were sent.
// The resource comes from OTEL_RESOURCE_ATTRIBUTES. Every part of the data model that the SDK has is used.
"use strict";

const api = require("@opentelemetry/api");
const { SeverityNumber } = require("@opentelemetry/api-logs");
const { defaultResource, detectResources, envDetector } = require("@opentelemetry/resources");
const { BatchLogRecordProcessor, LoggerProvider } = require("@opentelemetry/sdk-logs");
const { AggregationTemporality, AggregationType, MeterProvider, PeriodicExportingMetricReader } = require("@opentelemetry/sdk-metrics");
const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");

const SPANS = 200;
const LOG_RECORDS = 104;
const ROUNDS = 3;
const ROUTES = ["/orders", "/cart", "/healthz"];
const EPOCH_S = 1_700_000_000;
const SCHEMA_URL = "https://opentelemetry.io/schemas/1.27.0";
const HOUR_MS = 3_600_000;
const PACKAGES = { grpc: "grpc", http: "proto", json: "http" };
const KINDS = Object.values(api.SpanKind).filter((kind) => typeof kind === "number");

const [protocol, ...endpoints] = process.argv.slice(2);
const resource = defaultResource().merge(detectResources({ detectors: [envDetector] }));

/** One exporter for each endpoint; `name` is the class, `signal` as in the names of packages. */
function exporters(name, signal, path) {
  const Exporter = require(`@opentelemetry/exporter-${signal}-otlp-${PACKAGES[protocol]}`)[name];
  const suffix = protocol === "grpc" ? "" : `/v1/${path}`;
  return endpoints.map((endpoint) => new Exporter({ url: `http://${endpoint}${suffix}` }));
}

/** A time in the form of the SDK: seconds and nanoseconds. */
function time(nanoseconds) {
  return [EPOCH_S, nanoseconds];
}

const REMOTE = {
  traceId: "00000000000000000000000000a1b2c3",
  spanId: "0000000000d4e5f6",
  isRemote: true,
  traceFlags: api.TraceFlags.SAMPLED,
  traceState: api.createTraceState("vendor=interop,other=1"),
};

function inSpan(context) {
  return api.trace.setSpanContext(api.ROOT_CONTEXT, context);
}

async function sendSpans() {
  const spanProcessors = exporters("OTLPTraceExporter", "trace", "traces").map((exporter) => new BatchSpanProcessor(exporter));
  const provider = new BasicTracerProvider({ resource, spanProcessors });
  const tracer = provider.getTracer("interop.traces", "0.1.0", { schemaUrl: SCHEMA_URL });
  let root = REMOTE;
  for (let index = 0; index < SPANS; index++) {
    const start = index * 1_000;
    const parent = index === 0 || index % 5 ? inSpan(root) : api.ROOT_CONTEXT;
    const links = index % 4 ? [] : [{ context: root, attributes: { "link.index": index } }];
    const options = { kind: KINDS[index % KINDS.length], attributes: spanAttributes(index), links, startTime: time(start) };
    const span = tracer.startSpan(`operation ${index % 7}`, options, parent);
    if (index % 3 === 0) {
      span.addEvent("retried", { attempt: index, reasons: ["timeout", "reset"] }, time(start + 10));
      span.addEvent("gave up", time(start + 20));
    }
    if (index % 5 === 1) span.setStatus({ code: api.SpanStatusCode.OK });
    if (index % 5 === 2) span.setStatus({ code: api.SpanStatusCode.ERROR, message: `failed: ${index}` });
    span.end(time(start + 500));
    if (index % 5 === 0) root = span.spanContext();
  }
  await provider.shutdown();
}

function spanAttributes(index) {
  return {
    index,
    negative: -index,
    large: Number.MAX_SAFE_INTEGER - index,
    ratio: index + 0.5,
    even: index % 2 === 0,
    text: `žluťoučký kůň ${index} 🚀`,
    empty: "",
    "url.path": index % 10 === 3 ? "/healthz/ready" : `/orders/${index}`,
    names: ["a", "b", String(index)],
    numbers: [1, -2, index],
    ratios: [0.5, -1.25],
    flags: [true, false],
    gaps: ["a", null, "c"],
  };
}

/** One collection for all endpoints: two readers would send points of different times. */
class MetricTee {
  constructor(all) {
    this.all = all;
  }

  export(metrics, done) {
    const exports = this.all.map((exporter) => new Promise((resolve) => exporter.export(metrics, resolve)));
    Promise.all(exports).then((results) => done(results.find((result) => result.code) ?? results[0]));
  }

  selectAggregationTemporality() {
    return AggregationTemporality.CUMULATIVE;
  }

  forceFlush() {
    return Promise.all(this.all.map((exporter) => exporter.forceFlush()));
  }

  shutdown() {
    return Promise.all(this.all.map((exporter) => exporter.shutdown()));
  }
}

async function sendMetrics() {
  const exporter = new MetricTee(exporters("OTLPMetricExporter", "metrics", "metrics"));
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: HOUR_MS });
  const aggregation = { type: AggregationType.EXPONENTIAL_HISTOGRAM, options: { maxSize: 8 } };
  const views = [{ instrumentName: "order.duration", aggregation }];
  const provider = new MeterProvider({ resource, readers: [reader], views });
  const meter = provider.getMeter("interop.metrics", "0.2.0", { schemaUrl: SCHEMA_URL });
  const placed = meter.createCounter("orders.placed", { unit: "{order}", description: "Orders placed", valueType: api.ValueType.INT });
  const value = meter.createCounter("orders.value", { unit: "EUR", description: "What they are worth" });
  const open = meter.createUpDownCounter("orders.open", { unit: "{order}", description: "Orders not closed" });
  const length = meter.createGauge("queue.length", { unit: "{order}", description: "Orders that wait" });
  const size = meter.createHistogram("order.size", { unit: "By", advice: { explicitBucketBoundaries: [1, 10, 100] } });
  const duration = meter.createHistogram("order.duration", { unit: "s", description: "Time taken" });
  let ticks = 100;
  meter.createObservableCounter("cpu.time", { unit: "s" }).addCallback((result) => result.observe((ticks += 10), { state: "user" }));
  meter.createObservableGauge("temperature", { unit: "Cel" }).addCallback((result) => result.observe(36.6, { state: "user" }));
  meter.createObservableUpDownCounter("connections").addCallback((result) => result.observe(-4, { state: "user" }));
  for (let round = 0; round < ROUNDS; round++) {
    ROUTES.forEach((route, number) => {
      const attributes = { "http.route": route, retry: number === 1, shard: number, weight: 0.25 };
      placed.add(1 + round, attributes);
      value.add(0.5 + number, attributes);
      open.add(3 - 2 * round, attributes);
      length.record(number * 10 + round, attributes);
      for (let step = 0; step < 5; step++) {
        size.record(3 * step * (number + 1), attributes);
        duration.record(0.001 * 7 ** (step + round), attributes);
      }
    });
    await provider.forceFlush();
  }
  await provider.shutdown();
}

async function sendLogs() {
  const processors = exporters("OTLPLogExporter", "logs", "logs").map((exporter) => new BatchLogRecordProcessor({ exporter }));
  const provider = new LoggerProvider({ resource, processors });
  const logger = provider.getLogger("interop.logs", "0.3.0", { schemaUrl: SCHEMA_URL });
  for (let index = 0; index < LOG_RECORDS; index++) {
    const severityNumber = index % 25;
    logger.emit({
      timestamp: time(index),
      observedTimestamp: time(index + 5),
      context: index % 2 ? inSpan(REMOTE) : api.ROOT_CONTEXT,
      severityNumber: severityNumber || undefined,
      severityText: severityNumber ? SeverityNumber[severityNumber] : undefined,
      body: BODIES[index % BODIES.length],
      attributes: logAttributes(index),
      eventName: index % 4 ? undefined : "order.placed",
    });
  }
  await provider.shutdown();
}

const BODIES = [
  "order placed: žluťoučký kůň",
  "GET /healthz/ready",
  -42,
  3.5,
  true,
  Uint8Array.of(0, 255, 254),
  ["a", 1, 2.5, false, null, ["nested"]],
  { order: { id: 7, items: ["x", "y"] }, ok: true, none: null },
  undefined,
];

function logAttributes(index) {
  return {
    index,
    ratio: index + 0.5,
    even: index % 2 === 0,
    text: 'line one\nline two\t"quoted"',
    bytes: Uint8Array.of(1, 2, 255),
    list: ["a", "b"],
    map: { depth: { more: [1, 2] }, text: "t" },
  };
}

async function main() {
  await sendSpans();
  await sendMetrics();
  await sendLogs();
}

main();
