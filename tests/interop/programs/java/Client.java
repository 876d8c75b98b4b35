import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.KeyValue;
import io.opentelemetry.api.common.Value;
import io.opentelemetry.api.logs.LogRecordBuilder;
import io.opentelemetry.api.logs.Logger;
import io.opentelemetry.api.logs.Severity;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import io.opentelemetry.sdk.metrics.Aggregation;
import io.opentelemetry.sdk.metrics.Base2ExponentialHistogramOptions;
import io.opentelemetry.sdk.metrics.InstrumentSelector;
import io.opentelemetry.sdk.metrics.View;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Sends a known set of spans, metrics and log records with the OpenTelemetry SDK for Java.
 *
 * <pre>java Client grpc|http ENDPOINT...</pre>
 *
 * Each batch goes to every endpoint (HOST:PORT), so that what one of them got is what all of them were sent. The resource
 * comes from OTEL_RESOURCE_ATTRIBUTES. Every part of the data model that the SDK has is used.
 */
public final class Client {
    private static final int SPANS = 200;
    private static final int LOG_RECORDS = 104;
    private static final int ROUNDS = 3;
    private static final List<String> ROUTES = List.of("/orders", "/cart", "/healthz");
    private static final long EPOCH_NS = 1_700_000_000_000_000_000L;
    private static final String SCHEMA_URL = "https://opentelemetry.io/schemas/1.27.0";
    private static final SpanContext REMOTE = SpanContext.createFromRemoteParent(
            "00000000000000000000000000a1b2c3",
            "0000000000d4e5f6",
            TraceFlags.getSampled(),
            TraceState.builder().put("other", "1").put("vendor", "interop").build());
    private static final AttributeKey<String> STATE = AttributeKey.stringKey("state");

    private Client() {}

    public static void main(String[] arguments) {
        Tee tee = new Tee(arguments[0], List.of(arguments).subList(1, arguments.length));
        Base2ExponentialHistogramOptions buckets = Base2ExponentialHistogramOptions.builder().setMaxBuckets(8).build();
        View exponential = View.builder().setAggregation(Aggregation.base2ExponentialBucketHistogram(buckets)).build();
        InstrumentSelector durations = InstrumentSelector.builder().setName("order.duration").build();
        OpenTelemetrySdk sdk = AutoConfiguredOpenTelemetrySdk.builder()
                .addPropertiesSupplier(() -> Map.of("otel.metric.export.interval", "3600000"))
                .addSpanExporterCustomizer((exporter, config) -> tee.spans())
                .addMetricExporterCustomizer((exporter, config) -> tee.metrics())
                .addLogRecordExporterCustomizer((exporter, config) -> tee.logRecords())
                .addMeterProviderCustomizer((provider, config) -> provider.registerView(durations, exponential))
                .build()
                .getOpenTelemetrySdk();
        sendSpans(sdk);
        sendMetrics(sdk);
        sendLogs(sdk);
        sdk.shutdown().join(30, TimeUnit.SECONDS);
    }

    private static void sendSpans(OpenTelemetry sdk) {
        Tracer tracer = sdk.tracerBuilder("interop.traces").setInstrumentationVersion("0.1.0").setSchemaUrl(SCHEMA_URL).build();
        SpanContext root = REMOTE;
        for (int index = 0; index < SPANS; index++) {
            long start = EPOCH_NS + index * 1_000L;
            SpanBuilder builder = tracer.spanBuilder("operation " + index % 7)
                    .setSpanKind(SpanKind.values()[index % SpanKind.values().length])
                    .setAllAttributes(spanAttributes(index))
                    .setStartTimestamp(start, TimeUnit.NANOSECONDS)
                    .setParent(index == 0 || index % 5 != 0 ? in(root) : Context.root());
            if (index % 4 == 0) {
                builder.addLink(root, Attributes.builder().put("link.index", index).build());
            }
            Span span = builder.startSpan();
            if (index % 3 == 0) {
                Attributes attributes = Attributes.builder().put("attempt", index).put("reasons", "timeout", "reset").build();
                span.addEvent("retried", attributes, start + 10, TimeUnit.NANOSECONDS);
                span.addEvent("gave up", start + 20, TimeUnit.NANOSECONDS);
            }
            if (index % 5 == 1) {
                span.setStatus(StatusCode.OK);
            } else if (index % 5 == 2) {
                span.setStatus(StatusCode.ERROR, "failed: " + index);
            }
            span.end(start + 500, TimeUnit.NANOSECONDS);
            if (index % 5 == 0) {
                root = span.getSpanContext();
            }
        }
    }

    private static Context in(SpanContext context) {
        return Context.root().with(Span.wrap(context));
    }

    private static Attributes spanAttributes(int index) {
        return Attributes.builder()
                .put("index", index)
                .put("negative", -index)
                .put("large", (1L << 62) + index)
                .put("ratio", index + 0.5)
                .put("even", index % 2 == 0)
                .put("text", "žluťoučký kůň " + index + " 🚀")
                .put("empty", "")
                .put("url.path", index % 10 == 3 ? "/healthz/ready" : "/orders/" + index)
                .put("names", "a", "b", Integer.toString(index))
                .put("numbers", 1L, -2L, index)
                .put("ratios", 0.5, -1.25)
                .put("flags", true, false)
                .put("bytes", Value.of(new byte[] {1, 2, -1}))
                .put("map", nested())
                .build();
    }

    private static Value<?> nested() {
        Value<?> more = Value.of(KeyValue.of("more", Value.of(Value.of(1), Value.of("two"))));
        return Value.of(KeyValue.of("depth", more), KeyValue.of("text", Value.of("t")));
    }

    private static void sendMetrics(OpenTelemetrySdk sdk) {
        Meter meter = sdk.meterBuilder("interop.metrics").setInstrumentationVersion("0.2.0").setSchemaUrl(SCHEMA_URL).build();
        Instruments instruments = new Instruments(meter);
        AtomicLong ticks = new AtomicLong(100);
        Attributes user = Attributes.of(STATE, "user");
        meter.counterBuilder("cpu.time").setUnit("s").buildWithCallback(result -> result.record(ticks.addAndGet(10), user));
        meter.gaugeBuilder("temperature").setUnit("Cel").buildWithCallback(result -> result.record(36.6, user));
        meter.upDownCounterBuilder("connections").buildWithCallback(result -> result.record(-4, user));
        // Inside of a sampled span, measurements become exemplars.
        try (Scope ignored = in(REMOTE).makeCurrent()) {
            for (int round = 0; round < ROUNDS; round++) {
                for (int number = 0; number < ROUTES.size(); number++) {
                    instruments.record(round, number, ROUTES.get(number));
                }
                sdk.getSdkMeterProvider().forceFlush().join(30, TimeUnit.SECONDS);
            }
        }
    }

    private static void sendLogs(OpenTelemetry sdk) {
        Logger logger = sdk.getLogsBridge().loggerBuilder("interop.logs").setInstrumentationVersion("0.3.0").setSchemaUrl(SCHEMA_URL).build();
        for (int index = 0; index < LOG_RECORDS; index++) {
            LogRecordBuilder log = logger.logRecordBuilder()
                    .setTimestamp(EPOCH_NS + index, TimeUnit.NANOSECONDS)
                    .setObservedTimestamp(EPOCH_NS + index + 5, TimeUnit.NANOSECONDS)
                    .setContext(index % 2 == 1 ? in(REMOTE) : Context.root())
                    .setAllAttributes(logAttributes(index));
            Severity severity = Severity.values()[index % Severity.values().length];
            if (severity != Severity.UNDEFINED_SEVERITY_NUMBER) {
                log.setSeverity(severity).setSeverityText(severity.name());
            }
            Value<?> body = BODIES.get(index % BODIES.size());
            if (body != Value.empty()) {
                log.setBody(body);
            }
            if (index % 4 == 0) {
                log.setEventName("order.placed");
            }
            log.emit();
        }
    }

    private static final List<Value<?>> BODIES = List.of(
            Value.of("order placed: žluťoučký kůň"),
            Value.of("GET /healthz/ready"),
            Value.of(-42),
            Value.of(3.5),
            Value.of(true),
            Value.of(new byte[] {0, -1, -2}),
            Value.of(Value.of("a"), Value.of(1), Value.of(2.5), Value.of(false), Value.empty(), Value.of(Value.of("nested"))),
            Value.of(KeyValue.of("order", nested()), KeyValue.of("ok", Value.of(true)), KeyValue.of("none", Value.empty())),
            Value.empty());

    private static Attributes logAttributes(int index) {
        return Attributes.builder()
                .put("index", index)
                .put("ratio", index + 0.5)
                .put("even", index % 2 == 0)
                .put("text", "line one\nline two\t\"quoted\"")
                .put("bytes", Value.of(new byte[] {1, 2, -1}))
                .put("list", "a", "b")
                .put("map", nested())
                .build();
    }
}
