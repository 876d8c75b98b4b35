import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.DoubleCounter;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.LongCounter;
import io.opentelemetry.api.metrics.LongGauge;
import io.opentelemetry.api.metrics.LongHistogram;
import io.opentelemetry.api.metrics.LongUpDownCounter;
import io.opentelemetry.api.metrics.Meter;
import java.util.List;

/** One synchronous instrument of each kind. */
final class Instruments {
    private final LongCounter placed;
    private final DoubleCounter value;
    private final LongUpDownCounter open;
    private final LongGauge length;
    private final LongHistogram size;
    private final DoubleHistogram duration;

    Instruments(Meter meter) {
        placed = meter.counterBuilder("orders.placed").setUnit("{order}").setDescription("Orders placed").build();
        value = meter.counterBuilder("orders.value").ofDoubles().setUnit("EUR").setDescription("What they are worth").build();
        open = meter.upDownCounterBuilder("orders.open").setUnit("{order}").setDescription("Orders not closed").build();
        length = meter.gaugeBuilder("queue.length").ofLongs().setUnit("{order}").setDescription("Orders that wait").build();
        size = meter.histogramBuilder("order.size").ofLongs().setUnit("By").setExplicitBucketBoundariesAdvice(List.of(1L, 10L, 100L)).build();
        duration = meter.histogramBuilder("order.duration").setUnit("s").setDescription("Time taken").build();
    }

    void record(int round, int number, String route) {
        Attributes attributes = Attributes.builder()
                .put("http.route", route)
                .put("retry", number == 1)
                .put("shard", number)
                .put("weight", 0.25)
                .build();
        placed.add(1 + round, attributes);
        value.add(0.5 + number, attributes);
        open.add(3 - 2 * round, attributes);
        length.set(number * 10L + round, attributes);
        for (int step = 0; step < 5; step++) {
            size.record(3L * step * (number + 1), attributes);
            duration.record(0.001 * Math.pow(7, step + round), attributes);
        }
    }
}
