// Writes the payloads of metrics and logs in this directory that begin with `js`: JSON as the JavaScript SDK sends it.
//
//     npm install @opentelemetry/{api,api-logs,resources,sdk-metrics,sdk-logs,otlp-transformer}
//     node js.mjs

import { writeFileSync } from "node:fs";
import { AggregationTemporality, AggregationType, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader }
  from "@opentelemetry/sdk-metrics";
import { InMemoryLogRecordExporter, LoggerProvider, SimpleLogRecordProcessor } from "@opentelemetry/sdk-logs";
import { JsonLogsSerializer, JsonMetricsSerializer } from "@opentelemetry/otlp-transformer";
import { SeverityNumber } from "@opentelemetry/api-logs";
import { resourceFromAttributes } from "@opentelemetry/resources";

const resource = resourceFromAttributes({
  "service.name": "ticket-shop", "process.pid": 4711, "process.args": ["-v", "2"],
});
const write = (name, bytes) => writeFileSync(new URL(`js-${name}.json`, import.meta.url), bytes);

const metrics = new InMemoryMetricExporter(AggregationTemporality.DELTA);
const reader = new PeriodicExportingMetricReader({ exporter: metrics, exportIntervalMillis: 1_000_000 });
const views = [{ instrumentName: "payment.duration", aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM } }];
const meter = new MeterProvider({ resource, readers: [reader], views }).getMeter("shop", "0.9");
meter.createCounter("tickets", { unit: "{ticket}", description: "Tickets sold" }).add(3, { hall: "große Halle" });
meter.createUpDownCounter("seats").add(-2.5);
meter.createGauge("queue", { unit: "1" }).record(17, { vip: true });
const advice = { explicitBucketBoundaries: [10, 20.5, 100] };
const size = meter.createHistogram("order.size", { unit: "EUR", advice });
[5, 20.5, 250].forEach((euros) => size.record(euros, { hall: "B" }));
const duration = meter.createHistogram("payment.duration", { unit: "s" });
[0, 0.125, 3].forEach((seconds) => duration.record(seconds));
await reader.forceFlush();
write("metrics", JsonMetricsSerializer.serializeRequest(metrics.getMetrics()[0]));

const logs = new InMemoryLogRecordExporter();
const processors = [new SimpleLogRecordProcessor({ exporter: logs })];
const logger = new LoggerProvider({ resource, processors }).getLogger("shop");
const seats = { hall: "B", rows: [1, 2.5, null] };
const bodies = ["sold \"out\"\n🎫", seats, ["a", 1], new Uint8Array([0, 250, 255]), 42, 0.1, false];
bodies.forEach((body, index) => logger.emit({
  body, timestamp: [1_760_000_000, index], severityNumber: SeverityNumber.ERROR2, severityText: "ERROR",
  eventName: "sale", attributes: { index, nested: { deep: [true, "x"] } },
}));
write("logs", JsonLogsSerializer.serializeRequest(logs.getFinishedLogRecords()));
process.exit(0);
