//! What is remembered, counted by the allocator: it takes no more than is said of it, whatever was there before.

use weir_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

#[cfg(test)]
mod remembered {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::{
        AggregationTemporality, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
        Sum, metric, number_data_point,
    };
    use prost::Message;
    use weir_temporality::{Converter, Limits, Undo};

    use super::ALLOCATOR;

    const LIMIT: usize = 4 << 20;
    const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
    const BUCKETS: usize = 1000;

    fn request(name: String, data: metric::Data) -> Vec<u8> {
        let metrics = vec![Metric { name, data: Some(data), ..Metric::default() }];
        let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
        let resource_metrics = vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }];
        ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
    }

    fn sum(number: usize, time_unix_nano: u64) -> Vec<u8> {
        let value = Some(number_data_point::Value::AsInt(i64::try_from(time_unix_nano).unwrap()));
        let data_points =
            vec![NumberDataPoint { start_time_unix_nano: 1, time_unix_nano, value, ..NumberDataPoint::default() }];
        let sum = Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true };
        request(format!("sum {number}"), metric::Data::Sum(sum))
    }

    fn histogram(number: usize) -> Vec<u8> {
        // Counts that cannot be packed.
        let bucket_counts: Vec<u64> = (0..BUCKETS as u64).map(|bucket| bucket << 40 | 0xff_ffff_ffff).collect();
        let explicit_bounds = (1..BUCKETS).map(|bound| bound as f64).collect();
        let (count, time_unix_nano) = (bucket_counts.iter().sum(), 10);
        let point = HistogramDataPoint {
            time_unix_nano,
            count,
            bucket_counts,
            explicit_bounds,
            ..HistogramDataPoint::default()
        };
        let data = Histogram { data_points: vec![point], aggregation_temporality: CUMULATIVE };
        request(format!("histogram {number}"), metric::Data::Histogram(data))
    }

    /// Converts what one point is.
    fn convert(converter: &mut Converter, request: &[u8], now: u64) -> Undo {
        converter.convert(request, now).unwrap().undo
    }

    /// A snapshot takes what is paid for it: of all series that of the largest.
    fn write_snapshot(converter: &Converter) {
        let mut paid = 0;
        let before = ALLOCATOR.begin();
        let mut pay = |bytes| {
            paid += bytes;
            true
        };
        converter.write_snapshot(&mut std::io::sink(), &mut pay).unwrap();
        let taken = ALLOCATOR.most() - before;
        // The hash has a KiB for itself.
        assert!(taken <= paid + 1024 && paid < 20 * BUCKETS * 8, "{taken} bytes, {paid} paid for");
        let refused = converter.write_snapshot(&mut std::io::sink(), &mut |_| false).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::OutOfMemory);
    }

    /// In one test, as there is one allocator.
    #[test]
    fn what_is_forgotten_leaves_nothing_behind() {
        let before = ALLOCATOR.used();
        let used = || ALLOCATOR.used() - before;
        let mut converter = Converter::new(Limits { max_bytes: LIMIT, ..Limits::default() }, 0);

        // As many sums as there is room for, then histograms in their place.
        (0..2 * LIMIT / 96).for_each(|number| drop(convert(&mut converter, &sum(number, 10), 10)));
        let sums = converter.series();
        assert!(used() <= LIMIT, "{} bytes for {sums} sums", used());
        write_snapshot(&converter);
        (0..2 * LIMIT / BUCKETS).for_each(|number| drop(convert(&mut converter, &histogram(number), 10)));
        let histograms = converter.series();
        assert!(histograms < sums / 8 && used() <= LIMIT, "{} bytes for {histograms} histograms", used());
        write_snapshot(&converter);

        // All of them leave, and what was owed is settled.
        converter.set_max_bytes(0);
        assert!(converter.series() == 0 && used() < LIMIT / 1000, "{} bytes for nothing", used());
        converter.set_max_bytes(LIMIT);
        let numbers = 0..LIMIT / 300;
        numbers.clone().for_each(|number| drop(convert(&mut converter, &sum(number, 20), 20)));
        let refused: Vec<_> = numbers.clone().map(|number| convert(&mut converter, &sum(number, 30), 30)).collect();
        numbers.clone().for_each(|number| drop(convert(&mut converter, &sum(number, 40), 40)));
        let owed: u64 = refused.into_iter().map(|undo| converter.undo(undo).owed).sum();
        assert_eq!(owed, numbers.len() as u64);
        assert!(used() <= converter.bytes(), "{} bytes for {}", used(), converter.bytes());
        numbers.clone().for_each(|number| drop(convert(&mut converter, &sum(number, 50), 50)));
        assert_eq!(converter.series(), numbers.len());
        assert!(used() <= converter.bytes(), "{} bytes for {}", used(), converter.bytes());

        // There is not room for all that is owed.
        let numbers = 0..sums;
        numbers.clone().for_each(|number| drop(convert(&mut converter, &sum(number, 60), 60)));
        let refused: Vec<_> = numbers.clone().map(|number| convert(&mut converter, &sum(number, 70), 70)).collect();
        numbers.for_each(|number| drop(convert(&mut converter, &sum(number, 80), 80)));
        let forgotten: u64 = refused.into_iter().map(|undo| converter.undo(undo).forgotten.memory).sum();
        assert!(forgotten > 0 && used() <= LIMIT, "{} bytes with {forgotten} forgotten", used());
    }
}
