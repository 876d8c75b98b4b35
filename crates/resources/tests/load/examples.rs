//! The examples that ship with the project load without a warning.

use std::path::PathBuf;

use weir_resources::{Files, load};

use crate::options;

pub(crate) fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn every_example_loads_without_warnings() {
    let mut sources = Files::read(&[examples()]).sources;
    // Beside them lies a sample of telemetry.
    sources.retain(|source| source.name.ends_with(".yaml"));
    assert!(sources.len() >= 7, "examples are missing");
    for source in sources {
        let name = source.name.clone();
        let loaded = load(&[source], &options()).unwrap_or_else(|report| panic!("{name}:\n{report}"));
        assert!(loaded.warnings.is_empty() || name.ends_with("fluent-bit.yaml"), "{name}: {:?}", loaded.warnings);
    }
}

#[test]
fn what_is_in_the_language_of_fluent_bit_is_warned_of_and_carried_out() {
    let loaded = Files::read(&[examples().join("fluent-bit.yaml")]).load(&options()).unwrap();
    let pipelines = loaded.plan.pipelines.iter();
    let pipelines: Vec<_> = pipelines.map(|pipeline| (&*pipeline.id.name, pipeline.unsupported_mode)).collect();
    assert_eq!(pipelines, [("http", false), ("custom", true), ("otlp", false)]);
    let sections = &loaded.plan.pipelines[1].processing.sections;
    assert_eq!(sections.iter().map(|section| section.lines.len()).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(sections[1].lines[1].value.reveal(), "tenant shop", "a variable has its value");
    let deprecated = loaded.warnings.iter().filter(|warning| warning.message.contains("deprecated FluentBit"));
    assert_eq!(deprecated.count(), loaded.warnings.len());
}
