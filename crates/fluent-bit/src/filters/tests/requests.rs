//! Whole requests, and what holds for any filter and any line.

use proptest::prelude::*;
use serde_json::Value;
use weir_plan::{Date, DateFormat, Sink};

use super::*;
use crate::tests::{POD, request};

fn run(sections: &[&str], settings: &FluentBit, request: &[u8]) -> (Filtered, Vec<Value>) {
    let sections: Vec<_> = sections.iter().map(|text| section(text)).collect();
    let filters = Filters::compile(settings, &sections).unwrap();
    let mut paid = 0;
    let done = filters.apply_within(request, 1 << 20, &mut |more| {
        paid += more;
        true
    });
    let done = done.unwrap();
    let made = done.request.as_deref().unwrap_or(request);
    assert!(done.request.as_ref().is_none_or(|made| made.capacity() <= paid), "{paid} bytes are paid for");
    weir_otlp::validate(weir_otlp::Signal::Logs, made, &weir_otlp::Limits::default()).unwrap();
    let size = crate::measure(settings, &[made]);
    let body = crate::write(settings, &[made], size);
    (done, serde_json::from_slice(&body).unwrap())
}

#[test]
fn records_that_stay_keep_their_bytes() {
    let request = request(&POD, &["a", "b", "c"]);
    let (done, records) = run(&["Name grep\nExclude log none"], &settings(FluentBitFormat::Json), &request);
    assert_eq!((done.request, records.len()), (None, 3));
    let (done, records) = run(&["Name grep\nExclude log b"], &settings(FluentBitFormat::Json), &request);
    assert_eq!((done.tallies[0].dropped, records.len()), (1, 2));
    assert!(done.request.unwrap().len() < request.len());
    let (done, _) = run(&["Name grep\nRegex log none"], &settings(FluentBitFormat::Json), &request);
    assert_eq!(done.request, Some(Vec::new()), "nothing is left of it");
}

/// What is known of the pod is not repeated for each record, as long as no filter changes it.
#[test]
fn what_is_known_of_a_pod_stays_with_the_resource() {
    let texts: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let large = "x".repeat(10_000);
    let pod = [("k8s.namespace.name", "shop"), ("k8s.pod.label.large", large.as_str())];
    let request = request(&pod, &texts);
    let settings = FluentBit { dedot: true, ..settings(FluentBitFormat::Json) };
    let (done, records) = run(&["Name modify\nSet a b"], &settings, &request);
    assert!(done.request.unwrap().len() < request.len() + 100 * 300);
    assert!(records.iter().all(|record| record["kubernetes"]["labels"]["large"] == large && record["a"] == "b"));
}

#[test]
fn a_record_that_is_changed_is_otherwise_as_it_was() {
    let request = request(&POD, &["a \"line\"", r#"{"level":"warn","time":5,"kubernetes":1}"#]);
    let kept =
        FluentBit { keep_original_body: true, dedot: true, annotations: true, ..settings(FluentBitFormat::Json) };
    for date in [Some("date"), Some("time"), None] {
        for kyma in [false, true] {
            let date = Date { key: date.map(str::to_owned), format: DateFormat::Double };
            let settings = FluentBit { date, kyma, ..kept.clone() };
            let (_, mut changed) = run(&["Name modify\nSet added yes"], &settings, &request);
            let (_, same) = run(&["Name grep\nExclude none x"], &settings, &request);
            for record in &mut changed {
                assert_eq!(record.as_object_mut().unwrap().remove("added"), Some(json!("yes")));
            }
            assert_eq!(changed, same);
            // The same if a filter has had its hands on what is known of the pod.
            let lift = "Name nest\nOperation lift\nNested_under kubernetes\nAdd_prefix k8s_";
            let nest = "Name nest\nOperation nest\nWildcard k8s_*\nNest_under kubernetes\nRemove_prefix k8s_";
            assert_eq!(run(&[lift, nest], &settings, &request).1, same);
        }
    }
}

#[test]
fn without_memory_nothing_is_made() {
    let request = request(&POD, &["a"; 1000]);
    let filters = filters(&["Name modify\nSet a b"]);
    let mut left = 20_000_usize;
    let done = filters.apply_within(&request, 1 << 20, &mut |more| match left.checked_sub(more) {
        Some(less) => {
            left = less;
            true
        }
        None => false,
    });
    assert_eq!(done, Err(NoRoom));
}

fn any_filter() -> BoxedStrategy<String> {
    let name = prop_oneof!["[a-d]", "log", "kubernetes", "labels", "\\PC{0,3}"];
    let plugin = prop_oneof![
        (name.clone(), name.clone())
            .prop_map(|(a, b)| format!("Name modify\nSet {a} {b}\nRename {b} {a}\nHard_copy {a} {b}")),
        name.clone().prop_map(|a| format!("Name nest\nOperation nest\nWildcard {a}*\nNest_under {a}\nAdd_prefix {a}")),
        name.clone().prop_map(|a| format!("Name nest\nOperation lift\nNested_under {a}\nRemove_prefix {a}")),
        name.clone().prop_map(|a| format!("Name parser\nKey_Name {a}\nParser json\nParser logfmt\nReserve_Data on")),
        name.clone().prop_map(|a| format!("Name record_modifier\nRecord {a} {a}\nRemove_key {a}*")),
        name.prop_map(|a| format!("Name grep\nExclude {a} [0-9]")),
    ];
    plugin.boxed()
}

fn any_line() -> BoxedStrategy<String> {
    prop_oneof![
        "\\PC{0,20}",
        r#"\{("[a-d]":("x"|1|\{"a":"b"\}|"a=b c"),){0,4}"log":"(x|\{\}|\\u00e9)"\}"#,
        any::<String>(),
    ]
    .boxed()
}

proptest! {
    /// FLUENT-4
    #[test]
    fn filters_make_valid_records_of_any_line(
        texts in prop::collection::vec(any_line(), 0..5),
        sections in prop::collection::vec(any_filter(), 1..5),
        dedot in any::<bool>(),
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let request = request(&POD, &texts);
        let sections: Vec<Section> = sections.iter().filter_map(|text| {
            let lines = text::lines(text).ok()?;
            Some(Section { lines: lines.into_iter().map(|line| SectionLine {
                number: line.number, key: line.key.to_ascii_lowercase(), value: Secret::new(line.value),
            }).collect() })
        }).collect();
        let settings = FluentBit { dedot, to: Sink::Stdout, ..settings(FluentBitFormat::Json) };
        let Ok(filters) = Filters::compile(&settings, &sections) else { return Ok(()) };
        let done = filters.apply_within(&request, 1 << 20, &mut |_| true).unwrap();
        let made = done.request.unwrap_or(request);
        weir_otlp::validate(weir_otlp::Signal::Logs, &made, &weir_otlp::Limits::default()).unwrap();
        let dropped: u64 = done.tallies.iter().map(|tally| tally.dropped).sum();
        for format in [FluentBitFormat::Json, FluentBitFormat::MsgPack, FluentBitFormat::Gelf] {
            let settings = FluentBit { format, ..settings.clone() };
            let size = crate::measure(&settings, &[&made]);
            prop_assert_eq!(size.records as u64, texts.len() as u64 - dropped);
            let body = crate::write(&settings, &[&made], size);
            if format == FluentBitFormat::Json {
                let records: Vec<Value> = serde_json::from_slice(&body).unwrap();
                // A record that cannot be read would be text, and have no other field of the line.
                prop_assert!(records.iter().all(|record| record.is_object()));
            }
        }
    }

    #[test]
    fn no_text_and_no_pattern_is_too_much(text in any::<String>(), pattern in "[\\\\(){}\\[\\]?*+<>=!^$|:a-z0-9&~-]{0,20}") {
        let _ = text::lines(&text);
        let _ = text::pieces(&text);
        let _ = super::pattern::Pattern::new(&pattern).map(|pattern| pattern.is_match(&text));
        let _ = super::accessor::Accessor::parse(&format!("${pattern}"));
        let section = Section { lines: vec![
            SectionLine { number: 1, key: "name".to_owned(), value: Secret::new("modify") },
            SectionLine { number: 2, key: "set".to_owned(), value: Secret::new(text) },
        ] };
        let _ = Filters::compile(&settings(FluentBitFormat::Json), &[section]);
    }
}
