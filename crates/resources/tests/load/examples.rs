//! The examples that ship with the project load, without a warning but for what is not active yet.

use std::path::PathBuf;

use weir_resources::{Files, load};

use crate::options;

pub(crate) fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn every_example_loads_without_warnings() {
    let sources = Files::read(&[examples()]).sources;
    assert!(sources.len() >= 7, "examples are missing");
    for source in sources {
        let name = source.name.clone();
        let loaded = load(&[source], &options()).unwrap_or_else(|report| panic!("{name}:\n{report}"));
        assert!(loaded.warnings.is_empty() || name.ends_with("fluent-bit.yaml"), "{name}: {:?}", loaded.warnings);
    }
}

#[test]
fn what_is_in_the_language_of_fluent_bit_is_warned_of_and_left_out() {
    let loaded = Files::read(&[examples().join("fluent-bit.yaml")]).load(&options()).unwrap();
    let names: Vec<_> = loaded.plan.pipelines.iter().map(|pipeline| pipeline.id.name.as_str()).collect();
    assert_eq!(names, ["http", "otlp"]);
    let inactive = loaded.warnings.iter().filter(|warning| warning.message.starts_with("not active yet: "));
    let fields: Vec<_> = inactive.map(|warning| warning.field.as_str()).collect();
    assert_eq!(fields, ["spec.filters", "spec.files", "spec.variables", "spec.output.custom"]);
}
