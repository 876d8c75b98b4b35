import io.opentelemetry.exporter.otlp.http.logs.OtlpHttpLogRecordExporter;
import io.opentelemetry.exporter.otlp.http.metrics.OtlpHttpMetricExporter;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.exporter.otlp.logs.OtlpGrpcLogRecordExporter;
import io.opentelemetry.exporter.otlp.metrics.OtlpGrpcMetricExporter;
import io.opentelemetry.exporter.otlp.trace.OtlpGrpcSpanExporter;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.logs.export.LogRecordExporter;
import io.opentelemetry.sdk.metrics.InstrumentType;
import io.opentelemetry.sdk.metrics.data.AggregationTemporality;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.metrics.export.MetricExporter;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import java.util.Collection;
import java.util.List;
import java.util.function.Function;

/** Exporters that send each batch to every endpoint. */
record Tee(boolean grpc, List<String> endpoints) {
    Tee(String protocol, List<String> endpoints) {
        this(protocol.equals("grpc"), endpoints);
    }

    SpanExporter spans() {
        return SpanExporter.composite(each(endpoint -> grpc
                ? OtlpGrpcSpanExporter.builder().setEndpoint(endpoint).build()
                : OtlpHttpSpanExporter.builder().setEndpoint(endpoint + "/v1/traces").build()));
    }

    LogRecordExporter logRecords() {
        return LogRecordExporter.composite(each(endpoint -> grpc
                ? OtlpGrpcLogRecordExporter.builder().setEndpoint(endpoint).build()
                : OtlpHttpLogRecordExporter.builder().setEndpoint(endpoint + "/v1/logs").build()));
    }

    MetricExporter metrics() {
        return new Metrics(each(endpoint -> grpc
                ? OtlpGrpcMetricExporter.builder().setEndpoint(endpoint).build()
                : OtlpHttpMetricExporter.builder().setEndpoint(endpoint + "/v1/metrics").build()));
    }

    private <T> List<T> each(Function<String, T> exporter) {
        return endpoints.stream().map(endpoint -> exporter.apply("http://" + endpoint)).toList();
    }

    /** One collection for all endpoints: two readers would send points of different times. */
    private record Metrics(List<MetricExporter> all) implements MetricExporter {
        @Override
        public AggregationTemporality getAggregationTemporality(InstrumentType type) {
            return AggregationTemporality.CUMULATIVE;
        }

        @Override
        public CompletableResultCode export(Collection<MetricData> metrics) {
            return CompletableResultCode.ofAll(all.stream().map(exporter -> exporter.export(metrics)).toList());
        }

        @Override
        public CompletableResultCode flush() {
            return CompletableResultCode.ofAll(all.stream().map(MetricExporter::flush).toList());
        }

        @Override
        public CompletableResultCode shutdown() {
            return CompletableResultCode.ofAll(all.stream().map(MetricExporter::shutdown).toList());
        }
    }
}
