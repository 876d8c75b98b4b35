use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn native() -> impl Strategy<Value = m::Histogram> {
    let spans = vec((-3..6_i32, 0..3_u32).prop_map(|(offset, length)| m::span(offset, length)), 0..3);
    let (counts, deltas) = (vec(-1.0..9.0, 0..4), vec(-2..9_i64, 0..4));
    (spans, counts, deltas, option::of(-6..10_i32), option::of(0.0..9.0), option::of(0..9_u64)).prop_map(
        |(positive_span, positive_count, positive_delta, schema, sample_count_float, zero_count)| m::Histogram {
            sample_count_float,
            schema,
            zero_count,
            positive_span,
            positive_count,
            positive_delta,
            ..Default::default()
        },
    )
}

fn classic() -> impl Strategy<Value = m::Histogram> {
    let bounds = vec((prop_oneof![-2.0..9.0, Just(f64::INFINITY), Just(f64::NAN)], 0..9_u64), 0..4);
    (bounds, option::of(0..9_u64), vec(("[a-z]{0,9}", 0..9_i64), 0..3)).prop_map(|(bounds, sample_count, exemplars)| {
        m::Histogram {
            sample_count,
            bucket: bounds.into_iter().map(|(bound, count)| m::bucket(bound, count)).collect(),
            exemplars: exemplars.into_iter().map(|(trace, time)| m::exemplar(&trace, time)).collect(),
            ..Default::default()
        }
    })
}

fn metric() -> impl Strategy<Value = m::Metric> {
    let exemplar = option::of(("[0-9a-f]{0,32}", -1..9_i64).prop_map(|(trace, time)| m::exemplar(&trace, time)));
    let created_timestamp = option::of((-1..9_i64).prop_map(m::seconds));
    let counter = (option::of(-1.0..9.0), exemplar, created_timestamp)
        .prop_map(|(value, exemplar, created_timestamp)| m::Counter { value, exemplar, created_timestamp });
    let quantile = (0.0..1.0, -9.0..9.0)
        .prop_map(|(quantile, value)| m::Quantile { quantile: Some(quantile), value: Some(value) });
    let summary = (option::of(0..9_u64), vec(quantile, 0..3)).prop_map(|(sample_count, quantile)| m::Summary {
        sample_count,
        quantile,
        ..Default::default()
    });
    let histogram = prop_oneof![native(), classic()];
    let labels = vec(("(job|x|y|le|otel_scope_name|otel_scope_y)", "[a-zé]{0,3}"), 0..3);
    (labels, counter, summary, histogram, option::of(-1..9_i64)).prop_map(
        |(labels, counter, summary, histogram, timestamp_ms)| m::Metric {
            label: labels.iter().map(|(name, value)| m::label(name, value)).collect(),
            gauge: Some(m::Number { value: counter.value }),
            untyped: Some(m::Number { value: counter.value }),
            counter: Some(counter),
            summary: Some(summary),
            histogram: Some(histogram),
            timestamp_ms,
        },
    )
}

fn family() -> impl Strategy<Value = m::MetricFamily> {
    (
        option::of("([abc]{0,2}|target_info|otel_scope_info)"),
        option::of(".{0,9}"),
        option::of(0..6_i32),
        vec(metric(), 0..4),
    )
        .prop_map(|(name, help, r#type, metric)| m::MetricFamily { name, help, r#type, metric, unit: None })
}

proptest! {
    /// Whatever pages follow each other: what comes of each can be read and is no larger than was said, and the same
    /// page again gives the same.
    #[test]
    fn whatever_is_on_pages_metrics_are_well_formed(pages in vec(vec(family(), 0..5), 1..4)) {
        let target_labels = vec![(b"x".to_vec(), b"target".to_vec())];
        let rules = PageRules { target_labels, track_timestamps_staleness: true, ..rules(page::Format::Protobuf) };
        let mut last_page = LastPage::default();
        for (time, families) in (1..).zip(&pages) {
            let (page, mut out) = (page_of(families), Vec::new());
            let Ok(survey) = Survey::of(&page, &rules) else { continue };
            let Ok(taken) = last_page.take(&page, &rules, time * T, &mut out) else { continue };
            let lines = view(&out);
            let new: Vec<_> = lines.iter().filter(|line| !line.contains(" gone @")).cloned().collect();
            prop_assert!(new.len() <= survey.points);
            prop_assert!(taken.samples >= taken.added + taken.repeated);
            let (mut again, before) = (Vec::new(), taken);
            let taken = last_page.take(&page, &rules, time * T, &mut again).unwrap();
            prop_assert!(again.len() <= survey.bytes, "{} of {}", again.len(), survey.bytes);
            prop_assert_eq!((taken.samples, taken.added, taken.is_same), (before.samples, 0, true));
            prop_assert_eq!(&view(&again), &new);
            let mut ends = Vec::new();
            last_page.append_stale_markers(|_| true, time * T, &mut ends).unwrap();
            prop_assert_eq!(all_points(&ends).len(), last_page.points.len());
        }
    }

    /// The reader takes no page for well formed that prost refuses.
    #[test]
    fn any_bytes_are_taken_or_refused(bytes in vec(any::<u8>(), 0..200), families in vec(family(), 0..3), at in 0..200_usize) {
        let mut page = page_of(&families);
        let at = at.min(page.len());
        page.splice(at.., bytes);
        let (mut last_page, mut out) = (LastPage::default(), Vec::new());
        let is_taken = last_page.take(&page, &rules(page::Format::Protobuf), T, &mut out).is_ok();
        if is_taken {
            let mut rest = page.as_slice();
            while !rest.is_empty() {
                prop_assert!(m::MetricFamily::decode_length_delimited(&mut rest).is_ok());
            }
        }
        last_page.mark_all_stale(2 * T, &mut out).unwrap();
        view(&out);
    }
}
