//! Validation against prost: what we accept it accepts with the same counts, and what it refuses we refuse.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::requests::{decode, signal};
use weir_otlp::metrics::{Data, ExponentialHistogramDataPoint, HistogramDataPoint};
use weir_otlp::{Error, Limits, Problem, Signal, count, logs, metrics, partial_success, status, traces, validate};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let signal = signal(choice);
    drop(partial_success(bytes));
    status::decode(bytes);
    let items_in_views = through_views(signal, bytes);
    let counted = count(signal, bytes);
    let limits = Limits { max_depth: 99, max_items: u32::MAX };
    match (validate(signal, bytes, &limits), decode(signal, bytes)) {
        (Ok(counts), Some(theirs)) => {
            assert_eq!((counts.items as usize, counts.resources as usize), (theirs.items, theirs.resources));
            assert_eq!((counted as usize, items_in_views), (theirs.items, theirs.items));
        }
        (Ok(_), None) => panic!("we accept what prost refuses"),
        (Err(Error::Wire { problem: Problem::Group | Problem::Duplicate | Problem::Depth(_), .. }), _) => {}
        (Err(error), Some(_)) => panic!("we refuse what prost accepts: {error}"),
        (Err(_), None) => {}
    }
});

/// Reads what leads to memory or arithmetic; counts the items.
fn through_views(signal: Signal, bytes: &[u8]) -> usize {
    match signal {
        Signal::Traces => {
            let scopes = traces::resource_spans(bytes).flat_map(|all| all.scope_spans());
            let spans = scopes.flat_map(|scope| scope.spans());
            spans.map(|span| span.attributes().for_each(|one| _ = black_box((one.key(), one.value())))).count()
        }
        Signal::Metrics => {
            let scopes = metrics::resource_metrics(bytes).flat_map(|all| all.scope_metrics());
            let data = scopes.flat_map(|scope| scope.metrics()).filter_map(|metric| metric.data());
            data.map(data_points).sum()
        }
        Signal::Logs => {
            let scopes = logs::resource_logs(bytes).flat_map(|all| all.scope_logs());
            let records = scopes.flat_map(|scope| scope.log_records());
            let read = records.inspect(|record| {
                black_box((record.body(), record.severity_text(), record.attributes().count()));
            });
            read.count()
        }
    }
}

fn data_points(data: Data<'_>) -> usize {
    match data {
        Data::Histogram(_) => {
            for point in data.data_points().map(HistogramDataPoint) {
                black_box((point.bucket_counts().count(), point.explicit_bounds().count(), point.exemplars().count()));
            }
        }
        Data::ExponentialHistogram(_) => {
            for point in data.data_points().map(ExponentialHistogramDataPoint) {
                let buckets = point.positive().into_iter().chain(point.negative());
                buckets.for_each(|buckets| _ = black_box((buckets.offset(), buckets.bucket_counts().count())));
            }
        }
        Data::Gauge(_) | Data::Sum(_) | Data::Summary(_) => {}
    }
    data.data_points().count()
}
