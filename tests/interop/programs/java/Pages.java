import io.prometheus.metrics.core.metrics.Counter;
import io.prometheus.metrics.core.metrics.Gauge;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.core.metrics.Info;
import io.prometheus.metrics.core.metrics.StateSet;
import io.prometheus.metrics.core.metrics.Summary;
import io.prometheus.metrics.expositionformats.ExpositionFormatWriter;
import io.prometheus.metrics.expositionformats.OpenMetricsTextFormatWriter;
import io.prometheus.metrics.expositionformats.PrometheusTextFormatWriter;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import io.prometheus.metrics.model.snapshots.Labels;
import io.prometheus.metrics.model.snapshots.Unit;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes pages of Prometheus's client library for Java into a directory: of every type, in both formats, twice. */
public final class Pages {
    private static final String TRACE = "0123456789abcdef0123456789abcdef";

    private final PrometheusRegistry registry = new PrometheusRegistry();
    private final Counter counter = Counter.builder().name("jobs_seconds_total").help("Time \"spent\" on\njobs\\.")
            .unit(Unit.SECONDS).labelNames("kind").register(registry);
    private final Gauge gauge = Gauge.builder().name("temperature").help("In the room.").register(registry);
    private final Histogram histogram = Histogram.builder().name("latency_seconds").help("Of requests.").unit(Unit.SECONDS)
            .classicOnly().classicUpperBounds(0.1, 1, 10).labelNames("path").register(registry);
    private final Summary summary = Summary.builder().name("size_bytes").help("Of answers.").unit(Unit.BYTES)
            .quantile(0.5, 0.01).quantile(0.95, 0.005).register(registry);

    private Pages() {
        Info.builder().name("build_info").help("What runs.").labelNames("version").register(registry).setLabelValues("1");
        StateSet.builder().name("feature").help("What is on.").states("a", "b").register(registry).setTrue("a");
        Gauge.builder().name("never.used").help("A name with a dot.").register(registry).set(Double.NaN);
    }

    private void work() {
        counter.labelValues("quick").inc(1.5);
        counter.labelValues("a \"quoted\"\nword\\").incWithExemplar(2, Labels.of("trace_id", TRACE, "span_id", "0123456789abcdef"));
        gauge.set(gauge.get() - 7.25);
        for (double seconds : new double[] {0.05, 0.5, 5, 50}) {
            histogram.labelValues("/").observeWithExemplar(seconds, Labels.of("trace_id", TRACE));
            summary.observe(seconds * 1000);
        }
    }

    private void write(ExpositionFormatWriter writer, Path file) throws IOException {
        try (OutputStream out = Files.newOutputStream(file)) {
            writer.write(out, registry.scrape());
        }
    }

    public static void main(String[] args) throws IOException {
        Pages pages = new Pages();
        Path directory = Path.of(args[0]);
        for (int turn = 0; turn < 2; turn++) {
            pages.work();
            pages.write(PrometheusTextFormatWriter.builder().build(), directory.resolve("text-" + turn));
            pages.write(OpenMetricsTextFormatWriter.builder().setCreatedTimestampsEnabled(true).build(),
                    directory.resolve("openmetrics-" + turn));
        }
    }
}
